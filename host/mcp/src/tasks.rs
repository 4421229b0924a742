//! Tasks: calls that go on after their request was answered, for clients that know the extension
//! `io.modelcontextprotocol/tasks` of revision 2026-07-28. A client asks for the state of its task, answers
//! the questions about it, and cancels it.
//!
//! What a client gets of a task that has ended is kept in the workspace, so that it gets it from a later
//! server too. How calls are made is not decided here.
//!
//! Source: SEP-2663, <https://modelcontextprotocol.io/seps/2663-tasks-extension>.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rmcp::model::{
    CallToolResponse, ClientCapabilities, DetailedTask, ElicitRequest, ElicitRequestParams,
    ElicitResult, InputRequest, InputResponses, JsonObject, ProtocolVersion, Task as TaskState,
    TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{RwLock, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::connection;
use super::offer::Offer;
use super::slot::Slot;
use cofferdam_engine::runtime::blocking;
use cofferdam_text::{escape_control, shorten};
use cofferdam_workspace::{
    KeptTask, MAX_TASKS, RunningTask, TASK_TTL, TaskEnd, TaskId, TaskRecord,
};

/// How long the request of a call waits for its end before the call becomes a task.
pub(super) const GRACE: Duration = Duration::from_millis(800);

/// How often a client is told to ask for the state of a task, in milliseconds.
const POLL_INTERVAL_MS: u64 = 500;

/// The maximum number of tasks whose calls have not ended.
const MAX_RUNNING: usize = 256;

/// The longest message about what a task does, in bytes.
const MAX_MESSAGE_BYTES: usize = 1000;

/// The message of a task whose server was killed.
const LOST: &str = "the server ended before this call did: what the call had not committed by then was \
                    discarded, and no answer is left";

/// Whether a request is from a client that takes a task for an answer.
pub(super) fn are_declared(context: &RequestContext<RoleServer>) -> bool {
    let since = ProtocolVersion::V_2026_07_28;
    context.protocol_version().is_some_and(|version| version.as_str() >= since.as_str())
        && context.client_capabilities().is_some_and(|client| client.supports_tasks())
}

/// The error for a client that does not know tasks, if a call can only be one.
pub(super) fn not_declared() -> ErrorData {
    let tasks = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(tasks)
}

/// A call that is being made.
pub(super) struct Admitted {
    /// Its arguments, if it may become a task: with them it goes on after a pause, in another process.
    pub(super) arguments: Option<JsonObject>,
    pub(super) offer: Arc<Offer>,
    /// Its permit.
    pub(super) slot: Slot,
    pub(super) job: Job,
}

/// A call as its request sees it: the request waits for the end, until the call becomes a task.
#[derive(Default)]
pub(super) struct Job {
    stage: Mutex<Stage>,
    /// Cancelled when the request stops waiting before the call is a task, or when the task is cancelled.
    pub(super) cancelled: CancellationToken,
    /// Whether it ended without a commit because it was cancelled.
    was_stopped: AtomicBool,
}

#[derive(Default)]
enum Stage {
    /// The request waits.
    #[default]
    Waits,
    /// The request is answered, or will be, and not with a task.
    Over,
    Task(Arc<Task>),
}

impl Job {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the call was cancelled, and has changed nothing.
    pub(super) fn stopped(&self) {
        self.was_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the call was cancelled, and has changed nothing.
    pub(super) fn was_stopped(&self) -> bool {
        self.was_stopped.load(Ordering::Relaxed)
    }

    /// The task that the call has become.
    pub(super) fn task(&self) -> Option<Arc<Task>> {
        match &*self.stage() {
            Stage::Task(task) => Some(Arc::clone(task)),
            Stage::Waits | Stage::Over => None,
        }
    }

    /// Makes the call a task. Returns false if its request is answered otherwise.
    pub(super) fn becomes(&self, task: &Arc<Task>) -> bool {
        let mut stage = self.stage();
        let waits = matches!(*stage, Stage::Waits);
        if waits {
            *stage = Stage::Task(Arc::clone(task));
        }
        waits
    }

    /// Returns the task; if there is none, the call does not become one any more.
    pub(super) fn settle(&self) -> Option<Arc<Task>> {
        let mut stage = self.stage();
        if let Stage::Task(task) = &*stage {
            return Some(Arc::clone(task));
        }
        *stage = Stage::Over;
        None
    }
}

/// A task whose call this server makes.
pub(super) struct Task {
    kept: RunningTask,
    cancelled: CancellationToken,
    now: Mutex<Now>,
    /// Tells those that follow tasks that one has changed.
    changes: watch::Sender<()>,
}

/// What changes of a task.
struct Now {
    updated: Timestamp,
    message: Option<String>,
    questions: BTreeMap<String, (ElicitRequestParams, oneshot::Sender<ElicitResult>)>,
    /// The number of questions so far.
    asked: u64,
    /// The end, if it could not be kept in the workspace.
    end: Option<End>,
}

/// How a task ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum End {
    /// With the result of the call.
    Completed(JsonObject),
    /// With an error of the protocol.
    Failed(JsonObject),
    /// Before its commit, because of the client or the end of the server.
    Cancelled,
}

impl End {
    /// The end of a call whose request would have got this answer.
    pub(super) fn of(answer: Result<CallToolResponse, ErrorData>) -> Self {
        let failed = |error: ErrorData| Self::Failed(object(&error));
        match answer {
            Ok(CallToolResponse::Complete(result)) => Self::Completed(object(&result)),
            Ok(_) => failed(ErrorData::internal_error("the call did not end with a result", None)),
            Err(error) => failed(error),
        }
    }

    fn payload(self) -> TaskPayload {
        match self {
            Self::Completed(result) => TaskPayload::Completed { result },
            Self::Failed(error) => TaskPayload::Failed { error },
            Self::Cancelled => TaskPayload::Cancelled,
        }
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => JsonObject::new(),
    }
}

/// What is needed to go on with a paused call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The number of questions so far.
    asked: u64,
    /// The last of them.
    question: ElicitRequestParams,
    /// The state with which the call is made again.
    pub(super) state: String,
    /// The arguments with which it is made again.
    pub(super) arguments: JsonObject,
}

