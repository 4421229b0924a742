//! One transaction: staged changes that become one commit, or nothing.
//!
//! The protocol, in `.cofferdam/staging`:
//!
//! 1. The workspace is locked, and a commit that another process left unfinished is finished.
//! 2. Every new file is staged there and synced, then the commit's file (`manifest.json`) is written
//!    and synced, under a temporary name.
//! 3. Everything to be changed is compared with what was seen; then the commit's file gets its name:
//!    this is **the commit**. One whose file could not be read again is refused before that.
//! 4. Each change is one rename or exchange, and the file that it replaced is checked. If a change
//!    fails, all are reverted.
//! 5. The commit is recorded. The old files, which are in the staging directory now, move to the
//!    history, and last the commit's file.
//!
//! A commit of one change is atomic without a durable commit file: it is one rename. It syncs only
//! the new file, as careful programs do.
//!
//! Recovery finds no commit file and removes the staged files, or finds one and continues with step
//! 4. The staged files tell whether a change was made, so recovery can be interrupted as well. It
//! reverts nothing, and a commit file that it can't read stops it: see [`crate::store`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_core::outcome::RefusalCode;
use cofferdam_core::policy::OWN;
use rustix::fs::FlockOperation;

use crate::apply::{apply_all, write_commit_file};
use crate::commit::{Accepted, Commit, CommitId, Image};
use crate::content::{self, Content, Preview};
use crate::disk::{self, LockedFile};

use crate::error::{CommitError, is_full};
use crate::fair_queue::{Client, Permit};
use crate::layout::{COMMIT_FILE, RUNS};
use crate::overlay::{ExecutedFile, Overlay, Savepoint, Staging};
use crate::plan::plan;
use crate::stacked::Stacked;
use crate::store::Store;
use crate::sync_staged::sync_staged;
use crate::upstream::KeyedResult;
use crate::workspace::Workspace;
use crate::{commit_file, own, run_dir, write_queue};

/// The time between two attempts to lock the workspace.
const RETRY: Duration = Duration::from_millis(1);

/// Staged changes, with the workspace locked for them.
pub struct Transaction {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) id: CommitId,
    store: Store,
    /// The proposal that it is based on.
    pub(crate) stacked: Option<Stacked>,
    /// Whether the staged files belong to the history now, or to recovery.
    is_handed_over: bool,
    /// Unlocks when it is closed.
    _lock: LockedFile,
    /// Released after the lock. `None` in tests, which don't wait for it.
    _permit: Option<Permit>,
}

/// A workspace that this process has locked.
struct Locked {
    store: Store,
    /// The directory of the runs of native programs, if it exists.
    runs: Option<OwnedFd>,
    lock: LockedFile,
}

impl Locked {
    /// Locks a workspace. Returns `None` if another process has locked it.
    fn try_new(workspace: &Workspace) -> io::Result<Option<Self>> {
        let own = workspace.own()?;
        let how = FlockOperation::NonBlockingLockExclusive;
        let Some(lock) = LockedFile::new(own::lock(&own)?, how)? else { return Ok(None) };
        // Another process may have set the lock file aside before it was locked.
        if !own::is_lock(&own, lock.file())? {
            return Ok(None);
        }
        let runs = own::existing_directory(&own, RUNS)?;
        Ok(Some(Self { store: Store::open(own)?, runs, lock }))
    }

    /// Whether no process has left anything to recover or remove.
    fn is_clean(&self) -> io::Result<bool> {
        Ok(disk::is_empty(&*self.store.staging)?
            && self.runs.as_ref().map_or(Ok(true), disk::is_empty)?)
    }
}

/// Why a transaction was not begun.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Another process or call has one.
    #[error(
        "another process or call has been changing the workspace for {:.1} s; only one can change \
         it at a time",
        .0.as_secs_f32()
    )]
    Busy(Duration),
    /// I/O error before or during recovery.
    #[error("the workspace can't be changed: {0}")]
    Io(#[from] io::Error),
}

impl From<&BeginError> for RefusalCode {
    fn from(error: &BeginError) -> Self {
        match error {
            BeginError::Busy(_) => Self::WorkspaceBusy,
            BeginError::Io(error) if is_full(error) => Self::DiskFull,
            BeginError::Io(_) => Self::WorkspaceError,
        }
    }
}

