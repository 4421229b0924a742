//! Installed plugins on disk: files named by their digests, and what a user has accepted of them.
//! It is a directory of the user for all workspaces, and outside of them, so that agents can't
//! write to it.
#![expect(
    clippy::disallowed_methods,
    reason = "the store is a directory of the user, outside of any workspace"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::acceptance::{Acceptances, NotAccepted};
use super::digest::Digest;
use super::lock::{Lock, Locked};
use super::revocation::{self, Revocations};
use super::typed::{Beside, ENDINGS};
use cofferdam_workspace::private;

/// The file with what was accepted.
const ACCEPTED_FILE: &str = "accepted.toml";

/// The file that is locked during changes.
const LOCK_FILE: &str = "lock";

/// The directory of the plugins' files.
const FILES_DIRECTORY: &str = "sha256";

/// The installed plugins of a user.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

/// A plugin of a workspace's lock that the user has accepted.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// The name of the plugin.
    pub name: String,
    /// The path of its file.
    pub path: PathBuf,
    /// Its entry in the lock.
    pub locked: Locked,
}

/// The plugins of a workspace's lock.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Those that were accepted.
    pub pinned: Vec<Pinned>,
    /// The names of those that were never installed here; they are not loaded.
    pub missing: Vec<String>,
    /// Those that their publisher has revoked, with the reason; they are not loaded.
    pub revoked: Vec<(String, String)>,
}

/// The store can't be used, or does not have a plugin of the lock.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the operation.
        source: io::Error,
    },
    /// The file with what was accepted is malformed.
    #[error("{}: {message}; it was written by `cofferdam plugin install`, which starts anew without it", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The lock names a plugin that the user has not accepted.
    #[error(
        "cofferdam.lock names a plugin '{name}' that you have not accepted: {why}; look at it with `cofferdam plugin install {name}`, or remove it with `cofferdam plugin remove {name}`"
    )]
    NotAccepted {
        /// The name of the plugin.
        name: String,
        /// The difference to what was accepted.
        why: NotAccepted,
    },
    /// The file of a plugin is missing.
    #[error("the file of the plugin '{name}' is gone from {}; `cofferdam plugin install {name}` gets it again", path.display())]
    Gone {
        /// The name of the plugin.
        name: String,
        /// The path of the missing file.
        path: PathBuf,
    },
}

impl Store {
    /// Opens the store, creating it if it is missing.
    ///
    /// # Errors
    /// Returns an error if the directory can't be created, or if other users may enter it.
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

    /// The paths that change when a plugin is installed, updated or removed.
    pub fn watched_paths(directory: &Path) -> [PathBuf; 3] {
        [ACCEPTED_FILE, FILES_DIRECTORY, revocation::FILE].map(|name| directory.join(name))
    }

    /// Locks the store against changes by other processes until the returned file is dropped; waits
    /// for their locks.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file can't be locked.
    pub fn lock(&self) -> Result<File, StoreError> {
        let lock = || {
            let file = File::create(self.directory.join(LOCK_FILE))?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|source| self.io(LOCK_FILE, source))
    }

