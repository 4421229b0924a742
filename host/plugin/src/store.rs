//! Installed plugins on disk: files under their digests, and what a person has accepted of them.
//! A directory of the user's own, for all workspaces; nothing of it is in a workspace, so nothing
//! that an agent may write leads into it.
#![expect(
    clippy::disallowed_methods,
    reason = "the store is a directory of the user's, outside of any workspace"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::acceptance::{Acceptances, NotAccepted};
use super::digest::Digest;
use super::lock::{Lock, Locked};
use cofferdam_workspace::private;

/// What was accepted.
const ACCEPTED_FILE: &str = "accepted.toml";

/// What is locked while something changes.
const LOCK_FILE: &str = "lock";

/// The folder of the files.
const FILES_DIRECTORY: &str = "sha256";

/// The installed plugins of a person.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

/// A plugin of a workspace's lock, which a person has accepted.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Where it is kept.
    pub path: PathBuf,
    /// What the lock says of it.
    pub locked: Locked,
}

/// The plugins of a workspace's lock.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Those that were accepted.
    pub pinned: Vec<Pinned>,
    /// The names of those that were never installed here; they don't load.
    pub missing: Vec<String>,
}

/// The store can't be used, or does not hold what a lock names.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was accepted can't be read.
    #[error("{}: {message}; it was written by `cofferdam plugin install`, which starts anew without it", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The lock names what the person has not accepted.
    #[error(
        "cofferdam.lock names a plugin '{name}' that you have not accepted: {why}; look at it with `cofferdam plugin install {name}`, or remove it with `cofferdam plugin remove {name}`"
    )]
    NotAccepted {
        /// The plugin.
        name: String,
        /// Why not.
        why: NotAccepted,
    },
    /// A file is gone.
    #[error("the file of the plugin '{name}' is gone from {}; `cofferdam plugin install {name}` gets it again", path.display())]
    Gone {
        /// The plugin.
        name: String,
        /// Where it was.
        path: PathBuf,
    },
}

impl Store {
    /// Opens the store, creating it where it is missing.
    ///
    /// # Errors
    /// A directory that can't be made, or that others may enter.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let store = Self { directory: directory.to_owned() };
        private::create_directory(directory).map_err(|source| store.io("", source))?;
        private::create_directory(&directory.join(FILES_DIRECTORY))
            .map_err(|source| store.io(FILES_DIRECTORY, source))?;
        Ok(store)
    }

    fn io(&self, name: &str, source: io::Error) -> StoreError {
        StoreError::Io { path: self.directory.join(name), source }
    }

    /// What changes in a store's directory when a plugin is installed, updated or removed.
    pub fn watched_paths(directory: &Path) -> [PathBuf; 2] {
        [directory.join(ACCEPTED_FILE), directory.join(FILES_DIRECTORY)]
    }

    /// Waits until nobody else changes something, and keeps others from it until the answer is
    /// dropped.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn lock(&self) -> Result<File, StoreError> {
        let lock = || {
            let file = File::create(self.directory.join(LOCK_FILE))?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|source| self.io(LOCK_FILE, source))
    }

    /// Where the file of a digest is kept.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(FILES_DIRECTORY).join(format!("{}.wasm", digest.hex()))
    }

    /// Keeps a file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(digest);
        private::write(&self.directory.join(FILES_DIRECTORY), &path, &[bytes])
            .map_err(|source| StoreError::Io { path, source })
    }

    /// The file of a digest, if it is kept and is what it should be.
    pub fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        fs::read(self.path(digest)).ok().filter(|bytes| Digest::of(bytes) == *digest)
    }

    /// Removes the file of a digest. It may be gone already.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Io { path, source })
            }
            _ => Ok(()),
        }
    }

    /// What the person has accepted.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn acceptances(&self) -> Result<Acceptances, StoreError> {
        let path = self.directory.join(ACCEPTED_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| StoreError::Malformed { path, message: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Acceptances::default()),
            Err(source) => Err(StoreError::Io { path, source }),
        }
    }

    /// Remembers what the person has accepted. Hold the [`lock`](Self::lock) since it was read.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn set_acceptances(&self, acceptances: &Acceptances) -> Result<(), StoreError> {
        let write = || {
            let text = toml::to_string(acceptances).map_err(io::Error::other)?;
            private::write(&self.directory, &self.directory.join(ACCEPTED_FILE), &[text.as_bytes()])
        };
        write().map_err(|source| self.io(ACCEPTED_FILE, source))
    }

    /// The plugins that a workspace's lock names. What their files are is looked at when they are
    /// taken in.
    ///
    /// # Errors
    /// One that was installed, but not as the lock has it, or whose file is gone.
    pub fn resolve(&self, lock: &Lock) -> Result<Resolved, StoreError> {
        let accepted = self.acceptances()?;
        let mut resolved = Resolved::default();
        for (name, locked) in &lock.plugins {
            if !accepted.plugins.contains_key(name) {
                resolved.missing.push(name.clone());
                continue;
            }
            accepted
                .check(name, locked)
                .map_err(|why| StoreError::NotAccepted { name: name.clone(), why })?;
            let path = self.path(&locked.digest);
            if !path.is_file() {
                return Err(StoreError::Gone { name: name.clone(), path });
            }
            resolved.pinned.push(Pinned { name: name.clone(), path, locked: locked.clone() });
        }
        Ok(resolved)
    }
}
