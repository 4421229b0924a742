//! What is known of git repositories in a tree.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The repositories of one tree, by directory.
#[derive(Default)]
pub(super) struct Repositories {
    /// The absolute path of the tree: files of git may refer to places by it.
    pub(super) top: PathBuf,
    known: Mutex<HashMap<String, Arc<GitDirectory>>>,
}

impl Repositories {
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<GitDirectory>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory as git sees it.
#[derive(Default)]
pub(super) struct GitDirectory {
    /// Whether it is a repository by its content.
    pub(super) is_repository: bool,
    /// What its `.git` refers to, if it has one.
    pub(super) control: Option<Control>,
}

/// What a `.git` refers to.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The repository, and the one that it shares with other working trees, if they are not
    /// `.git` itself.
    pub(super) roots: Vec<String>,
    /// The files of its configuration.
    pub(super) configs: Vec<String>,
    /// Directories of hooks, and the targets of links in them.
    pub(super) hooks: BTreeSet<String>,
    /// Words of commands in its configuration, as places.
    pub(super) commands: BTreeSet<String>,
}
