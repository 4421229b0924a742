//! Runs a round of the pipeline Designer -> QA -> Main: gets and checks the documents, then
//! executes, verifies and commits the approved commands, as one transaction or not at all.
//!
//! Lints see the staged changes, so changes that don't pass never reach the workspace.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::Host;
use super::cancel::{cancelled, is_cancelled};
use super::context::{RunContext, RunOptions};
use super::ended::{Ended, discard};
use crate::agent::Question;
use crate::call::Session;
use crate::dispatch::{self, ValidCall};
use crate::journal::Record;
use crate::pipeline::check::{Checker, Edits, Verifying};
use crate::pipeline::designer::{Designed, DesignerOutput};
use crate::pipeline::invariant::{self, TouchedFile, Verdict as Held};
use crate::pipeline::qa::{Approval, QaOutput, Reviewed};
use crate::pipeline::report::errors;
use crate::pipeline::round::{
    self, Executed, Input, Linted, Reason, Round, Stage, StageName, State, Verdict,
};
use crate::pipeline::work_order::Step;
use crate::pipeline::{Blocked, DESIGNER_ROLE, Decoded, MAIN_ROLE, VERIFICATION_TOOL, prompt};
use crate::runtime::blocking;
use crate::telemetry::Origin;
use cofferdam_core::envelope::{Call, Mode};
use cofferdam_core::outcome::{ErrorCode, Failure, Outcome, RefusalCode, Status};
use cofferdam_core::policy::{AgentCommand, LimitSettings, Scope};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{Overlay, Transaction};

/// The maximum size of files that are compared with invariants, in bytes.
const MAX_COMPARED_BYTES: u64 = 8 << 20;

/// The source of a document.
#[derive(Debug, Clone)]
pub enum Source {
    /// The text of the document.
    Text(String),
    /// An agent that writes the document.
    Agent {
        /// The agent's program and arguments.
        command: AgentCommand,
        /// Additional variables of its environment.
        variables: Vec<(String, String)>,
        /// How long the agent may run.
        timeout: Duration,
    },
}

/// The documents of a round.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The text of the work order.
    pub work_order: String,
    /// The source of the Designer's output.
    pub designer: Source,
    /// The source of QA's output.
    pub qa: Source,
}

/// The options of a round.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// How strictly documents are decoded.
    pub mode: Mode,
    /// Whether the step is the last one of its phase, so that the phase lint has to pass as well.
    pub phase_boundary: bool,
    /// Commit the changes even if the round fails.
    pub keep: bool,
    /// Commit nothing, and return the changes as a diff.
    pub dry_run: bool,
    /// Hold the changes until a user accepts them, as the settings can demand as well.
    pub hold: bool,
    /// The session of the calls, which sees what is held for it.
    pub session: Session,
    /// Additional limits of every call: the lower one of each and the usual limit applies.
    pub limits: LimitSettings,
    /// A channel whose value becomes true when the round is cancelled.
    pub cancel: Option<watch::Receiver<bool>>,
}

/// Ends a round with this state. The record of the round has the details.
struct Stopped(State);

/// A stage that is running, and when it began.
struct Clock(StageName, Instant);

impl Clock {
    fn start(stage: StageName) -> Self {
        Self(stage, Instant::now())
    }

    /// The stage as passed, with its duration.
    fn stop(&self) -> Stage {
        Stage::passed(self.0, milliseconds(self.1))
    }
}

/// Executed commands whose changes are staged.
struct Applied {
    transaction: Transaction,
    ended: Vec<Ended>,
    /// Whether a command, an invariant or a lint has failed.
    failed: bool,
}

impl Host {
    /// Runs a round. Never fails: errors are recorded in the returned [`Round`].
    pub fn pipeline<'a>(
        &'a self,
        inputs: Inputs,
        options: &'a PipelineOptions,
    ) -> BoxFuture<'a, Round> {
        async move {
            let started = Instant::now();
            let round = Round::begin(options.dry_run, options.phase_boundary);
            let mut running = RunningRound { host: self, options, round };
            let state = match running.run(inputs).await {
                Ok(()) if running.round.proposal.is_some() => State::Held,
                Ok(()) => State::Applied,
                Err(Stopped(state)) => state,
            };
            Round { state, duration_ms: milliseconds(started), ..running.round }
        }
        .boxed()
    }
}

/// A round that is running.
struct RunningRound<'a> {
    host: &'a Host,
    options: &'a PipelineOptions,
    /// The record so far.
    round: Round,
}

