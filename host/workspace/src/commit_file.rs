//! The file of a commit: written so that it can be read again, and authenticated when it is read.
//!
//! ```text
//! cofferdam-commit 2 ID CHANGES LENGTH MARK\n    the head, with a tag of its own
//! {"id":...}                                     LENGTH bytes of JSON
//! TAG                                            of all of the above, 32 bytes
//! ```
//!
//! A file gets its name when it is complete, so a host that is killed never leaves a part of one.
//! The head tells what to do with a file that can't be read: if the head is authentic, a host of
//! this user wrote the file, and it is damaged or of another version; otherwise nothing in the file
//! can be relied on.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::AsFd;

use cofferdam_core::policy::OWN;
use rustix::fs::{FileType, OFlags};

use crate::commit::Commit;
use crate::disk;
use crate::error::CommitError;
use crate::seal::{Key, TAG};

/// The first word of the head.
const MAGIC: &str = "cofferdam-commit";

/// The version of the format that is written and read.
pub(crate) const VERSION: u32 = 2;

/// The longest JSON of a commit that is written and read, in bytes.
const MAX_JSON_BYTES: usize = 256 << 20;

/// The longest head, in bytes.
const MAX_HEAD_BYTES: usize = 256;

/// The domain of the tag in the head.
const HEAD_DOMAIN: &str = "manifest head";

/// The domain of the tag of the whole file.
const FILE_DOMAIN: &str = "manifest";

/// The result of reading the file of a commit.
#[derive(Debug)]
pub(crate) enum StoredCommit {
    /// The file does not exist.
    Missing,
    /// The file has no authentic head: no host that has this key wrote it for this workspace.
    Foreign,
    /// A host that has this key wrote it, and it can't be read.
    Unreadable {
        /// The number of changes of the commit.
        changes: usize,
        /// Why it can't be read.
        reason: String,
    },
    /// The file is authentic and complete.
    Valid(Box<Commit>),
}

/// The first line of a file.
struct Head<'a> {
    version: u32,
    id: &'a str,
    changes: usize,
    length: usize,
}

impl Head<'_> {
    fn text(&self, key: &Key) -> String {
        let Self { version, id, changes, length } = self;
        let text = format!("{MAGIC} {version} {id} {changes} {length}");
        format!("{text} {}\n", key.mark(HEAD_DOMAIN, &text))
    }

    /// Returns the head that a file begins with, and its length in bytes, if it is authentic.
    fn of<'a>(bytes: &'a [u8], key: &Key) -> Option<(Head<'a>, usize)> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let (text, mark) = line.rsplit_once(' ')?;
        if !key.is_mark(HEAD_DOMAIN, text, mark) {
            return None;
        }
        let mut fields = text.split(' ');
        let mut next = || fields.next();
        if next()? != MAGIC {
            return None;
        }
        let version = next()?.parse().ok()?;
        let (id, changes, length) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
        Some((Head { version, id, changes, length }, end + 1))
    }
}

/// Collects bytes up to a limit; fails with `FileTooLarge` beyond it.
struct BoundedWriter {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max_bytes - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the bytes of a commit's file.
///
/// # Errors
/// [`CommitError::TooLarge`]; a commit that [`read`] would not accept.
pub(crate) fn encode(commit: &Commit, key: &Key) -> Result<Vec<u8>, CommitError> {
    let own = |source| CommitError::Io { place: OWN.to_owned(), source };
    commit.check().map_err(|reason| own(io::Error::other(reason)))?;
    let mut json = BoundedWriter { bytes: Vec::new(), max_bytes: MAX_JSON_BYTES };
    serde_json::to_writer(&mut json, commit).map_err(|error| match error.io_error_kind() {
        Some(io::ErrorKind::FileTooLarge) => {
            CommitError::TooLarge { changes: commit.changes.len(), most: MAX_JSON_BYTES }
        }
        _ => own(error.into()),
    })?;
    Ok(frame(VERSION, &commit.id, commit.changes.len(), &json.bytes, key))
}

/// Returns a file with its head and its tag.
pub(crate) fn frame(version: u32, id: &str, changes: usize, json: &[u8], key: &Key) -> Vec<u8> {
    let head = Head { version, id, changes, length: json.len() }.text(key);
    let mut bytes = Vec::with_capacity(head.len() + json.len() + TAG);
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(json);
    key.append(FILE_DOMAIN, id, &mut bytes);
    bytes
}

/// Reads the file of a commit.
///
/// # Errors
/// I/O errors. A file that is damaged or not authentic is not an error but a [`StoredCommit`].
pub(crate) fn read(directory: impl AsFd, name: &str, key: &Key) -> io::Result<StoredCommit> {
    match disk::look(&directory, name)? {
        None => return Ok(StoredCommit::Missing),
        Some(stat) if disk::file_type(&stat) != FileType::RegularFile => {
            return Ok(StoredCommit::Foreign);
        }
        Some(_) => {}
    }
    let mut file: File =
        disk::open(&directory, name, disk::READ_NO_ATIME.union(OFlags::NOFOLLOW))?.into();
    let mut bytes = Vec::new();
    (&mut file).take(MAX_HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    let Some((Head { version, id, changes, length }, start)) = Head::of(&bytes, key) else {
        return Ok(StoredCommit::Foreign);
    };
    let unreadable = |reason: String| Ok(StoredCommit::Unreadable { changes, reason });
    if version != VERSION {
        let reason = format!("it is of version {version}, and this host reads version {VERSION}");
        return unreadable(reason);
    }
    if length > MAX_JSON_BYTES {
        return unreadable(format!("it has {length} bytes, and at most {MAX_JSON_BYTES} are read"));
    }
    let id = id.to_owned();
    // One byte more than the file should have, to detect a longer one.
    let rest = (start + length + TAG + 1).saturating_sub(bytes.len());
    file.take(rest as u64).read_to_end(&mut bytes)?;
    let Some(content) = key.content(FILE_DOMAIN, &id, &bytes) else {
        return unreadable("it is damaged: its content is not what was written".to_owned());
    };
    let parsed = serde_json::from_slice::<Commit>(&content[start..]);
    let checked = parsed.map_err(|error| error.to_string()).and_then(|commit| {
        commit.check()?;
        let matches_head = *commit.id == id && commit.changes.len() == changes;
        if matches_head { Ok(commit) } else { Err("its head belongs to another commit".to_owned()) }
    });
    checked.map_or_else(unreadable, |commit| Ok(StoredCommit::Valid(Box::new(commit))))
}
