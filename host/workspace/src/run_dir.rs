//! The directory of one run of a native program. It is locked during the run, so that what a dead
//! host left can be distinguished from what another one uses.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use cofferdam_core::policy::OWN;

use crate::error::about;
use crate::layout::RUNS;
use crate::workspace::Workspace;
use crate::{disk, own};

/// The prefix of the directory's name. In a directory for temporary files of all users, only run
/// directories have it.
const PREFIX: &str = "cofferdam-run-";

/// How often a new directory may be removed by another process before it is locked.
const ATTEMPTS: usize = 100;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The directory of a run, which is removed when this is dropped.
pub(crate) struct RunDir {
    parent: OwnedFd,
    name: String,
    path: PathBuf,
    /// Open, and holds the lock.
    directory: OwnedFd,
}

impl RunDir {
    /// Creates a directory on the workspace's file system.
    pub(crate) fn in_workspace(workspace: &Workspace) -> io::Result<Self> {
        let parent = own::directory(&workspace.own()?, RUNS)?;
        Self::new(parent, &workspace.path().join(OWN).join(RUNS))
    }

    /// Creates a directory in `scratch`, which other hosts may use as well.
    pub(crate) fn in_scratch(scratch: &Path) -> io::Result<Self> {
        let flags = OPEN | OFlags::CLOEXEC;
        let parent = rustix::fs::open(scratch, flags, Mode::empty())
            .map_err(|error| about(&scratch.display().to_string(), error.into()))?;
        Self::new(parent, scratch)
    }

    fn new(parent: OwnedFd, path: &Path) -> io::Result<Self> {
        sweep(&parent);
        for _ in 0..ATTEMPTS {
            let name = format!("{PREFIX}{}", uuid::Uuid::now_v7());
            disk::create_directory(&parent, &name, disk::OWNER_ONLY)?;
            if let Some(directory) = lock(&parent, &name)? {
                return Ok(Self { parent, path: path.join(&name), name, directory });
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The handle of the directory.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.directory
    }

    /// Creates a subdirectory; returns its path and its handle.
    pub(crate) fn directory(&self, name: &str) -> io::Result<(PathBuf, OwnedFd)> {
        disk::create_directory(&self.directory, name, disk::OWNER_ONLY)?;
        Ok((self.path.join(name), disk::open(&self.directory, name, OPEN)?))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.parent, &self.name, &self.directory) {
            tracing::warn!("{} is left for later: {error}", self.path.display());
        }
    }
}

/// Removes the directories of runs whose host has died.
pub(crate) fn sweep(parent: &OwnedFd) {
    let swept = || -> io::Result<()> {
        for entry in disk::entries(parent)? {
            let Ok(name) = entry?.name.into_string() else { continue };
            if !name.starts_with(PREFIX) {
                continue;
            }
            if let Ok(Some(directory)) = lock(parent, &name)
                && let Err(error) = remove(parent, &name, &directory)
            {
                tracing::warn!("what is left of the run {name} is not removed: {error}");
            }
        }
        Ok(())
    };
    if let Err(error) = swept() {
        tracing::warn!("what is left of runs is not looked at: {error}");
    }
}

/// Locks the directory of a run, if it is this user's, no other process has locked it, and it still
/// exists.
fn lock(parent: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let directory = match disk::open(parent, name, OPEN) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        directory => directory?,
    };
    if !own::is_users(&rustix::fs::fstat(&directory)?) {
        return Ok(None);
    }
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let named = disk::look(parent, name)?.map(|stat| stat.st_ino);
    let is_there = named == Some(rustix::fs::fstat(&directory)?.st_ino);
    Ok(is_there.then_some(directory))
}

fn remove(parent: &OwnedFd, name: &str, directory: &OwnedFd) -> io::Result<()> {
    disk::remove_all_in(directory)?;
    disk::remove(parent, name, AtFlags::REMOVEDIR)
}
