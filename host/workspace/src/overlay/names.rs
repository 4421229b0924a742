//! Operations on names: creating directories and links, removing, renaming.

use std::io;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::staging::check_hard_links;
use super::state::{Entry, Location};
use super::tree::Overlay;
use crate::disk::{self, Listed};
use crate::error::Refused;
use crate::path::check_length;
use crate::quota::Quota;

impl Overlay {
    /// Removes a file or a link.
    ///
    /// # Errors
    /// As `unlink` in POSIX; [`Refused`] for what can't be changed.
    pub fn remove_file(&self, place: &str) -> io::Result<()> {
        self.check_writable()?;
        let stage = self.stage()?;
        match self.find(place)? {
            Location::Nothing => return Err(Errno::NOENT.into()),
            Location::Staged(_, FileType::Directory) => return Err(Errno::ISDIR.into()),
            Location::Staged(id, _) => {
                if id > self.state().kept {
                    disk::remove(stage, &self.image_name(id), AtFlags::empty())?;
                }
            }
            Location::Disk => {
                let stat = disk::stat(&*self.disk, place)?;
                if disk::file_type(&stat) == FileType::Directory {
                    return Err(Errno::ISDIR.into());
                }
                check_hard_links(place, &stat)?;
                self.open_parent(disk::split(place).0)?;
                self.observe(place, Some(&stat))?;
            }
        }
        self.detach(place)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `rmdir` in POSIX.
    pub fn remove_directory(&self, place: &str) -> io::Result<()> {
        self.check_writable()?;
        if place.is_empty() {
            return Err(Errno::BUSY.into());
        }
        let found = self.find(place)?;
        match self.kind(place)? {
            None => return Err(Errno::NOENT.into()),
            Some(FileType::Directory) => {}
            Some(_) => return Err(Errno::NOTDIR.into()),
        }
        if !self.list(place)?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        match found {
            Location::Staged(id, _) if id > self.state().kept => {
                disk::remove(self.stage()?, &self.image_name(id), AtFlags::REMOVEDIR)?;
            }
            Location::Disk => {
                self.open_parent(disk::split(place).0)?;
                self.observe(place, Some(&disk::stat(&*self.disk, place)?))?;
            }
            _ => {}
        }
        self.forget_below(place);
        self.detach(place)
    }

    /// Creates a directory, whose parent has to exist.
    ///
    /// # Errors
    /// As `mkdir` in POSIX; `EDQUOT`.
    pub fn create_directory(&self, place: &str, quota: &Quota) -> io::Result<()> {
        if self.kind(place)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.prepare_new(place)?;
        let id = self.new_id(quota)?;
        disk::create_directory(self.stage()?, &self.image_name(id), disk::DEFAULT_MODE)?;
        self.insert(place, Entry::Staged(id, FileType::Directory));
        Ok(())
    }

    /// Creates a symbolic link. The caller checks the target.
    ///
    /// # Errors
    /// As `symlink` in POSIX; `EDQUOT`.
    pub fn create_link(&self, target: &str, place: &str, quota: &Quota) -> io::Result<()> {
        if self.kind(place)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.prepare_new(place)?;
        let id = self.new_id(quota)?;
        disk::create_link(self.stage()?, &self.image_name(id), target)?;
        self.insert(place, Entry::Staged(id, FileType::Symlink));
        Ok(())
    }

    /// Renames a file, a link or a directory with everything beneath; calls `allow` for every old and
    /// every new place.
    ///
    /// # Errors
    /// As `rename` in POSIX; those of `allow`; [`Refused`] for what can't be changed.
    pub fn rename(
        &self,
        from: &str,
        to: &str,
        allow: &dyn Fn(&str) -> io::Result<()>,
        quota: &Quota,
    ) -> io::Result<()> {
        self.check_writable()?;
        let Some(kind) = self.kind(from)? else { return Err(Errno::NOENT.into()) };
        let is_directory = kind == FileType::Directory;
        if from.is_empty() || to.is_empty() {
            return Err(Errno::BUSY.into());
        }
        if from == to {
            return Ok(());
        }
        if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Errno::INVAL.into());
        }
        allow(from)?;
        allow(to)?;
        let replaced = self.kind(to)?;
        match replaced {
            Some(FileType::Directory) if !is_directory => return Err(Errno::ISDIR.into()),
            Some(FileType::Directory) if !self.list(to)?.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            Some(FileType::Directory) => {}
            Some(_) if is_directory => return Err(Errno::NOTDIR.into()),
            Some(_) => {}
            None => self.prepare_new(to)?,
        }
        if let Location::Disk = self.find(from)? {
            self.open_parent(disk::split(from).0)?;
        }
        // Everything is staged before the first entry is moved.
        let moved = self.stage_tree(from, to, allow, quota)?;
        match replaced {
            Some(FileType::Directory) => self.remove_directory(to)?,
            Some(_) => self.remove_file(to)?,
            None => {}
        }
        self.forget_below(from);
        self.detach(from)?;
        let mut state = self.state();
        for (rest, entry) in moved {
            state.entries.insert(format!("{to}{rest}"), entry);
        }
        Ok(())
    }

    /// Stages the file at `from` and everything beneath. Returns each entry with its place relative to
    /// `from`, which begins with `/` unless it is empty.
    fn stage_tree(
        &self,
        from: &str,
        to: &str,
        allow: &dyn Fn(&str) -> io::Result<()>,
        quota: &Quota,
    ) -> io::Result<Vec<(String, Entry)>> {
        let mut moved = Vec::new();
        let mut waiting = vec![(String::new(), self.kind(from)?.ok_or(Errno::NOENT)?)];
        while let Some((rest, kind)) = waiting.pop() {
            let place = format!("{from}{rest}");
            if !rest.is_empty() {
                let target = format!("{to}{rest}");
                check_length(&target)?;
                allow(&place)?;
                allow(&target)?;
            }
            let id = match (self.find(&place)?, kind) {
                (Location::Nothing, _) => return Err(Errno::NOENT.into()),
                (Location::Staged(id, _), _) => id,
                (Location::Disk, FileType::RegularFile) => self.stage_file(&place, true, quota)?,
                (Location::Disk, FileType::Directory) => self.stage_directory(&place, quota)?,
                (Location::Disk, FileType::Symlink) => self.stage_link(&place, quota)?,
                (Location::Disk, _) => {
                    return Err(Refused::unsupported(format!(
                        "{place} is no regular file, directory or link"
                    )));
                }
            };
            if kind == FileType::Directory {
                for Listed { name, kind, .. } in self.list(&place)? {
                    let name = name.into_string().map_err(|_| Errno::ILSEQ)?;
                    waiting.push((format!("{rest}/{name}"), kind));
                }
            }
            moved.push((rest, Entry::Staged(id, kind)));
        }
        Ok(moved)
    }

    fn detach(&self, place: &str) -> io::Result<()> {
        let on_disk = self.shows_disk(place)?;
        self.state().detach(place, on_disk);
        self.is_changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes the entries beneath a removed directory.
    fn forget_below(&self, place: &str) {
        let mut state = self.state();
        let below: Vec<String> = state.below(place).map(|(path, _)| path.clone()).collect();
        for path in below {
            state.entries.remove(&path);
        }
    }

    /// Whether a file on the disk at `place` would be visible without an entry there.
    fn shows_disk(&self, place: &str) -> io::Result<bool> {
        if self.state().nearest_above(place).is_some() {
            return Ok(false);
        }
        Ok(disk::look(&*self.disk, place)?.is_some())
    }
}
