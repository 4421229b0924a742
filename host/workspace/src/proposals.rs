//! The directory of proposals: held commits with their images, until a user decides.
//!
//! A proposal is a commit file as in the history, which was not applied. Each call that adds to it
//! writes a new revision with a file and images of its own; then the old one is removed. Under the
//! workspace's lock only, so that no two processes write revisions of one proposal. Processes that
//! only read hold a shared lock on the directory, and nothing is removed meanwhile.
//!
//! What a user accepts becomes a commit of the workspace. The revision without it is written before
//! that commit and names it: it counts as soon as the commit is in the history.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, FlockOperation, OFlags, Stat};

use crate::commit::{COPY_SUFFIX, Commit, CommitId, CopyIdentity, Image, Kind, Placed};
use crate::commit_file::{self, StoredCommit};
use crate::copying::copy_file;
use crate::disk::StatFields as _;
use crate::disk::{self, Spot};
use crate::error::CommitError;
use crate::history_dirs::HistoryDirs;
use crate::layout::PROPOSALS;
use crate::own::{self, Own};
use crate::session_name::SessionName;

/// The domain of the marks in file names.
const NAME_DOMAIN: &str = "proposal";

/// The name of a revision's file until it is complete.
const NEW_FILE: &str = "new";

/// The largest number of open proposals of a workspace.
pub(crate) const MAX_PROPOSALS: usize = 100;

/// The largest number of changes of one proposal.
pub(crate) const MAX_CHANGES: usize = 10_000;

/// The largest size of the files of all proposals, in bytes.
pub(crate) const MAX_ALL_BYTES: u64 = 512 << 20;

/// A revision, parsed from the name of its file.
struct Revision {
    name: String,
    proposal: CommitId,
    revision: u64,
    session: SessionName,
}

impl Revision {
    fn of(name: &str, own: &Own) -> Option<Self> {
        let (stem, mark) = name.strip_suffix(".json")?.rsplit_once('.')?;
        let mut parts = stem.split('.');
        let (proposal, revision, session) = (parts.next()?, parts.next()?, parts.next()?);
        let parsed = Self {
            name: name.to_owned(),
            proposal: proposal.into(),
            revision: revision.parse().ok()?,
            session: session.parse().ok()?,
        };
        own.key().is_mark(NAME_DOMAIN, stem, mark).then_some(parsed)
    }
}

/// The directory of proposals, open.
pub(crate) struct Proposals {
    own: Arc<Own>,
    pub(crate) directory: Arc<OwnedFd>,
}

impl Proposals {
    /// A directory like that of proposals, for something else.
    pub(crate) fn at(own: Arc<Own>, directory: OwnedFd) -> Self {
        Self { own, directory: Arc::new(directory) }
    }

    /// Opens the directory, if it exists.
    pub(crate) fn existing(own: Arc<Own>) -> io::Result<Option<Self>> {
        let directory = own::existing_directory(&*own, PROPOSALS)?;
        Ok(directory.map(|directory| Self { own, directory: Arc::new(directory) }))
    }

    /// Opens the directory; creates it if it is missing.
    pub(crate) fn open(own: Arc<Own>) -> io::Result<Self> {
        let directory = Arc::new(own::directory(&*own, PROPOSALS)?);
        Ok(Self { own, directory })
    }

