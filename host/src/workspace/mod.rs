//! The directory that calls work on. All of the host's own opening of files is here, beneath a
//! directory handle: a path that leaves the workspace, by `..`, by being absolute or through a
//! symbolic link, does not open, however the tree changes meanwhile.
//!
//! | module | what |
//! |---|---|
//! | [`overlay`] | the tree with what a transaction has changed on top |
//! | [`transaction`] | begin and commit: the protocol |
//! | [`store`] | where transactions lie, recovery |
//! | [`plan`], [`settle`], [`apply`] | its steps: what to do, files on the disk, renames |
//! | [`manifest`], [`sealed`] | what a commit does, as it is written down; its file |
//! | [`history`] | the commits that are kept, and taking one back |
//! | [`diff`] | changes as a unified diff |
//! | [`stamp`] | what a file was when somebody looked |
//! | [`fingerprint`] | everything in it at one moment, to be compared |
//! | [`disk`] | system calls that follow no link |
//! | [`copying`] | a file's content, permissions and attributes, given to another |
//! | [`outside`] | the tree for native programs, and what they change |
//! | [`kept`] | what plugins and the host need not make or fetch again |
//! | [`spill`] | long output of programs, whole |
//! | [`cache`] | the directories of programs' caches |
//! | [`writers`] | whose turn it is to change something |
//! | [`seal`] | authentication of the host's own files |
//! | [`own`] | the host's own directory: who made it, and what is made in it |
//! | [`path`], [`quota`] | paths as written; what a call may write |

mod apply;
mod cache;
mod copying;
mod diff;
mod disk;
mod fingerprint;
mod history;
mod kept;
mod manifest;
mod outside;
mod overlay;
mod own;
pub mod path;
mod plan;
mod quota;
mod seal;
mod sealed;
mod settle;
mod spill;
mod stamp;
mod store;
mod transaction;
mod writers;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use rustix::fs::{AtFlags, OFlags};

pub use cache::{Cache, ENTRIES as CACHE_ENTRIES};
pub use disk::Listed;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use history::{History, HistoryError, summary};
pub(crate) use kept::Shelf;
pub use manifest::{Change, Image, Kind, Manifest};
pub use outside::{Means, Protected, Shown, View};
pub use overlay::{Opening, Overlay, Savepoint};
pub use own::Secret;
pub(crate) use own::{Found, NOT_MADE_HERE, Own, SET_ASIDE};
pub use quota::Quota;
pub(crate) use seal::Key;
pub use spill::KeptOutput;
pub(crate) use spill::Spill;
pub use transaction::{BeginError, CommitError, Purpose, Transaction};

use crate::line::Turns;
use crate::plugin::text;
pub(crate) use crate::policy::OWN;

/// Where programs have their caches, in the host's own directory.
const CACHE: &str = "cache";

/// The code of a call that failed for want of room on a disk.
pub const FULL: &str = "DiskFull";

/// How long a diff is made as small as it can be.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// A directory that can't be worked on.
#[derive(Debug, thiserror::Error)]
#[error("the workspace {}: {source}", path.display())]
pub struct WorkspaceError {
    /// Which directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Why the host, and not the system, refused something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// It is of a kind that is never changed, rather than out of reach.
    pub unsupported: bool,
    /// What and why.
    pub reason: String,
}

impl Refused {
    /// Something is out of the call's reach.
    pub(crate) fn denied(reason: String) -> io::Error {
        Self { unsupported: false, reason }.into()
    }

    /// Something of this kind is never changed.
    pub(crate) fn unsupported(reason: String) -> io::Error {
        Self { unsupported: true, reason }.into()
    }

    /// The refusal in an error, if it is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refused {}

/// Who writes down that there was a commit. The second argument: whether it was begun by a process
/// that died, which may have written it down before.
pub type Recorder = Box<dyn Fn(&Manifest, bool) + Send + Sync>;

/// A file that a program of the person executes, and not because anybody asked for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedFile {
    /// Relative to the workspace.
    pub path: String,
    /// Which program, and when.
    pub by: String,
}

impl fmt::Display for ExecutedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which {}", self.path, self.by)
    }
}

/// An open directory and its name.
pub struct Workspace {
    path: PathBuf,
    name: String,
    root: Dir,
    disk: Arc<OwnedFd>,
    plain: Arc<Overlay>,
    secret: Secret,
    /// The host's own directory, once it was found to count.
    own: Mutex<Option<Arc<Own>>>,
    /// Whether it was said that it does not.
    has_warned: AtomicBool,
    writers: Arc<Turns>,
    caches: cache::Caches,
    /// The sequence of the latest commit that was made through this; 0: none.
    latest: AtomicU64,
    recorder: OnceLock<Recorder>,
}

