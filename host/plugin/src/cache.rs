//! Compiled code on disk. It runs with the rights of the host, so only the host may write it: it is
//! in a directory that only the user may enter, named by what it was compiled from, and
//! authenticated with a key that only the user can read. Anything that does not match is compiled
//! again.
#![expect(
    clippy::disallowed_methods,
    reason = "the cache is a directory of the user, outside of any workspace"
)]

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cofferdam_workspace::private::{self, KEY};

/// The file extension of compiled code.
const EXTENSION: &str = "cwasm";

/// The length of the authentication code at the end of a file, in bytes: BLAKE3 with a key. A host reads the code
/// of each plugin that it calls, and BLAKE3 takes half of SHA-256's time (1.3 against 2.5 ms for 4 MiB).
const MAC_BYTES: usize = blake3::OUT_LEN;

/// A directory with compiled code.
pub struct CodeCache {
    directory: PathBuf,
    key: [u8; KEY],
}

impl CodeCache {
    /// Opens the cache, creating its directory and key if they are missing.
    ///
    /// # Errors
    /// Returns an error if the directory can't be created, or if other users may enter it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let key = private::key(directory)?;
        Ok(Self { directory: directory.to_owned(), key })
    }

    /// Returns the file with the compiled code of `component` for an engine with `settings`. Calls
    /// `compile` if it is missing or not authentic.
    ///
    /// # Errors
    /// Returns the error of `compile`, or an I/O error if the cache can't be written.
    pub fn get<E: From<io::Error>>(
        &self,
        component: &[u8],
        settings: &str,
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<PathBuf, E> {
        let mut parts = blake3::Hasher::new();
        parts.update(settings.as_bytes()).update(&[0]).update(component);
        let name = parts.finalize().to_hex();
        let path = self.directory.join(format!("{name}.{EXTENSION}"));
        if self.is_authentic(&name, &path).unwrap_or_default() {
            return Ok(path);
        }
        let code = compile()?;
        let mac = self.mac(&name, &code);
        private::write(&self.directory, &path, &[&code, mac.as_bytes()])?;
        Ok(path)
    }

    /// The files with compiled code, with their sizes in bytes.
    ///
    /// # Errors
    /// Returns an error if the directory can't be read.
    pub fn files(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                // It may have been removed in the meantime.
                if let Ok(metadata) = fs::metadata(&path) {
                    files.push((path, metadata.len()));
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Removes all compiled code, which is compiled again when it is needed; running hosts keep
    /// what they have loaded. Returns what was removed, like [`files`](Self::files).
    ///
    /// # Errors
    /// Returns an error if a file can't be removed.
    pub fn clear(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let files = self.files()?;
        for (path, _) in &files {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(files)
    }

    /// Whether a file ends with the authentication code of what is before it. It is read in pieces: memory for all
    /// of it would be 800 more page faults for a plugin such as `files`.
    fn is_authentic(&self, name: &str, path: &Path) -> io::Result<bool> {
        let mut file = fs::File::open(path)?;
        let Some(length) = file.metadata()?.len().checked_sub(MAC_BYTES as u64) else {
            return Ok(false);
        };
        let mut hasher = self.hasher(name);
        hasher.update_reader(file.by_ref().take(length))?;
        let mut mac = [0; MAC_BYTES];
        file.read_exact(&mut mac)?;
        // Compared in constant time.
        Ok(hasher.finalize() == blake3::Hash::from_bytes(mac))
    }

    fn mac(&self, name: &str, code: &[u8]) -> blake3::Hash {
        self.hasher(name).update(code).finalize()
    }

    fn hasher(&self, name: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(name.as_bytes());
        hasher
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::cell::Cell;

    #[test]
    fn code_is_compiled_once_and_again_after_changes() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(&directory.path().join("cache")).unwrap();
        let made = Cell::new(0);
        let get = |cache: &CodeCache, settings| {
            cache
                .get::<io::Error>(b"component", settings, || {
                    made.set(made.get() + 1);
                    Ok(b"code".to_vec())
                })
                .unwrap()
        };
        let path = get(&cache, "a");
        get(&CodeCache::open(&directory.path().join("cache")).unwrap(), "a");
        assert_eq!(made.get(), 1);

        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        get(&cache, "a");
        assert_eq!(made.get(), 2);

        // Authentic, but in the place of another file.
        let other = get(&cache, "b");
        assert_eq!(made.get(), 3);
        fs::copy(&other, &path).unwrap();
        get(&cache, "a");
        assert_eq!(made.get(), 4);

        let files = cache.files().unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(cache.clear().unwrap(), files);
        assert_eq!(cache.files().unwrap(), []);
        // The key is kept: an attacker who has it could authenticate code from now on.
        get(&cache, "a");
        get(&CodeCache::open(&directory.path().join("cache")).unwrap(), "a");
        assert_eq!(made.get(), 5);

        // Cut off, once within the authentication code.
        for length in [bytes.len() - 1, 3] {
            fs::write(&path, &bytes[..length]).unwrap();
            get(&cache, "a");
        }
        assert_eq!(made.get(), 7);
    }
}