impl RunningRound<'_> {
    async fn run(&mut self, inputs: Inputs) -> Result<(), Stopped> {
        let (host, options) = (self.host, self.options);
        let clock = Clock::start(StageName::WorkOrder);
        let step = self.sized(&inputs.work_order);
        let step = step.and_then(|text| Step::read(text, options.mode));
        let input = input("file".to_owned(), &inputs.work_order);
        let step = self.accept(&clock, Some(input), step)?;
        self.round.step_id = Some(step.order().step_id.clone());
        let checker = Checker {
            mode: options.mode,
            registry: &host.registry,
            designer: host.policy.role(DESIGNER_ROLE),
            main: host.policy.role(MAIN_ROLE),
            step: &step,
        };
        let acceptance = checker.acceptance(options.phase_boundary);
        let acceptance = acceptance.map_err(|blocked| self.refuse_last(blocked))?;

        let clock = Clock::start(StageName::Designer);
        let ask = || prompt::designer(step.order(), &host.registry);
        let (text, input) = self.document(inputs.designer, ask, &clock).await?;
        let designed = self.sized(&text).and_then(|text| DesignerOutput::read(text, &checker));
        let design = match self.accept(&clock, Some(input), designed)? {
            Designed::Commands(design) => design,
            Designed::Error(reasons) => {
                self.round.log.extend(reasons);
                return Err(self.stopped(Verdict::Error, State::Blocked));
            }
        };
        self.round.changed_signatures.clone_from(&design.output.changed_signatures);

        let clock = Clock::start(StageName::Qa);
        let ask = || prompt::qa(step.order(), &design.output, &host.registry);
        let (text, input) = self.document(inputs.qa, ask, &clock).await?;
        let reviewed = self.sized(&text).and_then(|text| QaOutput::read(text, &design, &checker));
        let approval = match self.accept(&clock, Some(input), reviewed)? {
            Reviewed::Approved(approval) => *approval,
            Reviewed::Rejected(rejected) => {
                self.round.log.extend(rejected.reasons.iter().cloned());
                self.round.reasons = rejected.reasons;
                self.round.required_changes = rejected.required_changes;
                self.round.spot_checks = rejected.spot_checks;
                return Err(self.stopped(Verdict::Rejected, State::Blocked));
            }
        };
        self.execute(approval, acceptance, &step).await
    }

    /// Returns the text of a document, from an agent if necessary.
    async fn document(
        &mut self,
        source: Source,
        prompt: impl FnOnce() -> String,
        clock: &Clock,
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
            max_bytes: self.host.policy.limits().envelope,
        };
        match self.host.agents.ask(question, cancelled(self.options.cancel.clone())).await {
            Ok(text) => {
                let input = input(format!("agent {}", command.program()), &text);
                Ok((text, input))
            }
            Err(error) => {
                self.round.log.push(format!("{}: {error}", clock.0.as_str()));
                self.round.stages.push(clock.stop());
                Err(self.stopped(Verdict::NoAnswer, State::Blocked))
            }
        }
    }

    /// Returns the text unless it exceeds the size limit of envelopes.
    fn sized<'a>(&self, text: &'a str) -> Result<&'a str, Blocked> {
        match self.host.check_size(text.len(), "a document") {
            Ok(()) => Ok(text),
            Err(refusal) => {
                let problems = refusal.problems.into_iter().map(|wrong| wrong.problem);
                Err(problems.collect::<Vec<_>>().into())
            }
        }
    }

    /// Returns a document that is valid, or ends the round.
    fn accept<T>(
        &mut self,
        clock: &Clock,
        input: Option<Input>,
        read: Result<Decoded<T>, Blocked>,
    ) -> Result<T, Stopped> {
        let stage = Stage { input, ..clock.stop() };
        match read {
            Ok(Decoded { document, repairs }) => {
                let name = stage.stage.as_str();
                self.round.log.extend(repairs.iter().map(|repair| format!("{name}: {repair}")));
                self.round.stages.push(Stage { repairs, ..stage });
                Ok(document)
            }
            Err(blocked) => {
                self.round.stages.push(stage);
                Err(self.refuse_last(blocked))
            }
        }
    }

    /// Ends the round because the document of its last stage is invalid. The journal gets a line,
    /// as for refused envelopes.
    fn refuse_last(&mut self, mut blocked: Blocked) -> Stopped {
        self.round.log.append(&mut blocked.log);
        let reason = blocked.problems.first().map(ToString::to_string).unwrap_or_default();
        let failure = Failure::new(ErrorCode::Blocked, reason);
        let id = uuid::Uuid::now_v7().to_string();
        let record = Record::new(&id, "-", None, &Outcome::Failed(failure), 0.0);
        self.host.record(record, None, &Origin::default());
        if let Some(stage) = self.round.stages.pop() {
            self.round.stages.push(stage.invalid(blocked));
        }
        Stopped(State::Blocked)
    }

    /// Ends the round at its last stage, with a verdict.
    fn stopped(&mut self, verdict: Verdict, state: State) -> Stopped {
        if let Some(stage) = self.round.stages.last_mut() {
            stage.verdict = verdict;
        }
        Stopped(state)
    }

    /// Executes the approved commands, verifies the result, and commits it.
    async fn execute(
        &mut self,
        approval: Approval,
        acceptance: Vec<Verifying>,
        step: &Step,
    ) -> Result<(), Stopped> {
        let Approval { output, edits, verifying } = approval;
        self.round.touched_files = edits.touched.iter().map(ToString::to_string).collect();
        self.round.reasons.clone_from(&output.reasons);
        self.round.spot_checks.clone_from(&output.spot_checks);

        let clock = Clock::start(StageName::Apply);
        let mut applied = self.apply(edits, step, &clock).await?;
        for (command, ended) in output.commands.into_iter().zip(&applied.ended) {
            let ended = round::Ended::from(&ended.answer.outcome);
            if let Some(error) = ended.error.as_ref().filter(|_| ended.outcome != Status::Skipped) {
                let tool = &command.tool;
                self.round
                    .log
                    .push(format!("tool error: {tool}: {}: {}", error.code, error.message));
                applied.failed = true;
            }
            self.round.commands.push(Executed { command, ended });
        }
        applied.failed |= self.is_cancelled();
        if !applied.failed {
            applied.failed = self.compare(step, &applied.transaction).await;
        }
        self.round.stages.push(verdict(clock.stop(), applied.failed));

        if !applied.failed {
            let clock = Clock::start(StageName::Verify);
            let lints = lints(verifying, acceptance);
            let is_clean = self.verify(lints, &mut applied).await;
            applied.failed = !is_clean || self.is_cancelled();
            self.round.stages.push(verdict(clock.stop(), applied.failed));
        }
        self.finish(applied).await
    }

    /// Executes commands in a transaction until one fails.
    async fn apply(
        &mut self,
        edits: Edits,
        step: &Step,
        clock: &Clock,
    ) -> Result<Applied, Stopped> {
        let run_options = run_options(DESIGNER_ROLE, self.options);
        let transaction = match self.host.begin(&run_options, self.host.policy.limits().call).await
        {
            Ok(transaction) => transaction,
            Err(error) => {
                let code = RefusalCode::from(&error).as_str();
                self.round.log.push(format!("tool error: {code}: {error}"));
                self.round.stages.push(clock.stop());
                return Err(self.stopped(Verdict::Failed, State::Failed));
            }
        };
        let role = self.host.policy.role(DESIGNER_ROLE);
        let run = RunContext { options: &run_options, role, scope: step.scope() };
        let mut ended: Vec<Ended> = Vec::with_capacity(edits.calls.len());
        let mut failed = false;
        for call in edits.calls {
            let done = self.host.answer(call, &run, failed, Some(&transaction)).await;
            failed |= done.has_failed();
            ended.push(done);
        }
        Ok(Applied { transaction, ended, failed })
    }

    /// Whether the round was cancelled. Adds a line to its log.
    fn is_cancelled(&mut self) -> bool {
        let is_cancelled = is_cancelled(self.options.cancel.as_ref());
        if is_cancelled {
            self.round.log.push("cancelled".to_owned());
        }
        is_cancelled
    }

    /// Checks the invariants on the touched files. Returns whether one of them is broken.
    async fn compare(&mut self, step: &Step, transaction: &Transaction) -> bool {
        let before = match self.host.tree(&run_options(DESIGNER_ROLE, self.options)).await {
            Ok(before) => before,
            Err(Failure { code, message, .. }) => {
                self.round.log.push(format!("tool error: invariants: {code}: {message}"));
                return true;
            }
        };
        let mut files = Vec::new();
        let mut unread = Vec::new();
        for path in &self.round.touched_files {
            match (read_text(&before, path), read_text(transaction.overlay(), path)) {
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
                Held::Broken => self.round.log.push(format!("broken invariant: {text}: {note}")),
                Held::NotChecked => {
                    self.round.log.push(format!("invariant not checked: {text}: {note}"));
                }
            }
            self.round.invariants.push(finding);
        }
        self.round.invariants.iter().any(|finding| finding.verdict == Held::Broken)
    }

    /// Lints the staged changes until a lint is not clean. Returns whether all are clean.
    async fn verify(&mut self, lints: Vec<(Reason, ValidCall)>, applied: &mut Applied) -> bool {
        let run_options = run_options(MAIN_ROLE, self.options);
        let role = self.host.policy.role(MAIN_ROLE);
        let run = RunContext { options: &run_options, role, scope: &Scope::default() };
        for (reason, call) in lints {
            let args = call.args().clone();
            let done = self.host.answer(call, &run, false, Some(&applied.transaction)).await;
            let ended = round::Ended::from(&done.answer.outcome);
            applied.ended.push(done);
            let mut linted = Linted { reason, args, clean: false, errors_before: None, ended };
            if let Some(error) = &linted.ended.error {
                self.round
                    .log
                    .push(format!("tool error: lint_backend: {}: {}", error.code, error.message));
                self.round.lints.push(linted);
                return false;
            }
            let summary = linted.ended.result.as_ref().map(|result| result["summary"].clone());
            let summary = summary.unwrap_or_default();
            self.round.log.push(format!("lint summary: {summary}"));
            let unchecked = linted.ended.result.as_ref().and_then(|result| errors(result).1);
            self.round.log.extend(unchecked.map(|why| format!("lint {why}")));
            let notes = linted.ended.result.as_ref().map(|result| &result["notes"]);
            let notes = notes.and_then(Value::as_array).into_iter().flatten();
            let notes = notes.filter_map(Value::as_str).map(|note| format!("lint note: {note}"));
            self.round.log.extend(notes);
            linted.clean = summary["clean"] == true;
            if !linted.clean {
                linted.errors_before = self.errors_before(&linted.args, &run).await;
                self.round.lints.push(linted);
                return false;
            }
            self.round.lints.push(linted);
        }
        true
    }

    /// Lints the same files of the unchanged workspace, for the record: the round fails in either
    /// case. Files that only this round changes count as changed.
    async fn errors_before(&mut self, args: &Value, run: &RunContext<'_>) -> Option<u64> {
        let mut args = args.clone();
        args["changed"] = self.round.touched_files.clone().into();
        let call = Call { pointer: String::new(), tool: VERIFICATION_TOOL.1.to_owned(), args };
        let call = dispatch::resolve_one(&self.host.registry, call, run.role).ok()?;
        let before = self.host.answer(call, run, false, None).await;
        let Outcome::Executed(result) = before.answer.outcome else { return None };
        let (errors, unchecked) = errors(&result);
        let unchecked = unchecked.map(|why| format!("; {why}")).unwrap_or_default();
        self.round
            .log
            .push(format!("before the change, the same lint had {errors} errors{unchecked}"));
        Some(errors)
    }

    /// Commits or holds the staged changes, or rolls them back.
    async fn finish(&mut self, applied: Applied) -> Result<(), Stopped> {
        let Applied { transaction, mut ended, mut failed } = applied;
        let clock = Clock::start(StageName::Commit);
        if self.options.dry_run {
            match blocking(move || transaction.diff()).await {
                Ok(diff) => self.round.diff = Some(String::from_utf8_lossy(&diff).into_owned()),
                Err(error) => {
                    self.round.log.push(format!("tool error: diff: {error}"));
                    failed = true;
                }
            }
        } else if failed && !self.options.keep {
            drop(transaction);
            let why = "discarded: the round of the pipeline failed";
            discard(&mut ended, &Failure::new(ErrorCode::RolledBack, why));
        } else {
            let kept = self.keep(transaction, &mut ended).await;
            if let Err(Failure { code, message, .. }) = &kept {
                self.round.log.push(format!("tool error: commit: {code}: {message}"));
                failed = true;
            }
            self.round.stages.push(verdict(clock.stop(), kept.is_err()));
        }
        for Ended { record, tool, .. } in ended {
            if let Some(record) = record {
                self.host.record(record, Some(&tool), &Origin::default());
            }
        }
        if failed { Err(Stopped(State::Failed)) } else { Ok(()) }
    }

    /// Commits the staged changes, or holds them until a user accepts them.
    async fn keep(&mut self, transaction: Transaction, ended: &mut [Ended]) -> Result<(), Failure> {
        let options = run_options(DESIGNER_ROLE, self.options);
        let is_held = ended.iter().any(|ended| ended.is_held);
        if options.hold || is_held || transaction.is_stacked() {
            self.round.proposal = self.host.hold_staged(transaction, ended, &options).await?;
        } else {
            self.round.commit = self.host.commit_staged(transaction, ended, None).await?;
        }
        Ok(())
    }
}

/// The lints to run: the approved one, and those of the work order that it does not cover.
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
        hold: options.hold,
        session: options.session.clone(),
        limits: options.limits,
        cancel: options.cancel.clone(),
        ..RunOptions::default()
    }
}

/// Returns the contents of a file if it is UTF-8 text.
fn read_text(tree: &Overlay, path: &str) -> Option<String> {
    use std::io::Read as _;
    let place = tree.resolve("", path, true).ok()?;
    let (file, _) = tree.open_read(&place).ok()?;
    let mut text = String::new();
    let read = file.take(MAX_COMPARED_BYTES + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= MAX_COMPARED_BYTES).then_some(text)
}

fn input(from: String, text: &str) -> Input {
    Input { from, sha256: Digest::of(text.as_bytes()).hex(), bytes: text.len() }
}

fn verdict(stage: Stage, failed: bool) -> Stage {
    Stage { verdict: if failed { Verdict::Failed } else { stage.verdict }, ..stage }
}

fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
