//! How calls end. The words that every other module shares: no I/O, no engine, no JSON shapes
//! of a dialect (those are in [`crate::envelope`]).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The tool answered, and the answer fits its schema.
    Executed(Value),
    /// The call did not succeed.
    Failed(Failure),
}

impl Outcome {
    /// The word for this outcome in the journal.
    pub fn status(&self) -> Status {
        match self {
            Self::Executed(_) => Status::Executed,
            Self::Failed(failure) => failure.status,
        }
    }
}

/// The kinds of outcome, as the journal, the figures and the exit status tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The tool answered.
    Executed,
    /// The tool said why it can't.
    Error,
    /// The policy does not allow the call, or the tool met something that it may not touch.
    Denied,
    /// The call was stopped at one of its limits.
    Limit,
    /// The plugin is broken: it crashed, does not load, or its answer was not valid.
    Trap,
    /// The call was cancelled, or not started because an earlier one failed (`--fail-fast`).
    Skipped,
    /// The host itself failed.
    Failed,
}

impl Status {
    /// The word, as it stands in records.
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
    /// What sort of outcome this is.
    pub status: Status,
    /// Stable name, such as `FileNotFoundError` or `WallClockLimit`.
    pub code: String,
    /// What was wrong, where, and what would be right.
    pub message: String,
    /// The tool's own failure document, where its contract has one and this is it.
    pub detail: Option<Value>,
}

impl Failure {
    /// A failure without a document of its own.
    pub fn new(status: Status, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), detail: None }
    }
}

/// What a call answers that the host has no descriptor for. The same call may be made later.
pub const NO_DESCRIPTOR: &str = "the host has no free file descriptor; try again when less runs, or \
                                 raise the limit of open files (`ulimit -n`)";

/// Whether an error is that a process, or the system, has no file descriptor left: that is the host's
/// shortage, and no fault of a plugin. Not every library keeps the number of an error, but all keep its
/// text.
pub fn lacks_descriptors(error: &str) -> bool {
    ["(os error 24)", "(os error 23)"].iter().any(|number| error.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_descriptors_is_seen() {
        for (number, is_one) in [(24, true), (23, true), (2, false), (240, false)] {
            let error = std::io::Error::from_raw_os_error(number).to_string();
            assert_eq!(lacks_descriptors(&error), is_one, "{error}");
        }
    }
}
