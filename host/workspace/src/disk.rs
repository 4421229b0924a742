//! System calls on places beneath an open directory. None of them follows a symbolic link, on
//! the way or at the end: the place that was checked is the place that is accessed, even if other
//! processes rename files meanwhile.
//!
//! All changes of the disk are made here, so that tests can make each single step fail, or kill
//! the process there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, DirEntry, FileType, FlockOperation, Mode, OFlags, RawMode, RenameFlags, Stat,
    Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::error::is_gone;

/// Flags with which `open` never waits and never follows links.
const NO_WAIT: OFlags = NO_FOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags for every way of opening.
const NO_FOLLOW: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// Flags for a directory that is opened only to access its entries.
#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = NO_FOLLOW.union(OFlags::PATH).union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = NO_FOLLOW.union(OFlags::RDONLY).union(OFlags::DIRECTORY);

/// Flags to read a file of the host without changing its access time, which would be one more write
/// to its inode.
#[cfg(target_os = "linux")]
pub(crate) const READ_NO_ATIME: OFlags = OFlags::RDONLY.union(OFlags::NOATIME);
#[cfg(not(target_os = "linux"))]
pub(crate) const READ_NO_ATIME: OFlags = OFlags::RDONLY;

/// Opens `place`; fails with `ELOOP` if a symbolic link is on the way or at the end.
pub(crate) fn open(root: impl AsFd, place: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let (root, flags) = (root.as_fd(), flags | NO_WAIT);
    match open_exactly(root, place, flags) {
        // Only the owner may open with `O_NOATIME`.
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && flags.contains(READ_NO_ATIME) =>
        {
            open_exactly(root, place, flags.difference(READ_NO_ATIME))
        }
        opened => opened,
    }
}

/// The pauses before each further attempt to open a file, in milliseconds. Their sum is short enough
/// for a walk over many such files.
#[cfg(target_os = "linux")]
const PAUSES_MS: [u64; 6] = [0, 1, 2, 4, 4, 4];

fn open_exactly(root: BorrowedFd<'_>, place: &str, flags: OFlags) -> io::Result<OwnedFd> {
    if place.is_empty() {
        return Ok(rustix::fs::openat(root, ".", flags, Mode::empty())?);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // `resolve` already excludes links; with NOFOLLOW, one at the end could fail with ENOTDIR.
        let flags = flags.difference(OFlags::NOFOLLOW);
        let mut pauses = PAUSES_MS.into_iter();
        loop {
            match rustix::fs::openat2(root, place, flags, Mode::empty(), resolve) {
                // A file was renamed during the lookup; or another program has a lease on the file
                // (F_SETLEASE), and the kernel has asked for its release, which may take a minute.
                Err(Errno::AGAIN | Errno::INTR) => match pauses.next() {
                    Some(pause) => std::thread::sleep(Duration::from_millis(pause)),
                    None => return Err(Errno::AGAIN.into()),
                },
                // A kernel before 5.6, or a sandbox that doesn't know the call.
                Err(Errno::NOSYS) => break,
                opened => return Ok(opened?),
            }
        }
    }
    open_by_names(root, place, flags)
}

/// Opens `place` one name at a time.
fn open_by_names(root: BorrowedFd<'_>, place: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let (directories, name) = split(place);
    let mut parent: Option<OwnedFd> = None;
    for directory in directories.split('/').filter(|name| !name.is_empty()) {
        let from = parent.as_ref().map_or(root, AsFd::as_fd);
        parent = Some(open_name(from, directory, TRAVERSE)?);
    }
    open_name(parent.as_ref().map_or(root, AsFd::as_fd), name, flags)
}

fn open_name(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        // Also the error for a link where a directory is required.
        Err(Errno::NOTDIR) => {
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_link = file_type(&stat) == FileType::Symlink;
            Err(if is_link { Errno::LOOP } else { Errno::NOTDIR }.into())
        }
        opened => Ok(opened?),
    }
}

