//! A copy of a workspace on a host of a fleet. The store is the truth: calls are made on the copy, their
//! commits are published before they are applied, and what other hosts have published is taken over before
//! the next call.
//!
//! The host alone changes the directory. What its calls have changed and the store does not have is
//! discarded when the directory is opened again.
//!
//! | module | is for |
//! |---|---|
//! | [`replica`](self) | opening, and the calls with keys |
//! | [`copy`](super::copy) | what a copy consists of |
//! | [`live`](super::live) | the tree of the latest commit, and where the disk differs from it |
//! | [`publish`](super::publish) | creating a commit before it is applied here |
//! | [`refresh`](super::refresh) | taking over what other hosts have published |
//! | [`keys`](super::keys) | calls that are made once |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_workspace::{
    BeginError, Commit, CommitError, KeyedResult, Overlay, Refresh, Upstream, Workspace,
};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::commit::KeyedCall;
use crate::copy::{MAX_RESULT_BYTES, Replica};
use crate::error::FleetError;
use crate::keys::{self, Active, Ended};
use crate::live::Live;
use crate::local::Synced;
use crate::publish::{Ours, not_published};
use crate::pull::LOCK_TIMEOUT;
use crate::store::{Access, Address, Store};

/// How often to look whether the same call has ended that this host makes already.
const SAME_KEY_POLL: Duration = Duration::from_millis(10);

/// How long calls that only read wait for one that is changing the workspace, if there is something to take
/// over.
const READ_PATIENCE: Duration = Duration::from_millis(200);

/// A call with a key.
#[derive(Debug)]
pub enum Claim {
    /// It was made already; what it returned.
    Ended(Bytes),
    /// It is to be made.
    Open(OpenCall),
}

/// A call with a key that this host makes. It has to be ended by [`OpenCall::end`]; otherwise it was not
/// made, unless its changes were published.
#[derive(Debug)]
pub struct OpenCall {
    replica: Arc<Replica>,
    key: String,
}

