//! The sessions of clients over HTTP: how many there may be, and that their calls end with them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionTransport,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Connection;

/// How many sessions there may be at a time, under all roles.
pub(super) const SESSIONS: usize = 1024;

/// When a session in which nothing is said ends: later than any question that is open.
const QUIET: Duration = Duration::from_secs(20 * 60);

/// The places of all sessions. Clones are the same places.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SESSIONS)))
    }
}

impl Places {
    pub fn are_taken(&self) -> bool {
        self.0.available_permits() == 0
    }
}

/// The sessions under one role.
pub(super) struct Sessions {
    library: LocalSessionManager,
    places: Places,
}

impl Sessions {
    pub fn new(places: Places) -> Self {
        let mut library = LocalSessionManager::default();
        library.session_config.keep_alive = Some(QUIET);
        Self { library, places }
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
    _place: OwnedSemaphorePermit,
}

impl Transport<RoleServer> for Session {
    type Error = <SessionTransport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.library.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.library.receive().await;
        match &mut message {
            Some(message) => self.connection.stamp(message),
            None => {
                self.connection.silent.cancel();
                self.connection.gone.cancel();
            }
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
        let place = Arc::clone(&self.places.0).try_acquire_owned();
        let place = place.map_err(|_| SessionError::Full)?;
        let (id, library) = self.library.create_session().await?;
        Ok((id, Session { library, connection: Connection::default(), _place: place }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
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
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.library.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        Ok(self.library.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.library.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.library.resume(id, last_event_id).await?)
    }
}
