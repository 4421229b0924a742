//! The tree of a call as a native program sees it, and what the program did to it.
//!
//! A transaction is a map in memory, which no program can look at. So for each run it is written
//! out: as the upper directory of an overlayfs over the workspace, where one can be mounted;
//! elsewhere, as a copy of the whole tree. Both lie in a directory that is the run's own. What a
//! program does there concerns nobody, until [`View::keep`] makes it a part of the transaction.
//!
//! # What is guaranteed
//!
//! - The staged files themselves are never shown, only copies. A run that is discarded leaves the
//!   transaction as it was, and so does one that can't be kept: it is kept as a whole or not.
//! - Whatever is kept has been allowed, place by place, and counts as written by the call.
//! - A place that the program changed and somebody else as well is a conflict. What the transaction
//!   looked at before the run is compared at the commit, as always. Anything else must not have
//!   changed on the disk since the run began, by the time of its inode; a directory is what is in
//!   it. One thing is not seen through an overlayfs: that somebody removed a file that the program
//!   changed. It is there again, with the program's content.
//! - The host's own directory is empty for the program, and nothing in it is kept. Where the
//!   workspace is shown as it is ([`Shown::Workspace`]), it shows as well.
//!
//! # What is left out
//!
//! Sockets, FIFOs and devices; the permissions and times of directories that were there before;
//! set-user-ID and set-group-ID bits. Hard links become files of their own. What is mounted
//! beneath the workspace does not show through an overlayfs.

mod attributes;
mod copy;
mod keep;
#[cfg(target_os = "linux")]
mod mount;
mod protect;
mod run;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::{Overlay, Quota, Workspace, disk, stamp};
pub use protect::Protected;
pub(super) use run::Run;

pub(super) use run::{DIRECTORY, sweep};

/// How a program can be shown a tree that is not the workspace as it is.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// Whether the sandbox can mount an overlayfs. Where the workspace's file system can't take
    /// the changes of one, the tree is copied all the same.
    pub mounts: bool,
    /// Where copies are made. No part of the workspace: programs look for their settings in the
    /// directories above.
    pub scratch: &'a Path,
}

/// What a program is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// The workspace itself: nothing is staged, and nothing may be changed.
    Workspace,
    /// The workspace with an overlayfs on it.
    Mount {
        /// The staged changes, in overlayfs's format; takes those of the program.
        upper: PathBuf,
        /// An empty directory for overlayfs itself.
        work: PathBuf,
    },
    /// This copy of the tree. A `.git` in it is a file that leads to the workspace's own.
    Copy(PathBuf),
}

/// The tree of a call as a native program sees it for one run. Dropping it removes what was made
/// for the run.
pub struct View {
    shown: Shown,
    made: Option<Made>,
}

/// What was made for a run.
struct Made {
    /// What the program changes: the upper directory, or the copy.
    root: OwnedFd,
    records: Records,
    /// What the disk has got since then is somebody else's. None where nothing can be kept.
    since: Option<i64>,
    _run: Run,
}

/// What a program was shown, by place.
type Records = BTreeMap<String, Record>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    /// A file or a link. Where this still holds, it was not changed.
    Mark {
        inode: u64,
        mode: u32,
        size: i64,
        modified: i64,
        changed: i64,
    },
    Directory,
    /// Something that stands for what is not shown.
    Substitute,
}

impl Record {
    fn of(stat: &Stat) -> Self {
        Self::Mark {
            inode: stat.st_ino,
            mode: stat.st_mode,
            size: stat.st_size,
            modified: disk::modified(stat),
            changed: disk::changed(stat),
        }
    }
}

