//! What a transaction has changed and seen, as maps of places. Nothing here looks at the disk.

use std::collections::{BTreeMap, HashMap};
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::super::stamp::Stamp;

/// What a transaction has at a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An inode in the staging directory, under this number as its name. A directory shows
    /// nothing of one that the disk may have at its place.
    Staged(u32, FileType),
    /// Nothing: what the disk has here was removed.
    Gone,
}

/// Where something is found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    Staged(u32, FileType),
    Nothing,
    Disk,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) entries: BTreeMap<String, Entry>,
    /// What was at a place of the disk when the transaction first looked; `None`: nothing.
    pub(super) seen: HashMap<String, Option<Stamp>>,
    pub(super) next: u32,
    /// Inodes with a smaller number are part of a savepoint and are not written any more.
    pub(super) kept: u32,
    /// From when on, in nanoseconds since the epoch, a change on the disk is a conflict even
    /// where nobody has looked before.
    pub(super) others_since: Option<i64>,
}

/// A moment of a transaction to which it can go back.
pub struct Savepoint {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) next: u32,
    pub(super) kept: u32,
}

impl State {
    pub(super) fn find(&self, place: &str) -> io::Result<Found> {
        if self.entries.is_empty() {
            return Ok(Found::Disk);
        }
        match self.entries.get(place) {
            Some(Entry::Staged(id, kind)) => return Ok(Found::Staged(*id, *kind)),
            Some(Entry::Gone) => return Ok(Found::Nothing),
            None => {}
        }
        match self.nearest_above(place) {
            None => Ok(Found::Disk),
            Some(Entry::Gone | Entry::Staged(_, FileType::Directory)) => Ok(Found::Nothing),
            Some(Entry::Staged(_, FileType::Symlink)) => Err(Errno::LOOP.into()),
            Some(Entry::Staged(..)) => Err(Errno::NOTDIR.into()),
        }
    }

    pub(super) fn nearest_above(&self, place: &str) -> Option<Entry> {
        place.rmatch_indices('/').find_map(|(end, _)| self.entries.get(&place[..end]).copied())
    }

    /// Takes an entry away. `on_disk`: the disk has something at the place that shows through.
    pub(super) fn detach(&mut self, place: &str, on_disk: bool) {
        if on_disk {
            self.entries.insert(place.to_owned(), Entry::Gone);
        } else {
            self.entries.remove(place);
        }
    }

    pub(super) fn below(&self, place: &str) -> impl Iterator<Item = (&String, &Entry)> {
        let prefix = if place.is_empty() { String::new() } else { format!("{place}/") };
        self.entries.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix))
    }
}
