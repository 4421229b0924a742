//! Tasks for the operator's agents: the host asks one, reads its answer by its output contract,
//! and asks again where that is broken.
//!
//! On the machine that develops a plugin nobody is asked.

use crate::ToolError;

pub use crate::bindings::cofferdam::host::agents::{
    Action, Answer, Broken, Error, Kept, Report, Task,
};

/// Gives an agent a task and waits for its answer. That the answer breaks its contract is no
/// error.
///
/// # Errors
/// There is no answer: see [`Error`].
pub fn run(task: &Task) -> Result<Report, Error> {
    #[cfg(target_family = "wasm")]
    return crate::bindings::cofferdam::host::agents::run(task);
    #[cfg(not(target_family = "wasm"))]
    Err(Error::Failed(format!("without a host, '{}' is not asked", task.agent)))
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(message) => Self::denied("AgentNotGranted", message),
            Error::NotFound(message) => Self::not_found("AgentNotFound", message),
            Error::TooDeep(message) => Self::limit("AgentsTooDeep", message),
            Error::TimedOut(message) => Self::limit("AgentTimeout", message),
            Error::Failed(message) => Self::failed("AgentFailed", message),
        }
    }
}
