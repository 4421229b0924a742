//! Runs the calls of an envelope, or a single call. Each call is granted, executed in a transaction
//! if it may change anything, and recorded.

use std::slice;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Map, Value};

use super::Host;
use super::context::{RunContext, RunOptions};
use super::ended::{Ended, discard};
use crate::dispatch::{self, Refusal, RefusalCode, ValidCall};
use crate::runtime::blocking;
use cofferdam_core::envelope::{self, Answer, Call, Envelope, Header, Mode};
use cofferdam_core::outcome::{ErrorCode, Failure};
use cofferdam_core::policy::{Role, Scope};
use cofferdam_workspace::{KeptOutput, KeyedResult, Transaction};

/// An envelope and the results of its calls, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The envelope without its calls.
    pub header: Header,
    /// The results of the calls.
    pub answers: Vec<Answer>,
    /// The diff and the outputs of programs.
    pub effects: Effects,
}

/// The other results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// The changes of a dry run, as a unified diff.
    pub diff: Option<Vec<u8>>,
    /// The outputs of programs that are kept in files.
    pub outputs: Vec<KeptOutput>,
}

impl Run {
    /// The result document in the envelope's dialect.
    pub fn document(&self) -> Value {
        let mut document = envelope::results(&self.header, &self.answers);
        if let (Some(diff), Some(fields)) = (&self.effects.diff, document.as_object_mut()) {
            fields.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        document
    }
}

impl Host {
    /// Decodes an envelope and checks its calls without running them.
    ///
    /// # Errors
    /// [`Refusal`] with all problems.
    pub fn check(
        &self,
        text: &str,
        mode: Mode,
        role: Option<&Role>,
    ) -> Result<(Header, Vec<ValidCall>), Refusal> {
        self.check_size(text.len(), "an envelope")?;
        let Envelope { header, calls } = envelope::decode(text, mode)?;
        let most = self.policy.limits().calls;
        if calls.len() > most {
            return Err(Refusal::whole(
                RefusalCode::TooLarge,
                format!("at most {most} calls (limits.calls)"),
                format!("an envelope of {} calls", calls.len()),
            ));
        }
        Ok((header, dispatch::resolve(&self.registry, calls, role)?))
    }

