//! Gives tasks to the operator's agents. The host runs the agent, parses its response by its output
//! contract, and retries if the response breaks it.
//!
//! In native builds (tests of a plugin) no agent runs: every task returns an error.

use crate::ToolError;

pub use crate::bindings::cofferdam::host::agents::{
    Action, Answer, Broken, Error, Kept, Report, Task,
};

/// Gives an agent a task and waits for its response. A response that breaks its contract is
/// returned as a report too.
///
/// # Errors
/// See [`Error`]: there is no response.
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
