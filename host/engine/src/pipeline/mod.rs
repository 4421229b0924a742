//! The pipeline Designer -> QA -> Main: its documents, their checks, and the record of a round. A
//! Designer writes commands, QA approves or rejects them, Main executes the approved commands
//! without changes and verifies the result. Source: the pipeline commands.
//!
//! | module | is for |
//! |---|---|
//! | [`work_order`] | the work order that Main writes |
//! | [`designer`] | the Designer's output and its rules |
//! | [`qa`] | QA's output and its rules |
//! | [`check`] | checks of both outputs |
//! | [`extent`] | the files that a lint covers |
//! | [`invariant`] | invariants of a step that can be checked |
//! | [`prompt`] | prompts for agents |
//! | [`round`] | the record of a round |
//! | [`report`] | a round as text and Markdown |
//!
//! No I/O: [`crate::host`] reads, runs agents and executes. A document can only be converted to its
//! type by passing its checks, and only these types can be executed.

pub mod check;
pub mod designer;
pub mod extent;
pub mod invariant;
pub mod prompt;
pub mod qa;
pub mod report;
pub mod round;
pub mod work_order;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cofferdam_core::envelope::{self, DecodeError, Mode};
use cofferdam_core::schema::{Problem, Schema};

/// The tools that a Designer may use: names in documents, and qualified names. Source: the pipeline
/// commands, "Edit Tools (Designer Allowlist)".
pub const EDIT_TOOLS: [(&str, &str); 2] =
    [("atomic_replace", "edit.atomic_replace"), ("move_text", "edit.move_text")];

/// The tool that verifies the result: name in documents, and qualified name. Source: the pipeline
/// commands, "Verification Tool".
pub const VERIFICATION_TOOL: (&str, &str) = ("lint_backend", "lint.lint_backend");

/// The tool name that a Designer writes if it has no commands. Source: the pipeline commands, "On
/// Error".
pub const ERROR_TOOL: &str = "__error__";

/// The role that executes edit commands.
pub const DESIGNER_ROLE: &str = "designer";

/// The role that verifies the result.
pub const MAIN_ROLE: &str = "main";

/// An edit as a tool call.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// `atomic_replace` or `move_text`; `__error__`: there are no commands, and `reason` says why.
    pub tool: String,
    /// The arguments, as defined by the tool's input schema.
    pub args: Map<String, Value>,
    /// The reason for the edit, in one sentence at most.
    pub reason: String,
}

/// The lint that verifies the result.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// The tool, which is always `lint_backend`.
    pub tool: String,
    /// The arguments, as defined by the tool's input schema.
    pub args: Map<String, Value>,
}

/// A document that ends the round because it is invalid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The lines for the log of the round, in the words of the pipeline commands.
    pub log: Vec<String>,
    /// All problems of the document, with their places.
    pub problems: Vec<Problem>,
}

impl Blocked {
    /// Adds a problem and its log line. Does not repeat the last line of the log.
    fn add(&mut self, line: String, problem: Problem) {
        if self.log.last() != Some(&line) {
            self.log.push(line);
        }
        self.problems.push(problem);
    }

    /// Adds a broken rule of the document `whose`.
    fn broken_rule(&mut self, whose: &str, problem: Problem) {
        self.log.push(format!("invalid {whose}: {problem}"));
        self.problems.push(problem);
    }

    /// Returns `done` if there are no problems.
    fn or<T>(self, done: T) -> Result<T, Self> {
        if self.log.is_empty() { Ok(done) } else { Err(self) }
    }
}

/// The text is not a document of the right shape.
impl From<Vec<Problem>> for Blocked {
    fn from(problems: Vec<Problem>) -> Self {
        let log = problems.iter().map(|problem| format!("parse error: {problem}")).collect();
        Self { log, problems }
    }
}

impl From<DecodeError> for Blocked {
    fn from(error: DecodeError) -> Self {
        error.problems.into()
    }
}

/// A parsed document, and the text around it that lenient decoding removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<T> {
    /// The parsed document itself.
    pub document: T,
    /// Descriptions of the removed text.
    pub repairs: Vec<String>,
}

/// Finds a JSON object in a text that has one of the fields `keys`.
fn find(text: &str, mode: Mode, keys: &[&str]) -> Result<envelope::Document, Blocked> {
    Ok(envelope::document(text, mode, keys)?)
}

/// Converts a document to `T` if it fits the schema of `T`.
fn shaped<T: JsonSchema + for<'de> Deserialize<'de>>(value: Value) -> Result<T, Blocked> {
    let wrong =
        |message: String| Blocked::from(vec![problem("", "a document of the schema", message)]);
    let schema = Schema::compile(schemars::schema_for!(T).to_value())
        .map_err(|error| wrong(error.to_string()))?;
    let problems = schema.problems(&value, "");
    if !problems.is_empty() {
        return Err(problems.into());
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

fn problem(
    pointer: impl Into<String>,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Problem {
    Problem {
        pointer: pointer.into(),
        expected: expected.into(),
        found: Some(found.into()),
        did_you_mean: None,
    }
}
