//! Refusals of envelopes and calls: what is wrong, for programs and for models.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use cofferdam_core::envelope::DecodeError;
use cofferdam_core::schema::Problem;
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_text::shorten;
use cofferdam_workspace::{BeginError, FULL, is_full};

/// How many problems the feedback to a model names.
const FEEDBACK_PROBLEMS: usize = 5;

/// How much of a tool's schema the feedback to a model shows, in bytes.
const FEEDBACK_SCHEMA: usize = 1_500;

/// The kinds of problems for which calls are refused. Their names are part of the interface:
/// `schemas/refusal.json` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RefusalCode {
    /// The text is no envelope.
    InvalidEnvelope,
    /// There is no such tool, or none under this role, or its schema is invalid.
    UnknownTool,
    /// Several plugins have a tool of this name.
    AmbiguousTool,
    /// The arguments do not fit the tool's schema or what the role says of them.
    InvalidArguments,
    /// More or larger than the limits allow.
    TooLarge,
    /// The run is narrowed to invalid paths.
    InvalidScope,
    /// There is no such role.
    UnknownRole,
    /// Another process is changing the workspace.
    WorkspaceBusy,
    /// The system does not let the workspace be changed.
    WorkspaceError,
    /// The disk of the workspace is full.
    DiskFull,
}

impl RefusalCode {
    /// The name, as it stands in refusals and in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidEnvelope => "InvalidEnvelope",
            Self::UnknownTool => "UnknownTool",
            Self::AmbiguousTool => "AmbiguousTool",
            Self::InvalidArguments => "InvalidArguments",
            Self::TooLarge => "TooLarge",
            Self::InvalidScope => "InvalidScope",
            Self::UnknownRole => "UnknownRole",
            Self::WorkspaceBusy => "WorkspaceBusy",
            Self::WorkspaceError => "WorkspaceError",
            Self::DiskFull => FULL,
        }
    }
}

impl From<&BeginError> for RefusalCode {
    fn from(error: &BeginError) -> Self {
        match error {
            BeginError::Busy(_) => Self::WorkspaceBusy,
            BeginError::Io(error) if is_full(error) => Self::DiskFull,
            BeginError::Io(_) => Self::WorkspaceError,
        }
    }
}

/// Calls that the host refuses: nothing of the envelope was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{feedback}")]
pub struct Refusal {
    /// Everything that is wrong.
    pub problems: Vec<CallProblem>,
    /// A short text for the model that wrote the calls, with what would be right.
    pub feedback: String,
}

/// One thing that is wrong with an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallProblem {
    /// The kind of problem.
    pub code: RefusalCode,
    /// Which call, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<usize>,
    /// The tool's name as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The place and the problem.
    #[serde(flatten)]
    pub problem: Problem,
}

impl Refusal {
    /// A refusal of the envelope as a whole.
    pub fn whole(code: RefusalCode, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::from_problems(
            vec![CallProblem {
                code,
                call: None,
                tool: None,
                problem: Problem {
                    pointer: String::new(),
                    expected: expected.into(),
                    found: Some(found.into()),
                    did_you_mean: None,
                },
            }],
            &[],
        )
    }

    /// A refusal with its feedback; `tools` are those whose arguments are wrong.
    pub(super) fn from_problems(problems: Vec<CallProblem>, tools: &[&Arc<ToolEntry>]) -> Self {
        let mut feedback =
            String::from("Nothing was run. Correct this and send all of it again:\n");
        for problem in problems.iter().take(FEEDBACK_PROBLEMS) {
            let _ = match (&problem.call, &problem.tool) {
                (Some(call), Some(tool)) => {
                    writeln!(feedback, "- call {} ({tool}) {}", call + 1, problem.problem)
                }
                _ => writeln!(feedback, "- {}", problem.problem),
            };
        }
        if problems.len() > FEEDBACK_PROBLEMS {
            let _ = writeln!(feedback, "- and {} more", problems.len() - FEEDBACK_PROBLEMS);
        }
        for tool in tools {
            let schema = shorten(&arguments(&tool.tool().input), FEEDBACK_SCHEMA);
            let _ = writeln!(feedback, "{} takes: {schema}", tool.tool().name);
        }
        Self { problems, feedback }
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        let problems = error.problems.into_iter().map(|problem| CallProblem {
            code: RefusalCode::InvalidEnvelope,
            call: None,
            tool: None,
            problem,
        });
        Self::from_problems(problems.collect(), &[])
    }
}

/// The part of an input schema that helps to write the arguments.
fn arguments(schema: &Value) -> String {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        for key in ["$schema", "title", "examples", "type", "additionalProperties"] {
            fields.shift_remove(key);
        }
    }
    schema.to_string()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    /// The codes that there are, as they are written in documents.
    fn codes() -> BTreeSet<String> {
        let schema = serde_json::to_value(schemars::schema_for!(RefusalCode)).unwrap();
        let codes = schema["oneOf"].as_array().unwrap().iter();
        codes.map(|code| code["const"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_schema_of_refusals_has_every_code_and_no_other() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../../schemas/refusal.json")).unwrap();
        let listed = "/properties/refused/properties/problems/items/properties/code/enum";
        let listed: BTreeSet<String> =
            serde_json::from_value(schema.pointer(listed).unwrap().clone()).unwrap();
        assert_eq!(listed, codes());
    }

    #[test]
    fn a_workspace_that_can_not_be_changed_has_one_code_everywhere() {
        let errors = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other];
        let errors = errors.map(|kind| BeginError::Io(kind.into()));
        for error in errors.into_iter().chain([BeginError::Busy(Duration::ZERO)]) {
            let code = RefusalCode::from(&error);
            assert_eq!(code.as_str(), error.code());
            assert!(codes().contains(error.code()));
        }
    }
}