    /// The path of the file with a digest.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(FILES_DIRECTORY).join(format!("{}.wasm", digest.hex()))
    }

    /// Writes the file of a plugin.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be written.
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(digest);
        private::write(&self.directory.join(FILES_DIRECTORY), &path, &[bytes])
            .map_err(|source| StoreError::Io { path, source })
    }

    /// Writes what the files beside a plugin said when it was installed, beside its own file.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be written or removed.
    pub fn put_beside(&self, digest: &Digest, beside: &Beside) -> Result<(), StoreError> {
        for (ending, text) in ENDINGS.into_iter().zip([&beside.wit, &beside.texts, &beside.list]) {
            let path = self.path(digest).with_extension(ending);
            let done = match text {
                Some(text) => {
                    let directory = self.directory.join(FILES_DIRECTORY);
                    private::write(&directory, &path, &[text.as_bytes()])
                }
                None => remove(&path),
            };
            done.map_err(|source| StoreError::Io { path, source })?;
        }
        Ok(())
    }

    /// Reads the file with a digest; returns `None` if it is missing or has another digest.
    pub fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        fs::read(self.path(digest)).ok().filter(|bytes| Digest::of(bytes) == *digest)
    }

    /// Removes the file with a digest, if it exists.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be removed.
    pub fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        self.put_beside(digest, &Beside::default())?;
        let path = self.path(digest);
        remove(&path).map_err(|source| StoreError::Io { path, source })
    }

    /// Reads what the user has accepted.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or is malformed.
    pub fn acceptances(&self) -> Result<Acceptances, StoreError> {
        self.read(ACCEPTED_FILE)
    }

    /// Reads what publishers have revoked.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or is malformed.
    pub fn revocations(&self) -> Result<Revocations, StoreError> {
        self.read(revocation::FILE)
    }

    /// Reads a file of the store; what does not exist is empty.
    fn read<T: Default + DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let path = self.directory.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| StoreError::Malformed { path, message: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(source) => Err(StoreError::Io { path, source }),
        }
    }

    /// Writes what publishers have revoked. The caller holds the [`lock`](Self::lock) since it was
    /// read.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be written.
    pub fn set_revocations(&self, revocations: &Revocations) -> Result<(), StoreError> {
        self.write(revocation::FILE, revocations)
    }

    fn write(&self, name: &str, content: &impl Serialize) -> Result<(), StoreError> {
        let write = || {
            let text = toml::to_string(content).map_err(io::Error::other)?;
            private::write(&self.directory, &self.directory.join(name), &[text.as_bytes()])
        };
        write().map_err(|source| self.io(name, source))
    }

    /// Writes what the user has accepted. The caller holds the [`lock`](Self::lock) since it was
    /// read.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it can't be written.
    pub fn set_acceptances(&self, acceptances: &Acceptances) -> Result<(), StoreError> {
        self.write(ACCEPTED_FILE, acceptances)
    }

    /// Finds the plugins that a workspace's lock names. Their files are checked when they are added
    /// to the registry.
    ///
    /// # Errors
    /// [`StoreError::NotAccepted`] if one was installed with another digest or signer;
    /// [`StoreError::Gone`] if its file is missing.
    pub fn resolve(&self, lock: &Lock) -> Result<Resolved, StoreError> {
        let (accepted, revocations) = (self.acceptances()?, self.revocations()?);
        let mut resolved = Resolved::default();
        for (name, locked) in &lock.plugins {
            if !accepted.plugins.contains_key(name) {
                resolved.missing.push(name.clone());
                continue;
            }
            accepted
                .check(name, locked)
                .map_err(|why| StoreError::NotAccepted { name: name.clone(), why })?;
            if let Some(reason) = revocations.reason(locked.signer.as_ref(), &locked.digest) {
                resolved.revoked.push((name.clone(), reason.to_owned()));
                continue;
            }
            let path = self.path(&locked.digest);
            if !path.is_file() {
                return Err(StoreError::Gone { name: name.clone(), path });
            }
            resolved.pinned.push(Pinned { name: name.clone(), path, locked: locked.clone() });
        }
        Ok(resolved)
    }

    /// Separates those of the plugins that were revoked since they were found.
    ///
    /// # Errors
    /// Returns an error if the file of revocations can't be read or is malformed.
    pub fn recheck(&self, pinned: Vec<Pinned>) -> Result<Resolved, StoreError> {
        let revocations = self.revocations()?;
        let mut resolved = Resolved::default();
        for plugin in pinned {
            let Locked { signer, digest, .. } = &plugin.locked;
            match revocations.reason(signer.as_ref(), digest) {
                Some(reason) => resolved.revoked.push((plugin.name, reason.to_owned())),
                None => resolved.pinned.push(plugin),
            }
        }
        Ok(resolved)
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
