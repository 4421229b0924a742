//! The directories in which programs keep what they would otherwise compute again, and how much
//! they may hold.
//!
//! While a program runs, the sandbox stops it where its cache holds too much. Before a run, what has
//! not been used for the longest time makes room: whole entries of the cache's top, since only the
//! program knows which of its files need each other, and never while another run uses the cache.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Usage, usage};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::outside::Run;
use super::{CACHE, Workspace, disk, own};

/// How many files, directories and links a cache may hold.
pub const ENTRIES: u64 = 500_000;

/// How much longer programs have to run than a count took, until it is made again.
const SHARE: u32 = 20;

/// How long a run waits while another process makes room.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(10);

/// What is known of the caches of a workspace, by name.
#[derive(Default)]
pub(super) struct Caches(Mutex<HashMap<String, Known>>);

/// What a cache held when it was counted.
#[derive(Clone, Copy, Default)]
struct Known {
    usage: Usage,
    /// How much longer that may be taken for what it holds, in time of its programs.
    fresh: Duration,
}

/// A cache that a run uses. Until it is dropped, nothing of it makes room.
pub struct Cache<'a> {
    workspace: &'a Workspace,
    name: String,
    path: PathBuf,
    usage: Usage,
    begun: Instant,
    _lock: OwnedFd,
}

impl Cache<'_> {
    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it held before, as far as that is known.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Has it counted before the next run.
    pub fn count_again(self) {
        self.workspace.caches.known().remove(&self.name);
    }
}

impl Drop for Cache<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.workspace.caches.known().get_mut(&self.name) {
            known.fresh = known.fresh.saturating_sub(self.begun.elapsed());
        }
    }
}

impl Caches {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    /// The directory of [`Workspace::cache_directory`] for one run. Where it holds more than three
    /// quarters of `most` bytes, what has not been used for the longest time is removed, until it
    /// holds at most half.
    ///
    /// # Errors
    /// Those of [`Workspace::cache_directory`]; a cache in which another process makes room for too
    /// long.
    pub fn cache(&self, name: &str, most: u64) -> io::Result<Cache<'_>> {
        let path = self.cache_directory(name)?;
        let own = self.own()?;
        let (caches, directory) = (own.directory(CACHE)?, own.subdirectory(CACHE, name)?);
        let lock = lock(&caches, name)?;
        let known = self.caches.known().get(name).copied();
        let mut known = known.unwrap_or_default();
        if known.fresh.is_zero() {
            let begun = Instant::now();
            let most = Usage { bytes: most, entries: ENTRIES, ..Usage::MAX };
            known.usage = self.make_room(name, &directory, &lock, most)?;
            known.fresh = begun.elapsed() * SHARE;
            self.caches.known().insert(name.to_owned(), known);
        }
        share(&lock)?;
        let (name, usage) = (name.to_owned(), known.usage);
        Ok(Cache { workspace: self, name, path, usage, begun: Instant::now(), _lock: lock })
    }

    /// Removes the entries that were not used for the longest time, if the cache is too large and no
    /// run uses it.
    fn make_room(
        &self,
        name: &str,
        directory: &OwnedFd,
        lock: &OwnedFd,
        most: Usage,
    ) -> io::Result<Usage> {
        let part = |of: Usage, part: u64, parts: u64| Usage {
            bytes: of.bytes / parts * part,
            entries: of.entries / parts * part,
            ..of
        };
        let found = usage(directory, part(most, 3, 4))?;
        if !found.is_above(part(most, 3, 4)) {
            return Ok(found);
        }
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            // The runs that use it are watched as well.
            Err(Errno::WOULDBLOCK) => return Ok(found),
            locked => locked?,
        }
        let mut entries = entries(directory)?;
        let sum = |left: Usage, entry: &Entry| Usage {
            bytes: left.bytes.saturating_add(entry.usage.bytes),
            entries: left.entries.saturating_add(entry.usage.entries).saturating_add(1),
            used: left.used.max(entry.usage.used),
        };
        entries.sort_by_key(|entry| entry.usage.used);
        // Dropped, it takes everything along that is in it.
        let run = Run::in_workspace(self)?;
        let mut gone = 0;
        let mut left = entries.iter().fold(Usage::default(), sum);
        for (number, entry) in entries.iter().enumerate() {
            if !left.is_above(part(most, 1, 2)) {
                break;
            }
            let moved =
                rustix::fs::renameat(directory, &entry.name, run.handle(), number.to_string());
            if let Err(error) = moved {
                tracing::warn!("{:?} of the cache of '{name}' stays: {error}", entry.name);
                continue;
            }
            gone += 1;
            left = Usage {
                bytes: left.bytes.saturating_sub(entry.usage.bytes),
                entries: left.entries.saturating_sub(entry.usage.entries.saturating_add(1)),
                ..left
            };
        }
        tracing::info!("{gone} entries of the cache of '{name}' were removed to make room");
        Ok(left)
    }
}

