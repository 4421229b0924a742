//! What a commit changes, written to a file before it is done: `manifest.json` in the staging
//! directory, with the images of changed files beside it; later in the history.
//!
//! [`commit_file`] defines the format of the file.
//!
//! [`commit_file`]: crate::commit_file

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use cofferdam_core::policy::{Place, protected};
use jiff::Timestamp;
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::disk::StatFields as _;
use crate::session_name::SessionName;
use crate::{clock, disk, path};

/// The end of the name of a new file's copy.
pub(crate) const COPY_SUFFIX: &str = ".after";

/// The id of a commit, as text: a UUID of version 7.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(String);

impl CommitId {
    /// Creates an id that contains the current time.
    pub(crate) fn new() -> Self {
        let present = clock::present();
        let seconds = u64::try_from(present.as_second()).unwrap_or(0);
        let rest = u32::try_from(present.subsec_nanosecond()).unwrap_or(0);
        let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, rest);
        Self(uuid::Uuid::new_v7(time).to_string())
    }

    /// The time at which it was created, in seconds since the epoch; 0 if it contains none.
    pub(crate) fn time(&self) -> u64 {
        let time = uuid::Uuid::parse_str(&self.0).ok().and_then(|id| id.get_timestamp());
        time.map_or(0, |time| time.to_unix().0)
    }
}

impl From<&str> for CommitId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Deref for CommitId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of changes to the workspace that are made together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The id, by which users and the journal refer to the commit.
    pub id: CommitId,
    /// Its number among the workspace's commits. They are ordered by it, not by a clock.
    pub(crate) sequence: u64,
    /// When it was made.
    pub time: Timestamp,
    /// The calls whose changes it contains, by their ids in the journal.
    pub calls: Vec<String>,
    /// The commit that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<CommitId>,
    /// In the order in which they are made. A path may occur twice: its old file is removed before
    /// one of another kind is placed.
    pub changes: Vec<Change>,
    /// The directories whose entries change, for their times.
    pub(crate) directories: Vec<DirectoryTimes>,
    /// Paths that another program had changed before recovery, and that were left unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// Of a commit that is held: the proposal that it is a revision of. It was not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<Held>,
    /// The proposal of which it applies something, and who accepted that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts: Option<Accepted>,
}

/// Which proposal a held commit is a revision of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The id of the proposal, which is the same in all revisions.
    pub proposal: CommitId,
    /// Counted from 1.
    pub revision: u64,
    /// Who proposes it.
    pub author: Author,
    /// The revision counts only if this commit was made: what it accepted is left out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<CommitId>,
}

/// Who proposes a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The session, by its name.
    pub session: SessionName,
    /// The client, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The role of the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The qualified names of the tools, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// A proposal that was accepted, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The id of the proposal.
    pub proposal: CommitId,
    /// Who accepted it.
    pub reviewer: String,
}

/// One change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace.
    pub path: String,
    /// The old file; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Image>,
    /// The new file; `None` if the old one is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Image>,
}

/// A file, directory or link, kept under a name that begins with its commit's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub(crate) name: String,
    /// Whether it is a file, a directory or a link.
    pub kind: Kind,
    /// The permission bits, without the file type.
    pub mode: u32,
    /// The size of the content, in bytes.
    pub size: u64,
    pub(crate) inode: u64,
    /// The modification time, in nanoseconds since the epoch.
    pub(crate) modified: i64,
    /// The content of a new file, if it is contained here; of other new files there is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) placed: Option<Placed>,
    /// The copy of a new file whose content is not contained here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copy: Option<CopyIdentity>,
}

/// Identifies the copy of a new file, which has the file's size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyIdentity {
    inode: u64,
    /// The modification time, in nanoseconds since the epoch.
    modified: i64,
}

impl CopyIdentity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { inode: stat.st_ino, modified: disk::modified(stat) }
    }
}

/// The content of a new file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placed {
    /// The whole content of a file, or the target of a link.
    Text(String),
    /// The old file, with `text` in place of its bytes from `at` to before `until`.
    Edit { at: u64, until: u64, text: String },
}

impl Placed {
    /// The text that is part of the commit's file.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Edit { text, .. } => text,
        }
    }
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file, with its content.
    File,
    /// A directory, without its entries.
    Directory,
    /// A symbolic link, with its target.
    Link,
    /// A FIFO, a device or a socket.
    Other,
}

/// The modification times of a directory, in nanoseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryTimes {
    pub(crate) path: String,
    /// Before the commit; 0: the directory did not exist.
    pub(crate) before: i64,
    /// When the commit was made.
    pub(crate) after: i64,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

impl Image {
    pub(crate) fn of(stat: &Stat, name: String) -> Self {
        Self {
            name,
            kind: disk::file_type(stat).into(),
            mode: stat.mode() & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            modified: disk::modified(stat),
            placed: None,
            copy: None,
        }
    }

    /// Returns the name of the copy of a new file, if there is one.
    pub(crate) fn kept_copy(&self) -> Option<String> {
        (self.kind == Kind::File && self.placed.is_none()).then(|| self.copy_name())
    }

