//! The failure document that `atomic_replace` and `move_text` share.

use cofferdam_sdk::{ToolError, WorkspacePath};
use serde::Serialize;

const ERROR: &str = "Validation failed - no changes made";

#[derive(Serialize)]
struct Failure<'a> {
    path: &'a str,
    error: &'a str,
    validation_errors: &'a [String],
    changed: bool,
}

/// An error that lists everything that is wrong with the call.
pub(crate) fn failed(path: &WorkspacePath, errors: &[String]) -> ToolError {
    ToolError::conflict("ValidationFailed", format!("{ERROR}: {}", errors.join("; "))).with_detail(
        Failure { path: path.as_str(), error: ERROR, validation_errors: errors, changed: false },
    )
}
