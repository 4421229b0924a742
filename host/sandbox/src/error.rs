//! Errors that prevent a program from running.

use serde::{Deserialize, Serialize};

/// The program was not run. Nothing was executed outside of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SandboxError {
    /// This system offers no sandbox, or not the requested tier.
    #[error("no sandbox for native programs: {0}")]
    Unavailable(String),
    /// The description of the run is invalid: a relative or missing path, an overlay in tier B, ...
    #[error("{0}")]
    Command(String),
    /// The program could not be executed.
    #[error("{program} can't be started: {reason}")]
    Program {
        /// The path of the program.
        program: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The sandbox could not be set up, or the program could not be supervised to its end.
    #[error("the sandbox failed: {0}")]
    Setup(String),
    /// The helper process could not be started, or exited without a report.
    #[error("the sandbox's helper process: {0}")]
    Helper(String),
}
