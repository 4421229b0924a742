//! Runs the steps of a script with Linux system calls, beneath a directory.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT,
};
use rustix::io::Errno;

use super::step::{Flags, Place, Step, Time};

type Played = Result<String, Errno>;

/// A directory and the handles that are open beneath it.
pub struct Native {
    root: OwnedFd,
    handles: HashMap<String, File>,
    listings: HashMap<String, Vec<String>>,
}

impl Native {
    pub fn new(root: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty()).unwrap();
        Self { root, handles: HashMap::new(), listings: HashMap::new() }
    }

    /// Runs a script, and returns the result of each step.
    pub fn play_all(&mut self, steps: &[Step]) -> Vec<String> {
        steps.iter().map(|step| self.play(step)).collect()
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of step")]
    fn play(&mut self, step: &Step) -> String {
        let done = |()| "ok".to_owned();
        let played = match step {
            Step::Open { handle, place, flags } => self.open(handle, place, *flags),
            Step::Close { handle } => {
                self.handles.remove(handle).map(drop).map(done).ok_or(Errno::BADF)
            }
            Step::Read { handle, offset, length } => self.handle(handle).and_then(|file| {
                let mut bytes = vec![0; usize::try_from(*length).unwrap()];
                let length = file.read_at(&mut bytes, *offset).map_err(|error| errno(&error))?;
                Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
            }),
            Step::Write { handle, offset, text } => self.handle(handle).and_then(|file| {
                let written = file.write_at(text.as_bytes(), *offset);
                written.map(|length| length.to_string()).map_err(|error| errno(&error))
            }),
            Step::Append { handle, text } => self.handle(handle).and_then(|file| {
                let end = file.metadata().map_err(|error| errno(&error))?.len();
                file.write_all_at(text.as_bytes(), end).map(done).map_err(|error| errno(&error))
            }),
            Step::Size { handle, length } => self
                .handle(handle)
                .and_then(|file| file.set_len(*length).map_err(|error| errno(&error)))
                .map(done),
            Step::StatHandle { handle } => {
                self.handle(handle).and_then(rustix::fs::fstat).map(|stat| describe(&stat))
            }
            Step::Stat { place, follow } => self.stat(place, *follow).map(|stat| describe(&stat)),
            Step::List { place } => self.names(place).map(|names| names.join(",")),
            Step::Count { place } => self.names(place).map(|names| names.len().to_string()),
            Step::Fill { place, count } => self.fill(place, *count).map(done),
            Step::Inodes { place } => self.inodes(place).map(|count| count.to_string()),
            Step::Entries { handle, directory } => self
                .handle(directory)
                .and_then(|directory| names(directory.as_fd()))
                .map(|names| drop(self.listings.insert(handle.clone(), names)))
                .map(done),
            Step::Drain { handle } => {
                self.listings.remove(handle).map(|names| names.join(",")).ok_or(Errno::BADF)
            }
            Step::MakeDirectory { place } => self
                .base(place)
                .and_then(|base| rustix::fs::mkdirat(base, &place.path, 0o777.into()))
                .map(done),
            Step::RemoveDirectory { place } => self
                .base(place)
                .and_then(|base| rustix::fs::unlinkat(base, &place.path, AtFlags::REMOVEDIR))
                .map(done),
            Step::Unlink { place } => self
                .base(place)
                .and_then(|base| rustix::fs::unlinkat(base, &place.path, AtFlags::empty()))
                .map(done),
            Step::ReadLink { place } => self
                .base(place)
                .and_then(|base| rustix::fs::readlinkat(base, &place.path, Vec::new()))
                .map(|target| target.into_string().unwrap()),
            Step::Rename { from, to } => self.rename(from, to).map(done),
            Step::Link { from, to } => self.link(from, to).map(done),
            Step::Symlink { target, place } => self
                .base(place)
                .and_then(|base| rustix::fs::symlinkat(target, base, &place.path))
                .map(done),
            Step::Times { place } => {
                self.stat(place, false).map(|stat| format!("{} {}", stat.st_atime, stat.st_mtime))
            }
            Step::SetTimes { place, accessed, modified } => self
                .base(place)
                .and_then(|base| {
                    let times = timestamps(*accessed, *modified);
                    rustix::fs::utimensat(base, &place.path, &times, AtFlags::SYMLINK_NOFOLLOW)
                })
                .map(done),
            Step::SetTimesOfHandle { handle, accessed, modified } => self
                .handle(handle)
                .and_then(|file| rustix::fs::futimens(file, &timestamps(*accessed, *modified)))
                .map(done),
            Step::Same { left, right } => self.same(left, right).map(|same| same.to_string()),
            Step::SameHash { left, right } => {
                let object = |place| self.stat(place, true).map(|stat| (stat.st_dev, stat.st_ino));
                object(left).and_then(|left| Ok((left == object(right)?).to_string()))
            }
        };
        played.unwrap_or_else(name)
    }

    fn handle(&self, name: &str) -> Result<&File, Errno> {
        self.handles.get(name).ok_or(Errno::BADF)
    }

    fn base(&self, place: &Place) -> Result<BorrowedFd<'_>, Errno> {
        match &place.base {
            None => Ok(self.root.as_fd()),
            Some(handle) => self.handle(handle).map(|file| file.as_fd()),
        }
    }

    fn open(&mut self, handle: &str, place: &Place, flags: Flags) -> Played {
        let mut mode = match (flags.read, flags.write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        for (is_set, flag) in [
            (flags.create, OFlags::CREATE),
            (flags.exclusive, OFlags::EXCL),
            (flags.truncate, OFlags::TRUNC),
            (flags.directory, OFlags::DIRECTORY),
            (flags.no_follow, OFlags::NOFOLLOW),
        ] {
            mode.set(flag, is_set);
        }
        let opened = self.openat(place, mode)?;
        self.handles.insert(handle.to_owned(), opened.into());
        Ok("ok".to_owned())
    }

    /// Opens beneath the directory with `openat2`, which is what a plugin's paths are compared
    /// with.
    fn openat(&self, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mode = if flags.contains(OFlags::CREATE) { 0o666.into() } else { Mode::empty() };
        let base = self.base(place)?;
        let flags = flags | OFlags::CLOEXEC;
        let open = || rustix::fs::openat2(base, &place.path, flags, mode, ResolveFlags::BENEATH);
        // A path with `..` has to be tried again if anything on the system is renamed meanwhile: openat2(2).
        std::iter::repeat_with(open).find(|opened| !matches!(opened, Err(Errno::AGAIN))).unwrap()
    }

    fn names(&self, place: &Place) -> Result<Vec<String>, Errno> {
        names(self.openat(place, OFlags::RDONLY | OFlags::DIRECTORY)?.as_fd())
    }

    fn inodes(&self, place: &Place) -> Result<usize, Errno> {
        let directory = self.openat(place, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut count = 0;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if ![c".", c".."].contains(&entry.file_name()) {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(&directory, entry.file_name(), flags)?;
                count += usize::from(stat.st_ino == entry.ino());
            }
        }
        Ok(count)
    }

    fn fill(&self, place: &Place, count: u64) -> Result<(), Errno> {
        for number in 0..count {
            let path = format!("{}/{number}", place.path);
            self.openat(
                &Place { base: place.base.clone(), path },
                OFlags::WRONLY | OFlags::CREATE,
            )?;
        }
        Ok(())
    }

    fn stat(&self, place: &Place, follow: bool) -> Result<Stat, Errno> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        rustix::fs::statat(self.base(place)?, &place.path, flags)
    }

    fn rename(&self, from: &Place, to: &Place) -> Result<(), Errno> {
        rustix::fs::renameat(self.base(from)?, &from.path, self.base(to)?, &to.path)
    }

    fn link(&self, from: &Place, to: &Place) -> Result<(), Errno> {
        let flags = AtFlags::empty();
        rustix::fs::linkat(self.base(from)?, &from.path, self.base(to)?, &to.path, flags)
    }

    fn same(&self, left: &str, right: &str) -> Result<bool, Errno> {
        let object = |handle: &str| {
            let metadata = self.handle(handle)?.metadata().map_err(|error| errno(&error))?;
            Ok((metadata.dev(), metadata.ino()))
        };
        Ok(object(left)? == object(right)?)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn names(directory: BorrowedFd<'_>) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_str().unwrap();
        // Only a workspace has the host's own directory.
        if !matches!(name, "." | ".." | ".cofferdam") {
            names.push(format!("{name}:{}", kind(entry.file_type())));
        }
    }
    names.sort();
    Ok(names)
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        _ => "other",
    }
}

