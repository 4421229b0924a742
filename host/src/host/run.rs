//! Running calls: those of an envelope, or one that comes without. Each is decided, executed in a
//! transaction if it may change anything, and recorded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::approval::Approved;
use super::executed::{named, not_written};
use super::{Approver, Host};
use crate::capability::{Contacts, Usage};
use crate::dispatch::{self, Executor, GrantedCall, Refusal, RefusalCode, ValidCall};
use crate::envelope::{self, Answer, Call, Envelope, Mode};
use crate::journal::{self, Record};
use crate::line::Client;
use crate::outcome::{Failure, Outcome, Status};
use crate::policy::{Executed, Files, LimitSettings, Role, Scope};
use crate::runtime::{Observer, blocking};
use crate::telemetry::Origin;
use crate::workspace::{ExecutedFile, KeptOutput, Transaction};

/// How an envelope is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The role that the calls are made under.
    pub role: Option<String>,
    /// Skip what comes after the first call that fails.
    pub fail_fast: bool,
    /// Commit what all calls change as one, or nothing if a call fails. Later calls see what
    /// earlier ones changed; what comes after the first that fails is skipped.
    pub atomic: bool,
    /// Commit nothing, and answer what would be committed.
    pub dry_run: bool,
    /// Limits of every call, below those that hold anyway.
    pub limits: LimitSettings,
    /// The files and directories that calls may touch, of those that the role's scope holds;
    /// empty: all of them.
    pub scope: Vec<String>,
    /// Turns true when the run should end early.
    pub cancel: Option<watch::Receiver<bool>>,
    /// Whoever listens to these calls; `None`: the host's own observer.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whoever can ask a person; `None`: calls that need a person's yes are denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// Whom they are made for: clients take turns.
    pub client: Client,
    /// Where the calls come from, for telemetry.
    pub origin: Origin,
}

/// An envelope and how its calls ended, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was run; its calls are in `answers`.
    pub envelope: Envelope,
    /// One for each call.
    pub answers: Vec<Answer>,
    /// What a dry run would have changed, as a unified diff.
    pub diff: Option<Vec<u8>>,
    /// What the calls' programs printed and is kept as a whole.
    pub outputs: Vec<KeptOutput>,
}

/// How one call ended that came without an envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Single {
    /// Its answer.
    pub answer: Answer,
    /// What a dry run would have changed, as a unified diff.
    pub diff: Option<Vec<u8>>,
    /// What its programs printed and is kept as a whole.
    pub outputs: Vec<KeptOutput>,
}

/// A call that has ended, and what is to be recorded of it.
pub(super) struct Ended {
    pub(super) answer: Answer,
    outputs: Vec<KeptOutput>,
    /// None where that was done already.
    pub(super) record: Option<Record>,
    /// Whether what it changed is staged and not committed yet.
    is_staged: bool,
}

/// How a call that was made has ended.
pub(super) struct Performed {
    pub(super) outcome: Outcome,
    commit: Option<String>,
    /// What it wrote that other programs execute by its name.
    executed: Vec<ExecutedFile>,
    /// How long a person took who was asked about that.
    asked: Duration,
}

impl From<Outcome> for Performed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, commit: None, executed: Vec::new(), asked: Duration::ZERO }
    }
}

impl From<Failure> for Performed {
    fn from(failure: Failure) -> Self {
        Outcome::Failed(failure).into()
    }
}

impl Run {
    /// The result document, in the envelope's dialect.
    pub fn document(&self) -> Value {
        let mut document = envelope::results(&self.envelope, &self.answers);
        if let (Some(diff), Some(fields)) = (&self.diff, document.as_object_mut()) {
            fields.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        document
    }
}

/// How a call runs: by what, under which id, and what it has to do with others.
type Work<'a> = (&'a Executor<'a>, &'a str, &'a Arc<Contacts>);

impl Host {
    /// Decodes an envelope and checks everything that can be checked without running it.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(
        &self,
        text: &str,
        mode: Mode,
        role: Option<&str>,
    ) -> Result<(Envelope, Vec<ValidCall>), Refusal> {
        let role = self.role(role)?;
        self.check_size(text.len(), "an envelope")?;
        let mut envelope = envelope::decode(text, mode)?;
        let most = self.policy.limits().calls;
        if envelope.calls.len() > most {
            return Err(Refusal::whole(
                RefusalCode::TooLarge,
                format!("at most {most} calls (limits.calls)"),
                format!("an envelope of {} calls", envelope.calls.len()),
            ));
        }
        let calls = std::mem::take(&mut envelope.calls);
        let valid = dispatch::resolve(&self.registry, calls, role)?;
        Ok((envelope, valid))
    }

