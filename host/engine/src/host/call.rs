//! Makes one call of a run: grants it, asks for approval, executes it in its transaction, records
//! it. Steps that not every call takes, and the execution, are boxed, so that the future of a call stays small: it is
//! moved several times.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::Value;

use super::Host;
use super::approval::Approved;
use super::cancel::{cancelled, is_cancelled};
use super::consents;
use super::context::{ActiveCall, RunContext, RunOptions};
use super::ended::{Ended, Performed};
use super::execute::refused;
use super::executed::{named, not_written};
use super::paused::{self, Progress};
use super::questions;
use super::under_way::UnderWay;
use crate::call::SecretGuard;
use crate::dispatch::{self, Bounds, GrantedCall, ValidCall};
use crate::journal::{self, Record};
use crate::runtime::blocking;
use cofferdam_core::envelope::Answer;
use cofferdam_core::outcome::{Failure, Outcome, SkippedCode, Status};
use cofferdam_core::policy::{Executed, Files};
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_workspace::{Purpose, Transaction};

impl Host {
    /// Makes a call, in the transaction `shared` if there is one. With `skip`, only reports that an
    /// earlier call failed. Users of other processes can see and cancel the call.
    pub(super) async fn answer(
        &self,
        call: ValidCall,
        run: &RunContext<'_>,
        skip: bool,
        shared: Option<&Transaction>,
    ) -> Ended {
        let (under_way, options) = UnderWay::new(self, &call, run.options);
        let own = RunContext { options: &options, role: run.role, scope: run.scope };
        let mut ended = tokio::select! {
            biased;
            // First: most calls end before anything else has to be waited for.
            ended = self.answer_as((under_way.id(), call), &own, skip, shared) => ended,
            never = under_way.watch(self) => match never {},
        };
        under_way.name_user(&mut ended);
        ended
    }

    /// Makes a call with this id.
    async fn answer_as(
        &self,
        (id, call): (&str, ValidCall),
        run: &RunContext<'_>,
        skip: bool,
        shared: Option<&Transaction>,
    ) -> Ended {
        let id = id.to_owned();
        let earlier = run.options.session.reads().all();
        let secrets = Arc::new(SecretGuard::new(Arc::clone(self.policy.secrets()), earlier));
        let (usage, consents, questions) = (Arc::default(), Arc::default(), Arc::default());
        let mut active =
            ActiveCall { run, id, usage, secrets, consents, questions, progress: None };
        let started = Instant::now();
        let name = call.name().to_owned();
        let begun = Begun::of(&call);
        let tool = Arc::clone(call.tool());
        let (performed, started) = if skip || is_cancelled(run.options.cancel.as_ref()) {
            let why = if skip { "an earlier call failed" } else { "the run was cancelled" };
            (Failure::new(SkippedCode::Skipped, why).into(), started)
        } else {
            match self.allow(call, run, shared.is_some()) {
                Err(failure) => (failure.into(), started),
                Ok(granted) => match self.progress(&active, &granted, shared.is_some()).await {
                    Err(failure) => (failure.into(), started),
                    Ok(progress) => {
                        active.progress = progress;
                        active.consents = Arc::new(consents::guard(run.options, &granted));
                        active.questions = Arc::new(questions::guard(run.options, &granted));
                        self.make(&active, granted, shared).await
                    }
                },
            }
        };
        let latency = started.elapsed().saturating_sub(performed.asked);
        let refused = refused(&active);
        let record = begun.record(&active, &performed, latency);
        let Performed { outcome, executed, held, is_held, .. } = performed;
        let outputs = record.outputs.clone();
        let mut warnings = named(&executed);
        // The message of a failure has it already.
        warnings.extend(refused.filter(|_| matches!(outcome, Outcome::Executed(_))));
        warnings.extend(held.as_ref().map(|held| self.held_notice(held)));
        // The client does not see the result of a call that waits for the user.
        if record.outcome() != Status::Skipped {
            warnings.extend(self.notices(run.options).await);
        }
        let has_changed =
            record.outcome() == Status::Executed && tool.tool().effects == Files::Write;
        let answer = Answer { tool: name, done: tool.tool().done.clone(), outcome, warnings };
        let is_staged = shared.is_some() && has_changed;
        let record = if shared.is_some() {
            Some(record)
        } else {
            self.record(record, Some(&tool), &run.options.origin);
            None
        };
        Ended { answer, outputs, tool, record, is_staged, is_held }
    }