impl Replica {
    /// Checks that a store can be read.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn reach(address: &Address, access: &Access) -> Result<(), FleetError> {
        Store::reach(address, access).await
    }

    /// Whether there is a workspace at an address.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn exists(address: &Address, access: &Access) -> Result<bool, FleetError> {
        Store::exists(address, access).await
    }

    /// Makes a directory a copy of the workspace in a store, and brings it up to date. The directory belongs
    /// to this host: what is in it and not in the store is removed. Needs a Tokio runtime.
    ///
    /// # Errors
    /// [`FleetError::Empty`], [`FleetError::InUse`], [`FleetError::NoConditionalPut`]; those of reading the
    /// store and changing the directory.
    pub async fn open(
        workspace: &Arc<Workspace>,
        address: Address,
        access: &Access,
    ) -> Result<Arc<Self>, FleetError> {
        let synced = Synced::lock(workspace)?;
        let store = synced.open(Some(address), access, false).await?;
        Self::with(workspace, synced, store).await
    }

    pub(crate) async fn with(
        workspace: &Arc<Workspace>,
        synced: Synced,
        store: Store,
    ) -> Result<Arc<Self>, FleetError> {
        if store.id().await?.is_none() {
            return Err(FleetError::Empty(store.name().to_owned()));
        }
        let mut kept = synced.into_kept()?;
        kept.state.id = store.prepare().await?;
        store.name().clone_into(&mut kept.state.store);
        let live = Live::take(&mut kept.state);
        let replica = Arc::new(Self {
            workspace: Arc::downgrade(workspace),
            store,
            live: Arc::new(Mutex::new(live)),
            is_unreliable: AtomicBool::new(true),
            active: Active::default(),
            runtime: Handle::current(),
            kept: Mutex::new(kept),
        });
        replica.bring_up_to_date(LOCK_TIMEOUT).await?;
        replica.save().await?;
        workspace.set_upstream(Arc::clone(&replica) as Arc<dyn Upstream>);
        Ok(replica)
    }

    /// Writes down what the copy is, so that it is opened again without reading all files.
    ///
    /// # Errors
    /// An I/O error.
    pub async fn save(&self) -> Result<(), FleetError> {
        let mut kept = self.kept.lock().await;
        let mut live = self.live.lock().await;
        live.lend(&mut kept.state);
        let saved = kept.save();
        *live = Live { pending: std::mem::take(&mut live.pending), ..Live::take(&mut kept.state) };
        saved
    }

    /// Begins a call with a key. Waits while this host makes the same call.
    ///
    /// # Errors
    /// [`FleetError::Key`]; those of reading the store.
    pub async fn claim(self: &Arc<Self>, key: &str) -> Result<Claim, FleetError> {
        keys::check(key)?;
        while !self.active.add(key) {
            tokio::time::sleep(SAME_KEY_POLL).await;
        }
        // Its key is removed when it is dropped.
        let call = OpenCall { replica: Arc::clone(self), key: key.to_owned() };
        // From here on, commits with the key are noticed when they are read.
        Ok(self.find(key).await?.map_or(Claim::Open(call), Claim::Ended))
    }

    /// Returns what the call with a key has returned; `None` if it has not ended.
    ///
    /// # Errors
    /// As for [`Replica::claim`].
    pub async fn find(&self, key: &str) -> Result<Option<Bytes>, FleetError> {
        keys::check(key)?;
        let head = {
            let mut live = self.live.lock().await;
            self.advance(&mut live).await?;
            live.number()
        };
        match keys::find(&self.store, key, head).await? {
            Some(found) => self.result(&found).await.map(Some),
            None => Ok(None),
        }
    }

    async fn result(&self, call: &KeyedCall) -> Result<Bytes, FleetError> {
        if call.size > MAX_RESULT_BYTES {
            let why = format!("it has more than {MAX_RESULT_BYTES} bytes");
            return Err(FleetError::invalid("the result of a call", why));
        }
        self.store.object(call.result, call.size).await
    }
}

impl OpenCall {
    /// Ends the call. If it has published a commit, what was published with it is returned; otherwise
    /// `result` is published, in a commit without changes. If another host was first, its result is
    /// returned.
    ///
    /// # Errors
    /// Those of the store: it is not known how the call has ended, so it has to be made again.
    pub async fn end(self, result: Vec<u8>) -> Result<Bytes, FleetError> {
        let replica = &self.replica;
        if replica.active.ended(&self.key).is_none() {
            let result = KeyedResult { key: self.key.clone(), result };
            match replica.publish_changes(Ours::default(), Vec::new(), Some(&result)).await {
                Ok(()) | Err(FleetError::Commit(CommitError::Repeated)) => {}
                Err(error) => return Err(error),
            }
        }
        match replica.active.ended(&self.key) {
            Some(Ended::Here(result)) => Ok(result),
            Some(Ended::Elsewhere(call)) => replica.result(&call).await,
            None => Err(FleetError::invalid("the result of a call", "it is gone")),
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.replica.active.remove(&self.key);
    }
}

impl Upstream for Replica {
    fn refresh(&self, only_reads: bool) -> Refresh<'_> {
        let patience = if only_reads { READ_PATIENCE } else { LOCK_TIMEOUT };
        Box::pin(async move {
            match self.bring_up_to_date(patience).await {
                Err(FleetError::Begin(BeginError::Busy(_))) if only_reads => Ok(false),
                ended => ended.map_err(not_published),
            }
        })
    }

    fn publish(
        &self,
        commit: &Commit,
        tree: &Arc<Overlay>,
        result: Option<&KeyedResult>,
    ) -> Result<(), CommitError> {
        self.runtime.block_on(self.publish_commit(commit, tree, result)).map_err(not_published)
    }

    fn set_unreliable(&self) {
        self.is_unreliable.store(true, Ordering::Release);
    }
}
