//! The changes of a transaction, and what it saw on the disk, as maps of places. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Weak};

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
    pub(super) entries: Entries,
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

/// The changes by their places, with a log of what was replaced while there are savepoints. So the cost
/// of a savepoint does not grow with the number of changes.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_place: BTreeMap<String, Entry>,
    replaced: Vec<(String, Option<Entry>)>,
    /// The places in the log since the last savepoint: the first entry of each is enough.
    logged: HashSet<String>,
    /// The position of the log's first entry among all that were ever logged.
    first: usize,
    savepoints: Vec<Weak<()>>,
}

impl Deref for Entries {
    type Target = BTreeMap<String, Entry>;

    fn deref(&self) -> &Self::Target {
        &self.by_place
    }
}

impl Entries {
    pub(super) fn insert(&mut self, place: String, entry: Entry) {
        let old = self.by_place.insert(place.clone(), entry);
        self.log(place, old);
    }

    pub(super) fn remove(&mut self, place: &str) {
        if let Some((place, old)) = self.by_place.remove_entry(place) {
            self.log(place, Some(old));
        }
    }

    fn log(&mut self, place: String, old: Option<Entry>) {
        if !self.savepoints.is_empty() && self.logged.insert(place.clone()) {
            self.replaced.push((place, old));
        }
    }

    /// A position in the log, to which [`Self::roll_back`] returns as long as the token is kept.
    pub(super) fn position(&mut self) -> (usize, Arc<()>) {
        self.savepoints.retain(|savepoint| savepoint.strong_count() > 0);
        if self.savepoints.is_empty() {
            self.first += self.replaced.len();
            self.replaced.clear();
        }
        self.logged.clear();
        let token = Arc::new(());
        self.savepoints.push(Arc::downgrade(&token));
        (self.first + self.replaced.len(), token)
    }

    pub(super) fn roll_back(&mut self, position: usize) {
        while self.first + self.replaced.len() > position {
            match self.replaced.pop() {
                Some((place, Some(old))) => drop(self.by_place.insert(place, old)),
                Some((place, None)) => drop(self.by_place.remove(&place)),
                None => break,
            }
        }
        self.logged.clear();
    }

    /// The changes that were not the same at a position of the log.
    pub(super) fn since(&self, position: usize) -> BTreeMap<String, Entry> {
        let mut before: BTreeMap<&str, Option<Entry>> = BTreeMap::new();
        for (place, old) in self.replaced.iter().skip(position.saturating_sub(self.first)) {
            before.entry(place).or_insert(*old);
        }
        let changed = before.into_iter().filter_map(|(place, old)| {
            let now = *self.by_place.get(place)?;
            (old != Some(now)).then(|| (place.to_owned(), now))
        });
        changed.collect()
    }
}

/// A state of a transaction to which it can be rolled back.
pub struct Savepoint {
    /// A position in the log of [`Entries`].
    pub(super) position: usize,
    /// Keeps the log from that position on.
    pub(super) _token: Arc<()>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> Entry {
        Entry::Staged(n, FileType::RegularFile)
    }

    /// Compares the log with copies of all entries.
    #[test]
    fn the_log_leads_back_as_a_copy_would() {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for _ in 0..200 {
            let mut entries = Entries::default();
            let mut saved: Vec<(usize, Arc<()>, BTreeMap<String, Entry>)> = Vec::new();
            for n in 0..60 {
                let place = below(6).to_string();
                match below(8) {
                    0 => {
                        let (position, token) = entries.position();
                        saved.push((position, token, entries.by_place.clone()));
                    }
                    1 => {
                        if let Some((position, _, before)) = saved.pop() {
                            let changed: BTreeMap<String, Entry> = entries
                                .iter()
                                .filter(|(place, entry)| before.get(*place) != Some(*entry))
                                .map(|(place, entry)| (place.clone(), *entry))
                                .collect();
                            assert_eq!(entries.since(position), changed);
                            entries.roll_back(position);
                            assert_eq!(entries.by_place, before);
                        }
                    }
                    2 => drop(saved.pop()),
                    3 | 4 => entries.remove(&place),
                    _ => entries.insert(place, entry(n)),
                }
            }
        }
    }

    #[test]
    fn the_log_stays_small() {
        let mut entries = Entries::default();
        for n in 0..10_000 {
            let (position, token) = entries.position();
            (0..10).for_each(|_| entries.insert("a".to_owned(), entry(n)));
            assert_eq!(entries.since(position).len(), 1);
            drop(token);
        }
        assert!(entries.replaced.len() <= 1);
    }
}
