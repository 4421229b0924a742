//! Calls that wait for the yes of a user between two calls of other tools.
//!
//! Such a call is ended: no thread, instance or lock waits. What it has staged is kept beside the
//! workspace ([`cofferdam_workspace::PausedId`]), with the results of the calls that it has made. With
//! the answer it is made again from its beginning, in this process or another one. Its calls return what
//! they returned before, until the one that was asked about; so nothing is done twice. A call that does
//! not make the same calls again is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Host;
use super::approval::{Approved, outdated};
use super::approver::Proposal;
use super::cancel::cancelled;
use super::context::{ActiveCall, RunContext};
use crate::call::{SecretRead, Stop};
use crate::capability::wit::host::tools::{Failure as NestedFailure, Request};
use crate::dispatch::{self, GrantedCall};
use crate::runtime::blocking;
use cofferdam_core::outcome::{DenialCode, Failure, SkippedCode};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{Fingerprint, PausedId, Transaction};

const PENDING: &str = "a person has to say yes first";

const NOT_THE_SAME: &str = "the call was paused for the yes of a person, and did not make the same calls when \
                            it was made again; make it again without an answer";

/// What a call has done so far by calls of other tools.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// How many bytes and files its calls have written.
    pub(super) written: AtomicU64,
    pub(super) files: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    may_pause: bool,
    kept: Kept,
    /// The call that was paused, until it continues.
    paused: Option<PausedId>,
    /// Whether the user has to be asked next.
    is_waiting: bool,
    /// The answer about the call at this position.
    answered: Option<(usize, Result<(), Failure>)>,
    /// The result of a call that has continued.
    output: Option<Value>,
}

/// What is kept of a paused call. Authenticated by the workspace.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Kept {
    /// The digest of the call.
    call: String,
    /// The ids in the journal under which it has run.
    ids: Vec<String>,
    /// The calls that have ended, by their positions among all.
    done: BTreeMap<usize, Done>,
    question: Option<Question>,
    /// The workspace when the call was paused.
    tree: Option<Fingerprint>,
    written: u64,
    files: u64,
    /// The tools about whose changes the user is asked at the end.
    asks: Vec<String>,
    is_held: bool,
    reads: BTreeSet<SecretRead>,
}

/// A call of a tool that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    /// The digest of the request.
    request: String,
    result: Result<String, DoneFailure>,
}

/// A failure as a caller gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DoneFailure {
    outcome: String,
    code: String,
    message: String,
    detail: Option<String>,
}

/// What the user is asked about.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Question {
    /// A call of a tool, which has not been made yet.
    Call { position: usize, tool: String, args: Value },
    /// The changes of the call, which has ended with this result, as a diff and as a digest.
    Changes { output: Value, diff: String, change: [u8; 32] },
}

/// What was recorded of a call of a tool.
pub(super) enum Recorded {
    /// Nothing: it has to be made.
    Nothing,
    /// Its result.
    Result(Result<String, NestedFailure>),
    /// Another call was made at its position.
    Other,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the call can't be paused from now on. Returns whether it was paused before.
    pub(super) fn forbid(&self) -> bool {
        let mut state = self.state();
        state.may_pause = false;
        !state.kept.ids.is_empty()
    }

    /// Whether it was paused before, so that it must not be made again from its beginning.
    pub(super) fn has_continued(&self) -> bool {
        !self.state().kept.ids.is_empty()
    }

    /// The ids in the journal under which the call has run, in the end under `last`.
    pub(super) fn ids(&self, last: &str) -> Vec<String> {
        let mut ids = self.state().kept.ids.clone();
        if ids.last().is_none_or(|id| id != last) {
            ids.push(last.to_owned());
        }
        ids
    }

