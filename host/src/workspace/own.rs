//! The host's own directory in a workspace, and what is opened or made in it.
//!
//! A `.cofferdam` may have come with a repository, or be a copy of another workspace's. It counts
//! only with a valid mark: the file `owner`, a random id with a tag over the id and the identity of
//! the directory (its inode and its time of birth), made with the user's secret. Nothing that is
//! unpacked, checked out or copied has the identity that its mark names. What is in one without is
//! set aside as a whole.
//!
//! The key that authenticates single files is made of the secret, the id and the identity: what was
//! sealed in one workspace is not authentic in another one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::disk;
use super::seal::{Key, SECRET};
use super::{OWN, Workspace};
use crate::private;

/// What processes lock, in the host's own directory.
const LOCK: &str = "lock";

/// What says who made the directory, and that it was made here.
const MARK: &str = "owner";

/// What keeps the directory out of git's sight.
const IGNORED: &str = ".gitignore";

/// Where is what does not count.
pub(crate) const SET_ASIDE: &str = "set-aside";

/// What tags are made for: the mark itself, not a file of the directory.
const DOMAIN: &str = "owner";

/// The length of the directory's random id, in bytes.
const ID: usize = 16;

/// How much of a mark is read, in bytes: more than one that is valid has.
const MARK_SIZE: u64 = 256;

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How often the directory is looked at again while others change it.
const ATTEMPTS: u32 = 100;

/// How long others have between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Where the secret comes from that authenticates what the host keeps in a workspace.
#[derive(Debug, Clone)]
pub enum Secret {
    /// The file `key` in this directory of the user's, which is outside of the workspace; both are
    /// made where they are missing.
    In(PathBuf),
    /// Made at random for this process: what other processes have kept is set aside.
    OfProcess,
    /// There is no place for one: nothing is kept, and nothing can be changed.
    Nowhere,
}

impl Secret {
    fn get(&self, workspace: &Workspace) -> io::Result<[u8; SECRET]> {
        static OF_PROCESS: OnceLock<[u8; SECRET]> = OnceLock::new();
        match self {
            Self::In(directory) if workspace.holds(directory) => Err(denied(format!(
                "the key for {OWN} would be in the workspace itself, where tools read it ({}); \
                 use a directory below as the workspace, or keep the key elsewhere",
                directory.display()
            ))),
            Self::In(directory) => private::key(directory).map_err(|error| {
                let place = directory.display();
                io::Error::new(
                    error.kind(),
                    format!("the key for {OWN} can't be kept in {place}: {error}"),
                )
            }),
            Self::OfProcess => {
                let mut secret = [0; SECRET];
                getrandom::fill(&mut secret).map_err(io::Error::other)?;
                Ok(*OF_PROCESS.get_or_init(|| secret))
            }
            Self::Nowhere => Err(denied(format!(
                "there is no place for the key for {OWN}: the user has no home directory"
            ))),
        }
    }
}

