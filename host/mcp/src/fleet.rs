//! The workspaces of a fleet that this host serves: each is a copy of one in a store, and is opened when it
//! is first asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{Options, Server};
use cofferdam_core::envelope::Mode;
use cofferdam_core::outcome::RefusalCode;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::{Host, OpenError, RunOptions};
use cofferdam_fleet::{Access, Address, Claim, FleetError, Replica};
use cofferdam_workspace::{Secret, Workspace, WorkspaceError};

/// How many workspaces a host opens.
pub const MAX_OPEN: usize = 1024;

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
}

/// The workspaces that a host serves.
pub struct Fleet {
    host: Host,
    options: Options,
    pub(super) stopping: CancellationToken,
    location: Location,
    open: Mutex<HashMap<String, Arc<OnceCell<Opened>>>>,
}

/// A workspace that is open.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) server: Server,
    host: Host,
    replica: Arc<Replica>,
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
    #[error("this host has {MAX_OPEN} workspaces open, and opens no more")]
    Full,
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
        Ok(Self { host, options, stopping, location, open: Mutex::default() })
    }

    /// The largest message, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.host.policy().limits().envelope
    }

    /// The role that is served where the address names none.
    pub(super) fn role(&self) -> Option<&str> {
        self.options.role.as_deref()
    }

    /// Whether clients may choose another role by the address.
    pub(super) fn other_roles(&self) -> bool {
        self.options.other_roles
    }

    /// Returns a workspace, after opening it if it is not open yet.
    pub(super) async fn open(&self, name: &str) -> Result<Opened, ServeWorkspaceError> {
        check_name(name)?;
        let cell = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= MAX_OPEN && !open.contains_key(name) {
                open.retain(|_, cell| cell.initialized());
                if open.len() >= MAX_OPEN {
                    return Err(ServeWorkspaceError::Full);
                }
            }
            Arc::clone(open.entry(name.to_owned()).or_default())
        };
        cell.get_or_try_init(|| self.open_copy(name)).await.cloned()
    }

    async fn open_copy(&self, name: &str) -> Result<Opened, ServeWorkspaceError> {
        let Location { store, access, copies, secret } = &self.location;
        let address = store.child(name);
        if !Replica::exists(&address, access).await? {
            return Err(ServeWorkspaceError::Unknown(name.to_owned()));
        }
        let directory = create(&copies.join(name))?;
        let workspace = Arc::new(Workspace::open(&directory, secret.clone())?);
        let replica = Replica::open(&workspace, address, access).await?;
        let host = self.host.on(workspace)?;
        let server = Server::new(host.clone(), self.options.clone(), self.stopping.clone())?;
        Ok(Opened { server, host, replica })
    }

    /// Makes the calls of an envelope once, whatever happens: they are one transaction, and what they
    /// return is kept under `key`. Returns the result document, also if they were made before, by any
    /// host.
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
            Err(refusal) => serde_json::json!({ "refused": refusal }),
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

    /// Waits until no call is running, and writes down what the copies are.
    pub(super) async fn ended(&self) {
        let open: Vec<Opened> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.values().filter_map(|cell| cell.get().cloned()).collect()
        };
        let end = |opened: Opened| async move {
            opened.server.ended().await;
            if let Err(error) = opened.replica.save().await {
                tracing::warn!("the state of a copy was not written: {error}");
            }
        };
        join_all(open.into_iter().map(end)).await;
    }
}

/// Whether a refusal is about this host at present, not about the envelope.
pub(super) fn is_passing(refusal: &Refusal) -> bool {
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