    /// What the session is to be told of decisions about its held changes.
    async fn notices(&self, options: &RunOptions) -> Vec<String> {
        let workspace = Arc::clone(&self.services.workspace);
        if options.dry_run || options.leave_notices || !workspace.may_have_notices() {
            return Vec::new();
        }
        let session = options.session.clone();
        let taken = blocking(move || workspace.take_notices(session.name())).await;
        taken.unwrap_or_else(|error| {
            tracing::warn!("the notices for a session can't be read: {error}");
            Vec::new()
        })
    }

    /// Grants a call and counts it. Denied calls are not counted.
    pub(super) fn allow(
        &self,
        call: ValidCall,
        run: &RunContext<'_>,
        is_shared: bool,
    ) -> Result<GrantedCall, Failure> {
        let bounds = Bounds { role: run.role, limits: &run.options.limits, scope: run.scope };
        let granted = dispatch::grant(&self.policy, &self.grants, call, &bounds)
            .map_err(|denial| dispatch::denied(&denial))?;
        if is_shared && granted.asks_agents() {
            return Err(dispatch::not_in_transaction());
        }
        if is_shared && granted.commits_to_git() {
            return Err(dispatch::git_commit_not_in_transaction());
        }
        if is_shared && granted.leaves_programs() {
            return Err(dispatch::background_not_in_transaction());
        }
        if run.options.atomic && granted.may_undo() {
            return Err(dispatch::undo_not_in_transaction());
        }
        self.shared.repeats.count(granted.call())?;
        Ok(granted)
    }

    /// Makes a granted call, after the user's approval if that is required. Also returns when it
    /// started, since its latency must not include the time that the user takes.
    async fn make(
        &self,
        active: &ActiveCall<'_>,
        mut call: GrantedCall,
        shared: Option<&Transaction>,
    ) -> (Performed, Instant) {
        let approved = self.approved(active, &call).await;
        let started = Instant::now();
        let mut approved = match approved {
            Ok(approved) => approved,
            Err(failure) => return (failure.into(), started),
        };
        let mut asked = Duration::ZERO;
        let progress = active.progress.as_deref();
        let mut performed = loop {
            if let Some(progress) = progress.filter(|progress| progress.is_waiting()) {
                let asking = Instant::now();
                let answered = self.ask_paused(active, &call, progress).boxed().await;
                asked += asking.elapsed();
                match answered {
                    Ok(answered) => approved = answered,
                    Err(failure) => break failure.into(),
                }
            }
            let may_repeat = progress.is_some() || active.may_ask();
            let same = may_repeat.then(|| call.clone());
            let performed = self.try_once(active, call, shared, approved).await;
            let Some(same) = same else { break performed };
            call = same;
            if progress.is_some_and(Progress::is_waiting) {
                continue;
            }
            // What a call has done before it was paused can't be done again.
            let may_repeat = !progress.is_some_and(Progress::has_continued);
            let asking = Instant::now();
            let answered = match may_repeat {
                true => self.ask_once_more(active, &call).boxed().await,
                false => None,
            };
            asked += asking.elapsed();
            match answered {
                Some(Ok(())) => {}
                Some(Err(failure)) => break failure.into(),
                None => break performed,
            }
        };
        performed.asked += asked;
        (performed, started)
    }

    /// Asks the user about what a call was stopped at. Returns `None` if it was not stopped.
    async fn ask_once_more(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
    ) -> Option<Result<(), Failure>> {
        if let Some(flow) = active.secrets.wanted() {
            return Some(self.approved_flow(active, call, flow).await);
        }
        if let Some(request) = active.consents.wanted() {
            return Some(self.ask_consent(active, call, request).await);
        }
        let questions = active.questions.wanted()?;
        Some(self.ask_questions(active, call, questions).await)
    }

