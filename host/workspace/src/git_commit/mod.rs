//! Takes a commit over into the git repository of a workspace. A program has prepared it: objects and
//! an index in a directory of the plugin's cache, which are not trusted. No program of the repository
//! runs, since no git takes part here.
//!
//! What is checked: the objects ([`objects`]), the index ([`index`]), and that branch and index are
//! those that the preparation began with ([`place`], [`refs`]).
//!
//! The steps are in an order in which git accepts the repository after a crash at any of them:
//!
//! | after a crash | what is left |
//! |---|---|
//! | while objects are checked | temporary files `objects/tmp_obj_*`, which `git prune` removes |
//! | once the locks are held | `index.lock`, `HEAD.lock` and the branch's lock, as after a crash of git: git names the file to remove |
//! | once the objects have their names | objects that nothing refers to, which `git prune` removes |
//! | once the logs are written | a line in a log whose commit the branch does not have |
//! | once the index is in place | the branch as before; `git status` lists the files of the commit as staged |

mod index;
mod objects;
mod place;
mod refs;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use self::objects::Objects;
use self::place::{Place, read_file};
use self::refs::{Branch, Lock, Logs};
use crate::disk;
use crate::repository::Repository;
use crate::workspace::Workspace;

/// The prefix of the directories in which commits are prepared.
const PREFIX: &str = "commit-";

/// The directory of new objects, in the directory of a preparation.
const OBJECTS: &str = "objects";

/// The index, in the directory of a preparation and in the repository.
const INDEX: &str = "index";

/// The file with the user's name and address, in the directory of a preparation.
const IDENTITY: &str = "config";

