//! Caches for plugins in the host's own directory: HTTP responses and computed results. Neither
//! tools nor programs see them, and removing them is always safe.
//!
//! A file consists of the time at which it was written, a tag, and the content. A file whose tag
//! does not match is removed: files are not synced to the disk, and other programs may have written
//! to the directory.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, OFlags};

use crate::seal::{Key, TAG};
use crate::workspace::Workspace;
use crate::{disk, own};

/// The length of the time in a file, in bytes: milliseconds since the epoch.
const TIME_BYTES: usize = 8;

/// A kind of cache and its limits, which apply to each plugin.
#[derive(Debug, Clone, Copy)]
pub struct CacheKind {
    /// The directory in the host's own directory.
    directory: &'static str,
    /// The largest number of files. Beyond it, the oldest are removed.
    max_files: usize,
    /// The largest size of a file, in bytes.
    max_file_bytes: u64,
    /// The largest size of all files, in bytes.
    max_total_bytes: u64,
}

impl CacheKind {
    /// HTTP responses of servers.
    pub const RESPONSES: Self = Self {
        directory: "kept",
        max_files: 256,
        max_file_bytes: 5 << 20,
        max_total_bytes: 256 << 20,
    };

    /// Values that plugins store themselves.
    pub const VALUES: Self = Self {
        directory: "cached",
        max_files: 512,
        max_file_bytes: 16 << 20,
        max_total_bytes: 256 << 20,
    };

    /// Long output of programs, of all plugins together.
    pub(crate) const OUTPUT: Self = Self {
        directory: "output",
        max_files: 64,
        max_file_bytes: 256 << 20,
        max_total_bytes: 512 << 20,
    };

    /// The files that authenticate [`CacheKind::OUTPUT`], one for each stream.
    pub(crate) const SEALS: Self =
        Self { directory: "output-seals", max_file_bytes: 16 << 20, ..Self::OUTPUT };

    /// The largest size of a file, in bytes.
    pub fn max_file_bytes(self) -> u64 {
        self.max_file_bytes
    }

    /// The name of the directory in the host's own directory.
    pub(crate) fn directory(self) -> &'static str {
        self.directory
    }

    /// The largest number of files.
    #[cfg(test)]
    pub(crate) fn max_files(self) -> usize {
        self.max_files
    }
}

impl Workspace {
    /// Returns the cached value of a plugin under a name, and its age.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn cached(
        &self,
        kind: CacheKind,
        plugin: &str,
        name: &str,
    ) -> io::Result<Option<(Vec<u8>, Duration)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(kept) = own::existing_directory(&own, kind.directory)? else { return Ok(None) };
        let Some(directory) = own::existing_directory(&kept, plugin)? else { return Ok(None) };
        let file: std::fs::File = match disk::open(&directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        let about = file.metadata()?;
        let max_bytes = kind.max_file_bytes + (TIME_BYTES + TAG) as u64;
        let mut bytes = Vec::new();
        if about.is_file() && about.len() <= max_bytes {
            file.take(max_bytes).read_to_end(&mut bytes)?;
        }
        let Some(written) = unseal(own.key(), kind, (plugin, name), &mut bytes) else {
            tracing::warn!(
                "{OWN}/{}/{plugin}/{name} is not what this host has written there; it is removed \
                 and made anew",
                kind.directory
            );
            disk::remove_all(&directory, name)?;
            return Ok(None);
        };
        // A process that puts an older file back can change the file's time, but not the one in it.
        // A time in the future has no age.
        let age = |time: SystemTime| SystemTime::now().duration_since(time).ok();
        let ages = age(about.modified()?).zip(age(written));
        Ok(ages.map(|(one, other)| (bytes, one.max(other))))
    }

    /// Stores a value of a plugin under a name; replaces an existing one. Removes the oldest values if
    /// a limit is exceeded.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn store_cached(
        &self,
        kind: CacheKind,
        plugin: &str,
        name: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let own = self.own()?;
        let directory = own::directory(own::directory(&own, kind.directory)?, plugin)?;
        make_room(&directory, kind, name, bytes.len() as u64)?;
        // Other threads and processes may store the same name at the same time.
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let fresh = format!("{name}.{}.{number}", std::process::id());
        let head = seal(own.key(), kind, (plugin, name), (SystemTime::now(), bytes));
        let written = write(&directory, &fresh, [&head, bytes])
            .and_then(|()| disk::rename(&directory, &fresh, &directory, name));
        if written.is_err() {
            disk::remove(&directory, &fresh, AtFlags::empty())?;
        }
        written
    }
}

