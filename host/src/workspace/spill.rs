//! Long output of programs, whole: files of the host's own directory, for people and clients. No
//! call opens them, and removing them is always safe.
//!
//! A list of digests, one for each piece of a stream, is sealed beside it: a part of a stream is
//! authenticated without the rest, and no byte is hashed twice for it. What has no seal is not
//! shown.
//!
//! A stream is written in the directory of a run of its own ([`Run`]) and gets its place when its
//! program has ended. So nothing stays of one that nobody keeps, and what a dead host had begun is
//! swept with its other runs.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::kept::{Shelf, make_room};
use super::outside::Run;
use super::{Key, OWN, Own, Workspace, disk, own};

/// A stream's name in the directory of its run.
const BEGUN: &str = "stream";

/// The name of its seal there.
const SEAL: &str = "seal";

/// How much of a stream has one digest, in bytes.
const PIECE: u64 = 64 << 10;

/// The length of a digest, in bytes.
const DIGEST: usize = 32;

/// A stream of a program that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptOutput {
    /// Its name: the call's, which of the call's programs it was (counted from 1), and `stdout` or
    /// `stderr`, with dots between. `cofferdam log --output` takes it, or its beginning.
    pub name: String,
    /// The program.
    pub program: String,
    /// What is kept, in bytes.
    pub bytes: u64,
}

impl KeptOutput {
    /// `stdout` or `stderr`.
    pub fn stream(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(_, stream)| stream)
    }
}

/// A stream that is being written. Dropped without being kept, it is gone.
pub(crate) struct Spill {
    own: Arc<Own>,
    directory: OwnedFd,
    run: Run,
    file: File,
    name: String,
    bytes: u64,
    /// The digests of the pieces that are whole.
    digests: Vec<u8>,
    /// That of the one that is not.
    piece: Sha256,
}

impl Spill {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// They can't be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = PIECE - self.bytes % PIECE;
            let length = usize::try_from(room).map_or(rest.len(), |room| room.min(rest.len()));
            let (part, after) = rest.split_at(length);
            self.piece.update(part);
            self.bytes += part.len() as u64;
            if self.bytes.is_multiple_of(PIECE) {
                self.digests.extend(self.piece.finalize_reset());
            }
            rest = after;
        }
        Ok(())
    }

    /// Gives the stream its place; the oldest ones make room for it. Answers its size, in bytes.
    ///
    /// # Errors
    /// The workspace can't be written.
    pub(crate) fn keep(mut self) -> io::Result<u64> {
        if !self.bytes.is_multiple_of(PIECE) {
            self.digests.extend(self.piece.finalize_reset());
        }
        let mut seal = self.bytes.to_le_bytes().to_vec();
        seal.append(&mut self.digests);
        self.own.key().append(Shelf::OUTPUT.directory(), &self.name, &mut seal);
        let seals = self.own.directory(Shelf::SEALS.directory())?;
        make_room(&seals, Shelf::SEALS, &self.name, seal.len() as u64)?;
        make_room(&self.directory, Shelf::OUTPUT, &self.name, self.bytes)?;
        disk::create(self.run.handle(), SEAL)?.write_all(&seal)?;
        disk::rename(self.run.handle(), SEAL, &seals, &self.name)?;
        disk::rename(self.run.handle(), BEGUN, &self.directory, &self.name)?;
        Ok(self.bytes)
    }
}

/// What the host has noted of a stream.
struct Seal {
    bytes: u64,
    digests: Vec<u8>,
}

