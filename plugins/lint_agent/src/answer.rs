//! Answers that never raise.

use std::fmt;

use cofferdam_sdk::ToolError;
use serde::Serialize;

/// What a tool answers, or why it can't.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// The answer itself.
    Done(T),
    /// Why there is none.
    Failed {
        /// What was wrong, and where.
        error: String,
    },
}

/// Why there is no answer, in words.
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
