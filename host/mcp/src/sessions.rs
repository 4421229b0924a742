//! The sessions of clients over HTTP: their maximum number, the end of their calls, and the cancellation
//! of requests.

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
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Server;
use super::connection::{self, Cancelled, Connection};
use cofferdam_engine::dispatch::Refusal;

/// The maximum number of sessions, under all roles.
pub(super) const MAX_SESSIONS: usize = 1024;

/// The maximum number for one address: others are left to other addresses.
const MAX_SESSIONS_OF_ADDRESS: usize = MAX_SESSIONS / 4 * 3;

/// How long a session may be idle: longer than a question may be open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// How long a session keeps an answer for a client that has lost its connection: it tries again after
/// 3 seconds.
const ANSWER_TTL: Duration = Duration::from_secs(10);

/// The server over streamable HTTP, under one role.
pub(super) type Service = StreamableHttpService<Server, Sessions>;

pub(super) fn service(
    server: Server,
    config: &StreamableHttpServerConfig,
    places: &Places,
) -> Service {
    let sessions = Arc::new(Sessions::new(places.clone()));
    StreamableHttpService::new(move || Ok(server.clone()), sessions, config.clone())
}

/// The servers over HTTP of one workspace, by the role that clients have asked for. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Services(Arc<Mutex<HashMap<Option<String>, Service>>>);

impl Services {
    /// Returns the server of a role (`None`: that of `server`), after creating it if it is not there yet.
    ///
    /// # Errors
    /// The role does not exist (any more).
    pub(super) fn of(
        &self,
        server: &Server,
        role: Option<String>,
        (config, places): (&StreamableHttpServerConfig, &Places),
    ) -> Result<Service, Refusal> {
        let mut services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match &role {
            Some(named) => server.under(named),
            None => Ok(server.clone()),
        };
        let server = server.inspect_err(|_| drop(services.remove(&role)))?;
        Ok(services.entry(role).or_insert_with(|| service(server, config, places)).clone())
    }

    /// How many there are. Each has a clone of the [`Server`].
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The open sessions. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<HashMap<SessionId, Known>>>);

/// An open session.
struct Known {
    library: Arc<LocalSessionManager>,
    connection: Connection,
    address: Option<IpAddr>,
    /// When its client last sent something.
    heard: Instant,
    /// Whether it has had a request.
    is_used: bool,
    /// Each of its open streams holds a clone.
    streams: Arc<()>,
}

impl Known {
    /// Whether it has no open request.
    fn is_idle(&self) -> bool {
        self.connection.requests() == 0
    }

    fn is_listening(&self) -> bool {
        Arc::strong_count(&self.streams) > 1
    }
}

impl Places {
    /// Whether the maximum is reached and no session can be ended for another one.
    pub fn are_taken(&self) -> bool {
        let known = self.known();
        known.len() >= MAX_SESSIONS && !known.values().any(Known::is_idle)
    }

    /// Ends an idle session, of `address` if it is given: first those that were never used, then those
    /// without an open stream; of these, the one that has been idle for longest.
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

    /// Notes the address of a session, and ends another one if the address has too many.
    fn note(&self, id: &SessionId, address: Option<IpAddr>) {
        let mut known = self.known();
        if let Some(session) = known.get_mut(id) {
            session.address = address;
        }
        let own = known.values().filter(|session| session.address == address).count();
        drop(known);
        if own > MAX_SESSIONS_OF_ADDRESS {
            self.free(address, Some(id));
        }
    }

    /// Notes activity of a session.
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

/// An entry of [`Places`], which is removed when this is dropped.
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
        library.session_config.keep_alive = Some(IDLE_TIMEOUT);
        library.session_config.completed_cache_ttl = ANSWER_TTL;
        Self { library: Arc::new(library), places }
    }

    /// Returns what a stream of a session holds while it is open.
    fn listening(&self, id: &SessionId) -> Option<Arc<()>> {
        self.places.heard(id, |session| {
            session.is_used = true;
            Arc::clone(&session.streams)
        })
    }
}

/// Why a session can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("there are {MAX_SESSIONS} sessions already")]
    Full,
    #[error(transparent)]
    Library(#[from] LocalSessionManagerError),
}

/// The transport of one session.
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
            self.connection.session.end();
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
        let is_full = self.places.known().len() >= MAX_SESSIONS;
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
        // Before the library gets it, so that no cancellation comes earlier.
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
            // The library closes the stream of the answer, so that comes after an answer that is sent.
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

/// Returns the stream, which holds `held` until it is dropped.
fn holding<T: Send + Sync + 'static>(
    stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    held: T,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream.inspect(move |_| {
        let _ = &held;
    })
}