/// What is at the top of a cache.
struct Entry {
    name: std::ffi::OsString,
    usage: Usage,
}

/// What is at the top of a cache that no run uses now.
fn entries(directory: &OwnedFd) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in disk::entries(directory)? {
        let name = entry?.name;
        let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let usage = if disk::file_type(&stat) == FileType::Directory {
            // To be moved, a directory has to be its owner's to write.
            rustix::fs::chmodat(directory, &name, Mode::RWXU, AtFlags::empty())?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = rustix::fs::openat(directory, &name, flags, Mode::empty())?;
            usage(below, Usage::MAX)?
        } else {
            Usage::of(&stat)
        };
        found.push(Entry { name, usage });
    }
    Ok(found)
}

/// What a cache is locked by. Programs don't get at it.
fn lock(caches: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = format!("{name}.lock");
    let open = || disk::open(caches.as_fd(), &name, OFlags::RDONLY);
    let create = || disk::create(caches.as_fd(), &name).map(drop);
    own::open_or_create(&name, open, create)
}

/// Locks it beside others.
fn share(lock: &OwnedFd) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(RETRY),
            Err(Errno::WOULDBLOCK) => {
                let seconds = PATIENCE.as_secs();
                let why =
                    format!("another process has been removing files from it for {seconds} s");
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            locked => return Ok(locked?),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::super::tests::open;
    use super::*;

    const MOST: u64 = 1 << 20;

    /// An entry of a cache with a file that was used at a time.
    fn fill(cache: &Path, entry: &str, bytes: usize, seconds: u64) {
        let directory = cache.join(entry).join("deep");
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("file");
        fs::write(&file, vec![1; bytes]).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
        File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
    }

    fn names(cache: &Path) -> Vec<String> {
        let entries = fs::read_dir(cache).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_makes_room() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let path = open(&root).cache("p", MOST).unwrap().path().to_owned();
        for (entry, used) in [("a", 300), ("b", 100), ("c", 200)] {
            fill(&path, entry, 240_000, used);
        }
        // Within three quarters, everything stays.
        assert_eq!(open(&root).cache("p", MOST).unwrap().usage().bytes, 720_000);
        fill(&path, "d", 240_000, 150);
        fs::set_permissions(path.join("b"), fs::Permissions::from_mode(0o000)).unwrap();
        // A run uses it: another process would hold the same lock.
        let other = open(&root);
        let user = other.cache("p", u64::MAX).unwrap();
        assert!(open(&root).cache("p", MOST).unwrap().usage().bytes > 720_000);
        assert_eq!(names(&path), ["a", "b", "c", "d"]);
        drop(user);
        assert_eq!(open(&root).cache("p", MOST).unwrap().usage().bytes, 480_000);
        assert_eq!(names(&path), ["a", "c"]);
        assert_eq!(names(&root.join(".cofferdam/runs")), [""; 0]);
    }

    #[test]
    fn a_cache_is_not_counted_before_each_run() {
        let place = tempfile::tempdir().unwrap();
        let workspace = open(&place.path().canonicalize().unwrap());
        let path = workspace.cache("p", MOST).unwrap().path().to_owned();
        workspace.caches.known().get_mut("p").unwrap().fresh = Duration::from_secs(3600);
        fill(&path, "a", 2_000_000, 100);
        assert_eq!(workspace.cache("p", MOST).unwrap().usage().bytes, 0);
        workspace.caches.known().get_mut("p").unwrap().fresh = Duration::ZERO;
        workspace.cache("p", MOST).unwrap();
        assert_eq!(names(&path), [""; 0]);
    }
}
