//! The host's own directory in a workspace, once it is open: its key, and the files in it.
//!
//! A `.cofferdam` may have come with a repository, or be a copy of another workspace's. It is
//! authentic only with a valid mark: the file `owner`, a random id with a tag over the id and the
//! identity of the directory, made with the user's secret. The identity is the directory's inode
//! and, if the file system provides it, the time of its creation: inode numbers are reused, and no
//! program can set that time. Nothing that is unpacked, checked out or copied has the identity that
//! its mark names.
//!
//! The key that authenticates single files is derived from the secret, the id and the identity: what
//! was sealed in one workspace is not authentic in another one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::disk;
use crate::disk::StatFields as _;
use crate::private;
use crate::seal::{Key, SECRET};

/// The file that processes lock, in the host's own directory.
pub(crate) const LOCK: &str = "lock";

/// The file with the mark, which says who made the directory, and that it was made here.
pub(crate) const MARK: &str = "owner";

/// The directory of what is not authentic.
pub const SET_ASIDE: &str = "set-aside";

/// The domain of the tag in the mark.
const MARK_DOMAIN: &str = "owner";

/// The domain of the tags of files that other crates keep.
const SEALED_DOMAIN: &str = "sealed-file";

/// The length of the directory's random id, in bytes.
const ID_BYTES: usize = 16;

/// How much of a mark is read, in bytes: more than a valid one has.
const MAX_MARK_BYTES: u64 = 256;

/// Where the secret comes from that authenticates what the host keeps in a workspace.
#[derive(Debug, Clone)]
pub enum Secret {
    /// The file `key` in this directory of the user, outside of the workspace; both are created if
    /// missing.
    In(PathBuf),
    /// Random for this process: what other processes have kept is set aside.
    OfProcess,
    /// None available: nothing is kept, and nothing can be changed.
    Nowhere,
}

