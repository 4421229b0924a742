//! Watches what a run writes to disks, while it writes.
//!
//! Counting what a directory holds takes a while, so it is done where there is a reason for it:
//! when the free room of its disk has shrunk by so much that the bound could soon be reached, and
//! otherwise from time to time, for at most a twentieth of the time. Asking a disk for its free room
//! is one system call, and done at each look.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fstatvfs, openat, stat};
use rustix::process::Pid;

use super::tree;
use crate::usage::{Count, Usage};
use crate::{Bounded, Command, Limit, SandboxError};

/// The first count, and the least time between two.
const SOON: Duration = Duration::from_millis(250);

/// How much of the time counting takes at most, where nothing seems to be written: one part in
/// this many.
const SHARE: u32 = 20;

/// The least that the free room must have shrunk by, in bytes.
const SHRUNK: u64 = 1 << 20;

/// How many files without a name are left that could be made, before a disk counts as full.
const FEW_FILES: u64 = 1000;

/// How many open files are looked at for those without a name.
const DESCRIPTORS: usize = 20_000;

/// What the name of a file that has none any more ends with: proc(5).
const DELETED: &[u8] = b" (deleted)";

/// The directories of a run that are bounded.
pub(super) struct Watch {
    places: Vec<Place>,
    reserve: u64,
}

struct Place {
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
    /// What was found and free when the run began.
    begun: (u64, u64),
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
        let mut watch = Self { places: Vec::new(), reserve: command.limits.reserve };
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
        self.places.push(Place {
            number,
            directory,
            shown: shown.to_owned(),
            most: Usage { bytes: bounded.bytes, entries: bounded.entries, ..Usage::MAX },
            found: Usage { bytes, entries, ..Usage::default() },
            free,
            begun: (bytes, free),
            due: (now, now + SOON),
            // A disk that is nearly full already can still be worked on.
            floor: (self.reserve.min(free / 2), FEW_FILES.min(files / 2)),
        });
        Ok(())
    }

    /// Opens once more, by their paths, what the program sees under its own path: there, this
    /// process may run as another user than before.
    pub(super) fn enter(&mut self) {
        for place in &mut self.places {
            let here = open(&place.shown);
            let is_same = |here: &OwnedFd| {
                let [here, there] = [here, &place.directory].map(rustix::fs::fstat);
                matches!((here, there), (Ok(here), Ok(there)) if here.st_ino == there.st_ino
                    && here.st_dev == there.st_dev)
            };
            if let Some(here) = here.ok().filter(is_same) {
                place.directory = here;
            }
        }
    }

    /// Which bound is exceeded, as far as there is a reason to look. `members` are the processes of
    /// the run; `is_over`: they have ended.
    ///
    /// # Errors
    /// A disk that does not say how much room it has.
    pub(super) fn look(&mut self, members: &[Pid], is_over: bool) -> io::Result<Option<Limit>> {
        for place in &mut self.places {
            let (bytes, files) = free(&place.directory)?;
            if bytes < place.floor.0 || files < place.floor.1 {
                return Ok(Some(Limit::Disk { number: place.number, free: bytes, files }));
            }
            if place.is_due(bytes, is_over) && place.count(members, bytes)? {
                let Usage { bytes, entries, .. } = place.found;
                return Ok(Some(Limit::Directory { number: place.number, bytes, entries }));
            }
        }
        Ok(None)
    }
}

impl Place {
    fn is_due(&self, free: u64, is_over: bool) -> bool {
        let now = Instant::now();
        let left = self.most.bytes.saturating_sub(self.found.bytes);
        let has_shrunk = self.free.saturating_sub(free) >= (left / 4).max(SHRUNK);
        // What has ended writes nothing more: a last look, where it has written at all.
        has_shrunk && (is_over || now >= self.due.0) || !is_over && now >= self.due.1
    }

    /// Counts it anew. Says whether it holds too much.
    fn count(&mut self, members: &[Pid], free: u64) -> io::Result<bool> {
        let begun = Instant::now();
        let mut count = Count::default();
        count.directory(&self.directory, self.most)?;
        if self.add_deleted(members, &mut count) {
            // Then it could be all that the disk has less room for.
            let (found, before) = self.begun;
            let most = found.saturating_add(before.saturating_sub(free));
            count.found.bytes = count.found.bytes.max(most);
        }
        let (now, cost) = (Instant::now(), begun.elapsed());
        (self.found, self.free) = (count.found, free);
        self.due = (now + cost, now + SOON.max(cost * SHARE));
        Ok(self.found.is_above(self.most))
    }

    /// Adds files that have no name any more, and take their room as long as they are open. Returns
    /// whether there may be others: a process can't be looked at, or has such a file mapped.
    fn add_deleted(&self, members: &[Pid], count: &mut Count) -> bool {
        let mut left = DESCRIPTORS;
        let mut has_others = false;
        for pid in members {
            let thread = tree::status(*pid).map_or(*pid, |status| status.thread);
            has_others |= self.maps_deleted(thread);
            let list = match fs::read_dir(format!("/proc/{}/fd", thread.as_raw_nonzero())) {
                Ok(list) => list,
                Err(error) => {
                    has_others |= error.kind() == io::ErrorKind::PermissionDenied;
                    continue;
                }
            };
            for entry in list.flatten() {
                let Some(fewer) = left.checked_sub(1) else { return true };
                left = fewer;
                let path = entry.path();
                let Ok(target) = fs::read_link(&path) else { continue };
                let is_deleted = target.as_os_str().as_bytes().ends_with(DELETED);
                if is_deleted
                    && target.starts_with(&self.shown)
                    && let Ok(stat) = stat(&path)
                    && stat.st_nlink == 0
                {
                    count.add(&stat);
                }
            }
        }
        has_others
    }

    /// Whether a process has a file mapped that has no name any more, or can't be looked at.
    fn maps_deleted(&self, thread: Pid) -> bool {
        match fs::read(format!("/proc/{}/maps", thread.as_raw_nonzero())) {
            Ok(maps) => maps.split(|byte| *byte == b'\n').any(|line| {
                let path = line.strip_suffix(DELETED).and_then(|line| {
                    let start = memchr::memchr(b'/', line)?;
                    line.get(start..)
                });
                path.is_some_and(|path| Path::new(OsStr::from_bytes(path)).starts_with(&self.shown))
            }),
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}
