//! One transaction: staged changes that become one commit, or nothing.
//!
//! The protocol, in `.cofferdam/staging`:
//!
//! 1. The workspace is locked, and what another process left unfinished is finished.
//! 2. Every new file is staged there; all are synced, then the manifest is.
//! 3. What is to be changed is looked at again; then the manifest gets its name: **the commit**. One
//!    that could not be read again is refused before that.
//! 4. Each change is one rename or exchange, and what comes out is looked at. A change that
//!    can't be made takes all of them back.
//! 5. The commit is recorded. What was there before, which is in the staging directory by now, moves
//!    to the history, and at last the manifest.
//!
//! A commit of one change needs no manifest on the disk to be whole: its rename is. It syncs the
//! new file only, as careful programs do.
//!
//! Recovery finds no manifest and removes what was staged, or finds one and goes on at 4. Whether a
//! change was made is seen by what is staged, so recovery may die as well. It takes nothing back, and
//! a manifest that it can't read stops it: see [`super::store`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use sha2::{Digest as _, Sha256};

use super::apply::{carry_out, write_manifest};
use super::disk::Spot;
use super::history::Content;
use super::manifest::{FILE, Image, Kind, Manifest, net};
use super::overlay::{Overlay, Savepoint, Staging};
use super::plan::plan;
use super::settle::settle;
use super::store::Store;
use super::{DIFF_TIME, ExecutedFile, Workspace, diff, disk, outside, own, sealed, stamp, writers};
use crate::line::{Client, Turn};

/// How much of a file is read at a time for its digest, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// How often a locked workspace is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// Staged changes, with the workspace locked for them.
pub struct Transaction {
    workspace: Arc<Workspace>,
    overlay: Arc<Overlay>,
    id: String,
    store: Store,
    /// Whether the staging is the history's by now, or recovery's.
    is_handed_over: bool,
    /// Unlocks when it is closed.
    _lock: OwnedFd,
    /// Ends when the lock is open. None where it was not waited for.
    _turn: Option<Turn>,
}

/// A workspace that nobody else changes now.
struct Locked {
    store: Store,
    /// What programs work in.
    runs: Option<OwnedFd>,
    /// Unlocks when it is closed.
    lock: OwnedFd,
}

impl Locked {
    /// Locks a workspace; none where somebody else has.
    fn try_new(workspace: &Workspace) -> io::Result<Option<Self>> {
        let own = workspace.own()?;
        let lock = own.lock_file()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        // It may have been set aside before it was locked.
        if !own::is_lock(&own, &lock)? {
            return Ok(None);
        }
        let runs = own::existing_directory(&own, outside::DIRECTORY)?;
        Ok(Some(Self { store: Store::open(own)?, runs, lock }))
    }

    /// Whether nothing is left of anybody.
    fn is_clean(&self) -> io::Result<bool> {
        Ok(disk::is_empty(&*self.store.staging)?
            && self.runs.as_ref().map_or(Ok(true), disk::is_empty)?)
    }
}

/// Why a transaction was not begun.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Somebody else has one.
    #[error(
        "somebody else has been changing the workspace for {:.1} s; one changes it at a time",
        .0.as_secs_f32()
    )]
    Busy(Duration),
    /// The system said no.
    #[error("the workspace can't be changed: {0}")]
    Io(#[from] io::Error),
}

impl BeginError {
    /// The error's stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy(_) => "WorkspaceBusy",
            Self::Io(error) if super::is_full(error) => super::FULL,
            Self::Io(_) => "WorkspaceError",
        }
    }
}

/// Why a transaction was not committed. But for [`CommitError::Unfinished`], the workspace is as
/// it was.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed what the transaction has read or wanted to change.
    #[error("changed by somebody else meanwhile: {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// A place that no call may change.
    #[error("{place} is protected: {why}")]
    Protected {
        /// Where.
        place: String,
        /// Which rule says so.
        why: String,
    },
    /// The system said no.
    #[error("{place}: {source}")]
    Io {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// What it changes can't be written down so that a host could read it again.
    #[error(
        "a commit of {changes} changes would need more than the {} MiB that can be written down of \
         one; make the changes in several parts",
        .most >> 20
    )]
    TooLarge {
        /// How many changes it has.
        changes: usize,
        /// How much can be written down, in bytes.
        most: usize,
    },
    /// The system said no, and again when what was done by then should have been taken back.
    #[error(
        "{place}: {source}; the commit is half done, and the next call that changes something \
         finishes it"
    )]
    Unfinished {
        /// Where.
        place: String,
        /// Why it could not be taken back.
        source: io::Error,
    },
}

