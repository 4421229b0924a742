//! One transaction: staged changes that become one commit, or nothing.
//!
//! The protocol, in the directory of the transaction beneath `.cofferdam/transactions`:
//!
//! 1. The workspace is locked, and what another process left unfinished is finished.
//! 2. Every new file is staged there; all are synced, then the manifest is.
//! 3. What is to be changed is looked at again; then the manifest gets its name: **the commit**.
//! 4. Each change is one rename or exchange, and what comes out is looked at. A change that
//!    can't be made takes all of them back.
//! 5. The directory, which by now holds what was there before, moves to the history.
//!
//! A commit of one change needs no manifest on the disk to be whole: its rename is. It syncs the
//! new file only, as careful programs do.
//!
//! Recovery finds a directory without a manifest and removes it, or one with a manifest and goes
//! on at 4. Each change sees whether it was made, so recovery may die as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, OFlags, Stat};

use super::disk::{self, Spot};
use super::history::{self, Content};
use super::manifest::{Change, Directory, FILE, Image, Kind, Manifest};
use super::overlay::{Entry, Overlay, Savepoint, Staging};
use super::stamp::{digest, now};
use super::{DIFF_TIME, Workspace, diff};

/// Where transactions are staged, in the host's own directory.
const TRANSACTIONS: &str = "transactions";

/// What processes lock, in the host's own directory.
const LOCK: &str = "lock";

/// How often a locked workspace is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// Where a manifest of several changes is written before it counts.
const TEMPORARY: &str = "manifest.json.new";

/// The text of a file up to this size goes into the manifest, in bytes: a file less to make.
const SMALL: u64 = 4 << 10;

/// A file of at least this size is read while it is synced, in bytes.
const LARGE: u64 = 256 << 10;

/// How many files are synced at a time: the file system writes its log once for all of them.
const SYNCS: usize = 8;

/// Staged changes, with the workspace locked for them.
pub struct Transaction {
    overlay: Arc<Overlay>,
    id: String,
    transactions: Arc<OwnedFd>,
    history: OwnedFd,
    /// Whether the staging is the history's by now, or recovery's.
    is_handed_over: bool,
    /// Unlocks when it is closed.
    _lock: OwnedFd,
}

/// Why a transaction was not begun.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Somebody else has one.
    #[error(
        "somebody else has been changing the workspace for {:.1} s; one changes it at a time",
        .0.as_secs_f32()
    )]
    Busy(Duration),
    /// The system said no.
    #[error("the workspace can't be changed: {0}")]
    Io(#[from] io::Error),
}

/// Why a transaction was not committed. But for [`CommitError::Unfinished`], the workspace is as
/// it was.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed what the transaction has read or wanted to change.
    #[error("changed by somebody else meanwhile: {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// The system said no.
    #[error("{place}: {source}")]
    Io {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The system said no, and again when what was done by then should have been taken back.
    #[error(
        "{place}: {source}; the commit is half done, and the next call that changes something \
         finishes it"
    )]
    Unfinished {
        /// Where.
        place: String,
        /// Why it could not be taken back.
        source: io::Error,
    },
}

/// What a commit is told about itself.
#[derive(Debug, Default)]
pub struct Purpose {
    /// The calls whose changes it holds.
    pub calls: Vec<String>,
    /// The commit that it undoes.
    pub(super) undoes: Option<String>,
    /// The times that directories get, in nanoseconds since the epoch; others get the present.
    pub(super) directories: BTreeMap<String, i64>,
}

impl Purpose {
    /// The changes of calls.
    pub fn of(calls: Vec<String>) -> Self {
        Self { calls, ..Self::default() }
    }
}

