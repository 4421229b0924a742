//! What the host keeps in its own directory for plugins, so that it need not be fetched again.
//! Neither tools nor programs see it, and removing it is always safe.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, OFlags};

use super::{Workspace, disk, own};

/// Where it is, in the host's own directory.
const KEPT: &str = "kept";

/// How many things are kept for a plugin. Beyond that, keeping begins anew.
const MOST: usize = 256;

/// How large one of them may be, in bytes.
const SIZE: u64 = 5 << 20;

impl Workspace {
    /// What is kept for a plugin under a name, and how old it is.
    ///
    /// # Errors
    /// What there is can't be read.
    pub(crate) fn kept(&self, plugin: &str, name: &str) -> io::Result<Option<(Vec<u8>, Duration)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(kept) = own::existing_directory(&own, KEPT)? else { return Ok(None) };
        let Some(directory) = own::existing_directory(&kept, plugin)? else { return Ok(None) };
        let file: std::fs::File = match disk::open(&directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.into(),
        };
        let about = file.metadata()?;
        // What is from the future has no age that could be compared.
        let Ok(age) = SystemTime::now().duration_since(about.modified()?) else { return Ok(None) };
        if !about.is_file() || about.len() > SIZE {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(SIZE).read_to_end(&mut bytes)?;
        Ok(Some((bytes, age)))
    }

    /// Keeps something for a plugin under a name, in place of what was there.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn keep(&self, plugin: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let directory = own::directory(&own::directory(&self.own()?, KEPT)?, plugin)?;
        if disk::entries(&directory)?.count() >= MOST {
            disk::remove_all_in(std::os::fd::AsFd::as_fd(&directory))?;
        }
        let fresh = format!("{name}.{}", std::process::id());
        let written = write(&directory, &fresh, bytes)
            .and_then(|()| disk::rename(&directory, &fresh, &directory, name));
        if written.is_err() {
            disk::remove(&directory, &fresh, AtFlags::empty())?;
        }
        written
    }
}

fn write(directory: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    // One that a dead process left.
    disk::remove(directory, name, AtFlags::empty())?;
    disk::create(directory, name)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_kept_comes_back_with_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        assert!(workspace.kept("p", "a").unwrap().is_none());
        workspace.keep("p", "a", b"one").unwrap();
        workspace.keep("p", "a", b"two").unwrap();
        let (bytes, age) = workspace.kept("p", "a").unwrap().unwrap();
        assert_eq!(bytes, b"two");
        assert!(age < Duration::from_secs(60), "{age:?}");
        assert!(workspace.kept("q", "a").unwrap().is_none());
        assert!(workspace.kept("p", "b").unwrap().is_none());
        let file = directory.path().join(".cofferdam/kept/p/a");
        let later = SystemTime::now() + Duration::from_secs(3600);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
        assert!(workspace.kept("p", "a").unwrap().is_none());
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(workspace.kept("p", "a").is_err());
    }

    #[test]
    fn not_everything_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        for n in 0..=MOST {
            workspace.keep("p", &format!("{n}"), b"x").unwrap();
        }
        let count = std::fs::read_dir(directory.path().join(".cofferdam/kept/p")).unwrap().count();
        assert_eq!(count, 1);
    }
}
