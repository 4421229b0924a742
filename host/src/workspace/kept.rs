//! What the host keeps in its own directory for plugins, so that it need not be made or fetched
//! again. Neither tools nor programs see it, and removing it is always safe.
//!
//! A file is the time at which it was written, a tag, and what is kept. What the host has not
//! written under this name is thrown away: nothing here is synced to the disk, and others may have
//! written there.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::seal::TAG;
use super::{Key, OWN, Workspace, disk, own};
use rustix::fs::{AtFlags, OFlags};

/// The length of a file's time, in bytes: milliseconds since the epoch.
const TIME: usize = 8;

/// One sort of things that are kept, and how much of it for each plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shelf {
    /// Its directory in the host's own.
    directory: &'static str,
    /// How many things there are at most. Beyond that, the oldest go.
    most: usize,
    /// How large one of them may be, in bytes.
    size: u64,
    /// How large all of them may be, in bytes.
    total: u64,
}

impl Shelf {
    /// Answers of servers.
    pub(crate) const ANSWERS: Self =
        Self { directory: "kept", most: 256, size: 5 << 20, total: 256 << 20 };

    /// What plugins keep themselves.
    pub(crate) const CACHE: Self =
        Self { directory: "cached", most: 512, size: 16 << 20, total: 256 << 20 };

    /// Long output of programs, all of it together.
    pub(super) const OUTPUT: Self =
        Self { directory: "output", most: 64, size: 256 << 20, total: 512 << 20 };

    /// What authenticates [`Shelf::OUTPUT`]: a file for each stream.
    pub(super) const SEALS: Self =
        Self { directory: "output-seals", size: 16 << 20, ..Self::OUTPUT };

    /// How large one thing may be, in bytes.
    pub(crate) fn size(self) -> u64 {
        self.size
    }

    /// Its directory in the host's own.
    pub(super) fn directory(self) -> &'static str {
        self.directory
    }

    /// How many things there are at most.
    #[cfg(test)]
    pub(super) fn most(self) -> usize {
        self.most
    }
}

impl Workspace {
    /// What is kept for a plugin under a name, and how old it is.
    ///
    /// # Errors
    /// What there is can't be read.
    pub(crate) fn kept(
        &self,
        shelf: Shelf,
        plugin: &str,
        name: &str,
    ) -> io::Result<Option<(Vec<u8>, Duration)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(kept) = own::existing_directory(&own, shelf.directory)? else { return Ok(None) };
        let Some(directory) = own::existing_directory(&kept, plugin)? else { return Ok(None) };
        let file: std::fs::File = match disk::open(&directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        let about = file.metadata()?;
        let most = shelf.size + (TIME + TAG) as u64;
        let mut bytes = Vec::new();
        if about.is_file() && about.len() <= most {
            file.take(most).read_to_end(&mut bytes)?;
        }
        let Some(written) = unseal(own.key(), shelf, (plugin, name), &mut bytes) else {
            tracing::warn!(
                "{OWN}/{}/{plugin}/{name} is not what this host has written there; it is removed \
                 and made anew",
                shelf.directory
            );
            disk::remove_all(&directory, name)?;
            return Ok(None);
        };
        // A process that puts an older file back can change the file's time, and not the one in it. What is
        // from the future has no age that could be compared.
        let age = |time: SystemTime| SystemTime::now().duration_since(time).ok();
        let ages = age(about.modified()?).zip(age(written));
        Ok(ages.map(|(one, other)| (bytes, one.max(other))))
    }

    /// Keeps something for a plugin under a name, in place of what was there. The oldest things
    /// make room for it.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn keep(
        &self,
        shelf: Shelf,
        plugin: &str,
        name: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let own = self.own()?;
        let directory = own.subdirectory(shelf.directory, plugin)?;
        make_room(&directory, shelf, name, bytes.len() as u64)?;
        // Others, in this process or in another one, may keep the same at the same time.
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let fresh = format!("{name}.{}.{number}", std::process::id());
        let head = seal(own.key(), shelf, (plugin, name), (SystemTime::now(), bytes));
        let written = write(&directory, &fresh, [&head, bytes])
            .and_then(|()| disk::rename(&directory, &fresh, &directory, name));
        if written.is_err() {
            disk::remove(&directory, &fresh, AtFlags::empty())?;
        }
        written
    }
}

