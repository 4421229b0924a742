//! A host that works requests off: it looks which workspaces have requests, takes their leases, and works
//! the requests of each off in order. Different workspaces are worked off at the same time.
//!
//! A request is removed from the queue after its result was stored. If a host is killed before that, the
//! next one finds the request as it was, and the result if it was stored.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::error::QueueError;
use super::lease::{Lease, READ_INTERVAL, RENEW_INTERVAL, SeenLeases};
use super::sealed::{Place, Request, check_name, is_token};
use super::{MAX_REQUEST_BYTES, Queue, WORK_SUBJECT, calls_subject, create_missing};

/// How often a host looks for requests without a hint.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two looks: many hints lead to one look.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How many workspaces one look finds.
const MAX_WORKSPACES: usize = 10_000;

/// For how long a host keeps a lease without requests, and how often it looks for one meanwhile: a hint
/// can be lost.
const IDLE_TIME: Duration = Duration::from_secs(5);
const IDLE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// For how long a host works off one workspace while others wait for it.
const TURN_TIME: Duration = Duration::from_secs(5);

/// The pause before a request is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How often the storing of a result is tried before the request is worked off again.
const RESULT_ATTEMPTS: usize = 30;

/// The longest name of a host, in bytes.
const MAX_HOST_BYTES: usize = 256;

/// Why a request can't be worked off at present, such as a store that can't be reached. It stays in the
/// queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TryLater(pub String);

/// What a host does with requests.
pub trait Worker: Send + Sync + 'static {
    /// Works off a request and returns its result, which is stored for the client: also if it is a failure.
    ///
    /// A request may come again, at any time, also to another host at the same time. All runs have to
    /// return the same result, and to have the effect of one.
    ///
    /// # Errors
    /// [`TryLater`]: the request is tried again after a pause, before all later ones of its workspace.
    fn work(&self, request: Request) -> impl Future<Output = Result<Bytes, TryLater>> + Send;
}

impl Queue {
    /// Works requests off until `stop` becomes true (or its sender is dropped): the requests of one workspace
    /// in order, different workspaces at the same time, at most `parallel` (0 counts as 1). `host` names this
    /// host in leases.
    ///
    /// At the end, requests under way are finished, and leases are given back. If the future is dropped
    /// instead, it is as if the host was killed. A server that is gone is waited for.
    ///
    /// # Errors
    /// [`QueueError::Name`] if `host` is not valid.
    pub async fn serve<W: Worker>(
        &self,
        host: &str,
        worker: W,
        parallel: usize,
        stop: watch::Receiver<bool>,
    ) -> Result<(), QueueError> {
        check_name("the name of a host", host, MAX_HOST_BYTES)?;
        let host = Arc::new(Host {
            queue: self.clone(),
            name: host.to_owned(),
            worker,
            parallel: parallel.max(1),
            stop,
            is_crowded: AtomicBool::new(false),
            crowded: Notify::new(),
        });
        let serving = Serving {
            host,
            tasks: JoinSet::new(),
            held: HashMap::new(),
            taken: HashMap::new(),
            seen: SeenLeases::default(),
        };
        serving.run().await;
        Ok(())
    }

    /// The tokens of all workspaces that have requests.
    async fn waiting_workspaces(&self) -> Result<HashSet<String>, QueueError> {
        let found = self.calls.info_with_subjects(calls_subject("*")).await;
        let mut found = found.map_err(QueueError::unreachable)?;
        let mut tokens = HashSet::new();
        while let Some(subject) = found.next().await {
            let (subject, _) = subject.map_err(QueueError::unreachable)?;
            let token = subject.rsplit('.').next().unwrap_or_default();
            if is_token(token) {
                tokens.insert(token.to_owned());
            }
            if tokens.len() >= MAX_WORKSPACES {
                break;
            }
        }
        Ok(tokens)
    }
}

