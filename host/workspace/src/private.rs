//! Files and directories of the user, outside of any workspace, that no other user can read.
#![expect(clippy::disallowed_methods, reason = "the user's own files are named by paths")]

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// The length of a key, in bytes.
pub const KEY: usize = 32;

/// Creates a directory that only the user may enter.
///
/// # Errors
/// A directory that can't be created, or that other users may enter.
#[cfg(unix)]
pub fn create_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let metadata = fs::metadata(directory)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{} must belong to you and be closed to others (chmod 700)",
            directory.display()
        )));
    }
    Ok(())
}

/// Writes a file that only the user can read, atomically.
///
/// # Errors
/// A directory that can't be written.
pub fn write(directory: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.persist(path)?;
    Ok(())
}

/// Returns the key in a directory; creates both if they are missing. Processes that create it at
/// the same time get the same key.
///
/// # Errors
/// A directory that can't be created or that other users may enter; a file that is not a key.
pub fn key(directory: &Path) -> io::Result<[u8; KEY]> {
    create_directory(directory)?;
    let path = directory.join("key");
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    let mut key = [0_u8; KEY];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&key)?;
    // Without this, a power cut could leave an empty file, which is never replaced.
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => read_key(&path)?.ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

fn read_key(path: &Path) -> io::Result<Option<[u8; KEY]>> {
    match fs::read(path) {
        Ok(bytes) => bytes.try_into().map(Some).map_err(|_| {
            io::Error::other(format!("{} is damaged: it has not {KEY} bytes", path.display()))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_directory_open_to_others_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(key(directory.path()).is_err());
    }

    #[test]
    fn concurrent_processes_get_the_same_key() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| key(&directory).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]) && keys[0] != [0; KEY]);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::write(directory.join("key"), "short").unwrap();
        assert!(key(&directory).unwrap_err().to_string().contains("damaged"));
    }
}
