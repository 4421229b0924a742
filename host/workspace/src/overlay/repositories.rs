//! What is known of git repositories in a tree.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_core::policy::folded;
use cofferdam_core::policy::place::is_within;

use crate::disk::split;

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
    /// The files of its configuration, and the links on the way to them.
    pub(super) configs: Vec<String>,
    /// Directories of hooks, and the targets of links in them.
    pub(super) hooks: BTreeSet<String>,
    /// Words of commands in its configuration, as places.
    pub(super) commands: BTreeSet<String>,
    /// Whether there is more configuration than is read, so that any file may be a part of it.
    pub(super) is_partial: bool,
}

/// How git executes a file.
pub(super) enum Execution {
    Hook,
    Command,
}

impl Control {
    /// Returns how git executes a file of the tree, if it does.
    pub(super) fn executes(&self, place: &str) -> Option<Execution> {
        let (place, parent) = (folded(place), folded(split(place).0));
        let is_hook = |hook: &String| {
            let hook = folded(hook);
            hook == place || !parent.is_empty() && hook == parent
        };
        if self.hooks.iter().any(is_hook) {
            return Some(Execution::Hook);
        }
        self.commands.iter().any(|command| folded(command) == place).then_some(Execution::Command)
    }

    /// Whether a place is configuration, or a link on the way to it, or beneath one of them.
    pub(super) fn configures(&self, place: &str) -> bool {
        self.configs.iter().any(|config| is_within(&folded(place), &folded(config)))
    }
}