fn denied(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// The host's own directory, open, which this user's host has made in this place.
#[derive(Debug)]
pub(crate) struct Own {
    directory: OwnedFd,
    place: (u64, u64),
    key: Key,
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Own {
    /// What authenticates the files in it.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// The names of what is in it.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        names(self)
    }

    /// The names of what was set aside.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn set_aside(&self) -> io::Result<Vec<String>> {
        existing_directory(self, SET_ASIDE)?.map_or_else(|| Ok(Vec::new()), names)
    }

    /// Opens a file in it for reading. None if there is none.
    ///
    /// # Errors
    /// One that is not a regular file or can't be opened.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        let file: File = match disk::open(self, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        regular(file).map(Some)
    }

    /// Opens a file in it for appending, made where it is missing.
    ///
    /// # Errors
    /// Something else under that name; a workspace that can't be written.
    pub(crate) fn append(&self, name: &str) -> io::Result<File> {
        self.made(self, name, FileType::RegularFile, || {
            let open = || disk::open(self, name, OFlags::RDWR | OFlags::APPEND);
            let create = || disk::create(self, name).map(drop);
            regular(open_or_create(name, open, create)?.into())
        })
    }

    /// Opens a directory in it, made where it is missing.
    ///
    /// # Errors
    /// A workspace that can't be written.
    pub(super) fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        self.made(self, name, FileType::Directory, || directory(self, name))
    }

    /// Opens a directory in one of its directories, both made where they are missing.
    ///
    /// # Errors
    /// A workspace that can't be written.
    pub(super) fn subdirectory(&self, parent: &str, name: &str) -> io::Result<OwnedFd> {
        let parent = self.directory(parent)?;
        self.made(&parent, name, FileType::Directory, || directory(&parent, name))
    }

    /// Opens the file that processes lock, made where it is missing.
    ///
    /// # Errors
    /// A workspace that can't be written.
    pub(super) fn lock_file(&self) -> io::Result<OwnedFd> {
        self.made(self, LOCK, FileType::RegularFile, || {
            let open = || disk::open(self, LOCK, OFlags::RDONLY);
            let create = || disk::create(self, LOCK).map(drop);
            open_or_create(LOCK, open, create)
        })
    }

    /// Opens or makes something of the host's own. Where something of another kind has its name,
    /// such as a link, that is set aside first: git replaces ignored files without asking.
    fn made<T>(
        &self,
        parent: impl AsFd,
        name: &str,
        kind: FileType,
        open: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        let opened = open();
        let is_other = || {
            let found = disk::look(&parent, name);
            found.is_ok_and(|found| found.is_some_and(|stat| disk::file_type(&stat) != kind))
        };
        if opened.is_ok() || !is_other() {
            return opened;
        }
        // One process at a time: another one may have made what is needed meanwhile.
        let _alone = self.lock_directory()?;
        if is_other() {
            let place = set_aside(self, &parent, name)?;
            tracing::warn!(
                "'{name}' of the host's own files in {OWN} was replaced by something of another \
                 kind, which was set aside as {place}"
            );
        }
        open()
    }

    /// Locks the directory itself, for a moment.
    fn lock_directory(&self) -> io::Result<OwnedFd> {
        // A lock belongs to an open file, and the directory's is shared by all threads.
        let directory = rustix::fs::openat(self, ".", OPEN, Mode::empty())?;
        for _ in 0..ATTEMPTS {
            match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                locked => return Ok(locked.map(|()| directory)?),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{OWN} in the workspace is locked by another process"),
        ))
    }

    fn is_at(&self, stat: &Stat) -> bool {
        self.place == place(stat)
    }
}

fn names(directory: impl AsFd) -> io::Result<Vec<String>> {
    let names = disk::entries(directory)?
        .filter_map(|entry| entry.map(|entry| entry.name.into_string().ok()).transpose());
    names.collect()
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
}

fn place(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// What is under the name of the host's own directory.
pub(crate) enum Found {
    /// There is no such entry.
    Nothing,
    /// A directory that this user's host has made here.
    Own(Arc<Own>),
    /// A directory that does not count.
    Foreign(OwnedFd),
}

impl Workspace {
    /// The path of the host's own directory, if there is one, also one that does not count.
    pub(crate) fn path_of_own(&self) -> Option<PathBuf> {
        matches!(disk::look(&**self.disk(), OWN), Ok(Some(_))).then(|| self.path().join(OWN))
    }

    /// The host's own directory, made where it is missing. It ignores itself in git. One that does
    /// not count is set aside.
    ///
    /// # Errors
    /// A workspace that can't be written; a link or a file under that name; another user's
    /// directory; no secret.
    pub(crate) fn own(&self) -> io::Result<Arc<Own>> {
        for _ in 0..ATTEMPTS {
            match self.find_own()? {
                Found::Own(own) => return Ok(own),
                Found::Nothing => {
                    match disk::create_directory(&**self.disk(), OWN, disk::OWNER_ONLY) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                Found::Foreign(directory) => self.take_over(&directory)?,
            }
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{OWN} in the workspace is being changed by others again and again"),
        ))
    }

    /// The host's own directory, if it is there and counts.
    ///
    /// # Errors
    /// A link or a file under that name; another user's directory; no secret.
    pub(crate) fn existing_own(&self) -> io::Result<Option<Arc<Own>>> {
        match self.find_own()? {
            Found::Own(own) => Ok(Some(own)),
            Found::Nothing => Ok(None),
            Found::Foreign(_) => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "{OWN} in the workspace does not count: {NOT_MADE_HERE}; what writes there \
                         next sets it aside"
                    );
                }
                Ok(None)
            }
        }
    }

    /// Finds out what has the name of the host's own directory.
    ///
    /// # Errors
    /// See [`Workspace::existing_own`].
    pub(crate) fn find_own(&self) -> io::Result<Found> {
        let Some(stat) = disk::look(&**self.disk(), OWN)? else { return Ok(Found::Nothing) };
        let mut known = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // As long as it is open, no other directory gets its inode.
        if let Some(own) = known.as_ref().filter(|own| own.is_at(&stat)) {
            make_private(own, &stat)?;
            return Ok(Found::Own(Arc::clone(own)));
        }
        let directory = disk::open(&**self.disk(), OWN, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| {
                let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
                if is_closed && let Err(error) = check_owner(&stat) {
                    return error;
                }
                let message = format!("{OWN} in the workspace is no directory of the host's: ");
                io::Error::new(error.kind(), format!("{message}{error}"))
            })?;
        let stat = rustix::fs::fstat(&directory)?;
        match key_of(&self.secret.get(self)?, &directory)? {
            Some(key) => {
                make_private(&directory, &stat)?;
                let own = Arc::new(Own { directory, place: place(&stat), key });
                Ok(Found::Own(Arc::clone(known.insert(own))))
            }
            None => check_owner(&stat).map(|()| Found::Foreign(directory)),
        }
    }

    /// Makes a directory that does not count one that does: what is in it is set aside first. If
    /// this dies on the way, it does not count yet, and the next one goes on.
    fn take_over(&self, foreign: &OwnedFd) -> io::Result<()> {
        // One process at a time does this.
        match rustix::fs::flock(foreign, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                std::thread::sleep(PAUSE);
                return Ok(());
            }
            locked => locked?,
        }
        let secret = self.secret.get(self)?;
        let stat = rustix::fs::fstat(foreign)?;
        if key_of(&secret, foreign)?.is_some() {
            return Ok(());
        }
        let _lock = lock_foreign(foreign)?;
        make_private(foreign, &stat)?;
        if let Some(place) = set_all_aside(foreign)? {
            tracing::warn!(
                "{OWN} in the workspace does not count: {NOT_MADE_HERE}; what was in it was set \
                 aside as {OWN}/{SET_ASIDE}/{place}, and what is kept begins anew"
            );
        }
        let mut mark = vec![0; ID];
        getrandom::fill(&mut mark).map_err(io::Error::other)?;
        Key::of(&secret, &[]).append(DOMAIN, &identity(foreign)?, &mut mark);
        disk::create(foreign, IGNORED)?.write_all(b"*\n")?;
        let mut file = disk::create(foreign, MARK)?;
        writeln!(file, "{}", URL_SAFE_NO_PAD.encode(mark))?;
        // Without its mark, nothing that is kept here would count after a power cut.
        disk::sync(&file)?;
        disk::sync(foreign)
    }
}

