//! The workspaces of a fleet that this host serves: each is a copy of one in a store, and is opened when it
//! is first asked for.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use super::sessions::Services;
use super::{Options, Server};
use cofferdam_core::envelope::Mode;
use cofferdam_core::outcome::RefusalCode;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::{Host, OpenError, RunOptions};
use cofferdam_engine::telemetry::Telemetry;
use cofferdam_fleet::queue::{Queue, QueueError, Request, TryLater, Worker};
use cofferdam_fleet::{Access, Address, Claim, FleetError, Replica};
use cofferdam_workspace::{Secret, Workspace, WorkspaceError};

/// How long a workspace has to be idle before it is closed, so that another one can be opened.
const IDLE: Duration = Duration::from_secs(1);

/// For how long it is known whether the store can be read.
const READY_TTL: Duration = Duration::from_secs(1);

/// The longest name of a workspace, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// Where the workspaces are.
pub struct Location {
    /// The store that has each workspace below its name.
    pub store: Address,
    /// How the store is reached.
    pub access: Access,
    /// The directory of the copies.
    pub copies: PathBuf,
    /// Authenticates what the host keeps in the copies.
    pub secret: Secret,
    /// How many workspaces are open at a time.
    pub max_open: NonZeroUsize,
}

/// The workspaces that a host serves.
pub struct Fleet {
    host: Host,
    options: Options,
    pub(super) stopping: CancellationToken,
    location: Location,
    /// Whether there is a queue, and the connection to it once it was there.
    has_queue: AtomicBool,
    queue: OnceLock<Queue>,
    /// Whether the server of the queue was reached, and had no JetStream.
    has_no_jetstream: AtomicBool,
    /// When the store was last asked whether it can be read, and what was found.
    reached: tokio::sync::Mutex<Option<(Instant, bool)>>,
    open: Mutex<HashMap<String, Open>>,
}

/// A workspace that is open, or is being opened.
struct Open {
    cell: Arc<OnceCell<Opened>>,
    /// When it was last asked for.
    used: Instant,
}

/// A workspace that is open.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) server: Server,
    /// The servers over HTTP that were made of `server`.
    pub(super) services: Services,
    host: Host,
    replica: Arc<Replica>,
}

impl Opened {
    /// Whether no session and no request uses it.
    fn is_idle(&self) -> bool {
        !self.server.is_used(1 + self.services.count())
    }

    /// Waits until no call is running, and writes down what the copy is.
    async fn close(self) {
        self.server.ended().await;
        if let Err(error) = self.replica.save().await {
            tracing::warn!("the state of a copy was not written: {error}");
        }
    }
}