/// A place: its directory, open, and its name in the directory.
pub(crate) struct Spot<'a> {
    root: BorrowedFd<'a>,
    directory: Option<OwnedFd>,
    name: &'a str,
}

impl<'a> Spot<'a> {
    /// Opens the directory of `place`, which is not the root itself.
    pub(crate) fn of(root: &'a impl AsFd, place: &'a str) -> io::Result<Self> {
        let root = root.as_fd();
        let (directory, name) = split(place);
        let directory = match directory {
            "" => None,
            directory => Some(open_exactly(root, directory, TRAVERSE)?),
        };
        Ok(Self { root, directory, name })
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(self.root, AsFd::as_fd)
    }

    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.directory(), self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the metadata; `None` if the place does not exist.
    pub(crate) fn look(&self) -> io::Result<Option<Stat>> {
        found(self.stat())
    }

    /// Removes the file or link.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove(self.directory(), self.name, AtFlags::empty())
    }

    /// Returns the target of the link.
    pub(crate) fn read_link(&self) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.directory(), self.name, Vec::new())?.into_bytes())
    }

    /// Renames without replacing: fails with `AlreadyExists` if `to` exists.
    pub(crate) fn move_to(&self, to: &Spot<'_>) -> io::Result<()> {
        step()?;
        let (from, to_directory) = (self.directory(), to.directory());
        match rustix::fs::renameat_with(
            from,
            self.name,
            to_directory,
            to.name,
            flags(RenameFlags::NOREPLACE),
        ) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // The file system lacks the flag; a hard link fails if the name exists.
                let flags = AtFlags::empty();
                match rustix::fs::linkat(from, self.name, to_directory, to.name, flags) {
                    Ok(()) => self.remove()?,
                    // Directories can't have hard links.
                    Err(Errno::PERM) if to.look()?.is_none() => {
                        rustix::fs::renameat(from, self.name, to_directory, to.name)?;
                    }
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            }
            moved => Ok(moved?),
        }
    }

    /// Exchanges the files at two places, in one step.
    pub(crate) fn exchange(&self, other: &Spot<'_>) -> io::Result<()> {
        step()?;
        let (from, to) = (self.directory(), other.directory());
        let flags = flags(RenameFlags::EXCHANGE);
        match rustix::fs::renameat_with(from, self.name, to, other.name, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // The file system lacks the flag; the replaced file gets a second name first.
                let aside = aside(self.name);
                rustix::fs::linkat(to, other.name, from, &aside, AtFlags::empty())?;
                step()?;
                rustix::fs::renameat(from, self.name, to, other.name)?;
                step()?;
                Ok(rustix::fs::renameat(from, &aside, from, self.name)?)
            }
            exchanged => Ok(exchanged?),
        }
    }
}

/// Returns the second name that a replaced file has temporarily on a file system that can't
/// exchange.
pub(crate) fn aside(name: &str) -> String {
    format!("{name}.aside")
}

/// Splits a place into its directory and its name.
pub(crate) fn split(place: &str) -> (&str, &str) {
    place.rsplit_once('/').unwrap_or(("", place))
}

/// Returns the metadata of `place`, without following a link.
pub(crate) fn stat(root: impl AsFd, place: &str) -> io::Result<Stat> {
    match place {
        "" => Ok(rustix::fs::fstat(root)?),
        place => Spot::of(&root, place)?.stat(),
    }
}

/// Returns the metadata of `place`, without following a link; `None` if it does not exist.
pub(crate) fn look(root: impl AsFd, place: &str) -> io::Result<Option<Stat>> {
    found(stat(root, place))
}

/// As [`look`]; also `None` if a directory on the way does not exist, or is no directory (any more).
pub(crate) fn find(root: impl AsFd, place: &str) -> io::Result<Option<Stat>> {
    match stat(root, place) {
        Err(error) if is_gone(&error) => Ok(None),
        stat => stat.map(Some),
    }
}

