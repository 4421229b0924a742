//! Which files of proposals a user has marked as reviewed: a file for each proposal, with a digest of what
//! the user has seen at each path. A mark counts as long as that is what the proposal shows.
//!
//! What counts as the same, and who may set a mark, is not decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FlockOperation, OFlags};

use crate::commit::CommitId;
use crate::disk;
use crate::layout::REVIEWED;
use crate::own::{self, Own};

/// The domain of the tags.
const DOMAIN: &str = "reviewed";

/// The name of a file until it is complete.
const NEW: &str = "new";

/// The largest file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The digest of what was seen, by path.
pub(crate) type Marks = BTreeMap<String, String>;

/// Returns the marks of a proposal. Those that no host of this user wrote are ignored.
pub(crate) fn read(own: &Own, proposal: &CommitId) -> io::Result<Marks> {
    match own::existing_directory(own, REVIEWED)? {
        Some(directory) => read_from(own, &directory, proposal),
        None => Ok(Marks::new()),
    }
}

fn read_from(own: &Own, directory: &OwnedFd, proposal: &CommitId) -> io::Result<Marks> {
    let file: File = match disk::open(directory, proposal, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Marks::new()),
        file => file?.into(),
    };
    let content = own.content(file, (DOMAIN, proposal), MAX_BYTES)?;
    let marks = content.and_then(|content| serde_json::from_slice(&content).ok());
    Ok(marks.unwrap_or_else(|| {
        tracing::warn!(
            "the marks of the proposal {proposal} are ignored: no host of this user wrote them"
        );
        Marks::new()
    }))
}

/// Changes the marks of a proposal; nothing is lost if two processes do so at the same time. Removes the
/// marks of proposals that are not `open` any more.
///
/// # Errors
/// I/O errors; too many marks.
pub(crate) fn change(
    own: &Own,
    proposal: &CommitId,
    open: &BTreeSet<CommitId>,
    change: impl FnOnce(&mut Marks),
) -> io::Result<()> {
    let directory = own::directory(own, REVIEWED)?;
    let lock = disk::open(&directory, ".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    for entry in disk::entries(&directory)? {
        let name = entry?.name;
        if let Some(name) = name.to_str().filter(|name| !open.contains(&CommitId::from(*name))) {
            disk::remove_all(&directory, name)?;
        }
    }
    let mut marks = read_from(own, &directory, proposal)?;
    change(&mut marks);
    if marks.is_empty() {
        return disk::remove(&directory, proposal, AtFlags::empty());
    }
    let mut sealed = serde_json::to_vec(&marks)?;
    own.key().append(DOMAIN, proposal, &mut sealed);
    if sealed.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("there are too many marks"));
    }
    let mut file = disk::create(&directory, NEW)?;
    file.write_all(&sealed)?;
    disk::sync(&file)?;
    disk::rename(&directory, NEW, &directory, &**proposal)?;
    disk::sync(&directory)
}
