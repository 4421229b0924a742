//! Where transactions are kept in the host's own directory: `staging` contains what the current one
//! has staged, `history` the files of commits, and `images` the old files of commits and copies of
//! new ones. A name in `staging` and `images` begins with its transaction's id.
//!
//! All transactions share these directories: creating one costs a file system more than a small
//! commit.
//!
//! # What is removed
//!
//! Staged files, only if there is no commit file: it gets its name before the first change is made,
//! so without one no file of the workspace is in `staging`. If there is one that can't be read,
//! nothing is removed.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, FlockOperation};
use rustix::io::Errno;

use crate::apply::{finish, write_commit_file};
use crate::commit::Commit;
use crate::commit_file::{self, StoredCommit};
use crate::disk::{self, Spot};
use crate::error::CommitError;
use crate::history_dirs::{latest_sequence, name_of};
use crate::layout::{COMMIT_FILE, HISTORY, IMAGES, NEW_COMMIT_FILE, STAGING};
use crate::own::{self, LOCK, Own};
use crate::seal::Key;
use crate::workspace::Workspace;

/// A commit that a process did not finish, and that no process works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedCommit {
    /// What was found, and what happens to it or what the user can do.
    pub message: String,
    /// Whether nothing can change the workspace before the user has decided.
    pub blocks: bool,
}

impl InterruptedCommit {
    /// Looks for an interrupted commit in the host's own directory. Changes nothing.
    pub(crate) fn find(own: &Own) -> io::Result<Option<Self>> {
        // While another process holds the lock, it is making or recovering the commit.
        let lock = own.open_file(LOCK)?;
        if let Some(lock) = &lock {
            match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked?,
            }
        }
        let Some(staging) = own::existing_directory(own, STAGING)? else { return Ok(None) };
        let next = "the next call that changes something, or `cofferdam undo`,";
        let (message, blocks) = match commit_file::read(&staging, COMMIT_FILE, own.key())? {
            StoredCommit::Missing => return Ok(None),
            StoredCommit::Foreign => (
                format!(
                    "{OWN}/{STAGING}/{COMMIT_FILE} is not one of this user's host for this \
                     workspace; {next} sets it aside"
                ),
                false,
            ),
            StoredCommit::Unreadable { changes: 1, reason } => (
                format!(
                    "a commit of one change was interrupted, and its file can't be read: {reason}; \
                     {next} sets it aside"
                ),
                false,
            ),
            StoredCommit::Unreadable { changes, reason } => {
                (stopped(changes, &reason).to_string(), true)
            }
            StoredCommit::Valid(commit) => (
                format!(
                    "the commit {} was interrupted (changes: {}); {next} finishes it",
                    commit.id,
                    commit.changes.len()
                ),
                false,
            ),
        };
        Ok(Some(Self { message, blocks }))
    }
}

/// The directories that a transaction needs, open.
pub(crate) struct Store {
    own: Arc<Own>,
    pub(crate) staging: Arc<OwnedFd>,
    images: OwnedFd,
    history: OwnedFd,
}

impl Store {
    /// Opens the directories; creates them if they are missing.
    pub(crate) fn open(own: Arc<Own>) -> io::Result<Self> {
        Ok(Self {
            staging: Arc::new(own::directory(&*own, STAGING)?),
            // Opened now, so that a commit can't fail because of them.
            images: own::directory(&*own, IMAGES)?,
            history: own::directory(&*own, HISTORY)?,
            own,
        })
    }

    /// The key that authenticates commit files.
    pub(crate) fn key(&self) -> &Key {
        self.own.key()
    }

    /// Finishes or removes what an interrupted transaction left. The caller holds the lock, so no
    /// other process uses it. Returns the commit that was finished.
    ///
    /// # Errors
    /// An interrupted commit that can't be read or finished; then nothing is removed.
    pub(crate) fn recover(&mut self, workspace: &Workspace) -> io::Result<Option<Commit>> {
        if disk::is_empty(&*self.staging)? {
            return Ok(None);
        }
        let mut commit = match commit_file::read(&self.staging, COMMIT_FILE, self.key())? {
            StoredCommit::Missing => {
                self.discard()?;
                return Ok(None);
            }
            StoredCommit::Foreign => {
                self.set_aside(
                    "its manifest.json is not one of this user's host for this workspace",
                )?;
                return Ok(None);
            }
            // A single change is one rename, which was made or not: there is nothing to finish.
            StoredCommit::Unreadable { changes: 1, reason } => {
                self.set_aside(&reason)?;
                return Ok(None);
            }
            StoredCommit::Unreadable { changes, reason } => return Err(stopped(changes, &reason)),
            StoredCommit::Valid(commit) => *commit,
        };
        // The process may have died while it moved the images to the history.
        for image in commit.images() {
            move_if_exists(&self.images, &image, &self.staging)?;
        }
        let conflicts = finish(workspace.disk(), &self.staging, &commit)
            .map_err(|error| unfinished(&commit, &error))?;
        if !conflicts.is_empty() {
            commit.leave_out(&conflicts);
            self.write_again(&commit)?;
        }
        workspace.record(&commit, true);
        self.keep(&commit, false)?;
        Ok(Some(commit))
    }