impl Waiting {
    /// Takes the answer to its question.
    pub(super) fn take(&self, answers: &mut InputResponses) -> Result<Option<Value>, ErrorData> {
        let key = key(APPROVAL, self.asked);
        let Some(answer) = answers.remove(&key) else { return Ok(None) };
        parsed::<ElicitResult>(&key, answer.clone())?;
        Ok(Some(answer))
    }
}

/// How the key of a question begins that is about a call.
pub(super) const APPROVAL: &str = "approval";

/// The key of a question of a kind.
fn key(kind: &str, number: u64) -> String {
    format!("{kind}-{number}")
}

/// Parses the answer to a question.
fn parsed<T: DeserializeOwned>(key: &str, answer: Value) -> Result<T, ErrorData> {
    serde_json::from_value(answer)
        .map_err(|error| ErrorData::invalid_params(format!("/inputResponses/{key}: {error}"), None))
}

/// An open question, which is closed when this is dropped.
struct Asked<'a> {
    task: &'a Task,
    key: String,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.task.change(|now| drop(now.questions.remove(&self.key)));
    }
}

impl Task {
    fn new(
        kept: RunningTask,
        asked: u64,
        cancelled: CancellationToken,
        changes: watch::Sender<()>,
    ) -> Self {
        let updated = kept.record().created;
        let questions = BTreeMap::new();
        let now = Now { updated, message: None, questions, asked, end: None };
        Self { kept, cancelled, now: Mutex::new(now), changes }
    }

    /// Changes its state, and tells those that follow it.
    fn change<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        let changed = {
            let mut now = self.now();
            now.updated = Timestamp::now();
            change(&mut now)
        };
        self.changes.send_replace(());
        changed
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the call does at present.
    pub(super) fn says(&self, message: &str) {
        let message = escape_control(&shorten(message, MAX_MESSAGE_BYTES));
        self.change(|now| now.message = Some(message));
    }

