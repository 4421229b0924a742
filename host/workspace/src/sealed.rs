//! A manifest as a file: written so that it can be read again, and read so that nothing has to be
//! guessed.
//!
//! ```text
//! cofferdam-commit 2 ID CHANGES LENGTH MARK\n    the head, with a tag of its own
//! {"id":...}                                     LENGTH bytes of JSON
//! TAG                                            of all of the above, 32 bytes
//! ```
//!
//! A file gets its name when it is whole, so a host that is killed never leaves a part of one. What
//! is left is told by the head: with it, a host of this user wrote the file, and what can't be read
//! is damaged or of another version; without it, the file says nothing that may be relied on.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags};

use super::CommitError;
use super::disk;
use super::manifest::Manifest;
use super::seal::{Key, TAG};

/// What the head begins with.
const MAGIC: &str = "cofferdam-commit";

/// The version of the format that is written and read.
pub(super) const VERSION: u32 = 2;

/// The longest JSON of a manifest that is written and read, in bytes.
const MAX_SIZE: usize = 256 << 20;

/// The longest head, in bytes.
const MAX_HEAD: usize = 256;

/// What the tags are for.
const HEAD: &str = "manifest head";
const WHOLE: &str = "manifest";

/// What a manifest's file turned out to be.
#[derive(Debug)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// No host that has this key wrote it for this workspace, or its beginning is not there.
    Foreign,
    /// A host that has this key wrote it, and it can't be read.
    Unreadable {
        /// How many changes the commit has.
        changes: usize,
        /// Why it can't be read.
        reason: String,
    },
    /// What was written.
    Whole(Box<Manifest>),
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
        format!("{text} {}\n", key.mark(HEAD, &text))
    }

    /// The head that a file begins with, and its length, if it is authentic.
    fn of<'a>(bytes: &'a [u8], key: &Key) -> Option<(Head<'a>, usize)> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let (text, mark) = line.rsplit_once(' ')?;
        if !key.is_mark(HEAD, text, mark) {
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

/// Takes no more bytes than it may.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A manifest as it is written.
///
/// # Errors
/// [`CommitError::TooLarge`]; a manifest that would not be taken when it is read.
pub(super) fn encode(manifest: &Manifest, key: &Key) -> Result<Vec<u8>, CommitError> {
    let own = |source| CommitError::Io { place: super::OWN.to_owned(), source };
    manifest.check().map_err(|reason| own(io::Error::other(reason)))?;
    let mut json = Bounded { bytes: Vec::new(), most: MAX_SIZE };
    serde_json::to_writer(&mut json, manifest).map_err(|error| match error.io_error_kind() {
        Some(io::ErrorKind::FileTooLarge) => {
            CommitError::TooLarge { changes: manifest.changes.len(), most: MAX_SIZE }
        }
        _ => own(error.into()),
    })?;
    Ok(frame(VERSION, &manifest.id, manifest.changes.len(), &json.bytes, key))
}

/// A file with its head and its tag.
pub(super) fn frame(version: u32, id: &str, changes: usize, json: &[u8], key: &Key) -> Vec<u8> {
    let head = Head { version, id, changes, length: json.len() }.text(key);
    let mut bytes = Vec::with_capacity(head.len() + json.len() + TAG);
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(json);
    key.append(WHOLE, id, &mut bytes);
    bytes
}

/// Reads a manifest.
///
/// # Errors
/// Those of the system.
pub(super) fn read(directory: impl AsFd, name: &str, key: &Key) -> io::Result<Found> {
    match disk::look(&directory, name)? {
        None => return Ok(Found::Nothing),
        Some(stat) if disk::file_type(&stat) != FileType::RegularFile => return Ok(Found::Foreign),
        Some(_) => {}
    }
    let mut file: File = disk::open(&directory, name, disk::UNSEEN.union(OFlags::NOFOLLOW))?.into();
    let mut bytes = Vec::new();
    (&mut file).take(MAX_HEAD as u64).read_to_end(&mut bytes)?;
    let Some((Head { version, id, changes, length }, start)) = Head::of(&bytes, key) else {
        return Ok(Found::Foreign);
    };
    let unreadable = |reason: String| Ok(Found::Unreadable { changes, reason });
    if version != VERSION {
        let reason = format!("it is of version {version}, and this host reads version {VERSION}");
        return unreadable(reason);
    }
    if length > MAX_SIZE {
        return unreadable(format!("it has {length} bytes, and at most {MAX_SIZE} are read"));
    }
    let id = id.to_owned();
    // One byte more would be seen.
    let rest = (start + length + TAG + 1).saturating_sub(bytes.len());
    file.take(rest as u64).read_to_end(&mut bytes)?;
    let Some(content) = key.content(WHOLE, &id, &bytes) else {
        return unreadable("it is damaged: its content is not what was written".to_owned());
    };
    let parsed = serde_json::from_slice::<Manifest>(&content[start..]);
    let checked = parsed.map_err(|error| error.to_string()).and_then(|manifest| {
        manifest.check()?;
        let is_named = manifest.id == id && manifest.changes.len() == changes;
        if is_named { Ok(manifest) } else { Err("its head is another one's".to_owned()) }
    });
    checked.map_or_else(unreadable, |manifest| Ok(Found::Whole(Box::new(manifest))))
}
