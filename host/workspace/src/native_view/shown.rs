//! The files that a program was shown, to detect which of them it changed.

use std::collections::BTreeMap;
use std::io;

use rustix::fs::Stat;

use crate::disk;
use crate::disk::StatFields as _;

/// The files that a program was shown, by place.
pub(super) type ShownFiles = BTreeMap<String, ShownFile>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownFile {
    /// A file or a link. If all of this is the same, the program has not changed it.
    Unchanged {
        inode: u64,
        mode: u32,
        size: i64,
        modified: i64,
        changed: i64,
    },
    Directory,
    /// A replacement for something that is not shown.
    Substitute,
}

impl ShownFile {
    pub(super) fn of(stat: &Stat) -> Self {
        Self::Unchanged {
            inode: stat.st_ino,
            mode: stat.mode(),
            size: stat.st_size,
            modified: disk::modified(stat),
            changed: disk::changed(stat),
        }
    }

    /// The size of a file or link, in bytes; 0 for anything else.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Unchanged { size, .. } => u64::try_from(*size).unwrap_or(0),
            Self::Directory | Self::Substitute => 0,
        }
    }
}

/// Returns an error if the call was cancelled or has timed out.
pub(super) fn check(stop: &dyn Fn() -> bool) -> io::Result<()> {
    if stop() { Err(io::Error::new(io::ErrorKind::TimedOut, "the call is over")) } else { Ok(()) }
}
