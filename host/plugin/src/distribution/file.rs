//! Reads plugins from files.
#![expect(clippy::disallowed_methods, reason = "the user names the file")]

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{FetchError, Fetched};
use crate::registry::MAX_COMPONENT_BYTES;
use crate::signature;

/// Reads a plugin from a file, and the signature beside it.
pub fn fetch(path: &Path, workspace: &Path) -> Result<Fetched, FetchError> {
    let path = if path.is_relative() { within(path, workspace)? } else { path.to_owned() };
    let error = |path: &Path, source| FetchError::File { path: path.to_owned(), source };
    let bytes = read(&path, MAX_COMPONENT_BYTES).map_err(|source| error(&path, source))?;
    let bytes = bytes.ok_or_else(|| FetchError::TooLarge { place: path.display().to_string() })?;
    let mut beside = path.into_os_string();
    beside.push(signature::SUFFIX);
    let beside = PathBuf::from(beside);
    let signature = match read(&beside, signature::MAX_SIGNATURE_BYTES) {
        Ok(text) => Some(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()),
        Err(source) if source.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(error(&beside, source)),
    };
    Ok(Fetched { bytes, signature, manifest: None })
}

/// Resolves a path in the workspace; symbolic links may not lead out of it.
fn within(path: &Path, workspace: &Path) -> Result<PathBuf, FetchError> {
    let named = workspace.join(path);
    let error = |source| FetchError::File { path: named.clone(), source };
    let real = named.canonicalize().map_err(error)?;
    if real.starts_with(workspace) {
        return Ok(real);
    }
    Err(error(io::Error::other("it leads out of the workspace")))
}

/// Reads a regular file; returns `None` if it is larger than `most` bytes.
fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // Checked before opening, which would block on a FIFO.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}
