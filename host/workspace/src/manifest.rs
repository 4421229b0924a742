//! What a commit does, written down before it is done: `manifest.json` where transactions are
//! staged, with the images of changed files beside it; later in the history.
//!
//! [`sealed`] has the file's format. What can't be read again is not written.
//!
//! [`sealed`]: super::sealed

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use super::{disk, path, stamp};
use cofferdam_core::policy::protected;

/// The manifest's name where it is staged.
pub(super) const FILE: &str = "manifest.json";

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The commit's own name: a UUID of version 7.
    pub id: String,
    /// Its place among the workspace's commits. No clock has a say in it.
    pub(super) sequence: u64,
    /// When it was made.
    pub time: Timestamp,
    /// The calls whose changes it holds, by their ids in the journal.
    pub calls: Vec<String>,
    /// The commit that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// In the order in which they are made. A path may be here twice: what was there is removed
    /// before something of another kind is placed.
    pub changes: Vec<Change>,
    /// The directories whose entries change, for their times.
    pub(super) directories: Vec<Directory>,
    /// What recovery found changed by somebody else, and left as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
}

/// One change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace.
    pub path: String,
    /// What was there; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Image>,
    /// What is there now; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Image>,
}

/// A file, directory or link, kept under a name that begins with its commit's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub(super) name: String,
    /// What it is.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// In bytes.
    pub size: u64,
    pub(super) inode: u64,
    /// When it was last written, in nanoseconds since the epoch.
    pub(super) modified: i64,
    /// What a commit places, where it is told here; of other files there is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) placed: Option<Placed>,
    /// What the copy is that is kept of other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<Copy>,
}

/// A copy that is kept of a file of the same size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copy {
    inode: u64,
    /// When it was written, in nanoseconds since the epoch.
    modified: i64,
}

impl Copy {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { inode: stat.st_ino, modified: disk::modified(stat) }
    }
}

/// What a commit places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Placed {
    /// The whole content of a file, or the target of a link.
    Text(String),
    /// The file that was there, with `text` in place of its bytes from `at` to before `until`.
    Edit { at: u64, until: u64, text: String },
}

impl Placed {
    /// The text that is told.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Edit { text, .. } => text,
        }
    }
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a device or a socket.
    Other,
}

/// When a directory was last changed, in nanoseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory {
    pub(super) path: String,
    pub(super) before: i64,
    pub(super) after: i64,
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
    pub(super) fn of(stat: &Stat, name: String) -> Self {
        Self {
            name,
            kind: disk::file_type(stat).into(),
            mode: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            modified: disk::modified(stat),
            placed: None,
            copy: None,
        }
    }

    /// The name of the copy that is kept of what a commit places, if there is one.
    pub(super) fn kept_copy(&self) -> Option<String> {
        (self.kind == Kind::File && self.placed.is_none()).then(|| self.copy_name())
    }

    /// The name for a copy beside the image itself.
    pub(super) fn copy_name(&self) -> String {
        format!("{}.after", self.name)
    }

    /// Whether what was looked at is the copy that was kept.
    pub(super) fn is_copy(&self, stat: &Stat) -> bool {
        Kind::from(disk::file_type(stat)) == Kind::File
            && u64::try_from(stat.st_size) == Ok(self.size)
            && self.copy.as_ref() == Some(&Copy::of(stat))
    }

    /// Whether what was looked at is this, and was not written since. A directory's size and
    /// times say nothing about the directory itself.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        let other = Self::of(stat, String::new());
        self.kind == other.kind
            && self.inode == other.inode
            && (self.kind == Kind::Directory
                || (self.size == other.size && self.modified == other.modified))
    }
}

impl Manifest {
    /// A commit of changes, not numbered yet.
    pub(super) fn new(
        id: String,
        calls: Vec<String>,
        undoes: Option<String>,
        changes: Vec<Change>,
        directories: Vec<Directory>,
    ) -> Self {
        let conflicts = Vec::new();
        let time = stamp::present();
        Self { id, sequence: 0, time, calls, undoes, changes, directories, conflicts }
    }

    /// Leaves out changes, by their indices, of what another program has changed.
    pub(super) fn leave_out(&mut self, conflicts: &[usize]) {
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

    /// What a manifest says is not done to places that no call may change, and its names stay in
    /// their directory, wherever it came from.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_name = |name: &str| {
            !name.starts_with('.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        };
        if self.id.is_empty() || self.id.contains('.') || !is_name(&self.id) {
            return Err("a manifest without a proper id".to_owned());
        }
        let is_place = |place: &String| {
            path::by_names("", place).ok().flatten().as_ref() == Some(place)
                && protected(place).is_none()
        };
        for Change { path, before, after } in &self.changes {
            if path.is_empty() || !is_place(path) {
                return Err(format!("a manifest that changes {path:?}"));
            }
            let is_own = |image: &Image| {
                let number = image.name.strip_prefix(&self.id);
                number.is_some_and(|number| number.starts_with('.')) && is_name(&image.name)
            };
            if !before.iter().chain(after).all(is_own) {
                return Err(format!("a manifest with an image of {path:?} elsewhere"));
            }
        }
        let parents = parents(&self.changes);
        for Directory { path, .. } in &self.directories {
            if !parents.contains(path.as_str()) || !(path.is_empty() || is_place(path)) {
                return Err(format!("a manifest that sets the time of {path:?}"));
            }
        }
        Ok(())
    }

    /// The names of what is kept beside the manifest, once it is carried out.
    pub(super) fn images(&self) -> impl Iterator<Item = String> {
        self.changes.iter().flat_map(|Change { before, after, .. }| {
            let before = before.as_ref().map(|image| image.name.clone());
            before.into_iter().chain(after.as_ref().and_then(Image::kept_copy))
        })
    }

    /// How much room the images of files take, in bytes.
    pub(super) fn size(&self) -> u64 {
        let images =
            self.changes.iter().flat_map(|change| change.before.iter().chain(&change.after));
        images.filter(|image| image.kind == Kind::File).map(|image| image.size).sum()
    }
}

/// The directories whose entries change.
pub(super) fn parents(changes: &[Change]) -> BTreeSet<&str> {
    changes.iter().map(|change| disk::split(&change.path).0).collect()
}

/// What each path was before all of the changes and is after them.
pub(super) fn net(changes: &[Change]) -> BTreeMap<&str, (Option<&Image>, Option<&Image>)> {
    let mut net: BTreeMap<&str, (Option<&Image>, Option<&Image>)> = BTreeMap::new();
    for change in changes {
        let entry = net.entry(change.path.as_str()).or_insert((change.before.as_ref(), None));
        entry.1 = change.after.as_ref();
    }
    net
}
