//! How calls end, and the codes that say why. No I/O, no engine, no JSON shapes of a dialect (those
//! are in [`crate::envelope`]).

mod code;

pub use code::{
    DenialCode, ErrorCode, FailedCode, FailureCode, HostCode, LimitCode, ProgramLimitCode,
    RefusalCode, SkippedCode, TrapCode,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The tool returned a document that fits its schema.
    Executed(Value),
    /// The call did not succeed.
    Failed(Failure),
}

impl Outcome {
    /// The kind of this outcome.
    pub fn status(&self) -> Status {
        match self {
            Self::Executed(_) => Status::Executed,
            Self::Failed(failure) => failure.status,
        }
    }
}

/// The kinds of outcome that the journal, the statistics and the exit status distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The tool returned a valid document.
    Executed,
    /// The tool returned an error, or the call conflicts with another change.
    Error,
    /// The policy does not allow the call, or the tool tried to access something that is not allowed.
    Denied,
    /// The call exceeded a limit.
    Limit,
    /// The plugin is broken: it crashed, does not load, or returned an invalid document.
    Trap,
    /// The call was cancelled, or not started because an earlier one failed (`--fail-fast`).
    Skipped,
    /// The host itself failed.
    Failed,
}

impl Status {
    /// The name in the journal and in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Limit => "limit",
            Self::Trap => "trap",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Why a call did not succeed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The kind of outcome.
    pub status: Status,
    /// Stable name, such as `FileNotFoundError` or `WallClockLimit`.
    pub code: FailureCode,
    /// What was wrong, where, and what would be right.
    pub message: String,
    /// The tool's own failure document, if its contract has one.
    pub detail: Option<Value>,
}

impl Failure {
    /// A failure that the host reports, with the status of its code.
    pub fn new(code: impl Into<HostCode>, message: impl Into<String>) -> Self {
        let code = code.into();
        let (status, code) = (code.status(), FailureCode::Host(code));
        Self { status, code, message: message.into(), detail: None }
    }

    /// A failure that a tool returned, without a document.
    pub fn of_tool(status: Status, code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = FailureCode::of_tool(code.into());
        Self { status, code, message: message.into(), detail: None }
    }
}

/// The message of a call for which the host has no file descriptor.
pub const NO_DESCRIPTOR: &str = "the host has no free file descriptor; try again when less runs, or \
                                 raise the limit of open files (`ulimit -n`)";

/// Whether an error says that the process or the system has no file descriptor left, which is not
/// the plugin's fault. Compares the text: some libraries drop the error's number, but none its text.
pub fn lacks_descriptors(error: &str) -> bool {
    ["(os error 24)", "(os error 23)"].iter().any(|number| error.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_descriptors_are_recognised() {
        for (number, is_one) in [(24, true), (23, true), (2, false), (240, false)] {
            let error = std::io::Error::from_raw_os_error(number).to_string();
            assert_eq!(lacks_descriptors(&error), is_one, "{error}");
        }
    }
}