/// Why one change was not made.
enum Trouble {
    Conflict,
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Transaction {
    /// Begins a transaction, after recovering what others left: those commits are answered as
    /// well. Waits within a tokio runtime while somebody else has one.
    ///
    /// # Errors
    /// A workspace that can't be written, whose recovery fails, or that is not free in time.
    pub async fn begin(
        workspace: &Arc<Workspace>,
        patience: Duration,
    ) -> Result<(Self, Vec<Manifest>), BeginError> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::try_begin(workspace)? {
                Some(begun) => return Ok(begun),
                None if Instant::now() >= deadline => return Err(BeginError::Busy(patience)),
                None => tokio::time::sleep(RETRY).await,
            }
        }
    }

    pub(super) fn try_begin(
        workspace: &Arc<Workspace>,
    ) -> io::Result<Option<(Self, Vec<Manifest>)>> {
        let own = workspace.own()?;
        let lock = open_lock(&own)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let transactions = Arc::new(directory(&own, TRANSACTIONS)?);
        // Where a commit goes in the end is looked at before there is one.
        let history = directory(&own, history::DIRECTORY)?;
        let recovered = recover(workspace, &history, &transactions)?;
        let id = uuid::Uuid::now_v7().to_string();
        let make = {
            let (id, transactions) = (id.clone(), Arc::clone(&transactions));
            move || {
                disk::create_directory(&transactions, &id, disk::OWNER_ONLY)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                Staging::new(disk::open(&transactions, &id, flags)?, None)
            }
        };
        let transaction = Self {
            overlay: Arc::new(Overlay::changing(Arc::clone(workspace.disk()), make)),
            id,
            transactions,
            history,
            is_handed_over: false,
            _lock: lock,
        };
        Ok(Some((transaction, recovered)))
    }

    /// The workspace with the changes.
    pub fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// A moment to go back to.
    pub fn savepoint(&self) -> Savepoint {
        self.overlay.savepoint()
    }

    /// Drops what was changed since.
    pub fn roll_back(&self, savepoint: Savepoint) {
        self.overlay.roll_back(savepoint);
    }

    /// What would be committed, as a unified diff.
    ///
    /// # Errors
    /// Files that can't be read; changes by somebody else.
    pub fn diff(&self) -> Result<Vec<u8>, CommitError> {
        let (changes, _) = self.plan()?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let io = |source| CommitError::Io { place: "the diff".to_owned(), source };
        let stage = self.overlay.stage().map_err(io)?;
        let deadline = Instant::now() + DIFF_TIME;
        let mut out = Vec::new();
        for (path, (before, after)) in net(&changes) {
            let before = before.map(|image| (self.overlay.disk(), path, image));
            let after = after.map(|image| (stage, image.name.as_str(), image));
            let [before, after] = [before, after].map(|side| match side {
                Some((directory, name, image)) => Content::read(directory, name, image),
                None => Ok(Content::Nothing),
            });
            let (before, after) = (before.map_err(io)?, after.map_err(io)?);
            diff::render(path, before.side(), after.side(), deadline, &mut out);
        }
        Ok(out)
    }

    /// Commits everything that was changed, or nothing. None where nothing was.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn commit(mut self, purpose: Purpose) -> Result<Option<Manifest>, CommitError> {
        let own = |source| CommitError::Io { place: super::OWN.to_owned(), source };
        let (mut changes, mut directories) = self.plan()?;
        if changes.is_empty() {
            return Ok(None);
        }
        let stage = self.overlay.stage().map_err(own)?;
        settle(stage, &mut changes)?;
        for directory in &mut directories {
            directory.after =
                purpose.directories.get(&directory.path).copied().unwrap_or(directory.after);
        }
        let Purpose { calls, undoes, .. } = purpose;
        let mut manifest = Manifest::new(self.id.clone(), calls, undoes, changes, directories);
        let is_single = manifest.changes.len() == 1;
        if is_single {
            self.plan()?;
            write_manifest(stage, FILE, &manifest).map_err(own)?;
        } else {
            write_manifest(stage, TEMPORARY, &manifest).and_then(disk::sync).map_err(own)?;
            disk::sync(stage).map_err(own)?;
            // The last moment at which there is nothing to take back.
            self.plan()?;
            disk::rename(stage, TEMPORARY, stage, FILE).map_err(own)?;
            disk::sync(stage).map_err(own)?;
        }
        let carried_out = carry_out(self.overlay.disk(), stage, &mut manifest, false);
        // Where the manifest stays, what it says is not over.
        self.is_handed_over = carried_out.is_ok() || disk::stat(stage, FILE).is_ok();
        carried_out?;
        let placed = manifest.changes.iter().filter(|change| change.after.is_some()).count();
        let is_tidy = placed == self.overlay.staged_inodes();
        let kept = finish(&self.history, &self.transactions, stage, &manifest, is_tidy);
        if let Err(error) = kept {
            // What was committed stays so; recovery moves it to the history.
            tracing::warn!("the commit {} is not in the history yet: {error}", self.id);
        }
        Ok(Some(manifest))
    }

    /// What has to be done to the disk, in order, and the directories that it changes.
    fn plan(&self) -> Result<(Vec<Change>, Vec<Directory>), CommitError> {
        let mut plan = Plan::new(&self.overlay);
        for (place, entry) in self.overlay.entries() {
            plan.add(&place, entry).map_err(|source| CommitError::Io { place, source })?;
        }
        if !plan.conflicts.is_empty() {
            return Err(CommitError::Conflict(plan.conflicts));
        }
        let Plan { mut removals, placements, .. } = plan;
        removals.extend(placements);
        let parents: BTreeSet<&str> =
            removals.iter().map(|change| disk::split(&change.path).0).collect();
        let net = net(&removals);
        let after = now();
        let directories = parents
            .into_iter()
            .map(|path| {
                let stat = disk::stat(self.overlay.disk(), path);
                let before = stat.map_or(0, |stat| disk::modified(&stat));
                let after = match net.get(path) {
                    // One of the transaction's own keeps the time that it has there.
                    Some((_, Some(image))) if image.kind == Kind::Directory => image.modified,
                    _ => after,
                };
                Directory { path: path.to_owned(), before, after }
            })
            .collect();
        Ok((removals, directories))
    }
}

