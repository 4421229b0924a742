//! Results that report failures as data instead of an error.

use std::fmt;

use cofferdam_sdk::ToolError;
use serde::Serialize;

/// The result of a tool, or a failure.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// The result of a call that succeeded.
    Done(T),
    /// The call failed, with a message.
    Failed {
        /// What is wrong, and where.
        error: String,
    },
}

/// The message of a failure.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self(error.message)
    }
}

impl<T> From<Result<T, Failure>> for Answer<T> {
    fn from(result: Result<T, Failure>) -> Self {
        match result {
            Ok(answer) => Self::Done(answer),
            Err(Failure(error)) => Self::Failed { error },
        }
    }
}
