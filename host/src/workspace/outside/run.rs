//! A directory that belongs to one run. It is locked as long as the run goes on, so that what a
//! dead host left can be told from what another one works with.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::super::{OWN, Workspace, disk};

/// Where runs have their directories, in the host's own directory.
pub(in crate::workspace) const DIRECTORY: &str = "runs";

/// What the name of a run's directory begins with. In a directory for everybody's temporary
/// files, nothing else does.
const PREFIX: &str = "cofferdam-run-";

/// How often a new directory may be swept away before it is locked.
const ATTEMPTS: usize = 100;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The directory of a run, removed when it is dropped.
pub(in crate::workspace) struct Run {
    parent: OwnedFd,
    name: String,
    path: PathBuf,
    /// Holds the lock.
    directory: OwnedFd,
}

impl Run {
    /// A directory on the workspace's file system.
    pub(in crate::workspace) fn in_workspace(workspace: &Workspace) -> io::Result<Self> {
        let parent = workspace.own()?.directory(DIRECTORY)?;
        Self::new(parent, &workspace.path().join(OWN).join(DIRECTORY))
    }

    /// A directory beneath another one, which others may use as well.
    pub(super) fn in_scratch(scratch: &Path) -> io::Result<Self> {
        let flags = OPEN | OFlags::CLOEXEC;
        let parent = rustix::fs::open(scratch, flags, Mode::empty())
            .map_err(|error| super::about(&scratch.display().to_string(), error.into()))?;
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

    /// The directory, open.
    pub(in crate::workspace) fn handle(&self) -> &OwnedFd {
        &self.directory
    }

    /// Makes a directory in this one.
    pub(super) fn directory(&self, name: &str) -> io::Result<(PathBuf, OwnedFd)> {
        disk::create_directory(&self.directory, name, disk::OWNER_ONLY)?;
        Ok((self.path.join(name), disk::open(&self.directory, name, OPEN)?))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.parent, &self.name, &self.directory) {
            tracing::warn!("{} is left for later: {error}", self.path.display());
        }
    }
}

/// Removes the directories of runs whose host is gone.
pub(in crate::workspace) fn sweep(parent: &OwnedFd) {
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

/// Locks the directory of a run, if it is this user's, nobody else has locked it, and it is
/// still there.
fn lock(parent: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let directory = match disk::open(parent, name, OPEN) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        directory => directory?,
    };
    if rustix::fs::fstat(&directory)?.st_uid != rustix::process::geteuid().as_raw() {
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
