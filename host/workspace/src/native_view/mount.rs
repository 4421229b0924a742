//! Writes a transaction out as the upper directory of an overlayfs (the kernel's
//! `Documentation/filesystems/overlayfs.rst`, with the option `userxattr`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, FileType, FsWord, Mode, OFlags};

use super::attributes;
use super::shown::{ShownFile, ShownFiles, check};
use crate::copying::{copy_file, copy_permissions};
use crate::disk::{self, Spot};
use crate::error::about;
use crate::overlay::{Entry, Overlay};
use crate::own;

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// File systems that do not fully support an upper directory (`linux/magic.h`).
const UNSUPPORTED: [FsWord; 9] = [
    0x794c_7630, // overlayfs
    0x6573_5546, // FUSE
    0x0102_1997, // 9p
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0xf15f,      // eCryptfs
];

/// Whether an overlayfs can have its upper directory on the file system of a directory.
pub(super) fn is_possible(directory: &OwnedFd) -> bool {
    rustix::fs::fstatfs(directory).is_ok_and(|found| !UNSUPPORTED.contains(&found.f_type))
}

/// Writes everything that is staged beneath `upper`.
pub(super) fn write(
    tree: &Overlay,
    upper: &OwnedFd,
    stop: &dyn Fn() -> bool,
) -> io::Result<ShownFiles> {
    // It contains the run directories: a program that walks the tree would find its own.
    let hidden = own::directory(upper, OWN).and_then(attributes::set_opaque);
    hidden.map_err(|error| about(OWN, error))?;
    let mut writer = Writer { tree, upper, shown: ShownFiles::new(), parents: BTreeSet::new() };
    for (place, entry) in tree.entries() {
        check(stop)?;
        writer.add(&place, entry).map_err(|error| about(&place, error))?;
    }
    writer.finish()
}

struct Writer<'a> {
    tree: &'a Overlay,
    upper: &'a OwnedFd,
    shown: ShownFiles,
    /// Directories on the disk that contain staged files.
    parents: BTreeSet<String>,
}

impl Writer<'_> {
    fn add(&mut self, place: &str, entry: Entry) -> io::Result<()> {
        let is_hidden =
            place.match_indices('/').any(|(end, _)| self.shown.contains_key(&place[..end]));
        if entry == Entry::Gone && is_hidden {
            return Ok(());
        }
        self.add_parents(place)?;
        let spot = Spot::of(self.upper, place)?;
        let (directory, name) = (spot.directory(), disk::split(place).1);
        let file = match entry {
            Entry::Gone => {
                let kind = FileType::CharacterDevice;
                rustix::fs::mknodat(directory, name, kind, Mode::empty(), 0)?;
                return Ok(());
            }
            Entry::Staged(_, FileType::Directory) => {
                disk::create_directory(directory, name, disk::OWNER_ONLY)?;
                attributes::set_opaque(disk::open(directory, name, OPEN)?)?;
                ShownFile::Directory
            }
            Entry::Staged(_, FileType::Symlink) => {
                disk::create_link(directory, name, &self.tree.read_link(place)?)?;
                let times = disk::times(&self.tree.stat(place)?);
                rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                ShownFile::of(&spot.stat()?)
            }
            Entry::Staged(..) => {
                let (from, stat) = self.tree.open_read(place)?;
                let to = disk::create(directory, name)?;
                copy_file(&from, &to, &stat, true)?;
                attributes::strip(&to)?;
                ShownFile::of(&rustix::fs::fstat(&to)?)
            }
        };
        self.shown.insert(place.to_owned(), file);
        Ok(())
    }

    /// Creates the parent directories that are on the disk.
    fn add_parents(&mut self, place: &str) -> io::Result<()> {
        for (end, _) in place.match_indices('/') {
            let parent = &place[..end];
            if self.shown.contains_key(parent) || self.parents.contains(parent) {
                continue;
            }
            let spot = Spot::of(self.upper, parent)?;
            let name = disk::split(parent).1;
            disk::create_directory(spot.directory(), name, disk::OWNER_ONLY)?;
            self.parents.insert(parent.to_owned());
        }
        Ok(())
    }

    /// Sets the permissions of the directories, children before parents, and the times of those of
    /// the transaction.
    fn finish(self) -> io::Result<ShownFiles> {
        let own = self.shown.iter().filter(|(_, file)| **file == ShownFile::Directory);
        let mut directories: Vec<(&str, bool)> = own.map(|(place, _)| (&**place, true)).collect();
        directories.extend(self.parents.iter().map(|place| (&**place, false)));
        directories.push(("", true));
        directories.sort_unstable();
        for (place, with_times) in directories.into_iter().rev() {
            let set = || {
                let stat = self.tree.stat(place)?;
                let to = File::from(disk::open(self.upper, place, OPEN)?);
                copy_permissions(&to, &stat)?;
                if with_times {
                    rustix::fs::futimens(&to, &disk::times(&stat))?;
                }
                io::Result::Ok(())
            };
            set().map_err(|error| about(place, error))?;
        }
        Ok(self.shown)
    }
}
