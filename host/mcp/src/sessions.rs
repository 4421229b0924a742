//! The sessions of clients over HTTP: how many there may be, that their calls end with them, and what
//! becomes of requests that are cancelled.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

use super::connection::{self, Cancelled, Connection};

/// How many sessions there may be at a time, under all roles.
pub(super) const SESSIONS: usize = 1024;

/// How many of them clients of one address may have: others come in at once.
const SHARE: usize = SESSIONS / 4 * 3;

/// When a session in which nothing is said ends: later than any question that is open.
const QUIET: Duration = Duration::from_secs(20 * 60);

/// The places of all sessions. Clones are the same places.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<HashMap<SessionId, Known>>>);

/// A session that has a place.
struct Known {
    library: Arc<LocalSessionManager>,
    connection: Connection,
    address: Option<IpAddr>,
    /// When it was last heard of.
    heard: Instant,
    /// Whether anything was asked for in it.
    is_used: bool,
    /// Held by each of its streams that is open.
    streams: Arc<()>,
}

impl Known {
    /// Whether nothing is under way in it.
    fn is_idle(&self) -> bool {
        self.connection.requests() == 0
    }

    fn is_listening(&self) -> bool {
        Arc::strong_count(&self.streams) > 1
    }
}

impl Places {
    /// Whether there is no place for one more session, and none that can be freed.
    pub fn are_taken(&self) -> bool {
        let known = self.known();
        known.len() >= SESSIONS && !known.values().any(Known::is_idle)
    }

    /// Ends a session in which nothing is under way, of an address if one is named: one that was
    /// never used, then one without an open stream; of these, the one that was silent for longest.
    fn free(&self, address: Option<IpAddr>, except: Option<&SessionId>) -> bool {
        let mut known = self.known();
        let may_end = |(id, session): &(&SessionId, &Known)| {
            session.is_idle()
                && Some(*id) != except
                && (address.is_none() || session.address == address)
        };
        let least = known
            .iter()
            .filter(may_end)
            .min_by_key(|(_, session)| (session.is_used, session.is_listening(), session.heard));
        let Some(id) = least.map(|(id, _)| id.clone()) else { return false };
        let Some(ended) = known.remove(&id) else { return false };
        drop(known);
        tracing::debug!("a session that was idle makes room for another one");
        tokio::spawn(async move { ended.library.close_session(&id).await });
        true
    }

    /// Notes whose a session is, and that these have as many as they may.
    fn note(&self, id: &SessionId, address: Option<IpAddr>) {
        let mut known = self.known();
        if let Some(session) = known.get_mut(id) {
            session.address = address;
        }
        let own = known.values().filter(|session| session.address == address).count();
        drop(known);
        if own > SHARE {
            self.free(address, Some(id));
        }
    }

    /// A session that something is heard of.
    fn heard<T>(&self, id: &SessionId, of: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let mut known = self.known();
        let session = known.get_mut(id)?;
        session.heard = Instant::now();
        Some(of(session))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one session, until it is dropped.
struct Place {
    places: Places,
    id: SessionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.known().remove(&self.id);
    }
}

/// The sessions under one role.
pub(super) struct Sessions {
    library: Arc<LocalSessionManager>,
    places: Places,
}

impl Sessions {
    pub fn new(places: Places) -> Self {
        let mut library = LocalSessionManager::default();
        library.session_config.keep_alive = Some(QUIET);
        Self { library: Arc::new(library), places }
    }

    /// What a stream of a session holds as long as it is open.
    fn listening(&self, id: &SessionId) -> Option<Arc<()>> {
        self.places.heard(id, |session| {
            session.is_used = true;
            Arc::clone(&session.streams)
        })
    }
}

/// A session that is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("there are {SESSIONS} sessions already")]
    Full,
    #[error(transparent)]
    Library(#[from] LocalSessionManagerError),
}

/// One session, as the server has it.
pub(super) struct Session {
    library: SessionTransport,
    connection: Connection,
    _place: Place,
}

impl Transport<RoleServer> for Session {
    type Error = <SessionTransport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = self.connection.ends(&message).then(|| self.library.send(message));
        async move {
            match sent {
                Some(sent) => sent.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.library.receive().await;
        if message.is_none() {
            self.connection.silent.cancel();
            self.connection.gone.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.library.close().await
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = Session;

    async fn create_session(&self) -> Result<(SessionId, Session), SessionError> {
        let is_full = self.places.known().len() >= SESSIONS;
        if is_full && !self.places.free(None, None) {
            return Err(SessionError::Full);
        }
        let (id, library) = self.library.create_session().await?;
        let connection = Connection::new();
        let known = Known {
            library: Arc::clone(&self.library),
            connection: connection.clone(),
            address: None,
            heard: Instant::now(),
            is_used: false,
            streams: Arc::default(),
        };
        self.places.known().insert(id.clone(), known);
        let place = Place { places: self.places.clone(), id: id.clone() };
        Ok((id, Session { library, connection, _place: place }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        if let JsonRpcMessage::Request(request) = &message {
            let client = connection::client(request.request.extensions());
            self.places.note(id, client.address);
        }
        Ok(self.library.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.library.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.library.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        // Before the library has it: nothing that cancels it comes earlier.
        self.places.heard(id, |session| session.connection.stamp(&mut message));
        let held = self.listening(id);
        Ok(holding(self.library.create_stream(id, message).await?, held))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let cancelled =
            self.places.heard(id, |session| session.connection.cancelled_by(&message)).flatten();
        let request = match cancelled {
            None => return Ok(self.library.accept_message(id, message).await?),
            Some(Cancelled::Nothing) => return Ok(()),
            Some(Cancelled::Request(request)) => request,
        };
        let (library, id) = (Arc::clone(&self.library), id.clone());
        tokio::spawn(async move {
            // The library closes the stream of the answer, which has to wait for one that is sent.
            if !request.answered().await {
                let _ = library.accept_message(&id, message).await;
            }
        });
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let held = self.listening(id);
        Ok(holding(self.library.create_standalone_stream(id).await?, held))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let held = self.listening(id);
        Ok(holding(self.library.resume(id, last_event_id).await?, held))
    }
}

/// A stream that holds something until it is dropped.
fn holding<T: Send + Sync + 'static>(
    stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    held: T,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream.inspect(move |_| {
        let _ = &held;
    })
}
