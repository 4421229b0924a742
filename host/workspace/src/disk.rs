//! System calls on places beneath an open directory. None of them follows a symbolic link, on
//! the way or at the end: a place that was decided on is the place that is touched, however
//! others move things about meanwhile.
//!
//! Whatever changes the disk goes through here, so that tests can make each single step fail,
//! or the process die there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// Flags with which opening never waits and never follows.
const CALM: OFlags = BARE.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags that any way of opening takes.
const BARE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// How a directory is opened only to name what is in it.
#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = BARE.union(OFlags::PATH).union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = BARE.union(OFlags::RDONLY).union(OFlags::DIRECTORY);

/// Reading what is the host's own, without noting when: that would be one more change of its inode.
#[cfg(target_os = "linux")]
pub(super) const UNSEEN: OFlags = OFlags::RDONLY.union(OFlags::NOATIME);
#[cfg(not(target_os = "linux"))]
pub(super) const UNSEEN: OFlags = OFlags::RDONLY;

/// Opens `place`; `ELOOP` where a symbolic link is on the way or at the end.
pub(super) fn open(root: impl AsFd, place: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let (root, flags) = (root.as_fd(), flags | CALM);
    match open_exactly(root, place, flags) {
        // Only an owner may leave out the time.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && flags.contains(UNSEEN) => {
            open_exactly(root, place, flags.difference(UNSEEN))
        }
        opened => opened,
    }
}

/// How long opening waits before each further try, in milliseconds; then it fails. Together this is
/// short enough for a walk over many such files.
#[cfg(target_os = "linux")]
const PAUSES: [u64; 6] = [0, 1, 2, 4, 4, 4];

fn open_exactly(root: BorrowedFd<'_>, place: &str, flags: OFlags) -> io::Result<OwnedFd> {
    if place.is_empty() {
        return Ok(rustix::fs::openat(root, ".", flags, Mode::empty())?);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // No link is followed anyway; with NOFOLLOW, one at the end would be ENOTDIR for some.
        let flags = flags.difference(OFlags::NOFOLLOW);
        let mut pauses = PAUSES.into_iter();
        loop {
            match rustix::fs::openat2(root, place, flags, Mode::empty(), resolve) {
                // Something was renamed while the kernel looked; or another program has a lease
                // on the file (F_SETLEASE) and is asked to let go of it, which may take a minute.
                Err(Errno::AGAIN | Errno::INTR) => match pauses.next() {
                    Some(pause) => std::thread::sleep(Duration::from_millis(pause)),
                    None => return Err(Errno::AGAIN.into()),
                },
                // Kernels before 5.6, and sandboxes that don't know the call.
                Err(Errno::NOSYS) => break,
                opened => return Ok(opened?),
            }
        }
    }
    open_by_names(root, place, flags)
}

/// The same, one name at a time.
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
        // Said of links as well, where a directory is wanted.
        Err(Errno::NOTDIR) => {
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_link = file_type(&stat) == FileType::Symlink;
            Err(if is_link { Errno::LOOP } else { Errno::NOTDIR }.into())
        }
        opened => Ok(opened?),
    }
}

/// A place as its directory, open, and the name in it.
pub(super) struct Spot<'a> {
    root: BorrowedFd<'a>,
    directory: Option<OwnedFd>,
    name: &'a str,
}

impl<'a> Spot<'a> {
    /// Opens the directory of `place`, which is not the root itself.
    pub(super) fn of(root: &'a impl AsFd, place: &'a str) -> io::Result<Self> {
        let root = root.as_fd();
        let (directory, name) = split(place);
        let directory = match directory {
            "" => None,
            directory => Some(open_exactly(root, directory, TRAVERSE)?),
        };
        Ok(Self { root, directory, name })
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(self.root, AsFd::as_fd)
    }

    pub(super) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.directory(), self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// What is here; none where nothing is.
    pub(super) fn look(&self) -> io::Result<Option<Stat>> {
        found(self.stat())
    }

