//! Native programs that are left running after the call that started them. A native build has none.

use crate::ToolError;

pub use crate::bindings::cofferdam::host::background::{
    Error, Output, Program, State, programs, read, start, stop,
};

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(message) => Self::denied("ProgramNotGranted", message),
            Error::NotFound(message) => Self::not_found("CommandNotFoundError", message),
            Error::Unavailable(message) => Self::unavailable("BackgroundUnavailable", message),
            Error::Invalid(message) => Self::invalid_args("InvalidCommand", message),
            Error::TooMany(message) => Self::limit("TooManyProcesses", message),
            Error::Unknown(message) => Self::not_found("ProcessNotFoundError", message),
            Error::Failed(message) => Self::failed("CommandFailed", message),
        }
    }
}
