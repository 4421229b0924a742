//! Runs native programs. The host looks a program up, runs it in the operating system's sandbox,
//! and kills all of its processes at the end.
//!
//! In native builds (tests of a plugin) programs run without a sandbox.

#[cfg(target_family = "wasm")]
#[path = "process/host.rs"]
mod system;

#[cfg(not(target_family = "wasm"))]
#[path = "process/native.rs"]
mod system;

use crate::{Context, ToolError, telling};

pub use crate::bindings::cofferdam::host::process::{
    Captured, Changes, Command, End, Error, Output, Repository,
};

/// A command that runs `program` in the workspace's directory, without input and until the deadline
/// of the call. It can't change the workspace.
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

/// Runs a program and waits for its end. An exit code other than 0 or a timeout is not an error.
///
/// # Errors
/// See [`Error`]: the program was not run.
pub fn run(command: &Command, context: &Context) -> Result<Output, Error> {
    system::run(command, context)
}

/// Finds the git repository of the workspace, which may be outside of it.
///
/// # Errors
/// See [`Error`]: there is none, it is not confirmed, or the plugin is not granted `git`.
pub fn repository(context: &Context) -> Result<Repository, Error> {
    system::repository(context)
}

/// Names files and directories, relative to the workspace, that later runs of this call leave although
/// the program does not exit with 0; other changes of such a run are discarded.
///
/// # Errors
/// [`Error::Denied`] if the call may only read, [`Error::Invalid`] for a path outside of the workspace.
pub fn keep_files(files: &[String]) -> Result<(), Error> {
    system::keep_files(files)
}

/// The absolute path of a directory in which programs can keep files for later runs, such as
/// caches. Only programs can access it.
pub fn cache_directory(context: &Context) -> String {
    system::cache_directory(context)
}

impl Output {
    /// The exit code; `None` if the program was killed.
    pub fn exit_code(&self) -> Option<i32> {
        match self.end {
            End::Exited(code) => Some(code),
            End::Signalled(_) | End::TimedOut | End::Limit(_) => None,
        }
    }

    /// Standard output as text; invalid UTF-8 is replaced.
    pub fn stdout_text(&self) -> String {
        text(&self.stdout.bytes)
    }

    /// Standard error as text; invalid UTF-8 is replaced.
    pub fn stderr_text(&self) -> String {
        text(&self.stderr.bytes)
    }

    /// The telling part of what the program said, for an error message: of standard error, or of
    /// standard output if that is empty, in at most 2 KiB.
    pub fn telling(&self) -> String {
        let stderr = self.stderr_text();
        if stderr.trim().is_empty() { telling(&self.stdout_text()) } else { telling(&stderr) }
    }

    /// Makes a path that the program printed relative to the workspace; returns a path outside of
    /// it unchanged.
    pub fn relative<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(self.workspace.trim_end_matches('/')) {
            Some("") => ".",
            Some(rest) => rest.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }
}

/// Decodes output; checking that all of it is UTF-8 is faster than a lossy conversion.
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