    fn write_again(&self, commit: &Commit) -> io::Result<()> {
        disk::remove(&self.staging, NEW_COMMIT_FILE, AtFlags::empty())?;
        commit_file::encode(commit, self.key())
            .and_then(|encoded| write_commit_file(&self.staging, &encoded, true, || Ok(())))
            .map_err(|error| unfinished(commit, &error))
    }

    /// Sets aside everything that is staged, which may include files that a commit has replaced.
    fn set_aside(&mut self, reason: &str) -> io::Result<()> {
        let place = own::set_aside(&self.own, &*self.own, STAGING)?;
        tracing::warn!(
            "{OWN}/{STAGING} held a commit that can't be finished: {reason}. It is kept in {place}, \
             where files may be that the commit had replaced; look at it, and remove it if you need \
             nothing of it"
        );
        self.staging = Arc::new(own::directory(&*self.own, STAGING)?);
        Ok(())
    }

    /// Gives a commit the next sequence number. The caller holds the lock.
    pub(crate) fn number(&self, workspace: &Workspace, commit: &mut Commit) -> io::Result<()> {
        let known = workspace.latest.load(Ordering::Relaxed);
        let modified = disk::modified(&rustix::fs::fstat(&self.history)?);
        let latest = if known > 0 && modified == time_of(known) {
            known
        } else {
            latest_sequence(&self.history, self.key())?.max(known)
        };
        commit.sequence = latest + 1;
        Ok(())
    }

    /// Moves a commit whose changes were made to the history. `is_tidy`: nothing was staged except
    /// what the commit placed.
    pub(crate) fn keep(&self, commit: &Commit, is_tidy: bool) -> io::Result<()> {
        for image in commit.images() {
            move_if_exists(&self.staging, &image, &self.images)?;
        }
        // With this rename, the commit is part of the history.
        let name = name_of(commit, self.key());
        disk::rename(&self.staging, COMMIT_FILE, &self.history, &name)?;
        if is_tidy { Ok(()) } else { self.discard() }
    }

    /// Notes that a commit of this process was the latest one, by the modification time of the
    /// history: a process that changes the history changes the time, too. While the time is the
    /// same, the history need not be listed.
    pub(crate) fn note(&self, workspace: &Workspace, commit: &Commit) {
        workspace.latest.store(commit.sequence, Ordering::Relaxed);
        let here = Spot::of(&self.history, ".");
        // If this fails, the history is listed the next time.
        let _ = here.and_then(|here| disk::set_modified(&here, time_of(commit.sequence)));
    }

    /// Removes everything that is staged.
    pub(crate) fn discard(&self) -> io::Result<()> {
        disk::remove_all_in(self.staging.as_fd())
    }
}

/// Returns the modification time of a history whose latest commit has this number, in nanoseconds
/// since the epoch.
fn time_of(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(0)
}

/// The error for an interrupted commit of several changes that can't be read.
fn stopped(changes: usize, reason: &str) -> io::Error {
    io::Error::other(format!(
        "a commit of {changes} changes was interrupted, and {OWN}/{STAGING}/{COMMIT_FILE}, which says \
         how to finish it, can't be read: {reason}. Some of the changes may be made. Nothing was \
         removed: what the commit had replaced is in {OWN}/{STAGING}, and {COMMIT_FILE} there names \
         each file's path. Keep a copy of that directory and put back what you need; to go on without \
         finishing the commit, move the directory away: mv {OWN}/{STAGING} {OWN}/interrupted"
    ))
}

fn unfinished(commit: &Commit, error: &CommitError) -> io::Error {
    io::Error::other(format!(
        "the commit {}, which was interrupted, can't be finished yet: {error}. Nothing was \
         reverted or removed, and the next call that changes something tries again",
        commit.id
    ))
}

fn move_if_exists(from: &OwnedFd, name: &str, to: &OwnedFd) -> io::Result<()> {
    match disk::rename(from, name, to, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}
