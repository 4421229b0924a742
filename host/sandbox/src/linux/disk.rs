//! Watches what a run writes to disks, while it writes.
//!
//! Counting what a directory holds takes a while, so it is done where there is a reason for it:
//! when the free room of its disk has shrunk by so much that the bound could soon be reached, and
//! otherwise from time to time, for at most a twentieth of the time. Asking a disk for its free room
//! is one system call, and done at each look.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fstatvfs, openat, stat};
use rustix::process::Pid;

use crate::usage::{Count, Usage};
use crate::{Bounded, Command, Limit, SandboxError};

/// The first count, and the least time between two.
const COUNT_INTERVAL: Duration = Duration::from_millis(250);

/// How much of the time counting takes at most, where nothing seems to be written: one part in
/// this many.
const PAUSE_PER_COUNT: u32 = 20;

/// The least that the free room must have shrunk by, in bytes.
const MIN_SHRINK_BYTES: u64 = 1 << 20;

/// How many files without a name are left that could be made, before a disk counts as full.
const MIN_FREE_FILES: u64 = 1000;

/// How many open files are looked at for those without a name.
const MAX_DESCRIPTORS: usize = 20_000;

/// What the name of a file that has none any more ends with: proc(5).
const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// The directories of a run that are bounded.
pub(super) struct Watch {
    watched: Vec<Watched>,
    reserve: u64,
}

struct Watched {
    /// Which of [`Command::bounded`] it is; none: that for temporary files.
    number: Option<usize>,
    directory: OwnedFd,
    /// Its path as the program has it.
    shown: PathBuf,
    most: Usage,
    /// What was found at last.
    found: Usage,
    /// The free room then.
    free: u64,
    /// When it is counted anew: at the earliest, and in any case.
    due: (Instant, Instant),
    /// The free room and files below which the disk counts as full.
    floor: (u64, u64),
}

/// Free room in bytes, and files that could be made; those are not counted by every file system.
fn free(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let disk = fstatvfs(directory)?;
    let files = if disk.f_files == 0 { u64::MAX } else { disk.f_favail };
    Ok((disk.f_bavail.saturating_mul(disk.f_frsize), files))
}

impl Watch {
    /// Opens what is to be watched, as long as the host's own tree is there.
    ///
    /// # Errors
    /// A directory that can't be opened.
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

    /// Watches the directory for temporary files as well.
    ///
    /// # Errors
    /// It can't be opened.
    pub(super) fn with_temporary(
        mut self,
        path: &Path,
        command: &Command,
    ) -> Result<Self, SandboxError> {
        let bytes = command.limits.temporary;
        // As in tier A.
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
            // A disk that is nearly full already can still be worked on.
            floor: (self.reserve.min(free / 2), MIN_FREE_FILES.min(files / 2)),
        });
        Ok(())
    }

    /// Opens once more, by their paths, what the program sees under its own path: there, this
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

    /// Which bound is exceeded, as far as there is a reason to look. `members` are the processes of
    /// the run; `is_over`: they have ended.
    ///
    /// # Errors
    /// A disk that does not say how much room it has.
    pub(super) fn look(&mut self, members: &[Pid], is_over: bool) -> io::Result<Option<Limit>> {
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
        // What has ended writes nothing more: a last look, where it has written at all.
        has_shrunk && (is_over || now >= self.due.0) || !is_over && now >= self.due.1
    }

    /// Counts it anew. Says whether it holds too much.
    fn count(&mut self, members: &[Pid], free: u64) -> io::Result<bool> {
        let begun = Instant::now();
        let mut count = Count::default();
        count.directory(&self.directory, self.most)?;
        self.add_deleted(members, &mut count);
        let (now, cost) = (Instant::now(), begun.elapsed());
        (self.found, self.free) = (count.found, free);
        self.due = (now + cost, now + COUNT_INTERVAL.max(cost * PAUSE_PER_COUNT));
        Ok(self.found.is_above(self.most))
    }

    /// Adds files that have no name any more, and take their room as long as they are open.
    fn add_deleted(&self, members: &[Pid], count: &mut Count) {
        let mut left = MAX_DESCRIPTORS;
        for pid in members {
            let Ok(list) = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else {
                continue;
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