    /// Runs an envelope. Calls that only read and stand next to each other run side by side;
    /// a call that changes something runs alone, in its place.
    ///
    /// # Errors
    /// An envelope that is not taken: nothing was run.
    pub async fn run(&self, text: &str, mode: Mode, options: &RunOptions) -> Result<Run, Refusal> {
        let checked = self.check(text, mode, options.role.as_deref());
        let (envelope, calls) =
            checked.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let role = self.role(options.role.as_deref())?;
        let (answers, diff, outputs) = self.run_calls(calls, role, options).await?;
        Ok(Run { envelope, answers, diff, outputs })
    }

    /// Runs one call that comes without an envelope; `args` is the text of a JSON object.
    ///
    /// # Errors
    /// A call that is not taken: nothing was run.
    pub async fn call(
        &self,
        tool: &str,
        args: &str,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let sized = self.check_size(args.len(), "arguments");
        let args = sized.and_then(|()| Ok(envelope::arguments(args)?));
        self.call_checked(tool, args, options).await
    }

    /// The same with arguments that have been parsed: what reads them sees to it that no key stood
    /// twice.
    ///
    /// # Errors
    /// A call that is not taken: nothing was run.
    pub async fn call_parsed(
        &self,
        tool: &str,
        args: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let args = envelope::parsed_arguments(args);
        let sized = self.check_size(envelope::size(&args), "arguments");
        self.call_checked(tool, sized.map(|()| args), options).await
    }

    async fn call_checked(
        &self,
        tool: &str,
        args: Result<Value, Refusal>,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let role = options.role.as_deref();
        let checked = args.and_then(|args| self.check_call(tool, args, role));
        let call = checked.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let role = self.role(role)?;
        let (mut answers, diff, outputs) = self.run_calls(vec![call], role, options).await?;
        let answer = answers
            .pop()
            .ok_or_else(|| Refusal::whole(RefusalCode::InvalidEnvelope, "one call", "none"))?;
        Ok(Single { answer, diff, outputs })
    }

    /// Runs calls, each in a transaction of its own or all in one.
    async fn run_calls(
        &self,
        calls: Vec<ValidCall>,
        role: Option<&Role>,
        options: &RunOptions,
    ) -> Result<(Vec<Answer>, Option<Vec<u8>>, Vec<KeptOutput>), Refusal> {
        let scope = Scope::new(&options.scope).map_err(|error| {
            Refusal::whole(
                RefusalCode::InvalidScope,
                "paths relative to the workspace",
                error.to_string(),
            )
        });
        let scope = scope.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let shared = if options.atomic || options.dry_run {
            let begun =
                self.begin(options.client, self.policy.limits().call).await.map_err(|error| {
                    Refusal::whole(
                        (&error).into(),
                        "a workspace that can be changed",
                        error.to_string(),
                    )
                });
            Some(begun.inspect_err(|refusal| self.record_refusal(refusal, options))?)
        } else {
            None
        };
        let fail_fast = options.fail_fast || options.atomic;
        let mut ended: Vec<Ended> = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        let mut failed = false;
        while let Some(first) = calls.next() {
            let mut group = vec![first];
            if !fail_fast && only_reads(&group[0]) {
                while let Some(next) = calls.next_if(only_reads) {
                    group.push(next);
                }
            }
            let done: Vec<Ended> = stream::iter(group)
                .map(|call| {
                    let skip = failed && fail_fast;
                    self.answer(call, role, options, &scope, skip, shared.as_ref())
                })
                .buffered(self.standing.workers.count())
                .collect()
                .await;
            failed |= done.iter().any(|ended| matches!(ended.answer.outcome, Outcome::Failed(_)));
            ended.extend(done);
        }
        let mut diff = None;
        match shared {
            Some(_) if failed && options.atomic => {
                let why = "discarded: a call of the same transaction failed";
                discard(&mut ended, &Failure::new(Status::Error, "RolledBack", why));
                diff = options.dry_run.then(Vec::new);
            }
            Some(transaction) if options.dry_run => {
                match blocking(move || transaction.diff()).await {
                    Ok(text) => diff = Some(text),
                    Err(error) => discard(&mut ended, &dispatch::not_committed(&error)),
                }
            }
            Some(transaction) => {
                // If it fails, that is what the calls answer.
                let _ = self.commit_staged(transaction, &mut ended).await;
            }
            None => {}
        }
        let outputs = ended.iter_mut().flat_map(|ended| std::mem::take(&mut ended.outputs));
        let outputs = outputs.collect();
        let record = |ended: Ended| {
            if let Some(record) = ended.record {
                self.record(record, &options.origin);
            }
            ended.answer
        };
        Ok((ended.into_iter().map(record).collect(), diff, outputs))
    }

