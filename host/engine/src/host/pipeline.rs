//! A round of the pipeline Designer -> QA -> Main: documents are read or asked for, checked, and
//! what was approved is executed, verified and committed, as one transaction or not at all.
//!
//! The lints see what the commands have staged. So a result that does not pass was never in the
//! workspace, and there is nothing to take back.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::watch;

use super::run::{Ended, cancelled, discard};
use super::{Host, RunOptions};
use crate::agent::Question;
use crate::dispatch::ValidCall;
use crate::journal::Record;
use crate::pipeline::check::{Checker, Edits, Verifying};
use crate::pipeline::designer::{Designed, DesignerOutput};
use crate::pipeline::invariant::{self, TouchedFile, Verdict as Held};
use crate::pipeline::qa::{Approval, QaOutput, Reviewed};
use crate::pipeline::round::{
    self, Executed, Input, Linted, Reason, Round, Stage, StageName, State, Verdict,
};
use crate::pipeline::work_order::Step;
use crate::pipeline::{Blocked, DESIGNER_ROLE, Decoded, MAIN_ROLE, prompt};
use crate::runtime::blocking;
use crate::telemetry::Origin;
use cofferdam_core::envelope::Mode;
use cofferdam_core::outcome::{ErrorCode, Failure, Outcome, RefusalCode, Status};
use cofferdam_core::policy::{AgentCommand, LimitSettings, Scope};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{Overlay, Transaction};

/// A touched file above this is not compared with invariants, in bytes.
const COMPARED: u64 = 8 << 20;

/// Where a document comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// It is there.
    Text(String),
    /// An agent is asked for it.
    Agent {
        /// Its program.
        command: AgentCommand,
        /// What it is told by variables of its environment.
        variables: Vec<(String, String)>,
        /// How long it may take.
        timeout: Duration,
    },
}

/// The documents of a round.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// What Main asks for.
    pub work_order: String,
    /// The Designer's output.
    pub designer: Source,
    /// QA's output.
    pub qa: Source,
}

/// How a round is run.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// How much around the documents is forgiven.
    pub mode: Mode,
    /// The step is the last one of its phase: the work order's wider lint has to pass as well.
    pub phase_boundary: bool,
    /// Commit what was done even if the round fails.
    pub keep: bool,
    /// Commit nothing, and answer what would be committed.
    pub dry_run: bool,
    /// Limits of every call, below those that hold anyway.
    pub limits: LimitSettings,
    /// Turns true when the round should end early.
    pub cancel: Option<watch::Receiver<bool>>,
}

/// Why a round goes no further. What happened is in its record.
struct Stopped(State);

/// A stage that is under way.
struct Clock(StageName, Instant);

impl Clock {
    fn start(stage: StageName) -> Self {
        Self(stage, Instant::now())
    }

    /// The stage as it ends now.
    fn stop(&self) -> Stage {
        Stage::passed(self.0, milliseconds(self.1))
    }
}

/// Commands that were executed and are not committed yet.
struct Applied {
    transaction: Transaction,
    ended: Vec<Ended>,
    /// Whether the round has failed by now.
    failed: bool,
}

impl Host {
    /// Runs a round. Whatever happens is in its record; nothing is an error of its own.
    pub async fn pipeline(&self, inputs: Inputs, options: &PipelineOptions) -> Round {
        let started = Instant::now();
        let mut round = Round::begin(options.dry_run, options.phase_boundary);
        round.state = match self.round(inputs, options, &mut round).await {
            Ok(()) => State::Applied,
            Err(Stopped(state)) => state,
        };
        round.duration_ms = milliseconds(started);
        round
    }