/// Removes the oldest things, until `size` bytes under `name` fit beside the others.
pub(super) fn make_room(
    directory: &OwnedFd,
    shelf: Shelf,
    name: &str,
    size: u64,
) -> io::Result<()> {
    let mut others = Vec::new();
    for entry in disk::entries(directory)? {
        let other = entry?.name;
        let Some(other) = other.to_str().filter(|other| *other != name) else { continue };
        // Somebody else may have removed it.
        let Some(stat) = disk::look(directory, other)? else { continue };
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        others.push(((stat.st_mtime, stat.st_mtime_nsec), other.to_owned(), bytes));
    }
    others.sort_unstable();
    let mut left = others.len();
    let mut total = others.iter().map(|(_, _, bytes)| bytes).sum::<u64>() + size;
    for (_, other, bytes) in &others {
        if left < shelf.most && total <= shelf.total {
            break;
        }
        disk::remove_all(directory, other)?;
        left -= 1;
        total -= bytes;
    }
    Ok(())
}

pub(super) fn write(directory: &OwnedFd, name: &str, parts: [&[u8]; 2]) -> io::Result<()> {
    // One that a dead process left.
    disk::remove(directory, name, AtFlags::empty())?;
    let mut file = disk::create(directory, name)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// What comes before the content of a file: when it is written, and the tag of both.
fn seal(key: &Key, shelf: Shelf, of: (&str, &str), (now, content): (SystemTime, &[u8])) -> Vec<u8> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(since.as_millis()).unwrap_or(0);
    let tag = key.seal(shelf.directory, &sealed_name(of, time), content);
    [&time.to_le_bytes()[..], &tag].concat()
}

/// Leaves only the content of a file, and returns when it was written. None where the host has not
/// written it.
fn unseal(key: &Key, shelf: Shelf, of: (&str, &str), bytes: &mut Vec<u8>) -> Option<SystemTime> {
    let (time, rest) = bytes.split_first_chunk::<TIME>()?;
    let (tag, content) = rest.split_first_chunk::<TAG>()?;
    let time = u64::from_le_bytes(*time);
    if !key.verify(shelf.directory, &sealed_name(of, time), content, tag) {
        return None;
    }
    bytes.drain(..TIME + TAG);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time))
}