    /// What was recorded of the call at a position.
    pub(super) fn recorded(&self, position: usize, request: &Request) -> Recorded {
        let state = self.state();
        if !state.may_pause {
            return Recorded::Nothing;
        }
        match state.kept.done.get(&position) {
            None => Recorded::Nothing,
            Some(done) if done.request != digest(request) => Recorded::Other,
            Some(done) => Recorded::Result(done.result.clone().map_err(NestedFailure::from)),
        }
    }

    /// Records the result of the call at a position.
    pub(super) fn record(
        &self,
        position: usize,
        request: &Request,
        result: &Result<String, NestedFailure>,
    ) {
        let mut state = self.state();
        if state.may_pause {
            let result = result.clone().map_err(DoneFailure::from);
            state.kept.done.insert(position, Done { request: digest(request), result });
        }
    }

    /// The answer of the user about the call at a position. `is_approved`: the user has approved all calls
    /// of the tool. Otherwise the user is asked about it if the call may be paused.
    pub(super) fn answer(
        &self,
        position: usize,
        tool: &str,
        args: &Value,
        is_approved: bool,
    ) -> Option<Answer> {
        let mut state = self.state();
        let Kept { question, .. } = &state.kept;
        if let Some((asked, _)) = &state.answered
            && *asked == position
            && let Some(Question::Call { tool: asked_tool, args: asked_args, .. }) = question
            && asked_tool == tool
            && asked_args == args
        {
            let (_, answer) = state.answered.take()?;
            return Some(answer.map_or_else(Answer::No, |()| Answer::Yes));
        }
        if is_approved {
            return Some(Answer::Yes);
        }
        if !state.may_pause {
            return None;
        }
        let is_first = match &state.kept.question {
            Some(Question::Call { position: asked, .. }) => position < *asked,
            _ => true,
        };
        if is_first || !state.is_waiting {
            let (tool, args) = (tool.to_owned(), args.clone());
            state.kept.question = Some(Question::Call { position, tool, args });
            state.is_waiting = true;
        }
        Some(Answer::Asked)
    }

    /// Whether the answer of the user is about a call that was not made again.
    pub(super) fn has_unused_answer(&self) -> bool {
        self.state().answered.is_some()
    }

    /// Whether the call has come to a question, and has to be paused.
    pub(super) fn is_waiting(&self) -> bool {
        self.state().is_waiting
    }

    /// What the call has read of secrets before.
    pub(super) fn reads(&self) -> BTreeSet<SecretRead> {
        self.state().kept.reads.clone()
    }

    /// The result of a call that has ended before it was paused.
    pub(super) fn output(&self) -> Option<Value> {
        match &self.state().kept.question {
            Some(Question::Changes { output, .. }) => Some(output.clone()),
            _ => None,
        }
    }

    /// Notes the result of a call that has continued, in case the user is asked about its changes.
    pub(super) fn ended(&self, output: &Value) {
        let mut state = self.state();
        if !state.kept.ids.is_empty() {
            state.output = Some(output.clone());
        }
    }

    /// Comes to the question about the changes of a call that has ended. Returns false if it was not
    /// paused before: then it waits for the answer, or is made again.
    pub(super) fn ask_about_changes(&self, diff: &[u8], change: [u8; 32]) -> bool {
        let mut state = self.state();
        let Some(output) = state.output.take() else { return false };
        let diff = String::from_utf8_lossy(diff).into_owned();
        state.kept.question = Some(Question::Changes { output, diff, change });
        state.is_waiting = true;
        true
    }

    /// The state to keep.
    fn kept(&self, active: &ActiveCall<'_>, tree: Fingerprint) -> Kept {
        let ids = self.ids(&active.id);
        let mut state = self.state();
        let kept = &mut state.kept;
        kept.ids = ids;
        kept.tree = Some(tree);
        kept.written = self.written.load(Ordering::Relaxed);
        kept.files = self.files.load(Ordering::Relaxed);
        (kept.asks, kept.is_held) = (active.usage.asks(), active.usage.is_held());
        kept.reads = active.secrets.own();
        kept.clone()
    }
}

