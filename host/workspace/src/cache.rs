//! Cache directories of native programs, and their limits.
//!
//! While a program runs, the sandbox kills it if its cache exceeds the limit. Before a run, the least
//! recently used entries are evicted: whole entries at the top of the cache, since only the program
//! knows which of its files depend on each other, and never while another run uses the cache.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_core::policy::OWN;
use cofferdam_sandbox::{Usage, usage};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::layout::CACHE;
use crate::run_dir::RunDir;
use crate::workspace::{CacheUsage, Workspace};
use crate::{disk, own};

/// The largest number of files, directories and links in a cache.
pub const ENTRIES: u64 = 500_000;

/// A cache is measured again after its programs have run this many times as long as the measurement
/// took.
const FRESH_FACTOR: u32 = 20;

/// How long a run waits while another process evicts entries.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two attempts to lock a cache.
const RETRY: Duration = Duration::from_millis(10);

/// A cache that a run uses. Until it is dropped, no entry is evicted.
pub struct Cache<'a> {
    workspace: &'a Workspace,
    name: String,
    path: PathBuf,
    usage: Usage,
    begun: Instant,
    directory: OwnedFd,
    _lock: OwnedFd,
}

impl Cache<'_> {
    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The usage when it was last measured.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Makes `place`, a path in the cache, a symbolic link to `target`; directories on the way are
    /// created. Anything else in the way is removed, since programs write to the cache as well. No
    /// link is followed.
    ///
    /// # Errors
    /// A cache that can't be written.
    pub fn link(&self, place: &str, target: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(place)?;
        let target = target.as_os_str().as_encoded_bytes();
        let present = rustix::fs::readlinkat(&parent, name, Vec::new());
        if present.is_ok_and(|present| present.as_bytes() == target) {
            return Ok(());
        }
        replace(&parent, name, |fresh| Ok(rustix::fs::symlinkat(target, &parent, fresh)?))
    }

    /// Writes a file to `place`, as [`Cache::link`] creates a link.
    ///
    /// # Errors
    /// A cache that can't be written.
    pub fn write(&self, place: &str, text: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(place)?;
        if is_file_with(&parent, name, text) {
            return Ok(());
        }
        replace(&parent, name, |fresh| disk::create(&parent, fresh)?.write_all(text))
    }

    /// Opens the directory of a place, and returns the name in it.
    fn parent<'p>(&self, place: &'p str) -> io::Result<(OwnedFd, &'p str)> {
        let (above, name) = disk::split(place);
        let mut parent = self.directory.try_clone()?;
        for part in above.split('/').filter(|part| !part.is_empty()) {
            parent = subdirectory(&parent, part)?;
        }
        Ok((parent, name))
    }

    /// Makes the next run measure the cache again.
    pub fn count_again(self) {
        self.workspace.caches().remove(&self.name);
    }
}

impl Drop for Cache<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.workspace.caches().get_mut(&self.name) {
            known.fresh = known.fresh.saturating_sub(self.begun.elapsed());
        }
    }
}

