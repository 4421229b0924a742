//! The store that a workspace is a copy of, on the hosts of a fleet: a commit counts once it is published
//! there, and is applied here afterwards.

use std::pin::Pin;
use std::sync::Arc;

use crate::commit::Commit;
use crate::error::CommitError;
use crate::overlay::Overlay;

/// What is published with the changes of a call that has a key: it is made once, however often it is
/// delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedResult {
    /// The key of the call, which the caller has chosen.
    pub key: String,
    /// What the caller is told.
    pub result: Vec<u8>,
}

/// A refresh that is under way. It returns whether there was something to take over, as a commit.
pub type Refresh<'a> = Pin<Box<dyn Future<Output = Result<bool, CommitError>> + Send + 'a>>;

/// The store that a workspace is a copy of.
pub trait Upstream: Send + Sync {
    /// Takes over what other hosts have committed. It is called before calls are made, without the lock
    /// of the workspace. If the calls only read, it does not wait for a long one that is changing the
    /// workspace: they read the workspace as it is.
    fn refresh(&self, only_reads: bool) -> Refresh<'_>;

    /// Publishes a commit, and returns when it is permanent. `tree` is the workspace with its changes,
    /// which are not applied yet. It is called with the lock of the workspace, on a thread that may wait.
    ///
    /// # Errors
    /// [`CommitError::Conflict`], [`CommitError::Repeated`], [`CommitError::NotPublished`]: the commit is
    /// not made. [`CommitError::InDoubt`].
    fn publish(
        &self,
        commit: &Commit,
        tree: &Arc<Overlay>,
        result: Option<&KeyedResult>,
    ) -> Result<(), CommitError>;

    /// Notes that a published commit could not be applied here: this copy has to be compared with the
    /// store before it is used again.
    fn set_unreliable(&self);
}