/// What all tasks of a host share.
struct Host<W> {
    queue: Queue,
    name: String,
    worker: W,
    parallel: usize,
    stop: watch::Receiver<bool>,
    /// Whether a workspace waits for one that this host holds.
    is_crowded: AtomicBool,
    crowded: Notify,
}

/// A host that serves: one task for each workspace whose lease it holds.
struct Serving<W> {
    host: Arc<Host<W>>,
    tasks: JoinSet<()>,
    /// The workspace of each task, and what tells it that there is a new request.
    held: HashMap<String, (Id, Arc<Notify>)>,
    /// When workspaces that have requests were last taken.
    taken: HashMap<String, Instant>,
    seen: SeenLeases,
}

/// Waits until a host has to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender may be dropped.
    drop(stop.wait_for(|stop| *stop).await);
}

impl<W: Worker> Serving<W> {
    async fn run(mut self) {
        let mut stop = self.host.stop.clone();
        let hints = self.host.queue.client.subscribe(WORK_SUBJECT).await;
        // Without a subscription, there is what the next look finds.
        let mut hints =
            hints.map_or_else(|_| futures_util::stream::pending().boxed(), |s| s.boxed());
        let (mut last_look, mut next_look) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                Some(ended) = self.tasks.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    self.held.retain(|_, (task, _)| *task != id);
                    next_look = next_look.min(last_look + MIN_LOOK_INTERVAL);
                }
                () = sleep_until(next_look) => {
                    let interval = tokio::select! {
                        interval = self.look() => interval,
                        () = stopped(&mut stop) => break,
                    };
                    last_look = Instant::now();
                    next_look = last_look + interval;
                }
                Some(hint) = hints.next() => {
                    let token = str::from_utf8(&hint.payload).unwrap_or_default();
                    match self.held.get(token) {
                        Some((_, arrived)) => arrived.notify_one(),
                        None => next_look = next_look.min(last_look + MIN_LOOK_INTERVAL),
                    }
                }
            }
        }
        while self.tasks.join_next().await.is_some() {}
    }

    /// Looks for requests, and takes leases. Returns the time until the next look.
    async fn look(&mut self) -> Duration {
        match self.take_leases().await {
            Ok(true) => READ_INTERVAL,
            Ok(false) => LOOK_INTERVAL,
            Err(error) => {
                tracing::warn!("the queue: {error}");
                // The server may have lost its files.
                drop(create_missing(&self.host.queue.context).await);
                LOOK_INTERVAL
            }
        }
    }

    /// Takes the leases of workspaces that have requests. Returns whether other hosts hold some of them.
    async fn take_leases(&mut self) -> Result<bool, QueueError> {
        let host = Arc::clone(&self.host);
        let waiting = host.queue.waiting_workspaces().await?;
        self.taken.retain(|token, _| waiting.contains(token));
        self.seen.keep(|token| waiting.contains(token));
        // A set has another order each time, so that hosts do not compete for the same workspace.
        let mut free: Vec<_> =
            waiting.into_iter().filter(|token| !self.held.contains_key(token)).collect();
        free.sort_by_key(|token| self.taken.get(token).copied());
        let mut is_contended = false;
        for token in free {
            if self.tasks.len() >= host.parallel {
                host.is_crowded.store(true, Ordering::Relaxed);
                host.crowded.notify_waiters();
                return Ok(is_contended);
            }
            if self.seen.is_recent(&token) {
                is_contended = true;
                continue;
            }
            let holder = (&host.queue.secret, host.name.as_str());
            match Lease::take(&host.queue.leases, holder, &token, &mut self.seen).await? {
                Some(lease) => self.hold(token, lease),
                None => is_contended = true,
            }
        }
        host.is_crowded.store(false, Ordering::Relaxed);
        Ok(is_contended)
    }

    /// Starts the task for a workspace.
    fn hold(&mut self, token: String, lease: Lease) {
        let arrived = Arc::new(Notify::new());
        let (host, hint, workspace) = (Arc::clone(&self.host), Arc::clone(&arrived), token.clone());
        let task = self.tasks.spawn(async move {
            tokio::select! {
                () = host.work_off(&workspace, &lease, &hint) => {}
                // The call under way ends, since it may have taken effect.
                () = keep(&lease) => {}
            }
            lease.give_back().await;
        });
        self.taken.insert(token.clone(), Instant::now());
        self.held.insert(token, (task.id(), arrived));
    }
}

