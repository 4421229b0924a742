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

use rustix::fs::{AtFlags, OFlags, Stat};

use super::diff::{self, Side};
use super::disk::{self, Spot};
use super::manifest::{Change, Image, Kind, Manifest, Placed, net};
use super::quota::Quota;
use super::seal::Key;
use super::sealed::{self, Found};
use super::stamp::is_same;
use super::transaction::{CommitError, Purpose, Transaction};
use super::{DIFF_TIME, OWN, Overlay, Workspace, own, stamp};
use cofferdam_core::policy::Retention;

/// Where manifests are kept, in the host's own directory.
pub(super) const DIRECTORY: &str = "history";

/// What the marks of names are for.
const NAME: &str = "history";

/// How many of the latest commits have to say that another one is too old.
const WITNESSES: usize = 10;

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

    /// As [`read`](Self::read), of what was kept beside the history.
    fn kept(images: &OwnedFd, image: &Image) -> io::Result<Self> {
        if matches!(image.kind, Kind::File | Kind::Link) {
            check_kept(images, &image.name, |stat| image.is(stat))?;
        }
        Self::read(images, &image.name, image)
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

    /// The bytes of a file, or the target of a link.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::File { bytes, .. } => bytes,
            Self::Link(target) => target,
        }
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

/// Checks that what has a name beside the history is what the host kept there: a `git pull` or an
/// archive may have brought something else.
fn check_kept(images: &OwnedFd, name: &str, is_kept: impl FnOnce(&Stat) -> bool) -> io::Result<()> {
    match disk::look(images, name)? {
        Some(stat) if is_kept(&stat) => Ok(()),
        found => {
            let what = if found.is_some() { "is not what this host kept" } else { "is gone" };
            Err(io::Error::other(format!(
                "{OWN}/{IMAGES}/{name} {what}, so its commit can't be shown or undone"
            )))
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
            check_kept(images, &before.name, |stat| before.is(stat))?;
            let mut rest = open(&before.name)?;
            rest.seek(io::SeekFrom::Start(*until))?;
            Box::new(open(&before.name)?.take(*at).chain(text.as_bytes()).chain(rest))
        }
        None => {
            let name = after.copy_name();
            check_kept(images, &name, |stat| after.is_copy(stat))?;
            Box::new(open(&name)?)
        }
    })
}

/// The name of a commit's manifest: its place among the commits and its id and, so that nothing has
/// to be opened to count, how much room its images take. The mark says that a host with the key
/// gave the name.
pub(super) fn name_of(manifest: &Manifest, key: &Key) -> String {
    let stem = format!("{:010}.{}.{}", manifest.sequence, manifest.id, manifest.size());
    format!("{stem}.{}.json", key.mark(NAME, &stem))
}

/// The sequence of the latest commit that is kept; 0 where none is.
pub(super) fn latest_sequence(history: &OwnedFd, key: &Key) -> io::Result<u64> {
    Ok(kept(history, key)?.0.last().map_or(0, |latest| latest.sequence))
}

/// A commit by the name of its manifest.
struct Kept {
    name: String,
    sequence: u64,
    id: String,
    bytes: u64,
}

impl Kept {
    /// The commit of a name that a host with the key gave.
    fn of(name: String, key: &Key) -> Result<Self, String> {
        let parts = || {
            let (stem, mark) = name.strip_suffix(".json")?.rsplit_once('.')?;
            let mut parts = stem.split('.');
            let (sequence, id, bytes) = (parts.next()?, parts.next()?, parts.next()?);
            let parsed = (sequence.parse().ok()?, id.to_owned(), bytes.parse().ok()?);
            key.is_mark(NAME, stem, mark).then_some(parsed)
        };
        match parts() {
            Some((sequence, id, bytes)) => Ok(Self { name, sequence, id, bytes }),
            None => Err(name),
        }
    }

    /// When it was made, in seconds since the epoch.
    fn time(&self) -> u64 {
        let made = uuid::Uuid::parse_str(&self.id).ok().and_then(|id| id.get_timestamp());
        made.map_or(0, |time| time.to_unix().0)
    }
}

/// The directories of the history.
struct Rooms {
    manifests: OwnedFd,
    images: OwnedFd,
    key: Key,
}

impl Rooms {
    /// The commits that are kept, oldest first. Others' files are left alone.
    fn kept(&self) -> io::Result<Vec<Kept>> {
        let (kept, others) = kept(&self.manifests, &self.key)?;
        if let Some(first) = others.first() {
            tracing::warn!(
                "{OWN}/{DIRECTORY} has {} files that no host of this user wrote for this workspace, \
                 such as {first}: they are not listed and not undone; move them away",
                others.len()
            );
        }
        Ok(kept)
    }