    /// Removes the file or link that is here.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(self.directory(), self.name, AtFlags::empty())
    }

    /// Where the link at this place points.
    pub(super) fn read_link(&self) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.directory(), self.name, Vec::new())?.into_bytes())
    }

    /// Moves what is here to a place where nothing is; `AlreadyExists` otherwise.
    pub(super) fn move_to(&self, to: &Spot<'_>) -> io::Result<()> {
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
                // A file system without the flag: a second name fails where there is one.
                let flags = AtFlags::empty();
                match rustix::fs::linkat(from, self.name, to_directory, to.name, flags) {
                    Ok(()) => self.remove()?,
                    // Directories have one name only.
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

    /// Exchanges what is here with what is at `other`, in one step.
    pub(super) fn exchange(&self, other: &Spot<'_>) -> io::Result<()> {
        step()?;
        let (from, to) = (self.directory(), other.directory());
        let flags = flags(RenameFlags::EXCHANGE);
        match rustix::fs::renameat_with(from, self.name, to, other.name, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // A file system without the flag: what is replaced gets a second name first.
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

/// The second name that what is replaced has for a moment, where a file system can't exchange.
pub(super) fn aside(name: &str) -> String {
    format!("{name}.aside")
}

/// A place's directory and the name in it.
pub(super) fn split(place: &str) -> (&str, &str) {
    place.rsplit_once('/').unwrap_or(("", place))
}

/// What is at `place`, a link not followed.
pub(super) fn stat(root: impl AsFd, place: &str) -> io::Result<Stat> {
    match place {
        "" => Ok(rustix::fs::fstat(root)?),
        place => Spot::of(&root, place)?.stat(),
    }
}

/// The same; none where nothing is.
pub(super) fn look(root: impl AsFd, place: &str) -> io::Result<Option<Stat>> {
    found(stat(root, place))
}

fn found(stat: io::Result<Stat>) -> io::Result<Option<Stat>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a file that is not there yet, for reading and writing.
pub(super) fn create(directory: impl AsFd, name: &str) -> io::Result<File> {
    step()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | CALM;
    // What the process' umask leaves, as for any new file.
    Ok(rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o666))?.into())
}

pub(super) fn create_directory(directory: impl AsFd, name: &str, mode: u32) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode))?)
}

/// The permissions of any new directory: what the process' umask leaves of them.
pub(super) const ANYBODY: u32 = 0o777;

/// The permissions of a directory that is nobody else's business.
pub(super) const OWNER_ONLY: u32 = 0o700;

pub(super) fn create_link(directory: impl AsFd, name: &str, target: &str) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::symlinkat(target, directory, name)?)
}

/// Gives something another name in the same directory, or in another one, in place of what may
/// be there.
pub(super) fn rename(
    from: impl AsFd,
    name: impl Arg,
    to: impl AsFd,
    new_name: impl Arg,
) -> io::Result<()> {
    step()?;
    Ok(rustix::fs::renameat(from, name, to, new_name)?)
}

/// Removes a file or, with `REMOVEDIR`, an empty directory. It may be gone already.
pub(super) fn remove(directory: impl AsFd, name: &str, flags: AtFlags) -> io::Result<()> {
    step()?;
    match rustix::fs::unlinkat(directory, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Removes something of the host's own, with everything in it. It may be gone already.
pub(super) fn remove_all(directory: impl AsFd, name: &str) -> io::Result<()> {
    let directory = directory.as_fd();
    if unlink(directory, name.as_ref())? {
        return Ok(());
    }
    remove_all_in(open_anyway(directory, name.as_ref())?)?;
    remove(directory, name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory. Its directories may have no permissions, names that are not
/// text, and any depth: each of them comes to the top before it is looked into, so that this takes
/// the same memory for all of them.
pub(super) fn remove_all_in(top: impl AsFd) -> io::Result<()> {
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
                    // No name that is here already.
                    let fresh = uuid::Uuid::now_v7().to_string();
                    rustix::fs::renameat(&directory, &below, top, fresh)?;
                }
            }
            match rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR) {
                // A file system that loses its place while names go: once more.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                removed => removed?,
            }
        }
        if is_empty {
            return Ok(());
        }
    }
}

/// Removes what is not a directory; returns false for a directory.
fn unlink(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    step()?;
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        // POSIX allows both for a directory.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(Errno::NOENT) => Ok(true),
        removed => Ok(removed.map(|()| true)?),
    }
}

