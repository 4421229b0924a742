//! What a host knows of its copy: the tree of the latest commit, and where the disk differs from it.

use std::collections::BTreeMap;

use cofferdam_plugin::digest::Digest;

use crate::state::{Stamp, State};
use crate::tree::{Delta, Directories, Item, Items, apply};

/// The latest commit that a host knows, and its copy of the tree.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// The number of the commit, and the digest of its document.
    pub(crate) head: Option<(u64, Digest)>,
    /// The tree of that commit.
    pub(crate) items: Items,
    pub(crate) directories: Directories,
    /// The files on the disk that have the content that is in `items`.
    pub(crate) stamps: BTreeMap<String, Stamp>,
    /// What the disk has where it differs from `items`: commits of other hosts that are not applied here
    /// yet.
    pub(crate) pending: BTreeMap<String, Option<Item>>,
}

impl Live {
    /// Takes the state of a workspace, and leaves it without the tree.
    pub(crate) fn take(state: &mut State) -> Self {
        Self {
            head: state.commit,
            items: std::mem::take(&mut state.items),
            directories: std::mem::take(&mut state.directories),
            stamps: std::mem::take(&mut state.stamps),
            pending: BTreeMap::new(),
        }
    }

    /// Moves the tree to the state of a workspace, to be written; [`Self::take`] takes it back.
    pub(crate) fn lend(&mut self, state: &mut State) {
        state.commit = self.head;
        state.items = std::mem::take(&mut self.items);
        state.directories = std::mem::take(&mut self.directories);
        state.stamps = std::mem::take(&mut self.stamps);
    }

    pub(crate) fn number(&self) -> u64 {
        self.head.map_or(0, |(number, _)| number)
    }

    /// Takes the tree of a commit of another host over, of which the disk has nothing yet.
    pub(crate) fn follow(&mut self, head: (u64, Digest), delta: Delta) {
        self.head = Some(head);
        for (place, before) in apply(&mut self.items, delta.items) {
            self.stamps.remove(&place);
            let is_same = |on_disk: &Option<Item>| self.items.get(&place) == on_disk.as_ref();
            let on_disk = self.pending.remove(&place).unwrap_or(before);
            if !is_same(&on_disk) {
                self.pending.insert(place, on_disk);
            }
        }
        apply(&mut self.directories, delta.directories);
    }

    /// What the disk has at a place.
    pub(crate) fn on_disk(&self, place: &str) -> Option<&Item> {
        match self.pending.get(place) {
            Some(on_disk) => on_disk.as_ref(),
            None => self.items.get(place),
        }
    }
}
