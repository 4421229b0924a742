//! Polls the size of what a run writes to disk.
//!
//! Counting the content of a directory takes time, so it is only done when the free space of its
//! disk has shrunk so much that the limit could be near, and otherwise at intervals, for at most a
//! twentieth of the time. Reading the free space of a disk is one system call, which is done in
//! each poll.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fstatvfs, openat, stat};

use super::procfs::{self, Status};
use crate::usage::{Count, Usage};
use crate::{Bounded, Command, Limit, SandboxError};

/// The time until the first count, and the least time between two counts.
const COUNT_INTERVAL: Duration = Duration::from_millis(250);

/// At least this many times the duration of a count passes before the next one, if nothing seems to
/// be written.
const PAUSE_PER_COUNT: u32 = 20;

/// The least decrease of the free space that causes a count, in bytes.
const MIN_SHRINK_BYTES: u64 = 1 << 20;

/// A disk with fewer free inodes than this counts as full.
const MIN_FREE_FILES: u64 = 1000;

/// The number of open files that are checked for being deleted.
const MAX_DESCRIPTORS: usize = 20_000;

/// The suffix of the link to a deleted file: proc(5).
const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// The bounded directories of a run.
pub(super) struct Watch {
    watched: Vec<Watched>,
    reserve: u64,
}

struct Watched {
    /// The index in [`Command::bounded`]; none for the directory for temporary files.
    number: Option<usize>,
    directory: OwnedFd,
    /// Its path as the program sees it.
    shown: PathBuf,
    most: Usage,
    /// The result of the last count.
    found: Usage,
    /// The free space at the last count.
    free: u64,
    /// When it is counted again: at the earliest, and at the latest.
    due: (Instant, Instant),
    /// The free bytes and inodes below which the disk counts as full.
    floor: (u64, u64),
}

/// Returns the free bytes and inodes of a disk; not every file system counts inodes.
fn free(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let disk = fstatvfs(directory)?;
    let files = if disk.f_files == 0 { u64::MAX } else { disk.f_favail };
    Ok((disk.f_bavail.saturating_mul(disk.f_frsize), files))
}

impl Watch {
    /// Opens the directories, while the host's own file tree is mounted.
    ///
    /// # Errors
    /// Returns an error if a directory can't be opened.
    pub(super) fn new(command: &Command) -> Result<Self, SandboxError> {
        let mut watch = Self { watched: Vec::new(), reserve: command.limits.reserve };
        for (number, bounded) in command.bounded.iter().enumerate() {
            let overlay = command.overlay.as_ref();
            let overlay = overlay.filter(|overlay| overlay.upper.starts_with(&bounded.directory));
            let shown = overlay.map_or(&bounded.directory, |overlay| &overlay.lower);
            watch.add(Some(number), bounded, shown)?;
        }
        Ok(watch)
    }

    /// Adds the directory for temporary files.
    ///
    /// # Errors
    /// Returns an error if it can't be opened.
    pub(super) fn with_temporary(
        mut self,
        path: &Path,
        command: &Command,
    ) -> Result<Self, SandboxError> {
        let bytes = command.limits.temporary;
        // As many files as in tier A.
        let bounded = Bounded {
            directory: path.to_owned(),
            bytes,
            entries: (bytes / 4096).max(1024),
            held: (0, 0),
        };
        self.add(None, &bounded, path)?;
        Ok(self)
    }

    fn add(
        &mut self,
        number: Option<usize>,
        bounded: &Bounded,
        shown: &Path,
    ) -> Result<(), SandboxError> {
        let path = &bounded.directory;
        let open = || {
            let directory = open(path)?;
            let free = free(&directory)?;
            io::Result::Ok((directory, free))
        };
        let (directory, (free, files)) = open()
            .map_err(|error| SandboxError::Command(format!("{}: {error}", path.display())))?;
        let now = Instant::now();
        let (bytes, entries) = bounded.held;
        self.watched.push(Watched {
            number,
            directory,
            shown: shown.to_owned(),
            most: Usage { bytes: bounded.bytes, entries: bounded.entries, ..Usage::MAX },
            found: Usage { bytes, entries, ..Usage::default() },
            free,
            due: (now, now + COUNT_INTERVAL),
            // A disk that is nearly full can still be used.
            floor: (self.reserve.min(free / 2), MIN_FREE_FILES.min(files / 2)),
        });
        Ok(())
    }

