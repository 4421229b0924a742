//! The directory that calls work on. All of the host's own opening of files is here, beneath a
//! directory handle: a path that leaves the workspace, by `..`, by being absolute or through a
//! symbolic link, does not open, however the tree changes meanwhile.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

/// The longest path that is looked at, in bytes: Linux' `PATH_MAX`.
pub(super) const MAX_PATH: usize = 4096;

/// The host's own directory in a workspace.
pub(crate) const OWN: &str = ".cofferdam";

/// A directory that can't be worked on.
#[derive(Debug, thiserror::Error)]
#[error("the workspace {}: {source}", path.display())]
pub struct WorkspaceError {
    /// Which directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// An open directory and its name.
pub struct Workspace {
    path: PathBuf,
    name: String,
    root: Dir,
}

impl Workspace {
    /// Opens a directory.
    ///
    /// # Errors
    /// One that does not exist, can't be opened, or whose path is not UTF-8.
    #[expect(clippy::disallowed_methods, reason = "the one place where a workspace is opened")]
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let open = || {
            let canonical = path.canonicalize()?;
            let name = canonical
                .to_str()
                .ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8")
                })?
                .to_owned();
            let root = Dir::open_ambient_dir(&canonical, ambient_authority())?;
            Ok(Self { path: canonical, name, root })
        };
        open().map_err(|source| WorkspaceError { path: path.to_owned(), source })
    }

    /// The absolute path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn root(&self) -> &Dir {
        &self.root
    }

    /// Opens something for reading, following links that stay inside. Never waits: a FIFO opens
    /// at once, and whoever gets it must look at its type first.
    pub(super) fn open_read(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        without_waiting(&mut options);
        self.root.open_with(or_dot(path), &options)
    }

    /// Reads a text file of the host's own at the top of the workspace. None if there is none.
    ///
    /// # Errors
    /// One that is no regular file, is not UTF-8 or can't be read.
    pub(crate) fn read_own(&self, path: &str) -> io::Result<Option<String>> {
        let mut file = match self.open_read(Path::new(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Opens a file in the host's own directory of the workspace for appending. The directory
    /// ignores itself in git.
    ///
    /// # Errors
    /// A workspace that can't be written, or something else under that name.
    pub(crate) fn append_own(&self, name: &str) -> io::Result<File> {
        match self.root.create_dir(OWN) {
            Ok(()) => self.root.write(format!("{OWN}/.gitignore"), "*\n")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        without_waiting(&mut options);
        let file = self.root.open_with(format!("{OWN}/{name}"), &options)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
    }

    /// Where `path` (relative to `base`) really is, relative to the workspace: no `.`, no `..`,
    /// no symbolic link on the way. The last name need not exist; where it is a link, `follow`
    /// says whether its target counts.
    ///
    /// # Errors
    /// Missing parents, links that leave the workspace, names that are not UTF-8, and
    /// over-long or malformed paths.
    pub(super) fn resolve(&self, base: &str, path: &str, follow: bool) -> io::Result<String> {
        if path.len() > MAX_PATH {
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, "the path is too long"));
        }
        if path.contains('\0') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path holds a NUL character",
            ));
        }
        if path.starts_with('/') {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the path is absolute"));
        }
        let joined = Path::new(base).join(path);
        let last = joined.components().next_back();
        let (parent, name): (&Path, Option<&OsStr>) = match last {
            Some(Component::Normal(name)) => (joined.parent().unwrap_or(Path::new("")), Some(name)),
            _ => (&joined, None),
        };
        let mut resolved = if parent.as_os_str().is_empty() {
            PathBuf::new()
        } else {
            self.root.canonicalize(parent)?
        };
        if let Some(name) = name {
            resolved.push(name);
            let is_link = follow
                && self
                    .root
                    .symlink_metadata(&resolved)
                    .is_ok_and(|metadata| metadata.is_symlink());
            if is_link {
                resolved = self.root.canonicalize(&resolved)?;
            }
        }
        // What cap-std resolves may start with a `.`.
        let resolved: PathBuf =
            resolved.components().filter(|name| *name != Component::CurDir).collect();
        resolved
            .into_os_string()
            .into_string()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidFilename, "the name is not UTF-8"))
    }
}

/// cap-std's word for the directory itself.
pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Makes opening a FIFO or a device return at once instead of waiting for the other side.
pub(super) fn without_waiting(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_are_resolved_inside() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        symlink("a/b", root.join("inside")).unwrap();
        symlink("b/file", root.join("a/link")).unwrap();
        symlink("/etc", root.join("outside")).unwrap();
        symlink("../..", root.join("a/above")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let workspace = Workspace::open(root).unwrap();
        for (base, path, follow, wanted) in [
            ("", "a/b/file", true, Some("a/b/file")),
            ("a", "b/../b/./file", true, Some("a/b/file")),
            ("", "inside/file", true, Some("a/b/file")),
            ("", "inside/new", true, Some("a/b/new")),
            ("", "a/link", true, Some("a/b/file")),
            ("", "a/link", false, Some("a/link")),
            ("", ".", true, Some("")),
            ("a", "..", true, Some("")),
            ("", "", true, Some("")),
            ("", "a/..", true, Some("")),
            ("", "a/../new", true, Some("new")),
            ("", "a/b/../../new", true, Some("new")),
            ("", "a/../none/new", true, None),
            ("", "..", true, None),
            ("", "a/../../x", true, None),
            ("", "/etc/passwd", true, None),
            ("", "outside/passwd", true, None),
            ("", "outside", true, None),
            ("", "a/above/x", true, None),
            ("", "loop", true, None),
            ("", "none/new", true, None),
            ("", "a\0b", true, None),
            ("", &"x".repeat(5000), true, None),
        ] {
            let found = workspace.resolve(base, path, follow);
            assert_eq!(found.as_deref().ok(), wanted, "{base:?} {path:?}: {found:?}");
        }
    }
}