    /// The number of the next question, counted from 1.
    pub(super) fn number(&self) -> u64 {
        let mut now = self.now();
        now.asked += 1;
        now.asked
    }

    /// Asks the user of the client a question of a kind with its [`Self::number`], and waits for the answer.
    /// Several can be open. A call that was paused can go on in another process, with this `state` and these
    /// `arguments`.
    pub(super) async fn ask(
        self: &Arc<Self>,
        (kind, asked): (&str, u64),
        question: ElicitRequestParams,
        paused: Option<(String, JsonObject)>,
    ) -> Option<ElicitResult> {
        let (answer, answered) = oneshot::channel();
        let is_paused = paused.is_some();
        // A client that sees the question can answer it in a later server.
        if let Some((state, arguments)) = paused {
            let question = question.clone();
            self.waits(Some(Waiting { asked, question, state, arguments })).await;
        }
        let key = key(kind, asked);
        let _asked = Asked { task: self, key: key.clone() };
        self.change(|now| drop(now.questions.insert(key, (question, answer))));
        let answer = answered.await.ok();
        if is_paused {
            self.waits(None).await;
        }
        answer
    }

    /// Keeps what is needed to go on with the call in another process.
    async fn waits(self: &Arc<Self>, waiting: Option<Waiting>) {
        let task = Arc::clone(self);
        let waiting = waiting.and_then(|waiting| serde_json::to_value(waiting).ok());
        let kept = blocking(move || task.kept.wait(waiting)).await;
        kept.unwrap_or_else(|error| {
            tracing::warn!("a task can't go on in another process: {error}");
        });
    }

    /// Passes on the answers to open questions. Others are ignored, as the protocol requires.
    pub(super) fn answer(&self, answers: InputResponses) -> Result<(), ErrorData> {
        for (key, answer) in answers {
            if !self.now().questions.contains_key(&key) {
                continue;
            }
            let answer = parsed(&key, answer)?;
            if let Some((_, sender)) = self.change(|now| now.questions.remove(&key)) {
                // If the call has ended meanwhile, nothing waits for the answer.
                let _ = sender.send(answer);
            }
        }
        Ok(())
    }

    /// Its state, as a client gets it.
    pub(super) fn state(&self) -> DetailedTask {
        let now = self.now();
        let payload = match &now.end {
            Some(end) => end.clone().payload(),
            None if now.questions.is_empty() => TaskPayload::Working,
            None => TaskPayload::InputRequired {
                input_requests: now
                    .questions
                    .iter()
                    .map(|(key, (params, _))| {
                        let request = ElicitRequest::new(params.clone());
                        (key.clone(), InputRequest::Elicitation(request))
                    })
                    .collect(),
            },
        };
        let until = if now.end.is_some() { now.updated } else { Timestamp::now() };
        let mut state = state(&self.kept.id().to_string(), self.kept.record(), now.updated, until);
        state.status_message.clone_from(&now.message);
        DetailedTask::new(state, payload)
    }
}