fn found(stat: io::Result<Stat>) -> io::Result<Option<Stat>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a new file, for reading and writing.
pub(crate) fn create(directory: impl AsFd, name: &str) -> io::Result<File> {
    step()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | NO_WAIT;
    // Restricted by the umask of the process, as for any new file.
    Ok(rustix::fs::openat(directory, name, flags, permissions(0o666))?.into())
}

/// Returns permissions with the execute permission for all who may read the file.
pub(crate) fn executable(mode: u32) -> u32 {
    mode | (mode & 0o444) >> 2
}

pub(crate) fn create_directory(directory: impl AsFd, name: &str, mode: u32) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::mkdirat(directory, name, permissions(mode))?)
}

/// The permissions of a new directory, which the umask of the process restricts.
pub(crate) const DEFAULT_MODE: u32 = 0o777;

/// The permissions of a directory that only its owner may access.
pub(crate) const OWNER_ONLY: u32 = 0o700;

pub(crate) fn create_link(directory: impl AsFd, name: &str, target: &str) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::symlinkat(target, directory, name)?)
}

/// Renames a file, within a directory or to another one; replaces an existing file.
pub(crate) fn rename(
    from: impl AsFd,
    name: impl Arg,
    to: impl AsFd,
    new_name: impl Arg,
) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::renameat(from, name, to, new_name)?)
}

/// Gives a file another name.
pub(crate) fn link(
    from: impl AsFd,
    name: impl Arg,
    to: impl AsFd,
    new_name: impl Arg,
) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?)
}

/// Removes a file or, with `REMOVEDIR`, an empty directory. A missing one is not an error.
pub(crate) fn remove(directory: impl AsFd, name: &str, flags: AtFlags) -> io::Result<()> {
    step()?;
    match rustix::fs::unlinkat(directory, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Removes a file or directory of the host, recursively. A missing one is not an error.
pub(crate) fn remove_all(directory: impl AsFd, name: &str) -> io::Result<()> {
    let directory = directory.as_fd();
    if unlink(directory, name.as_ref())? {
        return Ok(());
    }
    remove_all_in(open_anyway(directory, name.as_ref())?)?;
    remove(directory, name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory. Subdirectories may have no permissions, names that are not
/// UTF-8, and any depth: each is moved to the top before it is opened, so that memory use does not
/// depend on the depth.
pub(crate) fn remove_all_in(top: impl AsFd) -> io::Result<()> {
    let top = top.as_fd();
    loop {
        let mut is_empty = true;
        for entry in entries(top)? {
            let name = entry?.name;
            is_empty = false;
            if unlink(top, &name)? {
                continue;
            }
            let directory = open_anyway(top, &name)?;
            for entry in entries(&directory)? {
                let below = entry?.name;
                if !unlink(directory.as_fd(), &below)? {
                    open_anyway(directory.as_fd(), &below)?;
                    // A name that does not exist yet.
                    let fresh = uuid::Uuid::now_v7().to_string();
                    rustix::fs::renameat(&directory, &below, top, fresh)?;
                }
            }
            match rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR) {
                // Some file systems skip entries while others are removed: repeat.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                removed => removed?,
            }
        }
        if is_empty {
            return Ok(());
        }
    }
}

/// Removes a file or link; returns false for a directory.
fn unlink(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    step()?;
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        // POSIX allows both errors for a directory.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(Errno::NOENT) => Ok(true),
        removed => Ok(removed.map(|()| true)?),
    }
}

/// Opens a directory of this user, after setting its mode to 0700.
pub(crate) fn open_anyway(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | NO_FOLLOW;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Locks a file for this process, or returns false if another one holds a lock.
pub(crate) fn try_lock(file: impl AsFd, how: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file that this process has locked.
///
/// Dropping it ends the lock at once. To close the file would not be enough: a program that is being
/// started has a copy of its descriptor for a moment.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Locks a file; `None` if another process holds a lock, and `how` does not wait for it.
    pub(crate) fn new(file: impl Into<File>, how: FlockOperation) -> io::Result<Option<Self>> {
        let file = file.into();
        Ok(try_lock(&file, how)?.then_some(Self(file)))
    }

    /// Creates a locked file under the name `new`, writes `content`, and renames it to `name`. If that
    /// fails, nothing is left.
    pub(crate) fn create(
        directory: &OwnedFd,
        [new, name]: [&str; 2],
        content: &[u8],
        durable: bool,
    ) -> io::Result<Self> {
        let file = create(directory, new)?;
        let written = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| (&file).write_all(content))
            .and_then(|()| if durable { sync(&file) } else { Ok(()) })
            .and_then(|()| rename(directory, new, directory, name));
        match written {
            Ok(()) => Ok(Self(file)),
            Err(error) => {
                remove_all(directory, new)?;
                Err(error)
            }
        }
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.0, FlockOperation::NonBlockingUnlock) {
            tracing::warn!("a file stays locked: {error}");
        }
    }
}

/// Waits until a file or directory is on the disk.
pub(crate) fn sync(file: impl AsFd) -> io::Result<()> {
    step()?;
    match rustix::fs::fsync(file) {
        // The file system can't sync directories.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        synced => Ok(synced?),
    }
}

/// Waits until everything in the file system of a directory is on the disk.
pub(crate) fn sync_file_system(directory: impl AsFd) -> io::Result<()> {
    step()?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(directory)?;
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        rustix::fs::sync();
    }
    Ok(())
}

