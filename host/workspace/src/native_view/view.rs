//! Creating a view for a run, and adding the program's changes to the transaction.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

#[cfg(target_os = "linux")]
use super::mount;
use super::shown::{ShownFile, ShownFiles};
use super::{copy, keep};
use crate::clock;
use crate::overlay::Overlay;
use crate::quota::Quota;
use crate::run_dir::RunDir;
use crate::workspace::Workspace;

/// How to create a view.
#[derive(Debug, Clone, Copy)]
pub struct ViewOptions<'a> {
    /// Whether the sandbox can mount an overlayfs. If the file system of the workspace does not
    /// support its upper directory, the tree is copied all the same.
    pub mounts: bool,
    /// The directory for copies, outside of the workspace: programs look for settings in the parent
    /// directories.
    pub scratch: &'a Path,
    /// Whether the program may change the tree.
    pub may_change: bool,
}

/// What a program is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewKind {
    /// The workspace itself, if nothing is staged and the program may not change anything.
    Workspace,
    /// The workspace with an overlayfs on top.
    Mount {
        /// The upper directory: the staged changes, and later those of the program.
        upper: PathBuf,
        /// The work directory of the overlayfs.
        work: PathBuf,
    },
    /// A copy of the tree. A `.git` in it is a file that refers to the one in the workspace.
    Copy(PathBuf),
}

/// The tree of a call as a native program sees it during one run. Dropping it removes the files that
/// were created for the run.
pub struct NativeView {
    kind: ViewKind,
    files: Option<ViewFiles>,
}

/// The files that were created for a run.
struct ViewFiles {
    /// The directory that the program changes: the upper directory, or the copy.
    root: OwnedFd,
    shown: ShownFiles,
    /// Changes on the disk since then (nanoseconds since the epoch) are by other processes. `None` if
    /// no change can be kept.
    since: Option<i64>,
    _run: RunDir,
}

impl NativeView {
    /// Creates a view of `tree`, a tree of this workspace, for one run. Nothing else may change the
    /// tree until the view is kept or dropped; a tree that is only read can have several views at a
    /// time. `stop` returns true if the call was cancelled or has timed out.
    ///
    /// # Errors
    /// A workspace that can't be written, a tree that is too large to copy, a call that was stopped,
    /// and I/O errors.
    pub fn create(
        workspace: &Workspace,
        tree: &Overlay,
        options: ViewOptions<'_>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        if !tree.is_changed() && !options.may_change {
            return Ok(Self { kind: ViewKind::Workspace, files: None });
        }
        // Changes by other processes matter only if changes of the program can be kept.
        let is_kept = options.may_change && tree.is_writable();
        let wait = if is_kept { || Some(clock::next_tick()) } else { || None };
        #[cfg(target_os = "linux")]
        if options.mounts && mount::is_possible(workspace.disk()) {
            return Self::mount(workspace, tree, wait, stop);
        }
        Self::copy(workspace, tree, options.scratch, wait, stop)
    }

    #[cfg(target_os = "linux")]
    fn mount(
        workspace: &Workspace,
        tree: &Overlay,
        wait: fn() -> Option<i64>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let run = RunDir::in_workspace(workspace)?;
        let (upper, root) = run.directory("upper")?;
        let (work, _) = run.directory("work")?;
        let shown = mount::write(tree, &root, stop)?;
        // The files written so far have an earlier time than all later changes.
        let since = wait();
        let files = Some(ViewFiles { root, shown, since, _run: run });
        Ok(Self { kind: ViewKind::Mount { upper, work }, files })
    }

    fn copy(
        workspace: &Workspace,
        tree: &Overlay,
        scratch: &Path,
        wait: fn() -> Option<i64>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let run = RunDir::in_scratch(scratch)?;
        // Some programs use the directory's name as the name of the project.
        let name = workspace.path().file_name().and_then(|name| name.to_str());
        let (path, root) = run.directory(name.unwrap_or("workspace"))?;
        let since = wait();
        let shown = copy::write(workspace, tree, &root, stop)?;
        // Changes by the program get a different time than the copy.
        wait();
        let files = Some(ViewFiles { root, shown, since, _run: run });
        Ok(Self { kind: ViewKind::Copy(path), files })
    }

    /// What the program is shown.
    pub fn kind(&self) -> &ViewKind {
        &self.kind
    }

    /// Returns the directory that the program writes to, and the bytes and the number of the files
    /// that it contained before the run; `None` if the program can't change anything.
    pub fn written(&self) -> Option<(&Path, u64, u64)> {
        let (directory, shown) = match (&self.kind, &self.files) {
            // The parent also contains the work directory of the overlayfs.
            (ViewKind::Mount { upper, .. }, Some(files)) => (upper.parent()?, &files.shown),
            (ViewKind::Copy(copy), Some(files)) => (copy.as_path(), &files.shown),
            _ => return None,
        };
        let bytes = shown.values().map(ShownFile::size).fold(0, u64::saturating_add);
        Some((directory, bytes, shown.len() as u64))
    }

    /// Adds the program's changes to `tree`, of which the view was created: those of the files and
    /// directories in `only`, or all. `allow` is called for each place that was created, changed or
    /// removed, and for the target of each new link. The program and all its child processes must
    /// have exited.
    ///
    /// # Errors
    /// A change that is not allowed, can't be part of a transaction, conflicts with one by another
    /// process, or exceeds the quota. Then the tree is unchanged.
    pub fn keep(
        self,
        tree: &Overlay,
        quota: &Quota,
        allow: &dyn Fn(&str) -> io::Result<()>,
        only: Option<&[String]>,
    ) -> io::Result<()> {
        let Some(ViewFiles { root, shown, since, _run }) = &self.files else { return Ok(()) };
        if since.is_none() {
            return Err(Errno::ROFS.into());
        }
        let savepoint = tree.savepoint();
        tree.set_others_since(*since);
        let keep = keep::Keep { tree, quota, allow, root, shown };
        let kept = match only {
            Some(places) => keep.only(places),
            None => keep.all(),
        };
        tree.set_others_since(None);
        if kept.is_err() {
            tree.roll_back(savepoint);
        }
        kept
    }
}