/// Returns an error that names the owner of the host's own directory if that is another user.
fn check_owner(stat: &Stat) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid == user {
        return Ok(());
    }
    Err(denied(format!(
        "{OWN} in the workspace belongs to user {}, and this is user {user}; run this as that user, \
         or remove the directory",
        stat.st_uid
    )))
}

/// Sets aside what is in a directory that does not count. Answers where it is then; none where
/// there is nothing but what a new directory has.
fn set_all_aside(foreign: &OwnedFd) -> io::Result<Option<String>> {
    rename_if_other(foreign)?;
    let aside = directory(foreign, SET_ASIDE)?;
    let place = format!("{}-{}", uuid::Uuid::now_v7(), OWN.trim_start_matches('.'));
    let mut to: Option<OwnedFd> = None;
    // Some file systems lose their place while names go: until there are none.
    loop {
        let mut is_done = true;
        for entry in disk::entries(foreign)? {
            let disk::Listed { name, kind, .. } = entry?;
            if [SET_ASIDE, MARK, IGNORED].iter().any(|kept| name == *kept) {
                continue;
            }
            is_done = false;
            let to = match &to {
                Some(to) => to,
                None => to.insert(directory(&aside, &place)?),
            };
            if kind == FileType::Directory {
                // Only one that can be changed can be moved.
                disk::open_anyway(foreign.as_fd(), &name)?;
            }
            disk::rename(foreign, &name, to, &name)?;
        }
        if is_done {
            break;
        }
    }
    for name in [MARK, IGNORED] {
        disk::remove_all(foreign, name)?;
    }
    if to.is_none() {
        // It stays where there is something in it from before.
        let _ = disk::remove(foreign, SET_ASIDE, AtFlags::REMOVEDIR);
    }
    Ok(to.map(|_| place))
}

/// Gives another name to what is in place of the directory of what was set aside, and is none.
fn rename_if_other(own: impl AsFd) -> io::Result<()> {
    let is_directory = |stat: &Stat| disk::file_type(stat) == FileType::Directory;
    if disk::look(&own, SET_ASIDE)?.is_some_and(|stat| !is_directory(&stat)) {
        let fresh = format!("{SET_ASIDE}-{}", uuid::Uuid::now_v7());
        disk::rename(&own, SET_ASIDE, &own, fresh)?;
    }
    Ok(())
}