fn describe(stat: &Stat) -> String {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => "directory".to_owned(),
        file_type => format!("{} {}", kind(file_type), stat.st_size),
    }
}

fn timestamps(accessed: Time, modified: Time) -> Timestamps {
    let time = |time| match time {
        Time::Same => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Time::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Time::Seconds(seconds) => Timespec { tv_sec: seconds.cast_signed(), tv_nsec: 0 },
    };
    Timestamps { last_access: time(accessed), last_modification: time(modified) }
}

/// The name of WASI's error code for an errno.
fn name(errno: Errno) -> String {
    let name = match errno {
        Errno::ACCESS => "access",
        Errno::BADF => "bad-descriptor",
        Errno::BUSY => "busy",
        Errno::EXIST => "exist",
        Errno::INVAL => "invalid",
        Errno::ISDIR => "is-directory",
        Errno::LOOP => "loop",
        Errno::NAMETOOLONG => "name-too-long",
        Errno::NOENT => "no-entry",
        Errno::NOTDIR => "not-directory",
        Errno::NOTEMPTY => "not-empty",
        Errno::PERM => "not-permitted",
        // The error of `openat2` for a path that leaves the directory.
        Errno::XDEV => "not-permitted",
        other => return other.to_string(),
    };
    name.to_owned()
}
