//! A digest of the whole workspace at one moment: an approval by the user is valid only as long as
//! nothing has changed that a call could read.
//!
//! It covers the name, type, permissions, owner and inode of each file, link and directory at any
//! depth, and except for directories their size and times. The kernel sets the time of an inode's
//! last change: a program that writes to a file can set back its modification time, but not this.
//! Of the writes to a page that a program has mapped, only the first one after the page was written to
//! the disk sets these times. So everything is written to the disk first.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::vec;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use cofferdam_core::policy::OWN;

use crate::disk::StatFields as _;
use crate::workspace::Workspace;
use crate::{clock, disk};

/// The largest number of files, directories and links that are compared.
const MAX_ENTRIES: usize = 500_000;

/// The largest depth of nested directories.
const MAX_DEPTH: usize = 256;

/// How often a workspace is read that is being changed.
const ATTEMPTS: usize = 5;

/// How many changed paths are listed.
const MAX_LISTED: usize = 5;

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The state of a workspace at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    digest: [u8; 32],
    /// In nanoseconds since the epoch: earlier changes have an earlier time, later ones do not.
    since: i64,
}

/// Why a fingerprint can't be made or compared.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The workspace has too many entries, or too deep directories.
    #[error(
        "the workspace holds more than {MAX_ENTRIES} files, directories and links, or directories that \
         are nested more than {MAX_DEPTH} deep"
    )]
    TooLarge,
    /// Other programs changed it during every attempt.
    #[error("it is being changed: {}", .0.join(", "))]
    Changing(Vec<String>),
    /// I/O error while the tree was read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Workspace {
    /// Returns the fingerprint of everything except the host's own directory.
    ///
    /// # Errors
    /// See [`FingerprintError`].
    pub fn fingerprint(&self) -> Result<Fingerprint, FingerprintError> {
        // If this fails, a later write to a mapped page may not be detected.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::fs::syncfs(self.disk().as_fd()) {
            tracing::debug!("syncfs of the workspace: {error}");
        }
        let mut changing = Vec::new();
        for _ in 0..ATTEMPTS {
            let since = clock::next_tick();
            let walk = Walk::of(self.disk().as_fd(), since)?;
            // A second change could have the same time as the one that was seen.
            if walk.recent.is_empty() {
                return Ok(Fingerprint { digest: walk.digest.finalize().into(), since });
            }
            changing = walk.recent;
        }
        Err(FingerprintError::Changing(changing))
    }

    /// Returns the first few paths that were changed since; `None` if nothing was.
    ///
    /// # Errors
    /// See [`FingerprintError`].
    pub fn changed_since(
        &self,
        before: &Fingerprint,
    ) -> Result<Option<Vec<String>>, FingerprintError> {
        let walk = Walk::of(self.disk().as_fd(), before.since)?;
        let is_same = <[u8; 32]>::from(walk.digest.finalize()) == before.digest;
        Ok((!is_same).then_some(walk.recent))
    }
}

/// A walk through all directories, each in the order of its names.
struct Walk {
    digest: Sha256,
    entries: usize,
    since: i64,
    /// The first paths that were changed since then.
    recent: Vec<String>,
}

/// An open directory and its remaining entries.
struct Level {
    directory: OwnedFd,
    names: vec::IntoIter<CString>,
    /// The length of its parent's path, in bytes.
    above: usize,
}

