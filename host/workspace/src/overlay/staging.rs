//! What is written: every change of a file, a directory or a link goes to an inode in the staging
//! directory, made new or as a copy of the disk's.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat, Timestamps};
use rustix::io::Errno;

use super::super::Refused;
use super::super::copying::copy_file;
use super::super::disk::{self, Spot};
use super::super::path::check_length;
use super::super::quota::Quota;
use super::{Entry, Found, Overlay};

/// The longest name in a directory, in bytes, on every file system in use.
const MAX_NAME: usize = 255;

/// What to do about a file that is or is not there when it is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Also for reading.
    pub read: bool,
    /// Create a missing one.
    pub create: bool,
    /// Fail if there is one.
    pub exclusive: bool,
    /// Start with nothing in it.
    pub truncate: bool,
}

impl Overlay {
    /// Opens a file for writing: a staged one, made from the disk's where there is none yet.
    ///
    /// # Errors
    /// What POSIX says of `open`, and [`Refused`] for what can't be changed.
    pub fn open_write(&self, place: &str, opening: Opening, quota: &Quota) -> io::Result<File> {
        let mut truncate = false;
        let id = match self.find(place)? {
            Found::Staged(..) if opening.exclusive => return Err(Errno::EXIST.into()),
            Found::Staged(_, FileType::Directory) => return Err(Errno::ISDIR.into()),
            Found::Staged(_, FileType::Symlink) => return Err(Errno::LOOP.into()),
            Found::Staged(id, kind) => {
                // What was staged just now is empty; ext4 would sync a file that was truncated
                // when it is closed.
                truncate = opening.truncate;
                self.writable(place, id, kind, !opening.truncate, quota)?
            }
            Found::Nothing => self.create_file(place, opening, quota)?,
            Found::Disk if opening.exclusive && self.kind(place)?.is_some() => {
                return Err(Errno::EXIST.into());
            }
            Found::Disk => match self.stage_file(place, !opening.truncate, quota) {
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

    /// Checks that something new may come to `place`, and remembers that nothing was there.
    pub(super) fn prepare_new(&self, place: &str) -> io::Result<()> {
        let (parent, name) = disk::split(place);
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG.into());
        }
        check_length(place)?;
        match self.find(parent)? {
            Found::Nothing => return Err(Errno::NOENT.into()),
            Found::Staged(_, FileType::Directory) => return Ok(()),
            Found::Staged(..) => return Err(Errno::NOTDIR.into()),
            Found::Disk => drop(self.open_parent(parent)?),
        }
        if self.state().entries.contains_key(place) {
            // Something of the disk's was removed here; that was observed.
            return Ok(());
        }
        self.observe(place, None)
    }

    /// Opens a directory of the disk in which names are to be changed, if that is possible.
    pub(super) fn open_parent(&self, parent: &str) -> io::Result<OwnedFd> {
        let directory = disk::open(&*self.disk, parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&directory, ".", access, AtFlags::EACCESS)?;
        if self.staging()?.device != rustix::fs::fstat(&directory)?.st_dev {
            return Err(Refused::unsupported(format!(
                "{parent} is on another file system than the workspace: no transaction can \
                 cover both"
            )));
        }
        Ok(directory)
    }

    pub(super) fn new_id(&self, quota: &Quota) -> io::Result<u32> {
        quota.take_file()?;
        let mut state = self.state();
        state.next += 1;
        Ok(state.next)
    }

    fn new_file(&self, quota: &Quota) -> io::Result<(u32, File)> {
        let id = self.new_id(quota)?;
        Ok((id, disk::create(self.stage()?, &self.image_name(id))?))
    }

    /// A staged inode that may be written: the one there is, or its copy where that is part of
    /// a savepoint.
    fn writable(
        &self,
        place: &str,
        id: u32,
        kind: FileType,
        content: bool,
        quota: &Quota,
    ) -> io::Result<u32> {
        if id > self.state().kept || kind != FileType::RegularFile {
            return Ok(id);
        }
        let from = disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?;
        let from = File::from(from);
        let copy = self.copy(&from, &rustix::fs::fstat(&from)?, content, quota)?;
        self.insert(place, Entry::Staged(copy, kind));
        Ok(copy)
    }

    /// Stages the disk's file at `place`, with its permissions, owner and attributes.
    pub(super) fn stage_file(&self, place: &str, content: bool, quota: &Quota) -> io::Result<u32> {
        let file = self.open_disk(place)?;
        let stat = rustix::fs::fstat(&file)?;
        match disk::file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Refused::unsupported(format!("{place} is no regular file"))),
        }
        check_names(place, &stat)?;
        let (parent, name) = disk::split(place);
        let parent = self.open_parent(parent)?;
        rustix::fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)?;
        self.observe(place, Some(&stat))?;
        self.copy(&file, &stat, content, quota)
    }

    /// Stages the disk's directory at `place`, with its permissions and times.
    pub(super) fn stage_directory(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        let stat = disk::stat(&*self.disk, place)?;
        self.observe(place, Some(&stat))?;
        let id = self.new_id(quota)?;
        disk::create_directory(self.stage()?, &self.image_name(id), disk::ANYBODY)?;
        self.set_staged_mode(id, stat.st_mode & 0o7777)?;
        self.set_staged_times(id, &disk::times(&stat))?;
        Ok(id)
    }

    /// Stages the disk's link at `place`, with its times.
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

    /// Stages a copy of a file from elsewhere at `place`, in place of what is there.
    pub(crate) fn restore(&self, place: &str, from: &File, quota: &Quota) -> io::Result<()> {
        self.make_room(place)?;
        let id = self.copy(from, &rustix::fs::fstat(from)?, true, quota)?;
        self.insert(place, Entry::Staged(id, FileType::RegularFile));
        Ok(())
    }

    /// Stages a file from elsewhere at `place`, in place of what is there, and answers what is
    /// staged: the file itself, or a copy where it has other names or another file system.
    /// `content` is the file, open.
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

    /// Removes what may be at `place` for a file that comes there.
    fn make_room(&self, place: &str) -> io::Result<()> {
        if let Some(kind) = self.kind(place)? {
            if kind == FileType::Directory {
                return Err(Errno::ISDIR.into());
            }
            self.remove_file(place)?;
        }
        self.prepare_new(place)
    }

    /// The staged inode of what is at `place`, made where there is none.
    fn staged(&self, place: &str, quota: &Quota) -> io::Result<u32> {
        match self.find(place)? {
            Found::Nothing => Err(Errno::NOENT.into()),
            Found::Staged(id, kind) => self.writable(place, id, kind, true, quota),
            Found::Disk => {
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

    /// Lets everybody execute the file who may read it, or nobody.
    ///
    /// # Errors
    /// [`Refused`] for what is not a file; those of staging.
    pub fn set_executable(&self, place: &str, executable: bool, quota: &Quota) -> io::Result<()> {
        let stat = self.look(place, true)?;
        if disk::file_type(&stat) != FileType::RegularFile {
            return Err(Refused::unsupported(format!("{place} is no regular file")));
        }
        let mode = stat.st_mode & 0o7777;
        let wanted = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        if wanted == mode {
            return Ok(());
        }
        self.set_staged_mode(self.staged(place, quota)?, wanted)
    }

    /// Sets the permissions of something new.
    pub(crate) fn set_mode(&self, place: &str, mode: u32) -> io::Result<()> {
        self.set_staged_mode(self.staged(place, &Quota::unlimited())?, mode)
    }

    fn set_staged_mode(&self, id: u32, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(self.stage()?, self.image_name(id), mode, AtFlags::empty())?)
    }

    /// Sets when something was last written, in nanoseconds since the epoch.
    pub(crate) fn set_modified(&self, place: &str, modified: i64) -> io::Result<()> {
        let time = disk::timespec(modified);
        let times = Timestamps { last_access: time, last_modification: time };
        self.set_times(place, &times, &Quota::unlimited())
    }
}

/// Refuses a file with several names: changing it would change a file elsewhere, and the history
/// would be one more place.
pub(super) fn check_names(place: &str, stat: &Stat) -> io::Result<()> {
    if stat.st_nlink > 1 && disk::file_type(stat) != FileType::Directory {
        return Err(Refused::unsupported(format!(
            "{place} is a file with several hard links; changing it would change a file elsewhere"
        )));
    }
    Ok(())
}
