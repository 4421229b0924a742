//! What is known of git repositories in a tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_core::policy::folded_place;
use cofferdam_core::policy::place::is_within;

use super::state::Entry;
use crate::disk::split;
use crate::path::above;

/// The repositories of one tree, by directory.
#[derive(Default)]
pub(super) struct Repositories {
    /// The absolute path of the tree: files of git may refer to places by it.
    pub(super) top: PathBuf,
    known: Mutex<HashMap<String, Arc<GitDirectory>>>,
    listing: Mutex<Option<Listing>>,
}

/// What all repositories in the tree name, with these changes.
pub(super) struct Listing {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) control: Arc<FoldedControl>,
}

impl Repositories {
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<GitDirectory>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listing(&self) -> MutexGuard<'_, Option<Listing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory as git sees it.
#[derive(Default)]
pub(super) struct GitDirectory {
    /// Whether it is a repository by its content.
    pub(super) is_repository: bool,
    /// What its `.git` refers to, if it has one.
    pub(super) control: Option<FoldedControl>,
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

/// The places of a [`Control`], folded, so that other places can be compared with them. The
/// workspace as a whole is none of them.
#[derive(Debug, Default)]
pub(super) struct FoldedControl {
    roots: BTreeSet<String>,
    configs: BTreeSet<String>,
    hooks: BTreeSet<String>,
    commands: BTreeSet<String>,
    pub(super) is_partial: bool,
}

/// How git executes a file.
pub(super) enum Execution {
    Hook,
    Command,
}

impl From<Control> for FoldedControl {
    fn from(control: Control) -> Self {
        fn fold(places: impl IntoIterator<Item = String>) -> BTreeSet<String> {
            let folded = places.into_iter().map(|place| folded_place(&place));
            folded.filter(|place| !place.is_empty()).collect()
        }
        Self {
            roots: fold(control.roots),
            configs: fold(control.configs),
            hooks: fold(control.hooks),
            commands: fold(control.commands),
            is_partial: control.is_partial,
        }
    }
}

impl FoldedControl {
    /// Returns how git executes a file of the tree, if it does.
    pub(super) fn executes(&self, place: &str) -> Option<Execution> {
        let place = folded_place(place);
        if self.hooks.contains(&place) || self.hooks.contains(split(&place).0) {
            return Some(Execution::Hook);
        }
        self.commands.contains(&place).then_some(Execution::Command)
    }

    /// Whether a place is configuration, or a link on the way to it, or beneath one of them.
    pub(super) fn configures(&self, place: &str) -> bool {
        let place = folded_place(place);
        self.configs.contains(&place) || above(&place).any(|above| self.configs.contains(above))
    }

    /// Whether configuration is at or beneath a place.
    pub(super) fn is_configured_below(&self, place: &str) -> bool {
        let place = folded_place(place);
        self.configs.iter().any(|config| is_within(config, &place))
    }

    /// Whether a place is in a repository that does not contain the directory `except`.
    pub(super) fn holds(&self, place: &str, except: Option<&str>) -> bool {
        let (place, except) = (folded_place(place), except.map(folded_place));
        let is_excepted = |root: &String| except.as_ref().is_some_and(|tree| is_within(tree, root));
        self.roots.iter().any(|root| is_within(&place, root) && !is_excepted(root))
    }
}