/// Why a workspace is not served, or a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ServeWorkspaceError {
    /// Not the name of a workspace.
    #[error(
        "{0:?} is no name of a workspace: letters, digits, '.', '-' and '_', at most {MAX_NAME_BYTES}, \
         and a letter or digit first"
    )]
    Name(String),
    /// The store has no such workspace.
    #[error("there is no workspace '{0}' in the store; `cofferdam workspace push` creates one")]
    Unknown(String),
    /// Too many are open.
    #[error(
        "this host has {0} workspaces open, which are all in use, and opens no more (--max-open)"
    )]
    Full(usize),
    /// The server of the queue has not been reached yet.
    #[error("the server of the queue has not been reached yet")]
    NoQueue,
    /// The directory of the copy can't be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The settings can't be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The role, or the workspace is not available at present.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store, or the copy.
    #[error(transparent)]
    Store(#[from] FleetError),
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl Fleet {
    /// Serves the workspaces of a location. Each has the settings, plugins and threads of `host`.
    /// Cancelling `stopping` ends every call.
    ///
    /// # Errors
    /// An unknown role.
    pub fn new(
        host: Host,
        options: Options,
        location: Location,
        stopping: CancellationToken,
    ) -> Result<Self, Refusal> {
        host.role(options.role.as_deref())?;
        let (has_queue, queue, has_no_jetstream, reached, open) = <_>::default();
        Ok(Self {
            host,
            options,
            stopping,
            location,
            has_queue,
            queue,
            has_no_jetstream,
            reached,
            open,
        })
    }

    /// The largest message, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.host.policy().limits().envelope
    }

    pub(super) fn telemetry(&self) -> Option<Arc<Telemetry>> {
        self.host.telemetry().cloned()
    }

    /// The role that is served where the address names none.
    pub(super) fn role(&self) -> Option<&str> {
        self.options.role.as_deref()
    }

    /// Whether calls may be made under a role.
    pub(super) fn serves(&self, role: Option<&str>) -> bool {
        role.is_none() || self.other_roles() || role == self.role()
    }

    /// Whether clients may choose another role by the address.
    pub(super) fn other_roles(&self) -> bool {
        self.options.other_roles
    }

    /// Returns a workspace, after opening it if it is not open yet.
    pub(super) async fn open(&self, name: &str) -> Result<Opened, ServeWorkspaceError> {
        check_name(name)?;
        if !self.is_open(name) {
            // Before another one is closed for it.
            self.look_up(name).await?;
        }
        let (cell, closed) = self.cell(name)?;
        if let Some(closed) = closed {
            closed.close().await;
        }
        cell.get_or_try_init(|| self.open_copy(name)).await.cloned()
    }

    fn is_open(&self, name: &str) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(name).is_some_and(|it| it.cell.initialized())
    }

    /// Looks whether the store has a workspace.
    async fn look_up(&self, name: &str) -> Result<(), ServeWorkspaceError> {
        let Location { store, access, .. } = &self.location;
        match Replica::exists(&store.child(name), access).await? {
            true => Ok(()),
            false => Err(ServeWorkspaceError::Unknown(name.to_owned())),
        }
    }

    /// Returns the cell of a workspace, and the workspace that is to be closed for it.
    fn cell(
        &self,
        name: &str,
    ) -> Result<(Arc<OnceCell<Opened>>, Option<Opened>), ServeWorkspaceError> {
        let most = self.location.max_open.get();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut closed = None;
        if open.len() >= most && !open.contains_key(name) {
            // What could not be opened.
            open.retain(|_, it| it.cell.initialized() || Arc::strong_count(&it.cell) > 1);
        }
        if open.len() >= most && !open.contains_key(name) {
            let is_idle =
                |it: &Open| it.used.elapsed() >= IDLE && it.cell.get().is_some_and(Opened::is_idle);
            let idle = open.iter().filter(|(_, it)| is_idle(it));
            let oldest = idle.min_by_key(|(_, it)| it.used).map(|(name, _)| name.clone());
            let oldest = oldest.ok_or(ServeWorkspaceError::Full(most))?;
            closed = open.remove(&oldest).and_then(|it| it.cell.get().cloned());
        }
        let now = Instant::now();
        let new = || Open { cell: Arc::default(), used: now };
        let found = open.entry(name.to_owned()).or_insert_with(new);
        found.used = now;
        Ok((Arc::clone(&found.cell), closed))
    }

    async fn open_copy(&self, name: &str) -> Result<Opened, ServeWorkspaceError> {
        let Location { store, access, copies, secret, .. } = &self.location;
        let address = store.child(name);
        let directory = create(&copies.join(name))?;
        let workspace = Arc::new(Workspace::open(&directory, secret.clone())?);
        let replica = Replica::open(&workspace, address, access).await?;
        let host = self.host.on(workspace)?;
        let server = Server::new(host.clone(), self.options.clone(), self.stopping.clone())?;
        Ok(Opened { server, services: Services::default(), host, replica })
    }

    /// Makes the calls of an envelope once: they are one transaction, and what they return is kept under
    /// `key`. Returns the result document, also if they were made before, by any host.
    ///
    /// # Errors
    /// See [`ServeWorkspaceError`]. It is not known then how the calls have ended, if they were made: they
    /// are to be submitted again with the same key.
    pub async fn run(
        &self,
        name: &str,
        key: &str,
        role: Option<&str>,
        envelope: &str,
    ) -> Result<Bytes, ServeWorkspaceError> {
        let opened = self.open(name).await?;
        let call = match opened.replica.claim(key).await? {
            Claim::Ended(result) => return Ok(result),
            Claim::Open(call) => call,
        };
        let options = RunOptions {
            role: role.or(self.options.role.as_deref()).map(str::to_owned),
            atomic: true,
            key: Some(key.to_owned()),
            agent: self.options.agent.clone(),
            ..RunOptions::default()
        };
        let result = match opened.host.run(envelope, Mode::Strict, &options).await {
            Ok(run) => run.document(),
            Err(refusal) if is_passing(&refusal) => return Err(refusal.into()),
            Err(refusal) => json!({ "refused": refusal }),
        };
        Ok(call.end(result.to_string().into_bytes()).await?)
    }

    /// Returns what the calls with a key have returned; `None` if they have not ended.
    ///
    /// # Errors
    /// See [`ServeWorkspaceError`].
    pub async fn result(
        &self,
        name: &str,
        key: &str,
    ) -> Result<Option<Bytes>, ServeWorkspaceError> {
        Ok(self.open(name).await?.replica.find(key).await?)
    }

    /// Says that there is a queue, before requests are served.
    pub fn expect_queue(&self) {
        self.has_queue.store(true, Ordering::Relaxed);
    }

    /// Notes why the queue is still waited for.
    pub fn note_missing_queue(&self, error: &QueueError) {
        let has_no_jetstream = matches!(error, QueueError::NoJetStream(_));
        self.has_no_jetstream.store(has_no_jetstream, Ordering::Relaxed);
    }

    /// Works the envelopes of a queue off, until the server is stopped. `queue` is waited for.
    pub async fn work_off(self: &Arc<Self>, queue: impl Future<Output = Queue>) {
        let queue = tokio::select! {
            queue = queue => queue,
            () = self.stopping.cancelled() => return,
        };
        let (stop, stopped) = watch::channel(false);
        let host = uuid::Uuid::new_v4().to_string();
        let worker = QueueWorker(Arc::clone(self));
        let _ = self.queue.set(queue.clone());
        let serving = queue.serve(&host, worker, self.host.workers(), stopped);
        let mut serving = pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            () = self.stopping.cancelled() => {
                let _ = stop.send(true);
                serving.await
            }
        };
        if let Err(error) = served {
            tracing::warn!("the queue is not worked off any more: {error}");
        }
    }

    /// Adds an envelope to the queue. Returns false if this host has none.
    ///
    /// # Errors
    /// See [`ServeWorkspaceError`].
    pub(super) async fn submit(
        &self,
        name: &str,
        key: &str,
        submitted: &Submitted,
    ) -> Result<bool, ServeWorkspaceError> {
        let Some(queue) = self.queue.get() else {
            let has_queue = self.has_queue.load(Ordering::Relaxed);
            return if has_queue { Err(ServeWorkspaceError::NoQueue) } else { Ok(false) };
        };
        check_name(name)?;
        let body = serde_json::to_value(submitted).unwrap_or_default();
        let request = Request { key: key.to_owned(), workspace: name.to_owned(), body };
        queue.submit(&request).await?;
        Ok(true)
    }

    /// Whether this host can serve: the store can be read, and the server of the queue is there.
    ///
    /// # Errors
    /// What is missing, without the names of servers: anyone may ask.
    pub(super) async fn is_ready(&self) -> Result<(), &'static str> {
        if self.stopping.is_cancelled() {
            return Err("the host is being stopped");
        }
        let has_queue = self.has_queue.load(Ordering::Relaxed);
        if has_queue && !self.queue.get().is_some_and(Queue::is_connected) {
            let has_no_jetstream = self.has_no_jetstream.load(Ordering::Relaxed);
            return Err(if has_no_jetstream && self.queue.get().is_none() {
                "the server of the queue has no JetStream, or has not started it yet"
            } else {
                "the server of the queue is not connected"
            });
        }
        let mut reached = self.reached.lock().await;
        let is_reached = match *reached {
            Some((when, is_reached)) if when.elapsed() < READY_TTL => is_reached,
            _ => {
                let Location { store, access, .. } = &self.location;
                let is_reached = Replica::reach(store, access).await;
                if let Err(error) = &is_reached {
                    tracing::warn!("this host is not ready: {error}");
                }
                *reached = Some((Instant::now(), is_reached.is_ok()));
                is_reached.is_ok()
            }
        };
        if is_reached { Ok(()) } else { Err("the store can't be read") }
    }

    /// Waits until no call is running, and writes down what the copies are.
    pub(super) async fn ended(&self) {
        let open: Vec<Opened> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.values().filter_map(|it| it.cell.get().cloned()).collect()
        };
        join_all(open.into_iter().map(Opened::close)).await;
    }
}

