//! What a request knows of the connection that it came by, and what becomes of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, Extensions, GetExtensions as _,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use cofferdam_workspace::fair_queue::Client;

/// A client on standard input and output, or in a session; it stands among the extensions of each
/// of its requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Connection {
    /// Cancelled when nothing more is heard of the client, so that nobody answers a question.
    pub silent: CancellationToken,
    /// Cancelled when nothing that is said reaches the client any more, so that no call is of use.
    pub gone: CancellationToken,
    /// Tells its client from others; 0 where it has nothing of its own.
    pub id: u64,
    /// What waits to be read by the client, in bytes, where that is known.
    pub unread: Option<watch::Receiver<usize>>,
    requests: Arc<Requests>,
    /// How many of its requests listen for changes.
    listening: Arc<AtomicUsize>,
}

/// How many requests of a connection may listen for changes.
const LISTENING: usize = 16;

/// A request that listens, until it is dropped.
pub(super) struct Listening(Arc<AtomicUsize>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requests of a connection that have not ended.
#[derive(Debug, Default)]
struct Requests {
    open: Mutex<HashMap<RequestId, Request>>,
    ended: Notify,
}

/// A request that has not ended; it stands among its own extensions.
///
/// The library forgets a request that its client cancels, and drops its answer. But a client
/// must be told what a call has done, so cancellations are handled here and not by the library.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    /// Cancelled when the client does not want it any more.
    pub cancelled: CancellationToken,
    /// Whether it is about changes: it ends by being cancelled, and the library sees to that.
    listens: bool,
    /// Whether the answer is sent although it was cancelled: it was done by then.
    is_done: Arc<AtomicBool>,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// What a message cancels.
#[derive(Debug)]
pub(super) enum Cancelled {
    /// No request that is known.
    Nothing,
    Request(Request),
}

impl Request {
    /// The request of these extensions; one that is not cancelled, where it stands for itself.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// The answer is sent, even if the request was cancelled.
    pub fn done(&self) {
        self.is_done.store(true, Ordering::Release);
    }

    /// Waits until it has ended. Says whether its client got an answer.
    pub async fn answered(&self) -> bool {
        self.ended.cancelled().await;
        self.is_answered()
    }

    fn is_answered(&self) -> bool {
        !self.cancelled.is_cancelled() || self.is_done.load(Ordering::Acquire)
    }
}

impl Connection {
    /// A connection of a client of its own.
    pub fn new() -> Self {
        Self { id: next_id(), ..Self::default() }
    }

    /// Adds what waits to be read by its client, in bytes.
    #[must_use]
    pub fn of_reader(self, unread: watch::Receiver<usize>) -> Self {
        Self { unread: Some(unread), ..self }
    }

    /// The connection that a request came by; one that does not end, where it stands for itself.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Tells a request of it.
    pub fn stamp(&self, message: &mut ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(message) = message else { return };
        let listens = matches!(message.request, ClientRequest::SubscriptionsListenRequest(_));
        let request = Request { listens, ..Request::default() };
        let extensions = message.request.extensions_mut();
        extensions.insert(self.clone());
        extensions.insert(request.clone());
        self.open().insert(message.id.clone(), request);
    }

    /// One more request that listens; none, where too many do.
    pub fn listen(&self) -> Option<Listening> {
        let before = self.listening.fetch_add(1, Ordering::Relaxed);
        let listening = Listening(Arc::clone(&self.listening));
        (before < LISTENING).then_some(listening)
    }

    /// How many requests have not ended.
    pub fn requests(&self) -> usize {
        self.open().len()
    }

    /// Waits until fewer requests are open than this many.
    pub async fn has_fewer_than(&self, most: usize) {
        while self.requests() >= most {
            let mut ended = std::pin::pin!(self.requests.ended.notified());
            ended.as_mut().enable();
            if self.requests() >= most {
                ended.await;
            }
        }
    }

    /// What a message cancels. None where that is not what it says, or is the library's business.
    pub fn cancelled_by(&self, message: &ClientJsonRpcMessage) -> Option<Cancelled> {
        let JsonRpcMessage::Notification(message) = message else { return None };
        let ClientNotification::CancelledNotification(cancelled) = &message.notification else {
            return None;
        };
        let Some(id) = &cancelled.params.request_id else { return Some(Cancelled::Nothing) };
        let mut open = self.open();
        match open.get(id) {
            // The library must not hear of it: the request may be on its way.
            None => Some(Cancelled::Nothing),
            Some(request) if request.listens => {
                open.remove(id);
                None
            }
            Some(request) => {
                request.cancelled.cancel();
                Some(Cancelled::Request(request.clone()))
            }
        }
    }

    /// Notes what is answered. Says whether it is to be sent: the protocol wants no answer to a
    /// request that was cancelled and has done nothing.
    pub fn ends(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let Some(request) = id.and_then(|id| self.open().remove(id)) else { return true };
        let is_answered = request.is_answered();
        request.ended.cancel();
        self.requests.ended.notify_waiters();
        is_answered
    }

    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, Request>> {
        self.requests.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that has no other name.
pub(super) fn next_id() -> u64 {
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    CLIENTS.fetch_add(1, Ordering::Relaxed)
}

/// Whom a request is of: of a session or a pipe, or of an HTTP connection.
pub(super) fn client(extensions: &Extensions) -> Client {
    let head = extensions.get::<axum::http::request::Parts>();
    let from = head.and_then(|head| head.extensions.get::<Client>()).copied().unwrap_or_default();
    match extensions.get::<Connection>() {
        Some(connection) => Client { id: connection.id, ..from },
        None => from,
    }
}