    async fn round(
        &self,
        inputs: Inputs,
        options: &PipelineOptions,
        round: &mut Round,
    ) -> Result<(), Stopped> {
        let clock = Clock::start(StageName::WorkOrder);
        let step = self.sized(&inputs.work_order);
        let step = step.and_then(|text| Step::read(text, options.mode));
        let input = input("file".to_owned(), &inputs.work_order);
        let step = self.taken(&clock, Some(input), step, round)?;
        round.step_id = Some(step.order().step_id.clone());
        let checker = Checker {
            mode: options.mode,
            registry: &self.registry,
            designer: self.policy.role(DESIGNER_ROLE),
            main: self.policy.role(MAIN_ROLE),
            step: &step,
        };
        let acceptance = checker.acceptance(options.phase_boundary);
        let acceptance = acceptance.map_err(|blocked| self.refuse_last(blocked, round))?;

        let clock = Clock::start(StageName::Designer);
        let ask = || prompt::designer(step.order(), &self.registry);
        let (text, input) = self.document(inputs.designer, ask, &clock, options, round).await?;
        let designed = self.sized(&text).and_then(|text| DesignerOutput::read(text, &checker));
        let design = match self.taken(&clock, Some(input), designed, round)? {
            Designed::Commands(design) => design,
            Designed::Error(reasons) => {
                round.log.extend(reasons);
                return Err(stopped(Verdict::Error, State::Blocked, round));
            }
        };
        round.changed_signatures.clone_from(&design.output.changed_signatures);

        let clock = Clock::start(StageName::Qa);
        let ask = || prompt::qa(step.order(), &design.output, &self.registry);
        let (text, input) = self.document(inputs.qa, ask, &clock, options, round).await?;
        let reviewed = self.sized(&text).and_then(|text| QaOutput::read(text, &design, &checker));
        let approval = match self.taken(&clock, Some(input), reviewed, round)? {
            Reviewed::Approved(approval) => *approval,
            Reviewed::Rejected(rejected) => {
                round.log.extend(rejected.reasons.iter().cloned());
                round.reasons = rejected.reasons;
                round.required_changes = rejected.required_changes;
                round.spot_checks = rejected.spot_checks;
                return Err(stopped(Verdict::Rejected, State::Blocked, round));
            }
        };
        self.execute(approval, acceptance, &step, options, round).await
    }

    /// The text of a document, asked for if need be.
    async fn document(
        &self,
        source: Source,
        prompt: impl FnOnce() -> String,
        clock: &Clock,
        options: &PipelineOptions,
        round: &mut Round,
    ) -> Result<(String, Input), Stopped> {
        let (command, variables, timeout) = match source {
            Source::Text(text) => {
                let input = input("file".to_owned(), &text);
                return Ok((text, input));
            }
            Source::Agent { command, variables, timeout } => (command, variables, timeout),
        };
        let question = Question {
            command: &command,
            variables: &variables,
            prompt: prompt(),
            timeout,
            most: self.policy.limits().envelope,
        };
        let mut cancel = options.cancel.clone();
        match self.agents.ask(question, cancelled(&mut cancel)).await {
            Ok(text) => {
                let input = input(format!("agent {}", command.program()), &text);
                Ok((text, input))
            }
            Err(error) => {
                round.log.push(format!("{}: {error}", clock.0.as_str()));
                round.stages.push(clock.stop());
                Err(stopped(Verdict::NoAnswer, State::Blocked, round))
            }
        }
    }

