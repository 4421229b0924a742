//! Why a call did not succeed.

use std::fmt;
use std::io;

use serde::Serialize;

use crate::bindings::cofferdam::host::files::Refusal;
use crate::bindings::cofferdam::tool::types;
use crate::files::last_refusal;

pub use types::ErrorKind;

/// An answer that is no success: a kind that the host branches on, a code that is stable for
/// this tool, a message for the caller and, where the tool's contract has one, the failure
/// document.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// What sort of failure this is.
    pub kind: ErrorKind,
    /// Stable name, such as `InvalidRegex`.
    pub code: String,
    /// What was wrong, where, and what would be right.
    pub message: String,
    /// The failure document of the tool's contract.
    pub detail: Option<Box<serde_json::Value>>,
}

impl ToolError {
    /// A failure of the given kind.
    pub fn new(kind: ErrorKind, code: &str, message: impl Into<String>) -> Self {
        Self { kind, code: code.to_owned(), message: message.into(), detail: None }
    }
    /// The arguments fit the schema but make no sense.
    pub fn invalid_args(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgs, code, message)
    }
    /// Something that the call names does not exist.
    pub fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, code, message)
    }
    /// The workspace is not as the call expects it.
    pub fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, code, message)
    }
    /// The call may not do this.
    pub fn denied(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, code, message)
    }
    /// Too much of something.
    pub fn limit(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, code, message)
    }
    /// Something that the tool relies on is not there.
    pub fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, code, message)
    }
    /// Anything else that went wrong.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, code, message)
    }
    /// Adds the failure document. One that can't be written as JSON is left out.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Serialize) -> Self {
        self.detail = serde_json::to_value(detail).ok().map(Box::new);
        self
    }
    /// The manifest names a tool that the plugin does not have.
    #[doc(hidden)]
    pub fn unknown_tool(name: &str) -> Self {
        Self::failed("UnknownTool", format!("the plugin has no tool '{name}'"))
    }
    /// An error of the file system about `path`.
    ///
    /// The codes are the names of Python's exceptions, as agents know them, and
    /// `UnsupportedFile` for what the host never changes, such as a file with several hard
    /// links. To be called before anything else is done with a file: the host only remembers
    /// why it refused the last thing.
    pub fn io(path: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => {
                Self::not_found("FileNotFoundError", format!("file not found: {path}"))
            }
            io::ErrorKind::AlreadyExists => {
                Self::conflict("FileExistsError", format!("{path} exists already"))
            }
            io::ErrorKind::PermissionDenied => match last_refusal() {
                Some(Refusal { unsupported: true, reason }) => {
                    Self::invalid_args("UnsupportedFile", reason)
                }
                Some(Refusal { unsupported: false, reason }) => {
                    Self::denied("PermissionError", format!("permission denied: {reason}"))
                }
                None => Self::denied("PermissionError", format!("permission denied: {path}")),
            },
            io::ErrorKind::IsADirectory => Self::is_a_directory(path),
            io::ErrorKind::NotADirectory => Self::not_found(
                "FileNotFoundError",
                format!("file not found: {path} (a part of the path is a file, not a directory)"),
            ),
            _ => Self::failed("OSError", format!("{path}: {error}")),
        }
    }
    /// `path` is a directory where a file is wanted.
    pub fn is_a_directory(path: &str) -> Self {
        Self::invalid_args("IsADirectoryError", format!("is a directory, not a file: {path}"))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolError {}

impl From<ToolError> for types::ToolError {
    fn from(error: ToolError) -> Self {
        Self {
            kind: error.kind,
            code: error.code,
            message: error.message,
            detail: error.detail.map(|detail| detail.to_string()),
        }
    }
}