/// The largest index, in bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// Why no commit was made.
#[derive(Debug, thiserror::Error)]
pub enum GitCommitError {
    /// The repository can't be used.
    #[error("{0}")]
    Denied(String),
    /// What was prepared is not one commit on the branch, or the repository's state allows none.
    #[error("{0}")]
    Invalid(String),
    /// Another program changed the branch or the index, or holds a lock.
    #[error("{0}")]
    Changed(String),
    /// I/O error.
    #[error("{what}: {source}")]
    Io {
        /// The file or directory.
        what: String,
        /// The error.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, GitCommitError>;

fn invalid(why: impl Into<String>) -> GitCommitError {
    GitCommitError::Invalid(why.into())
}

fn changed(why: impl Into<String>) -> GitCommitError {
    GitCommitError::Changed(why.into())
}

/// Adds the name of a file to an I/O error.
fn at(what: impl Display) -> impl FnOnce(io::Error) -> GitCommitError {
    move |source| GitCommitError::Io { what: what.to_string(), source }
}

/// A commit that programs prepare. Its directory is removed when this is dropped.
pub struct GitCommit {
    place: Place,
    branch: Branch,
    /// The digest of the index, if there is one.
    index: Option<[u8; 32]>,
    cache: OwnedFd,
    /// The name of the directory in the cache.
    name: String,
    path: PathBuf,
    directory: OwnedFd,
    objects: OwnedFd,
    /// Keeps the directory from eviction.
    _lock: OwnedFd,
}

impl GitCommit {
    /// Begins a commit in the cache of `plugin`, with `identity` as the user's git configuration.
    ///
    /// # Errors
    /// A repository in which no commit can be made, by its format, its state or its locks; a cache
    /// that can't be written.
    pub fn prepare(
        workspace: &Workspace,
        repository: &Repository,
        plugin: &str,
        identity: &str,
    ) -> Result<Self> {
        let place = Place::open(repository, workspace.path())?;
        place.check_finished()?;
        place.check_not_locked()?;
        let branch = Branch::current(&place)?;
        let index = place.index()?;
        let (cache, lock) = workspace.hold_cache(plugin).map_err(at("the cache"))?;
        let name = format!("{PREFIX}{}", uuid::Uuid::now_v7());
        let (directory, objects) =
            create(&cache, &name, index.as_ref(), identity).map_err(at("the cache"))?;
        let path = workspace.path_of_cache(plugin).join(&name);
        let index = index.map(|index| digest(&index.bytes));
        Ok(Self { place, branch, index, cache, name, path, directory, objects, _lock: lock })
    }

    /// The directory in which programs prepare the commit.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the repository's objects.
    pub fn objects(&self) -> PathBuf {
        self.place.common_path.join(OBJECTS)
    }

    /// The full name of the branch.
    pub fn branch(&self) -> &str {
        &self.branch.name
    }

    /// The commit that the branch had when this began.
    pub fn parent(&self) -> Option<&str> {
        self.branch.tip.as_deref()
    }

    /// Takes over the objects and the index, and makes the branch refer to the commit `id`. `stop`
    /// tells whether to give up; nothing has changed then.
    ///
    /// # Errors
    /// Objects that are not one commit on the branch; a branch or an index that has changed since;
    /// locks of other programs; I/O errors. Nothing has changed, except after an I/O error in the last
    /// steps (see the module's table).
    pub fn finish(&self, id: &str, stop: &dyn Fn() -> bool) -> Result<()> {
        let mut objects = Objects::read(&self.objects, &self.place, stop)?;
        let commit = objects.commit(id, self.parent(), &self.place)?;
        let index = Index::read(&self.directory)?
            .ok_or_else(|| invalid("there is no index in the directory"))?;
        index::check(&index.bytes)?;

        let mut locks = self.lock()?;
        self.place.check_finished()?;
        self.check_unchanged()?;
        write(&mut locks.index, &index.bytes)?;
        locks.index.file.set_modified(index.modified).map_err(at(INDEX))?;
        write(&mut locks.branch, format!("{id}\n").as_bytes())?;
        let logs = Logs::open(&self.place, &self.branch)?;
        objects.place()?;
        logs.append(&commit.log_line(self.parent(), id))?;
        locks.index.replace()?;
        locks.branch.replace()
    }

    fn lock(&self) -> Result<Locks> {
        let index = Lock::take(&self.place.own, INDEX)?;
        let head = Lock::take(&self.place.own, refs::HEAD)?;
        let branch = Lock::of_branch(&self.place, &self.branch)?;
        Ok(Locks { index, branch, _head: head })
    }

    fn check_unchanged(&self) -> Result<()> {
        if Branch::current(&self.place)? != self.branch {
            return Err(changed(format!("{} has changed meanwhile", self.branch.name)));
        }
        let index = self.place.index()?;
        if index.map(|index| digest(&index.bytes)) != self.index {
            return Err(changed("the index has changed meanwhile"));
        }
        Ok(())
    }
}

impl Drop for GitCommit {
    fn drop(&mut self) {
        if let Err(error) = disk::remove_all(&self.cache, &self.name) {
            tracing::warn!("{} is left for later: {error}", self.path.display());
        }
    }
}

/// An index, and when it was written. Git compares that with the times of files: a file that has been
/// written since, within the same second, may be of another content although its entry has its size
/// and time ("racy git"). A copy with a later time would hide that.
struct Index {
    bytes: Vec<u8>,
    modified: SystemTime,
}

impl Index {
    /// Reads the index in a directory.
    fn read(directory: &OwnedFd) -> Result<Option<Self>> {
        let file = read_file(directory, INDEX, MAX_INDEX_BYTES)?;
        Ok(file.map(|(bytes, modified)| Self { bytes, modified }))
    }
}

/// The locks that git takes for a commit, in its order.
struct Locks {
    index: Lock,
    branch: Lock,
    /// Keeps other programs from changing to another branch.
    _head: Lock,
}

fn write(lock: &mut Lock, bytes: &[u8]) -> Result<()> {
    let written = lock.file.write_all(bytes).and_then(|()| disk::sync(&lock.file));
    written.map_err(at(&lock.name))
}

/// Creates the directory of a preparation, and removes what dead hosts left: the workspace is locked
/// by a call that may change it, so no other one is in use.
fn create(
    cache: &OwnedFd,
    name: &str,
    index: Option<&Index>,
    identity: &str,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let open = OFlags::RDONLY | OFlags::DIRECTORY;
    let names = disk::entries(cache)?.map(|entry| entry.map(|entry| entry.name));
    for left in names.collect::<io::Result<Vec<_>>>()? {
        if let Some(left) = left.to_str().filter(|left| left.starts_with(PREFIX)) {
            disk::remove_all(cache, left)?;
        }
    }
    disk::create_directory(cache, name, disk::OWNER_ONLY)?;
    let directory = disk::open(cache, name, open)?;
    disk::create_directory(&directory, OBJECTS, disk::OWNER_ONLY)?;
    let objects = disk::open(&directory, OBJECTS, open)?;
    let file = |name: &str, bytes: &[u8]| -> io::Result<File> {
        let mut file: File = disk::create(&directory, name)?;
        file.write_all(bytes)?;
        Ok(file)
    };
    file(IDENTITY, identity.as_bytes())?;
    if let Some(index) = index {
        file(INDEX, &index.bytes)?.set_modified(index.modified)?;
    }
    Ok((directory, objects))
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Whether git accepts a name in a tree or an index: one that can't be a repository's.
fn is_name(name: &[u8]) -> bool {
    let text = String::from_utf8_lossy(name);
    let folded = cofferdam_core::policy::folded(&text);
    !matches!(name, b"" | b"." | b"..")
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
        && !matches!(folded.as_str(), ".git" | "git~1")
}

/// Whether this is the id of an object, in lower case.
fn is_id(id: &[u8]) -> bool {
    id.len() == 40 && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