impl Seal {
    /// The seal of a stream. None where there is none, or where this host has not made it.
    fn read(own: &Own, name: &str) -> io::Result<Option<Self>> {
        let Some(seals) = own::existing_directory(own, Shelf::SEALS.directory())? else {
            return Ok(None);
        };
        let file: File = match disk::open(&seals, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut sealed = Vec::new();
        file.take(Shelf::SEALS.size()).read_to_end(&mut sealed)?;
        Ok(Self::parse(own.key(), name, &sealed))
    }

    fn parse(key: &Key, name: &str, sealed: &[u8]) -> Option<Self> {
        let content = key.content(Shelf::OUTPUT.directory(), name, sealed)?;
        let (bytes, digests) = content.split_first_chunk()?;
        Some(Self { bytes: u64::from_le_bytes(*bytes), digests: digests.to_vec() })
    }

    /// Reads a part of the stream, of which every piece has to be what was written.
    fn read_part(&self, mut file: &File, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let offset = offset.min(self.bytes);
        let end = offset.saturating_add(length).min(self.bytes);
        let from = offset - offset % PIECE;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        let until = end.next_multiple_of(PIECE).min(self.bytes);
        file.take(until - from).read_to_end(&mut bytes)?;
        let first = usize::try_from(from / PIECE).unwrap_or(usize::MAX);
        let mut digests = self.digests.chunks_exact(DIGEST).skip(first);
        let is_whole = bytes.len() as u64 == until - from
            && bytes.chunks(PIECE as usize).all(|piece| {
                digests.next().is_some_and(|digest| Sha256::digest(piece)[..] == *digest)
            });
        if !is_whole {
            return Ok(None);
        }
        let place = |at: u64| usize::try_from(at - from).unwrap_or(usize::MAX);
        bytes.truncate(place(end));
        bytes.drain(..place(offset));
        Ok(Some(bytes))
    }
}

impl Workspace {
    /// Begins a stream that is to be kept under a name.
    ///
    /// # Errors
    /// A workspace that can't be written; a link or a file in place of the host's own directories.
    pub(crate) fn spill(&self, name: &str) -> io::Result<Spill> {
        let own = self.own()?;
        let directory = own.directory(Shelf::OUTPUT.directory())?;
        let run = Run::in_workspace(self)?;
        let file = disk::create(run.handle(), BEGUN)?;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        let name = name.to_owned();
        let (digests, piece) = (Vec::new(), Sha256::new());
        Ok(Spill { own, directory, run, file, name, bytes: 0, digests, piece })
    }