    /// Returns the name of a copy beside the image itself.
    pub(crate) fn copy_name(&self) -> String {
        format!("{}{COPY_SUFFIX}", self.name)
    }

    /// Whether `stat` describes the copy of this new file, and it was not written since.
    pub(crate) fn is_copy(&self, stat: &Stat) -> bool {
        Kind::from(disk::file_type(stat)) == Kind::File
            && u64::try_from(stat.st_size) == Ok(self.size)
            && self.copy.as_ref() == Some(&CopyIdentity::of(stat))
    }

    /// Whether `stat` describes this file, and it was not written since. The size and times of a
    /// directory are not compared: they change with its entries.
    pub(crate) fn is(&self, stat: &Stat) -> bool {
        let other = Self::of(stat, String::new());
        self.kind == other.kind
            && self.inode == other.inode
            && (self.kind == Kind::Directory
                || (self.size == other.size && self.modified == other.modified))
    }
}

impl Commit {
    /// Creates a commit that has no sequence number yet.
    pub(crate) fn new(
        id: CommitId,
        calls: Vec<String>,
        undoes: Option<CommitId>,
        changes: Vec<Change>,
        directories: Vec<DirectoryTimes>,
    ) -> Self {
        Self {
            id,
            sequence: 0,
            time: clock::present(),
            calls,
            undoes,
            changes,
            directories,
            conflicts: Vec::new(),
            held: None,
            accepts: None,
        }
    }

    /// Removes changes, by their indices, and lists their paths as conflicts.
    pub(crate) fn leave_out(&mut self, conflicts: &[usize]) {
        let mut index = 0;
        self.changes.retain(|change| {
            let is_left = conflicts.contains(&index);
            index += 1;
            if is_left {
                self.conflicts.push(change.path.clone());
            }
            !is_left
        });
        let parents = parents(&self.changes);
        self.directories.retain(|directory| parents.contains(directory.path.as_str()));
    }

    /// Checks that the commit changes no place that calls may not change, and that its images have
    /// names in their directory.
    ///
    /// # Errors
    /// The first violation, as text.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_name = |name: &str| {
            !name.starts_with('.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        };
        if self.id.is_empty() || self.id.contains('.') || !is_name(&self.id) {
            return Err("a manifest without a proper id".to_owned());
        }
        let is_allowed = |path: &str| {
            path::check(path).is_ok()
                && Place::new(path).is_ok_and(|place| place == path)
                && protected(path).is_none()
        };
        for Change { path, before, after } in &self.changes {
            if path.is_empty() || !is_allowed(path) {
                return Err(format!("a manifest that changes {path:?}"));
            }
            let is_own = |image: &Image| {
                let number = image.name.strip_prefix(&*self.id);
                number.is_some_and(|number| number.starts_with('.')) && is_name(&image.name)
            };
            if !before.iter().chain(after).all(is_own) {
                return Err(format!("a manifest with an image of {path:?} elsewhere"));
            }
        }
        let parents = parents(&self.changes);
        for DirectoryTimes { path, .. } in &self.directories {
            if !parents.contains(path.as_str()) || !(path.is_empty() || is_allowed(path)) {
                return Err(format!("a manifest that sets the time of {path:?}"));
            }
        }
        Ok(())
    }

    /// Returns the names of the images that are kept beside the commit's file in the history.
    pub(crate) fn images(&self) -> impl Iterator<Item = String> {
        self.changes.iter().flat_map(|Change { before, after, .. }| {
            let before = before.as_ref().map(|image| image.name.clone());
            before.into_iter().chain(after.as_ref().and_then(Image::kept_copy))
        })
    }

    /// Returns the size of all images of files, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let images =
            self.changes.iter().flat_map(|change| change.before.iter().chain(&change.after));
        images.filter(|image| image.kind == Kind::File).map(|image| image.size).sum()
    }
}

/// Returns the directories whose entries change.
pub(crate) fn parents(changes: &[Change]) -> BTreeSet<&str> {
    changes.iter().map(|change| disk::split(&change.path).0).collect()
}

/// The state of each path before all changes and after them.
pub(crate) type Net<'a> = BTreeMap<&'a str, (Option<&'a Image>, Option<&'a Image>)>;

/// Combines the changes of each path into one.
pub(crate) fn net(changes: &[Change]) -> Net<'_> {
    let mut net = Net::new();
    for change in changes {
        let entry = net.entry(change.path.as_str()).or_insert((change.before.as_ref(), None));
        entry.1 = change.after.as_ref();
    }
    net
}

/// Returns the paths of a commit, each with `created`, `changed` or `removed`.
pub fn summary(changes: &[Change]) -> Vec<(&str, &'static str)> {
    let word = |(before, after): (Option<&Image>, Option<&Image>)| match (before, after) {
        (None, _) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
    };
    net(changes).into_iter().map(|(path, sides)| (path, word(sides))).collect()
}