/// Opens a directory so that it can be changed, whatever its permissions were.
pub(super) fn open_anyway(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | BARE;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Waits until a file or directory is on the disk.
pub(super) fn sync(file: impl AsFd) -> io::Result<()> {
    step()?;
    match rustix::fs::fsync(file) {
        // A file system that can't sync directories.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        synced => Ok(synced?),
    }
}

/// Has the disk begin to write what a file holds, so that [`sync`] has less to wait for.
pub(super) fn start_sync(file: impl AsFd) {
    // What is being written stays in memory; what is on the disk already would be read again.
    #[cfg(not(target_vendor = "apple"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(target_vendor = "apple")]
    let _ = file;
}

/// Sets when something was last modified, in nanoseconds since the epoch.
pub(super) fn set_modified(spot: &Spot<'_>, modified: i64) -> io::Result<()> {
    step()?;
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: omit, last_modification: timespec(modified) };
    Ok(rustix::fs::utimensat(spot.directory(), spot.name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Something in a directory.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: OsString,
    /// What it is; the file system may not tell.
    pub kind: FileType,
    /// Its inode, on the directory's device; none for what a transaction has changed.
    pub inode: Option<u64>,
}

/// What is in a directory, without `.` and `..`.
pub(super) fn entries(
    directory: impl AsFd,
) -> io::Result<impl Iterator<Item = io::Result<Listed>>> {
    use std::os::unix::ffi::OsStringExt as _;
    let list = rustix::fs::Dir::read_from(directory)?;
    Ok(list
        .map(|entry| {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            Ok(Listed { name, kind: entry.file_type(), inode: Some(entry.ino()) })
        })
        .filter(|entry| !matches!(entry, Ok(entry) if entry.name == "." || entry.name == "..")))
}

/// Whether nothing is in a directory.
pub(super) fn is_empty(directory: impl AsFd) -> io::Result<bool> {
    Ok(entries(directory)?.next().is_none())
}

/// Nanoseconds since the epoch as the kernel takes them.
pub(super) fn timespec(time: i64) -> Timespec {
    let second = 1_000_000_000;
    Timespec { tv_sec: time.div_euclid(second), tv_nsec: time.rem_euclid(second) }
}

/// When what was looked at was last read and written, as the kernel takes it.
pub(super) fn times(stat: &Stat) -> Timestamps {
    let time =
        |seconds, rest| Timespec { tv_sec: seconds, tv_nsec: i64::try_from(rest).unwrap_or(0) };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// The modification time of what was looked at, in nanoseconds since the epoch.
pub(super) fn modified(stat: &Stat) -> i64 {
    nanoseconds(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

/// The time of the last change of an inode, in nanoseconds since the epoch.
pub(super) fn changed(stat: &Stat) -> i64 {
    nanoseconds(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

/// A kernel's time in nanoseconds since the epoch.
pub(super) fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// One step that changes the disk is about to be taken.
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

/// How something is renamed.
#[cfg(not(test))]
fn flags(flags: RenameFlags) -> RenameFlags {
    flags
}

#[cfg(test)]
use faults::flags;
#[cfg(test)]
pub(super) use faults::step;

/// Makes the process die, or a system call fail, at one step of its own: see the tests of
/// [`super::transaction`].
#[cfg(test)]
pub(super) mod faults {
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::fs::RenameFlags;

    /// `kill:STEP` or `ERRNO:STEP`; the first step is 1.
    pub(crate) const VARIABLE: &str = "COFFERDAM_TEST_FAULT";

    /// Set: as on a file system that knows no ways of renaming.
    pub(crate) const PLAIN: &str = "COFFERDAM_TEST_PLAIN";

    #[expect(clippy::disallowed_methods, reason = "how a test tells its child what to do")]
    pub(super) fn flags(flags: RenameFlags) -> RenameFlags {
        static PLAIN_ONLY: OnceLock<bool> = OnceLock::new();
        let is_plain = *PLAIN_ONLY.get_or_init(|| std::env::var_os(PLAIN).is_some());
        if is_plain { RenameFlags::from_bits_retain(1 << 30) } else { flags }
    }

    static STEPS: AtomicU64 = AtomicU64::new(0);

    /// How many steps there were so far.
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