    /// Executes a call, until it ends or would send something that the user has to approve.
    async fn try_once(
        &self,
        active: &ActiveCall<'_>,
        call: GrantedCall,
        shared: Option<&Transaction>,
        approved: Approved,
    ) -> Performed {
        let performed = match shared {
            Some(transaction) => {
                let asks_agents = call.asks_agents();
                let staged = self.stage(active, call, transaction);
                self.run_if_unchanged(&approved, asks_agents, staged).await
            }
            None => self.perform(active, call, approved).await,
        };
        performed.unwrap_or_else(Performed::from)
    }

    /// Executes a call, in a transaction of its own if it may change anything. If the user approved
    /// a diff, the call fails unless its changes are exactly those.
    async fn perform(
        &self,
        active: &ActiveCall<'_>,
        call: GrantedCall,
        approved: Approved,
    ) -> Result<Performed, Failure> {
        let options = active.run.options;
        let mut cancelled = pin!(cancelled(options.cancel.clone()));
        let changes_itself = call.asks_agents() || call.commits_to_git();
        let tool = Arc::clone(call.call().tool());
        if !call.may_write() {
            let tree = self.tree(options).await?;
            let is_held = options.hold || call.is_held() || tree.is_changed();
            // Agents change the workspace by calls of their own.
            if is_held && call.asks_agents() {
                return Err(dispatch::not_held(tree.is_changed()));
            }
            let run =
                async { self.execute_call(active, call, &tree, cancelled).boxed().await.into() };
            return self.run_if_unchanged(&approved, changes_itself, run).await;
        }
        let may_ask = self.executed(active.run) == Executed::Ask || call.calls_tools();
        let may_ask = may_ask.then(|| call.clone());
        let (transaction, is_held) = self.begun(active, &call, cancelled.as_mut()).boxed().await?;
        let progress = active.progress.as_deref();
        let since = transaction.is_stacked().then(|| transaction.savepoint());
        let tree = Arc::clone(transaction.overlay());
        let run = async {
            match progress.and_then(Progress::output) {
                Some(output) => Outcome::Executed(output).into(),
                None => self.execute_call(active, call, &tree, cancelled).boxed().await.into(),
            }
        };
        let performed = self.run_if_unchanged(&approved, changes_itself, run).await?;
        if let Some(progress) = progress.filter(|progress| progress.is_waiting()) {
            self.pause(active, progress, transaction).boxed().await?;
            return Ok(performed);
        }
        let Outcome::Executed(output) = performed.outcome else { return Ok(performed) };
        if progress.is_some_and(Progress::has_unused_answer) {
            return Err(dispatch::stop_failure(&paused::not_the_same(), self.policy.limits()));
        }
        let transaction = match approved.change {
            Some(shown) => Self::if_as_previewed(transaction, shown).boxed().await?,
            None => transaction,
        };
        let executed = transaction.executed(since.as_ref());
        // The user has seen the changes of a call that had ended before.
        let is_seen = progress.is_some_and(|progress| progress.output().is_some());
        let may_ask = may_ask.as_ref().filter(|_| !is_seen).map(|call| (call, &approved));
        progress.inspect(|progress| progress.ended(&output));
        let (transaction, asked) =
            self.approved_changes(active, transaction, &executed, may_ask).boxed().await?;
        // Cancellation has no effect from here on: the changes are committed.
        if is_cancelled(options.cancel.as_ref()) {
            return Err(dispatch::cancelled());
        }
        let is_held = is_held || active.usage.is_held();
        let kept = self.keep(active, &tool, transaction, is_held).boxed().await?;
        Ok(Performed { outcome: Outcome::Executed(output), executed, asked, ..kept })
    }

