//! Beginning and committing transactions, and pruning the history.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Host;
use super::ended::{Ended, discard, staged};
use crate::dispatch;
use crate::runtime::blocking;
use cofferdam_core::outcome::Failure;
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{BeginError, History, Purpose, Transaction};

/// The number of commits between two prunings of the history.
const COMMITS_PER_PRUNING: u64 = 64;

impl Host {
    /// Begins a transaction. Logs a warning if it first finished an interrupted commit.
    pub(super) async fn begin(
        &self,
        client: Client,
        patience: Duration,
    ) -> Result<Transaction, BeginError> {
        let begun = Transaction::begin_for(&self.services.workspace, client, patience);
        let (transaction, recovered) = begun.await?;
        if let Some(commit) = recovered {
            tracing::warn!("finished the commit {}, which was interrupted", commit.id);
        }
        Ok(transaction)
    }

    /// Commits a transaction. Returns the commit's id; `None` if there are no changes.
    pub(super) async fn commit(
        &self,
        transaction: Transaction,
        calls: Vec<String>,
    ) -> Result<Option<String>, Failure> {
        let is_brief = transaction.change_count() <= 1;
        let commit = move || transaction.commit(Purpose::of(calls));
        let committed = match is_brief {
            true => self.shared.workers.brief(commit).await,
            false => blocking(commit).await,
        };
        let commit = committed.map_err(|error| dispatch::not_committed(&error))?;
        let Some(commit) = commit else { return Ok(None) };
        if self.shared.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(COMMITS_PER_PRUNING) {
            let history = History::new(Arc::clone(&self.services.workspace));
            let retention = *self.policy.retention();
            if let Err(error) = blocking(move || history.prune(&retention)).await {
                tracing::warn!("old commits could not be removed: {error}");
            }
        }
        Ok(Some(commit.id.to_string()))
    }

    /// Commits the staged changes of calls. If that fails, the calls fail.
    pub(super) async fn commit_staged(
        &self,
        transaction: Transaction,
        ended: &mut [Ended],
    ) -> Result<Option<String>, Failure> {
        let calls = staged(ended).map(|(_, record)| record.call.clone()).collect();
        let commit = self.commit(transaction, calls).await;
        let commit = commit.inspect_err(|failure| discard(ended, failure))?;
        staged(ended).for_each(|(_, record)| record.commit.clone_from(&commit));
        Ok(commit)
    }
}