    /// Locks the directory, so that nothing in it is removed as long as the returned file is open.
    pub(crate) fn reading(&self) -> io::Result<OwnedFd> {
        let directory = disk::open(&*self.directory, ".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::flock(&directory, FlockOperation::LockShared)?;
        Ok(directory)
    }

    /// Returns the newest revision of each open proposal, the oldest proposal first. A file that no
    /// host of this user wrote is left out, with a warning.
    ///
    /// # Errors
    /// I/O errors; a revision that is damaged, or that another version of the host wrote.
    pub(crate) fn current(&self) -> io::Result<Vec<Commit>> {
        self.newest(|_| true)
    }

    /// Returns the open proposal of a session.
    pub(crate) fn of_session(&self, session: &SessionName) -> io::Result<Option<Commit>> {
        Ok(self.newest(|revision| revision.session == *session)?.pop())
    }

    fn newest(&self, is_wanted: impl Fn(&Revision) -> bool) -> io::Result<Vec<Commit>> {
        let mut revisions: BTreeMap<CommitId, Vec<Revision>> = BTreeMap::new();
        for entry in disk::entries(&*self.directory)? {
            let name = entry?.name;
            let revision = name.to_str().and_then(|name| Revision::of(name, &self.own));
            if let Some(revision) = revision.filter(&is_wanted) {
                revisions.entry(revision.proposal.clone()).or_default().push(revision);
            }
        }
        let mut current = Vec::new();
        for (_, mut revisions) in revisions {
            revisions.sort_by_key(|revision| std::cmp::Reverse(revision.revision));
            for revision in revisions {
                let Some(commit) = self.read(&revision)? else { continue };
                if !commit.changes.is_empty() {
                    current.push(commit);
                }
                break;
            }
        }
        Ok(current)
    }

    /// Reads a revision. Returns `None` if it does not count.
    fn read(&self, revision: &Revision) -> io::Result<Option<Commit>> {
        let why = match commit_file::read(&*self.directory, &revision.name, self.own.key())? {
            StoredCommit::Missing => return Ok(None),
            StoredCommit::Valid(commit) => match &commit.held {
                Some(held)
                    if held.proposal == revision.proposal
                        && held.revision == revision.revision
                        && held.author.session == revision.session =>
                {
                    let counts = match &held.after {
                        None => true,
                        Some(commit) => self.is_made(commit)?,
                    };
                    return Ok(counts.then_some(*commit));
                }
                _ => "the file belongs to another proposal".to_owned(),
            },
            // Without it, its session would change the workspace itself.
            StoredCommit::Unreadable { reason, .. } => {
                let name = &revision.name;
                return Err(io::Error::other(format!(
                    "the proposal {OWN}/{PROPOSALS}/{name} can't be read: {reason}; to discard what \
                     is held there, move this file away"
                )));
            }
            StoredCommit::Foreign => "no host of this user wrote it for this workspace".to_owned(),
        };
        tracing::warn!("the proposal {OWN}/{PROPOSALS}/{} is not used: {why}", revision.name);
        Ok(None)
    }

    fn is_made(&self, commit: &CommitId) -> io::Result<bool> {
        let Some(history) = HistoryDirs::open(&self.own)? else { return Ok(false) };
        Ok(history.entries()?.iter().any(|entry| entry.id == *commit))
    }

    /// Writes the file of a revision. `check` is called when everything is on the disk, right before
    /// the file gets its name. The caller holds the workspace's lock.
    pub(crate) fn write(
        &self,
        commit: &Commit,
        check: impl FnOnce() -> Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let name = self.name_of(commit).ok_or_else(|| own(io::ErrorKind::InvalidInput.into()))?;
        let encoded = commit_file::encode(commit, self.own.key())?;
        let written = disk::remove(&*self.directory, NEW_FILE, AtFlags::empty())
            .and_then(|()| disk::create(&*self.directory, NEW_FILE))
            .and_then(|mut file| {
                file.write_all(&encoded)?;
                disk::sync(&file)?;
                disk::sync(&*self.directory)
            });
        written.map_err(own)?;
        check()?;
        disk::rename(&*self.directory, NEW_FILE, &*self.directory, &name)
            .and_then(|()| disk::sync(&*self.directory))
            .map_err(own)
    }

    /// Removes the file of a revision.
    pub(crate) fn remove(&self, commit: &Commit) -> io::Result<()> {
        let Some(name) = self.name_of(commit) else { return Ok(()) };
        disk::remove(&*self.directory, &name, AtFlags::empty())
    }

    /// The name of a revision's file: proposal, revision, session, and a mark, which shows that a
    /// host with the key made the name.
    fn name_of(&self, commit: &Commit) -> Option<String> {
        let held = commit.held.as_ref()?;
        let stem = format!("{}.{:06}.{}", held.proposal, held.revision, held.author.session);
        let mark = self.own.key().mark(NAME_DOMAIN, &stem);
        Some(format!("{stem}.{mark}.json"))
    }

    /// Removes old revisions, closed proposals and images without a revision, unless another process
    /// is reading. The caller holds the workspace's lock.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let directory = disk::open(&*self.directory, ".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let mut current = self.current()?;
        for commit in &mut current {
            // The commit that it names will not be in the history forever.
            if let Some(held) = commit.held.as_mut().filter(|held| held.after.is_some()) {
                held.after = None;
                self.write(commit, || Ok(())).map_err(io::Error::other)?;
            }
        }
        let mut kept: BTreeSet<String> =
            current.iter().map(|commit| commit.id.to_string()).collect();
        kept.extend(current.iter().filter_map(|commit| self.name_of(commit)));
        // Images first, then older revisions before newer ones: a proposal that is closed stays so if
        // the host is killed meanwhile.
        let mut doomed = BTreeSet::new();
        for entry in disk::entries(&directory)? {
            let name = entry?.name;
            let Some(name) = name.to_str() else { continue };
            let first = name.split('.').next().unwrap_or_default();
            let is_image = !name.ends_with(".json");
            let is_kept = kept.contains(if is_image { first } else { name });
            let order = match is_image {
                true => uuid::Uuid::parse_str(first).ok().map(|_| 0),
                false => Revision::of(name, &self.own).map(|revision| revision.revision),
            };
            doomed.extend(order.filter(|_| !is_kept).map(|order| (order, name.to_owned())));
        }
        doomed.iter().try_for_each(|(_, name)| disk::remove_all(&directory, name))
    }
}

