//! Copies a tree for a program, where nothing can be mounted. Letting files share their blocks
//! until one of them is written is the system's business: where it can, `copy_file_range` does
//! that.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, OFlags};

use super::super::copying::{copy_file, copy_permissions};
use super::super::disk::{self, Listed, Spot};
use super::super::overlay::Overlay;
use super::super::path::join;
use super::super::{Refused, Workspace};
use super::{Record, Records, about, check};
use cofferdam_core::policy::is_own;

/// How much is copied at most. A run waits for it.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 4 << 30;

/// Git's directory, or the file that leads to it.
const GIT: &str = ".git";

/// How such a file begins (gitrepository-layout(5)).
const LEADS_TO: &str = "gitdir: ";

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Copies the tree beneath `root`. What can't be read by this user, is not a file, directory or
/// link, or has a name that is not text is left out.
pub(super) fn write(
    workspace: &Workspace,
    tree: &Overlay,
    root: &OwnedFd,
    stop: &dyn Fn() -> bool,
) -> io::Result<Records> {
    let records = Records::new();
    let mut copy = Copy { workspace, tree, root, records, bytes: 0, directories: Vec::new() };
    copy.directories.push(String::new());
    let mut next = 0;
    while let Some(place) = copy.directories.get(next).cloned() {
        copy.directory(&place, stop).map_err(|error| about(&place, error))?;
        next += 1;
    }
    copy.finish()
}

struct Copy<'a> {
    workspace: &'a Workspace,
    tree: &'a Overlay,
    root: &'a OwnedFd,
    records: Records,
    bytes: u64,
    /// Each comes after the one that it is in.
    directories: Vec<String>,
}

impl Copy<'_> {
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
            let record = self.entry(&to, name, &below, kind);
            if let Some(record) = record.map_err(|error| about(&below, error))? {
                self.records.insert(below, record);
            }
            if self.records.len() > MAX_FILES {
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
    ) -> io::Result<Option<Record>> {
        if name == GIT && self.substitute(to, place, kind)? {
            return Ok(Some(Record::Substitute));
        }
        match kind {
            FileType::Directory => {
                disk::create_directory(to, name, disk::OWNER_ONLY)?;
                self.directories.push(place.to_owned());
                Ok(Some(Record::Directory))
            }
            FileType::Symlink => {
                disk::create_link(to, name, &self.tree.read_link(place)?)?;
                let times = disk::times(&self.tree.stat(place)?);
                rustix::fs::utimensat(to, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Some(Record::of(&Spot::of(to, name)?.stat()?)))
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
                Ok(Some(Record::of(&rustix::fs::fstat(&file)?)))
            }
            _ => Ok(None),
        }
    }

    /// Puts a file that leads to the workspace's repository in the place of what is there; not
    /// where that is a file which does as well wherever it is.
    fn substitute(&self, to: &OwnedFd, place: &str, kind: FileType) -> io::Result<bool> {
        let real = self.workspace.path().join(place);
        let target = if kind == FileType::RegularFile {
            let mut text = String::new();
            let file = self.tree.open_read(place)?.0;
            file.take(super::super::path::MAX_PATH as u64).read_to_string(&mut text)?;
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

    /// Gives the directories their permissions and times, from the deepest up.
    fn finish(self) -> io::Result<Records> {
        for place in self.directories.iter().rev() {
            let set = || -> io::Result<()> {
                let stat = self.tree.stat(place)?;
                let to = File::from(disk::open(self.root, place, OPEN)?);
                copy_permissions(&to, &stat)?;
                Ok(rustix::fs::futimens(&to, &disk::times(&stat))?)
            };
            set().map_err(|error| about(place, error))?;
        }
        Ok(self.records)
    }
}

fn too_large(limit: String) -> io::Error {
    Refused::unsupported(format!(
        "the workspace holds more than {limit}: too much to be copied for a program, and this \
         system can't show it without a copy"
    ))
}
