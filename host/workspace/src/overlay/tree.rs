//! [`Overlay`]: looking up, listing and reading files, and the state of a transaction.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tempfile::TempDir;

use super::repositories::Repositories;
use super::state::{Entry, Location, OverlayState, Savepoint, Undo};
use crate::commit::COPY_SUFFIX;
use crate::disk::StatFields as _;
use crate::disk::{self, Listed, Spot};
use crate::error::Refused;
use crate::file_fingerprint::FileFingerprint;

/// A tree on the disk with staged changes on top.
pub struct Overlay {
    pub(super) disk: Arc<OwnedFd>,
    stage: Stage,
    /// The prefix of the names of staged inodes, which differs between transactions.
    id: String,
    /// The end of the names of staged inodes.
    suffix: &'static str,
    /// Whether anything is staged. If not, only the disk has to be looked at.
    pub(super) is_changed: AtomicBool,
    is_closed: AtomicBool,
    state: Mutex<OverlayState>,
    pub(super) repositories: Repositories,
}

/// Where staged inodes are.
enum Stage {
    /// Nowhere: the tree is for reading only.
    Nowhere,
    /// In a directory that is created for the first of them.
    Made(OnceLock<Staging>, Box<dyn Fn() -> io::Result<Staging> + Send + Sync>),
    /// In the directory of proposals, which is locked: the tree is for reading only.
    Held { staging: Staging, _lock: OwnedFd },
}

/// A directory for staged inodes.
pub(crate) struct Staging {
    directory: Arc<OwnedFd>,
    pub(super) device: u64,
    /// Removes a temporary directory when it is dropped.
    _temporary: Option<TempDir>,
}

impl Staging {
    pub(crate) fn new(directory: Arc<OwnedFd>, temporary: Option<TempDir>) -> io::Result<Self> {
        let device = rustix::fs::fstat(&directory)?.device();
        Ok(Self { directory, device, _temporary: temporary })
    }
}

impl Overlay {
    /// Creates a tree for reading only.
    pub(crate) fn reading(disk: Arc<OwnedFd>) -> Self {
        Self::new(disk, Stage::Nowhere, String::new(), "")
    }

    /// Creates a tree for reading only, with the new files of a held commit on top. `staging` is the
    /// directory of proposals, and nothing in it is removed as long as `lock` is open.
    pub(super) fn over_proposals(
        disk: Arc<OwnedFd>,
        id: String,
        staging: Staging,
        lock: OwnedFd,
    ) -> Self {
        Self::new(disk, Stage::Held { staging, _lock: lock }, id, COPY_SUFFIX)
    }

    /// Creates a tree whose changes are staged, as those of the transaction `id`, in a directory that
    /// `make` creates for the first one.
    pub(crate) fn changing(
        disk: Arc<OwnedFd>,
        id: String,
        make: impl Fn() -> io::Result<Staging> + Send + Sync + 'static,
    ) -> Self {
        Self::new(disk, Stage::Made(OnceLock::new(), Box::new(make)), id, "")
    }

    /// Creates an empty tree that is never committed and removed when it is dropped.
    ///
    /// # Errors
    /// No directory for temporary files.
    pub fn private() -> io::Result<Self> {
        static EMPTY: OnceLock<Arc<OwnedFd>> = OnceLock::new();
        let make = || {
            let temporary = TempDir::with_prefix("cofferdam-")?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(temporary.path(), flags, Mode::empty())?;
            Staging::new(Arc::new(directory), Some(temporary))
        };
        let empty = match EMPTY.get() {
            Some(empty) => empty,
            None => {
                // It is removed at once, so no file can be created in it.
                let Staging { directory, .. } = make()?;
                EMPTY.get_or_init(|| directory)
            }
        };
        Ok(Self::changing(Arc::clone(empty), "private".to_owned(), make))
    }

    fn new(disk: Arc<OwnedFd>, stage: Stage, id: String, suffix: &'static str) -> Self {
        Self {
            disk,
            stage,
            id,
            suffix,
            is_changed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            state: Mutex::default(),
            repositories: Repositories::default(),
        }
    }

    /// Whether anything differs from the disk.
    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// Whether the tree can be changed.
    pub fn is_writable(&self) -> bool {
        matches!(self.stage, Stage::Made(..))
    }