    /// Runs an envelope. Consecutive calls that only read run concurrently; a call that may change
    /// anything runs alone, in its position.
    ///
    /// # Errors
    /// [`Refusal`] if the envelope is refused: nothing was run.
    pub fn run<'a>(
        &'a self,
        text: &'a str,
        mode: Mode,
        options: &'a RunOptions,
    ) -> BoxFuture<'a, Result<Run, Refusal>> {
        async move {
            let begun = self.role(options.role.as_deref()).and_then(|role| {
                let (header, calls) = self.check(text, mode, role)?;
                Ok((role, header, calls, scope(options)?))
            });
            let (role, header, calls, scope) = self.noted(begun, None, options)?;
            let only_reads = !is_transaction(options) && calls.iter().all(only_reads);
            self.noted(self.refresh(only_reads).await, None, options)?;
            let run = RunContext { options, role, scope: &scope };
            let transaction = self.noted(self.transaction(options).await, None, options)?;
            let mut ended = self.answers(calls, &run, transaction.as_ref()).await;
            let diff = match transaction {
                Some(shared) => self.conclude(shared, &mut ended, options, Some(&header)).await,
                None => None,
            };
            let outputs = ended.iter_mut().flat_map(|ended| std::mem::take(&mut ended.outputs));
            let effects = Effects { diff, outputs: outputs.collect() };
            let answer = |ended| envelope::in_dialect(header.dialect, self.close(ended, options));
            let answers = ended.into_iter().map(answer).collect();
            Ok(Run { header, answers, effects })
        }
        .boxed()
    }

    /// Runs a single call; `args` is the text of a JSON object.
    ///
    /// # Errors
    /// [`Refusal`] if the call is refused: nothing was run.
    pub fn call<'a>(
        &'a self,
        tool: &'a str,
        args: &'a str,
        options: &'a RunOptions,
    ) -> BoxFuture<'a, Result<(Answer, Effects), Refusal>> {
        async move {
            let sized = self.check_size(args.len(), "arguments");
            let args = sized.and_then(|()| Ok(envelope::arguments(args)?));
            self.run_one(tool, args, options).await
        }
        .boxed()
    }

    /// Runs a single call whose arguments were parsed by a parser that refuses duplicate keys.
    ///
    /// # Errors
    /// [`Refusal`] if the call is refused: nothing was run.
    pub fn call_parsed<'a>(
        &'a self,
        tool: &'a str,
        args: Map<String, Value>,
        options: &'a RunOptions,
    ) -> BoxFuture<'a, Result<(Answer, Effects), Refusal>> {
        async move {
            let args = envelope::parsed_arguments(args);
            let sized = self.check_size(envelope::size(&args), "arguments");
            self.run_one(tool, sized.map(|()| args), options).await
        }
        .boxed()
    }

    async fn run_one(
        &self,
        tool: &str,
        args: Result<Value, Refusal>,
        options: &RunOptions,
    ) -> Result<(Answer, Effects), Refusal> {
        let begun = args.and_then(|args| {
            let role = self.role(options.role.as_deref())?;
            let call = Call { pointer: String::new(), tool: tool.to_owned(), args };
            let call = dispatch::resolve_one(&self.registry, call, role)?;
            Ok((role, call, scope(options)?))
        });
        let (role, call, scope) = self.noted(begun, Some(tool), options)?;
        let only_reads = !is_transaction(options) && only_reads(&call);
        self.noted(self.refresh(only_reads).await, Some(tool), options)?;
        let run = RunContext { options, role, scope: &scope };
        let transaction = self.noted(self.transaction(options).await, Some(tool), options)?;
        let mut ended = self.answer(call, &run, false, transaction.as_ref()).await;
        let diff = match transaction {
            Some(shared) => {
                let ended = slice::from_mut(&mut ended);
                self.conclude(shared, ended, options, None).boxed().await
            }
            None => None,
        };
        let effects = Effects { diff, outputs: std::mem::take(&mut ended.outputs) };
        Ok((self.close(ended, options), effects))
    }

    /// Begins the transaction that all calls of a run share, if the options require one.
    async fn transaction(&self, options: &RunOptions) -> Result<Option<Transaction>, Refusal> {
        if !is_transaction(options) {
            return Ok(None);
        }
        let begun = self.begin(options, self.policy.limits().call).boxed().await;
        begun.map(Some).map_err(|error| {
            Refusal::whole((&error).into(), "a workspace that can be changed", error.to_string())
        })
    }

    /// Runs calls, in the transaction `shared` or each in its own.
    async fn answers(
        &self,
        calls: Vec<ValidCall>,
        run: &RunContext<'_>,
        shared: Option<&Transaction>,
    ) -> Vec<Ended> {
        let fail_fast = run.options.fail_fast || run.options.atomic;
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
                .map(|call| self.answer(call, run, failed && fail_fast, shared))
                .buffered(self.shared.workers.count())
                .collect()
                .await;
            failed |= done.iter().any(Ended::has_failed);
            ended.extend(done);
        }
        ended
    }

    /// Commits the staged changes of the calls in their shared transaction, or rolls them back.
    /// Returns the diff of a dry run.
    async fn conclude(
        &self,
        transaction: Transaction,
        ended: &mut [Ended],
        options: &RunOptions,
        header: Option<&Header>,
    ) -> Option<Vec<u8>> {
        if options.atomic && ended.iter().any(Ended::has_failed) {
            let why = "discarded: a call of the same transaction failed";
            discard(ended, &Failure::new(ErrorCode::RolledBack, why));
            return options.dry_run.then(Vec::new);
        }
        if options.dry_run {
            let diff = blocking(move || transaction.diff()).await;
            return diff.map_err(|error| discard(ended, &dispatch::not_committed(&error))).ok();
        }
        if options.hold || transaction.is_stacked() || ended.iter().any(|ended| ended.is_held) {
            // An error is in the results of the calls.
            let _ = self.hold_staged(transaction, ended, options).await;
            return None;
        }
        // An error is in the results of the calls.
        let result = header.zip(options.key.as_ref()).map(|(header, key)| KeyedResult {
            key: key.clone(),
            result: results(header, ended).to_string().into_bytes(),
        });
        if let Ok(Some(commit)) = self.commit_staged(transaction, ended, result).await {
            let staged = ended.iter().filter(|ended| ended.is_staged);
            let names = staged.map(|ended| ended.tool.qualified_name().parts().1.to_owned());
            options.session.add(&commit, names.collect());
        }
        None
    }

    /// Records a call unless that was done already, and returns its result.
    fn close(&self, ended: Ended, options: &RunOptions) -> Answer {
        if let Some(record) = ended.record {
            self.record(record, Some(&ended.tool), &options.origin);
        }
        ended.answer
    }

    /// Records a refusal, if there is one; `tool` is the tool of a single call.
    fn noted<T>(
        &self,
        begun: Result<T, Refusal>,
        tool: Option<&str>,
        options: &RunOptions,
    ) -> Result<T, Refusal> {
        begun.inspect_err(|refusal| self.record_refusal(refusal, tool, options, None))
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
}

/// The result document of an envelope.
fn results(header: &Header, ended: &[Ended]) -> Value {
    let answer = |ended: &Ended| envelope::in_dialect(header.dialect, ended.answer.clone());
    envelope::results(header, &ended.iter().map(answer).collect::<Vec<_>>())
}

/// The scope that the options restrict the run to.
fn scope(options: &RunOptions) -> Result<Scope, Refusal> {
    Scope::new(&options.scope).map_err(|error| {
        let expected = "paths relative to the workspace";
        Refusal::whole(RefusalCode::InvalidScope, expected, error.to_string())
    })
}

/// Whether the calls of a run share a transaction.
fn is_transaction(options: &RunOptions) -> bool {
    options.atomic || options.dry_run
}

fn only_reads(call: &ValidCall) -> bool {
    call.tool().tool().only_reads()
}