/// An envelope in a queue.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitted {
    /// The text of the envelope.
    pub envelope: String,
    /// The role of its calls; none: that of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// Runs the envelopes of a queue.
struct QueueWorker(Arc<Fleet>);

impl Worker for QueueWorker {
    async fn work(&self, request: Request) -> Result<Bytes, TryLater> {
        let Self(fleet) = self;
        let Request { key, workspace, body } = request;
        let message = match serde_json::from_value::<Submitted>(body) {
            Ok(Submitted { role, .. }) if !fleet.serves(role.as_deref()) => {
                format!("this fleet does not serve the role {role:?}")
            }
            Ok(Submitted { envelope, role }) => {
                match fleet.run(&workspace, &key, role.as_deref(), &envelope).await {
                    Ok(result) => return Ok(result),
                    Err(error) if error.is_passing() => return Err(TryLater(error.to_string())),
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => format!("the request has no envelope: {error}"),
        };
        let failed =
            json!({ "status": "error", "error": { "outcome": "failed", "message": message } });
        Ok(failed.to_string().into())
    }
}

impl ServeWorkspaceError {
    /// Whether the same may succeed later, or on another host.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Name(_) | Self::Unknown(_) => false,
            Self::Store(error) => !error.is_permanent(),
            Self::Queue(error) => !error.is_permanent(),
            Self::Refused(refusal) => is_passing(refusal),
            Self::Full(_) | Self::NoQueue | Self::Workspace(_) | Self::Open(_) => true,
        }
    }
}

/// Whether a refusal is about this host at present, not about the envelope.
fn is_passing(refusal: &Refusal) -> bool {
    use RefusalCode::{DiskFull, WorkspaceBusy, WorkspaceError};
    let codes = refusal.problems.iter().map(|problem| problem.code);
    codes.into_iter().any(|code| matches!(code, DiskFull | WorkspaceBusy | WorkspaceError))
}

fn check_name(name: &str) -> Result<(), ServeWorkspaceError> {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    match begins && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_part) {
        true => Ok(()),
        false => Err(ServeWorkspaceError::Name(cofferdam_text::shorten(name, MAX_NAME_BYTES))),
    }
}

#[expect(clippy::disallowed_methods, reason = "the user names the directory of the copies")]
fn create(directory: &Path) -> Result<PathBuf, WorkspaceError> {
    let made = std::fs::create_dir_all(directory).and_then(|()| directory.canonicalize());
    made.map_err(|source| WorkspaceError { path: directory.to_owned(), source })
}