/// The name that a tag is for: whose it is, its own, and the time.
fn sealed_name((plugin, name): (&str, &str), time: u64) -> String {
    format!("{plugin}/{name}/{time}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::workspace::Secret;

    const SHELF: Shelf = Shelf::ANSWERS;

    #[test]
    fn what_is_kept_comes_back_with_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        assert!(workspace.kept(SHELF, "p", "a").unwrap().is_none());
        workspace.keep(SHELF, "p", "a", b"one").unwrap();
        workspace.keep(SHELF, "p", "a", b"two").unwrap();
        let (bytes, age) = workspace.kept(SHELF, "p", "a").unwrap().unwrap();
        assert_eq!(bytes, b"two");
        assert!(age < Duration::from_secs(60), "{age:?}");
        assert!(workspace.kept(SHELF, "q", "a").unwrap().is_none());
        assert!(workspace.kept(SHELF, "p", "b").unwrap().is_none());
        assert!(workspace.kept(Shelf::CACHE, "p", "a").unwrap().is_none());
        let file = directory.path().join(".cofferdam/kept/p/a");
        let later = SystemTime::now() + Duration::from_secs(3600);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
        assert!(workspace.kept(SHELF, "p", "a").unwrap().is_none());
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(workspace.kept(SHELF, "p", "a").is_err());
    }

    #[test]
    fn what_is_damaged_is_thrown_away() {
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
            workspace.keep(SHELF, "p", "a", b"an index of some length").unwrap();
            let mut bytes = std::fs::read(&file).unwrap();
            damage(&mut bytes);
            std::fs::write(&file, bytes).unwrap();
            assert!(workspace.kept(SHELF, "p", "a").unwrap().is_none());
            assert!(!file.exists());
        }
        workspace.keep(SHELF, "p", "a", b"").unwrap();
        assert_eq!(workspace.kept(SHELF, "p", "a").unwrap().unwrap().0, b"");
    }

    /// What was kept elsewhere is not authentic here, and an older answer stays old.
    #[test]
    fn what_is_put_there_again_does_not_pass_for_something_else() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |directory: &tempfile::TempDir| {
            Workspace::open(directory.path(), Secret::OfProcess).unwrap()
        };
        let (workspace, other) = (open(&here), open(&there));
        let file = |at: &tempfile::TempDir, name: &str| at.path().join(".cofferdam").join(name);
        workspace.keep(SHELF, "p", "a", b"mine").unwrap();
        other.keep(SHELF, "p", "a", b"theirs").unwrap();
        let put = |from: std::path::PathBuf, plugin: &str, name: &str| {
            let to = file(&here, "kept").join(plugin);
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(from, to.join(name)).unwrap();
            workspace.kept(SHELF, plugin, name).unwrap()
        };
        assert!(put(file(&here, "kept/p/a"), "p", "b").is_none());
        assert!(put(file(&here, "kept/p/a"), "q", "a").is_none());
        assert!(put(file(&there, "kept/p/a"), "p", "a").is_none());
        workspace.keep(Shelf::CACHE, "p", "a", b"mine").unwrap();
        assert!(put(file(&here, "cached/p/a"), "p", "a").is_none());

        let hour = Duration::from_secs(3600);
        let own = workspace.own().unwrap();
        let older = SystemTime::now() - hour;
        let head = seal(own.key(), SHELF, ("p", "a"), (older, b"older"));
        let again = here.path().join("again");
        std::fs::write(&again, [&head[..], b"older"].concat()).unwrap();
        let (bytes, age) = put(again, "p", "a").unwrap();
        assert!(bytes == b"older" && age >= hour, "{age:?}");
    }

    #[test]
    fn the_oldest_things_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let shelf = Shelf { directory: "kept", most: 4, size: 1 << 20, total: 1000 };
        let kept = |names: &str| {
            let there =
                |name: &char| workspace.kept(shelf, "p", &name.to_string()).unwrap().is_some();
            names.chars().filter(there).collect::<String>()
        };
        let mut seconds = 1_000_000_000;
        let mut keep = |name: &str, size: usize| {
            workspace.keep(shelf, "p", name, &vec![b'x'; size]).unwrap();
            let file = directory.path().join(".cofferdam/kept/p").join(name);
            let file = std::fs::File::options().write(true).open(file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            seconds += 1;
        };
        for name in ["a", "b", "c", "d", "e"] {
            keep(name, 10);
        }
        assert_eq!(kept("abcde"), "bcde");
        // In its own place, a thing needs no room.
        keep("b", 11);
        assert_eq!(kept("abcde"), "bcde");
        keep("f", 840);
        assert_eq!(kept("abcdef"), "bdef");
    }

    #[test]
    fn many_can_keep_the_same_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        let value = |n: u8| vec![n; 100_000];
        workspace.keep(SHELF, "p", "a", &value(0)).unwrap();
        std::thread::scope(|scope| {
            for n in 1..=8 {
                let workspace = &workspace;
                scope.spawn(move || {
                    for _ in 0..20 {
                        workspace.keep(SHELF, "p", "a", &value(n)).unwrap();
                        let (bytes, _) = workspace.kept(SHELF, "p", "a").unwrap().unwrap();
                        assert_eq!(bytes, value(bytes[0]));
                    }
                });
            }
        });
        let left = std::fs::read_dir(directory.path().join(".cofferdam/kept/p")).unwrap().count();
        assert_eq!(left, 1);
    }
}