    /// The names of the streams that are kept and begin like this, with their sizes in bytes.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn outputs(&self, beginning: &str) -> io::Result<Vec<(String, u64)>> {
        let Some((own, directory)) = self.output_directory()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in disk::entries(&directory)? {
            let Ok(name) = entry?.name.into_string() else { continue };
            if !name.starts_with(beginning) || !is_name(&name) {
                continue;
            }
            match Seal::read(&own, &name)? {
                Some(seal) => found.push((name, seal.bytes)),
                None => tracing::warn!("{}", not_written(&name)),
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// A part of a stream that is kept: `length` bytes from `offset` on, or what there is of them,
    /// and the size of the whole. None where no stream of that name is kept.
    ///
    /// # Errors
    /// It can't be read, or is not what the host has written.
    pub fn output(
        &self,
        name: &str,
        offset: u64,
        length: u64,
    ) -> io::Result<Option<(Vec<u8>, u64)>> {
        let Some((own, directory)) = self.output_directory()?.filter(|_| is_name(name)) else {
            return Ok(None);
        };
        let file: File = match disk::open(&directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let changed = || io::Error::new(io::ErrorKind::InvalidData, not_written(name));
        let seal = Seal::read(&own, name)?.ok_or_else(changed)?;
        let part = seal.read_part(&file, offset, length)?.ok_or_else(changed)?;
        Ok(Some((part, seal.bytes)))
    }

    fn output_directory(&self) -> io::Result<Option<(Arc<Own>, OwnedFd)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let directory = own::existing_directory(&own, Shelf::OUTPUT.directory())?;
        Ok(directory.map(|directory| (own, directory)))
    }
}

fn not_written(name: &str) -> String {
    format!(
        "{OWN}/{}/{name} is not what this host has written there, and is not shown",
        Shelf::OUTPUT.directory()
    )
}

/// Whether a stream could have this name.
fn is_name(name: &str) -> bool {
    let mut parts = name.split('.');
    let (call, run, stream) = (parts.next(), parts.next(), parts.next());
    call.is_some_and(|call| {
        !call.is_empty() && call.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    }) && run.is_some_and(|run| run.parse::<u32>().is_ok())
        && matches!(stream, Some("stdout" | "stderr"))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::workspace::Secret;

    fn keep(workspace: &Workspace, name: &str, pieces: &[&[u8]]) {
        let mut spill = workspace.spill(name).unwrap();
        for piece in pieces {
            spill.write(piece).unwrap();
        }
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert_eq!(spill.keep().unwrap(), bytes as u64);
    }

    #[test]
    fn a_stream_is_kept_whole_and_read_in_parts() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        assert_eq!(workspace.outputs("").unwrap(), []);
        assert_eq!(workspace.output("a-1.1.stdout", 0, 9).unwrap(), None);
        keep(&workspace, "a-1.1.stdout", &[b"0123", b"456789"]);
        keep(&workspace, "a-1.2.stderr", &[b"x"]);
        let sizes = [("a-1.1.stdout".to_owned(), 10), ("a-1.2.stderr".to_owned(), 1)];
        assert_eq!(workspace.outputs("a-").unwrap(), sizes);
        assert_eq!(workspace.outputs("a-1.2").unwrap(), sizes[1..]);
        assert_eq!(workspace.outputs("b").unwrap(), []);
        for (offset, length, part) in [
            (0, u64::MAX, "0123456789"),
            (3, 4, "3456"),
            (8, 9, "89"),
            (10, 9, ""),
            (99, 9, ""),
            (0, 0, ""),
        ] {
            let read = workspace.output("a-1.1.stdout", offset, length).unwrap();
            assert_eq!(read, Some((part.as_bytes().to_vec(), 10)), "{offset} {length}");
        }
        for name in ["", "../journal.jsonl", "a-1.1", "a-1.1.stdout.x", "a-1.x.stdout"] {
            assert_eq!(workspace.output(name, 0, 9).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn nothing_stays_of_a_stream_that_nobody_keeps() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let own = directory.path().join(".cofferdam");
        let mut spill = workspace.spill("a.1.stdout").unwrap();
        spill.write(b"some").unwrap();
        assert_eq!(std::fs::read_dir(own.join("runs")).unwrap().count(), 1);
        drop(spill);
        for name in ["runs", "output"] {
            assert_eq!(std::fs::read_dir(own.join(name)).unwrap().count(), 0, "{name}");
        }
        // What a host left that was killed: nobody holds its lock.
        let dead = own.join("runs/cofferdam-run-dead");
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("stream"), "some").unwrap();
        keep(&workspace, "a.2.stdout", &[b"x"]);
        assert_eq!(std::fs::read_dir(own.join("runs")).unwrap().count(), 0);
    }

    #[test]
    fn it_is_its_owners_alone_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let output = directory.path().join(".cofferdam/output");
        std::fs::create_dir_all(&output).unwrap();
        std::fs::set_permissions(&output, Permissions::from_mode(0o777)).unwrap();
        keep(&workspace, "a.1.stdout", &[b"x"]);
        let mode = std::fs::metadata(output.join("a.1.stdout")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::os::unix::fs::symlink("/etc/hostname", output.join("a.2.stdout")).unwrap();
        assert!(workspace.output("a.2.stdout", 0, 9).is_err());
        keep(&workspace, "a.2.stdout", &[b"in place of the link"]);
        assert!(workspace.output("a.2.stdout", 0, 9).is_ok());
        std::fs::remove_dir_all(&output).unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), &output).unwrap();
        assert!(workspace.spill("a.3.stdout").is_err());
        assert!(workspace.outputs("").is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_oldest_streams_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let output = directory.path().join(".cofferdam/output");
        for call in 0..Shelf::OUTPUT.most() + 3 {
            let name = format!("{call}.1.stdout");
            keep(&workspace, &name, &[b"x"]);
            let file = File::options().write(true).open(output.join(name)).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + call as u64);
            file.set_modified(time).unwrap();
        }
        let left = workspace.outputs("").unwrap();
        assert_eq!(left.len(), Shelf::OUTPUT.most());
        for gone in ["0.1.stdout", "1.1.stdout", "2.1.stdout"] {
            assert!(left.iter().all(|(name, _)| name != gone));
        }
    }
}
