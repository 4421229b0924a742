//! The commits that are kept: what they changed, and taking one back.
//!
//! A commit is its manifest and, in a directory of their own, the images that it names, so that
//! the commits can be listed without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, OFlags};

use super::diff::{self, Side};
use super::disk::{self, Spot};
use super::manifest::{Change, Image, Kind, Manifest, Placed, net};
use super::quota::Quota;
use super::stamp::is_same;
use super::transaction::{CommitError, Purpose, Transaction};
use super::{DIFF_TIME, Overlay, Workspace, own};
use crate::policy::Retention;

/// Where manifests are kept, in the host's own directory.
pub(super) const DIRECTORY: &str = "history";

/// Where what commits found and placed is kept.
pub(super) const IMAGES: &str = "images";

/// The history of a workspace.
pub struct History {
    workspace: Arc<Workspace>,
}

/// What can't be done with a commit.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no such commit.
    #[error(
        "there is no commit {0}, or it is not kept any more ([history] says how long it would \
         be); `cofferdam log --commits` lists all that were made"
    )]
    Unknown(String),
    /// Several commits begin like this.
    #[error("{0} is the beginning of several commits; write more of it")]
    Ambiguous(String),
    /// What a commit changed was changed again.
    #[error("changed since the commit, so it can't be undone: {}", .0.join(", "))]
    Changed(Vec<String>),
    /// It could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The system said no.
    #[error("the history: {0}")]
    Io(#[from] io::Error),
}

/// The content of one side of a change.
pub(super) enum Content {
    Nothing,
    File { executable: bool, bytes: Vec<u8> },
    Link(Vec<u8>),
}

impl Content {
    pub(super) fn read(directory: &OwnedFd, name: &str, image: &Image) -> io::Result<Self> {
        Ok(match image.kind {
            Kind::Directory | Kind::Other => Self::Nothing,
            Kind::Link => Self::Link(Spot::of(directory, name)?.read_link()?),
            Kind::File => {
                let mut bytes = Vec::new();
                let file: File = disk::open(directory, name, OFlags::RDONLY)?.into();
                file.take(image.size).read_to_end(&mut bytes)?;
                Self::File { executable: image.mode & 0o100 != 0, bytes }
            }
        })
    }

    fn placed(images: &OwnedFd, before: Option<&Image>, after: &Image) -> io::Result<Self> {
        if matches!(after.kind, Kind::Directory | Kind::Other) {
            return Ok(Self::Nothing);
        }
        let mut bytes = Vec::new();
        placed(images, before, after)?.take(after.size).read_to_end(&mut bytes)?;
        Ok(match after.kind {
            Kind::Link => Self::Link(bytes),
            _ => Self::File { executable: after.mode & 0o100 != 0, bytes },
        })
    }

    pub(super) fn side(&self) -> Side<'_> {
        match self {
            Self::Nothing => Side::Nothing,
            Self::File { executable, bytes } => {
                Side::File { executable: *executable, content: bytes }
            }
            Self::Link(target) => Side::Link { target },
        }
    }
}

/// The content of a file that a commit placed, or the target of a link. `before` is what it found.
fn placed<'a>(
    images: &OwnedFd,
    before: Option<&Image>,
    after: &'a Image,
) -> io::Result<Box<dyn io::Read + 'a>> {
    let open = |name: &str| disk::open(images, name, OFlags::RDONLY).map(File::from);
    Ok(match &after.placed {
        Some(Placed::Text(text)) => Box::new(text.as_bytes()),
        Some(Placed::Edit { at, until, text }) => {
            let before = before.ok_or(io::ErrorKind::InvalidData)?;
            let mut rest = open(&before.name)?;
            rest.seek(io::SeekFrom::Start(*until))?;
            Box::new(open(&before.name)?.take(*at).chain(text.as_bytes()).chain(rest))
        }
        None => Box::new(open(&after.copy_name())?),
    })
}

/// The name of a commit's manifest: its id and, so that nothing has to be opened to count, how
/// much room its images take.
pub(super) fn name_of(manifest: &Manifest) -> String {
    format!("{}.{}.json", manifest.id, manifest.size())
}

/// A commit by the name of its manifest.
struct Kept {
    name: String,
    bytes: u64,
}