/// Writes the images of one revision.
pub(crate) struct ImageWriter<'a> {
    directory: &'a OwnedFd,
    id: &'a CommitId,
    next: u32,
}

/// Where an image comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A file of another revision, which is linked.
    Revision(&'a str),
    /// A staged file, which is linked.
    Staged(&'a OwnedFd, &'a str),
    /// A file on the disk, which is copied.
    Disk(&'a OwnedFd, &'a str),
    /// A new file with these permissions and this content.
    File(u32, &'a [u8]),
    /// A new link to this target.
    Link(&'a [u8]),
    /// A new directory with these permissions.
    Directory(u32),
}

impl<'a> ImageWriter<'a> {
    pub(crate) fn new(directory: &'a OwnedFd, id: &'a CommitId) -> Self {
        Self { directory, id, next: 0 }
    }

    /// Returns the name of the images of the next change.
    pub(crate) fn next_name(&mut self) -> String {
        self.next += 1;
        format!("{}.{}", self.id, self.next)
    }

    /// Writes the old file of a change.
    pub(crate) fn old(&self, name: &str, source: Source<'_>) -> io::Result<Image> {
        Ok(Image::of(&self.put(name, source)?, name.to_owned()))
    }

    /// Writes the new file of a change.
    pub(crate) fn new_file(&self, name: &str, source: Source<'_>) -> io::Result<Image> {
        let copy = format!("{name}{COPY_SUFFIX}");
        let stat = self.put(&copy, source)?;
        let mut image = Image::of(&stat, name.to_owned());
        match image.kind {
            Kind::File => image.copy = Some(CopyIdentity::of(&stat)),
            Kind::Link => {
                let target = Spot::of(self.directory, &copy)?.read_link()?;
                let target = String::from_utf8(target).map_err(io::Error::other)?;
                image.placed = Some(Placed::Text(target));
            }
            Kind::Directory | Kind::Other => {}
        }
        Ok(image)
    }

    /// Writes an image, and returns its metadata.
    fn put(&self, name: &str, source: Source<'_>) -> io::Result<Stat> {
        let to = self.directory;
        match source {
            Source::Revision(from) => self.put_link(to, from, name)?,
            Source::Staged(stage, from) => {
                if Kind::from(disk::file_type(&disk::stat(stage, from)?)) == Kind::File {
                    disk::sync(disk::open(stage, from, OFlags::RDONLY)?)?;
                }
                self.put_link(stage, from, name)?;
            }
            Source::Disk(root, path) => return self.put_copy(root, path, name),
            Source::File(mode, bytes) => {
                let mut file = disk::create(to, name)?;
                file.write_all(bytes)?;
                rustix::fs::fchmod(&file, disk::permissions(mode))?;
                disk::sync(&file)?;
            }
            Source::Link(target) => {
                let target = std::str::from_utf8(target).map_err(io::Error::other)?;
                disk::create_link(to, name, target)?;
            }
            Source::Directory(mode) => {
                disk::create_directory(to, name, disk::OWNER_ONLY)?;
                let mode = disk::permissions(mode);
                rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
            }
        }
        disk::stat(to, name)
    }

    fn put_link(&self, root: &OwnedFd, from: &str, name: &str) -> io::Result<()> {
        let to = self.directory;
        match Kind::from(disk::file_type(&disk::stat(root, from)?)) {
            Kind::File if disk::link(root, from, to, name).is_ok() => Ok(()),
            _ => self.put_copy(root, from, name).map(drop),
        }
    }

    fn put_copy(&self, root: &OwnedFd, path: &str, name: &str) -> io::Result<Stat> {
        let stat = disk::stat(root, path)?;
        match Kind::from(disk::file_type(&stat)) {
            // Its content is not kept.
            Kind::Other => Ok(stat),
            Kind::Directory => self.put(name, Source::Directory(stat.mode() & 0o7777)),
            Kind::Link => {
                let target = Spot::of(root, path)?.read_link()?;
                self.put(name, Source::Link(&target))
            }
            Kind::File => {
                let from: File = disk::open(root, path, OFlags::RDONLY)?.into();
                let file = disk::create(self.directory, name)?;
                copy_file(&from, &file, &stat, true)?;
                disk::sync(&file)?;
                disk::stat(self.directory, name)
            }
        }
    }
}
