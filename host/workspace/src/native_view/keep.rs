//! Reading back the program's changes: every difference from the files that it was shown becomes a
//! change of the transaction.
//!
//! An overlayfs contains only staged and changed files, with marks for removed ones; a copy contains
//! all files. In both, a file that was shown and does not exist any more was removed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use cofferdam_core::policy::is_own;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};

use super::attributes;
use super::shown::{ShownFile, ShownFiles};
use crate::disk::StatFields as _;
use crate::disk::{self, Listed, Spot};
use crate::error::{Refused, about};
use crate::file_fingerprint::is_same_content;
use crate::overlay::Overlay;
use crate::path::{self, MAX_PATH, join};
use crate::quota::Quota;

/// The permission bits that a program can set.
const PERMISSIONS: u32 = 0o777;

/// Adds the changes of a run to a tree.
pub(super) struct Keep<'a> {
    pub(super) tree: &'a Overlay,
    pub(super) quota: &'a Quota,
    pub(super) allow: &'a dyn Fn(&str) -> io::Result<()>,
    /// The directory that the program has changed.
    pub(super) root: &'a OwnedFd,
    /// The files that the program was shown in it.
    pub(super) shown: &'a ShownFiles,
}

impl Keep<'_> {
    /// Adds all changes of the run.
    pub(super) fn all(&self) -> io::Result<()> {
        rustix::fs::fchmod(self.root, Mode::RWXU)?;
        self.directories(vec![String::new()])
    }

    /// Adds the changes of the run in some files and directories. What does not exist after the run
    /// is left as it was.
    pub(super) fn only(&self, places: &[String]) -> io::Result<()> {
        rustix::fs::fchmod(self.root, Mode::RWXU)?;
        places.iter().try_for_each(|place| self.named(place).map_err(|error| about(place, error)))
    }

    fn named(&self, place: &str) -> io::Result<()> {
        let mut above = String::new();
        let mut names = place.split('/').peekable();
        while let Some(name) = names.next() {
            let directory = match disk::open(self.root, &above, OFlags::RDONLY | OFlags::DIRECTORY)
            {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                directory => directory?,
            };
            let below = join(&above, name);
            let is_directory = match self.entry(&directory, name, &below) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                entry => entry?,
            };
            if !is_directory {
                return Ok(());
            }
            if names.peek().is_none() {
                return self.directories(vec![below]);
            }
            above = below;
        }
        Ok(())
    }

    /// Adds the changes in directories, and in those below.
    fn directories(&self, mut waiting: Vec<String>) -> io::Result<()> {
        // No recursion, and no directory stays open: a program can nest them very deeply.
        while let Some(place) = waiting.pop() {
            self.directory(&place, &mut waiting).map_err(|error| about(&place, error))?;
        }
        Ok(())
    }

    /// Adds the changes in a directory, which exists in the tree as well.
    fn directory(&self, place: &str, waiting: &mut Vec<String>) -> io::Result<()> {
        let directory = disk::open(self.root, place, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let is_opaque = self.is_opaque(&directory, place)?;
        let names = names(&directory, place)?;
        let before = match self.tree.list(place) {
            // The program could not see its contents.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Vec::new(),
            before => before?,
        };
        for Listed { name, .. } in before {
            let Some(name) = name.to_str().filter(|name| !names.contains(*name)) else { continue };
            let below = join(place, name);
            let was_shown = match self.shown.get(&below) {
                Some(shown) => *shown != ShownFile::Substitute,
                None => is_opaque && !is_own(&below),
            };
            if was_shown {
                self.remove(&below)?;
            }
        }
        for name in &names {
            let below = join(place, name);
            if self.entry(&directory, name, &below).map_err(|error| about(&below, error))? {
                waiting.push(below);
            }
        }
        Ok(())
    }

    /// Adds the changes of one entry of a directory. Returns whether it is a directory itself.
    fn entry(&self, directory: &OwnedFd, name: &str, place: &str) -> io::Result<bool> {
        let shown = self.shown.get(place);
        if is_own(place) || shown == Some(&ShownFile::Substitute) {
            return Ok(false);
        }
        path::check_length(place).map_err(|_| {
            Refused::unsupported(format!("the program made a path of more than {MAX_PATH} bytes"))
        })?;
        let spot = Spot::of(directory, name)?;
        let stat = spot.stat()?;
        let kind = disk::file_type(&stat);
        if kind == FileType::Directory {
            // The program may have removed the owner's permissions.
            let opened = disk::permissions(stat.mode() & PERMISSIONS) | Mode::RWXU;
            rustix::fs::chmodat(directory, name, opened, AtFlags::empty())?;
            self.enter(place, &stat)?;
            return Ok(true);
        }
        if shown == Some(&ShownFile::of(&stat)) {
            return Ok(false);
        }
        let before = self.before(place)?;
        match kind {
            FileType::RegularFile => self.file(directory, place, &stat, before)?,
            FileType::Symlink => self.link(&spot, place, &stat, before)?,
            // A mark for a removed file, or a file of a kind that is not kept.
            _ if before.is_some() => self.remove(place)?,
            _ => {}
        }
        Ok(false)
    }

    fn before(&self, place: &str) -> io::Result<Option<Stat>> {
        match self.tree.stat(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            stat => stat.map(Some),
        }
    }

    /// Creates a directory in the tree, unless it exists.
    fn enter(&self, place: &str, stat: &Stat) -> io::Result<()> {
        match self.before(place)? {
            Some(before) if disk::file_type(&before) == FileType::Directory => return Ok(()),
            Some(_) => self.remove(place)?,
            None => (self.allow)(place)?,
        }
        self.tree.create_directory(place, self.quota)?;
        // Without the owner's permissions, no file could be created in it.
        self.tree.set_mode(place, stat.mode() & PERMISSIONS | 0o700)?;
        self.tree.set_modified(place, disk::modified(stat))
    }

    fn file(
        &self,
        directory: &OwnedFd,
        place: &str,
        stat: &Stat,
        before: Option<Stat>,
    ) -> io::Result<()> {
        let name = disk::split(place).1;
        // The host has to read the file later.
        let mode = stat.mode() & PERMISSIONS | 0o400;
        let lifted = disk::permissions(mode | 0o600);
        rustix::fs::chmodat(directory, name, lifted, AtFlags::empty())?;
        let content: File = disk::open(directory, name, OFlags::RDONLY)?.into();
        self.is_opaque(&content, place)?;
        match before {
            // An overlayfs copies a file that is only opened for writing.
            Some(before)
                if is_same_metadata(&before, stat, mode)
                    && is_same_content(self.tree.open_read(place)?.0, &content)? =>
            {
                return Ok(());
            }
            Some(before) if disk::file_type(&before) == FileType::Directory => {
                self.remove(place)?
            }
            _ => (self.allow)(place)?,
        }
        let file = self.tree.adopt(place, &Spot::of(directory, name)?, &content, self.quota)?;
        if let Some(before) = before {
            // Only root can change the owner; the group may be one of the user's.
            let group = Some(Gid::from_raw(before.st_gid));
            let _ = rustix::fs::fchown(&file, Some(Uid::from_raw(before.st_uid)), group)
                .or_else(|_| rustix::fs::fchown(&file, None, group));
        }
        attributes::strip(&file)?;
        Ok(rustix::fs::fchmod(&file, disk::permissions(mode))?)
    }

    fn link(
        &self,
        spot: &Spot<'_>,
        place: &str,
        stat: &Stat,
        before: Option<Stat>,
    ) -> io::Result<()> {
        let target = String::from_utf8(spot.read_link()?).map_err(|error| {
            let target = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Refused::unsupported(format!("{place} is a link to {target:?}, which is no UTF-8"))
        })?;
        let is_link = before.is_some_and(|before| disk::file_type(&before) == FileType::Symlink);
        if is_link && self.tree.read_link(place)? == target {
            return Ok(());
        }
        path::link_target(place, &target).and_then(|target| (self.allow)(&target)).map_err(
            |error| match Refused::of(&error) {
                Some(refused) => Refused::denied(format!("the program made {place}: {refused}")),
                None => error,
            },
        )?;
        match before {
            Some(_) => self.remove(place)?,
            None => (self.allow)(place)?,
        }
        self.tree.create_link(&target, place, self.quota)?;
        self.tree.set_modified(place, disk::modified(stat))
    }

    /// Removes a file or directory from the tree, recursively.
    fn remove(&self, place: &str) -> io::Result<()> {
        let mut waiting = vec![(place.to_owned(), false)];
        while let Some((place, is_empty)) = waiting.pop() {
            let remove = || {
                (self.allow)(&place)?;
                let Some(stat) = self.before(&place)? else { return Ok(Vec::new()) };
                if disk::file_type(&stat) != FileType::Directory {
                    self.tree.remove_file(&place)?;
                } else if is_empty {
                    self.tree.remove_directory(&place)?;
                } else {
                    let below =
                        self.tree.list(&place)?.into_iter().map(|Listed { name, .. }| {
                            let name = name.to_str().ok_or_else(|| no_text(&place, &name))?;
                            Ok((join(&place, name), false))
                        });
                    // The directory itself is removed after its contents.
                    let own = Ok((place.clone(), true));
                    return [own].into_iter().chain(below).collect::<io::Result<Vec<_>>>();
                }
                Ok(Vec::new())
            };
            waiting.extend(remove().map_err(|error| about(&place, error))?);
        }
        Ok(())
    }

    fn is_opaque(&self, file: impl std::os::fd::AsFd, place: &str) -> io::Result<bool> {
        attributes::is_opaque(file).map_err(|error| match Refused::of(&error) {
            Some(refused) => {
                let place = if place.is_empty() { "the workspace" } else { place };
                Refused::unsupported(format!("{place} {refused}"))
            }
            None => error,
        })
    }
}

/// Whether both are regular files of the same size and modification time, and `mode` is the old mode.
fn is_same_metadata(before: &Stat, now: &Stat, mode: u32) -> bool {
    disk::file_type(before) == FileType::RegularFile
        && before.mode() & PERMISSIONS == mode
        && before.st_size == now.st_size
        && disk::modified(before) == disk::modified(now)
}

/// Returns the names in a directory, which have to be UTF-8.
fn names(directory: &OwnedFd, place: &str) -> io::Result<BTreeSet<String>> {
    let text =
        |entry: io::Result<Listed>| entry?.name.into_string().map_err(|name| no_text(place, &name));
    disk::entries(directory)?.map(text).collect()
}

fn no_text(place: &str, name: &std::ffi::OsStr) -> io::Error {
    Refused::unsupported(format!("the name {} is no UTF-8", join(place, &name.to_string_lossy())))
}