    fn check_call(
        &self,
        tool: &str,
        args: Value,
        role: Option<&str>,
    ) -> Result<ValidCall, Refusal> {
        let role = self.role(role)?;
        let call = Call { pointer: String::new(), tool: tool.to_owned(), args };
        let mut valid = dispatch::resolve(&self.registry, vec![call], role)?;
        valid.pop().ok_or_else(|| Refusal::whole(RefusalCode::InvalidEnvelope, "one call", "none"))
    }

    pub(super) fn check_size(&self, bytes: usize, what: &str) -> Result<(), Refusal> {
        let most = self.policy.limits().envelope;
        if bytes <= most {
            return Ok(());
        }
        Err(Refusal::whole(
            RefusalCode::TooLarge,
            format!("at most {most} bytes (limits.envelope-mb)"),
            format!("{what} of {bytes} bytes"),
        ))
    }

    pub(super) async fn answer(
        &self,
        call: ValidCall,
        role: Option<&Role>,
        options: &RunOptions,
        scope: &Scope,
        skip: bool,
        shared: Option<&Transaction>,
    ) -> Ended {
        let id = uuid::Uuid::now_v7().to_string();
        let mut started = Instant::now();
        let name = call.name().to_owned();
        let (library, library_id) = journal::library(call.args());
        let tool = Arc::clone(call.tool());
        let contacts: Arc<Contacts> = Arc::default();
        let mut cancel = options.cancel.clone();
        let performed: Performed = if skip || is_cancelled(cancel.as_ref()) {
            let why = if skip { "an earlier call failed" } else { "the run was cancelled" };
            Failure::new(Status::Skipped, "Skipped", why).into()
        } else {
            match self.allow(call, role, options, scope, shared.is_some()) {
                Err(failure) => failure.into(),
                Ok(granted) => {
                    let executor = self.executor(options);
                    let approved = self.approved(&executor, &id, &granted, options).await;
                    // A person's time is not the tool's.
                    started = Instant::now();
                    let performed = match (approved, shared) {
                        (Err(failure), _) => Err(failure),
                        (Ok(approved), Some(transaction)) => {
                            let cancelled = cancelled(&mut cancel);
                            let asks_agents = granted.asks_agents();
                            let work = (&executor, &*id, &contacts);
                            let staged = self.stage(work, options, granted, transaction, cancelled);
                            self.as_approved(&approved, asks_agents, staged).await
                        }
                        (Ok(approved), None) => {
                            let work = (&executor, &*id, &contacts);
                            self.perform(work, options, granted, approved).await
                        }
                    };
                    performed.unwrap_or_else(Performed::from)
                }
            }
        };
        let Performed { outcome, commit, executed, asked } = performed;
        started += asked;
        let latency = started.elapsed().as_secs_f64() * 1000.0;
        let role = options.role.as_deref();
        let mut record = Record::new(&id, &tool.qualified_name(), role, &outcome, latency);
        (record.library, record.library_id) = (library, library_id);
        record.commit = commit;
        record.dry_run = options.dry_run;
        (record.hosts, record.agents) = (contacts.hosts(), contacts.agents());
        let Usage { memory, host_calls, written } = contacts.usage();
        (record.memory_bytes, record.host_calls) = (memory, host_calls);
        record.written_bytes = written;
        let outputs = contacts.outputs();
        record.outputs.clone_from(&outputs);
        let warnings = named(&executed);
        record.executed.clone_from(&warnings);
        let executed = record.outcome() == Status::Executed;
        let is_staged = shared.is_some() && executed && tool.tool().effects == Files::Write;
        let answer = Answer { tool: name, done: tool.tool().done.clone(), outcome, warnings };
        if shared.is_some() {
            return Ended { answer, outputs, record: Some(record), is_staged };
        }
        self.record(record, &options.origin);
        Ended { answer, outputs, record: None, is_staged }
    }

    /// Decides what a call may do, and whether it may be made once more. Only one that is granted
    /// counts.
    fn allow(
        &self,
        call: ValidCall,
        role: Option<&Role>,
        options: &RunOptions,
        scope: &Scope,
        is_shared: bool,
    ) -> Result<GrantedCall, Failure> {
        let granted = dispatch::grant(&self.policy, call, role, &options.limits, scope)
            .map_err(|denial| dispatch::denied(&denial))?;
        if is_shared && granted.asks_agents() {
            return Err(dispatch::not_in_transaction());
        }
        self.standing.repeats.count(granted.call())?;
        Ok(granted)
    }