/// What the user has said about a call of a tool.
pub(super) enum Answer {
    /// It may be made.
    Yes,
    /// It may not.
    No(Failure),
    /// The user is asked now: the caller has to end.
    Asked,
}

impl Host {
    /// What a granted call has done so far, if it calls other tools: it continues if the user has been
    /// asked about it, and has answered now.
    ///
    /// # Errors
    /// The answer belongs to no question that is open.
    pub(super) async fn progress(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        is_shared: bool,
    ) -> Result<Option<Arc<Progress>>, Failure> {
        if !call.calls_tools() {
            return Ok(None);
        }
        let options = active.run.options;
        let approver = options.approver.as_ref().filter(|approver| approver.can_ask());
        let may_pause = !is_shared
            && call.may_write()
            && !call.needs_approval()
            && !call.is_held()
            && !options.hold
            && self.policy.ask().next().is_some();
        let Some(approver) = approver else { return Ok(Some(Arc::default())) };
        let answered = approver.resumes();
        if !may_pause {
            return answered.map_or(Ok(Some(Arc::default())), |_| Err(approver.not_open()));
        }
        let call = digest_of_call(call, active.run);
        let mut state = State { may_pause, ..State::default() };
        if let Some(id) = answered {
            let (workspace, asked) = (Arc::clone(&self.services.workspace), id.clone());
            let found = blocking(move || workspace.paused(&asked)).await;
            let kept = found.unwrap_or_else(|error| {
                tracing::warn!("the paused call {id} can't be read: {error}");
                None
            });
            let kept = kept.and_then(|state| serde_json::from_slice::<Kept>(&state).ok());
            let Some(kept) = kept.filter(|kept| kept.call == call) else {
                return Err(approver.not_open());
            };
            kept.asks.iter().for_each(|tool| active.usage.add_ask(tool));
            if kept.is_held {
                active.usage.hold();
            }
            (state.kept, state.paused, state.is_waiting) = (kept, Some(id), true);
        }
        state.kept.call = call;
        let (written, files) = (state.kept.written.into(), state.kept.files.into());
        Ok(Some(Arc::new(Progress { written, files, state: Mutex::new(state) })))
    }

    /// Keeps what a call has staged until the user has answered.
    pub(super) async fn pause(
        &self,
        active: &ActiveCall<'_>,
        progress: &Progress,
        transaction: Transaction,
    ) -> Result<(), Failure> {
        let paused = async {
            let tree = self.fingerprint(&progress.tool()).await?;
            let state = serde_json::to_vec(&progress.kept(active, tree)).unwrap_or_default();
            let paused = blocking(move || transaction.pause(state)).await;
            paused.map_err(|error| dispatch::not_committed(&error))
        };
        let paused = paused.await.inspect_err(|_| progress.state().is_waiting = false)?;
        progress.state().paused = Some(paused);
        Ok(())
    }

    /// Asks the user about the question at which a call was paused.
    ///
    /// # Errors
    /// The call ends: nothing that it has staged is kept, unless the answer comes with a later call.
    pub(super) async fn ask_paused(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        progress: &Progress,
    ) -> Result<Approved, Failure> {
        let options = active.run.options;
        let (proposal, position) = progress.proposal(call);
        let Some(approver) = &options.approver else { return Err(outdated("")) };
        let answered = tokio::select! {
            answered = self.ask_user(active, approver.as_ref(), &proposal) => answered,
            () = cancelled(options.cancel.clone()) => Err(dispatch::cancelled()),
        };
        let mut state = progress.state();
        state.is_waiting = false;
        let is_no = |failure: &Failure| failure.code.as_str() == DenialCode::Declined.as_str();
        let answer = match (answered, position) {
            (Ok(_), _) => Ok(()),
            (Err(failure), Some(_)) if is_no(&failure) => Err(failure),
            (Err(failure), _) => {
                if let Some(id) = state.paused.take().filter(|_| !is_pending(&failure)) {
                    self.discard_paused(id);
                }
                return Err(failure);
            }
        };
        state.answered = position.map(|position| (position, answer));
        let change = proposal.change;
        Ok(Approved { change, tree: state.kept.tree, was_shown: false })
    }