/// Renews a lease for ever, as long as it is not lost.
async fn keep(lease: &Lease) {
    lease.keep().await;
    std::future::pending().await
}

impl<W: Worker> Host<W> {
    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Works off the requests of a workspace, until there are none for some time, or until the lease is lost
    /// or has to be given back.
    async fn work_off(&self, token: &str, lease: &Lease, arrived: &Notify) {
        let begun = Instant::now();
        let mut idle_since = None;
        while !self.has_to_end(lease, begun) {
            if !lease.is_valid() {
                // The server is gone; it is not known whether another host has the lease.
                self.pause(RENEW_INTERVAL).await;
                continue;
            }
            let found = self.queue.first_request(token).await;
            match found {
                Ok(Some(message)) => {
                    idle_since = None;
                    if let Err(why) = self.handle(token, lease, message).await {
                        tracing::warn!("a request is tried again: {why}");
                        self.pause(RETRY_DELAY).await;
                    }
                }
                Ok(None) => {
                    let since = *idle_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= IDLE_TIME || self.is_crowded() {
                        return;
                    }
                    tokio::select! {
                        () = arrived.notified() => {}
                        () = self.crowded.notified() => {}
                        () = self.pause(IDLE_LOOK_INTERVAL) => {}
                    }
                }
                Err(error) => {
                    tracing::warn!("the queue: {error}");
                    self.pause(RENEW_INTERVAL).await;
                }
            }
        }
    }

    fn has_to_end(&self, lease: &Lease, begun: Instant) -> bool {
        let has_had_turn = self.is_crowded() && begun.elapsed() >= TURN_TIME;
        self.is_stopped() || lease.is_lost() || has_had_turn
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// Waits, but not longer than until the host has to stop.
    async fn pause(&self, time: Duration) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = sleep(time) => {}
            () = stopped(&mut stop) => {}
        }
    }

    /// Works off one request, and removes it.
    async fn handle(
        &self,
        token: &str,
        lease: &Lease,
        message: StreamMessage,
    ) -> Result<(), TryLater> {
        let later = |error: QueueError| TryLater(error.to_string());
        let request = if message.payload.len() <= MAX_REQUEST_BYTES {
            Request::decode(&message.payload, token, &self.queue.secret)
        } else {
            Err("it is too large".to_owned())
        };
        let request = match request {
            Ok(request) => request,
            Err(why) => {
                tracing::warn!("a request in the queue is dropped: {why}");
                return self.queue.remove_request(message.sequence).await.map_err(later);
            }
        };
        let place = Place::new(&request.workspace, &request.key).map_err(later)?;
        if self.queue.stored_result(&place).await.map_err(later)?.is_none() {
            let work = AssertUnwindSafe(self.worker.work(request)).catch_unwind();
            let result = work.await.unwrap_or_else(|_| Err(TryLater("it panicked".to_owned())))?;
            self.store(&place, &result, lease).await.map_err(later)?;
        }
        self.queue.remove_request(message.sequence).await.map_err(later)
    }

    /// Stores a result. The server may be gone for some time.
    async fn store(&self, place: &Place, result: &[u8], lease: &Lease) -> Result<(), QueueError> {
        let mut attempts = 0;
        loop {
            let stored = self.queue.store_result(place, result).await;
            attempts += 1;
            let is_last = attempts >= RESULT_ATTEMPTS || self.is_stopped() || lease.is_lost();
            match stored {
                Err(QueueError::Unreachable(_)) if !is_last => self.pause(RENEW_INTERVAL).await,
                stored => return stored,
            }
        }
    }
}