impl Secret {
    /// Returns the secret. `is_inside` tells whether a directory is in the workspace.
    pub(crate) fn get(&self, is_inside: impl FnOnce(&Path) -> bool) -> io::Result<[u8; SECRET]> {
        static OF_PROCESS: OnceLock<[u8; SECRET]> = OnceLock::new();
        match self {
            Self::In(directory) if is_inside(directory) => Err(denied(format!(
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

pub(crate) fn denied(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// The host's own directory, open and authentic.
#[derive(Debug)]
pub struct Own {
    directory: OwnedFd,
    device_and_inode: (u64, u64),
    key: Key,
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Own {
    pub(crate) fn new(directory: OwnedFd, stat: &Stat, key: Key) -> Self {
        Self { directory, device_and_inode: device_and_inode(stat), key }
    }

    /// The key that authenticates the files in it.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Reads a file that was sealed in a domain and under a name; `None` if it is not authentic, or has
    /// more than `most` bytes.
    pub(crate) fn content(
        &self,
        file: File,
        (domain, name): (&str, &str),
        most: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut sealed = Vec::new();
        if file.metadata()?.is_file() {
            file.take(most).read_to_end(&mut sealed)?;
        }
        Ok(self.key.content(domain, name, &sealed).map(<[u8]>::to_vec))
    }

    /// Returns the names of its entries.
    ///
    /// # Errors
    /// A directory that can't be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        names(self)
    }

    /// Returns the names of what was set aside.
    ///
    /// # Errors
    /// A directory that can't be read.
    pub fn set_aside(&self) -> io::Result<Vec<String>> {
        existing_directory(self, SET_ASIDE)?.map_or_else(|| Ok(Vec::new()), names)
    }

    /// Opens a file in it for reading. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// A file that is not regular or can't be opened.
    pub fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        let file: File = match disk::open(self, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        regular(file).map(Some)
    }

    /// Opens a file in it for appending; creates it if it is missing.
    ///
    /// # Errors
    /// Something else under that name; a workspace that can't be written.
    pub fn append(&self, name: &str) -> io::Result<File> {
        let open = || disk::open(self, name, OFlags::RDWR | OFlags::APPEND);
        let create = || disk::create(self, name).map(drop);
        regular(open_or_replace(self.as_fd(), name, open, create)?.into())
    }

    /// Reads a file that [`Own::write_sealed`] wrote. Returns `None` if it does not exist, is not
    /// authentic or is longer than `most` bytes.
    ///
    /// # Errors
    /// A file that is not regular or can't be read.
    pub fn read_sealed(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        self.content(file, (SEALED_DOMAIN, name), most)
    }

    /// Writes a file with a tag that authenticates it, atomically and durably. The caller makes sure
    /// that no other process writes it meanwhile.
    ///
    /// # Errors
    /// A workspace that can't be written.
    pub fn write_sealed(&self, name: &str, mut content: Vec<u8>) -> io::Result<()> {
        let temporary = format!("{name}.new");
        self.key.append(SEALED_DOMAIN, name, &mut content);
        disk::remove(self, &temporary, AtFlags::empty())?;
        let mut file = disk::create(self, &temporary)?;
        file.write_all(&content)?;
        disk::sync(&file)?;
        disk::rename(self, &temporary, self, name)
    }

    /// Whether this is the directory that `stat` describes.
    pub(crate) fn is_at(&self, stat: &Stat) -> bool {
        self.device_and_inode == device_and_inode(stat)
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

fn device_and_inode(stat: &Stat) -> (u64, u64) {
    (stat.device(), stat.st_ino)
}

/// What the name of the host's own directory refers to.
pub enum OwnState {
    /// The name does not exist.
    Nothing,
    /// An authentic directory of this user's host.
    Own(Arc<Own>),
    /// A directory that is not authentic.
    Foreign(OwnedFd),
}

/// Why a directory is not authentic, for messages.
pub const NOT_MADE_HERE: &str = "this user's cofferdam did not make it in this place (it \
     came with the files, is a copy or a backup, or another key made it)";

/// Returns the key for the files in a directory, if its mark is valid.
pub(crate) fn key_of(secret: &[u8; SECRET], directory: &OwnedFd) -> io::Result<Option<Key>> {
    let mark = match disk::open(directory, MARK, OFlags::RDONLY) {
        Ok(file) => File::from(file),
        // A file that this user's host wrote can be opened.
        Err(error) if is_of_another_kind(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !mark.metadata()?.is_file() {
        return Ok(None);
    }
    let identity = identity(directory)?;
    let mut text = Vec::new();
    mark.take(MAX_MARK_BYTES).read_to_end(&mut text)?;
    let id = || {
        let mark = URL_SAFE_NO_PAD.decode(text.trim_ascii()).ok()?;
        let of_user = Key::of(secret, &[]);
        let id = of_user.content(MARK_DOMAIN, &identity, &mark)?;
        (id.len() == ID_BYTES).then(|| [id, identity.as_bytes()].concat())
    };
    Ok(id().map(|id| Key::of(secret, &id)))
}

/// Returns what distinguishes a directory from all earlier and later ones: its inode, and the time of
/// its creation.
fn identity(directory: &OwnedFd) -> io::Result<String> {
    let inode = rustix::fs::fstat(directory)?.st_ino;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::StatxFlags;
        let found = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        let has_time = |found: &rustix::fs::Statx| {
            StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME)
        };
        // Some kernels and file systems do not provide the time.
        if let Some(found) = found.ok().filter(has_time) {
            let created = found.stx_btime;
            return Ok(format!("{inode} {}.{:09}", created.tv_sec, created.tv_nsec));
        }
    }
    Ok(inode.to_string())
}

fn is_of_another_kind(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP | Errno::ACCESS | Errno::ISDIR | Errno::NXIO)
    )
}

/// Writes a new mark into a directory and syncs both: without the mark, nothing in the directory
/// would be authentic after a power cut.
pub(crate) fn write_mark(secret: &[u8; SECRET], directory: &OwnedFd) -> io::Result<()> {
    let mut mark = vec![0; ID_BYTES];
    getrandom::fill(&mut mark).map_err(io::Error::other)?;
    Key::of(secret, &[]).append(MARK_DOMAIN, &identity(directory)?, &mut mark);
    let mut file = disk::create(directory, MARK)?;
    writeln!(file, "{}", URL_SAFE_NO_PAD.encode(mark))?;
    disk::sync(&file)?;
    disk::sync(directory)
}

/// Whether a file belongs to this user.
pub(crate) fn is_users(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Sets the mode of a directory to 0700, if it is this user's.
pub(crate) fn make_private(directory: impl AsFd, stat: &Stat) -> io::Result<()> {
    let is_open = stat.mode() & !disk::OWNER_ONLY & 0o777 != 0;
    if is_open && is_users(stat) {
        rustix::fs::fchmod(directory, Mode::RWXU)?;
    }
    Ok(())
}

/// Whether a lock is still the file that processes lock.
pub(crate) fn is_lock(own: &Own, lock: impl AsFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(lock)?;
    Ok(disk::look(own, LOCK)?
        .is_some_and(|named| device_and_inode(&named) == device_and_inode(&stat)))
}

/// Opens the file that processes lock; creates it if it is missing.
pub(crate) fn lock(own: &Own) -> io::Result<OwnedFd> {
    let open = || disk::open(own, LOCK, OFlags::RDONLY);
    let create = || disk::create(own, LOCK).map(drop);
    open_or_replace(own.as_fd(), LOCK, open, create)
}

/// Opens a directory of the host; creates it if it is missing. Its mode is 0700: its files may
/// hold what was in files that other users may not read.
pub(crate) fn directory(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let parent = parent.as_fd();
    let open = || disk::open(parent, name, disk::READ_NO_ATIME | OFlags::DIRECTORY);
    let create = || disk::create_directory(parent, name, disk::OWNER_ONLY);
    closed(open_or_replace(parent, name, open, create)?)
}

/// Opens a directory of the host, if it exists.
pub(crate) fn existing_directory(parent: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match disk::open(parent, name, disk::READ_NO_ATIME | OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if is_no_directory(&error) => {
            tracing::warn!(
                "'{name}' of the host's own files is no directory; the next change sets it aside"
            );
            Ok(None)
        }
        directory => closed(directory?).map(Some),
    }
}

/// Makes a directory private: one that was copied here later may be open to other users.
fn closed(directory: OwnedFd) -> io::Result<OwnedFd> {
    let stat = rustix::fs::fstat(&directory)?;
    make_private(&directory, &stat)?;
    Ok(directory)
}

/// Moves a file or directory of the host to [`SET_ASIDE`], and returns its new path, relative to
/// the workspace. The host never removes it from there.
pub(crate) fn set_aside(own: &Own, from: impl AsFd, name: &str) -> io::Result<String> {
    let place = format!("{}-{name}", uuid::Uuid::now_v7());
    disk::rename(from, name, directory(own, SET_ASIDE)?, &place)?;
    Ok(format!("{OWN}/{SET_ASIDE}/{place}"))
}

/// As [`open_or_create`]; a link or a file that a `git pull` or an archive has put in the place of a
/// file or directory of the host is set aside first.
fn open_or_replace(
    parent: BorrowedFd<'_>,
    name: &str,
    open: impl Fn() -> io::Result<OwnedFd>,
    create: impl Fn() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    match open() {
        Ok(opened) => return Ok(opened),
        Err(error) if is_no_directory(&error) => set_file_aside(parent, name)?,
        Err(_) => {}
    }
    open_or_create(name, open, create)
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NOTDIR | Errno::NXIO))
}

/// Sets aside a file or link. Another process may do the same at the same time, and create a
/// directory in its place: neither step affects a directory.
fn set_file_aside(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let place = format!("{}-{name}", uuid::Uuid::now_v7());
    // It is moved into `set-aside` if that is a directory, else beside it.
    let aside = disk::open(parent, SET_ASIDE, OFlags::RDONLY | OFlags::DIRECTORY);
    let (to, shown) = match &aside {
        Ok(aside) => (aside.as_fd(), format!("{SET_ASIDE}/{place}")),
        Err(_) => (parent, place.clone()),
    };
    let linked = rustix::fs::linkat(parent, name, to, &place, AtFlags::empty());
    let removed = linked.and_then(|()| rustix::fs::unlinkat(parent, name, AtFlags::empty()));
    match removed {
        Ok(()) => tracing::warn!(
            "'{name}' of the host's own files was no directory or file of the host's; it was set \
             aside as {shown} in the same directory"
        ),
        // Another process was faster.
        Err(Errno::NOENT | Errno::PERM | Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Opens a file or directory; if it is missing, creates it first. Another process may create it at
/// the same time.
pub(crate) fn open_or_create(
    name: &str,
    open: impl Fn() -> io::Result<OwnedFd>,
    create: impl Fn() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create() {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        },
        opened => opened,
    };
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("'{name}' of the host's own files: {error}"))
    })
}
