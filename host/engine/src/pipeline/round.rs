//! The record of a round: what went in, what each stage made of it, what was run, and how it
//! ended. It is what `cofferdam pipeline` prints and keeps.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::invariant::Finding;
use super::{Blocked, Command};
use cofferdam_core::outcome::{Failure, Outcome, Status};
use cofferdam_core::schema::Problem;

/// How a round ends. Source: S0, "Validation Failure Modes".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// The commands were executed, and the result passed its lints.
    Applied,
    /// Nothing was executed.
    Blocked,
    /// A command failed, or the result did not pass; nothing of it is left, unless it was to be
    /// kept.
    Failed,
}

impl State {
    /// The word, as it stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "APPLIED",
            Self::Blocked => "BLOCKED",
            Self::Failed => "FAILED",
        }
    }
}

/// Everything about one round.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Pipeline result")]
pub struct Round {
    /// How it ended.
    pub state: State,
    /// What was said on the way, in order: the words of S0's table of failure modes, QA's reasons,
    /// tool errors, lint summaries, what was repaired, what was not checked.
    pub log: Vec<String>,
    /// The step, once the work order was read.
    pub step_id: Option<String>,
    /// When it began (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub started: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Nothing was to be committed.
    pub dry_run: bool,
    /// The step was the last one of its phase.
    pub phase_boundary: bool,
    /// The stages that were reached, in order.
    pub stages: Vec<Stage>,
    /// The files that the approved commands touch.
    pub touched_files: Vec<String>,
    /// What the Designer says of the public API.
    pub changed_signatures: Vec<String>,
    /// The approved commands, and how each ended.
    pub commands: Vec<Executed>,
    /// What the work order says must not change, and whether it did.
    pub invariants: Vec<Finding>,
    /// The lints of the result.
    pub lints: Vec<Linted>,
    /// What QA says of its decision.
    pub reasons: Vec<String>,
    /// What QA wants to have changed.
    pub required_changes: Vec<String>,
    /// What QA says that it has verified.
    pub spot_checks: Vec<String>,
    /// The commit of the changes: `cofferdam undo` takes it.
    pub commit: Option<String>,
    /// What a dry run would have changed, as a unified diff; bytes that are no UTF-8 are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stage {
    /// Which.
    pub stage: StageName,
    /// What it came to.
    pub verdict: Verdict,
    /// How long it took, in milliseconds, the agent's time included.
    pub duration_ms: f64,
    /// What it worked on; none for stages that work on the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// What lenient decoding removed around the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// What is wrong with the document, with its places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// The stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// The work order is read.
    WorkOrder,
    /// The Designer's output is had and checked.
    Designer,
    /// QA's output is had and checked.
    Qa,
    /// The commands are executed.
    Apply,
    /// The result is linted.
    Verify,
    /// The changes are committed.
    Commit,
}

impl StageName {
    /// The word, as it stands in records.
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

/// What a stage comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The round goes on.
    Passed,
    /// The document does not keep to the rules.
    Invalid,
    /// The agent gave no answer.
    NoAnswer,
    /// The Designer could not produce commands.
    Error,
    /// QA did not approve.
    Rejected,
    /// Something could not be done, or the result did not pass.
    Failed,
}

impl Verdict {
    /// The word, as it stands in records.
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

/// The text that a stage worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Input {
    /// Where it is from: `file`, or `agent` with its program.
    pub from: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A call and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ended {
    /// `executed`, `error`, `denied`, `limit`, `trap`, `skipped` or `failed`.
    #[schemars(with = "String")]
    pub outcome: Status,
    /// What the tool answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// Why a call did not succeed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CallError {
    /// Stable name, such as `ValidationFailed`.
    pub code: String,
    /// What was wrong.
    pub message: String,
    /// The tool's own failure document.
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

/// A command and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Executed {
    /// As QA approved it.
    #[serde(flatten)]
    pub command: Command,
    /// How it ended.
    #[serde(flatten)]
    pub ended: Ended,
}

/// Why a lint was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// QA approved it.
    Verification,
    /// The work order wants it, and the one before does not cover it.
    Acceptance,
}

/// A lint of the result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Linted {
    /// Why it was run.
    pub reason: Reason,
    /// What it was given.
    pub args: Value,
    /// Whether nothing was found.
    pub clean: bool,
    /// How many findings the same lint had before the change; looked at only where it is not
    /// clean now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_before: Option<u64>,
    /// How it ended.
    #[serde(flatten)]
    pub ended: Ended,
}

impl Round {
    /// A round that begins now. It counts as blocked until something else is known.
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
            diff: None,
        }
    }

    /// The outcomes of everything that was run.
    pub fn outcomes(&self) -> impl Iterator<Item = Status> {
        let commands = self.commands.iter().map(|command| command.ended.outcome);
        commands.chain(self.lints.iter().map(|lint| lint.ended.outcome))
    }
}

impl Stage {
    /// A stage that has passed.
    pub fn passed(stage: StageName, duration_ms: f64) -> Self {
        let (verdict, repairs, problems) = (Verdict::Passed, Vec::new(), Vec::new());
        Self { stage, verdict, duration_ms, input: None, repairs, problems }
    }

    /// The same stage, with a document that does not keep to the rules.
    #[must_use]
    pub fn invalid(self, blocked: Blocked) -> Self {
        Self { verdict: Verdict::Invalid, problems: blocked.problems, ..self }
    }
}
