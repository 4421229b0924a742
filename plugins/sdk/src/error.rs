//! The error of a failed call.

use std::fmt;
use std::io;

use serde::Serialize;

use crate::bindings::cofferdam::host::files::Refusal;
use crate::bindings::cofferdam::tool::types;
use crate::files::last_refusal;

pub use types::ErrorKind;

/// Why a call failed: a kind that the host branches on, a code that is stable for this tool, a
/// message for the caller, and optionally a failure document.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// The kind of failure, on which the host branches.
    pub kind: ErrorKind,
    /// A stable name, such as `InvalidRegex`.
    pub code: String,
    /// What is wrong, where, and what would be right.
    pub message: String,
    /// The failure document, for tools that have one.
    pub detail: Option<Box<serde_json::Value>>,
}

impl ToolError {
    /// Makes an error of the given kind.
    pub fn new(kind: ErrorKind, code: &str, message: impl Into<String>) -> Self {
        Self { kind, code: code.to_owned(), message: message.into(), detail: None }
    }
    /// Makes an error for arguments that fit the schema but are not usable.
    pub fn invalid_args(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgs, code, message)
    }
    /// Makes an error for something the call names that does not exist.
    pub fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, code, message)
    }
    /// Makes an error for a workspace that is not in the state the call expects.
    pub fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, code, message)
    }
    /// Makes an error for something that the call may not do.
    pub fn denied(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, code, message)
    }
    /// Makes an error for an exceeded limit.
    pub fn limit(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, code, message)
    }
    /// Makes an error for something missing that the tool depends on.
    pub fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, code, message)
    }
    /// Makes an error for any other failure.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, code, message)
    }
    /// Adds the failure document. A value that can't be serialized is ignored.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Serialize) -> Self {
        self.detail = serde_json::to_value(detail).ok().map(Box::new);
        self
    }
    /// Makes the error for a tool that the manifest has but the plugin does not.
    #[doc(hidden)]
    pub fn unknown_tool(name: &str) -> Self {
        Self::failed("UnknownTool", format!("the plugin has no tool '{name}'"))
    }
    /// Makes an error from an I/O error about `path`.
    ///
    /// The codes are the names of Python's exceptions, which agents know, and `UnsupportedFile` for
    /// files that the host never changes, such as one with several hard links. Call this before any
    /// other file operation: the host remembers only the last refusal.
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
    /// Makes the error for a directory where a file is expected.
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