    /// Opens the directories that the program sees under their own paths again by those paths: this
    /// process may run as another user than before.
    pub(super) fn enter(&mut self) {
        for watched in &mut self.watched {
            let here = open(&watched.shown);
            let is_same = |here: &OwnedFd| {
                let [here, there] = [here, &watched.directory].map(rustix::fs::fstat);
                matches!((here, there), (Ok(here), Ok(there)) if here.st_ino == there.st_ino
                    && here.st_dev == there.st_dev)
            };
            if let Some(here) = here.ok().filter(is_same) {
                watched.directory = here;
            }
        }
    }

    /// Returns a limit that is exceeded, counting only where it is due. `members` are the processes
    /// of the run; `is_over` says whether they have ended.
    ///
    /// # Errors
    /// Returns an error if the free space of a disk can't be read.
    pub(super) fn look(&mut self, members: &[Status], is_over: bool) -> io::Result<Option<Limit>> {
        for watched in &mut self.watched {
            let (bytes, files) = free(&watched.directory)?;
            if bytes < watched.floor.0 || files < watched.floor.1 {
                return Ok(Some(Limit::Disk { number: watched.number, free: bytes, files }));
            }
            if watched.is_due(bytes, is_over) && watched.count(members, bytes)? {
                let Usage { bytes, entries, .. } = watched.found;
                return Ok(Some(Limit::Directory { number: watched.number, bytes, entries }));
            }
        }
        Ok(None)
    }
}

impl Watched {
    fn is_due(&self, free: u64, is_over: bool) -> bool {
        let now = Instant::now();
        let left = self.most.bytes.saturating_sub(self.found.bytes);
        let has_shrunk = self.free.saturating_sub(free) >= (left / 4).max(MIN_SHRINK_BYTES);
        // After the end nothing more is written: count a last time if the free space has shrunk.
        has_shrunk && (is_over || now >= self.due.0) || !is_over && now >= self.due.1
    }

    /// Counts the directory; returns whether it exceeds its limit.
    fn count(&mut self, members: &[Status], free: u64) -> io::Result<bool> {
        let begun = Instant::now();
        let mut count = Count::default();
        count.directory(&self.directory, self.most)?;
        self.add_deleted(members, &mut count);
        let (now, cost) = (Instant::now(), begun.elapsed());
        (self.found, self.free) = (count.found, free);
        self.due = (now + cost, now + COUNT_INTERVAL.max(cost * PAUSE_PER_COUNT));
        Ok(self.found.is_above(self.most))
    }

    /// Adds deleted files, which take space while they are open. A process whose descriptors can't
    /// be listed, such as that of a program that its user can't read, exceeds the limit.
    fn add_deleted(&self, members: &[Status], count: &mut Count) {
        let mut left = MAX_DESCRIPTORS;
        for Status { thread, .. } in members {
            let list = match fs::read_dir(format!("/proc/{}/fd", thread.as_raw_nonzero())) {
                Ok(list) => list,
                Err(error) => {
                    // Nor can those of a process that has ended, which holds no files.
                    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
                    if is_denied && procfs::has_memory(*thread) {
                        let beyond = self.most.bytes.saturating_add(1);
                        count.found.bytes = count.found.bytes.max(beyond);
                    }
                    continue;
                }
            };
            for entry in list.flatten() {
                let Some(fewer) = left.checked_sub(1) else { return };
                left = fewer;
                let path = entry.path();
                let Ok(target) = fs::read_link(&path) else { continue };
                let is_deleted = target.as_os_str().as_bytes().ends_with(DELETED_SUFFIX);
                if is_deleted
                    && target.starts_with(&self.shown)
                    && let Ok(stat) = stat(&path)
                    && stat.st_nlink == 0
                {
                    count.add(&stat);
                }
            }
        }
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}