/// What a commit is told about itself.
#[derive(Debug, Default)]
pub struct Purpose {
    /// The calls whose changes it holds.
    pub calls: Vec<String>,
    /// The commit that it undoes.
    pub(super) undoes: Option<String>,
    /// The times that directories get, in nanoseconds since the epoch; others get the present.
    pub(super) directories: BTreeMap<String, i64>,
}

impl Purpose {
    /// The changes of calls.
    pub fn of(calls: Vec<String>) -> Self {
        Self { calls, ..Self::default() }
    }
}

impl Transaction {
    /// Begins a transaction, after recovering what another process left: that commit is answered
    /// as well. Waits within a tokio runtime while somebody else has one.
    ///
    /// # Errors
    /// A workspace that can't be written, whose recovery fails, or that is not free in time.
    pub async fn begin(
        workspace: &Arc<Workspace>,
        patience: Duration,
    ) -> Result<(Self, Option<Manifest>), BeginError> {
        Self::begin_for(workspace, Client::default(), patience).await
    }

    /// Begins a transaction for one of several clients of this process, which take turns: `patience`
    /// is how long a turn of another one may last.
    ///
    /// # Errors
    /// As of [`Transaction::begin`].
    pub async fn begin_for(
        workspace: &Arc<Workspace>,
        client: Client,
        patience: Duration,
    ) -> Result<(Self, Option<Manifest>), BeginError> {
        let turn = writers::turn(&workspace.writers, client, patience).await;
        let turn = turn.ok_or(BeginError::Busy(patience))?;
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
        transaction._turn = Some(turn);
        Ok((transaction, recovered))
    }

    /// Begins a transaction on this thread, if nobody else has one.
    #[cfg(test)]
    pub(super) fn try_begin(
        workspace: &Arc<Workspace>,
    ) -> io::Result<Option<(Self, Option<Manifest>)>> {
        let locked = Locked::try_new(workspace)?;
        locked.map(|locked| Self::after_recovery(workspace, locked)).transpose()
    }

    fn after_recovery(
        workspace: &Arc<Workspace>,
        mut locked: Locked,
    ) -> io::Result<(Self, Option<Manifest>)> {
        let recovered = locked.store.recover(workspace)?;
        if let Some(runs) = &locked.runs {
            outside::sweep(runs);
        }
        Ok((Self::new(workspace, locked), recovered))
    }

    fn new(workspace: &Arc<Workspace>, Locked { store, lock, .. }: Locked) -> Self {
        let id = stamp::new_id();
        let staging = Arc::clone(&store.staging);
        let make = move || Staging::new(Arc::clone(&staging), None);
        let overlay = Overlay::changing(Arc::clone(workspace.disk()), id.clone(), make)
            .at(workspace.path().to_owned());
        let (workspace, overlay) = (Arc::clone(workspace), Arc::new(overlay));
        Self { workspace, overlay, id, store, is_handed_over: false, _lock: lock, _turn: None }
    }

    /// The workspace with the changes.
    pub fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// A moment to go back to.
    pub fn savepoint(&self) -> Savepoint {
        self.overlay.savepoint()
    }

    /// Drops what was changed since.
    pub fn roll_back(&self, savepoint: Savepoint) {
        self.overlay.roll_back(savepoint);
    }

    /// What was written, since the savepoint if there is one, that other programs execute by its
    /// name.
    pub fn executed(&self, since: Option<&Savepoint>) -> Vec<ExecutedFile> {
        self.overlay.executed(since)
    }

    /// What would be committed, as a unified diff.
    ///
    /// # Errors
    /// Files that can't be read; changes by somebody else.
    pub fn diff(&self) -> Result<Vec<u8>, CommitError> {
        let (changes, _) = plan(&self.overlay)?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let io = |source| CommitError::Io { place: "the diff".to_owned(), source };
        let stage = self.overlay.stage().map_err(io)?;
        let deadline = Instant::now() + DIFF_TIME;
        let mut out = Vec::new();
        for (path, (before, after)) in net(&changes) {
            let nothing = || Ok(Content::Nothing);
            let before = before
                .map_or_else(nothing, |image| Content::read(self.overlay.disk(), path, image));
            let after =
                after.map_or_else(nothing, |image| Content::read(stage, &image.name, image));
            let (before, after) = (before.map_err(io)?, after.map_err(io)?);
            diff::render(path, before.side(), after.side(), deadline, &mut out);
        }
        Ok(out)
    }