    fn read(&self, kept: &Kept) -> Result<Manifest, HistoryError> {
        let unreadable = |reason: &str| {
            io::Error::other(format!(
                "what the commit {} has changed can't be read, so it can't be shown or undone: \
                 {reason} ({OWN}/{DIRECTORY}/{}); other commits can be, by their ids",
                kept.id, kept.name
            ))
        };
        match sealed::read(&self.manifests, &kept.name, &self.key)? {
            Found::Whole(manifest) if name_of(&manifest, &self.key) == kept.name => Ok(*manifest),
            Found::Whole(_) => Err(unreadable("the file has another one's name").into()),
            Found::Unreadable { reason, .. } => Err(unreadable(&reason).into()),
            Found::Foreign => Err(unreadable("it is damaged, or nothing was written").into()),
            Found::Nothing => Err(unreadable("it was removed meanwhile").into()),
        }
    }

    /// The latest commit that has not been undone.
    fn latest(&self, kept: &[Kept]) -> Result<Option<Manifest>, HistoryError> {
        let mut undone = BTreeSet::new();
        for commit in kept.iter().rev() {
            let manifest = self.read(commit)?;
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

    /// Removes a commit; its manifest at last, so that whoever comes after a crash can go on.
    fn remove(&self, commit: &Kept) -> io::Result<()> {
        let images: Vec<String> = match self.read(commit) {
            Ok(manifest) => manifest.images().collect(),
            // It is damaged: by their names, then.
            Err(_) => {
                let is_its = |name: &String| name.split('.').next() == Some(&commit.id);
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
        let kept = rooms.kept()?;
        let from = kept.len().saturating_sub(latest);
        kept[from..].iter().map(|kept| rooms.read(kept)).collect()
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
                Some(image) => Content::kept(&images, image)?,
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

    /// Removes what is kept beyond the retention, by number and size first. The latest commit stays
    /// however large it is, unless nothing is to be kept.
    ///
    /// By age, a commit goes once the clock and each of the [`WITNESSES`] latest commits say that
    /// it is too old: those stay, and a clock that is wrong for a few calls drops nothing.
    ///
    /// # Errors
    /// A history that can't be written.
    pub fn prune(&self, retention: &Retention) -> Result<(), HistoryError> {
        let Some(rooms) = self.open()? else { return Ok(()) };
        let now = u64::try_from(stamp::present().as_second()).unwrap_or(0);
        let kept = rooms.kept()?;
        let witnesses = kept.iter().rev().take(WITNESSES).map(Kept::time);
        let now = witnesses.min().map_or(now, |earliest| earliest.min(now));
        let mut bytes = 0_u64;
        for (index, commit) in kept.iter().rev().enumerate() {
            bytes = bytes.saturating_add(commit.bytes);
            let age = Duration::from_secs(now.saturating_sub(commit.time()));
            let fits = bytes <= retention.bytes || (index == 0 && retention.bytes > 0);
            let is_young = index < WITNESSES || age <= retention.age;
            if index >= retention.commits || !fits || !is_young {
                rooms.remove(commit)?;
            }
        }
        Ok(())
    }

    fn open(&self) -> io::Result<Option<Rooms>> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(None) };
        let manifests = own::existing_directory(&own, DIRECTORY)?;
        let images = own::existing_directory(&own, IMAGES)?;
        let key = own.key().clone();
        Ok(manifests.zip(images).map(|(manifests, images)| Rooms { manifests, images, key }))
    }

    /// A commit and the directory with the images; where none is named, the latest one that has
    /// not been undone, so that one undo after the other goes back step by step.
    fn find(&self, id: Option<&str>) -> Result<(Manifest, OwnedFd), HistoryError> {
        let name = id.unwrap_or("to undo");
        let unknown = || HistoryError::Unknown(name.to_owned());
        let rooms = self.open()?.ok_or_else(unknown)?;
        let kept = rooms.kept()?;
        let manifest = match id {
            None => rooms.latest(&kept)?.ok_or_else(unknown)?,
            Some(id) => {
                let mut matching = kept.iter().filter(|kept| kept.id.starts_with(id));
                let first = matching.next();
                if matching.next().is_some() {
                    return Err(HistoryError::Ambiguous(id.to_owned()));
                }
                rooms.read(first.ok_or_else(unknown)?)?
            }
        };
        Ok((manifest, rooms.images))
    }
}

/// The commits that a history has, oldest first, and the names of what no host with the key wrote.
fn kept(history: &OwnedFd, key: &Key) -> io::Result<(Vec<Kept>, Vec<String>)> {
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for entry in disk::entries(history)? {
        let name = entry?.name.into_string();
        let name = name.map_err(|name| name.to_string_lossy().into_owned());
        match name.and_then(|name| Kept::of(name, key)) {
            Ok(commit) => kept.push(commit),
            Err(name) => others.push(name),
        }
    }
    kept.sort_unstable_by(|left, right| {
        (left.sequence, &left.id).cmp(&(right.sequence, &right.id))
    });
    Ok((kept, others))
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
                check_kept(images, &image.name, |stat| image.is(stat))?;
                let file = disk::open(images, &image.name, OFlags::RDONLY)?;
                overlay.restore(path, &file.into(), &quota)?;
            }
            Kind::Link => {
                check_kept(images, &image.name, |stat| image.is(stat))?;
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
