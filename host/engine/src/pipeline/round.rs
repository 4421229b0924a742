//! The record of a round: its documents, stages, calls and result. It is what `cofferdam pipeline`
//! prints and stores.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::invariant::Finding;
use super::{Blocked, Command};
use cofferdam_core::outcome::{Failure, Outcome, Status};
use cofferdam_core::schema::Problem;

/// The result of a round. Source: the pipeline commands, "Validation Failure Modes".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// The commands were executed, and the result passed all lints.
    Applied,
    /// As `APPLIED`, but the changes wait as a proposal until a user accepts them.
    Held,
    /// The round ended before any command was executed.
    Blocked,
    /// A command failed, or the result did not pass. Its changes were rolled back, unless they were
    /// to be kept.
    Failed,
}

impl State {
    /// The value as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "APPLIED",
            Self::Held => "HELD",
            Self::Blocked => "BLOCKED",
            Self::Failed => "FAILED",
        }
    }
}

/// The record of a round.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Pipeline result")]
pub struct Round {
    /// The result of the round.
    pub state: State,
    /// Messages in order: the documented failure messages, QA's reasons, tool errors, lint
    /// summaries, what was repaired, what was not checked.
    pub log: Vec<String>,
    /// The id of the step; null if the work order was not read.
    pub step_id: Option<String>,
    /// When it began (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub started: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Whether the step was the last one of its phase.
    pub phase_boundary: bool,
    /// The stages that were reached, in order.
    pub stages: Vec<Stage>,
    /// The files that the approved commands touch.
    pub touched_files: Vec<String>,
    /// The changes of the public API, according to the Designer.
    pub changed_signatures: Vec<String>,
    /// The approved commands with their results.
    pub commands: Vec<Executed>,
    /// The invariants of the work order, and whether they hold.
    pub invariants: Vec<Finding>,
    /// The lints of the result.
    pub lints: Vec<Linted>,
    /// The reasons that QA gives for its decision.
    pub reasons: Vec<String>,
    /// The changes that QA requires.
    pub required_changes: Vec<String>,
    /// The checks that QA reports.
    pub spot_checks: Vec<String>,
    /// The commit of the changes, for `cofferdam undo`.
    pub commit: Option<String>,
    /// The proposal that holds the changes, for `cofferdam review`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// The changes of a dry run as a unified diff, with invalid UTF-8 replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A stage of a round.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stage {
    /// The name of the stage.
    pub stage: StageName,
    /// The result of the stage.
    pub verdict: Verdict,
    /// The duration in milliseconds, including the agent's time.
    pub duration_ms: f64,
    /// The document that it read; absent for stages without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// Text around the document that lenient decoding removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// The problems of the document, with their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// The stages of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Read the work order.
    WorkOrder,
    /// Get and check the Designer's output.
    Designer,
    /// Get and check QA's output.
    Qa,
    /// Execute the approved commands.
    Apply,
    /// Lint the staged result.
    Verify,
    /// Commit the staged changes.
    Commit,
}

impl StageName {
    /// The value as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkOrder => "work_order",
            Self::Designer => "designer",
            Self::Qa => "qa",
            Self::Apply => "apply",
            Self::Verify => "verify",
            Self::Commit => "commit",
        }
    }
}

/// The result of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The stage passed, and the round continues.
    Passed,
    /// The document is invalid.
    Invalid,
    /// The agent gave no response.
    NoAnswer,
    /// The Designer could not produce commands.
    Error,
    /// QA rejected the commands.
    Rejected,
    /// An operation failed, or the result did not pass.
    Failed,
}

impl Verdict {
    /// The value as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Invalid => "invalid",
            Self::NoAnswer => "no_answer",
            Self::Error => "error",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
        }
    }
}

/// The text that a stage read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Input {
    /// The source: `file`, or `agent` with its program.
    pub from: String,
    /// The SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// The length of the text in bytes.
    pub bytes: usize,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ended {
    /// How the call ended: `executed`, `error`, `denied`, `limit`, `trap`, `skipped` or `failed`.
    #[schemars(with = "String")]
    pub outcome: Status,
    /// The response of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The error of a call that did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CallError {
    /// A stable code, such as `ValidationFailed`.
    pub code: String,
    /// A description of the error.
    pub message: String,
    /// The failure document of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

impl From<&Outcome> for Ended {
    fn from(outcome: &Outcome) -> Self {
        let (result, error) = match outcome {
            Outcome::Executed(output) => (Some(output.clone()), None),
            Outcome::Failed(Failure { code, message, detail, .. }) => (
                None,
                Some(CallError {
                    code: code.to_string(),
                    message: message.clone(),
                    detail: detail.clone(),
                }),
            ),
        };
        Self { outcome: outcome.status(), result, error }
    }
}

/// A command and its result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Executed {
    /// The command as approved by QA.
    #[serde(flatten)]
    pub command: Command,
    /// The result of its call.
    #[serde(flatten)]
    pub ended: Ended,
}

/// The reason for a lint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is the verification that QA approved.
    Verification,
    /// The work order requires it, and the verification does not cover it.
    Acceptance,
}

/// A lint of the result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Linted {
    /// The reason for the lint.
    pub reason: Reason,
    /// The arguments of the lint.
    pub args: Value,
    /// Whether there are no findings.
    pub clean: bool,
    /// The number of findings of the same lint before the change; only determined if it is not
    /// clean now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_before: Option<u64>,
    /// The result of the call.
    #[serde(flatten)]
    pub ended: Ended,
}

impl Round {
    /// A round that begins now, with the state blocked.
    pub fn begin(dry_run: bool, phase_boundary: bool) -> Self {
        Self {
            state: State::Blocked,
            log: Vec::new(),
            step_id: None,
            started: Timestamp::now(),
            duration_ms: 0.0,
            dry_run,
            phase_boundary,
            stages: Vec::new(),
            touched_files: Vec::new(),
            changed_signatures: Vec::new(),
            commands: Vec::new(),
            invariants: Vec::new(),
            lints: Vec::new(),
            reasons: Vec::new(),
            required_changes: Vec::new(),
            spot_checks: Vec::new(),
            commit: None,
            proposal: None,
            diff: None,
        }
    }

    /// The outcomes of all calls.
    pub fn outcomes(&self) -> impl Iterator<Item = Status> {
        let commands = self.commands.iter().map(|command| command.ended.outcome);
        commands.chain(self.lints.iter().map(|lint| lint.ended.outcome))
    }
}

impl Stage {
    /// A stage that passed.
    pub fn passed(stage: StageName, duration_ms: f64) -> Self {
        let (verdict, repairs, problems) = (Verdict::Passed, Vec::new(), Vec::new());
        Self { stage, verdict, duration_ms, input: None, repairs, problems }
    }

    /// Marks the stage as having an invalid document.
    #[must_use]
    pub fn invalid(self, blocked: Blocked) -> Self {
        Self { verdict: Verdict::Invalid, problems: blocked.problems, ..self }
    }
}