impl Kept {
    fn id(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// How long ago it was made.
    fn age(&self) -> Duration {
        let made = uuid::Uuid::parse_str(self.id()).ok().and_then(|id| id.get_timestamp());
        let made = made.map_or(0, |time| time.to_unix().0);
        let now = jiff::Timestamp::now().as_second();
        Duration::from_secs(u64::try_from(now).unwrap_or(0).saturating_sub(made))
    }
}

/// The directories of the history.
struct Rooms {
    manifests: OwnedFd,
    images: OwnedFd,
}

impl Rooms {
    /// Removes a commit; its manifest at last, so that whoever comes after a crash can go on.
    fn remove(&self, commit: &Kept) -> io::Result<()> {
        let images: Vec<String> = match Manifest::read(&self.manifests, &commit.name) {
            Ok(Some(manifest)) => manifest.images().collect(),
            // It is damaged: by their names, then.
            _ => {
                let is_its = |name: &String| name.split('.').next() == Some(commit.id());
                let names = disk::entries(&self.images)?.filter_map(|entry| {
                    entry.map(|entry| entry.name.into_string().ok().filter(is_its)).transpose()
                });
                names.collect::<io::Result<_>>()?
            }
        };
        for image in images {
            disk::remove_all(&self.images, &image)?;
        }
        disk::remove(&self.manifests, &commit.name, AtFlags::empty())
    }
}

impl History {
    /// The history of a workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    /// The commits that are kept, oldest first; of those the `latest` ones.
    ///
    /// # Errors
    /// A history that can't be read.
    pub fn list(&self, latest: usize) -> Result<Vec<Manifest>, HistoryError> {
        let Some(rooms) = self.open()? else { return Ok(Vec::new()) };
        let kept = kept(&rooms.manifests)?;
        let from = kept.len().saturating_sub(latest);
        kept[from..].iter().map(|kept| read(&rooms.manifests, kept)).collect()
    }

    /// The unified diff of a commit, named by the beginning of its id.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], images that can't be read.
    pub fn diff(&self, id: &str) -> Result<Vec<u8>, HistoryError> {
        let (manifest, images) = self.find(Some(id))?;
        let deadline = Instant::now() + DIFF_TIME;
        let mut out = Vec::new();
        for (path, (before_image, after)) in net(&manifest.changes) {
            let before = match before_image {
                Some(image) => Content::read(&images, &image.name, image)?,
                None => Content::Nothing,
            };
            let after = match after {
                Some(image) => Content::placed(&images, before_image, image)?,
                None => Content::Nothing,
            };
            diff::render(path, before.side(), after.side(), deadline, &mut out);
        }
        Ok(out)
    }

    /// Takes a commit back, the latest one where none is named: everything that it changed
    /// becomes what it was, permissions and times included, as a commit of its own.
    ///
    /// # Errors
    /// [`HistoryError::Changed`], with the paths, where something was changed since; nothing is
    /// done then.
    pub fn undo(
        &self,
        transaction: Transaction,
        id: Option<&str>,
    ) -> Result<(Manifest, Option<Manifest>), HistoryError> {
        let (manifest, images) = self.find(id)?;
        let overlay = transaction.overlay();
        let changed = changed_since(overlay, &manifest, &images)?;
        if !changed.is_empty() {
            return Err(HistoryError::Changed(changed));
        }
        let directories = restore(overlay, &manifest, &images)?;
        let undoes = Some(manifest.id.clone());
        let done = transaction.commit(Purpose { calls: Vec::new(), undoes, directories })?;
        Ok((manifest, done))
    }

    /// Removes what is kept beyond the retention.
    ///
    /// # Errors
    /// A history that can't be written.
    pub fn prune(&self, retention: &Retention) -> Result<(), HistoryError> {
        let Some(rooms) = self.open()? else { return Ok(()) };
        let mut bytes = 0_u64;
        for (index, commit) in kept(&rooms.manifests)?.iter().rev().enumerate() {
            bytes = bytes.saturating_add(commit.bytes);
            let is_kept = index < retention.commits
                && bytes <= retention.bytes
                && commit.age() <= retention.age;
            if !is_kept {
                rooms.remove(commit)?;
            }
        }
        Ok(())
    }

    fn open(&self) -> io::Result<Option<Rooms>> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(None) };
        let manifests = own::existing_directory(&own, DIRECTORY)?;
        let images = own::existing_directory(&own, IMAGES)?;
        Ok(manifests.zip(images).map(|(manifests, images)| Rooms { manifests, images }))
    }

    /// A commit and the directory with the images; where none is named, the latest one that has
    /// not been undone, so that one undo after the other goes back step by step.
    fn find(&self, id: Option<&str>) -> Result<(Manifest, OwnedFd), HistoryError> {
        let name = id.unwrap_or("to undo");
        let unknown = || HistoryError::Unknown(name.to_owned());
        let Rooms { manifests, images } = self.open()?.ok_or_else(unknown)?;
        let kept = kept(&manifests)?;
        let manifest = match id {
            None => latest(&manifests, &kept)?.ok_or_else(unknown)?,
            Some(id) => {
                let mut matching = kept.iter().filter(|kept| kept.id().starts_with(id));
                let first = matching.next();
                if matching.next().is_some() {
                    return Err(HistoryError::Ambiguous(id.to_owned()));
                }
                read(&manifests, first.ok_or_else(unknown)?)?
            }
        };
        Ok((manifest, images))
    }
}