    /// Begins the transaction of a call, with what it had staged before it was paused. Returns it, and
    /// whether its changes have to be held.
    async fn begun(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(Transaction, bool), Failure> {
        let options = active.run.options;
        let transaction = tokio::select! {
            begun = self.begin(options, call.limits.call) => {
                begun.map_err(|error| dispatch::not_begun(&error))?
            }
            () = cancelled => {
                return Err(dispatch::cancelled());
            }
        };
        let is_held = options.hold || call.is_held() || transaction.is_stacked();
        let progress = active.progress.as_deref();
        let has_continued = is_held && progress.is_some_and(Progress::forbid);
        if is_held && (call.needs_the_disk() || has_continued) {
            return Err(dispatch::not_held(transaction.is_stacked()));
        }
        let transaction = match progress {
            Some(progress) => Self::resume(progress, transaction).await?,
            None => transaction,
        };
        Ok((transaction, is_held))
    }

    /// Commits the changes of a call, or holds them.
    async fn keep(
        &self,
        active: &ActiveCall<'_>,
        tool: &ToolEntry,
        transaction: Transaction,
        is_held: bool,
    ) -> Result<Performed, Failure> {
        let (options, name) = (active.run.options, tool.qualified_name());
        let own = || vec![active.id.clone()];
        let calls = active.progress.as_ref().map_or_else(own, |progress| progress.ids(&active.id));
        let kept = Performed::from(Outcome::Executed(Value::Null));
        if is_held {
            let held = self.hold(transaction, calls, vec![name.to_string()], options).await?;
            return Ok(Performed { held, ..kept });
        }
        let commit = self.commit(transaction, Purpose::of(calls)).await?;
        if let Some(commit) = &commit {
            options.session.add(commit, vec![name.parts().1.to_owned()]);
        }
        Ok(Performed { commit, ..kept })
    }

    /// Executes a call in a shared transaction. Rolls back its changes if it fails.
    async fn stage(
        &self,
        active: &ActiveCall<'_>,
        call: GrantedCall,
        transaction: &Transaction,
    ) -> Performed {
        let tree = transaction.overlay();
        let savepoint = call.may_write().then(|| tree.savepoint());
        let cancelled = cancelled(active.run.options.cancel.clone());
        let is_held = call.is_held() && call.may_write();
        let outcome = self.execute_call(active, call, tree, cancelled).boxed().await;
        let mut performed = Performed::from(outcome);
        performed.is_held = is_held || active.usage.is_held();
        let Some(savepoint) = savepoint else { return performed };
        if let Outcome::Executed(_) = performed.outcome {
            performed.executed = tree.executed(Some(&savepoint));
            let mode = self.executed(active.run);
            if mode != Executed::Named && !performed.executed.is_empty() {
                performed = not_written(mode, &performed.executed).into();
            } else if let Some(failure) = Self::not_asked(active) {
                performed = failure.into();
            }
        }
        if let Outcome::Failed(_) = performed.outcome {
            tree.roll_back(savepoint);
        }
        performed
    }
}

/// What is recorded of a call, besides its end.
pub(super) struct Begun {
    tool: Arc<ToolEntry>,
    library: (Option<String>, Option<String>),
}

impl Begun {
    pub(super) fn of(call: &ValidCall) -> Self {
        Self { tool: Arc::clone(call.tool()), library: journal::library(call.args()) }
    }

    /// The record of the call, which took `latency`.
    pub(super) fn record(
        self,
        active: &ActiveCall<'_>,
        performed: &Performed,
        latency: Duration,
    ) -> Record {
        let options = active.run.options;
        let (tool, latency_ms) = (self.tool.qualified_name(), latency.as_secs_f64() * 1000.0);
        let role = options.role.as_deref();
        let mut record = Record::new(&active.id, &tool, role, &performed.outcome, latency_ms);
        (record.library, record.library_id) = self.library;
        record.commit.clone_from(&performed.commit);
        record.proposal = performed.held.as_ref().map(|held| held.proposal.to_string());
        options.name_caller(&mut record);
        record.dry_run = options.dry_run;
        record.add_usage(active.usage.take());
        record.executed = named(&performed.executed);
        record.secrets = active.note_reads(&performed.outcome);
        record.consents = active.consents.records();
        record
    }
}