impl Workspace {
    /// Returns the directory in which programs can cache results between runs; creates it if it is
    /// missing. `name` identifies the cache. Recovery, undo and pruning of the history do not touch
    /// it.
    ///
    /// # Errors
    /// A name with other characters than lower-case letters, digits, `-` and `_`; a workspace that
    /// can't be written, or something else under that name.
    pub fn cache_directory(&self, name: &str) -> io::Result<PathBuf> {
        let is_allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name:?} can't name a cache: lower-case letters, digits, '-' and '_' do"),
            ));
        }
        own::directory(&own::directory(&self.own()?, CACHE)?, name)?;
        Ok(self.path_of_cache(name))
    }

    /// Returns the path of the directory that [`Workspace::cache_directory`] creates.
    pub fn path_of_cache(&self, name: &str) -> PathBuf {
        self.path().join(OWN).join(CACHE).join(name)
    }

    /// Returns a cache for one run. If it holds more than three quarters of `most` bytes, evicts the
    /// least recently used entries until it holds at most half.
    ///
    /// # Errors
    /// Those of [`Workspace::cache_directory`]; a cache in which another process evicts entries for
    /// too long.
    pub fn cache(&self, name: &str, most: u64) -> io::Result<Cache<'_>> {
        let path = self.cache_directory(name)?;
        let caches = own::directory(&self.own()?, CACHE)?;
        let directory = own::directory(&caches, name)?;
        let lock = lock(&caches, name)?;
        let known = self.caches().get(name).copied();
        let mut known: CacheUsage = known.unwrap_or_default();
        if known.fresh.is_zero() {
            let begun = Instant::now();
            let most = Usage { bytes: most, entries: ENTRIES, ..Usage::MAX };
            known.usage = self.evict(name, &directory, &lock, most)?;
            known.fresh = begun.elapsed() * FRESH_FACTOR;
            self.caches().insert(name.to_owned(), known);
        }
        lock_shared(&lock)?;
        let (name, usage) = (name.to_owned(), known.usage);
        let begun = Instant::now();
        Ok(Cache { workspace: self, name, path, usage, begun, directory, _lock: lock })
    }

    /// Opens the directory of a cache and keeps its entries from eviction; the second handle is the
    /// lock.
    pub(crate) fn hold_cache(&self, name: &str) -> io::Result<(OwnedFd, OwnedFd)> {
        self.cache_directory(name)?;
        let caches = own::directory(&self.own()?, CACHE)?;
        let (directory, lock) = (own::directory(&caches, name)?, lock(&caches, name)?);
        lock_shared(&lock)?;
        Ok((directory, lock))
    }

    /// Evicts the least recently used entries, if the cache is too large and no run uses it. Returns
    /// the usage after that.
    fn evict(
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
            // Other runs use it; the sandbox enforces the limit on them as well.
            Err(Errno::WOULDBLOCK) => return Ok(found),
            locked => locked?,
        }
        let mut entries = entries(directory)?;
        let sum = |left: Usage, entry: &CacheEntry| Usage {
            bytes: left.bytes.saturating_add(entry.usage.bytes),
            entries: left.entries.saturating_add(entry.usage.entries).saturating_add(1),
            used: left.used.max(entry.usage.used),
        };
        entries.sort_by_key(|entry| entry.usage.used);
        // The entries are moved here, and removed when it is dropped.
        let run = RunDir::in_workspace(self)?;
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
        tracing::info!("{gone} entries of the cache of '{name}' were evicted");
        Ok(left)
    }
}

