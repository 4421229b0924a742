//! Reading and writing whole files of the workspace. The host commits all changes when the call
//! succeeds, so nothing here is rolled back.
//!
//! `system` has what the standard library can't do: a component asks the host for it, a native
//! build the operating system.

#[cfg(target_family = "wasm")]
#[path = "files/host.rs"]
mod system;

#[cfg(not(target_family = "wasm"))]
#[path = "files/native.rs"]
mod system;

use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use crate::{Context, ToolError, WorkspacePath};

pub(crate) use system::last_refusal;

/// Whether a file that is written may exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    /// Replaces an existing file.
    Replace,
    /// Fails if the path exists.
    New,
}

/// File operations. Unless documented otherwise, the errors are those of [`ToolError::io`].
/// Operations that create a file also create missing parent directories.
impl Context {
    /// Reads a whole file.
    ///
    /// # Errors
    /// `FileNotFoundError`, `IsADirectoryError`, `PermissionError` or `OSError`.
    pub fn read(&self, path: &WorkspacePath) -> Result<Vec<u8>, ToolError> {
        let error = io_error(path);
        let mut file = fs::File::open(self.local(path)).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        if metadata.is_dir() {
            return Err(ToolError::is_a_directory(&path.to_string()));
        }
        // One byte more than the size, so that the end is detected without growing the buffer.
        let size = usize::try_from(metadata.len()).unwrap_or(0);
        let mut contents = Vec::with_capacity(size.saturating_add(1));
        file.read_to_end(&mut contents).map_err(error)?;
        Ok(contents)
    }

    /// Reads a whole text file.
    ///
    /// # Errors
    /// As [`Context::read`], and `UnicodeDecodeError` for a file that is not UTF-8.
    pub fn read_text(&self, path: &WorkspacePath) -> Result<String, ToolError> {
        String::from_utf8(self.read(path)?).map_err(|error| {
            ToolError::invalid_args(
                "UnicodeDecodeError",
                format!(
                    "{path}: not UTF-8 text (first bad byte at offset {}); it may be a binary file",
                    error.utf8_error().valid_up_to()
                ),
            )
        })
    }

    /// Creates a file, or replaces the contents of an existing one; its permissions stay.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn write(&self, path: &WorkspacePath, contents: &[u8]) -> Result<(), ToolError> {
        self.with_parents(path, || system::write(self, path, contents, WriteMode::Replace))
    }

    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// As [`ToolError::io`]; `FileExistsError` if the path exists.
    pub fn create(&self, path: &WorkspacePath, contents: &[u8]) -> Result<(), ToolError> {
        self.with_parents(path, || system::write(self, path, contents, WriteMode::New))
    }

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn remove(&self, path: &WorkspacePath) -> Result<(), ToolError> {
        fs::remove_file(self.local(path)).map_err(io_error(path))
    }

    /// Creates a directory that does not exist yet.
    ///
    /// # Errors
    /// As [`ToolError::io`]; `FileExistsError` if the path exists.
    pub fn create_directory(&self, path: &WorkspacePath) -> Result<(), ToolError> {
        self.with_parents(path, || fs::create_dir(self.local(path)))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn remove_directory(&self, path: &WorkspacePath) -> Result<(), ToolError> {
        fs::remove_dir(self.local(path)).map_err(io_error(path))
    }

    /// Moves a file, a symbolic link or a directory; replaces an existing file or link.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn rename(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<(), ToolError> {
        let (source, target) = (self.local(from), self.local(to));
        // After this check, a missing path can only be a parent of the target.
        fs::symlink_metadata(&source).map_err(io_error(from))?;
        self.with_parents(to, || fs::rename(&source, &target))
    }

    /// Copies a regular file, with its permissions, to a path that does not exist yet.
    ///
    /// # Errors
    /// As [`ToolError::io`]; `FileExistsError` if the path exists.
    pub fn copy(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<(), ToolError> {
        // After this check, a missing path can only be a parent of the target.
        fs::symlink_metadata(self.local(from)).map_err(io_error(from))?;
        if fs::symlink_metadata(self.local(to)).is_ok() {
            return Err(io_error(to)(io::ErrorKind::AlreadyExists.into()));
        }
        self.with_parents(to, || system::copy(self, from, to))
    }

    /// The target of a symbolic link, as stored in the link.
    ///
    /// # Errors
    /// As [`ToolError::io`]; `UnicodeDecodeError` if the target is not UTF-8.
    pub fn read_link(&self, path: &WorkspacePath) -> Result<String, ToolError> {
        let target = fs::read_link(self.local(path)).map_err(io_error(path))?;
        target.into_os_string().into_string().map_err(|target| {
            let message = format!("{path}: the target of the link is not UTF-8: {target:?}");
            ToolError::invalid_args("UnicodeDecodeError", message)
        })
    }

    /// Creates a symbolic link at `path`, which must not exist. A relative target is relative to
    /// the link's directory.
    ///
    /// # Errors
    /// As [`ToolError::io`]; `FileExistsError` if the path exists.
    pub fn create_link(&self, path: &WorkspacePath, target: &str) -> Result<(), ToolError> {
        self.with_parents(path, || system::create_link(self, path, target))
    }

    /// Whether a file is executable by its owner.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn is_executable(&self, path: &WorkspacePath) -> Result<bool, ToolError> {
        system::is_executable(self, path).map_err(io_error(path))
    }

    /// Sets the executable bit for everyone who may read the file, or clears all executable bits.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub fn set_executable(&self, path: &WorkspacePath, executable: bool) -> Result<(), ToolError> {
        system::set_executable(self, path, executable).map_err(io_error(path))
    }

    /// Runs `make`, which creates `path`. Parent directories usually exist, so they are created
    /// only if `make` fails without them.
    fn with_parents(
        &self,
        path: &WorkspacePath,
        make: impl Fn() -> io::Result<()>,
    ) -> Result<(), ToolError> {
        let made = match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_parents(&self.local(path)).and_then(|()| make())
            }
            made => made,
        };
        made.map_err(io_error(path))
    }
}

