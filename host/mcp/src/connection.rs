//! The connection of a client, its open requests, and their cancellation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ConstString as _, Extensions,
    GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    SubscriptionsListenRequestMethod,
};
use rmcp::service::RequestContext;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use cofferdam_engine::call::Session;
use cofferdam_text::{escape_control, shorten};
use cofferdam_workspace::fair_queue::Client;

/// A client on standard input and output, or in a session. Each of its requests has it as an extension.
#[derive(Debug, Clone, Default)]
pub(super) struct Connection {
    /// Cancelled when the client sends nothing more, so that it can't answer a question.
    pub silent: CancellationToken,
    /// Cancelled when nothing can be sent to the client any more, so that its calls are useless.
    pub gone: CancellationToken,
    /// Identifies its client; 0 if it has no number of its own.
    pub id: u64,
    /// How many bytes wait to be read by the client, if that is known.
    pub unread: Option<watch::Receiver<usize>>,
    /// The commits of its calls, and the programs that they have left running.
    pub session: Session,
    requests: Arc<Requests>,
    /// The number of its requests that listen for changes.
    listening: Arc<AtomicUsize>,
}

/// The maximum number of requests of a connection that listen for changes.
const MAX_LISTENING: usize = 16;

/// A request that listens, until it is dropped.
pub(super) struct Listening(Arc<AtomicUsize>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open requests of a connection.
#[derive(Debug, Default)]
struct Requests {
    open: Mutex<HashMap<RequestId, Request>>,
    ended: Notify,
}

/// An open request, which has this as an extension.
///
/// The library forgets a request that its client cancels, and drops its answer. But a client
/// must be told what a call has done, so cancellations are handled here and not by the library.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    /// Cancelled when the client cancels it.
    pub cancelled: CancellationToken,
    /// Whether it listens for changes: the library cancels these.
    listens: bool,
    /// Whether the answer is sent even if it was cancelled, since its work was done by then.
    is_done: Arc<AtomicBool>,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// The request that a message cancels.
#[derive(Debug)]
pub(super) enum Cancelled {
    /// No request that is known.
    Nothing,
    Request(Request),
}

impl Request {
    /// Returns the request of these extensions, or else a new one, which is never cancelled.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Has the answer sent even if the request was cancelled.
    pub fn done(&self) {
        self.is_done.store(true, Ordering::Release);
    }

    /// Waits until it has ended. Returns whether the client got an answer.
    pub async fn answered(&self) -> bool {
        self.ended.cancelled().await;
        self.is_answered()
    }

    fn is_answered(&self) -> bool {
        !self.cancelled.is_cancelled() || self.is_done.load(Ordering::Acquire)
    }
}

impl Connection {
    /// Creates the connection of a new client.
    pub fn new() -> Self {
        Self { id: next_id(), session: Session::lasting(), ..Self::default() }
    }

    /// Adds the number of bytes that wait to be read by its client.
    #[must_use]
    pub fn of_reader(self, unread: watch::Receiver<usize>) -> Self {
        Self { unread: Some(unread), ..self }
    }

    /// Returns the connection of a request, or else a new one, which never ends.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Adds this connection and the open request to the extensions of a request.
    pub fn stamp(&self, message: &mut ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(message) = message else { return };
        let listens = match &message.request {
            ClientRequest::CustomRequest(request) => {
                request.method == SubscriptionsListenRequestMethod::VALUE
            }
            _ => false,
        };
        let request = Request { listens, ..Request::default() };
        let extensions = message.request.extensions_mut();
        extensions.insert(self.clone());
        extensions.insert(request.clone());
        self.open().insert(message.id.clone(), request);
    }

    /// Adds a request that listens. Returns `None` if there are too many.
    pub fn listen(&self) -> Option<Listening> {
        let before = self.listening.fetch_add(1, Ordering::Relaxed);
        let listening = Listening(Arc::clone(&self.listening));
        (before < MAX_LISTENING).then_some(listening)
    }

    /// The number of open requests.
    pub fn requests(&self) -> usize {
        self.open().len()
    }

    /// Waits until fewer than `most` requests are open.
    pub async fn has_fewer_than(&self, most: usize) {
        while self.requests() >= most {
            let mut ended = std::pin::pin!(self.requests.ended.notified());
            ended.as_mut().enable();
            if self.requests() >= most {
                ended.await;
            }
        }
    }

    /// Cancels the request that a message names. Returns `None` if the message is something else, or if
    /// the library handles it.
    pub fn cancelled_by(&self, message: &ClientJsonRpcMessage) -> Option<Cancelled> {
        let JsonRpcMessage::Notification(message) = message else { return None };
        let ClientNotification::CancelledNotification(cancelled) = &message.notification else {
            return None;
        };
        let Some(id) = &cancelled.params.request_id else { return Some(Cancelled::Nothing) };
        let mut open = self.open();
        match open.get(id) {
            // The library must not get it: the request may still come.
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

    /// Ends the request that a message answers. Returns whether to send it: the protocol requires that
    /// a request that was cancelled and has done nothing gets no answer.
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

/// Returns the number of a new client.
pub(super) fn next_id() -> u64 {
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    CLIENTS.fetch_add(1, Ordering::Relaxed)
}

/// The longest name and version of a client in the record, in bytes.
const MAX_CLIENT_BYTES: usize = 100;

/// Returns the name and the version of a client, as it names itself, on one line.
pub(super) fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    let client = context.client_info()?;
    let name = shorten(&format!("{} {}", client.name, client.version), MAX_CLIENT_BYTES);
    Some(escape_control(&name).replace('\n', " "))
}

/// Returns the client of a request: a session, a pipe, or an HTTP connection.
pub(super) fn client(extensions: &Extensions) -> Client {
    let head = extensions.get::<axum::http::request::Parts>();
    let from = head.and_then(|head| head.extensions.get::<Client>()).copied().unwrap_or_default();
    match extensions.get::<Connection>() {
        Some(connection) => Client { id: connection.id, ..from },
        None => from,
    }
}