/// Opens a directory in a cache; creates it, also in place of something else.
fn subdirectory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(parent, name, flags, Mode::empty());
    match open() {
        Ok(directory) => return Ok(directory),
        Err(Errno::NOENT) => {}
        Err(_) => disk::remove_all(parent, name)?,
    }
    match rustix::fs::mkdirat(parent, name, disk::permissions(disk::DEFAULT_MODE)) {
        // Another run has created it meanwhile.
        Err(Errno::EXIST) | Ok(()) => Ok(open()?),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file or link under a new name, and moves it to `name`.
fn replace(
    parent: &OwnedFd,
    name: &str,
    create: impl FnOnce(&str) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = uuid::Uuid::now_v7().to_string();
    create(&fresh)?;
    match disk::rename(parent, &*fresh, parent, name) {
        Err(_) => {
            // A directory can't be replaced.
            disk::remove_all(parent, name)?;
            disk::rename(parent, &*fresh, parent, name)
        }
        renamed => renamed,
    }
}

/// Whether a regular file has exactly this content.
fn is_file_with(parent: &OwnedFd, name: &str, text: &[u8]) -> bool {
    let Ok(file) = disk::open(parent, name, OFlags::RDONLY) else { return false };
    let file = File::from(file);
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut present = Vec::new();
    let most = text.len() as u64 + 1;
    is_file && file.take(most).read_to_end(&mut present).is_ok() && present == text
}

/// An entry at the top of a cache.
struct CacheEntry {
    name: std::ffi::OsString,
    usage: Usage,
}

/// Returns the entries at the top of a cache that no run uses.
fn entries(directory: &OwnedFd) -> io::Result<Vec<CacheEntry>> {
    let mut found = Vec::new();
    for entry in disk::entries(directory)? {
        let name = entry?.name;
        let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let usage = if disk::file_type(&stat) == FileType::Directory {
            // Only a directory that its owner may write can be moved.
            rustix::fs::chmodat(directory, &name, Mode::RWXU, AtFlags::empty())?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = rustix::fs::openat(directory, &name, flags, Mode::empty())?;
            usage(below, Usage::MAX)?
        } else {
            Usage::of(&stat)
        };
        found.push(CacheEntry { name, usage });
    }
    Ok(found)
}

/// Opens the lock file of a cache, which programs can't access.
fn lock(caches: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = format!("{name}.lock");
    let open = || disk::open(caches.as_fd(), &name, OFlags::RDONLY);
    let create = || disk::create(caches.as_fd(), &name).map(drop);
    own::open_or_create(&name, open, create)
}

/// Locks a cache, shared with other runs.
fn lock_shared(lock: &OwnedFd) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(RETRY),
            Err(Errno::WOULDBLOCK) => {
                let seconds = TIMEOUT.as_secs();
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;
    use crate::tests::open;

    const MAX_BYTES: u64 = 1 << 20;

    /// Creates an entry of a cache, with a file that was used at a time.
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
    fn the_least_recently_used_entries_are_evicted() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let path = open(&root).cache("p", MAX_BYTES).unwrap().path().to_owned();
        for (entry, used) in [("a", 300), ("b", 100), ("c", 200)] {
            fill(&path, entry, 240_000, used);
        }
        // Below three quarters, nothing is evicted.
        assert_eq!(open(&root).cache("p", MAX_BYTES).unwrap().usage().bytes, 720_000);
        fill(&path, "d", 240_000, 150);
        fs::set_permissions(path.join("b"), fs::Permissions::from_mode(0o000)).unwrap();
        // A run uses it; in another process, it would hold the same lock.
        let other = open(&root);
        let user = other.cache("p", u64::MAX).unwrap();
        assert!(open(&root).cache("p", MAX_BYTES).unwrap().usage().bytes > 720_000);
        assert_eq!(names(&path), ["a", "b", "c", "d"]);
        drop(user);
        assert_eq!(open(&root).cache("p", MAX_BYTES).unwrap().usage().bytes, 480_000);
        assert_eq!(names(&path), ["a", "c"]);
        assert_eq!(names(&root.join(".cofferdam/runs")), [""; 0]);
    }

    #[test]
    fn links_and_files_replace_what_programs_put_there() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let outside = root.join("outside");
        fs::create_dir_all(outside.join("kept")).unwrap();
        fs::write(outside.join("file"), "as it was").unwrap();
        fs::create_dir(root.join("workspace")).unwrap();
        let workspace = open(&root.join("workspace"));
        let cache = workspace.cache("p", MAX_BYTES).unwrap();
        let at = |name: &str| cache.path().join(name);
        let check = || {
            for _ in 0..2 {
                cache.link("home/registry/index", &outside.join("kept")).unwrap();
                cache.write("home/config", b"text").unwrap();
            }
            assert_eq!(fs::read_link(at("home/registry/index")).unwrap(), outside.join("kept"));
            assert_eq!(fs::read_to_string(at("home/config")).unwrap(), "text");
            assert!(!at("home/config").is_symlink() && !at("home/registry").is_symlink());
        };
        check();
        // Directories and files become links that lead out of the cache, and others.
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        fs::remove_dir_all(at("home")).unwrap();
        link(&outside, "home");
        check();
        fs::remove_file(at("home/config")).unwrap();
        link(&outside.join("file"), "home/config");
        check();
        fs::remove_file(at("home/registry/index")).unwrap();
        fs::create_dir_all(at("home/registry/index/deep")).unwrap();
        fs::remove_file(at("home/config")).unwrap();
        fs::create_dir(at("home/config")).unwrap();
        check();
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "as it was");
        assert_eq!(names(&outside), ["file", "kept"]);
        assert_eq!(names(&cache.path().join("home")), ["config", "registry"]);
    }

    #[test]
    fn a_cache_is_not_measured_before_each_run() {
        let place = tempfile::tempdir().unwrap();
        let workspace = open(&place.path().canonicalize().unwrap());
        let path = workspace.cache("p", MAX_BYTES).unwrap().path().to_owned();
        workspace.caches().get_mut("p").unwrap().fresh = Duration::from_secs(3600);
        fill(&path, "a", 2_000_000, 100);
        assert_eq!(workspace.cache("p", MAX_BYTES).unwrap().usage().bytes, 0);
        workspace.caches().get_mut("p").unwrap().fresh = Duration::ZERO;
        workspace.cache("p", MAX_BYTES).unwrap();
        assert_eq!(names(&path), [""; 0]);
    }
}
