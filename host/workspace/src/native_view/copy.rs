//! Copies a tree for a program, if no overlayfs can be mounted. On file systems that support it,
//! `copy_file_range` lets files share their blocks until one of them is written.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use cofferdam_core::policy::is_own;
use rustix::fs::{AtFlags, FileType, OFlags};

use super::shown::{ShownFile, ShownFiles, check};
use crate::copying::{copy_file, copy_permissions};
use crate::disk::{self, Listed, Spot};
use crate::error::{Refused, about};
use crate::overlay::Overlay;
use crate::path::{MAX_PATH, join};
use crate::workspace::Workspace;

/// The largest number of files that is copied. The run waits for the copy.
const MAX_FILES: usize = 200_000;

/// The largest size of all files that is copied, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// Git's directory, or the file that refers to it.
const GIT: &str = ".git";

/// The prefix of such a file (gitrepository-layout(5)).
const LEADS_TO: &str = "gitdir: ";

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Copies the tree into `root`, except what this user can't read, what is not a file, directory or
/// link, and what has a name that is not UTF-8.
pub(super) fn write(
    workspace: &Workspace,
    tree: &Overlay,
    root: &OwnedFd,
    stop: &dyn Fn() -> bool,
) -> io::Result<ShownFiles> {
    let shown = ShownFiles::new();
    let mut copy = TreeCopy { workspace, tree, root, shown, bytes: 0, directories: Vec::new() };
    copy.directories.push(String::new());
    let mut next = 0;
    while let Some(place) = copy.directories.get(next).cloned() {
        copy.directory(&place, stop).map_err(|error| about(&place, error))?;
        next += 1;
    }
    copy.finish()
}

struct TreeCopy<'a> {
    workspace: &'a Workspace,
    tree: &'a Overlay,
    root: &'a OwnedFd,
    shown: ShownFiles,
    bytes: u64,
    /// Each after its parent.
    directories: Vec<String>,
}

impl TreeCopy<'_> {
    fn directory(&mut self, place: &str, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let entries = match self.tree.list(place) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            entries => entries?,
        };
        let to = disk::open(self.root, place, OPEN)?;
        for Listed { name, kind, .. } in entries {
            check(stop)?;
            let Some(name) = name.to_str() else { continue };
            let below = join(place, name);
            if is_own(name) {
                continue;
            }
            let file = self.entry(&to, name, &below, kind);
            if let Some(file) = file.map_err(|error| about(&below, error))? {
                self.shown.insert(below, file);
            }
            if self.shown.len() > MAX_FILES {
                return Err(too_large(format!("{MAX_FILES} files")));
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        to: &OwnedFd,
        name: &str,
        place: &str,
        kind: FileType,
    ) -> io::Result<Option<ShownFile>> {
        if name == GIT && self.substitute(to, place, kind)? {
            return Ok(Some(ShownFile::Substitute));
        }
        match kind {
            FileType::Directory => {
                disk::create_directory(to, name, disk::OWNER_ONLY)?;
                self.directories.push(place.to_owned());
                Ok(Some(ShownFile::Directory))
            }
            FileType::Symlink => {
                disk::create_link(to, name, &self.tree.read_link(place)?)?;
                let times = disk::times(&self.tree.stat(place)?);
                rustix::fs::utimensat(to, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Some(ShownFile::of(&Spot::of(to, name)?.stat()?)))
            }
            FileType::RegularFile => {
                let (from, stat) = match self.tree.open_read(place) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Ok(None);
                    }
                    opened => opened?,
                };
                self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
                if self.bytes > MAX_BYTES {
                    return Err(too_large(format!("{} GiB", MAX_BYTES >> 30)));
                }
                let file = disk::create(to, name)?;
                copy_file(&from, &file, &stat, true)?;
                Ok(Some(ShownFile::of(&rustix::fs::fstat(&file)?)))
            }
            _ => Ok(None),
        }
    }

    /// Creates a `.git` that refers to the workspace's repository. Returns false if the original is a
    /// file that can be copied.
    fn substitute(&self, to: &OwnedFd, place: &str, kind: FileType) -> io::Result<bool> {
        let real = self.workspace.path().join(place);
        let target = if kind == FileType::RegularFile {
            let mut text = String::new();
            let file = self.tree.open_read(place)?.0;
            file.take(MAX_PATH as u64).read_to_string(&mut text)?;
            let target = text.strip_prefix(LEADS_TO).map(str::trim_end);
            match (target, real.parent()) {
                (Some(target), Some(parent)) => parent.join(target),
                _ => return Ok(false),
            }
        } else {
            real
        };
        let target = target.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        writeln!(disk::create(to, GIT)?, "{LEADS_TO}{target}")?;
        Ok(true)
    }

    /// Sets the permissions and times of the directories, children before parents.
    fn finish(self) -> io::Result<ShownFiles> {
        for place in self.directories.iter().rev() {
            let set = || -> io::Result<()> {
                let stat = self.tree.stat(place)?;
                let to = File::from(disk::open(self.root, place, OPEN)?);
                copy_permissions(&to, &stat)?;
                Ok(rustix::fs::futimens(&to, &disk::times(&stat))?)
            };
            set().map_err(|error| about(place, error))?;
        }
        Ok(self.shown)
    }
}

fn too_large(limit: String) -> io::Error {
    Refused::unsupported(format!(
        "the workspace holds more than {limit}: too much to be copied for a program, and this \
         system can't show it without a copy"
    ))
}