/// The part of a task's state that does not depend on its status. It is kept for [`TASK_TTL`] after
/// `until`.
fn state(id: &str, task: &TaskRecord, updated: Timestamp, until: Timestamp) -> TaskState {
    let age = Duration::try_from(until.duration_since(task.created)).unwrap_or_default();
    let ttl = u64::try_from((age + TASK_TTL).as_millis()).unwrap_or(u64::MAX);
    let (created, updated) = (task.created.to_string(), updated.to_string());
    TaskState::new(id, TaskStatus::Working, created, updated)
        .with_ttl_ms(ttl)
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

/// The state of a task that this server does not work on.
fn kept_state(id: &str, kept: KeptTask) -> DetailedTask {
    let waiting = waiting(&kept);
    let KeptTask { task, end, until, .. } = kept;
    let updated = end.as_ref().map_or(task.created, |end| end.ended);
    let end = end.map(|end| serde_json::from_value::<End>(end.content));
    let failed = |why: &str| TaskPayload::Failed {
        error: object(&ErrorData::internal_error(why.to_owned(), None)),
    };
    let payload = match (end, waiting) {
        (Some(Ok(end)), _) => end.payload(),
        (Some(Err(error)), _) => failed(&error.to_string()),
        (None, Some(Waiting { asked, question, .. })) => {
            let request = InputRequest::Elicitation(ElicitRequest::new(question));
            TaskPayload::InputRequired { input_requests: [(key(APPROVAL, asked), request)].into() }
        }
        (None, None) => failed(LOST),
    };
    DetailedTask::new(state(id, &task, updated, until), payload)
}

/// What is needed to go on with a task whose process has ended, if its call was paused.
pub(super) fn waiting(kept: &KeptTask) -> Option<Waiting> {
    serde_json::from_value(kept.waits.clone()?).ok()
}

/// The tasks of a server, and those of which it keeps the ends.
#[derive(Default)]
pub(super) struct Tasks {
    known: Mutex<HashMap<TaskId, Known>>,
    /// Changes whenever one of them does.
    changes: watch::Sender<()>,
    /// Taken while a task is created or resumed, so that none is unknown in between.
    beginning: RwLock<()>,
}

/// A task that this server has created.
struct Known {
    address: Option<IpAddr>,
    /// When it ended.
    ended: Option<Timestamp>,
    /// `None` once its end is kept in the workspace.
    task: Option<Arc<Task>>,
}

impl Tasks {
    fn known(&self) -> MutexGuard<'_, HashMap<TaskId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client of this address may have another task. One address gets three quarters of all.
    fn has_room(&self, address: Option<IpAddr>) -> bool {
        let mut known = self.known();
        let now = Timestamp::now();
        let is_kept = |ended: Timestamp| {
            Duration::try_from(now.duration_since(ended)).unwrap_or_default() < TASK_TTL
        };
        known.retain(|_, task| task.ended.is_none_or(is_kept));
        let count = |of: &dyn Fn(&Known) -> bool| known.values().filter(|task| of(task)).count();
        let of_address = |task: &Known| task.address == address;
        let runs = |task: &Known| task.ended.is_none();
        known.len() < MAX_TASKS
            && count(&runs) < MAX_RUNNING
            && count(&of_address) < MAX_TASKS / 4 * 3
            && count(&|task| runs(task) && of_address(task)) < MAX_RUNNING / 4 * 3
    }

    /// Changes whenever a task does whose call this server makes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether this server makes the call of a task, or could not keep its end.
    pub(super) fn is_here(&self, id: &str) -> bool {
        id.parse().is_ok_and(|id| self.find(&id).is_some())
    }

    /// Returns a task whose call is being made, or whose end could not be kept.
    fn find(&self, id: &TaskId) -> Option<Arc<Task>> {
        self.known().get(id)?.task.clone()
    }
}

/// A task that a client asks for.
pub(super) enum Found {
    Here(Arc<Task>),
    Kept(Box<KeptTask>),
}

impl Server {
    /// Creates a task for a call; `None` if there are too many tasks.
    pub(super) async fn begin_task(
        &self,
        call: &Admitted,
        tool: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<Arc<Task>> {
        let address = connection::client(&context.extensions).address;
        let tasks = &self.shared.tasks;
        let _beginning = tasks.beginning.write().await;
        if !tasks.has_room(address) {
            return None;
        }
        let record = TaskRecord {
            tool: shorten(tool, 80),
            role: self.role.clone(),
            session: self.session(&context.extensions).name().to_string(),
            created: Timestamp::now(),
        };
        let offer = Arc::clone(&call.offer);
        let begun = blocking(move || offer.host.workspace().begin_task(record)).await;
        let kept = begun.unwrap_or_else(|error| {
            tracing::warn!("a call can't become a task: {error}");
            None
        })?;
        let id = kept.id().clone();
        let task = Arc::new(Task::new(kept, 0, call.job.cancelled.clone(), tasks.changes.clone()));
        let known = Known { address, ended: None, task: Some(Arc::clone(&task)) };
        tasks.known().insert(id, known);
        Some(task)
    }

    /// Removes a task that no client has heard of.
    pub(super) async fn discard_task(&self, task: Arc<Task>) {
        self.shared.tasks.known().remove(task.kept.id());
        let discarded = move || {
            task.kept.discard();
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(()) = blocking(discarded).await;
    }

    /// Keeps the end of a task.
    pub(super) async fn end_task(&self, task: Arc<Task>, end: End) {
        let ended = Timestamp::now();
        let content = serde_json::to_value(&end).unwrap_or_default();
        let ending = Arc::clone(&task);
        let kept = blocking(move || ending.kept.end(TaskEnd { ended, content })).await;
        let is_kept = kept.inspect_err(|error| {
            tracing::warn!("the end of a task is only kept as long as the server runs: {error}");
        });
        {
            let mut now = task.now();
            (now.updated, now.end) = (ended, Some(end));
        }
        if let Some(known) = self.shared.tasks.known().get_mut(task.kept.id()) {
            known.ended = Some(ended);
            if is_kept.is_ok() {
                known.task = None;
            }
        }
        task.changes.send_replace(());
    }

    /// Goes on with a task whose server has ended; `None` if another process works on it.
    pub(super) async fn resume_task(
        &self,
        call: &Admitted,
        id: &str,
        waiting: &Waiting,
        context: &RequestContext<RoleServer>,
    ) -> Option<Arc<Task>> {
        let address = connection::client(&context.extensions).address;
        let (id, offer) = (id.parse::<TaskId>().ok()?, Arc::clone(&call.offer));
        let _beginning = self.shared.tasks.beginning.write().await;
        let resumed = blocking(move || offer.host.workspace().resume_task(&id)).await;
        let kept = resumed.unwrap_or_else(|error| {
            tracing::warn!("a task can't go on: {error}");
            None
        })?;
        let id = kept.id().clone();
        let (tasks, cancelled) = (&self.shared.tasks, call.job.cancelled.clone());
        let task = Arc::new(Task::new(kept, waiting.asked, cancelled, tasks.changes.clone()));
        let known = Known { address, ended: None, task: Some(Arc::clone(&task)) };
        tasks.known().insert(id, known);
        Some(task)
    }

    /// Finds a task of this role. Any other one is unknown.
    pub(super) async fn task(&self, id: &str) -> Result<Found, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such task", None);
        let id: TaskId = id.parse().map_err(|_| unknown())?;
        let _beginning = self.shared.tasks.beginning.read().await;
        if let Some(task) = self.shared.tasks.find(&id) {
            let is_own = task.kept.record().role == self.role;
            return is_own.then_some(Found::Here(task)).ok_or_else(unknown);
        }
        let offer = self.offer();
        let kept = blocking(move || offer.host.workspace().kept_task(&id)).await;
        let kept = kept.unwrap_or_else(|error| {
            tracing::warn!("a task can't be read: {error}");
            None
        });
        let kept = kept.filter(|kept| kept.task.role == self.role).map(Box::new);
        kept.map(Found::Kept).ok_or_else(unknown)
    }

    /// Returns the state of a task.
    pub(super) async fn task_state(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        Ok(match self.task(id).await? {
            Found::Here(task) => task.state(),
            Found::Kept(kept) => kept_state(id, *kept),
        })
    }

    /// Cancels a task. One that has ended stays as it is.
    pub(super) async fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        match self.task(id).await? {
            Found::Here(task) => task.cancelled.cancel(),
            Found::Kept(kept) if waiting(&kept).is_some() => self.cancel_waiting(id).await,
            Found::Kept(_) => {}
        }
        Ok(())
    }

    /// Cancels a paused call that no process makes. What it has staged is removed in its time.
    async fn cancel_waiting(&self, id: &str) {
        let (id, offer) = (id.parse::<TaskId>(), self.offer());
        let cancel = move || {
            let Ok(id) = id else { return Ok(()) };
            let Some(task) = offer.host.workspace().resume_task(&id)? else { return Ok(()) };
            let content = serde_json::to_value(End::Cancelled)?;
            task.end(TaskEnd { ended: Timestamp::now(), content })
        };
        blocking(cancel).await.unwrap_or_else(|error: std::io::Error| {
            tracing::warn!("a task can't be cancelled: {error}");
        });
    }
}
