//! Native programs. The host looks a program up, runs it in the operating system's sandbox and
//! ends it with everything that it started.
//!
//! On the machine that develops a plugin, programs run as they are, without any sandbox.

#[cfg(target_family = "wasm")]
#[path = "process/host.rs"]
mod system;

#[cfg(not(target_family = "wasm"))]
#[path = "process/native.rs"]
mod system;

use crate::{Context, ToolError};

pub use crate::bindings::cofferdam::host::process::{
    Captured, Changes, Command, End, Error, Output,
};

/// A run of `program` in the workspace's directory: no arguments, no input, as long as the call
/// may take, and it can change nothing in the workspace.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    Command {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        directory: String::new(),
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout_ms: 0,
        changes: Changes::None,
    }
}

/// Runs a program to its end. That it failed, or was stopped, is no error.
///
/// # Errors
/// It was not run: see [`Error`].
pub fn run(command: &Command, context: &Context) -> Result<Output, Error> {
    system::run(command, context)
}

/// The absolute path of a directory for what programs want to find again in a later run, such as
/// caches; only programs can read and write it.
pub fn cache_directory(context: &Context) -> String {
    system::cache_directory(context)
}

impl Output {
    /// The status that the program ended with, if it was not stopped.
    pub fn exit_code(&self) -> Option<i32> {
        match self.end {
            End::Exited(code) => Some(code),
            End::Signalled(_) | End::TimedOut | End::Limit(_) => None,
        }
    }

    /// Standard output, with what is no UTF-8 replaced.
    pub fn stdout_text(&self) -> String {
        text(&self.stdout.bytes)
    }

    /// Standard error, with what is no UTF-8 replaced.
    pub fn stderr_text(&self) -> String {
        text(&self.stderr.bytes)
    }

    /// A path that the program printed, relative to the workspace; as it is where it leads
    /// elsewhere.
    pub fn relative<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(self.workspace.trim_end_matches('/')) {
            Some("") => ".",
            Some(rest) => rest.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }
}

/// Looking for what is no UTF-8 takes its time; that nothing is, is soon seen.
fn text(printed: &[u8]) -> String {
    match str::from_utf8(printed) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(printed).into_owned(),
    }
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(message) => Self::denied("ProgramNotGranted", message),
            Error::NotFound(message) => Self::not_found("CommandNotFoundError", message),
            Error::Unavailable(message) => Self::unavailable("SandboxUnavailable", message),
            Error::Invalid(message) => Self::invalid_args("InvalidCommand", message),
            Error::Changes(message) => Self::conflict("ChangesNotKept", message),
            Error::Failed(message) => Self::failed("CommandFailed", message),
        }
    }
}

impl From<Error> for crate::backend::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(message) | Error::NotFound(message) | Error::Unavailable(message) => {
                Self::Unavailable(message)
            }
            Error::Invalid(message) => Self::Invalid(message),
            Error::Changes(message) | Error::Failed(message) => Self::Failed(message),
        }
    }
}