    /// Runs a call in a transaction of its own, if it may change anything. It does what a person
    /// was shown, if one was asked, or it fails. Answers the commit as well.
    async fn perform(
        &self,
        work: Work<'_>,
        options: &RunOptions,
        call: GrantedCall,
        approved: Approved,
    ) -> Result<Performed, Failure> {
        let (executor, id, contacts) = work;
        let mut waits = options.cancel.clone();
        let cancelled = cancelled(&mut waits);
        let asks_agents = call.asks_agents();
        if !call.may_write() {
            let tree = self.standing.workspace.plain();
            let run = async { executor.execute(id, call, tree, contacts, cancelled).await.into() };
            return self.as_approved(&approved, asks_agents, run).await;
        }
        let asks = self.executed(options) == Executed::Ask && !call.needs_approval();
        let asks = asks.then(|| call.clone());
        let mut cancelled = std::pin::pin!(cancelled);
        let transaction = tokio::select! {
            begun = self.begin(executor.client, call.time()) => {
                begun.map_err(|error| dispatch::not_begun(&error))?
            }
            () = &mut cancelled => {
                return Err(dispatch::cancelled());
            }
        };
        let tree = Arc::clone(transaction.overlay());
        let run =
            async { executor.execute(id, call, &tree, contacts, &mut cancelled).await.into() };
        let performed = self.as_approved(&approved, asks_agents, run).await?;
        match performed.outcome {
            Outcome::Executed(output) => {
                let transaction = match approved.changes {
                    Some(shown) => Self::as_shown(transaction, shown).await?,
                    None => transaction,
                };
                let executed = transaction.executed(None);
                let approved =
                    self.approved_files(transaction, &executed, asks.as_ref(), options).await;
                let (transaction, asked) = approved?;
                // From here on it is committed; a later cancellation gets its result.
                if is_cancelled(options.cancel.as_ref()) {
                    return Err(dispatch::cancelled());
                }
                let commit = self.commit(transaction, vec![id.to_owned()]).await?;
                Ok(Performed { outcome: Outcome::Executed(output), commit, executed, asked })
            }
            failed => Ok(failed.into()),
        }
    }

    /// Runs a call in a transaction that it shares; what it staged is dropped if it fails.
    async fn stage(
        &self,
        (executor, id, contacts): Work<'_>,
        options: &RunOptions,
        call: GrantedCall,
        transaction: &Transaction,
        cancelled: impl Future<Output = ()>,
    ) -> Performed {
        let savepoint = call.may_write().then(|| transaction.savepoint());
        let tree = transaction.overlay();
        let mut performed: Performed =
            executor.execute(id, call, tree, contacts, cancelled).await.into();
        let Some(savepoint) = savepoint else { return performed };
        if let Outcome::Executed(_) = performed.outcome {
            performed.executed = transaction.executed(Some(&savepoint));
            let mode = self.executed(options);
            if mode != Executed::Named && !performed.executed.is_empty() {
                performed = not_written(mode, &performed.executed).into();
            }
        }
        if let Outcome::Failed(_) = performed.outcome {
            transaction.roll_back(savepoint);
        }
        performed
    }

    fn executor<'a>(&'a self, options: &'a RunOptions) -> Executor<'a> {
        Executor {
            runtime: &self.runtime,
            workers: &self.standing.workers,
            policy: &self.policy,
            workspace: &self.standing.workspace,
            observer: options.observer.as_ref().unwrap_or(&self.standing.observer),
            backends: &self.backends,
            programs: &self.programs,
            http: &self.http,
            team: &self.team,
            client: options.client,
        }
    }
}

/// The calls whose changes wait for the commit.
pub(super) fn staged(ended: &mut [Ended]) -> impl Iterator<Item = (&mut Answer, &mut Record)> {
    ended.iter_mut().filter(|ended| ended.is_staged).filter_map(|ended| {
        let record = ended.record.as_mut()?;
        Some((&mut ended.answer, record))
    })
}

/// Calls whose changes were not committed have failed, whatever they answered.
pub(super) fn discard(ended: &mut [Ended], failure: &Failure) {
    for (answer, record) in staged(ended) {
        answer.outcome = Outcome::Failed(failure.clone());
        answer.warnings.clear();
        record.executed.clear();
        record.end(&answer.outcome);
    }
}

fn only_reads(call: &ValidCall) -> bool {
    call.tool().tool().only_reads()
}

/// Whether the run is cancelled.
fn is_cancelled(cancel: Option<&watch::Receiver<bool>>) -> bool {
    cancel.is_some_and(|cancel| *cancel.borrow())
}

/// Ends when the run is cancelled; never, where nobody can.
pub(super) async fn cancelled(cancel: &mut Option<watch::Receiver<bool>>) {
    if let Some(cancel) = cancel
        && cancel.wait_for(|cancelled| *cancelled).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