/// Returns a function that converts I/O errors about `path`.
fn io_error(path: &WorkspacePath) -> impl Fn(io::Error) -> ToolError + Copy {
    move |error| ToolError::io(&path.to_string(), &error)
}

/// Creates the directories above `path`, the deepest one first: those further up may be outside of
/// the call's scope. Unlike [`fs::create_dir_all`], the last operation is the one that failed, so
/// that the host can be asked for the reason.
fn create_parents(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let created = match fs::create_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_parents(parent)?;
            fs::create_dir(parent)
        }
        created => created,
    };
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn workspace() -> (TempDir, Context) {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("text"), "ok").unwrap();
        (directory, context)
    }

    #[test]
    fn reading_errors_have_codes() {
        let (directory, context) = workspace();
        fs::write(directory.path().join("binary"), [0x41, 0xff]).unwrap();
        let read = |path: &str| context.read_text(&context.resolve(path).unwrap());
        assert_eq!(read("text").unwrap(), "ok");
        assert_eq!(read("binary").unwrap_err().code, "UnicodeDecodeError");
        assert_eq!(read("none").unwrap_err().code, "FileNotFoundError");
        assert_eq!(read("text/x").unwrap_err().code, "FileNotFoundError");
        assert_eq!(read(".").unwrap_err().code, "IsADirectoryError");
    }

    #[test]
    fn writing_replaces_and_creating_does_not() {
        let (directory, context) = workspace();
        let contents = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
        for (path, write, create) in [
            ("text", Ok(()), Err("FileExistsError")),
            ("new", Ok(()), Ok(())),
            ("deep/er/new", Ok(()), Ok(())),
            ("text/new", Err("FileNotFoundError"), Err("FileNotFoundError")),
            (".", Err("IsADirectoryError"), Err("FileExistsError")),
        ] {
            let path = context.resolve(path).unwrap();
            let created = context.create(&path, b"created").map_err(|error| error.code);
            assert_eq!(created, create.map_err(str::to_owned), "{path}");
            if created.is_ok() {
                assert_eq!(contents(path.as_str()), "created", "{path}");
            }
            let written = context.write(&path, b"new").map_err(|error| error.code);
            assert_eq!(written, write.map_err(str::to_owned), "{path}");
            if written.is_ok() {
                assert_eq!(contents(path.as_str()), "new", "{path}");
            }
        }
    }

    #[test]
    fn permissions_are_kept_and_set() {
        let (directory, context) = workspace();
        let path = context.resolve("text").unwrap();
        let mode =
            || fs::metadata(directory.path().join("text")).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(context.local(&path), fs::Permissions::from_mode(0o640)).unwrap();
        for (executable, wanted) in [(true, 0o750), (true, 0o750), (false, 0o640)] {
            context.set_executable(&path, executable).unwrap();
            assert_eq!(mode(), wanted);
            assert_eq!(context.is_executable(&path).unwrap(), executable);
            context.write(&path, b"x").unwrap();
            assert_eq!(mode(), wanted);
        }
        let none = context.resolve("none").unwrap();
        assert_eq!(context.is_executable(&none).unwrap_err().code, "FileNotFoundError");
        assert_eq!(context.set_executable(&none, true).unwrap_err().code, "FileNotFoundError");
    }

    #[test]
    fn files_are_renamed_and_removed() {
        let (directory, context) = workspace();
        let at = |path: &str| context.resolve(path).unwrap();
        context.rename(&at("text"), &at("deep/er/text")).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("deep/er/text")).unwrap(), "ok");
        let error = context.rename(&at("text"), &at("other/text")).unwrap_err();
        assert_eq!(error.message, "file not found: text");
        assert!(!directory.path().join("other").exists());
        context.remove(&at("deep/er/text")).unwrap();
        for (path, code) in [("deep/er/text", "FileNotFoundError"), ("deep", "IsADirectoryError")] {
            assert_eq!(context.remove(&at(path)).unwrap_err().code, code);
        }
    }

    #[test]
    fn links_are_created_and_read_but_not_followed() {
        let (directory, context) = workspace();
        let at = |path: &str| context.resolve(path).unwrap();
        context.create_link(&at("deep/link"), "../text").unwrap();
        assert_eq!(context.read_link(&at("deep/link")).unwrap(), "../text");
        assert_eq!(context.read(&at("deep/link")).unwrap(), b"ok");
        let error = context.create_link(&at("deep/link"), "x").unwrap_err();
        assert_eq!(error.code, "FileExistsError");
        context.rename(&at("deep/link"), &at("link")).unwrap();
        symlink("none", directory.path().join("dangling")).unwrap();
        context.remove(&at("dangling")).unwrap();
        context.remove(&at("link")).unwrap();
        assert_eq!(context.read(&at("text")).unwrap(), b"ok");
        assert_eq!(context.read_link(&at("text")).unwrap_err().code, "OSError");
    }
}