impl View {
    /// Shows `tree`, which is one of this workspace's, for one run. Nothing else may change the
    /// tree until the view is kept or dropped; several of one tree that is only read can be
    /// shown side by side. `stop` is asked on the way whether the call is over.
    ///
    /// # Errors
    /// A workspace that can't be written, a tree that is too large to be copied, a call that is
    /// over, and those of the system.
    pub fn show(
        workspace: &Workspace,
        tree: &Overlay,
        means: Means<'_>,
        may_change: bool,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        if !tree.is_changed() && !may_change {
            return Ok(Self { shown: Shown::Workspace, made: None });
        }
        // Only what may be kept has to be told from what somebody else does.
        let wait =
            if may_change && tree.is_writable() { || Some(stamp::next_tick()) } else { || None };
        #[cfg(target_os = "linux")]
        if means.mounts && mount::is_possible(workspace.disk()) {
            return Self::mount(workspace, tree, wait, stop);
        }
        Self::copy(workspace, tree, means.scratch, wait, stop)
    }

    #[cfg(target_os = "linux")]
    fn mount(
        workspace: &Workspace,
        tree: &Overlay,
        wait: fn() -> Option<i64>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let run = Run::in_workspace(workspace)?;
        let (upper, root) = run.directory("upper")?;
        let (work, _) = run.directory("work")?;
        let records = mount::write(tree, &root, stop)?;
        // What was written until now has an earlier time than all that follows.
        let since = wait();
        let made = Some(Made { root, records, since, _run: run });
        Ok(Self { shown: Shown::Mount { upper, work }, made })
    }

    fn copy(
        workspace: &Workspace,
        tree: &Overlay,
        scratch: &Path,
        wait: fn() -> Option<i64>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let run = Run::in_scratch(scratch)?;
        // Some programs call a project what its directory is called.
        let name = workspace.path().file_name().and_then(|name| name.to_str());
        let (path, root) = run.directory(name.unwrap_or("workspace"))?;
        let since = wait();
        let records = copy::write(workspace, tree, &root, stop)?;
        // So that whatever the program changes has another time than the copy.
        wait();
        let made = Some(Made { root, records, since, _run: run });
        Ok(Self { shown: Shown::Copy(path), made })
    }

    /// What the program is to be shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The directory that takes what the program writes, with the bytes and the number of files that
    /// were put there for it; none where it can change nothing.
    pub fn written(&self) -> Option<(&Path, u64, u64)> {
        let (directory, records) = match (&self.shown, &self.made) {
            // Beside it is what overlayfs itself writes.
            (Shown::Mount { upper, .. }, Some(made)) => (upper.parent()?, &made.records),
            (Shown::Copy(copy), Some(made)) => (copy.as_path(), &made.records),
            _ => return None,
        };
        let size = |record: &Record| match record {
            Record::Mark { size, .. } => u64::try_from(*size).unwrap_or(0),
            Record::Directory | Record::Substitute => 0,
        };
        let bytes = records.values().map(size).fold(0, u64::saturating_add);
        Some((directory, bytes, records.len() as u64))
    }

    /// Makes what the program changed a part of `tree`, which was shown as one that may change.
    /// `allow` decides on each place that was made, changed or removed, and on each that a new
    /// link leads to. The program and all that it started have ended.
    ///
    /// # Errors
    /// What is not allowed, can't be part of a transaction, was changed by somebody else as
    /// well, or is more than the quota. The tree is as it was then.
    pub fn keep(
        self,
        tree: &Overlay,
        quota: &Quota,
        allow: &dyn Fn(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(Made { root, records, since, _run }) = &self.made else { return Ok(()) };
        if since.is_none() {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let savepoint = tree.savepoint();
        tree.set_others_since(*since);
        let kept = keep::Keep { tree, quota, allow, root, records }.all();
        tree.set_others_since(None);
        if kept.is_err() {
            tree.roll_back(savepoint);
        }
        kept
    }
}

/// Stops where the call is over.
fn check(stop: &dyn Fn() -> bool) -> io::Result<()> {
    if stop() { Err(io::Error::new(io::ErrorKind::TimedOut, "the call is over")) } else { Ok(()) }
}

/// An error of the system with the place that it is about; others say so themselves.
fn about(place: &str, error: io::Error) -> io::Error {
    if error.get_ref().is_some() || place.is_empty() {
        error
    } else {
        io::Error::new(error.kind(), format!("{place}: {error}"))
    }
}