impl Drop for Transaction {
    /// Removes what was staged and not committed.
    fn drop(&mut self) {
        let stage = if self.overlay.is_staged() { Some(self.overlay.stage()) } else { None };
        self.overlay.close();
        let Some(stage) = stage.filter(|_| !self.is_handed_over) else { return };
        let removed = stage.and_then(|stage| {
            disk::remove_all_in(stage.as_fd())?;
            disk::remove(&*self.transactions, &self.id, AtFlags::REMOVEDIR)
        });
        if let Err(error) = removed {
            tracing::warn!("the staging of {} is left for recovery: {error}", self.id);
        }
    }
}

/// Turns entries into changes, and compares the disk with what was seen.
struct Plan<'a> {
    overlay: &'a Overlay,
    removals: Vec<Change>,
    placements: Vec<Change>,
    conflicts: Vec<String>,
    /// Places whose entries hide what the disk has below.
    covers: Vec<String>,
}

impl<'a> Plan<'a> {
    fn new(overlay: &'a Overlay) -> Self {
        Self {
            overlay,
            removals: Vec::new(),
            placements: Vec::new(),
            conflicts: Vec::new(),
            covers: Vec::new(),
        }
    }

    /// Adds an entry; those of a directory come after the directory's own.
    fn add(&mut self, place: &str, entry: Entry) -> io::Result<()> {
        let is_covered = place.match_indices('/').any(|(end, _)| {
            self.covers.binary_search_by(|cover| (**cover).cmp(&place[..end])).is_ok()
        });
        let on_disk = if is_covered { None } else { self.look(place)? };
        self.covers.push(place.to_owned());
        let staged = match entry {
            Entry::Gone => None,
            Entry::Staged(id, kind) => {
                let stat = disk::stat(self.overlay.stage()?, &id.to_string())?;
                Some((Image::of(&stat, id.to_string()), kind))
            }
        };
        match (on_disk, staged) {
            (None, None) => {}
            (Some(stat), None) => self.remove_tree(place, &stat)?,
            (None, Some((after, _))) => self.place(place, None, after),
            (Some(stat), Some((after, kind))) => {
                let is_directory = |kind| kind == FileType::Directory;
                if is_directory(kind) || is_directory(disk::file_type(&stat)) {
                    self.remove_tree(place, &stat)?;
                    self.place(place, None, after);
                } else {
                    let before = Image::of(&stat, after.name.clone());
                    self.place(place, Some(before), after);
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, place: &str, before: Option<Image>, after: Image) {
        self.placements.push(Change { path: place.to_owned(), before, after: Some(after) });
    }

    /// What the disk has at a place; a conflict if that is not what was seen there.
    fn look(&mut self, place: &str) -> io::Result<Option<Stat>> {
        let stat = match disk::stat(self.overlay.disk(), place) {
            Ok(stat) => Some(stat),
            Err(error) if is_gone(&error) => None,
            Err(error) => return Err(error),
        };
        let holds = match (self.overlay.seen(place), &stat) {
            (Some(None), None) => true,
            (Some(Some(seen)), Some(stat)) => seen.holds(stat, || {
                disk::open(self.overlay.disk(), place, OFlags::RDONLY).map(File::from)
            })?,
            // Nobody looked: something of somebody else's.
            _ => false,
        };
        if !holds {
            self.conflicts.push(place.to_owned());
        }
        Ok(stat)
    }

    /// Removes what is on the disk, what is in a directory before the directory.
    fn remove_tree(&mut self, place: &str, stat: &Stat) -> io::Result<()> {
        if disk::file_type(stat) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let directory = disk::open(self.overlay.disk(), place, flags)?;
            for entry in disk::entries(&directory)? {
                let (name, _) = entry?;
                let Some(name) = name.to_str() else {
                    self.conflicts.push(format!("{place}/{}", name.display()));
                    continue;
                };
                let below = format!("{place}/{name}");
                if let Some(stat) = self.look(&below)? {
                    self.remove_tree(&below, &stat)?;
                }
            }
        }
        let name = format!("r{}", self.removals.len());
        let before = Some(Image::of(stat, name));
        self.removals.push(Change { path: place.to_owned(), before, after: None });
        Ok(())
    }
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

fn is_gone(error: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(error),
        Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP)
    )
}

/// Brings the staged files to the disk, takes their digests and keeps a copy of each for the
/// history; both while the disk is at work.
fn settle(stage: &OwnedFd, changes: &mut [Change]) -> Result<(), CommitError> {
    let mut images: Vec<(&str, &mut Image)> = changes
        .iter_mut()
        .filter_map(|change| Some((change.path.as_str(), change.after.as_mut()?)))
        .collect();
    let failed = |place: &str, source| CommitError::Io { place: place.to_owned(), source };
    if let [(place, image)] = &mut images[..] {
        if image.size < LARGE {
            return sync_image(stage, &image.name)
                .and_then(|()| record_image(stage, image))
                .map_err(|source| failed(place, source));
        }
        let name = image.name.clone();
        return std::thread::scope(|scope| {
            let sync = scope.spawn(|| sync_image(stage, &name));
            let recorded = record_image(stage, image);
            let synced = sync.join().unwrap_or_else(|_| Err(io::Error::other("no thread")));
            synced.and(recorded).map_err(|source| failed(place, source))
        });
    }
    let next = AtomicUsize::new(0);
    let slots: Vec<_> = images.iter_mut().map(std::sync::Mutex::new).collect();
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (place, image) = &mut **slot;
            sync_image(stage, &image.name)
                .and_then(|()| record_image(stage, image))
                .map_err(|source| failed(place, source))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SYNCS.min(slots.len())).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        results.try_for_each(|result| {
            result.unwrap_or_else(|_| Err(failed(super::OWN, io::Error::other("no thread"))))
        })
    })
}

