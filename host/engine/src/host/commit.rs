//! Beginning and committing transactions, and pruning the history.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Host;
use super::context::RunOptions;
use super::ended::{Ended, discard, staged};
use crate::dispatch::{self, Refusal, RefusalCode};
use crate::runtime::blocking;
use cofferdam_core::outcome::{FailedCode, Failure};
use cofferdam_workspace::{
    Author, BeginError, HeldChanges, History, KeyedResult, Overlay, Purpose, Transaction,
};

/// The number of commits between two prunings of the history.
const COMMITS_PER_PRUNING: u64 = 64;

impl Host {
    /// Begins a transaction. Logs a warning if it first finished an interrupted commit.
    pub(super) async fn begin(
        &self,
        options: &RunOptions,
        patience: Duration,
    ) -> Result<Transaction, BeginError> {
        let workspace = &self.services.workspace;
        let begun = Transaction::begin_for(workspace, options.client, patience);
        let (mut transaction, recovered) = begun.await?;
        if let Some(commit) = recovered {
            tracing::warn!("finished the commit {}, which was interrupted", commit.id);
        }
        if !workspace.may_have_proposals() {
            return Ok(transaction);
        }
        let session = options.session.clone();
        let stacked = blocking(move || {
            transaction.stack(session.name())?;
            Ok::<_, io::Error>(transaction)
        });
        Ok(stacked.await?)
    }

    /// Takes over what other hosts have committed, if the workspace is a copy of a store.
    pub(super) async fn refresh(&self, only_reads: bool) -> Result<(), Refusal> {
        let Some(upstream) = self.services.workspace.upstream() else { return Ok(()) };
        let has_changed = upstream.refresh(only_reads).await.map_err(|error| {
            let expected = "a workspace that is up to date";
            Refusal::whole(RefusalCode::WorkspaceError, expected, error.to_string())
        })?;
        if has_changed {
            self.prune().await;
        }
        Ok(())
    }

    /// Removes old commits from the history, each time that there were some new ones.
    async fn prune(&self) {
        if !self.shared.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(COMMITS_PER_PRUNING)
        {
            return;
        }
        let history = History::new(Arc::clone(&self.services.workspace));
        let retention = *self.policy.retention();
        if let Err(error) = blocking(move || history.prune(&retention)).await {
            tracing::warn!("old commits could not be removed: {error}");
        }
    }

    /// The tree that the calls of a session read: with what is held for it.
    pub(super) async fn tree(&self, options: &RunOptions) -> Result<Arc<Overlay>, Failure> {
        let workspace = Arc::clone(&self.services.workspace);
        if !workspace.may_have_proposals() {
            return Ok(Arc::clone(workspace.plain()));
        }
        let session = options.session.clone();
        let held = blocking(move || {
            let held = workspace.held_tree(session.name())?;
            Ok::<_, io::Error>(held.unwrap_or_else(|| Arc::clone(workspace.plain())))
        });
        held.await.map_err(|error| {
            let message = format!("what is held for this session can't be read: {error}");
            Failure::new(FailedCode::WorkspaceError, message)
        })
    }

    /// Holds the changes of a transaction until a user accepts them.
    pub(super) async fn hold(
        &self,
        transaction: Transaction,
        calls: Vec<String>,
        tools: Vec<String>,
        options: &RunOptions,
    ) -> Result<Option<HeldChanges>, Failure> {
        let author = Author {
            session: options.session.name().clone(),
            client: options.client_name.clone(),
            role: options.role.clone(),
            tools,
        };
        let held = blocking(move || transaction.hold(calls, author)).await;
        held.map_err(|error| dispatch::not_committed(&error))
    }

    /// Holds the staged changes of calls. Returns the proposal; `None` if there are no changes. If that
    /// fails, the calls fail.
    pub(super) async fn hold_staged(
        &self,
        transaction: Transaction,
        ended: &mut [Ended],
        options: &RunOptions,
    ) -> Result<Option<String>, Failure> {
        let of = ended.iter().filter(|ended| ended.is_staged);
        let tools = of.map(|ended| ended.tool.qualified_name().to_string()).collect();
        let calls = staged(ended).map(|(_, record)| record.call.clone()).collect();
        let held = self.hold(transaction, calls, tools, options).await;
        let Some(held) = held.inspect_err(|failure| discard(ended, failure))? else {
            return Ok(None);
        };
        let (proposal, notice) = (held.proposal.to_string(), self.held_notice(&held));
        staged(ended).for_each(|(answer, record)| {
            record.proposal = Some(proposal.clone());
            answer.warnings.push(notice.clone());
        });
        Ok(Some(proposal))
    }

    /// Commits a transaction. Returns the commit's id; `None` if there are no changes.
    pub(super) async fn commit(
        &self,
        transaction: Transaction,
        purpose: Purpose,
    ) -> Result<Option<String>, Failure> {
        let is_copy = self.services.workspace.upstream().is_some();
        let is_brief = transaction.change_count() <= 1 && !is_copy;
        let commit = move || transaction.commit(purpose);
        let committed = match is_brief {
            true => self.shared.workers.brief(commit).await,
            false => blocking(commit).await,
        };
        let commit = committed.map_err(|error| dispatch::not_committed(&error))?;
        let Some(commit) = commit else { return Ok(None) };
        self.prune().await;
        Ok(Some(commit.id.to_string()))
    }

    /// Commits the staged changes of calls; `result` is published with them. If that fails, the calls fail.
    pub(super) async fn commit_staged(
        &self,
        transaction: Transaction,
        ended: &mut [Ended],
        result: Option<KeyedResult>,
    ) -> Result<Option<String>, Failure> {
        let calls = staged(ended).map(|(_, record)| record.call.clone()).collect();
        let purpose = Purpose { result, ..Purpose::of(calls) };
        let commit = self.commit(transaction, purpose).await;
        let commit = commit.inspect_err(|failure| discard(ended, failure))?;
        staged(ended).for_each(|(_, record)| record.commit.clone_from(&commit));
        Ok(commit)
    }

    /// What the caller is told of changes that are held.
    pub(super) fn held_notice(&self, held: &HeldChanges) -> String {
        let HeldChanges { proposal, revision, changes } = held;
        let console = match self.services.workspace.console_link(&proposal.to_string()) {
            Some(link) => format!("in the open console ({link})"),
            None => "on `cofferdam console`".to_owned(),
        };
        format!(
            "held: these changes are not in the workspace yet. They are in the proposal {proposal} \
             (revision {revision}, changes in all: {changes}), which a user has to accept with `cofferdam \
             review` or {console}. Later calls of this session see them."
        )
    }
}
