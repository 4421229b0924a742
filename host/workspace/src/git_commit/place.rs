//! The directories of a repository, and whether a commit can be made in it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cofferdam_core::policy::git::{Storage, storage};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{GitCommitError, Index, OBJECTS, Result, at, changed, invalid};
use crate::disk;
use crate::repository::Repository;

/// The largest configuration that is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// What git keeps while a command is not finished, and the command's name.
const UNFINISHED: [(&str, &str); 7] = [
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or git am"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert"),
    ("BISECT_LOG", "a bisect"),
];

/// The directories of a repository.
pub(super) struct Place {
    /// The working tree's own directory: `HEAD`, `index`, its log.
    pub(super) own: OwnedFd,
    own_path: PathBuf,
    /// The directory that working trees share: objects and references.
    pub(super) common: OwnedFd,
    pub(super) common_path: PathBuf,
    pub(super) objects: OwnedFd,
    /// Further directories of objects.
    pub(super) lenders: Vec<OwnedFd>,
    pub(super) storage: Storage,
}

impl Place {
    /// Opens the directories of a confirmed repository, and checks its format.
    pub(super) fn open(repository: &Repository, top: &Path) -> Result<Self> {
        let Repository { own, common, outside, .. } = repository;
        if own.as_os_str().is_empty() {
            let git = top.join(".git");
            return Err(GitCommitError::Denied(format!(
                "{} is a symbolic link; commits are made only in a repository that is reached \
                 without one",
                git.display()
            )));
        }
        let (own_handle, common_handle) = (directory(own)?, directory(common)?);
        let objects = disk::open(&common_handle, OBJECTS, OPEN);
        let objects = objects.map_err(refused_link(&common.join(OBJECTS)))?;
        let lenders = outside.iter().filter(|path| path.ends_with(OBJECTS));
        let lenders = lenders.map(|path| directory(path)).collect::<Result<_>>()?;
        let mut place = Self {
            own: own_handle,
            own_path: own.clone(),
            common: common_handle,
            common_path: common.clone(),
            objects,
            lenders,
            storage: Storage { has_logs: true, has_worktree_config: false },
        };
        place.storage = place.format()?;
        Ok(place)
    }

    fn format(&self) -> Result<Storage> {
        let named_elsewhere = disk::look(&self.common, "commondir").map_err(at("commondir"))?;
        if named_elsewhere.is_some() {
            return Err(invalid(format!(
                "{} names another directory of objects (commondir)",
                self.common_path.display()
            )));
        }
        let found = |config: Option<Vec<u8>>| {
            let config = config.unwrap_or_default();
            storage(&String::from_utf8_lossy(&config)).map_err(|variable| {
                invalid(format!(
                    "the repository's format is not known: {variable} in its configuration; commit \
                     with git itself"
                ))
            })
        };
        let storage = found(read(&self.common, "config", MAX_CONFIG_BYTES)?)?;
        if storage.has_worktree_config {
            let of_tree = found(read(&self.own, "config.worktree", MAX_CONFIG_BYTES)?)?;
            return Ok(Storage { has_logs: storage.has_logs && of_tree.has_logs, ..storage });
        }
        Ok(storage)
    }

    /// Checks that no other command of git is running.
    pub(super) fn check_not_locked(&self) -> Result<()> {
        if disk::look(&self.own, "index.lock").map_err(at("index.lock"))?.is_some() {
            return Err(changed(format!(
                "another git is running, or one has crashed: {} exists",
                self.own_path.join("index.lock").display()
            )));
        }
        Ok(())
    }

    /// Checks that no command of git is unfinished.
    pub(super) fn check_finished(&self) -> Result<()> {
        for (name, command) in UNFINISHED {
            if disk::look(&self.own, name).map_err(at(name))?.is_some() {
                return Err(invalid(format!(
                    "{command} is not finished ({}); finish or abort it with git first",
                    self.own_path.join(name).display()
                )));
            }
        }
        Ok(())
    }

    /// Reads the index, if there is one.
    pub(super) fn index(&self) -> Result<Option<Index>> {
        Index::read(&self.own)
    }
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens a directory by its absolute path, through no link.
fn directory(path: &Path) -> Result<OwnedFd> {
    let open = || {
        let flags = OPEN | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty())?;
        let below = path.to_str().ok_or(Errno::INVAL)?.trim_start_matches('/');
        disk::open(&root, below, OPEN)
    };
    open().map_err(refused_link(path))
}

/// Says of a link that none is followed.
fn refused_link(path: &Path) -> impl FnOnce(std::io::Error) -> GitCommitError {
    move |error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => GitCommitError::Denied(format!(
            "{} is a symbolic link, or reached through one; commits are made only in a repository \
             without",
            path.display()
        )),
        _ => at(path.display())(error),
    }
}

/// Reads a regular file with at most `most` bytes; `None` if it does not exist.
pub(super) fn read(directory: impl AsFd, place: &str, most: u64) -> Result<Option<Vec<u8>>> {
    Ok(read_file(directory, place, most)?.map(|(bytes, _)| bytes))
}

/// Returns the content of a file, and when it was written.
pub(super) fn read_file(
    directory: impl AsFd,
    place: &str,
    most: u64,
) -> Result<Option<(Vec<u8>, SystemTime)>> {
    let file: File = match disk::open(directory, place, OFlags::RDONLY) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(refused_link(Path::new(place)))?.into(),
    };
    let metadata = file.metadata().map_err(at(place))?;
    if !metadata.is_file() {
        return Err(invalid(format!("{place} is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(at(place))?;
    if bytes.len() as u64 > most {
        return Err(invalid(format!("{place} has more than {most} bytes")));
    }
    Ok(Some((bytes, metadata.modified().map_err(at(place))?)))
}
