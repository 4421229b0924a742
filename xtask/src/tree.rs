//! Directory trees: copies and comparisons, byte for byte, with links and what git keeps of modes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Directory,
    File {
        content: Vec<u8>,
        /// Whether the user may execute it.
        executable: bool,
    },
    /// The target of a symbolic link.
    Link(PathBuf),
}

/// All entries below a directory by their paths; `.git` and `.cofferdam` are left out everywhere.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// Reads all entries below `root`.
///
/// # Errors
/// I/O errors; the message names the path.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    walk(root, &mut |path, entry| {
        tree.insert(path.strip_prefix(root)?.to_owned(), entry);
        Ok(())
    })?;
    Ok(tree)
}

/// Copies all entries below `from` into the directory `to`, which is created.
///
/// # Errors
/// I/O errors; the message names the path.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    walk(from, &mut |path, entry| {
        let target = to.join(path.strip_prefix(from)?);
        let created = match entry {
            Entry::Directory => fs::create_dir(&target),
            Entry::File { .. } => fs::copy(path, &target).map(|_| ()),
            Entry::Link(destination) => symlink(destination, &target),
        };
        created.with_context(|| format!("creating {}", target.display()))
    })
}

/// The paths at which two trees differ.
pub fn differences(one: &Tree, other: &Tree) -> Vec<String> {
    let added = other.keys().filter(|path| !one.contains_key(*path));
    let changed = one.iter().filter(|(path, entry)| other.get(*path) != Some(entry));
    let mut paths: Vec<_> = added.chain(changed.map(|(path, _)| path)).collect();
    paths.sort();
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

fn walk(directory: &Path, visit: &mut dyn FnMut(&Path, Entry) -> Result<()>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == ".git" || name == ".cofferdam") {
            continue;
        }
        let entry = of(&path).with_context(|| format!("reading {}", path.display()))?;
        let Some(entry) = entry else { continue };
        let is_directory = entry == Entry::Directory;
        visit(&path, entry)?;
        if is_directory {
            walk(&path, visit)?;
        }
    }
    Ok(())
}

/// The entry at a path; `None` for a device, socket or named pipe.
fn of(path: &Path) -> std::io::Result<Option<Entry>> {
    let metadata = fs::symlink_metadata(path)?;
    Ok(if metadata.is_dir() {
        Some(Entry::Directory)
    } else if metadata.is_symlink() {
        Some(Entry::Link(fs::read_link(path)?))
    } else if metadata.is_file() {
        let executable = metadata.permissions().mode() & 0o100 != 0;
        Some(Entry::File { content: fs::read(path)?, executable })
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_copy_is_equal_until_content_mode_link_or_directory_changes() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        fs::create_dir_all(one.join("d/.git")).unwrap();
        fs::write(one.join("d/x"), "a").unwrap();
        symlink("x", one.join("d/l")).unwrap();
        copy(&one, &other).unwrap();
        assert!(!other.join("d/.git").exists());
        let compared = || differences(&read(&one).unwrap(), &read(&other).unwrap());
        assert!(compared().is_empty());
        fs::set_permissions(other.join("d/x"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(compared(), ["d/x"]);
        fs::write(one.join("d/x"), "b").unwrap();
        fs::remove_file(other.join("d/l")).unwrap();
        symlink("y", other.join("d/l")).unwrap();
        fs::create_dir(other.join("e")).unwrap();
        assert_eq!(compared(), ["d/l", "d/x", "e"]);
    }
}
