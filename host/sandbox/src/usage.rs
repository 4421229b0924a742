//! Counts the disk space that a directory takes.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

/// The depth to which directories are searched. A deeper tree exceeds every limit: each level takes
/// a descriptor.
const MAX_DEPTH: usize = 256;

/// The size up to which a directory's own blocks and the like are not counted, in bytes.
const UNCOUNTED_BYTES: u64 = 4096;

/// How much more than twice its size a file may take because its file system preallocates space, in
/// bytes.
const MAX_PREALLOCATED_BYTES: u64 = 1 << 20;

const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The content of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on disk: holes are not counted, and a file with several names counts once.
    pub bytes: u64,
    /// Files, directories and other entries, at any depth.
    pub entries: u64,
    /// When a file in it was last read or written, in seconds since the epoch.
    pub used: i64,
}

impl Usage {
    /// The largest value of each field.
    pub const MAX: Self = Self { bytes: u64::MAX, entries: u64::MAX, used: i64::MAX };

    /// The usage of one entry that is not a directory.
    pub fn of(stat: &Stat) -> Self {
        let mut count = Count::default();
        count.add(stat);
        count.found
    }

    /// Whether the bytes or the entries exceed those of `most`.
    pub fn is_above(self, most: Self) -> bool {
        self.bytes > most.bytes || self.entries > most.entries
    }
}

/// Counts the content of a directory, also in directories without permissions; stops as soon as the
/// count exceeds `most`. Directories nested more than 256 deep count as the largest number of
/// entries.
///
/// # Errors
/// Returns an error if the directory itself can't be read.
pub fn usage(directory: impl AsFd, most: Usage) -> io::Result<Usage> {
    let mut count = Count::default();
    count.directory(directory, most)?;
    Ok(count.found)
}

/// A count in progress.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) found: Usage,
    /// Device and inode of files with several names, or none.
    seen: HashSet<(u64, u64)>,
}

impl Count {
    /// Counts everything in a directory, until the count exceeds `most`.
    ///
    /// # Errors
    /// Returns an error if the directory itself can't be read.
    pub(crate) fn directory(&mut self, top: impl AsFd, most: Usage) -> io::Result<()> {
        // Each level stays open, since the program may move directories meanwhile.
        let mut open = vec![Dir::read_from(top)?];
        while let Some(directory) = open.last_mut() {
            // A directory that was removed meanwhile can't be read.
            let Some(Ok(entry)) = directory.read() else {
                open.pop();
                continue;
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.found.entries = self.found.entries.saturating_add(1);
            let parent = directory.fd()?;
            let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            self.add(&stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let below = open_anyway(parent, name).and_then(Dir::new);
                if open.len() >= MAX_DEPTH {
                    self.found.entries = u64::MAX;
                } else if let Ok(below) = below {
                    open.push(below);
                }
            }
            if self.found.is_above(most) {
                break;
            }
        }
        Ok(())
    }

    /// Counts the bytes of one entry.
    pub(crate) fn add(&mut self, stat: &Stat) {
        let (blocks, size) = (unsigned(stat.st_blocks).saturating_mul(512), unsigned(stat.st_size));
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_nlink != 1 && !self.seen.insert((unsigned(stat.st_dev), stat.st_ino))
        {
            return;
        }
        let bytes = if !is_file {
            blocks.saturating_sub(UNCOUNTED_BYTES)
        } else if blocks > size.saturating_mul(2).saturating_add(MAX_PREALLOCATED_BYTES) {
            // Space that was allocated beyond the end of the file.
            blocks
        } else {
            blocks.min(size)
        };
        self.found.bytes = self.found.bytes.saturating_add(bytes);
        if is_file {
            self.found.used = self.found.used.max(stat.st_mtime).max(stat.st_atime);
        }
    }
}

fn unsigned(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

/// Opens a directory. One that its owner may not read is made readable for that moment.
fn open_anyway(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match openat(parent, name, OPEN_FLAGS, Mode::empty()) {
        Err(Errno::ACCESS) => open_unreadable(parent, name),
        opened => opened,
    }
}

#[cfg(target_os = "linux")]
fn open_unreadable(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    use std::fs::Permissions;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::fstat;

    // By its descriptor: a link could have replaced the directory at its name.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(parent, name, flags, Mode::empty())?;
    let mode = fstat(&found)?.st_mode;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let set = |mode| {
        let set = std::fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777));
        set.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
    };
    set(mode | 0o500)?;
    let opened = openat(&found, ".", OPEN_FLAGS, Mode::empty());
    set(mode)?;
    opened
}

/// No program that could take a permission away runs on other systems.
#[cfg(not(target_os = "linux"))]
fn open_unreadable(_: BorrowedFd<'_>, _: &CStr) -> rustix::io::Result<OwnedFd> {
    Err(Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn found(directory: &Path) -> Usage {
        usage(fs::File::open(directory).unwrap(), Usage::MAX).unwrap()
    }

    #[test]
    fn the_content_of_a_directory_is_counted_once() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        assert_eq!(found(top), Usage::default());
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(top.join("a/b/file"), top.join("again")).unwrap();
        std::os::unix::fs::symlink("/", top.join("link")).unwrap();
        // A hole takes no space.
        fs::File::create(top.join("hole")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!((found(top).bytes, found(top).entries), (100_000, 6));
        // The directory has no permissions.
        fs::set_permissions(top.join("a"), Permissions::from_mode(0o000)).unwrap();
        assert_eq!((found(top).bytes, found(top).entries), (100_000, 6));
        assert_eq!(fs::metadata(top.join("a")).unwrap().permissions().mode() & 0o777, 0);
        fs::set_permissions(top.join("a"), Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn counting_stops_above_the_limit() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(place.path().join(number.to_string()), [1; 1000]).unwrap();
        }
        let top = fs::File::open(place.path()).unwrap();
        for (bytes, entries) in [(9_000, u64::MAX), (u64::MAX, 9)] {
            let most = Usage { bytes, entries, ..Usage::MAX };
            assert_eq!(usage(&top, most).unwrap().entries, 10);
        }
        let mut deep = place.path().to_owned();
        deep.extend(["d"; 300]);
        fs::create_dir_all(&deep).unwrap();
        assert!(found(place.path()).is_above(Usage { entries: 1 << 40, ..Usage::MAX }));
    }
}
