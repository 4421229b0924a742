//! Where transactions lie in the host's own directory: `staging` has what the present one has
//! staged, `history` the manifests of those that are committed, and `images` what those found and
//! placed. A name in `staging` and `images` begins with its transaction's.
//!
//! All transactions share these directories: making one costs a file system more than a small
//! commit.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::apply::carry_out;
use super::manifest::{FILE, Manifest};
use super::{Own, Workspace, disk, history, own};

/// Where a transaction is staged.
const STAGING: &str = "staging";

/// The directories that a transaction needs, open.
pub(super) struct Store {
    pub(super) staging: Arc<OwnedFd>,
    images: OwnedFd,
    history: OwnedFd,
}

impl Store {
    /// Opens the directories, made where they are missing.
    pub(super) fn open(own: &Own) -> io::Result<Self> {
        Ok(Self {
            staging: Arc::new(own::directory(own, STAGING)?),
            // Where a commit goes in the end is looked at before there is one.
            images: own::directory(own, history::IMAGES)?,
            history: own::directory(own, history::DIRECTORY)?,
        })
    }

    /// Finishes or removes what others left: the lock is held, so nobody is at work on it.
    pub(super) fn recover(&self, workspace: &Workspace) -> io::Result<Option<Manifest>> {
        if disk::is_empty(&*self.staging)? {
            return Ok(None);
        }
        let Some(mut manifest) = Manifest::read(&self.staging, FILE)? else {
            self.discard()?;
            return Ok(None);
        };
        // It may have been on its way to the history.
        for image in manifest.images() {
            move_if_there(&self.images, &image, &self.staging)?;
        }
        carry_out(workspace.disk(), &self.staging, &mut manifest, true).map_err(|error| {
            io::Error::other(format!("the commit {} can't be finished: {error}", manifest.id))
        })?;
        self.keep(&manifest, false)?;
        Ok(Some(manifest))
    }

    /// Moves a commit that was carried out to the history. `is_tidy`: nothing was staged but what
    /// it placed.
    pub(super) fn keep(&self, manifest: &Manifest, is_tidy: bool) -> io::Result<()> {
        for image in manifest.images() {
            move_if_there(&self.staging, &image, &self.images)?;
        }
        // From here on it is the history's.
        disk::rename(&self.staging, FILE, &self.history, &history::name_of(manifest))?;
        if is_tidy { Ok(()) } else { self.discard() }
    }

    /// Removes everything that is staged.
    pub(super) fn discard(&self) -> io::Result<()> {
        disk::remove_all_in(self.staging.as_fd())
    }
}

fn move_if_there(from: &OwnedFd, name: &str, to: &OwnedFd) -> io::Result<()> {
    match disk::rename(from, name, to, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}
