//! Writing: every change of a file, a directory or a link is made to an inode in the staging
//! directory, which is new or a copy of the one on the disk.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, FileType, OFlags, Stat, Timestamps};
use rustix::io::Errno;

use super::state::{Entry, Location};
use super::tree::Overlay;
use crate::clock::now;
use crate::copying::copy_file;
use crate::disk::StatFields as _;
use crate::disk::{self, Spot};
use crate::error::Refused;
use crate::path::check_length;
use crate::quota::Quota;

/// The longest name in a directory on common file systems, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Whether the file is opened for reading as well.
    pub read: bool,
    /// Whether a missing file is created.
    pub create: bool,
    /// Whether an existing file is an error.
    pub exclusive: bool,
    /// Whether the content of an existing file is discarded.
    pub truncate: bool,
}

impl Overlay {
    /// Opens a file for writing; stages it first if it is on the disk.
    ///
    /// # Errors
    /// As `open` in POSIX; [`Refused`] for what can't be changed; `EDQUOT`.
    pub fn open_write(&self, place: &str, opening: Opening, quota: &Quota) -> io::Result<File> {
        let mut truncate = false;
        let id = match self.find(place)? {
            Location::Staged(..) if opening.exclusive => return Err(Errno::EXIST.into()),
            Location::Staged(_, FileType::Directory) => return Err(Errno::ISDIR.into()),
            Location::Staged(_, FileType::Symlink) => return Err(Errno::LOOP.into()),
            Location::Staged(id, _) => {
                // Only an inode that existed before is truncated: ext4 syncs a truncated file when it is
                // closed.
                truncate = opening.truncate;
                self.writable(place, id, !opening.truncate, quota)?
            }
            Location::Nothing => self.create_file(place, opening, quota)?,
            Location::Disk if opening.exclusive && self.kind(place)?.is_some() => {
                return Err(Errno::EXIST.into());
            }
            Location::Disk => match self.stage_file(place, !opening.truncate, quota) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.create_file(place, opening, quota)?
                }
                staged => {
                    let id = staged?;
                    self.insert(place, Entry::Staged(id, FileType::RegularFile));
                    id
                }
            },
        };
        let mut flags = if opening.read { OFlags::RDWR } else { OFlags::WRONLY };
        flags.set(OFlags::TRUNC, truncate);
        Ok(disk::open(self.stage()?, &self.image_name(id), flags)?.into())
    }

    fn create_file(&self, place: &str, opening: Opening, quota: &Quota) -> io::Result<u32> {
        if !opening.create {
            return Err(Errno::NOENT.into());
        }
        self.prepare_new(place)?;
        let (id, _) = self.new_file(quota)?;
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(id)
    }

    /// Checks that a new file can be created at `place`, and notes that none exists.
    pub(super) fn prepare_new(&self, place: &str) -> io::Result<()> {
        let (parent, name) = disk::split(place);
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno::NAMETOOLONG.into());
        }
        check_length(place)?;
        match self.find(parent)? {
            Location::Nothing => return Err(Errno::NOENT.into()),
            Location::Staged(_, FileType::Directory) => return Ok(()),
            Location::Staged(..) => return Err(Errno::NOTDIR.into()),
            Location::Disk => drop(self.open_parent(parent)?),
        }
        if self.state().entries.contains_key(place) {
            // A file on the disk was removed here, and was noted then.
            return Ok(());
        }
        self.observe(place, None)
    }

    /// Opens a directory on the disk whose entries are going to be changed; checks that they can be.
    pub(super) fn open_parent(&self, parent: &str) -> io::Result<OwnedFd> {
        let directory = disk::open(&*self.disk, parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&directory, ".", access, AtFlags::EACCESS)?;
        if self.staging()?.device != rustix::fs::fstat(&directory)?.device() {
            return Err(Refused::unsupported(format!(
                "{parent} is on another file system than the workspace: no transaction can \
                 cover both"
            )));
        }
        Ok(directory)
    }

    pub(super) fn new_id(&self, quota: &Quota) -> io::Result<u32> {
        self.check_writable()?;
        quota.take_file()?;
        let mut state = self.state();
        state.next += 1;
        Ok(state.next)
    }

    fn new_file(&self, quota: &Quota) -> io::Result<(u32, File)> {
        let id = self.new_id(quota)?;
        Ok((id, disk::create(self.stage()?, &self.image_name(id))?))
    }

    /// Returns a staged file that may be written: `id`, or a copy of it if it is part of a savepoint.
    fn writable(&self, place: &str, id: u32, content: bool, quota: &Quota) -> io::Result<u32> {
        if id > self.state().kept {
            return Ok(id);
        }
        let from = disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?;
        let from = File::from(from);
        let copy = self.copy(&from, &rustix::fs::fstat(&from)?, content, quota)?;
        self.insert(place, Entry::Staged(copy, FileType::RegularFile));
        Ok(copy)
    }

    /// Stages the file on the disk at `place`, with its permissions, owner and attributes.
    pub(super) fn stage_file(&self, place: &str, content: bool, quota: &Quota) -> io::Result<u32> {
        let file = self.open_disk(place)?;
        let stat = rustix::fs::fstat(&file)?;
        match disk::file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Refused::unsupported(format!("{place} is no regular file"))),
        }
        check_hard_links(place, &stat)?;
        let (parent, name) = disk::split(place);
        let parent = self.open_parent(parent)?;
        rustix::fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)?;
        self.observe(place, Some(&stat))?;
        self.copy(&file, &stat, content, quota)
    }

    /// Stages the directory on the disk at `place`, with its permissions and times.
    pub(super) fn stage_directory(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        let stat = disk::stat(&*self.disk, place)?;
        self.observe(place, Some(&stat))?;
        let id = self.new_id(quota)?;
        disk::create_directory(self.stage()?, &self.image_name(id), disk::DEFAULT_MODE)?;
        self.set_staged_mode(id, stat.mode() & 0o7777)?;
        self.set_staged_times(id, &disk::times(&stat))?;
        Ok(id)
    }

    /// Stages the link on the disk at `place`, with its times.
    pub(super) fn stage_link(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        self.open_parent(disk::split(place).0)?;
        let stat = disk::stat(&*self.disk, place)?;
        self.observe(place, Some(&stat))?;
        let target = self.read_link(place)?;
        let id = self.new_id(quota)?;
        disk::create_link(self.stage()?, &self.image_name(id), &target)?;
        self.set_staged_times(id, &disk::times(&stat))?;
        Ok(id)
    }

    /// Copies a file into the staging directory.
    fn copy(&self, from: &File, stat: &Stat, content: bool, quota: &Quota) -> io::Result<u32> {
        if content {
            quota.take_bytes(u64::try_from(stat.st_size).unwrap_or(0))?;
        }
        let (id, to) = self.new_file(quota)?;
        copy_file(from, &to, stat, content)?;
        Ok(id)
    }

    /// Copies a regular file, with its permissions, to a place where there is nothing. The copy is
    /// new: it gets the current time, and does not run as its owner.
    ///
    /// # Errors
    /// [`Refused`] for anything but a regular file; those of creating a file.
    pub fn copy_file(&self, from: &str, to: &str, quota: &Quota) -> io::Result<()> {
        if self.kind(from)? != Some(FileType::RegularFile) {
            return Err(Refused::unsupported(format!("{from} is no regular file")));
        }
        if self.kind(to)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.prepare_new(to)?;
        let (file, mut stat) = self.open_read(from)?;
        stat.st_mode &= !0o7000;
        let id = self.copy(&file, &stat, true, quota)?;
        let now = disk::timespec(now());
        self.set_staged_times(id, &Timestamps { last_access: now, last_modification: now })?;
        self.insert(to, Entry::Staged(id, FileType::RegularFile));
        Ok(())
    }

    /// Stages a copy of `from` at `place`; replaces an existing file.
    pub(crate) fn restore(&self, place: &str, from: &File, quota: &Quota) -> io::Result<()> {
        self.make_room(place)?;
        let id = self.copy(from, &rustix::fs::fstat(from)?, true, quota)?;
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(())
    }

    /// Stages the file `from` at `place`; replaces an existing file. Returns the staged file: the file
    /// itself, or a copy if it has several hard links or is on another file system. `content` is the
    /// file, open.
    pub(crate) fn adopt(
        &self,
        place: &str,
        from: &Spot<'_>,
        content: &File,
        quota: &Quota,
    ) -> io::Result<File> {
        self.make_room(place)?;
        let stat = rustix::fs::fstat(content)?;
        quota.take_bytes(u64::try_from(stat.st_size).unwrap_or(0))?;
        let id = self.new_id(quota)?;
        let (stage, name) = (self.stage()?, self.image_name(id));
        let moved = if stat.st_nlink == 1 {
            from.move_to(&Spot::of(stage, &name)?)
        } else {
            Err(Errno::XDEV.into())
        };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut content = content;
                content.rewind()?;
                copy_file(content, &disk::create(stage, &name)?, &stat, true)?;
            }
            moved => moved?,
        }
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(disk::open(stage, &name, OFlags::RDONLY)?.into())
    }

    /// Removes a file at `place`, if there is one, and prepares for a new one.
    fn make_room(&self, place: &str) -> io::Result<()> {
        if let Some(kind) = self.kind(place)? {
            if kind == FileType::Directory {
                return Err(Errno::ISDIR.into());
            }
            self.remove_file(place)?;
        }
        self.prepare_new(place)
    }

    /// Returns the staged inode of the file at `place`; stages it if it is on the disk.
    fn staged(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        self.check_writable()?;
        match self.find(place)? {
            Location::Nothing => Err(Errno::NOENT.into()),
            Location::Staged(id, FileType::RegularFile) => self.writable(place, id, true, quota),
            Location::Staged(id, _) => Ok(id),
            Location::Disk => {
                let stat = disk::stat(&*self.disk, place)?;
                let kind = disk::file_type(&stat);
                let id = match kind {
                    FileType::Directory => {
                        return Err(Refused::unsupported(format!(
                            "{}: times of an existing directory are not changed",
                            if place.is_empty() { "." } else { place }
                        )));
                    }
                    FileType::Symlink => self.stage_link(place, quota)?,
                    _ => self.stage_file(place, true, quota)?,
                };
                self.insert(place, Entry::Staged(id, kind));
                Ok(id)
            }
        }
    }

    /// Sets the times of a file, a link or a new directory.
    ///
    /// # Errors
    /// [`Refused`] for a directory that is on the disk; those of staging.
    pub fn set_times(&self, place: &str, times: &Timestamps, quota: &Quota) -> io::Result<()> {
        let id = self.staged(place, quota)?;
        self.set_staged_times(id, times)
    }

    fn set_staged_times(&self, id: u32, times: &Timestamps) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(self.stage()?, self.image_name(id), times, flags)?)
    }

    /// Grants or revokes the execute permission: for all users who may read the file, or for all.
    ///
    /// # Errors
    /// [`Refused`] for anything but a regular file; those of staging.
    pub fn set_executable(&self, place: &str, executable: bool, quota: &Quota) -> io::Result<()> {
        let stat = self.look(place, true)?;
        if disk::file_type(&stat) != FileType::RegularFile {
            return Err(Refused::unsupported(format!("{place} is no regular file")));
        }
        let mode = stat.mode() & 0o7777;
        let wanted = if executable { disk::executable(mode) } else { mode & !0o111 };
        if wanted == mode {
            return Ok(());
        }
        self.set_staged_mode(self.staged(place, quota)?, wanted)
    }

    /// Sets the permissions of a new file or directory.
    pub(crate) fn set_mode(&self, place: &str, mode: u32) -> io::Result<()> {
        self.set_staged_mode(self.staged(place, &Quota::unlimited())?, mode)
    }

    fn set_staged_mode(&self, id: u32, mode: u32) -> io::Result<()> {
        let mode = disk::permissions(mode);
        Ok(rustix::fs::chmodat(self.stage()?, self.image_name(id), mode, AtFlags::empty())?)
    }

    /// Sets the modification time, in nanoseconds since the epoch.
    pub(crate) fn set_modified(&self, place: &str, modified: i64) -> io::Result<()> {
        let time = disk::timespec(modified);
        let times = Timestamps { last_access: time, last_modification: time };
        self.set_times(place, &times, &Quota::unlimited())
    }
}

/// Refuses a file with several hard links: a change would change it under its other names as well,
/// and the history would add one more.
pub(super) fn check_hard_links(place: &str, stat: &Stat) -> io::Result<()> {
    if stat.st_nlink > 1 && disk::file_type(stat) != FileType::Directory {
        return Err(Refused::unsupported(format!(
            "{place} is a file with several hard links; changing it would change a file elsewhere"
        )));
    }
    Ok(())
}