impl Walk {
    fn of(top: BorrowedFd<'_>, since: i64) -> Result<Self, FingerprintError> {
        let mut walk = Self { digest: Sha256::new(), entries: 0, since, recent: Vec::new() };
        let mut path = String::new();
        let top = openat(top, ".", OPEN, Mode::empty()).map_err(io::Error::from)?;
        let mut levels = vec![walk.level(top, 0)?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                walk.digest.update([0]);
                path.truncate(level.above);
                levels.pop();
                continue;
            };
            if levels.len() == 1 && name.as_bytes() == OWN.as_bytes() {
                continue;
            }
            let Some(level) = levels.last() else { break };
            if let Some((below, above)) = walk.entry(&level.directory, &name, &mut path)? {
                if levels.len() >= MAX_DEPTH {
                    return Err(FingerprintError::TooLarge);
                }
                levels.push(walk.level(below, above)?);
            }
        }
        Ok(walk)
    }

    /// Reads the names in a directory, in order.
    fn level(&mut self, directory: OwnedFd, above: usize) -> Result<Level, FingerprintError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                self.entries += 1;
                names.push(entry.file_name().to_owned());
            }
            if self.entries > MAX_ENTRIES {
                return Err(FingerprintError::TooLarge);
            }
        }
        names.sort_unstable();
        Ok(Level { directory, names: names.into_iter(), above })
    }

    /// Adds one entry. Returns a directory, open, and the length of its parent's path in bytes.
    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &CString,
        path: &mut String,
    ) -> Result<Option<(OwnedFd, usize)>, FingerprintError> {
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was removed meanwhile.
            Err(Errno::NOENT) => return Ok(None),
            stat => stat.map_err(io::Error::from)?,
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let above = path.len();
        if above > 0 {
            path.push('/');
        }
        path.push_str(&name.to_string_lossy());
        self.add(name, &stat, is_directory, path);
        if is_directory {
            match openat(directory, name, OPEN, Mode::empty()) {
                Ok(below) => return Ok(Some((below, above))),
                // Programs can't read it either.
                Err(Errno::ACCESS) => self.digest.update([1]),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => self.digest.update([2]),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        path.truncate(above);
        Ok(None)
    }

    fn add(&mut self, name: &CString, stat: &Stat, is_directory: bool, path: &str) {
        let (modified, changed) = (disk::modified(stat), disk::changed(stat));
        // A time in the future means that the clock was set back, not a recent change.
        let is_recent = (self.since..=clock::now()).contains(&changed);
        if is_recent && self.recent.len() < MAX_LISTED {
            self.recent.push(path.to_owned());
        }
        self.digest.update(name.as_bytes_with_nul());
        let mut numbers = [0_u64; 8];
        numbers[..5].copy_from_slice(&[
            stat.mode().into(),
            stat.st_uid.into(),
            stat.st_gid.into(),
            stat.device(),
            stat.st_ino,
        ]);
        // Size and times of a directory change with its entries, which are covered themselves.
        if !is_directory {
            let times = [stat.st_size, modified, changed];
            numbers[5..].copy_from_slice(&times.map(i64::cast_unsigned));
        }
        self.digest.update(numbers.map(u64::to_le_bytes).as_flattened());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use std::fs::{self, File, FileTimes};
    use std::iter;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use crate::tests::open;

    /// A description, the path that is listed, and the change.
    type Case = (&'static str, &'static str, fn(&Path));

    const CASES: [Case; 9] = [
        ("written anew", "script", |root| fs::write(root.join("script"), "other").unwrap()),
        ("its time set back", "script", |root| {
            let modified = fs::metadata(root.join("script")).unwrap().modified().unwrap();
            fs::write(root.join("script"), "other").unwrap();
            let times = FileTimes::new().set_modified(modified);
            File::options()
                .write(true)
                .open(root.join("script"))
                .unwrap()
                .set_times(times)
                .unwrap();
        }),
        ("made executable", "script", |root| {
            fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("another in its place", "script", |root| {
            fs::write(root.join(".cofferdam/x"), "moved").unwrap();
            fs::rename(root.join(".cofferdam/x"), root.join("script")).unwrap();
        }),
        ("a new file", "lib/sitecustomize.py", |root| {
            fs::write(root.join("lib/sitecustomize.py"), "").unwrap();
        }),
        ("a link that leads elsewhere", "link", |root| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("lib", root.join("link")).unwrap();
        }),
        ("removed", "lib", |root| fs::remove_file(root.join("lib/a")).unwrap()),
        ("git's own", ".git/config", |root| fs::write(root.join(".git/config"), "x").unwrap()),
        ("a directory more", "lib/empty", |root| fs::create_dir(root.join("lib/empty")).unwrap()),
    ];

    fn make(root: &Path) {
        for directory in [".cofferdam", "lib", ".git"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["script", "lib/a", ".git/config"] {
            fs::write(root.join(file), "before").unwrap();
        }
        symlink("script", root.join("link")).unwrap();
    }

    #[test]
    fn every_change_is_seen_and_named() {
        for (name, path, change) in CASES {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().canonicalize().unwrap();
            make(&root);
            let workspace = open(&root);
            let before = workspace.fingerprint().unwrap();
            assert_eq!(workspace.changed_since(&before).unwrap(), None, "{name}");
            // Reading changes nothing, nor does the host's own work.
            fs::read(root.join("script")).unwrap();
            fs::write(root.join(".cofferdam/journal"), "x").unwrap();
            assert_eq!(workspace.changed_since(&before).unwrap(), None, "{name}");
            change(&root);
            let changed = workspace.changed_since(&before).unwrap().unwrap_or_default();
            assert!(changed.iter().any(|changed| changed == path), "{name}: {changed:?}");
        }
    }

    #[test]
    fn a_workspace_that_is_changed_all_the_time_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        make(&root);
        // So that reading the workspace takes longer than a tick of the clock.
        for file in 0..500 {
            fs::write(root.join(format!("lib/{file}")), "").unwrap();
        }
        let workspace = open(&root);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::write(root.join("log"), "x").unwrap();
                }
            });
            // On a busy machine, the other thread may not run.
            let end = Instant::now() + Duration::from_mins(1);
            let error = iter::repeat_with(|| workspace.fingerprint().err())
                .take_while(|_| Instant::now() < end)
                .flatten()
                .next();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            let error = error.unwrap().to_string();
            assert!(error.contains("log"), "{error}");
        });
        workspace.fingerprint().unwrap();
    }
}
