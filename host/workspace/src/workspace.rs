//! The open directory of a workspace.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cofferdam_sandbox::Usage;
use rustix::fs::{AtFlags, OFlags};

use crate::commit::Commit;
use crate::fair_queue::FairSemaphore;
use crate::overlay::Overlay;
use crate::own::{Own, Secret};
use crate::path::or_dot;
use crate::upstream::Upstream;
use crate::{bounded_text, disk};

/// A directory that can't be used as a workspace.
#[derive(Debug, thiserror::Error)]
#[error("the workspace {}: {source}", path.display())]
pub struct WorkspaceError {
    /// The directory, as it was given.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Records a commit. The second argument is true if a process began the commit that died, and may
/// have recorded it before.
pub type Recorder = Box<dyn Fn(&Commit, bool) + Send + Sync>;

/// The usage of a program's cache when it was last measured.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheUsage {
    pub(crate) usage: Usage,
    /// For how much longer the measurement is used, in running time of the cache's programs.
    pub(crate) fresh: Duration,
}

/// An open directory and its path.
pub struct Workspace {
    path: PathBuf,
    name: String,
    root: Dir,
    disk: Arc<OwnedFd>,
    plain: Arc<Overlay>,
    pub(crate) secret: Secret,
    /// The host's own directory, once it was found authentic.
    pub(crate) own: Mutex<Option<Arc<Own>>>,
    /// Whether a warning was logged that the host's own directory is not authentic.
    pub(crate) has_warned: AtomicBool,
    pub(crate) writers: Arc<FairSemaphore>,
    /// The usage of the programs' caches, by name.
    caches: Mutex<HashMap<String, CacheUsage>>,
    /// The sequence number of the latest commit that was made through this handle; 0: none.
    pub(crate) latest: AtomicU64,
    recorder: OnceLock<Recorder>,
    upstream: OnceLock<Arc<dyn Upstream>>,
}

impl Workspace {
    /// Opens a directory. The secret authenticates what the host keeps in it.
    ///
    /// # Errors
    /// A directory that does not exist, can't be opened, or whose path is not UTF-8.
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
            let plain = Arc::new(Overlay::reading(Arc::clone(&disk)).at(canonical.clone()));
            Ok(Self {
                path: canonical,
                name,
                root,
                disk,
                plain,
                secret,
                own: Mutex::default(),
                has_warned: AtomicBool::default(),
                writers: Arc::new(FairSemaphore::new(1)),
                caches: Mutex::default(),
                latest: AtomicU64::default(),
                recorder: OnceLock::default(),
                upstream: OnceLock::default(),
            })
        };
        open().map_err(|source| WorkspaceError { path: path.to_owned(), source })
    }

    /// The absolute path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a path leads through or into the workspace, by its names or by links, so that a tool
    /// may decide what is found there. True if that can't be determined.
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

    /// Returns the message for a call that failed because the disk is full.
    pub fn is_full(&self, error: &io::Error) -> String {
        let left =
            rustix::fs::fstatvfs(&*self.disk).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
        format!(
            "the disk is full: {error}. On that of {} there are {} MB left; free some room and \
             call again",
            self.name,
            left / 1_000_000
        )
    }

    /// The tree as it is on the disk, for reading.
    pub fn plain(&self) -> &Arc<Overlay> {
        &self.plain
    }

    /// Sets the recorder to which each commit is reported before it is complete: one that was made
    /// and not recorded is found by the next call after a crash. Only the first recorder counts.
    pub fn record_commits(&self, recorder: Recorder) {
        let _ = self.recorder.set(recorder);
    }

    pub(crate) fn record(&self, commit: &Commit, recovered: bool) {
        if let Some(recorder) = self.recorder.get() {
            recorder(commit, recovered);
        }
    }

    /// Makes this workspace a copy of a store, for the rest of its life: commits are published there
    /// before they are applied. Only the first one counts.
    pub fn set_upstream(&self, upstream: Arc<dyn Upstream>) {
        let _ = self.upstream.set(upstream);
    }

    /// The store that this workspace is a copy of, if it is one.
    pub fn upstream(&self) -> Option<&Arc<dyn Upstream>> {
        self.upstream.get()
    }

    pub(crate) fn disk(&self) -> &Arc<OwnedFd> {
        &self.disk
    }

    pub(crate) fn caches(&self) -> MutexGuard<'_, HashMap<String, CacheUsage>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file or directory for reading; follows links that stay inside. Never waits: a FIFO
    /// opens at once, so the caller must check the type first.
    pub fn open_read(&self, path: &Path) -> io::Result<File> {
        use cap_std::fs::OpenOptionsExt as _;
        let mut options = OpenOptions::new();
        let no_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.read(true).custom_flags(no_wait.bits().cast_signed());
        self.root.open_with(or_dot(path), &options)
    }

    /// Opens a directory; follows links that stay inside.
    ///
    /// # Errors
    /// No directory, or one that can't be opened.
    pub fn open_directory(&self, path: &Path) -> io::Result<Dir> {
        self.root.open_dir(or_dot(path))
    }

    /// Returns the metadata of a path; follows links that stay inside.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.root.metadata(or_dot(path))
    }

    /// Reads a text file that the user or the host wrote, not a tool. Returns `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// A file that is not regular, is longer than [`bounded_text::MAX_BYTES`], is not UTF-8 or
    /// can't be read.
    pub fn read_text(&self, path: &str) -> io::Result<Option<String>> {
        self.open_file(path)?.map(bounded_text::read_from).transpose()
    }

    /// Opens a file for reading. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// A file that is not regular or can't be opened.
    pub fn open_file(&self, path: &str) -> io::Result<Option<File>> {
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

    /// Writes a text file of the host at the top of the workspace, atomically.
    ///
    /// # Errors
    /// A workspace that can't be written, or a directory of that name.
    pub fn replace_text(&self, name: &str, text: &str) -> io::Result<()> {
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
}
