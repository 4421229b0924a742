//! The workspace as one transaction sees it: what is on the disk, with what the transaction has
//! changed on top. Every change is staged: a new or changed file, directory or link is an inode
//! of its own in the staging directory, and the disk's tree stays as it is until the commit.
//!
//! Places are relative to the workspace, resolved, `/` between names; the empty place is the
//! workspace itself. An operation on a place fails with `ELOOP` where a symbolic link is on the
//! way: then [`Overlay::resolve`] says which place is meant.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Timestamps, Uid};
use rustix::io::Errno;
use tempfile::TempDir;

use super::Refused;
use super::disk::{self, Listed, Spot};
use super::path::{self, check_length};
use super::quota::Quota;
use super::stamp::Stamp;

/// The longest name in a directory, in bytes, on every file system in use.
const MAX_NAME: usize = 255;

/// How many symbolic links a path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// What a transaction has at a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// An inode in the staging directory, under this number as its name. A directory shows
    /// nothing of one that the disk may have at its place.
    Staged(u32, FileType),
    /// Nothing: what the disk has here was removed.
    Gone,
}

/// Where something is found.
#[derive(Debug, Clone, Copy)]
enum Found {
    Staged(u32, FileType),
    Nothing,
    Disk,
}

/// What to do about a file that is or is not there when it is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Also for reading.
    pub read: bool,
    /// Create a missing one.
    pub create: bool,
    /// Fail if there is one.
    pub exclusive: bool,
    /// Start with nothing in it.
    pub truncate: bool,
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
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    /// What was at a place of the disk when the transaction first looked; `None`: nothing.
    seen: HashMap<String, Option<Stamp>>,
    next: u32,
    /// Inodes with a smaller number are part of a savepoint and are not written any more.
    kept: u32,
    /// From when on, in nanoseconds since the epoch, a change on the disk is a conflict even
    /// where nobody has looked before.
    others_since: Option<i64>,
}

/// A moment of a transaction to which it can go back.
pub struct Savepoint {
    entries: BTreeMap<String, Entry>,
    next: u32,
    kept: u32,
}

impl State {
    fn find(&self, place: &str) -> io::Result<Found> {
        if self.entries.is_empty() {
            return Ok(Found::Disk);
        }
        match self.entries.get(place) {
            Some(Entry::Staged(id, kind)) => return Ok(Found::Staged(*id, *kind)),
            Some(Entry::Gone) => return Ok(Found::Nothing),
            None => {}
        }
        match self.nearest_above(place) {
            None => Ok(Found::Disk),
            Some(Entry::Gone | Entry::Staged(_, FileType::Directory)) => Ok(Found::Nothing),
            Some(Entry::Staged(_, FileType::Symlink)) => Err(Errno::LOOP.into()),
            Some(Entry::Staged(..)) => Err(Errno::NOTDIR.into()),
        }
    }

    fn nearest_above(&self, place: &str) -> Option<Entry> {
        place.rmatch_indices('/').find_map(|(end, _)| self.entries.get(&place[..end]).copied())
    }

    /// Takes an entry away. `on_disk`: the disk has something at the place that shows through.
    fn detach(&mut self, place: &str, on_disk: bool) {
        if on_disk {
            self.entries.insert(place.to_owned(), Entry::Gone);
        } else {
            self.entries.remove(place);
        }
    }