    /// A SHA-256 of what would be committed: for each path, type, permissions and whole content,
    /// before and after. A diff shows less: that binary files differ, and of permissions whether the
    /// owner may execute a file.
    ///
    /// # Errors
    /// As [`Transaction::diff`].
    pub fn digest(&self) -> Result<[u8; 32], CommitError> {
        let (changes, _) = plan(&self.overlay)?;
        let mut digest = Sha256::new();
        if changes.is_empty() {
            return Ok(digest.finalize().into());
        }
        let io = |source| CommitError::Io { place: "the changes".to_owned(), source };
        let (disk, stage) = (self.overlay.disk(), self.overlay.stage().map_err(io)?);
        for (path, (before, after)) in net(&changes) {
            digest.update((path.len() as u64).to_le_bytes());
            digest.update(path);
            hash_image(&mut digest, disk, path, before).map_err(io)?;
            let name = after.map_or("", |image| &image.name);
            hash_image(&mut digest, stage, name, after).map_err(io)?;
        }
        Ok(digest.finalize().into())
    }

    /// Commits everything that was changed, or nothing. None where nothing was.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn commit(mut self, purpose: Purpose) -> Result<Option<Manifest>, CommitError> {
        let own = |source| CommitError::Io { place: super::OWN.to_owned(), source };
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
        settle(self.overlay.disk(), stage, &mut changes)?;
        for directory in &mut directories {
            directory.after =
                purpose.directories.get(&directory.path).copied().unwrap_or(directory.after);
        }
        let Purpose { calls, undoes, .. } = purpose;
        let mut manifest = Manifest::new(self.id.clone(), calls, undoes, changes, directories);
        self.store.number(&self.workspace, &mut manifest).map_err(own)?;
        let encoded = sealed::encode(&manifest, self.store.key())?;
        let is_durable = manifest.changes.len() > 1;
        // The last moment at which there is nothing to take back.
        write_manifest(stage, &encoded, is_durable, || plan(&self.overlay).map(drop))?;
        let carried_out = carry_out(self.overlay.disk(), stage, &manifest);
        // Where the manifest stays, what it says is not over.
        self.is_handed_over = carried_out.is_ok() || !matches!(disk::look(stage, FILE), Ok(None));
        carried_out?;
        self.workspace.record(&manifest, false);
        let placed = manifest.changes.iter().filter(|change| change.after.is_some()).count();
        let is_tidy = placed == self.overlay.staged_inodes();
        if let Err(error) = self.store.keep(&manifest, is_tidy) {
            // What was committed stays so; recovery moves it to the history.
            tracing::warn!("the commit {} is not in the history yet: {error}", self.id);
        }
        self.store.note(&self.workspace, &manifest);
        Ok(Some(manifest))
    }
}

/// Adds what is at a path to a digest; nothing is there without an image.
fn hash_image(
    digest: &mut Sha256,
    directory: &OwnedFd,
    name: &str,
    image: Option<&Image>,
) -> io::Result<()> {
    let Some(image) = image else {
        digest.update([0]);
        return Ok(());
    };
    let (kind, content): (u8, [u8; 32]) = match image.kind {
        Kind::File => {
            let mut file = File::from(disk::open(directory, name, OFlags::RDONLY)?);
            let (mut content, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
            loop {
                match file.read(&mut piece)? {
                    0 => break (1, content.finalize().into()),
                    read => content.update(&piece[..read]),
                }
            }
        }
        Kind::Link => (2, Sha256::digest(Spot::of(directory, name)?.read_link()?).into()),
        Kind::Directory => (3, [0; 32]),
        Kind::Other => (4, [0; 32]),
    };
    digest.update([kind]);
    digest.update((image.mode & 0o7777).to_le_bytes());
    digest.update(content);
    Ok(())
}

impl Drop for Transaction {
    /// Removes what was staged and not committed.
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
