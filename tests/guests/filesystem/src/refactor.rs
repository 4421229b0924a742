//! An ordinary program: it walks, reads, writes and renames with the standard library, and stops in
//! the middle if there is an error.

use std::fs;
use std::io;
use std::path::Path;

/// Replaces a word in every file below `directory`, and in the files' names. Fails at a file that
/// is not text.
pub fn refactor(directory: &Path, from: &str, to: &str) -> io::Result<u32> {
    let mut changed = 0;
    let entries: io::Result<Vec<_>> = fs::read_dir(directory)?.collect();
    let mut entries = entries?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name() == ".cofferdam" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            changed += refactor(&path, from, to)?;
            continue;
        }
        let text = fs::read_to_string(&path)?;
        if text.contains(from) {
            fs::write(&path, text.replace(from, to))?;
            changed += 1;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(from) {
            fs::rename(&path, path.with_file_name(name.replace(from, to)))?;
        }
    }
    Ok(changed)
}