    /// A text that is not longer than an envelope may be.
    fn sized<'a>(&self, text: &'a str) -> Result<&'a str, Blocked> {
        match self.check_size(text.len(), "a document") {
            Ok(()) => Ok(text),
            Err(refusal) => {
                let problems = refusal.problems.into_iter().map(|wrong| wrong.problem);
                Err(problems.collect::<Vec<_>>().into())
            }
        }
    }

    /// A document that keeps to the rules, or the end of the round.
    fn taken<T>(
        &self,
        clock: &Clock,
        input: Option<Input>,
        read: Result<Decoded<T>, Blocked>,
        round: &mut Round,
    ) -> Result<T, Stopped> {
        let stage = Stage { input, ..clock.stop() };
        match read {
            Ok(Decoded { document, repairs }) => {
                let name = stage.stage.as_str();
                round.log.extend(repairs.iter().map(|repair| format!("{name}: {repair}")));
                round.stages.push(Stage { repairs, ..stage });
                Ok(document)
            }
            Err(blocked) => {
                round.stages.push(stage);
                Err(self.refuse_last(blocked, round))
            }
        }
    }

    /// Ends the round at its last stage, whose document does not keep to the rules. The journal
    /// has a line for it, as for every envelope that is refused.
    fn refuse_last(&self, mut blocked: Blocked, round: &mut Round) -> Stopped {
        round.log.append(&mut blocked.log);
        let reason = blocked.problems.first().map(ToString::to_string).unwrap_or_default();
        let failure = Failure::new(ErrorCode::Blocked, reason);
        let id = uuid::Uuid::now_v7().to_string();
        let record = Record::new(&id, "-", None, &Outcome::Failed(failure), 0.0);
        self.record(record, &Origin::default());
        if let Some(stage) = round.stages.pop() {
            round.stages.push(stage.invalid(blocked));
        }
        Stopped(State::Blocked)
    }

    /// Executes what was approved, verifies the result, and commits it.
    async fn execute(
        &self,
        approval: Approval,
        acceptance: Vec<Verifying>,
        step: &Step,
        options: &PipelineOptions,
        round: &mut Round,
    ) -> Result<(), Stopped> {
        let Approval { output, edits, verifying } = approval;
        round.touched_files = edits.touched.iter().map(ToString::to_string).collect();
        round.reasons.clone_from(&output.reasons);
        round.spot_checks.clone_from(&output.spot_checks);

        let clock = Clock::start(StageName::Apply);
        let mut applied = self.apply(edits, step, options, &clock, round).await?;
        for (command, ended) in output.commands.into_iter().zip(&applied.ended) {
            let ended = round::Ended::from(&ended.answer.outcome);
            if let Some(error) = ended.error.as_ref().filter(|_| ended.outcome != Status::Skipped) {
                let tool = &command.tool;
                round.log.push(format!("tool error: {tool}: {}: {}", error.code, error.message));
                applied.failed = true;
            }
            round.commands.push(Executed { command, ended });
        }
        applied.failed |= self.is_cancelled(options, round);
        if !applied.failed {
            applied.failed = self.compare(step, applied.transaction.overlay(), round);
        }
        round.stages.push(verdict(clock.stop(), applied.failed));

        if !applied.failed {
            let clock = Clock::start(StageName::Verify);
            let lints = lints(verifying, acceptance);
            let is_clean = self.verify(lints, &mut applied, options, round).await;
            applied.failed = !is_clean || self.is_cancelled(options, round);
            round.stages.push(verdict(clock.stop(), applied.failed));
        }
        self.settle(applied, options, round).await
    }

    /// Executes commands in a transaction, up to the first that fails.
    async fn apply(
        &self,
        edits: Edits,
        step: &Step,
        options: &PipelineOptions,
        clock: &Clock,
        round: &mut Round,
    ) -> Result<Applied, Stopped> {
        let transaction = match self.begin(Client::default(), self.policy.limits().call).await {
            Ok(transaction) => transaction,
            Err(error) => {
                let code = RefusalCode::from(&error).as_str();
                round.log.push(format!("tool error: {code}: {error}"));
                round.stages.push(clock.stop());
                return Err(stopped(Verdict::Failed, State::Failed, round));
            }
        };
        let run = run_options(DESIGNER_ROLE, options);
        let role = self.policy.role(DESIGNER_ROLE);
        let mut ended: Vec<Ended> = Vec::with_capacity(edits.calls.len());
        let mut failed = false;
        for call in edits.calls {
            let done =
                self.answer(call, role, &run, step.scope(), failed, Some(&transaction)).await;
            failed |= matches!(done.answer.outcome, Outcome::Failed(_));
            ended.push(done);
        }
        Ok(Applied { transaction, ended, failed })
    }

    /// Whether somebody wants the round to end.
    fn is_cancelled(&self, options: &PipelineOptions, round: &mut Round) -> bool {
        let is_cancelled = options.cancel.as_ref().is_some_and(|cancel| *cancel.borrow());
        if is_cancelled {
            round.log.push("cancelled".to_owned());
        }
        is_cancelled
    }

    /// Compares what was touched with the invariants. Whether one of them is broken.
    fn compare(&self, step: &Step, after: &Overlay, round: &mut Round) -> bool {
        let mut files = Vec::new();
        let mut unread = Vec::new();
        for path in &round.touched_files {
            match (read_text(self.standing.workspace.plain(), path), read_text(after, path)) {
                (Some(before), Some(after)) => {
                    files.push(TouchedFile { path: path.clone(), before, after });
                }
                _ => unread.push(path.clone()),
            }
        }
        for text in &step.order().invariants {
            let finding = invariant::check(text, &files, &unread);
            let note = finding.note.as_deref().unwrap_or_default();
            match finding.verdict {
                Held::Held => {}
                Held::Broken => round.log.push(format!("broken invariant: {text}: {note}")),
                Held::NotChecked => {
                    round.log.push(format!("invariant not checked: {text}: {note}"));
                }
            }
            round.invariants.push(finding);
        }
        round.invariants.iter().any(|finding| finding.verdict == Held::Broken)
    }

    /// Lints what is staged. Whether all of it is clean; the first that is not ends it.
    async fn verify(
        &self,
        lints: Vec<(Reason, ValidCall)>,
        applied: &mut Applied,
        options: &PipelineOptions,
        round: &mut Round,
    ) -> bool {
        let run = run_options(MAIN_ROLE, options);
        let role = self.policy.role(MAIN_ROLE);
        let everything = Scope::default();
        for (reason, call) in lints {
            let (args, again) = (call.args().clone(), call.clone());
            let shared = Some(&applied.transaction);
            let done = self.answer(call, role, &run, &everything, false, shared).await;
            let ended = round::Ended::from(&done.answer.outcome);
            applied.ended.push(done);
            let mut linted = Linted { reason, args, clean: false, errors_before: None, ended };
            if let Some(error) = &linted.ended.error {
                round
                    .log
                    .push(format!("tool error: lint_backend: {}: {}", error.code, error.message));
                round.lints.push(linted);
                return false;
            }
            let summary = linted.ended.result.as_ref().map(|result| result["summary"].clone());
            let summary = summary.unwrap_or_default();
            round.log.push(format!("lint summary: {summary}"));
            let sections = linted.ended.result.iter().filter_map(Value::as_object);
            let unchecked = sections
                .flat_map(Map::values)
                .filter_map(|section| section["not-checked"]["description"].as_str());
            round.log.extend(unchecked.map(|why| format!("lint {why}")));
            linted.clean = summary["clean"] == true;
            if !linted.clean {
                // Whether the change is to blame is for people; a lint that finds something fails.
                let before = self.answer(again, role, &run, &everything, false, None).await;
                if let Outcome::Executed(result) = before.answer.outcome {
                    linted.errors_before = result["summary"]["total_errors"].as_u64();
                }
                if let Some(errors) = linted.errors_before {
                    round.log.push(format!("before the change, the same lint had {errors} errors"));
                }
                round.lints.push(linted);
                return false;
            }
            round.lints.push(linted);
        }
        true
    }

    /// Commits what is staged, or drops it.
    async fn settle(
        &self,
        applied: Applied,
        options: &PipelineOptions,
        round: &mut Round,
    ) -> Result<(), Stopped> {
        let Applied { transaction, mut ended, mut failed } = applied;
        let clock = Clock::start(StageName::Commit);
        if options.dry_run {
            match blocking(move || transaction.diff()).await {
                Ok(diff) => round.diff = Some(String::from_utf8_lossy(&diff).into_owned()),
                Err(error) => {
                    round.log.push(format!("tool error: diff: {error}"));
                    failed = true;
                }
            }
        } else if failed && !options.keep {
            drop(transaction);
            let why = "discarded: the round of the pipeline failed";
            discard(&mut ended, &Failure::new(ErrorCode::RolledBack, why));
        } else {
            match self.commit_staged(transaction, &mut ended).await {
                Ok(commit) => round.commit = commit,
                Err(Failure { code, message, .. }) => {
                    round.log.push(format!("tool error: commit: {code}: {message}"));
                    failed = true;
                }
            }
            round.stages.push(verdict(clock.stop(), round.commit.is_none() && failed));
        }
        for record in ended.into_iter().filter_map(|ended| ended.record) {
            self.record(record, &Origin::default());
        }
        if failed { Err(Stopped(State::Failed)) } else { Ok(()) }
    }
}

