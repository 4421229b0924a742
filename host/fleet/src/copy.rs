//! What a copy of a workspace on a host of a fleet consists of.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use cofferdam_workspace::Workspace;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::keys::Active;
use crate::live::Live;
use crate::local::Kept;
use crate::store::Store;

/// The largest result of a call with a key, in bytes.
pub const MAX_RESULT_BYTES: u64 = 4 << 20;

/// A copy of a workspace, with its store.
pub struct Replica {
    pub(crate) workspace: Weak<Workspace>,
    pub(crate) store: Store,
    /// Locked while commits are created or read; the lock of the workspace is taken before it, never
    /// after it.
    pub(crate) live: Arc<Mutex<Live>>,
    /// Whether the disk has to be compared with `live`.
    pub(crate) is_unreliable: AtomicBool,
    pub(crate) active: Active,
    /// Runs what waits for the store.
    pub(crate) runtime: Handle,
    /// Keeps other processes away from the copy.
    pub(crate) kept: Mutex<Kept>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("store", &self.store.name()).finish_non_exhaustive()
    }
}
