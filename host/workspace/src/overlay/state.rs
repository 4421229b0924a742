//! The changes of a transaction, and what it saw on the disk, as maps of places. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::commit::CommitId;
use crate::file_fingerprint::FileFingerprint;

/// A change of a transaction at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An inode in the staging directory, by its number. A staged directory hides the contents of a
    /// directory on the disk at its place.
    Staged(u32, FileType),
    /// The file on the disk was removed.
    Gone,
}

/// Where the file at a place is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Location {
    Staged(u32, FileType),
    Nothing,
    Disk,
}

#[derive(Debug, Default)]
pub(super) struct OverlayState {
    pub(super) entries: BTreeMap<String, Entry>,
    /// The files on the disk when the transaction first looked; `None`: there was none.
    pub(super) seen: HashMap<String, Option<FileFingerprint>>,
    pub(super) next: u32,
    /// Inodes up to this number are part of a savepoint and are not written any more.
    pub(super) kept: u32,
    /// A change on the disk since then (nanoseconds since the epoch) is a conflict even if the
    /// transaction has not looked there before.
    pub(super) others_since: Option<i64>,
    /// The symbolic links that the transaction followed and that may give a name by which other
    /// programs execute a file.
    pub(super) followed: BTreeSet<String>,
    pub(super) undo: Option<Undo>,
}

/// The commit that the staged changes undo.
#[derive(Debug, Clone)]
pub(crate) struct Undo {
    pub(crate) commit: CommitId,
    /// The modification times to set on directories, in nanoseconds since the epoch; others get the
    /// current time.
    pub(crate) directories: BTreeMap<String, i64>,
}

/// A state of a transaction to which it can be rolled back.
pub struct Savepoint {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) next: u32,
    pub(super) kept: u32,
    pub(super) undo: Option<Undo>,
}

impl OverlayState {
    pub(super) fn find(&self, place: &str) -> io::Result<Location> {
        if self.entries.is_empty() {
            return Ok(Location::Disk);
        }
        match self.entries.get(place) {
            Some(Entry::Staged(id, kind)) => return Ok(Location::Staged(*id, *kind)),
            Some(Entry::Gone) => return Ok(Location::Nothing),
            None => {}
        }
        match self.nearest_above(place) {
            None => Ok(Location::Disk),
            Some(Entry::Gone | Entry::Staged(_, FileType::Directory)) => Ok(Location::Nothing),
            Some(Entry::Staged(_, FileType::Symlink)) => Err(Errno::LOOP.into()),
            Some(Entry::Staged(..)) => Err(Errno::NOTDIR.into()),
        }
    }

    pub(super) fn nearest_above(&self, place: &str) -> Option<Entry> {
        place.rmatch_indices('/').find_map(|(end, _)| self.entries.get(&place[..end]).copied())
    }

    /// Removes an entry. `on_disk`: a file on the disk would be visible then, so it is hidden.
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