    fn below(&self, place: &str) -> impl Iterator<Item = (&String, &Entry)> {
        let prefix = if place.is_empty() { String::new() } else { format!("{place}/") };
        self.entries.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix))
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

    /// Opens a file for writing: a staged one, made from the disk's where there is none yet.
    ///
    /// # Errors
    /// What POSIX says of `open`, and [`Refused`] for what can't be changed.
    pub fn open_write(&self, place: &str, opening: Opening, quota: &Quota) -> io::Result<File> {
        let mut truncate = false;
        let id = match self.find(place)? {
            Found::Staged(..) if opening.exclusive => return Err(Errno::EXIST.into()),
            Found::Staged(_, FileType::Directory) => return Err(Errno::ISDIR.into()),
            Found::Staged(_, FileType::Symlink) => return Err(Errno::LOOP.into()),
            Found::Staged(id, kind) => {
                // What was staged just now is empty; ext4 would sync a file that was truncated
                // when it is closed.
                truncate = opening.truncate;
                self.writable(place, id, kind, !opening.truncate, quota)?
            }
            Found::Nothing => self.create_file(place, opening, quota)?,
            Found::Disk if opening.exclusive && self.kind(place)?.is_some() => {
                return Err(Errno::EXIST.into());
            }
            Found::Disk => match self.stage_file(place, !opening.truncate, quota) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.create_file(place, opening, quota)?
                }
                staged => {
                    let id = staged?;
                    self.insert(place, Entry::Staged(id, FileType::RegularFile));
                    id
                }
            },
        };
        let mut flags = if opening.read { OFlags::RDWR } else { OFlags::WRONLY };
        flags.set(OFlags::TRUNC, truncate);
        Ok(disk::open(self.stage()?, &self.image_name(id), flags)?.into())
    }

    fn create_file(&self, place: &str, opening: Opening, quota: &Quota) -> io::Result<u32> {
        if !opening.create {
            return Err(Errno::NOENT.into());
        }
        self.prepare_new(place)?;
        let (id, _) = self.new_file(quota)?;
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(id)
    }

    fn insert(&self, place: &str, entry: Entry) {
        self.state().entries.insert(place.to_owned(), entry);
        self.is_changed.store(true, Ordering::Release);
    }

    /// Checks that something new may come to `place`, and remembers that nothing was there.
    fn prepare_new(&self, place: &str) -> io::Result<()> {
        let (parent, name) = disk::split(place);
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG.into());
        }
        check_length(place)?;
        match self.find(parent)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Staged(_, FileType::Directory) => return Ok(()),
            Found::Staged(..) => return Err(Errno::NOTDIR.into()),
            Found::Disk => drop(self.open_parent(parent)?),
        }
        if self.state().entries.contains_key(place) {
            // Something of the disk's was removed here; that was observed.
            return Ok(());
        }
        self.observe(place, None)
    }

    /// Opens a directory of the disk in which names are to be changed, if that is possible.
    fn open_parent(&self, parent: &str) -> io::Result<OwnedFd> {
        let directory = disk::open(&*self.disk, parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&directory, ".", access, AtFlags::EACCESS)?;
        if self.staging()?.device != rustix::fs::fstat(&directory)?.st_dev {
            return Err(Refused::unsupported(format!(
                "{parent} is on another file system than the workspace: no transaction can \
                 cover both"
            )));
        }
        Ok(directory)
    }

    fn new_id(&self, quota: &Quota) -> io::Result<u32> {
        quota.take_file()?;
        let mut state = self.state();
        state.next += 1;
        Ok(state.next)
    }

    fn new_file(&self, quota: &Quota) -> io::Result<(u32, File)> {
        let id = self.new_id(quota)?;
        Ok((id, disk::create(self.stage()?, &self.image_name(id))?))
    }

    /// A staged inode that may be written: the one there is, or its copy where that is part of
    /// a savepoint.
    fn writable(
        &self,
        place: &str,
        id: u32,
        kind: FileType,
        content: bool,
        quota: &Quota,
    ) -> io::Result<u32> {
        if id > self.state().kept || kind != FileType::RegularFile {
            return Ok(id);
        }
        let from = disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?;
        let from = File::from(from);
        let copy = self.copy(&from, &rustix::fs::fstat(&from)?, content, quota)?;
        self.insert(place, Entry::Staged(copy, kind));
        Ok(copy)
    }

    /// Stages the disk's file at `place`, with its permissions, owner and attributes.
    fn stage_file(&self, place: &str, content: bool, quota: &Quota) -> io::Result<u32> {
        let file = self.open_disk(place)?;
        let stat = rustix::fs::fstat(&file)?;
        match disk::file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Refused::unsupported(format!("{place} is no regular file"))),
        }
        check_names(place, &stat)?;
        let (parent, name) = disk::split(place);
        let parent = self.open_parent(parent)?;
        rustix::fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)?;
        self.observe(place, Some(&stat))?;
        self.copy(&file, &stat, content, quota)
    }

    /// Copies a file into the staging directory.
    fn copy(&self, from: &File, stat: &Stat, content: bool, quota: &Quota) -> io::Result<u32> {
        if content {
            quota.take_bytes(u64::try_from(stat.st_size).unwrap_or(0))?;
        }
        let (id, to) = self.new_file(quota)?;
        copy_file(from, &to, stat, content)?;
        Ok(id)
    }

    /// Stages a copy of a file from elsewhere at `place`, in place of what is there.
    pub(super) fn restore(&self, place: &str, from: &File, quota: &Quota) -> io::Result<()> {
        self.make_room(place)?;
        let id = self.copy(from, &rustix::fs::fstat(from)?, true, quota)?;
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(())
    }

    /// Stages a file from elsewhere at `place`, in place of what is there, and answers what is
    /// staged: the file itself, or a copy where it has other names or another file system.
    /// `content` is the file, open.
    pub(super) fn adopt(
        &self,
        place: &str,
        from: &Spot<'_>,
        content: &File,
        quota: &Quota,
    ) -> io::Result<File> {
        self.make_room(place)?;
        let stat = rustix::fs::fstat(content)?;
        quota.take_bytes(u64::try_from(stat.st_size).unwrap_or(0))?;
        let id = self.new_id(quota)?;
        let (stage, name) = (self.stage()?, self.image_name(id));
        let moved = if stat.st_nlink == 1 {
            from.move_to(&Spot::of(stage, &name)?)
        } else {
            Err(Errno::XDEV.into())
        };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut content = content;
                content.rewind()?;
                copy_file(content, &disk::create(stage, &name)?, &stat, true)?;
            }
            moved => moved?,
        }
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(disk::open(stage, &name, OFlags::RDONLY)?.into())
    }

    /// Removes what may be at `place` for a file that comes there.
    fn make_room(&self, place: &str) -> io::Result<()> {
        if let Some(kind) = self.kind(place)? {
            if kind == FileType::Directory {
                return Err(Errno::ISDIR.into());
            }
            self.remove_file(place)?;
        }
        self.prepare_new(place)
    }

    /// Whether the disk has something at `place` that would show if the transaction had
    /// nothing there.
    fn shows_disk(&self, place: &str) -> io::Result<bool> {
        if self.state().nearest_above(place).is_some() {
            return Ok(false);
        }
        Ok(disk::look(&*self.disk, place)?.is_some())
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// What POSIX says of `unlink`.
    pub fn remove_file(&self, place: &str) -> io::Result<()> {
        let stage = self.stage()?;
        match self.find(place)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Staged(_, FileType::Directory) => return Err(Errno::ISDIR.into()),
            Found::Staged(id, _) => {
                if id > self.state().kept {
                    disk::remove(stage, &self.image_name(id), AtFlags::empty())?;
                }
            }
            Found::Disk => {
                let stat = disk::stat(&*self.disk, place)?;
                if disk::file_type(&stat) == FileType::Directory {
                    return Err(Errno::ISDIR.into());
                }
                check_names(place, &stat)?;
                self.open_parent(disk::split(place).0)?;
                self.observe(place, Some(&stat))?;
            }
        }
        self.detach(place)
    }

    fn detach(&self, place: &str) -> io::Result<()> {
        let on_disk = self.shows_disk(place)?;
        self.state().detach(place, on_disk);
        self.is_changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// What POSIX says of `mkdir`.
    pub fn create_directory(&self, place: &str, quota: &Quota) -> io::Result<()> {
        if self.kind(place)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.prepare_new(place)?;
        let id = self.new_id(quota)?;
        disk::create_directory(self.stage()?, &self.image_name(id), disk::ANYBODY)?;
        self.insert(place, Entry::Staged(id, FileType::Directory));
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What POSIX says of `rmdir`.
    pub fn remove_directory(&self, place: &str) -> io::Result<()> {
        if place.is_empty() {
            return Err(Errno::BUSY.into());
        }
        let found = self.find(place)?;
        match self.kind(place)? {
            None => return Err(Errno::NOENT.into()),
            Some(FileType::Directory) => {}
            Some(_) => return Err(Errno::NOTDIR.into()),
        }
        if !self.list(place)?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        match found {
            Found::Staged(id, _) if id > self.state().kept => {
                disk::remove(self.stage()?, &self.image_name(id), AtFlags::REMOVEDIR)?;
            }
            Found::Disk => {
                self.open_parent(disk::split(place).0)?;
                self.observe(place, Some(&disk::stat(&*self.disk, place)?))?;
            }
            _ => {}
        }
        self.forget_below(place);
        self.detach(place)
    }

    /// What is below a removed directory is gone with it.
    fn forget_below(&self, place: &str) {
        let mut state = self.state();
        let below: Vec<String> = state.below(place).map(|(path, _)| path.clone()).collect();
        for path in below {
            state.entries.remove(&path);
        }
    }

    /// Creates a symbolic link. Where it points is the caller's decision.
    ///
    /// # Errors
    /// What POSIX says of `symlink`.
    pub fn create_link(&self, target: &str, place: &str, quota: &Quota) -> io::Result<()> {
        if self.kind(place)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.prepare_new(place)?;
        let id = self.new_id(quota)?;
        disk::create_link(self.stage()?, &self.image_name(id), target)?;
        self.insert(place, Entry::Staged(id, FileType::Symlink));
        Ok(())
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

    /// Renames a file, a link or a directory with everything below; `allow` is asked for every
    /// place that this empties or fills.
    ///
    /// # Errors
    /// What POSIX says of `rename`; those of `allow`; [`Refused`] for what can't be changed.
    pub fn rename(
        &self,
        from: &str,
        to: &str,
        allow: &dyn Fn(&str) -> io::Result<()>,
        quota: &Quota,
    ) -> io::Result<()> {
        let Some(kind) = self.kind(from)? else { return Err(Errno::NOENT.into()) };
        let is_directory = kind == FileType::Directory;
        if from.is_empty() || to.is_empty() {
            return Err(Errno::BUSY.into());
        }
        if from == to {
            return Ok(());
        }
        if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Errno::INVAL.into());
        }
        allow(from)?;
        allow(to)?;
        let replaced = self.kind(to)?;
        match replaced {
            Some(FileType::Directory) if !is_directory => return Err(Errno::ISDIR.into()),
            Some(FileType::Directory) if !self.list(to)?.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            Some(FileType::Directory) => {}
            Some(_) if is_directory => return Err(Errno::NOTDIR.into()),
            Some(_) => {}
            None => self.prepare_new(to)?,
        }
        if let Found::Disk = self.find(from)? {
            self.open_parent(disk::split(from).0)?;
        }
        // Everything is staged before the first entry changes place.
        let moved = self.stage_tree(from, kind, to, allow, quota)?;
        match replaced {
            Some(FileType::Directory) => self.remove_directory(to)?,
            Some(_) => self.remove_file(to)?,
            None => {}
        }
        self.forget_below(from);
        self.detach(from)?;
        let mut state = self.state();
        for (rest, entry) in moved {
            state.entries.insert(format!("{to}{rest}"), entry);
        }
        Ok(())
    }

    /// Stages what is at `from`, of this kind, and everything below. Answers each with the end of
    /// its place, which begins with a `/` where it is not empty.
    fn stage_tree(
        &self,
        from: &str,
        kind: FileType,
        to: &str,
        allow: &dyn Fn(&str) -> io::Result<()>,
        quota: &Quota,
    ) -> io::Result<Vec<(String, Entry)>> {
        let mut moved = Vec::new();
        let mut waiting = vec![(String::new(), kind)];
        while let Some((rest, kind)) = waiting.pop() {
            let place = format!("{from}{rest}");
            if !rest.is_empty() {
                let target = format!("{to}{rest}");
                check_length(&target)?;
                allow(&place)?;
                allow(&target)?;
            }
            let id = match (self.find(&place)?, kind) {
                (Found::Nothing, _) => return Err(Errno::NOENT.into()),
                (Found::Staged(id, _), _) => id,
                (Found::Disk, FileType::RegularFile) => self.stage_file(&place, true, quota)?,
                (Found::Disk, FileType::Directory) => self.stage_directory(&place, quota)?,
                (Found::Disk, FileType::Symlink) => self.stage_link(&place, quota)?,
                (Found::Disk, _) => {
                    return Err(Refused::unsupported(format!(
                        "{place} is no regular file, directory or link"
                    )));
                }
            };
            if kind == FileType::Directory {
                for Listed { name, kind, .. } in self.list(&place)? {
                    let name = name.into_string().map_err(|_| Errno::ILSEQ)?;
                    waiting.push((format!("{rest}/{name}"), kind));
                }
            }
            moved.push((rest, Entry::Staged(id, kind)));
        }
        Ok(moved)
    }

    /// Stages the disk's directory at `place`, with its permissions and times.
    fn stage_directory(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        let stat = disk::stat(&*self.disk, place)?;
        self.observe(place, Some(&stat))?;
        let id = self.new_id(quota)?;
        disk::create_directory(self.stage()?, &self.image_name(id), disk::ANYBODY)?;
        self.set_staged_mode(id, stat.st_mode & 0o7777)?;
        self.set_staged_times(id, &disk::times(&stat))?;
        Ok(id)
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

    /// Sets the times of a file, a link or a new directory.
    ///
    /// # Errors
    /// [`Refused`] for a directory that is on the disk; those of staging.
    pub fn set_times(&self, place: &str, times: &Timestamps, quota: &Quota) -> io::Result<()> {
        let id = self.staged(place, quota)?;
        self.set_staged_times(id, times)
    }

    fn set_staged_times(&self, id: u32, times: &Timestamps) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(self.stage()?, self.image_name(id), times, flags)?)
    }

    /// Stages the disk's link at `place`, with its times.
    fn stage_link(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        self.open_parent(disk::split(place).0)?;
        let stat = disk::stat(&*self.disk, place)?;
        self.observe(place, Some(&stat))?;
        let target = self.read_link(place)?;
        let id = self.new_id(quota)?;
        disk::create_link(self.stage()?, &self.image_name(id), &target)?;
        self.set_staged_times(id, &disk::times(&stat))?;
        Ok(id)
    }

    /// Whether the owner may execute the file at `place`.
    ///
    /// # Errors
    /// Those of [`Overlay::stat`].
    pub fn is_executable(&self, place: &str) -> io::Result<bool> {
        Ok(self.look(place, true)?.st_mode & 0o100 != 0)
    }

    /// Lets everybody execute the file who may read it, or nobody.
    ///
    /// # Errors
    /// [`Refused`] for what is not a file; those of staging.
    pub fn set_executable(&self, place: &str, executable: bool, quota: &Quota) -> io::Result<()> {
        let stat = self.look(place, true)?;
        if disk::file_type(&stat) != FileType::RegularFile {
            return Err(Refused::unsupported(format!("{place} is no regular file")));
        }
        let mode = stat.st_mode & 0o7777;
        let wanted = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        if wanted == mode {
            return Ok(());
        }
        self.set_staged_mode(self.staged(place, quota)?, wanted)
    }

    fn set_staged_mode(&self, id: u32, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(self.stage()?, self.image_name(id), mode, AtFlags::empty())?)
    }

    /// The staged inode of what is at `place`, made where there is none.
    fn staged(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        match self.find(place)? {
            Found::Nothing => Err(Errno::NOENT.into()),
            Found::Staged(id, kind) => self.writable(place, id, kind, true, quota),
            Found::Disk => {
                let stat = disk::stat(&*self.disk, place)?;
                let kind = disk::file_type(&stat);
                let id = match kind {
                    FileType::Directory => {
                        return Err(Refused::unsupported(format!(
                            "{}: times of an existing directory are not changed",
                            if place.is_empty() { "." } else { place }
                        )));
                    }
                    FileType::Symlink => self.stage_link(place, quota)?,
                    _ => self.stage_file(place, true, quota)?,
                };
                self.insert(place, Entry::Staged(id, kind));
                Ok(id)
            }
        }
    }

    /// Which place `path`, relative to the directory `base`, stands for. The last name need not
    /// exist; where it is a link, `follow` says whether its target counts.
    ///
    /// # Errors
    /// Missing parents, links that leave the tree, malformed paths.
    pub fn resolve(&self, base: &str, path: &str, follow: bool) -> io::Result<String> {
        path::check(path)?;
        let mut place: Vec<String> =
            base.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let is_last = rest.iter().all(|name| name.is_empty());
            match name.as_str() {
                "" | "." => {}
                ".." => {
                    if place.pop().is_none() {
                        return Err(Refused::denied(format!("{path} leaves the workspace")));
                    }
                }
                name => {
                    place.push(name.to_owned());
                    let here = place.join("/");
                    // A slash at the end means the directory that a link points to.
                    let looks = !is_last || follow || !rest.is_empty();
                    match if looks { self.kind(&here)? } else { None } {
                        Some(FileType::Symlink) => {
                            links += 1;
                            if links > MAX_LINKS {
                                return Err(Errno::LOOP.into());
                            }
                            let target = self.read_link(&here)?;
                            if target.starts_with('/') {
                                return Err(Refused::denied(format!(
                                    "{here} is a link that leaves the workspace"
                                )));
                            }
                            place.pop();
                            rest.extend(target.rsplit('/').map(str::to_owned));
                        }
                        None if !is_last => return Err(Errno::NOENT.into()),
                        Some(FileType::Directory) | None => {}
                        Some(_) if !rest.is_empty() => return Err(Errno::NOTDIR.into()),
                        Some(_) => {}
                    }
                }
            }
        }
        Ok(place.join("/"))
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

    /// Sets the permissions of something new.
    pub(super) fn set_mode(&self, place: &str, mode: u32) -> io::Result<()> {
        self.set_staged_mode(self.staged(place, &Quota::unlimited())?, mode)
    }

    /// Sets when something was last written, in nanoseconds since the epoch.
    pub(super) fn set_modified(&self, place: &str, modified: i64) -> io::Result<()> {
        let time = disk::timespec(modified);
        let times = Timestamps { last_access: time, last_modification: time };
        self.set_times(place, &times, &Quota::unlimited())
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

/// Refuses a file with several names: changing it would change a file elsewhere, and the history
/// would be one more place.
fn check_names(place: &str, stat: &Stat) -> io::Result<()> {
    if stat.st_nlink > 1 && disk::file_type(stat) != FileType::Directory {
        return Err(Refused::unsupported(format!(
            "{place} is a file with several hard links; changing it would change a file elsewhere"
        )));
    }
    Ok(())
}

/// Gives `to` what `from` is: content, permissions and, as far as this user may, owner and
/// extended attributes. With its content, a file keeps its times.
pub(super) fn copy_file(from: &File, to: &File, stat: &Stat, content: bool) -> io::Result<()> {
    if content {
        // The size is the one that was counted, should the file be growing.
        io::copy(&mut from.take(u64::try_from(stat.st_size).unwrap_or(0)), &mut &*to)?;
    }
    copy_permissions(to, stat)?;
    copy_attributes(from, to);
    if content {
        rustix::fs::futimens(to, &disk::times(stat))?;
    }
    Ok(())
}

/// Gives `to` the permissions and, as far as this user may, the owner of what was looked at.
pub(super) fn copy_permissions(to: &File, stat: &Stat) -> io::Result<()> {
    let own = rustix::fs::fstat(to)?;
    if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        if rustix::fs::fchown(to, owner.0, owner.1).is_err() {
            // Only root gives files away; the group can be one of the user's.
            let _ = rustix::fs::fchown(to, None, owner.1);
        }
    }
    if own.st_mode != stat.st_mode {
        rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    }
    Ok(())
}

/// Extended attributes (access lists among them) are copied as far as the file system and the
/// user's rights go.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn copy_attributes(from: &File, to: &File) {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
    let mut names = [0_u8; 4096];
    let Ok(length) = flistxattr(from, &mut names[..]) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        if let Ok(length) = fgetxattr(from, name, &mut value[..]) {
            let _ = fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}
