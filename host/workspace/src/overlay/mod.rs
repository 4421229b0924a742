//! The workspace as one transaction sees it: what is on the disk, with what the transaction has
//! changed on top. Every change is staged: a new or changed file, directory or link is an inode
//! of its own in the staging directory, and the disk's tree stays as it is until the commit.
//!
//! Places are relative to the workspace, resolved, `/` between names; the empty place is the
//! workspace itself. An operation on a place fails with `ELOOP` where a symbolic link is on the
//! way: then [`Overlay::resolve`] says which place is meant.
//!
//! | module | what |
//! |---|---|
//! | [`state`] | what is changed where, as a map |
//! | [`staging`] | files, directories and links as inodes of the transaction's own |
//! | [`names`] | names that come, go and move |
//! | [`resolve`] | which place a path stands for |
//! | [`guard`] | which places git takes for its own |

mod guard;
mod names;
mod resolve;
mod staging;
mod state;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tempfile::TempDir;

pub use staging::Opening;
pub(super) use state::Entry;
pub use state::Savepoint;
use state::{Found, State};

use super::Refused;
use super::disk::{self, Listed, Spot};
use super::stamp::Stamp;

/// A tree on the disk with staged changes on top.
pub struct Overlay {
    disk: Arc<OwnedFd>,
    stage: Stage,
    /// What the names of staged inodes begin with, so that no other transaction's are touched.
    id: String,
    /// Whether anything is staged. Where not, the disk is all there is.
    is_changed: AtomicBool,
    is_closed: AtomicBool,
    state: Mutex<State>,
    guard: guard::Guard,
}

/// Where staged inodes are kept.
enum Stage {
    /// Nowhere: nothing can be changed.
    Nowhere,
    /// In a directory that is made for the first of them.
    Made(OnceLock<Staging>, Box<dyn Fn() -> io::Result<Staging> + Send + Sync>),
}

/// A directory for staged inodes.
pub(super) struct Staging {
    directory: Arc<OwnedFd>,
    device: u64,
    /// Removes the directory when nobody needs it any more.
    _temporary: Option<TempDir>,
}

impl Staging {
    pub(super) fn new(directory: Arc<OwnedFd>, temporary: Option<TempDir>) -> io::Result<Self> {
        let device = rustix::fs::fstat(&directory)?.st_dev;
        Ok(Self { directory, device, _temporary: temporary })
    }
}

impl Overlay {
    /// A tree that can't be changed.
    pub(super) fn reading(disk: Arc<OwnedFd>) -> Self {
        Self::new(disk, Stage::Nowhere, String::new())
    }

    /// A tree whose changes go, as the transaction `id`, to a directory that `make` makes when
    /// there is a first one.
    pub(super) fn changing(
        disk: Arc<OwnedFd>,
        id: String,
        make: impl Fn() -> io::Result<Staging> + Send + Sync + 'static,
    ) -> Self {
        Self::new(disk, Stage::Made(OnceLock::new(), Box::new(make)), id)
    }