/// Why a commit is made.
#[derive(Debug, Default)]
pub struct Purpose {
    /// The calls whose changes it contains.
    pub calls: Vec<String>,
    /// The proposal of which it applies something.
    pub accepts: Option<Accepted>,
    /// What is published with it, if the workspace is a copy of a store.
    pub result: Option<KeyedResult>,
    /// Whether it is what the store has already.
    pub from_store: bool,
}

impl Purpose {
    /// The purpose of a commit that contains the changes of calls.
    pub fn of(calls: Vec<String>) -> Self {
        Self { calls, ..Self::default() }
    }
}

impl Transaction {
    /// Begins a transaction, after recovery of a commit that another process left unfinished, which
    /// is returned as well. Waits for at most `patience` while another process has a transaction;
    /// needs a tokio runtime.
    ///
    /// # Errors
    /// A workspace that can't be written, whose recovery fails, or that is locked for too long.
    pub async fn begin(
        workspace: &Arc<Workspace>,
        patience: Duration,
    ) -> Result<(Self, Option<Commit>), BeginError> {
        Self::begin_for(workspace, Client::default(), patience).await
    }

    /// Begins a transaction for one of several clients of this process, which take turns. `patience`
    /// limits the duration of each transaction before this one.
    ///
    /// # Errors
    /// As for [`Transaction::begin`].
    pub async fn begin_for(
        workspace: &Arc<Workspace>,
        client: Client,
        patience: Duration,
    ) -> Result<(Self, Option<Commit>), BeginError> {
        let permit = write_queue::acquire(&workspace.writers, client, patience).await;
        let permit = permit.ok_or(BeginError::Busy(patience))?;
        let deadline = Instant::now() + patience;
        let locked = loop {
            match Locked::try_new(workspace)? {
                Some(locked) => break locked,
                None if Instant::now() >= deadline => return Err(BeginError::Busy(patience)),
                None => tokio::time::sleep(RETRY).await,
            }
        };
        let (mut transaction, recovered) = if locked.is_clean()? {
            (Self::new(workspace, locked), None)
        } else {
            let workspace = Arc::clone(workspace);
            let recovered =
                tokio::task::spawn_blocking(move || Self::after_recovery(&workspace, locked));
            recovered.await.map_err(io::Error::from)??
        };
        transaction._permit = Some(permit);
        Ok((transaction, recovered))
    }

    /// Begins a transaction on this thread, unless another process has one.
    #[cfg(test)]
    pub(crate) fn try_begin(
        workspace: &Arc<Workspace>,
    ) -> io::Result<Option<(Self, Option<Commit>)>> {
        let locked = Locked::try_new(workspace)?;
        locked.map(|locked| Self::after_recovery(workspace, locked)).transpose()
    }

    fn after_recovery(
        workspace: &Arc<Workspace>,
        mut locked: Locked,
    ) -> io::Result<(Self, Option<Commit>)> {
        let recovered = locked.store.recover(workspace)?;
        if let Some(runs) = &locked.runs {
            run_dir::sweep(runs);
        }
        Ok((Self::new(workspace, locked), recovered))
    }

    fn new(workspace: &Arc<Workspace>, Locked { store, lock, .. }: Locked) -> Self {
        let id = CommitId::new();
        let staging = Arc::clone(&store.staging);
        let make = move || Staging::new(Arc::clone(&staging), None);
        let overlay = Overlay::changing(Arc::clone(workspace.disk()), id.to_string(), make)
            .at(workspace.path().to_owned());
        let (workspace, overlay) = (Arc::clone(workspace), Arc::new(overlay));
        Self {
            workspace,
            overlay,
            id,
            store,
            stacked: None,
            is_handed_over: false,
            _lock: lock,
            _permit: None,
        }
    }

    /// The workspace with the changes on top.
    pub fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// Returns how many places differ from the disk.
    pub fn change_count(&self) -> usize {
        self.overlay.change_count()
    }