fn sync_image(stage: &OwnedFd, name: &str) -> io::Result<()> {
    let stat = disk::stat(stage, name)?;
    match disk::file_type(&stat) {
        FileType::RegularFile | FileType::Directory => {
            disk::sync(disk::open(stage, name, OFlags::RDONLY)?)
        }
        _ => Ok(()),
    }
}

/// The name of the copy that the history keeps of what a commit placed.
pub(super) fn kept_copy(image: &Image) -> String {
    format!("{}.after", image.name)
}

fn record_image(stage: &OwnedFd, image: &mut Image) -> io::Result<()> {
    let content = match image.kind {
        Kind::File => {
            let mut file: File = disk::open(stage, &image.name, OFlags::RDONLY)?.into();
            if image.size <= SMALL {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                let content = digest(&bytes[..])?;
                match String::from_utf8(bytes) {
                    Ok(text) => image.text = Some(text),
                    Err(error) => {
                        disk::create(stage, &kept_copy(image))?.write_all(error.as_bytes())?;
                    }
                }
                content
            } else {
                let mut copy = disk::create(stage, &kept_copy(image))?;
                io::copy(&mut file, &mut copy)?;
                file.rewind()?;
                digest(file)?
            }
        }
        Kind::Link => digest(&Spot::of(stage, &image.name)?.read_link()?[..])?,
        Kind::Directory | Kind::Other => return Ok(()),
    };
    image.digest = Some(hex(&content));
    Ok(())
}

pub(super) fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn write_manifest(stage: &OwnedFd, name: &str, manifest: &Manifest) -> io::Result<File> {
    let mut file = disk::create(stage, name)?;
    file.write_all(&manifest.text()?)?;
    Ok(file)
}