/// Removes the oldest files, until `size` bytes under `name` fit beside the others.
pub(crate) fn make_room(
    directory: &OwnedFd,
    kind: CacheKind,
    name: &str,
    size: u64,
) -> io::Result<()> {
    let mut others = Vec::new();
    for entry in disk::entries(directory)? {
        let other = entry?.name;
        let Some(other) = other.to_str().filter(|other| *other != name) else { continue };
        // Another process may have removed it.
        let Some(stat) = disk::look(directory, other)? else { continue };
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        others.push(((stat.st_mtime, stat.st_mtime_nsec), other.to_owned(), bytes));
    }
    others.sort_unstable();
    let mut left = others.len();
    let mut total = others.iter().map(|(_, _, bytes)| bytes).sum::<u64>() + size;
    for (_, other, bytes) in &others {
        if left < kind.max_files && total <= kind.max_total_bytes {
            break;
        }
        disk::remove_all(directory, other)?;
        left -= 1;
        total -= bytes;
    }
    Ok(())
}

fn write(directory: &OwnedFd, name: &str, parts: [&[u8]; 2]) -> io::Result<()> {
    // A process that died may have left one.
    disk::remove(directory, name, AtFlags::empty())?;
    let mut file = disk::create(directory, name)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// Returns what a file begins with: the time, and the tag of time and content.
fn seal(
    key: &Key,
    kind: CacheKind,
    of: (&str, &str),
    (now, content): (SystemTime, &[u8]),
) -> Vec<u8> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(since.as_millis()).unwrap_or(0);
    let tag = key.seal(kind.directory, &sealed_name(of, time), content);
    [&time.to_le_bytes()[..], &tag].concat()
}

/// Removes everything but the content, and returns when the file was written. Returns `None` if the
/// host has not written it.
fn unseal(key: &Key, kind: CacheKind, of: (&str, &str), bytes: &mut Vec<u8>) -> Option<SystemTime> {
    let (time, rest) = bytes.split_first_chunk::<TIME_BYTES>()?;
    let (tag, content) = rest.split_first_chunk::<TAG>()?;
    let time = u64::from_le_bytes(*time);
    if !key.verify(kind.directory, &sealed_name(of, time), content, tag) {
        return None;
    }
    bytes.drain(..TIME_BYTES + TAG);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time))
}