    /// Checks that the tree can be changed.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        if self.is_writable() { Ok(()) } else { Err(Errno::ROFS.into()) }
    }

    /// Refuses all further changes.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, OverlayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, place: &str) -> io::Result<Location> {
        if self.is_changed() { self.state().find(place) } else { Ok(Location::Disk) }
    }

    pub(super) fn insert(&self, place: &str, entry: Entry) {
        self.state().entries.insert(place.to_owned(), entry);
        self.is_changed.store(true, Ordering::Release);
    }

    /// Returns the staging directory; creates it if it is missing.
    pub(crate) fn stage(&self) -> io::Result<&OwnedFd> {
        Ok(&self.staging()?.directory)
    }

    /// Returns the name of an inode by its number, in the staging directory and later in the history.
    pub(crate) fn image_name(&self, number: impl std::fmt::Display) -> String {
        format!("{}.{number}{}", self.id, self.suffix)
    }

    /// Whether the staging directory was created.
    pub(crate) fn is_staged(&self) -> bool {
        matches!(&self.stage, Stage::Made(made, _) if made.get().is_some())
    }

    pub(super) fn staging(&self) -> io::Result<&Staging> {
        match &self.stage {
            _ if self.is_closed.load(Ordering::Acquire) => {
                Err(Refused::denied("the call is over".to_owned()))
            }
            Stage::Nowhere => Err(Errno::ROFS.into()),
            Stage::Held { staging, .. } => Ok(staging),
            Stage::Made(made, make) => match made.get() {
                Some(staging) => Ok(staging),
                None => {
                    let staging = make()?;
                    Ok(made.get_or_init(|| staging))
                }
            },
        }
    }

    pub(crate) fn disk(&self) -> &OwnedFd {
        &self.disk
    }

    /// Notes the file on the disk at a place, the first time that a transaction that can change
    /// files looks at it.
    pub(super) fn observe(&self, place: &str, stat: Option<&Stat>) -> io::Result<()> {
        if !self.is_writable() || self.state().seen.contains_key(place) {
            return Ok(());
        }
        let fingerprint = match stat {
            Some(stat) => Some(FileFingerprint::of(stat, || self.open_disk(place))?),
            None => None,
        };
        let mut state = self.state();
        if let (Some(since), Some(fingerprint)) = (state.others_since, &fingerprint)
            && fingerprint.is_since(since)
        {
            return Err(Refused::denied(format!(
                "{place} was changed by another process while the program ran"
            )));
        }
        state.seen.entry(place.to_owned()).or_insert(fingerprint);
        Ok(())
    }

    /// From now on, refuses changes of files that were changed on the disk since then (nanoseconds
    /// since the epoch) and that the transaction has not looked at before.
    pub(crate) fn set_others_since(&self, since: Option<i64>) {
        self.state().others_since = since;
    }

    pub(super) fn open_disk(&self, place: &str) -> io::Result<File> {
        match disk::open(&*self.disk, place, OFlags::RDONLY) {
            // A socket can't be opened.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                Err(Refused::unsupported(format!("{place} is no regular file")))
            }
            file => Ok(file?.into()),
        }
    }

    /// Returns the metadata of a place, without following a link.
    ///
    /// # Errors
    /// `NotFound`, `ELOOP` and I/O errors.
    pub fn stat(&self, place: &str) -> io::Result<Stat> {
        match self.find(place)? {
            Location::Nothing => Err(Errno::NOENT.into()),
            Location::Disk => disk::stat(&*self.disk, place),
            Location::Staged(id, _) => disk::stat(self.stage()?, &self.image_name(id)),
        }
    }

    /// Returns the metadata of a place.
    ///
    /// # Errors
    /// As [`Overlay::stat`]; `ELOOP` for a link if `follow` is true: the caller has to resolve it.
    pub fn look(&self, place: &str, follow: bool) -> io::Result<Stat> {
        let stat = self.stat(place)?;
        if follow && disk::file_type(&stat) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        Ok(stat)
    }

    /// Whether the owner may execute the file at `place`.
    ///
    /// # Errors
    /// Those of [`Overlay::stat`].
    pub fn is_executable(&self, place: &str) -> io::Result<bool> {
        Ok(self.look(place, true)?.mode() & 0o100 != 0)
    }

    pub(super) fn kind(&self, place: &str) -> io::Result<Option<FileType>> {
        match self.find(place)? {
            Location::Nothing => Ok(None),
            Location::Staged(_, kind) => Ok(Some(kind)),
            Location::Disk => {
                Ok(disk::look(&*self.disk, place)?.map(|stat| disk::file_type(&stat)))
            }
        }
    }

    /// Opens a file or directory for reading. Never waits, so the caller has to check the type first.
    ///
    /// # Errors
    /// `NotFound`, `ELOOP` and I/O errors.
    pub fn open_read(&self, place: &str) -> io::Result<(File, Stat)> {
        let file: File = match self.find(place)? {
            Location::Nothing => return Err(Errno::NOENT.into()),
            Location::Staged(id, _) => {
                disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?.into()
            }
            Location::Disk => {
                let file = self.open_disk(place)?;
                let stat = rustix::fs::fstat(&file)?;
                if disk::file_type(&stat) == FileType::RegularFile {
                    self.observe(place, Some(&stat))?;
                }
                return Ok((file, stat));
            }
        };
        let stat = rustix::fs::fstat(&file)?;
        Ok((file, stat))
    }

    /// Opens the top directory of the tree.
    ///
    /// # Errors
    /// Too many open files.
    pub fn top(&self) -> io::Result<(File, Stat)> {
        let top = self.disk.try_clone()?;
        let stat = rustix::fs::fstat(&top)?;
        Ok((top.into(), stat))
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    /// `NotFound`, `ENOTDIR` and I/O errors.
    pub fn list(&self, place: &str) -> io::Result<Vec<Listed>> {
        let mut entries = match self.find(place)? {
            Location::Nothing => return Err(Errno::NOENT.into()),
            Location::Staged(_, FileType::Directory) => Vec::new(),
            Location::Staged(..) => return Err(Errno::NOTDIR.into()),
            Location::Disk => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                disk::list(disk::open(&*self.disk, place, flags)?)?
            }
        };
        if !self.is_changed() {
            return Ok(entries);
        }
        let state = self.state();
        let start = if place.is_empty() { 0 } else { place.len() + 1 };
        let changed: BTreeMap<&str, Entry> = state
            .below(place)
            .filter(|(path, _)| !path[start..].contains('/'))
            .map(|(path, entry)| (&path[start..], *entry))
            .collect();
        entries.retain(|entry| entry.name.to_str().is_none_or(|name| !changed.contains_key(name)));
        entries.extend(changed.into_iter().filter_map(|(name, entry)| match entry {
            Entry::Staged(_, kind) => Some(Listed { name: name.into(), kind, inode: None }),
            Entry::Gone => None,
        }));
        Ok(entries)
    }

    /// Returns the target of the link at `place`.
    ///
    /// # Errors
    /// `EINVAL` for anything but a link; those of [`Overlay::stat`].
    pub fn read_link(&self, place: &str) -> io::Result<String> {
        let target = match self.find(place)? {
            Location::Nothing => return Err(Errno::NOENT.into()),
            Location::Disk if place.is_empty() => return Err(Errno::INVAL.into()),
            Location::Disk => Spot::of(&*self.disk, place)?.read_link()?,
            Location::Staged(id, _) => {
                Spot::of(self.stage()?, &self.image_name(id))?.read_link()?
            }
        };
        String::from_utf8(target).map_err(|_| Errno::ILSEQ.into())
    }

    /// Returns the metadata of a place, and the content of a file or the target of a link.
    pub(crate) fn open_or_link(&self, place: &str) -> io::Result<(Stat, Box<dyn io::Read>)> {
        let stat = self.stat(place)?;
        let content: Box<dyn io::Read> = match disk::file_type(&stat) {
            FileType::RegularFile => Box::new(self.open_read(place)?.0),
            FileType::Symlink => Box::new(io::Cursor::new(self.read_link(place)?)),
            _ => Box::new(io::empty()),
        };
        Ok((stat, content))
    }

    /// Returns the modification time of a file on the disk, in nanoseconds since the epoch.
    pub(crate) fn disk_modified(&self, place: &str) -> Option<i64> {
        disk::stat(&*self.disk, place).ok().map(|stat| disk::modified(&stat))
    }

    /// Returns the first `most` places of staged and removed files and links, and the number of all.
    pub fn changed_files(&self, most: usize) -> (Vec<String>, usize) {
        let state = self.state();
        let is_file = |entry: &Entry| !matches!(entry, Entry::Staged(_, FileType::Directory));
        let files = state.entries.iter().filter(|(_, entry)| is_file(entry));
        let (first, total) = (files.clone().take(most), files.count());
        (first.map(|(place, _)| place.clone()).collect(), total)
    }

    /// Returns a savepoint, to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        let mut state = self.state();
        let (position, _token) = state.entries.position();
        let savepoint = Savepoint {
            position,
            _token,
            next: state.next,
            kept: state.kept,
            undo: state.undo.clone(),
        };
        state.kept = state.next;
        savepoint
    }

    /// Rolls back to a savepoint. Inodes that were staged since stay in the staging directory until it
    /// is emptied as a whole.
    pub fn roll_back(&self, savepoint: Savepoint) {
        let mut state = self.state();
        state.entries.roll_back(savepoint.position);
        self.is_changed.store(!state.entries.is_empty(), Ordering::Release);
        state.undo = savepoint.undo;
        state.kept = savepoint.kept.max(savepoint.next);
    }

    /// Notes that the staged changes undo a commit.
    pub(crate) fn set_undo(&self, undo: Undo) {
        self.state().undo = Some(undo);
    }

    /// Returns the commit that the staged changes undo.
    pub(crate) fn undo(&self) -> Option<Undo> {
        self.state().undo.clone()
    }

    /// Returns the number of staged inodes, including those that were removed again.
    pub(crate) fn staged_inodes(&self) -> usize {
        self.state().next as usize
    }

    /// Returns how many places differ from the disk.
    pub(crate) fn change_count(&self) -> usize {
        self.state().entries.len()
    }

    /// Returns all changes, by place.
    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        BTreeMap::clone(&self.state().entries)
    }

    /// Returns what the transaction first saw at a place of the disk; `None`: it has not looked there.
    pub(crate) fn seen(&self, place: &str) -> Option<Option<FileFingerprint>> {
        self.state().seen.get(place).cloned()
    }
}