/// Starts writing a file's content to the disk, so that [`sync`] waits less.
pub(crate) fn start_sync(file: impl AsFd) {
    // Pages that are being written stay in memory; those on the disk are dropped.
    #[cfg(not(target_vendor = "apple"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(target_vendor = "apple")]
    let _ = file;
}

/// Sets the modification time, in nanoseconds since the epoch.
pub(crate) fn set_modified(spot: &Spot<'_>, modified: i64) -> io::Result<()> {
    step()?;
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: omit, last_modification: timespec(modified) };
    Ok(rustix::fs::utimensat(spot.directory(), spot.name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Listed {
    /// The name in the directory, which may not be UTF-8.
    pub name: OsString,
    /// The type, which may be unknown on some file systems.
    pub kind: FileType,
    /// The inode on the directory's device; `None` for an entry that a transaction has changed.
    pub inode: Option<u64>,
}

/// Returns the entries of a directory, without `.` and `..`.
pub(crate) fn entries(
    directory: impl AsFd,
) -> io::Result<impl Iterator<Item = io::Result<Listed>>> {
    let list = Dir::read_from(directory)?;
    Ok(list.filter_map(|entry| entry.map_err(io::Error::from).map(listed).transpose()))
}

/// As [`entries`], with the type of each entry.
pub(crate) fn list(directory: OwnedFd) -> io::Result<Vec<Listed>> {
    let mut list = Dir::new(directory)?;
    let mut all = Vec::new();
    while let Some(entry) = list.read() {
        let Some(mut entry) = listed(entry?) else { continue };
        if entry.kind == FileType::Unknown {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            entry.kind = file_type(&rustix::fs::statat(list.fd()?, &entry.name, flags)?);
        }
        all.push(entry);
    }
    Ok(all)
}

/// Converts an entry; `None` for `.` and `..`.
fn listed(entry: DirEntry) -> Option<Listed> {
    use std::os::unix::ffi::OsStringExt as _;
    let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
    let is_other = name != "." && name != "..";
    is_other.then(|| Listed { name, kind: entry.file_type(), inode: Some(entry.ino()) })
}

/// Whether a directory is empty.
pub(crate) fn is_empty(directory: impl AsFd) -> io::Result<bool> {
    Ok(entries(directory)?.next().is_none())
}

/// Converts nanoseconds since the epoch.
pub(crate) fn timespec(time: i64) -> Timespec {
    let second = 1_000_000_000;
    Timespec { tv_sec: time.div_euclid(second), tv_nsec: time.rem_euclid(second) }
}

/// Fields whose types differ between systems.
pub(crate) trait StatFields {
    /// The type and the permissions.
    fn mode(&self) -> u32;
    /// The number of the device.
    fn device(&self) -> u64;
}

impl StatFields for Stat {
    fn mode(&self) -> u32 {
        fn wide(mode: impl Into<u32>) -> u32 {
            mode.into()
        }
        wide(self.st_mode)
    }

    fn device(&self) -> u64 {
        fn unsigned(device: impl TryInto<u64>) -> u64 {
            device.try_into().unwrap_or(u64::MAX)
        }
        unsigned(self.st_dev)
    }
}

/// Permissions for a system call.
pub(crate) fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode as RawMode)
}

