//! The directories of the history: the files of its commits, and their images.
//!
//! The images are in a directory apart, so that commits can be listed without them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use cofferdam_core::policy::OWN;
use rustix::fs::AtFlags;

use crate::commit::{Commit, CommitId};
use crate::commit_file::{self, StoredCommit};
use crate::disk;
use crate::layout::{HISTORY, IMAGES};
use crate::own::{self, Own};
use crate::seal::Key;

/// The domain of the marks in file names.
const NAME_DOMAIN: &str = "history";

/// A commit in the history, parsed from the name of its file.
pub(crate) struct HistoryEntry {
    name: String,
    sequence: u64,
    pub(crate) id: CommitId,
    /// The size of its images, in bytes.
    pub(crate) bytes: u64,
}

impl HistoryEntry {
    /// Parses a file name; returns the name if no host with the key made it.
    fn of(name: String, key: &Key) -> Result<Self, String> {
        let parts = || {
            let (stem, mark) = name.strip_suffix(".json")?.rsplit_once('.')?;
            let mut parts = stem.split('.');
            let (sequence, id, bytes) = (parts.next()?, parts.next()?, parts.next()?);
            let parsed = (sequence.parse().ok()?, CommitId::from(id), bytes.parse().ok()?);
            key.is_mark(NAME_DOMAIN, stem, mark).then_some(parsed)
        };
        match parts() {
            Some((sequence, id, bytes)) => Ok(Self { name, sequence, id, bytes }),
            None => Err(name),
        }
    }
}

/// Returns the name of a commit's file in the history: sequence number, id, size of the images (so
/// that nothing has to be opened to add them up), and a mark, which shows that a host with the key
/// made the name.
pub(crate) fn name_of(commit: &Commit, key: &Key) -> String {
    let stem = format!("{:010}.{}.{}", commit.sequence, commit.id, commit.size());
    let mark = key.mark(NAME_DOMAIN, &stem);
    format!("{stem}.{mark}.json")
}

/// Returns the highest sequence number in a history; 0 if it has no commits.
pub(crate) fn latest_sequence(history: &OwnedFd, key: &Key) -> io::Result<u64> {
    Ok(entries(history, key)?.0.last().map_or(0, |latest| latest.sequence))
}

/// The directories of the history, open.
pub(crate) struct HistoryDirs {
    commits: OwnedFd,
    pub(crate) images: OwnedFd,
    key: Key,
}

impl HistoryDirs {
    /// Opens the directories, if they exist.
    pub(crate) fn open(own: &Own) -> io::Result<Option<Self>> {
        let commits = own::existing_directory(own, HISTORY)?;
        let images = own::existing_directory(own, IMAGES)?;
        let key = own.key().clone();
        Ok(commits.zip(images).map(|(commits, images)| Self { commits, images, key }))
    }

    /// Returns the commits, oldest first. Files that no host with the key wrote are ignored, with a
    /// warning.
    pub(crate) fn entries(&self) -> io::Result<Vec<HistoryEntry>> {
        let (kept, others) = entries(&self.commits, &self.key)?;
        if let Some(first) = others.first() {
            tracing::warn!(
                "{OWN}/{HISTORY} has {} files that no host of this user wrote for this workspace, \
                 such as {first}: they are not listed and not undone; move them away",
                others.len()
            );
        }
        Ok(kept)
    }

    pub(crate) fn read(&self, entry: &HistoryEntry) -> io::Result<Commit> {
        let unreadable = |reason: &str| {
            Err(io::Error::other(format!(
                "what the commit {} has changed can't be read, so it can't be shown or undone: \
                 {reason} ({OWN}/{HISTORY}/{}); other commits can be, by their ids",
                entry.id, entry.name
            )))
        };
        match commit_file::read(&self.commits, &entry.name, &self.key)? {
            StoredCommit::Valid(commit) if name_of(&commit, &self.key) == entry.name => Ok(*commit),
            StoredCommit::Valid(_) => unreadable("the file belongs to another commit"),
            StoredCommit::Unreadable { reason, .. } => unreadable(&reason),
            StoredCommit::Foreign => unreadable("it is damaged, or nothing was written"),
            StoredCommit::Missing => unreadable("it was removed meanwhile"),
        }
    }

    /// Returns the commits that have not been undone, newest first, without undos, as far as `is_own`
    /// includes them.
    pub(crate) fn not_undone(
        &self,
        entries: &[HistoryEntry],
        is_own: impl Fn(&CommitId) -> bool,
    ) -> impl Iterator<Item = io::Result<Commit>> {
        let mut undone = BTreeSet::new();
        entries.iter().rev().filter_map(move |entry| {
            let is_own = is_own(&entry.id);
            match self.read(entry) {
                // An undo that was undone has no effect any more.
                Ok(commit) if undone.contains(&commit.id) => None,
                Ok(Commit { undoes: Some(id), .. }) => {
                    undone.insert(id);
                    None
                }
                read => is_own.then_some(read),
            }
        })
    }

    /// Removes a commit, its file last, so that a removal that was interrupted can be repeated.
    pub(crate) fn remove(&self, entry: &HistoryEntry) -> io::Result<()> {
        let images: Vec<String> = match self.read(entry) {
            Ok(commit) => commit.images().collect(),
            // The file is damaged, so find the images by their names.
            Err(_) => {
                let is_its = |name: &String| name.split('.').next() == Some(&*entry.id);
                let names = disk::entries(&self.images)?.filter_map(|entry| {
                    entry.map(|entry| entry.name.into_string().ok().filter(is_its)).transpose()
                });
                names.collect::<io::Result<_>>()?
            }
        };
        for image in images {
            disk::remove_all(&self.images, &image)?;
        }
        disk::remove(&self.commits, &entry.name, AtFlags::empty())
    }
}

/// Returns the commits of a history, oldest first, and the names of the files that no host with the
/// key wrote.
fn entries(history: &OwnedFd, key: &Key) -> io::Result<(Vec<HistoryEntry>, Vec<String>)> {
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for entry in disk::entries(history)? {
        let name = entry?.name.into_string();
        let name = name.map_err(|name| name.to_string_lossy().into_owned());
        match name.and_then(|name| HistoryEntry::of(name, key)) {
            Ok(entry) => kept.push(entry),
            Err(name) => others.push(name),
        }
    }
    kept.sort_unstable_by(|left, right| {
        (left.sequence, &left.id).cmp(&(right.sequence, &right.id))
    });
    Ok((kept, others))
}