/// The lints of a result: the approved one, and those of the work order that it leaves out.
fn lints(approved: Verifying, acceptance: Vec<Verifying>) -> Vec<(Reason, ValidCall)> {
    let mut covered = vec![approved.extent];
    let mut lints = vec![(Reason::Verification, approved.call)];
    for Verifying { call, extent } in acceptance {
        if !covered.iter().any(|wider| wider.covers(&extent)) {
            covered.push(extent);
            lints.push((Reason::Acceptance, call));
        }
    }
    lints
}

fn run_options(role: &str, options: &PipelineOptions) -> RunOptions {
    RunOptions {
        role: Some(role.to_owned()),
        dry_run: options.dry_run,
        limits: options.limits,
        cancel: options.cancel.clone(),
        ..RunOptions::default()
    }
}

/// A file as text, if it is one.
fn read_text(tree: &Overlay, path: &str) -> Option<String> {
    use std::io::Read as _;
    let place = tree.resolve("", path, true).ok()?;
    let (file, _) = tree.open_read(&place).ok()?;
    let mut text = String::new();
    let read = file.take(COMPARED + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= COMPARED).then_some(text)
}

fn input(from: String, text: &str) -> Input {
    Input { from, sha256: Digest::of(text.as_bytes()).hex(), bytes: text.len() }
}

fn verdict(stage: Stage, failed: bool) -> Stage {
    Stage { verdict: if failed { Verdict::Failed } else { stage.verdict }, ..stage }
}

/// Ends the round at its last stage.
fn stopped(verdict: Verdict, state: State, round: &mut Round) -> Stopped {
    if let Some(stage) = round.stages.last_mut() {
        stage.verdict = verdict;
    }
    Stopped(state)
}

fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
