//! The state of a file at one moment, to detect whether another program has changed it since.

use std::io::{self, BufRead as _, BufReader, Read};

use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};

use crate::clock::tick;
use crate::commit::{Image, Kind};
use crate::disk;

/// A file, directory or link at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    image: Image,
    /// The time of the inode's last change, in nanoseconds since the epoch.
    changed: i64,
    /// SHA-256 of the content, if the file was changed so recently that its times can't tell two
    /// states apart.
    content: Option<[u8; 32]>,
}

impl FileFingerprint {
    /// Returns the fingerprint of a file. `read` opens its content and is called only if needed.
    pub(crate) fn of<R: Read>(
        stat: &Stat,
        read: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<Self> {
        let changed = disk::changed(stat);
        let is_file = disk::file_type(stat) == FileType::RegularFile;
        let is_recent = is_file && changed >= tick();
        let content = if is_recent { Some(digest(read()?)?) } else { None };
        Ok(Self { image: Image::of(stat, String::new()), changed, content })
    }

    /// Whether it was changed at `time` (nanoseconds since the epoch) or later. Always false for a
    /// directory: its entries have fingerprints themselves.
    pub(crate) fn is_since(&self, time: i64) -> bool {
        self.image.kind != Kind::Directory && self.changed >= time
    }

    /// Whether the file is still in this state.
    pub(crate) fn holds<R: Read>(
        &self,
        stat: &Stat,
        read: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<bool> {
        // The entries of a directory have fingerprints themselves.
        let is_untouched =
            self.image.kind == Kind::Directory || self.changed == disk::changed(stat);
        if !self.image.is(stat) || !is_untouched {
            return Ok(false);
        }
        match &self.content {
            Some(content) => Ok(digest(read()?)? == *content),
            None => Ok(true),
        }
    }
}

/// Returns the SHA-256 of everything that a reader yields.
fn digest(mut content: impl Read) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut buffer = [0; 16 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(digest.finalize().into()),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// Whether two readers yield the same bytes.
pub(crate) fn is_same_content(left: impl Read, right: impl Read) -> io::Result<bool> {
    const BUFFER_BYTES: usize = 64 << 10;
    let (mut left, mut right) = (
        BufReader::with_capacity(BUFFER_BYTES, left),
        BufReader::with_capacity(BUFFER_BYTES, right),
    );
    loop {
        let (one, other) = (left.fill_buf()?, right.fill_buf()?);
        let length = one.len().min(other.len());
        if length == 0 {
            return Ok(one.len() == other.len());
        }
        if one[..length] != other[..length] {
            return Ok(false);
        }
        left.consume(length);
        right.consume(length);
    }
}
