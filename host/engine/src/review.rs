//! Decisions of a user about proposals and commits: carried out, and recorded in the journal. What the
//! command and the console share; each of them shows what is decided about.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::journal::{DecisionRecord, Entry, Event, Journal};
use crate::runtime::blocking;
use cofferdam_workspace::{
    BeginError, Commit, Decided, Decision, History, HistoryError, ReviewError, Reviews,
    Transaction, Workspace,
};

/// How long to wait for the workspace's lock while other processes change it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries out decisions of a user about one workspace.
pub struct Reviewer {
    workspace: Arc<Workspace>,
    journal: Arc<Journal>,
}

/// A decision that was not carried out. Then nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// Other processes change the workspace for too long, or it can't be changed.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// A decision about a proposal.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// An undo.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl Reviewer {
    /// Creates a reviewer; nothing is opened yet.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        let journal = Arc::new(Journal::new(Arc::clone(&workspace)));
        journal.record_commits();
        Self { workspace, journal }
    }

    /// The workspace.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The journal of the workspace.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Carries out a decision about a proposal, and records it.
    ///
    /// # Errors
    /// [`DecideError::Begin`], [`DecideError::Review`].
    pub fn decide(&self, decision: Decision) -> BoxFuture<'static, Result<Decided, DecideError>> {
        let (workspace, journal) = (Arc::clone(&self.workspace), Arc::clone(&self.journal));
        async move {
            let (transaction, _) = Transaction::begin(&workspace, LOCK_TIMEOUT).await?;
            blocking(move || {
                let decided = Reviews::new(workspace).decide(transaction, &decision)?;
                for record in DecisionRecord::of_review(&decided, &decision) {
                    journal.append(&Entry::Event(Event::decided(Event::REVIEW, record)));
                }
                Ok(decided)
            })
            .await
        }
        .boxed()
    }

    /// Undoes a commit, named by the beginning of its id, or the latest one. Returns both commits, as
    /// [`History::undo`] does.
    ///
    /// # Errors
    /// [`DecideError::Begin`], [`DecideError::History`].
    pub fn undo(
        &self,
        id: Option<String>,
    ) -> BoxFuture<'static, Result<(Commit, Option<Commit>), DecideError>> {
        let workspace = Arc::clone(&self.workspace);
        async move {
            let (transaction, _) = Transaction::begin(&workspace, LOCK_TIMEOUT).await?;
            blocking(move || Ok(History::new(workspace).undo(transaction, id.as_deref())?)).await
        }
        .boxed()
    }
}