fn kept(history: &OwnedFd) -> io::Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for entry in disk::entries(history)? {
        let Ok(name) = entry?.name.into_string() else { continue };
        let bytes = name.strip_suffix(".json").and_then(|name| name.split_once('.'));
        if let Some(bytes) = bytes.and_then(|(_, bytes)| bytes.parse().ok()) {
            kept.push(Kept { name, bytes });
        }
    }
    kept.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(kept)
}

fn latest(history: &OwnedFd, kept: &[Kept]) -> Result<Option<Manifest>, HistoryError> {
    let mut undone = BTreeSet::new();
    for commit in kept.iter().rev() {
        let manifest = read(history, commit)?;
        match &manifest.undoes {
            // An undo that was undone has no effect any more.
            _ if undone.contains(&manifest.id) => {}
            Some(commit) => {
                undone.insert(commit.clone());
            }
            None => return Ok(Some(manifest)),
        }
    }
    Ok(None)
}

fn read(history: &OwnedFd, kept: &Kept) -> Result<Manifest, HistoryError> {
    Ok(Manifest::read(history, &kept.name)?.ok_or_else(|| {
        io::Error::other(format!("the commit {} has no manifest that can be read", kept.id()))
    })?)
}

/// The paths that are not as a commit left them, and why.
fn changed_since(
    overlay: &Overlay,
    manifest: &Manifest,
    images: &OwnedFd,
) -> io::Result<Vec<String>> {
    let mut changed = Vec::new();
    for (path, (before, after)) in net(&manifest.changes) {
        let there = match overlay.open_or_link(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
            there => Some(there?),
        };
        let what = match (after, there) {
            (None, None) => continue,
            (None, Some(_)) => "is there again",
            (Some(_), None) => "is gone",
            (Some(after), Some((stat, content))) => {
                let is_same = Kind::from(disk::file_type(&stat)) == after.kind
                    && match after.kind {
                        Kind::File | Kind::Link => {
                            is_same(content, placed(images, before, after)?)?
                        }
                        Kind::Directory | Kind::Other => true,
                    };
                let is_mode = after.kind != Kind::File || stat.st_mode & 0o7777 == after.mode;
                match (is_same, is_mode) {
                    (true, true) => continue,
                    (true, false) => "has other permissions",
                    (false, _) => "has other content",
                }
            }
        };
        changed.push(format!("{path} {what}"));
    }
    Ok(changed)
}

/// Stages what a commit found, and answers the times that directories had.
fn restore(
    overlay: &Overlay,
    manifest: &Manifest,
    images: &OwnedFd,
) -> Result<BTreeMap<String, i64>, HistoryError> {
    let quota = Quota::unlimited();
    let net = net(&manifest.changes);
    let is_directory = |image: &Option<&Image>| image.is_some_and(|i| i.kind == Kind::Directory);
    // What the commit placed goes first, from the deepest place up, ...
    for (path, (before, after)) in net.iter().rev() {
        match (before, after) {
            (before, Some(_)) if is_directory(after) && !is_directory(before) => {
                match overlay.remove_directory(path) {
                    // Somebody has put something of their own there.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    removed => removed?,
                }
            }
            (None, Some(_)) => overlay.remove_file(path)?,
            (before, Some(_)) if is_directory(before) && !is_directory(after) => {
                overlay.remove_file(path)?;
            }
            _ => {}
        }
    }
    // ... then what it found comes back, from the top down.
    let mut times = BTreeMap::new();
    for (path, (before, after)) in &net {
        let Some(image) = before else { continue };
        match image.kind {
            Kind::Directory => {
                if !is_directory(after) {
                    overlay.create_directory(path, &quota)?;
                    overlay.set_mode(path, image.mode)?;
                    overlay.set_modified(path, image.modified)?;
                }
            }
            Kind::File => {
                let file = disk::open(images, &image.name, OFlags::RDONLY)?;
                overlay.restore(path, &file.into(), &quota)?;
            }
            Kind::Link => {
                let target = Spot::of(images, &image.name)?.read_link()?;
                let target = String::from_utf8(target)
                    .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                if after.is_some() {
                    overlay.remove_file(path)?;
                }
                overlay.create_link(&target, path, &quota)?;
                overlay.set_modified(path, image.modified)?;
            }
            Kind::Other => {
                return Err(HistoryError::Changed(vec![format!(
                    "{path} was no regular file, directory or link"
                )]));
            }
        }
    }
    // A directory that nobody has touched since gets its time back.
    for directory in &manifest.directories {
        let now = overlay.disk_modified(&directory.path);
        if now == Some(directory.after) {
            times.insert(directory.path.clone(), directory.before);
        }
    }
    Ok(times)
}

/// The paths of a commit and what happened to each: `created`, `changed` or `removed`.
pub fn summary(changes: &[Change]) -> Vec<(&str, &'static str)> {
    let word = |(before, after): (Option<&Image>, Option<&Image>)| match (before, after) {
        (None, _) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
    };
    net(changes).into_iter().map(|(path, sides)| (path, word(sides))).collect()
}