/// Makes all changes of a manifest. Where one can't be made, takes all of them back; when
/// recovering, leaves what somebody else has changed as it is and notes it in the manifest.
fn carry_out(
    root: &OwnedFd,
    stage: &OwnedFd,
    manifest: &mut Manifest,
    recovering: bool,
) -> Result<(), CommitError> {
    let mut conflicts = Vec::new();
    for (index, change) in manifest.changes.iter().enumerate() {
        let trouble = match make(root, stage, change) {
            Ok(()) => continue,
            Err(Trouble::Conflict) if recovering => {
                conflicts.push(change.path.clone());
                continue;
            }
            Err(trouble) => trouble,
        };
        let place = change.path.clone();
        take_back(root, stage, &manifest.changes[..=index], &manifest.directories)?;
        return Err(match trouble {
            Trouble::Conflict => CommitError::Conflict(vec![place]),
            Trouble::Io(source) => CommitError::Io { place, source },
        });
    }
    for directory in &manifest.directories {
        let set = set_directory_time(root, &directory.path, directory.after);
        if let Err(error) = set.and_then(|()| sync_directory(root, &directory.path, manifest)) {
            // It is only a time, or a directory that somebody has removed by now.
            tracing::debug!("{}: {error}", directory.path);
        }
    }
    if !conflicts.is_empty() {
        manifest.changes.retain(|change| !conflicts.contains(&change.path));
        manifest.conflicts = conflicts;
        let place = super::OWN.to_owned();
        disk::remove(stage, TEMPORARY, AtFlags::empty())
            .and_then(|()| write_manifest(stage, TEMPORARY, manifest))
            .and_then(disk::sync)
            .and_then(|()| disk::rename(stage, TEMPORARY, stage, FILE))
            .map_err(|source| CommitError::Io { place, source })?;
    }
    Ok(())
}

fn set_directory_time(root: &OwnedFd, place: &str, time: i64) -> io::Result<()> {
    let directory = disk::open(root, place, OFlags::RDONLY | OFlags::DIRECTORY)?;
    disk::set_modified(&Spot::of(&directory, ".")?, time)
}

fn sync_directory(root: &OwnedFd, place: &str, manifest: &Manifest) -> io::Result<()> {
    if manifest.changes.len() == 1 {
        return Ok(());
    }
    disk::sync(disk::open(root, place, OFlags::RDONLY | OFlags::DIRECTORY)?)
}

