//! What keeps a program from running.

use serde::{Deserialize, Serialize};

/// Why a program was not run. None of it ran outside of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SandboxError {
    /// This system offers no sandbox, or not the one that was asked for.
    #[error("no sandbox for native programs: {0}")]
    Unavailable(String),
    /// The description of the run does not fit: a path that is relative or missing, an overlay
    /// in tier B, ...
    #[error("{0}")]
    Command(String),
    /// The program can't be executed.
    #[error("{program} can't be started: {reason}")]
    Program {
        /// The program.
        program: String,
        /// What the operating system said.
        reason: String,
    },
    /// The sandbox could not be built for this run, or the program not be watched to its end.
    #[error("the sandbox failed: {0}")]
    Setup(String),
    /// The helper process could not be started, or ended without a report.
    #[error("the sandbox's helper process: {0}")]
    Helper(String),
}
