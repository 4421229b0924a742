//! Refusals of envelopes and calls: their problems, for programs and for models.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use cofferdam_core::envelope::DecodeError;
use cofferdam_core::outcome::RefusalCode;
use cofferdam_core::schema::Problem;
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_text::shorten;

/// How many problems the feedback to a model lists.
const MAX_FEEDBACK_PROBLEMS: usize = 5;

/// How much of a tool's schema the feedback to a model contains, in bytes.
const MAX_FEEDBACK_SCHEMA_BYTES: usize = 1_500;

/// Calls that the host refuses: nothing of the envelope was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{feedback}")]
pub struct Refusal {
    /// All problems, in the order of the calls.
    pub problems: Vec<CallProblem>,
    /// A short text for the model that wrote the calls, with corrections.
    pub feedback: String,
}

/// One problem of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallProblem {
    /// The kind of problem.
    pub code: RefusalCode,
    /// The index of the call, counted from 0.
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
        for problem in problems.iter().take(MAX_FEEDBACK_PROBLEMS) {
            let _ = match (&problem.call, &problem.tool) {
                (Some(call), Some(tool)) => {
                    writeln!(feedback, "- call {} ({tool}) {}", call + 1, problem.problem)
                }
                _ => writeln!(feedback, "- {}", problem.problem),
            };
        }
        if problems.len() > MAX_FEEDBACK_PROBLEMS {
            let _ = writeln!(feedback, "- and {} more", problems.len() - MAX_FEEDBACK_PROBLEMS);
        }
        for tool in tools {
            let schema = shorten(&arguments(&tool.tool().input), MAX_FEEDBACK_SCHEMA_BYTES);
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
        for key in ["$schema", "$id", "title", "examples", "type", "additionalProperties"] {
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

    use cofferdam_core::outcome::HostCode;
    use cofferdam_workspace::BeginError;

    use super::*;

    #[test]
    fn the_refusal_schema_has_exactly_all_codes() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../../schemas/refusal.json")).unwrap();
        let listed = "/properties/refused/properties/problems/items/properties/code/enum";
        let listed: BTreeSet<String> =
            serde_json::from_value(schema.pointer(listed).unwrap().clone()).unwrap();
        let refusals = HostCode::ALL.concat().into_iter();
        let refusals = refusals.filter(|code| matches!(code, HostCode::Refused(_)));
        assert_eq!(listed, refusals.map(|code| code.as_str().to_owned()).collect());
    }

    #[test]
    fn an_unwritable_workspace_always_has_the_same_code() {
        let errors = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other];
        let errors = errors.map(|kind| BeginError::Io(kind.into()));
        for error in errors.into_iter().chain([BeginError::Busy(Duration::ZERO)]) {
            let code = RefusalCode::from(&error);
            assert_eq!(code.as_str(), super::super::not_begun(&error).code.as_str());
        }
    }
}
