//! Limits on what one call writes.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_core::outcome::LimitCode;
use rustix::io::Errno;

/// Counts what one call writes. A call that exceeds a limit fails, even if the plugin ignores the
/// error.
#[derive(Debug)]
pub struct Quota {
    bytes: u64,
    files: u64,
    bytes_left: AtomicU64,
    files_left: AtomicU64,
    exceeded: OnceLock<Exceeded>,
}

/// Why a call can't write any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// It exceeded a limit.
    Limit(LimitCode),
    /// The disk is full.
    DiskFull,
}

impl Quota {
    /// Creates a quota of `bytes` in `files` new or changed files, directories and links.
    pub fn new(bytes: u64, files: u64) -> Self {
        Self {
            bytes,
            files,
            bytes_left: AtomicU64::new(bytes),
            files_left: AtomicU64::new(files),
            exceeded: OnceLock::new(),
        }
    }

    /// Creates a quota for the host's own work.
    pub(crate) fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }

    /// Returns what the call exceeded first.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.get().copied()
    }

    /// Returns the number of bytes counted so far.
    pub fn taken(&self) -> u64 {
        self.bytes - self.bytes_left.load(Ordering::Relaxed)
    }

    /// Returns the number of files, directories and links counted so far.
    pub fn taken_files(&self) -> u64 {
        self.files - self.files_left.load(Ordering::Relaxed)
    }

    /// Checks the size that a file is going to have, in bytes.
    ///
    /// # Errors
    /// `EDQUOT` if `size` exceeds the limit of all bytes.
    pub fn check_size(&self, size: u64) -> io::Result<()> {
        if size <= self.bytes { Ok(()) } else { Err(self.exceed(LimitCode::WriteLimit)) }
    }

    /// Counts bytes that are about to be written.
    ///
    /// # Errors
    /// `EDQUOT` if the limit is exceeded.
    pub fn take_bytes(&self, bytes: u64) -> io::Result<()> {
        self.take(&self.bytes_left, bytes, LimitCode::WriteLimit)
    }

    /// Counts a file, directory or link that is about to be created.
    ///
    /// # Errors
    /// `EDQUOT` if the limit is exceeded.
    pub fn take_file(&self) -> io::Result<()> {
        self.take(&self.files_left, 1, LimitCode::FileLimit)
    }

    /// Notes that the disk is full: the call fails, even if the plugin ignores the error.
    pub fn note_full(&self) {
        self.exceeded.get_or_init(|| Exceeded::DiskFull);
    }

    fn take(&self, left: &AtomicU64, amount: u64, limit: LimitCode) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(amount);
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.exceed(limit)),
        }
    }

    fn exceed(&self, limit: LimitCode) -> io::Error {
        self.exceeded.get_or_init(|| Exceeded::Limit(limit));
        Errno::DQUOT.into()
    }
}
