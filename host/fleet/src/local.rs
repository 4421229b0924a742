//! The workspace that is synced: the lock of its pushes and pulls, and its state.

use std::fs::{File, TryLockError};
use std::sync::Arc;

use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{Own, Workspace};

use crate::error::FleetError;
use crate::state::State;
use crate::store::{Access, Address, Store};

/// The file in the host's own directory that a process locks while it pushes or pulls.
const LOCK: &str = "store.lock";

/// A workspace with its state.
pub(crate) struct Synced {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) state: State,
    own: Option<Arc<Own>>,
    /// Unlocks when it is closed.
    _lock: Option<File>,
}

/// The lock and the state of a workspace.
pub(crate) struct Kept {
    pub(crate) state: State,
    own: Arc<Own>,
    /// Unlocks when it is closed.
    _lock: File,
}

impl Kept {
    /// Writes the state.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn save(&mut self) -> Result<(), FleetError> {
        self.state.write(&self.own)
    }
}

impl Synced {
    /// Reads the state, to look at it only.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn look(workspace: &Arc<Workspace>) -> Result<Self, FleetError> {
        let own = workspace.existing_own()?;
        let state = own.as_ref().map(|own| State::read(own)).transpose()?.unwrap_or_default();
        Ok(Self { workspace: Arc::clone(workspace), state, own: None, _lock: None })
    }

    /// Locks the workspace for pushing or pulling, and reads the state.
    ///
    /// # Errors
    /// [`FleetError::InUse`]; an I/O error.
    pub(crate) fn lock(workspace: &Arc<Workspace>) -> Result<Self, FleetError> {
        let own = workspace.own()?;
        let lock = own.append(LOCK)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(FleetError::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        let state = State::read(&own)?;
        let workspace = Arc::clone(workspace);
        Ok(Self { workspace, state, own: Some(own), _lock: Some(lock) })
    }

    /// The address of the store; `None` if the workspace was not pushed or pulled yet.
    ///
    /// # Errors
    /// [`FleetError::Address`].
    pub(crate) fn address(&self) -> Result<Option<Address>, FleetError> {
        if self.state.store.is_empty() {
            return Ok(None);
        }
        Address::parse(&self.state.store, self.workspace.path()).map(Some)
    }

    /// Opens the store that is named, or else the one that the workspace is synced with. It has to be
    /// the one that the workspace knows, if it knows any; it may be in another place now.
    ///
    /// # Errors
    /// [`FleetError::NoStore`], [`FleetError::OtherStore`], [`FleetError::AnotherStore`]; a directory in
    /// the workspace, where tools could change it.
    pub(crate) async fn open(
        &self,
        named: Option<Address>,
        access: &Access,
        create: bool,
    ) -> Result<Store, FleetError> {
        let address = match named {
            Some(address) => address,
            None => self.address()?.ok_or(FleetError::NoStore)?,
        };
        if let Address::Directory(path) = &address
            && self.workspace.holds(path)
        {
            let why = "it would be in the workspace, where tools could change it".to_owned();
            return Err(FleetError::Address { text: address.to_string(), why });
        }
        let is_known = !self.state.id.is_empty();
        let store = Store::open(&address, access, create && !is_known)?;
        if is_known && store.id().await?.as_ref() != Some(&self.state.id) {
            let (known, named) = (self.state.store.clone(), store.name().to_owned());
            return Err(if known == named {
                FleetError::AnotherStore(named)
            } else {
                FleetError::OtherStore { known, named }
            });
        }
        Ok(store)
    }

    /// The commit that the workspace has seen, if this is its store.
    ///
    /// # Errors
    /// [`FleetError::AnotherStore`]; those of reading the store's id.
    pub(crate) async fn seen_in(&self, store: &Store) -> Result<Option<(u64, Digest)>, FleetError> {
        if self.state.store != store.name() {
            return Ok(None);
        }
        match store.id().await? {
            Some(id) if id == self.state.id => Ok(self.state.commit),
            _ => Err(FleetError::AnotherStore(store.name().to_owned())),
        }
    }

    /// Lets go of the workspace, and keeps its lock and state.
    ///
    /// # Errors
    /// [`FleetError::InUse`] if it was not locked.
    pub(crate) fn into_kept(self) -> Result<Kept, FleetError> {
        match (self.own, self._lock) {
            (Some(own), Some(lock)) => Ok(Kept { state: self.state, own, _lock: lock }),
            _ => Err(FleetError::InUse),
        }
    }

    /// Writes the state.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn save(&mut self) -> Result<(), FleetError> {
        match &self.own {
            Some(own) => self.state.write(own),
            None => Err(FleetError::InUse),
        }
    }
}