impl Workspace {
    /// Opens a directory. What the host keeps in it is authenticated with the secret.
    ///
    /// # Errors
    /// One that does not exist, can't be opened, or whose path is not UTF-8.
    #[expect(clippy::disallowed_methods, reason = "the one place where a workspace is opened")]
    pub fn open(path: &Path, secret: Secret) -> Result<Self, WorkspaceError> {
        let open = move || {
            let canonical = path.canonicalize()?;
            let name = canonical
                .to_str()
                .ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8")
                })?
                .to_owned();
            let root = Dir::open_ambient_dir(&canonical, ambient_authority())?;
            let disk = Arc::new(disk::open(&root, "", OFlags::RDONLY | OFlags::DIRECTORY)?);
            let plain = Arc::new(Overlay::reading(Arc::clone(&disk)));
            Ok(Self {
                path: canonical,
                name,
                root,
                disk,
                plain,
                secret,
                own: Mutex::default(),
                has_warned: AtomicBool::default(),
                writers: Arc::new(Turns::new(1)),
                caches: cache::Caches::default(),
                latest: AtomicU64::default(),
                recorder: OnceLock::default(),
            })
        };
        open().map_err(|source| WorkspaceError { path: path.to_owned(), source })
    }

    /// The absolute path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path leads through the workspace or into it, by its names or by links: then a tool
    /// may decide what is found there. So it may where nobody can say where a path leads.
    #[expect(clippy::disallowed_methods, reason = "nothing is opened")]
    pub fn holds(&self, path: &Path) -> bool {
        let Ok(named) = std::path::absolute(path) else { return true };
        let is_absent = |error: io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        let leads_inside = |above: &Path| match above.canonicalize() {
            Ok(real) => real.starts_with(&self.path),
            Err(_) => !above.symlink_metadata().is_err_and(is_absent),
        };
        named.starts_with(&self.path) || named.ancestors().any(leads_inside)
    }

    /// What a call is told that failed for want of room on the disk.
    pub(crate) fn is_full(&self, error: &io::Error) -> String {
        let left =
            rustix::fs::fstatvfs(&*self.disk).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
        format!(
            "the disk is full: {error}. On that of {} there are {} MB left; free some room and \
             call again",
            self.name,
            left / 1_000_000
        )
    }

    /// The absolute path as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tree as it is on the disk, for reading.
    pub fn plain(&self) -> &Arc<Overlay> {
        &self.plain
    }

    /// Has each commit written down from now on, before it is over: one that was made and not written
    /// down is found by the next call after a crash. There is one recorder, the first.
    pub(crate) fn record_commits(&self, recorder: Recorder) {
        let _ = self.recorder.set(recorder);
    }

    fn record(&self, commit: &Manifest, recovered: bool) {
        if let Some(recorder) = self.recorder.get() {
            recorder(commit, recovered);
        }
    }

    fn disk(&self) -> &Arc<OwnedFd> {
        &self.disk
    }

    /// Opens something for reading, following links that stay inside. Never waits: a FIFO opens
    /// at once, and whoever gets it must look at its type first.
    pub(crate) fn open_read(&self, path: &Path) -> io::Result<File> {
        use cap_std::fs::OpenOptionsExt as _;
        let mut options = OpenOptions::new();
        let calm = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.read(true).custom_flags(calm.bits().cast_signed());
        self.root.open_with(or_dot(path), &options)
    }

    /// What is at a path, links that stay inside followed.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.root.metadata(or_dot(path))
    }

    /// Reads a text file that is the person's or the host's, not a tool's. None if there is none.
    ///
    /// # Errors
    /// One that is not a regular file, is longer than [`text::MAX`], is not UTF-8 or can't be read.
    pub(crate) fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        self.open_file(path)?.map(text::read_from).transpose()
    }

    /// Opens a file for reading. None if there is none.
    ///
    /// # Errors
    /// One that is not a regular file or can't be opened.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<Option<File>> {
        let file = match self.open_read(Path::new(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.metadata()?.is_file() {
            Ok(Some(file))
        } else {
            Err(io::Error::other("no regular file"))
        }
    }

    /// Writes a text file of the host's own at the top of the workspace, at once or not at all.
    ///
    /// # Errors
    /// A workspace that can't be written, or a directory of that name.
    pub(crate) fn replace_text(&self, name: &str, text: &str) -> io::Result<()> {
        let own = self.own()?;
        let temporary = format!("{name}.{}", uuid::Uuid::now_v7());
        let mut file = disk::create(&own, &temporary)?;
        let placed = file.write_all(text.as_bytes()).and_then(|()| {
            disk::sync(&file)?;
            disk::rename(&own, &temporary, self.disk(), name)
        });
        if placed.is_err() {
            disk::remove(&own, &temporary, AtFlags::empty())?;
        }
        placed
    }

    /// A directory in which programs can keep what they would otherwise compute again in each
    /// run; made where it is missing, and nobody else's business. `name` says whose it is. No
    /// recovery, undo or pruning of the history touches it.
    ///
    /// # Errors
    /// A name of anything but lower-case letters, digits, `-` and `_`; a workspace that can't be
    /// written, or something else under that name.
    pub fn cache_directory(&self, name: &str) -> io::Result<PathBuf> {
        let is_plain = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name:?} can't name a cache: lower-case letters, digits, '-' and '_' do"),
            ));
        }
        self.own()?.subdirectory(CACHE, name)?;
        Ok(self.path_of_cache(name))
    }

    /// Where [`Workspace::cache_directory`] makes a directory.
    pub fn path_of_cache(&self, name: &str) -> PathBuf {
        self.path.join(OWN).join(CACHE).join(name)
    }
}

/// Whether an error says that a disk, or what a user may have of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// cap-std's word for the directory itself.
pub(crate) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}