/// What is at a spot, if anything is.
fn at(spot: &Spot<'_>) -> io::Result<Option<Stat>> {
    match spot.stat() {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The spot of a path of the workspace. A directory that is not there any more, or not one any
/// more, is somebody else's doing.
fn spot<'a>(root: &'a OwnedFd, path: &'a str) -> Result<Spot<'a>, Trouble> {
    Spot::of(root, path)
        .map_err(|error| if is_gone(&error) { Trouble::Conflict } else { Trouble::Io(error) })
}

/// Makes one change, unless it was made already.
fn make(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), Trouble> {
    let target = spot(root, &change.path)?;
    let there = at(&target)?;
    match (&change.before, &change.after) {
        (_, Some(after)) if there.as_ref().is_some_and(|stat| after.is(stat)) => Ok(()),
        (None, Some(after)) => {
            if there.is_some() {
                return Err(Trouble::Conflict);
            }
            match Spot::of(stage, &after.name)?.move_to(&target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(Trouble::Conflict)
                }
                moved => Ok(moved?),
            }
        }
        (Some(before), Some(after)) => {
            if !there.is_some_and(|stat| before.is(&stat)) {
                return Err(Trouble::Conflict);
            }
            let staged = Spot::of(stage, &after.name)?;
            staged.exchange(&target)?;
            if !before.is(&staged.stat()?) {
                // Somebody was faster.
                staged.exchange(&target)?;
                return Err(Trouble::Conflict);
            }
            Ok(())
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            if at(&kept)?.is_some_and(|stat| before.is(&stat)) {
                return Ok(());
            }
            if !there.is_some_and(|stat| before.is(&stat)) {
                return Err(Trouble::Conflict);
            }
            target.move_to(&kept)?;
            if before.is(&kept.stat()?) && is_empty(stage, before)? {
                Ok(())
            } else {
                kept.move_to(&target)?;
                Err(Trouble::Conflict)
            }
        }
        (None, None) => Ok(()),
    }
}

/// Whether a directory that was taken out is empty; anything else counts as such.
fn is_empty(stage: &OwnedFd, image: &Image) -> io::Result<bool> {
    if image.kind != Kind::Directory {
        return Ok(true);
    }
    let directory = disk::open(stage, &image.name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(disk::entries(&directory)?.next().is_none())
}

/// Takes back those of the changes that were made, the last one first, and with the manifest
/// the commit itself.
fn take_back(
    root: &OwnedFd,
    stage: &OwnedFd,
    changes: &[Change],
    directories: &[Directory],
) -> Result<(), CommitError> {
    for change in changes.iter().rev() {
        if let Err(Trouble::Io(source)) = unmake(root, stage, change) {
            // The manifest stays: recovery tries again.
            return Err(CommitError::Unfinished { place: change.path.clone(), source });
        }
    }
    for directory in directories.iter().filter(|directory| directory.before != 0) {
        // A time at most.
        let _ = set_directory_time(root, &directory.path, directory.before);
    }
    disk::remove(stage, FILE, AtFlags::empty())
        .map_err(|source| CommitError::Unfinished { place: super::OWN.to_owned(), source })
}

fn unmake(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), Trouble> {
    let target = match spot(root, &change.path) {
        // There is nothing of ours in a directory that is not there.
        Err(Trouble::Conflict) => return Ok(()),
        target => target?,
    };
    let there = at(&target)?;
    match (&change.before, &change.after) {
        (before, Some(after)) => {
            if !there.is_some_and(|stat| after.is(&stat)) {
                return Ok(());
            }
            let staged = Spot::of(stage, &after.name)?;
            match before {
                Some(_) => Ok(staged.exchange(&target)?),
                None => Ok(target.move_to(&staged)?),
            }
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            match (at(&kept)?, there) {
                (Some(stat), None) if before.is(&stat) => Ok(kept.move_to(&target)?),
                _ => Ok(()),
            }
        }
        (None, None) => Ok(()),
    }
}

/// Moves a finished transaction to the history.
fn finish(
    history: &OwnedFd,
    transactions: &OwnedFd,
    stage: &OwnedFd,
    manifest: &Manifest,
    is_tidy: bool,
) -> io::Result<()> {
    if !is_tidy {
        tidy(stage, manifest)?;
    }
    disk::rename(transactions, &manifest.id, history, &history::name_of(manifest))
}

/// Removes what was staged and then dropped again: no change names it.
fn tidy(stage: &OwnedFd, manifest: &Manifest) -> io::Result<()> {
    let mut kept = BTreeSet::from([FILE.to_owned()]);
    for Change { before, after, .. } in &manifest.changes {
        kept.extend(after.iter().map(kept_copy));
        kept.extend(before.iter().map(|image| image.name.clone()));
    }
    for entry in disk::entries(stage)? {
        let (name, kind) = entry?;
        let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        if !kept.contains(name) {
            let is_directory = kind == FileType::Directory;
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            disk::remove(stage, name, flags)?;
        }
    }
    Ok(())
}

/// Finishes or removes what others left: the lock is held, so nobody is at work on it.
fn recover(
    workspace: &Arc<Workspace>,
    history: &OwnedFd,
    transactions: &OwnedFd,
) -> io::Result<Vec<Manifest>> {
    let mut recovered = Vec::new();
    let mut names: Vec<String> = disk::entries(transactions)?
        .map(|entry| {
            let (name, _) = entry?;
            name.into_string().map_err(|_| io::ErrorKind::InvalidFilename.into())
        })
        .collect::<io::Result<_>>()?;
    names.sort_unstable();
    for name in names {
        let stage = disk::open(transactions, &name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        match Manifest::read(&stage)? {
            Some(mut manifest) if manifest.id == name => {
                carry_out(workspace.disk(), &stage, &mut manifest, true).map_err(|error| {
                    io::Error::other(format!("the commit {name} can't be finished: {error}"))
                })?;
                finish(history, transactions, &stage, &manifest, false)?;
                recovered.push(manifest);
            }
            _ => {
                disk::remove_all_in(stage.as_fd())?;
                disk::remove(transactions, &name, AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(recovered)
}

fn open_lock(own: &OwnedFd) -> io::Result<OwnedFd> {
    let open = || disk::open(own, LOCK, OFlags::RDONLY);
    let create = || disk::create(own, LOCK).map(drop);
    open_or_create(LOCK, open, create)
}

/// A directory of the host's own, made where it is missing. What was in files that others may
/// not read is nobody else's business there either.
pub(super) fn directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let open = || disk::open(parent, name, OFlags::RDONLY | OFlags::DIRECTORY);
    let create = || disk::create_directory(parent, name, disk::OWNER_ONLY);
    open_or_create(name, open, create)
}

pub(super) fn open_or_create(
    name: &str,
    open: impl Fn() -> io::Result<OwnedFd>,
    create: impl Fn() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create() {
            // Somebody else may have been faster.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        },
        opened => opened,
    };
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("'{name}' of the host's own files: {error}"))
    })
}
