//! The tree that is scanned: the files on disk with the staged changes.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cap_std::fs::{Dir, Metadata};
use rustix::io::Errno;

use crate::capability::files::FileState;
use cofferdam_workspace::{Overlay, Workspace};

/// A workspace with the staged changes.
#[derive(Clone)]
pub(super) struct Tree {
    pub(super) workspace: Arc<Workspace>,
    pub(super) overlay: Arc<Overlay>,
}

impl Tree {
    pub(super) fn of(files: &FileState) -> Self {
        Self { workspace: Arc::clone(files.workspace()), overlay: Arc::clone(files.tree()) }
    }

    /// Opens a file, following links that stay in the workspace. Never blocks.
    pub(super) fn open(&self, path: &Path) -> io::Result<std::fs::File> {
        if !self.overlay.is_changed() {
            // Names that are not UTF-8 can be opened this way only.
            return Ok(self.workspace.open_read(path)?.into_std());
        }
        Ok(self.overlay.open_read(&self.place(path)?)?.0)
    }

    /// The size in bytes, and the modification time in milliseconds since the epoch. `last` is the
    /// directory of the path before: in path order, many files have the same one.
    pub(super) fn describe(
        &self,
        path: &Path,
        last: &mut Option<(PathBuf, Dir)>,
    ) -> io::Result<(u64, u64)> {
        if !self.overlay.is_changed() {
            let metadata = self.metadata(path, last)?;
            let modified = metadata.modified()?.into_std().duration_since(UNIX_EPOCH);
            let modified = modified.unwrap_or_default().as_millis();
            return Ok((metadata.len(), u64::try_from(modified).unwrap_or(u64::MAX)));
        }
        let stat = self.overlay.stat(&self.place(path)?)?;
        let modified = stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(stat.st_mtime_nsec as i64 / 1_000_000);
        Ok((stat.st_size.unsigned_abs(), u64::try_from(modified).unwrap_or(0)))
    }

    fn metadata(&self, path: &Path, last: &mut Option<(PathBuf, Dir)>) -> io::Result<Metadata> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return self.workspace.metadata(path);
        };
        if last.as_ref().is_none_or(|(known, _)| known != above) {
            *last = Some((above.to_owned(), self.workspace.open_directory(above)?));
        }
        let Some((_, directory)) = last else { return self.workspace.metadata(path) };
        let metadata = directory.symlink_metadata(name)?;
        if metadata.is_symlink() { self.workspace.metadata(path) } else { Ok(metadata) }
    }

    fn place(&self, path: &Path) -> io::Result<String> {
        Ok(self.overlay.resolve("", path.to_str().ok_or(Errno::ILSEQ)?, true)?.into())
    }
}

/// One file of a listing.
pub(super) struct Found {
    /// The path relative to the workspace.
    pub(super) path: PathBuf,
}

impl Found {
    /// The path as a plugin sees it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }
}