/// Returns the access and modification times.
pub(crate) fn times(stat: &Stat) -> Timestamps {
    let time =
        |seconds, rest| Timespec { tv_sec: seconds, tv_nsec: i64::try_from(rest).unwrap_or(0) };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Returns the modification time, in nanoseconds since the epoch.
pub(crate) fn modified(stat: &Stat) -> i64 {
    nanoseconds(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

/// Returns the time of the inode's last change, in nanoseconds since the epoch.
pub(crate) fn changed(stat: &Stat) -> i64 {
    nanoseconds(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

/// Converts a time of the kernel to nanoseconds since the epoch.
pub(crate) fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Called before each step that changes the disk.
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

/// Returns the flags of a rename.
#[cfg(not(test))]
fn flags(flags: RenameFlags) -> RenameFlags {
    flags
}

#[cfg(test)]
use faults::flags;
#[cfg(test)]
pub(crate) use faults::step;

/// Fault injection: kills the process, or makes a system call fail, at one step. See the tests of
/// [`crate::transaction`].
#[cfg(test)]
pub(crate) mod faults {
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::fs::RenameFlags;

    /// `kill:STEP` or `ERRNO:STEP`; the first step is 1.
    pub(crate) const VARIABLE: &str = "COFFERDAM_TEST_FAULT";

    /// If set, behaves like a file system without rename flags.
    pub(crate) const PLAIN: &str = "COFFERDAM_TEST_PLAIN";

    #[expect(clippy::disallowed_methods, reason = "how a test tells its child what to do")]
    pub(crate) fn flags(flags: RenameFlags) -> RenameFlags {
        static PLAIN_ONLY: OnceLock<bool> = OnceLock::new();
        let is_plain = *PLAIN_ONLY.get_or_init(|| std::env::var_os(PLAIN).is_some());
        if is_plain { RenameFlags::from_bits_retain(1 << 30) } else { flags }
    }

    static STEPS: AtomicU64 = AtomicU64::new(0);

    /// Returns the number of steps so far.
    pub(crate) fn steps() -> u64 {
        STEPS.load(Ordering::SeqCst)
    }

    #[expect(clippy::disallowed_methods, reason = "how a test tells its child what to do")]
    pub(crate) fn step() -> io::Result<()> {
        static FAULT: OnceLock<Option<(String, u64)>> = OnceLock::new();
        let step = STEPS.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = FAULT.get_or_init(|| {
            let text = std::env::var(VARIABLE).ok()?;
            let (what, at) = text.split_once(':')?;
            Some((what.to_owned(), at.parse().ok()?))
        });
        match fault {
            Some((what, at)) if *at == step => match what.parse() {
                Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
                Err(_) => {
                    let me = rustix::process::getpid();
                    let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
                    loop {
                        std::thread::park();
                    }
                }
            },
            _ => Ok(()),
        }
    }
}