    fn discard_paused(&self, id: PausedId) {
        let workspace = Arc::clone(&self.services.workspace);
        tokio::task::spawn_blocking(move || {
            workspace.discard_paused(&id).unwrap_or_else(|error| {
                tracing::warn!("the paused call {id} was not removed: {error}");
            });
        });
    }

    /// Stages what a paused call had staged, before it is made again.
    pub(super) async fn resume(
        progress: &Progress,
        transaction: Transaction,
    ) -> Result<Transaction, Failure> {
        let Some(id) = progress.state().paused.take() else { return Ok(transaction) };
        let resumed = blocking(move || Ok((transaction.resume(&id)?, transaction))).await;
        match resumed {
            Ok((true, transaction)) => Ok(transaction),
            Ok((false, _)) => Err(outdated("")),
            Err(error) => Err(dispatch::not_begun(&cofferdam_workspace::BeginError::Io(error))),
        }
    }
}

impl Progress {
    /// The tool that the question is about.
    fn tool(&self) -> String {
        match &self.state().kept.question {
            Some(Question::Call { tool, .. }) => tool.clone(),
            _ => "the tool".to_owned(),
        }
    }

    /// What the user is asked, and the position of the call of a tool that it is about.
    fn proposal(&self, call: &GrantedCall) -> (Proposal, Option<usize>) {
        let state = self.state();
        let (tree, paused) = (state.kept.tree, state.paused.clone());
        let whole = Proposal { tree, paused, ..Proposal::about(call) };
        match state.kept.question.clone() {
            Some(Question::Call { position, tool, args }) => {
                (Proposal { tool, args, for_session: true, ..whole }, Some(position))
            }
            Some(Question::Changes { diff, change, .. }) => {
                let diff = Some(diff.into_bytes());
                (Proposal { diff, change: Some(change), ..whole }, None)
            }
            None => (whole, None),
        }
    }
}

fn digest(request: &Request) -> String {
    digest_of(&request.tool, &request.args)
}

fn digest_of(tool: &str, args: &str) -> String {
    Digest::of(format!("{tool}\0{args}").as_bytes()).hex()
}

/// The digest of a call, with the role and the scope in which it runs.
fn digest_of_call(call: &GrantedCall, run: &RunContext<'_>) -> String {
    let name: String = call.call().tool().qualified_name().into();
    let text = format!("{}\0{:?}\0{:?}", call.call().args(), run.options.role, run.options.scope);
    digest_of(&name, &text)
}

impl From<NestedFailure> for DoneFailure {
    fn from(failure: NestedFailure) -> Self {
        let NestedFailure { outcome, code, message, detail } = failure;
        Self { outcome, code, message, detail }
    }
}

impl From<DoneFailure> for NestedFailure {
    fn from(failure: DoneFailure) -> Self {
        let DoneFailure { outcome, code, message, detail } = failure;
        Self { outcome, code, message, detail }
    }
}

/// Ends a caller that waits for the user.
pub(super) fn waits() -> Stop {
    Stop::Ended(SkippedCode::ApprovalPending.into(), PENDING.to_owned())
}

/// The failure of a call that the user is asked about.
pub(super) fn pending() -> Failure {
    Failure::new(SkippedCode::ApprovalPending, PENDING)
}

/// Whether the user is asked about a call.
pub(super) fn is_pending(failure: &Failure) -> bool {
    failure.code.as_str() == SkippedCode::ApprovalPending.as_str()
}

/// Ends a caller that does not make the calls that it had made before it was paused.
pub(super) fn not_the_same() -> Stop {
    Stop::Ended(DenialCode::ApprovalOutdated.into(), NOT_THE_SAME.to_owned())
}