/// Locks what processes lock in a directory that does not count, if there is such a file: a host
/// with another secret may be at work. No repository can bring a lock that is held.
fn lock_foreign(foreign: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let Ok(lock) = disk::open(foreign, LOCK, OFlags::RDONLY) else { return Ok(None) };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{OWN} in the workspace is in use by a host with another key; try again later"),
        )),
        _ => Ok(Some(lock)),
    }
}

/// Why a directory does not count.
pub(crate) const NOT_MADE_HERE: &str = "this user's cofferdam did not make it in this place (it \
     came with the files, is a copy or a backup, or another key made it)";

/// The key for the files in a directory, if its mark is valid.
fn key_of(secret: &[u8; SECRET], directory: &OwnedFd) -> io::Result<Option<Key>> {
    let mark = match disk::open(directory, MARK, OFlags::RDONLY) {
        Ok(file) => file,
        // What this user's host writes can be opened.
        Err(error) if is_of_another_kind(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mark = File::from(mark);
    if !mark.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    mark.take(MARK_SIZE).read_to_end(&mut text)?;
    let identity = identity(directory)?;
    let id = || {
        let mark = URL_SAFE_NO_PAD.decode(text.trim_ascii()).ok()?;
        let of_user = Key::of(secret, &[]);
        let id = of_user.content(DOMAIN, &identity, &mark)?;
        (id.len() == ID).then(|| [id, identity.as_bytes()].concat())
    };
    Ok(id().map(|id| Key::of(secret, &id)))
}

/// What no other directory of the file system has: the number of its inode and, where the file
/// system keeps it, its time of birth in nanoseconds. The number alone is given to another directory
/// when this one is removed; no program can set the time, and a copy has one of its own.
fn identity(directory: &OwnedFd) -> io::Result<String> {
    let metadata = File::from(directory.try_clone()?).metadata()?;
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |born| born.as_nanos());
    Ok(format!("{}.{born}", metadata.ino()))
}

fn is_of_another_kind(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP | Errno::ACCESS | Errno::ISDIR | Errno::NXIO)
    )
}

/// Closes a directory to everybody else, if it is this user's.
fn make_private(directory: impl AsFd, stat: &Stat) -> io::Result<()> {
    let is_open = stat.st_mode & !disk::OWNER_ONLY & 0o777 != 0;
    if is_open && stat.st_uid == rustix::process::geteuid().as_raw() {
        rustix::fs::fchmod(directory, Mode::RWXU)?;
    }
    Ok(())
}

/// Whether a lock is still the one that processes lock.
pub(super) fn is_lock(own: &Own, lock: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(lock)?;
    Ok(disk::look(own, LOCK)?.is_some_and(|named| place(&named) == place(&stat)))
}

/// A directory of the host's own, made where it is missing. What was in files that others may
/// not read is nobody else's business there either.
pub(super) fn directory(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let parent = parent.as_fd();
    let open = || disk::open(parent, name, disk::UNSEEN | OFlags::DIRECTORY);
    let create = || disk::create_directory(parent, name, disk::OWNER_ONLY);
    closed(open_or_create(name, open, create)?)
}

/// A directory of the host's own, if it is there. Something else under its name does not count; the
/// next call that needs the directory sets it aside.
pub(super) fn existing_directory(parent: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match disk::open(parent, name, disk::UNSEEN | OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::LOOP | Errno::NOTDIR)) => {
            tracing::warn!("'{name}' of the host's own files in {OWN} is no directory: {error}");
            Ok(None)
        }
        directory => closed(directory?).map(Some),
    }
}

/// A directory that came from elsewhere later may be open to everybody.
fn closed(directory: OwnedFd) -> io::Result<OwnedFd> {
    let stat = rustix::fs::fstat(&directory)?;
    make_private(&directory, &stat)?;
    Ok(directory)
}

/// Moves something of the host's own out of the way, with everything in it, and returns the path
/// that it has from now on, from the workspace. Only a person removes what is there.
pub(super) fn set_aside(own: &Own, from: impl AsFd, name: &str) -> io::Result<String> {
    let place = format!("{}-{name}", uuid::Uuid::now_v7());
    rename_if_other(own)?;
    disk::rename(from, name, directory(own, SET_ASIDE)?, &place)?;
    Ok(format!("{OWN}/{SET_ASIDE}/{place}"))
}

pub(super) fn open_or_create(
    name: &str,
    open: impl Fn() -> io::Result<OwnedFd>,
    create: impl Fn() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create() {
            // Somebody else may have been faster.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        },
        opened => opened,
    };
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("'{name}' of the host's own files: {error}"))
    })
}