    /// Returns a savepoint, to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        self.overlay.savepoint()
    }

    /// Discards all changes since the savepoint.
    pub fn roll_back(&self, savepoint: Savepoint) {
        self.overlay.roll_back(savepoint);
    }

    /// Returns the files written since the savepoint (without one: all of the transaction) that
    /// other programs execute by their names.
    pub fn executed(&self, since: Option<&Savepoint>) -> Vec<ExecutedFile> {
        self.overlay.executed(since)
    }

    /// Returns the changes as a unified diff.
    ///
    /// # Errors
    /// As for [`Transaction::preview`].
    pub fn diff(&self) -> Result<Vec<u8>, CommitError> {
        self.preview().map(|preview| preview.diff)
    }

    /// Returns the changes, to be shown and to be compared later.
    ///
    /// # Errors
    /// Files that can't be read; conflicts with changes by other processes.
    pub fn preview(&self) -> Result<Preview, CommitError> {
        let io = |source| CommitError::Io { place: "the diff".to_owned(), source };
        // The user takes a while to decide about what is shown.
        self.overlay.forget_listing();
        let (changes, _) = plan(&self.overlay)?;
        let read_new = |_: Option<&Image>, image: &Image| {
            Content::read(self.overlay.stage()?, &image.name, image)
        };
        let read_old = |path: &str, image: &Image| Content::read(self.overlay.disk(), path, image);
        content::preview(&changes, read_old, read_new).map_err(io)
    }

    /// Commits all changes, or none of them. Returns `None` if there are no changes.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn commit(mut self, purpose: Purpose) -> Result<Option<Commit>, CommitError> {
        self.commit_locked(purpose)
    }

    /// As [`Transaction::commit`]; the workspace stays locked until the transaction is dropped.
    pub(crate) fn commit_locked(
        &mut self,
        purpose: Purpose,
    ) -> Result<Option<Commit>, CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let (mut changes, mut directories) = plan(&self.overlay)?;
        if changes.is_empty() {
            return Ok(None);
        }
        if let Some((place, why)) =
            self.overlay.refused(changes.iter().map(|change| change.path.as_str()))
        {
            return Err(CommitError::Protected { place, why });
        }
        let stage = self.overlay.stage().map_err(own)?;
        sync_staged(self.overlay.disk(), stage, &mut changes)?;
        let undo = self.overlay.undo();
        for directory in &mut directories {
            let restored = undo.as_ref().and_then(|undo| undo.directories.get(&directory.path));
            directory.after = restored.copied().unwrap_or(directory.after);
        }
        let undoes = undo.map(|undo| undo.commit);
        let mut commit = Commit::new(self.id.clone(), purpose.calls, undoes, changes, directories);
        commit.accepts = purpose.accepts;
        let upstream = self.workspace.upstream().filter(|_| !purpose.from_store).cloned();
        self.store.number(&self.workspace, &mut commit).map_err(own)?;
        let encoded = commit_file::encode(&commit, self.store.key())?;
        if let Some(upstream) = &upstream {
            plan(&self.overlay)?;
            upstream.publish(&commit, &self.overlay, purpose.result.as_ref())?;
        }
        let applied = self.apply(&commit, &encoded);
        if let (Err(error), Some(upstream)) = (&applied, &upstream) {
            tracing::warn!("the commit {} is published, but not applied here: {error}", self.id);
            upstream.set_unreliable();
            return Ok(Some(commit));
        }
        applied?;
        self.workspace.record(&commit, false);
        let placed = commit.changes.iter().filter(|change| change.after.is_some()).count();
        let is_tidy = placed == self.overlay.staged_inodes();
        if let Err(error) = self.store.keep(&commit, is_tidy) {
            // The commit stays valid; recovery moves it to the history.
            tracing::warn!("the commit {} is not in the history yet: {error}", self.id);
        }
        self.store.note(&self.workspace, &commit);
        Ok(Some(commit))
    }

    /// Writes the file of a commit, and applies the commit.
    fn apply(&mut self, commit: &Commit, encoded: &[u8]) -> Result<(), CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let stage = self.overlay.stage().map_err(own)?;
        let is_durable = commit.changes.len() > 1;
        // The last check before there is something to revert.
        write_commit_file(stage, encoded, is_durable, || plan(&self.overlay).map(drop))?;
        let applied = apply_all(self.overlay.disk(), stage, commit);
        // As long as the commit's file exists, recovery needs the staged files.
        self.is_handed_over =
            applied.is_ok() || !matches!(disk::look(stage, COMMIT_FILE), Ok(None));
        applied
    }
}

impl Drop for Transaction {
    /// Removes the staged files, unless they were committed.
    fn drop(&mut self) {
        self.overlay.close();
        if !self.overlay.is_staged() || self.is_handed_over {
            return;
        }
        if let Err(error) = self.store.discard() {
            tracing::warn!("the staging of {} is left for recovery: {error}", self.id);
        }
    }
}
