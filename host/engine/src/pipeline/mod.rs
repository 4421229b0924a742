//! The pipeline Designer -> QA -> Main: what its documents are, what is wrong with them, and what
//! the record of a round says. A Designer writes commands, QA approves or rejects them, Main
//! executes them verbatim and verifies the result. Source: S0.
//!
//! | module | what |
//! |---|---|
//! | [`work_order`] | what Main asks for |
//! | [`designer`] | the Designer's output, and its rules |
//! | [`qa`] | QA's output, and its rules |
//! | [`check`] | what both are checked against |
//! | [`extent`] | how much a lint covers |
//! | [`invariant`] | what a step must not change, where a machine can tell |
//! | [`prompt`] | what agents are asked |
//! | [`round`] | the record of a round |
//! | [`report`] | the same for people |
//!
//! Nothing is read, asked, run or changed here: that is [`crate::host`]'s part. A document becomes
//! a type of its own only by passing its checks, and what is run is made from such types only.

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

/// The tools that a Designer may use, as it writes them and by their qualified names. Source: S0,
/// "Edit Tools (Designer Allowlist)".
pub const EDIT_TOOLS: [(&str, &str); 2] =
    [("atomic_replace", "edit.atomic_replace"), ("move_text", "edit.move_text")];

/// The tool that verifies, as it is written and by its qualified name. Source: S0, "Verification
/// Tool".
pub const VERIFICATION_TOOL: (&str, &str) = ("lint_backend", "lint.lint_backend");

/// What a Designer writes in place of a tool when it has no commands. Source: S0, "On Error".
pub const ERROR_TOOL: &str = "__error__";

/// The role that commands are executed under.
pub const DESIGNER_ROLE: &str = "designer";

/// The role that the result is verified under.
pub const MAIN_ROLE: &str = "main";

/// One edit.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// `atomic_replace` or `move_text`; `__error__`: there are no commands, and `reason` says why.
    pub tool: String,
    /// Exactly what the tool's input schema says.
    pub args: Map<String, Value>,
    /// Why, in one sentence at most.
    pub reason: String,
}

/// How the result is to be verified.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// Always `lint_backend`.
    pub tool: String,
    /// Exactly what the tool's input schema says.
    pub args: Map<String, Value>,
}

/// Why a document ends the round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocked {
    /// What the round's log gets, as S0's table of failure modes words it.
    pub log: Vec<String>,
    /// Everything that is wrong, with its place.
    pub problems: Vec<Problem>,
}

impl Blocked {
    /// Adds one thing that is wrong, under the words that the log has for it; the log does not
    /// repeat its last line.
    fn add(&mut self, line: String, problem: Problem) {
        if self.log.last() != Some(&line) {
            self.log.push(line);
        }
        self.problems.push(problem);
    }

    /// Adds a rule of the document `whose` that is not kept.
    fn broken_rule(&mut self, whose: &str, problem: Problem) {
        self.log.push(format!("invalid {whose}: {problem}"));
        self.problems.push(problem);
    }

    /// Nothing, if nothing is wrong.
    fn or<T>(self, done: T) -> Result<T, Self> {
        if self.log.is_empty() { Ok(done) } else { Err(self) }
    }
}

/// Text that is not a document of the right shape.
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

/// A document of its type, and what lenient decoding removed around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded<T> {
    /// What was found.
    pub document: T,
    /// What was around it, in words.
    pub repairs: Vec<String>,
}

/// Finds a document that has one of the fields `keys`.
fn find(text: &str, mode: Mode, keys: &[&str]) -> Result<envelope::Document, Blocked> {
    Ok(envelope::document(text, mode, keys)?)
}

/// A document that has the shape of `T`.
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
