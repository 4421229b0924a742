//! Where transactions lie in the host's own directory: `staging` has what the present one has
//! staged, `history` the manifests of those that are committed, and `images` what those found and
//! placed. A name in `staging` and `images` begins with its transaction's.
//!
//! All transactions share these directories: making one costs a file system more than a small
//! commit.
//!
//! # What is thrown away
//!
//! What is staged, only where there is no manifest: a manifest gets its name before the first change
//! is made, so nothing of the workspace is there then. Where there is one that can't be read, nothing
//! is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::AtFlags;

use super::apply::{TEMPORARY, finish, write_manifest};
use super::disk::Spot;
use super::manifest::{FILE, Manifest};
use super::sealed::{self, Found};
use super::{Key, OWN, Own, Workspace, disk, history, own};

/// Where a transaction is staged.
const STAGING: &str = "staging";

/// The directories that a transaction needs, open.
pub(super) struct Store {
    own: Arc<Own>,
    pub(super) staging: Arc<OwnedFd>,
    images: OwnedFd,
    history: OwnedFd,
}

impl Store {
    /// Opens the directories, made where they are missing.
    pub(super) fn open(own: Arc<Own>) -> io::Result<Self> {
        Ok(Self {
            staging: Arc::new(own.directory(STAGING)?),
            // Where a commit goes in the end is looked at before there is one.
            images: own.directory(history::IMAGES)?,
            history: own.directory(history::DIRECTORY)?,
            own,
        })
    }

    /// What authenticates manifests.
    pub(super) fn key(&self) -> &Key {
        self.own.key()
    }

    /// Finishes or removes what others left: the lock is held, so nobody is at work on it.
    ///
    /// # Errors
    /// A commit that was interrupted and can't be read or finished: everything stays then.
    pub(super) fn recover(&mut self, workspace: &Workspace) -> io::Result<Option<Manifest>> {
        if disk::is_empty(&*self.staging)? {
            return Ok(None);
        }
        let mut manifest = match sealed::read(&self.staging, FILE, self.key())? {
            Found::Nothing => {
                self.discard()?;
                return Ok(None);
            }
            Found::Foreign => {
                self.set_aside(
                    "its manifest.json is not one of this user's host for this workspace",
                )?;
                return Ok(None);
            }
            // One rename is whole or was not made, so there is nothing to finish.
            Found::Unreadable { changes: 1, reason } => {
                self.set_aside(&reason)?;
                return Ok(None);
            }
            Found::Unreadable { changes, reason } => return Err(stopped(changes, &reason)),
            Found::Whole(manifest) => *manifest,
        };
        // It may have been on its way to the history.
        for image in manifest.images() {
            move_if_there(&self.images, &image, &self.staging)?;
        }
        let conflicts = finish(workspace.disk(), &self.staging, &manifest)
            .map_err(|error| unfinished(&manifest, &error))?;
        if !conflicts.is_empty() {
            manifest.leave_out(&conflicts);
            self.write_again(&manifest)?;
        }
        workspace.record(&manifest, true);
        self.keep(&manifest, false)?;
        Ok(Some(manifest))
    }

    fn write_again(&self, manifest: &Manifest) -> io::Result<()> {
        disk::remove(&self.staging, TEMPORARY, AtFlags::empty())?;
        sealed::encode(manifest, self.key())
            .and_then(|encoded| write_manifest(&self.staging, &encoded, true, || Ok(())))
            .map_err(|error| unfinished(manifest, &error))
    }

    /// Moves everything that is staged out of the way: it may hold what a commit has replaced.
    fn set_aside(&mut self, reason: &str) -> io::Result<()> {
        let place = own::set_aside(&self.own, &*self.own, STAGING)?;
        tracing::warn!(
            "{OWN}/{STAGING} held a commit that can't be finished: {reason}. It is kept in {place}, \
             where files may be that the commit had replaced; look at it, and remove it if you need \
             nothing of it"
        );
        self.staging = Arc::new(self.own.directory(STAGING)?);
        Ok(())
    }

    /// Numbers a commit: the next one after all that are kept. Needs the lock.
    pub(super) fn number(&self, workspace: &Workspace, manifest: &mut Manifest) -> io::Result<()> {
        let known = workspace.latest.load(Ordering::Relaxed);
        let stamp = disk::modified(&rustix::fs::fstat(&self.history)?);
        let latest = if known > 0 && stamp == stamp_of(known) {
            known
        } else {
            history::latest_sequence(&self.history, self.key())?.max(known)
        };
        manifest.sequence = latest + 1;
        Ok(())
    }

    /// Moves a commit that was carried out to the history. `is_tidy`: nothing was staged but what
    /// it placed.
    pub(super) fn keep(&self, manifest: &Manifest, is_tidy: bool) -> io::Result<()> {
        for image in manifest.images() {
            move_if_there(&self.staging, &image, &self.images)?;
        }
        // From here on it is the history's.
        let name = history::name_of(manifest, self.key());
        disk::rename(&self.staging, FILE, &self.history, &name)?;
        if is_tidy { Ok(()) } else { self.discard() }
    }

    /// Notes that a commit of this process was the latest one. A process that changes the history after
    /// that changes its time, too; while it is this one, the history need not be listed.
    pub(super) fn note(&self, workspace: &Workspace, manifest: &Manifest) {
        workspace.latest.store(manifest.sequence, Ordering::Relaxed);
        let here = Spot::of(&self.history, ".");
        // Where that fails, it is listed the next time.
        let _ = here.and_then(|here| disk::set_modified(&here, stamp_of(manifest.sequence)));
    }

    /// Removes everything that is staged.
    pub(super) fn discard(&self) -> io::Result<()> {
        disk::remove_all_in(self.staging.as_fd())
    }
}

/// The time of a history whose latest commit is this, in nanoseconds since the epoch.
fn stamp_of(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(0)
}

/// Why nothing is done to a workspace in which a commit of several changes can't be read.
fn stopped(changes: usize, reason: &str) -> io::Error {
    io::Error::other(format!(
        "a commit of {changes} changes was interrupted, and {OWN}/{STAGING}/{FILE}, which says how to \
         finish it, can't be read: {reason}. Some of the changes may be made. Nothing was removed: \
         what the commit had replaced is in {OWN}/{STAGING}, and {FILE} there names each file's path. \
         Keep a copy of that directory and put back what you need; to go on without finishing the \
         commit, move the directory away: mv {OWN}/{STAGING} {OWN}/interrupted"
    ))
}

fn unfinished(manifest: &Manifest, error: &super::CommitError) -> io::Error {
    io::Error::other(format!(
        "the commit {}, which was interrupted, can't be finished yet: {error}. Nothing was taken \
         back or removed, and the next call that changes something tries again",
        manifest.id
    ))
}

fn move_if_there(from: &OwnedFd, name: &str, to: &OwnedFd) -> io::Result<()> {
    match disk::rename(from, name, to, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}