    /// An empty tree that is never committed and gone when it is dropped.
    ///
    /// # Errors
    /// A system without a place for temporary files.
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
                // Removed again at once: nothing can come into it any more.
                let Staging { directory, .. } = make()?;
                EMPTY.get_or_init(|| directory)
            }
        };
        Ok(Self::changing(Arc::clone(empty), "private".to_owned(), make))
    }

    fn new(disk: Arc<OwnedFd>, stage: Stage, id: String) -> Self {
        Self {
            disk,
            stage,
            id,
            is_changed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            state: Mutex::default(),
            guard: guard::Guard::default(),
        }
    }

    /// Whether anything differs from the disk.
    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// Whether anything can be changed.
    pub fn is_writable(&self) -> bool {
        !matches!(self.stage, Stage::Nowhere)
    }

    /// Refuses all further changes.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, place: &str) -> io::Result<Found> {
        if self.is_changed() { self.state().find(place) } else { Ok(Found::Disk) }
    }

    fn insert(&self, place: &str, entry: Entry) {
        self.state().entries.insert(place.to_owned(), entry);
        self.is_changed.store(true, Ordering::Release);
    }

    /// The staging directory.
    pub(super) fn stage(&self) -> io::Result<&OwnedFd> {
        Ok(&self.staging()?.directory)
    }

    /// The name in the staging directory, and later in the history, of what a transaction
    /// numbers so.
    pub(super) fn image_name(&self, number: impl std::fmt::Display) -> String {
        format!("{}.{number}", self.id)
    }

    /// Whether a staging directory was made.
    pub(super) fn is_staged(&self) -> bool {
        matches!(&self.stage, Stage::Made(made, _) if made.get().is_some())
    }

    fn staging(&self) -> io::Result<&Staging> {
        match &self.stage {
            _ if self.is_closed.load(Ordering::Acquire) => {
                Err(Refused::denied("the call is over".to_owned()))
            }
            Stage::Nowhere => Err(Errno::ROFS.into()),
            Stage::Made(made, make) => match made.get() {
                Some(staging) => Ok(staging),
                None => {
                    let staging = make()?;
                    Ok(made.get_or_init(|| staging))
                }
            },
        }
    }

    pub(super) fn disk(&self) -> &OwnedFd {
        &self.disk
    }

    /// Remembers what the disk has at a place, the first time that it is looked at by a
    /// transaction that could change something.
    fn observe(&self, place: &str, stat: Option<&Stat>) -> io::Result<()> {
        if !self.is_writable() || self.state().seen.contains_key(place) {
            return Ok(());
        }
        let stamp = match stat {
            Some(stat) => Some(Stamp::of(stat, || self.open_disk(place))?),
            None => None,
        };
        let mut state = self.state();
        if let (Some(since), Some(stamp)) = (state.others_since, &stamp)
            && stamp.is_since(since)
        {
            return Err(Refused::denied(format!(
                "{place} was changed by somebody else while the program ran"
            )));
        }
        state.seen.entry(place.to_owned()).or_insert(stamp);
        Ok(())
    }

    /// From now on, refuses to change what the disk has got since then and nobody has looked at
    /// before.
    pub(super) fn set_others_since(&self, since: Option<i64>) {
        self.state().others_since = since;
    }

    fn open_disk(&self, place: &str) -> io::Result<File> {
        match disk::open(&*self.disk, place, OFlags::RDONLY) {
            // A socket can't even be opened.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                Err(Refused::unsupported(format!("{place} is no regular file")))
            }
            file => Ok(file?.into()),
        }
    }

    /// What is at a place, a link not followed.
    ///
    /// # Errors
    /// `NotFound`, `ELOOP` and those of the system.
    pub fn stat(&self, place: &str) -> io::Result<Stat> {
        match self.find(place)? {
            Found::Nothing => Err(Errno::NOENT.into()),
            Found::Disk => disk::stat(&*self.disk, place),
            Found::Staged(id, _) => disk::stat(self.stage()?, &self.image_name(id)),
        }
    }

    /// What is at a place, or behind the link there if it is to be followed.
    ///
    /// # Errors
    /// As [`Overlay::stat`]; `ELOOP` for a link that is to be followed: it has to be resolved.
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
        Ok(self.look(place, true)?.st_mode & 0o100 != 0)
    }

    fn kind(&self, place: &str) -> io::Result<Option<FileType>> {
        match self.find(place)? {
            Found::Nothing => Ok(None),
            Found::Staged(_, kind) => Ok(Some(kind)),
            Found::Disk => Ok(disk::look(&*self.disk, place)?.map(|stat| disk::file_type(&stat))),
        }
    }

    /// Opens a file or directory for reading. Never waits; whoever gets it has to look at its
    /// type first.
    ///
    /// # Errors
    /// `NotFound`, `ELOOP` and those of the system.
    pub fn open_read(&self, place: &str) -> io::Result<(File, Stat)> {
        let file: File = match self.find(place)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Staged(id, _) => {
                disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?.into()
            }
            Found::Disk => {
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

    /// The top of the tree, open.
    ///
    /// # Errors
    /// Too many open files.
    pub fn top(&self) -> io::Result<(File, Stat)> {
        let top = self.disk.try_clone()?;
        let stat = rustix::fs::fstat(&top)?;
        Ok((top.into(), stat))
    }

    /// What is in a directory.
    ///
    /// # Errors
    /// `NotFound`, `ENOTDIR` and those of the system.
    pub fn list(&self, place: &str) -> io::Result<Vec<Listed>> {
        let mut entries = match self.find(place)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Staged(_, FileType::Directory) => Vec::new(),
            Found::Staged(..) => return Err(Errno::NOTDIR.into()),
            Found::Disk => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let directory = disk::open(&*self.disk, place, flags)?;
                let typed = |entry: io::Result<Listed>| {
                    let mut entry = entry?;
                    if entry.kind == FileType::Unknown {
                        let flags = AtFlags::SYMLINK_NOFOLLOW;
                        let stat = rustix::fs::statat(&directory, &entry.name, flags)?;
                        entry.kind = disk::file_type(&stat);
                    }
                    Ok(entry)
                };
                disk::entries(&directory)?.map(typed).collect::<io::Result<Vec<_>>>()?
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

    /// Where the link at `place` points.
    ///
    /// # Errors
    /// `EINVAL` for what is not a link; those of [`Overlay::stat`].
    pub fn read_link(&self, place: &str) -> io::Result<String> {
        let target = match self.find(place)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Disk if place.is_empty() => return Err(Errno::INVAL.into()),
            Found::Disk => Spot::of(&*self.disk, place)?.read_link()?,
            Found::Staged(id, _) => Spot::of(self.stage()?, &self.image_name(id))?.read_link()?,
        };
        String::from_utf8(target).map_err(|_| Errno::ILSEQ.into())
    }

    /// What is at a place, and the content of a file or the target of a link.
    pub(super) fn open_or_link(&self, place: &str) -> io::Result<(Stat, Box<dyn io::Read>)> {
        let stat = self.stat(place)?;
        let content: Box<dyn io::Read> = match disk::file_type(&stat) {
            FileType::RegularFile => Box::new(self.open_read(place)?.0),
            FileType::Symlink => Box::new(io::Cursor::new(self.read_link(place)?)),
            _ => Box::new(io::empty()),
        };
        Ok((stat, content))
    }

    /// When something on the disk was last written, in nanoseconds since the epoch.
    pub(super) fn disk_modified(&self, place: &str) -> Option<i64> {
        disk::stat(&*self.disk, place).ok().map(|stat| disk::modified(&stat))
    }

    pub(super) fn savepoint(&self) -> Savepoint {
        let mut state = self.state();
        let savepoint =
            Savepoint { entries: state.entries.clone(), next: state.next, kept: state.kept };
        state.kept = state.next;
        savepoint
    }

    /// Goes back to a savepoint. What was staged since is left in the staging directory, which
    /// goes as a whole.
    pub(super) fn roll_back(&self, savepoint: Savepoint) {
        let mut state = self.state();
        self.is_changed.store(!savepoint.entries.is_empty(), Ordering::Release);
        state.entries = savepoint.entries;
        state.kept = savepoint.kept.max(savepoint.next);
    }

    /// How many inodes were staged, those included that were dropped again.
    pub(super) fn staged_inodes(&self) -> usize {
        self.state().next as usize
    }

    /// Everything that was changed, by place.
    pub(super) fn entries(&self) -> BTreeMap<String, Entry> {
        self.state().entries.clone()
    }

    /// What the transaction saw first at a place of the disk; `None`: it did not look.
    pub(super) fn seen(&self, place: &str) -> Option<Option<Stamp>> {
        self.state().seen.get(place).cloned()
    }
}