/// Returns the name in the tag: plugin, name and time.
fn sealed_name((plugin, name): (&str, &str), time: u64) -> String {
    format!("{plugin}/{name}/{time}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::Secret;

    const KIND: CacheKind = CacheKind::RESPONSES;

    #[test]
    fn a_value_is_returned_with_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        assert!(workspace.cached(KIND, "p", "a").unwrap().is_none());
        workspace.store_cached(KIND, "p", "a", b"one").unwrap();
        workspace.store_cached(KIND, "p", "a", b"two").unwrap();
        let (bytes, age) = workspace.cached(KIND, "p", "a").unwrap().unwrap();
        assert_eq!(bytes, b"two");
        assert!(age < Duration::from_secs(60), "{age:?}");
        assert!(workspace.cached(KIND, "q", "a").unwrap().is_none());
        assert!(workspace.cached(KIND, "p", "b").unwrap().is_none());
        assert!(workspace.cached(CacheKind::VALUES, "p", "a").unwrap().is_none());
        let file = directory.path().join(".cofferdam/kept/p/a");
        let later = SystemTime::now() + Duration::from_secs(3600);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
        assert!(workspace.cached(KIND, "p", "a").unwrap().is_none());
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(workspace.cached(KIND, "p", "a").is_err());
    }

    #[test]
    fn a_damaged_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let file = directory.path().join(".cofferdam/kept/p/a");
        for damage in [
            |bytes: &mut Vec<u8>| bytes.truncate(40),
            |bytes: &mut Vec<u8>| bytes.truncate(3),
            |bytes: &mut Vec<u8>| bytes.clear(),
            |bytes: &mut Vec<u8>| bytes[0] ^= 1,
            |bytes: &mut Vec<u8>| bytes[33] ^= 1,
            |bytes: &mut Vec<u8>| bytes[50] ^= 1,
            |bytes: &mut Vec<u8>| bytes.push(0),
        ] {
            workspace.store_cached(KIND, "p", "a", b"an index of some length").unwrap();
            let mut bytes = std::fs::read(&file).unwrap();
            damage(&mut bytes);
            std::fs::write(&file, bytes).unwrap();
            assert!(workspace.cached(KIND, "p", "a").unwrap().is_none());
            assert!(!file.exists());
        }
        workspace.store_cached(KIND, "p", "a", b"").unwrap();
        assert_eq!(workspace.cached(KIND, "p", "a").unwrap().unwrap().0, b"");
    }

    /// A file from another workspace or name is not authentic, and an older file keeps its age.
    #[test]
    fn what_is_put_there_again_does_not_pass_for_something_else() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |directory: &tempfile::TempDir| {
            Workspace::open(directory.path(), Secret::OfProcess).unwrap()
        };
        let (workspace, other) = (open(&here), open(&there));
        let file = |at: &tempfile::TempDir, name: &str| at.path().join(".cofferdam").join(name);
        workspace.store_cached(KIND, "p", "a", b"mine").unwrap();
        other.store_cached(KIND, "p", "a", b"theirs").unwrap();
        let put = |from: std::path::PathBuf, plugin: &str, name: &str| {
            let to = file(&here, "kept").join(plugin);
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(from, to.join(name)).unwrap();
            workspace.cached(KIND, plugin, name).unwrap()
        };
        assert!(put(file(&here, "kept/p/a"), "p", "b").is_none());
        assert!(put(file(&here, "kept/p/a"), "q", "a").is_none());
        assert!(put(file(&there, "kept/p/a"), "p", "a").is_none());
        workspace.store_cached(CacheKind::VALUES, "p", "a", b"mine").unwrap();
        assert!(put(file(&here, "cached/p/a"), "p", "a").is_none());

        let hour = Duration::from_secs(3600);
        let own = workspace.own().unwrap();
        let older = SystemTime::now() - hour;
        let head = seal(own.key(), KIND, ("p", "a"), (older, b"older"));
        let again = here.path().join("again");
        std::fs::write(&again, [&head[..], b"older"].concat()).unwrap();
        let (bytes, age) = put(again, "p", "a").unwrap();
        assert!(bytes == b"older" && age >= hour, "{age:?}");
    }

    #[test]
    fn the_oldest_values_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let kind = CacheKind {
            directory: "kept",
            max_files: 4,
            max_file_bytes: 1 << 20,
            max_total_bytes: 1000,
        };
        let kept = |names: &str| {
            let there =
                |name: &char| workspace.cached(kind, "p", &name.to_string()).unwrap().is_some();
            names.chars().filter(there).collect::<String>()
        };
        let mut seconds = 1_000_000_000;
        let mut keep = |name: &str, size: usize| {
            workspace.store_cached(kind, "p", name, &vec![b'x'; size]).unwrap();
            let file = directory.path().join(".cofferdam/kept/p").join(name);
            let file = std::fs::File::options().write(true).open(file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            seconds += 1;
        };
        for name in ["a", "b", "c", "d", "e"] {
            keep(name, 10);
        }
        assert_eq!(kept("abcde"), "bcde");
        // Replacing a value needs no additional space.
        keep("b", 11);
        assert_eq!(kept("abcde"), "bcde");
        keep("f", 840);
        assert_eq!(kept("abcdef"), "bdef");
    }

    #[test]
    fn concurrent_writers_store_complete_values() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let value = |n: u8| vec![n; 100_000];
        workspace.store_cached(KIND, "p", "a", &value(0)).unwrap();
        std::thread::scope(|scope| {
            for n in 1..=8 {
                let workspace = &workspace;
                scope.spawn(move || {
                    for _ in 0..20 {
                        workspace.store_cached(KIND, "p", "a", &value(n)).unwrap();
                        let (bytes, _) = workspace.cached(KIND, "p", "a").unwrap().unwrap();
                        assert_eq!(bytes, value(bytes[0]));
                    }
                });
            }
        });
        let left = std::fs::read_dir(directory.path().join(".cofferdam/kept/p")).unwrap().count();
        assert_eq!(left, 1);
    }
}
