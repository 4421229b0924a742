//! Changes of whole files: the host checks all of them, then applies all of them.

use crate::bindings::cofferdam::host::changes as host;
use crate::{ToolError, WorkspacePath};

/// One change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Creates or replaces a file. Missing parent directories are created.
    Write {
        /// Which file.
        path: WorkspacePath,
        /// All of its bytes.
        contents: Vec<u8>,
        /// The file whose permissions it takes, as they are before any of the changes; `None`:
        /// those of the file that is replaced, or the usual ones of a new file.
        like: Option<WorkspacePath>,
        /// Sets or clears the executable bits.
        executable: Option<bool>,
        /// Refuse if the file exists.
        create_new: bool,
    },
    /// Removes a file.
    Remove(WorkspacePath),
    /// Moves a file, over an existing one if there is one.
    Rename {
        /// Where it is.
        source: WorkspacePath,
        /// Where it goes.
        target: WorkspacePath,
    },
}

impl Change {
    /// Creates or replaces a file, its permissions kept.
    pub fn write(path: &WorkspacePath, contents: Vec<u8>) -> Self {
        Self::Write {
            path: path.clone(),
            contents,
            like: None,
            executable: None,
            create_new: false,
        }
    }
}

/// Applies all of the changes or, where the host refuses one, none.
///
/// # Errors
/// `FileNotFoundError`, `FileExistsError`, `PermissionError`, `UnsupportedFile` or `OSError`,
/// naming the file.
pub fn apply(changes: Vec<Change>) -> Result<(), ToolError> {
    let changes: Vec<host::Change> = changes.into_iter().map(Into::into).collect();
    host::apply(&changes).map_err(|error| match error {
        host::Error::NotFound(message) => ToolError::not_found("FileNotFoundError", message),
        host::Error::AlreadyExists(message) => ToolError::conflict("FileExistsError", message),
        host::Error::Denied(message) => ToolError::denied("PermissionError", message),
        host::Error::Unsupported(message) => ToolError::invalid_args("UnsupportedFile", message),
        host::Error::Failed(message) => ToolError::failed("OSError", message),
    })
}

impl From<Change> for host::Change {
    fn from(change: Change) -> Self {
        match change {
            Change::Write { path, contents, like, executable, create_new } => {
                Self::Write(host::Write {
                    path: path.as_str().to_owned(),
                    contents,
                    like: like.map(|like| like.as_str().to_owned()),
                    executable,
                    create_new,
                })
            }
            Change::Remove(path) => Self::Remove(path.as_str().to_owned()),
            Change::Rename { source, target } => Self::Rename(host::Rename {
                source: source.as_str().to_owned(),
                target: target.as_str().to_owned(),
            }),
        }
    }
}
