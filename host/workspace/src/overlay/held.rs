//! The changes of a held commit, in the tree of a later call of its session.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, OFlags};

use super::state::Entry;
use super::tree::{Overlay, Staging};
use crate::commit::{Commit, Image, Kind, Net, net};
use crate::copying::copy_file;
use crate::disk::{self, Spot};
use crate::quota::Quota;

impl Overlay {
    /// Creates a tree for reading only, with the changes of a held commit on top. `images` is the
    /// directory of proposals, and nothing in it is removed as long as `lock` is open.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn with_held(
        disk: Arc<OwnedFd>,
        images: Arc<OwnedFd>,
        lock: OwnedFd,
        commit: &Commit,
    ) -> io::Result<Self> {
        let overlay =
            Self::over_proposals(disk, commit.id.to_string(), Staging::new(images, None)?, lock);
        let net = net(&commit.changes);
        for (path, (before, after)) in &net {
            let Shown::Image(image) = overlay.shown(path, *before, *after, &net)? else { continue };
            let entry = match image {
                None => Entry::Gone,
                Some(image) => Entry::Staged(number(&commit.id, image)?, file_type(image.kind)),
            };
            overlay.insert(path, entry);
        }
        overlay.state().kept = u32::MAX;
        Ok(overlay)
    }

    /// Stages the changes of a held commit; `images` is the directory of proposals. Returns the paths
    /// that are left out because the disk has something else there that a later commit must not
    /// remove.
    ///
    /// # Errors
    /// I/O errors; then nothing must be committed.
    pub(crate) fn stack(&self, images: &OwnedFd, commit: &Commit) -> io::Result<BTreeSet<String>> {
        let net = net(&commit.changes);
        let mut left_out = BTreeSet::new();
        for (path, (before, after)) in &net {
            let image = match self.shown(path, *before, *after, &net)? {
                Shown::Image(image) => image,
                Shown::Done => continue,
                Shown::LeftOut => {
                    left_out.insert((*path).to_owned());
                    continue;
                }
            };
            self.observe(path, disk::find(&*self.disk, path)?.as_ref())?;
            let entry = match image {
                None => Entry::Gone,
                Some(image) => {
                    Entry::Staged(self.link_image(images, image)?, file_type(image.kind))
                }
            };
            self.insert(path, entry);
        }
        let mut state = self.state();
        state.kept = state.next;
        self.is_changed.store(!state.entries.is_empty(), Ordering::Release);
        Ok(left_out)
    }

    /// Returns what a session sees of a change that is held.
    fn shown<'a>(
        &self,
        path: &str,
        before: Option<&Image>,
        after: Option<&'a Image>,
        net: &Net<'_>,
    ) -> io::Result<Shown<'a>> {
        let on_disk = disk::find(&*self.disk, path)?;
        let is_directory = on_disk.as_ref().map(disk::file_type) == Some(FileType::Directory);
        Ok(match after {
            None if on_disk.is_none() => Shown::Done,
            None if is_directory => {
                let was_directory = before.is_some_and(|before| before.kind == Kind::Directory);
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let entries = disk::list(disk::open(&*self.disk, path, flags)?)?;
                let is_removed = |name: &str| {
                    let below = net.get(format!("{path}/{name}").as_str());
                    below.is_some_and(|(_, after)| after.is_none())
                };
                let is_whole =
                    entries.iter().all(|entry| entry.name.to_str().is_some_and(is_removed));
                if was_directory && is_whole { Shown::Image(None) } else { Shown::LeftOut }
            }
            Some(image) if image.kind == Kind::Directory && is_directory => Shown::Done,
            Some(_) if is_directory => Shown::LeftOut,
            after => Shown::Image(after),
        })
    }

    /// Stages the new file of a held commit. The staged file is written no more: it may be a link to
    /// the one in the directory of proposals.
    fn link_image(&self, images: &OwnedFd, image: &Image) -> io::Result<u32> {
        let id = self.new_id(&Quota::unlimited())?;
        let (stage, name, from) = (self.stage()?, self.image_name(id), image.copy_name());
        match image.kind {
            Kind::Directory => {
                disk::create_directory(stage, &name, disk::DEFAULT_MODE)?;
                let mode = disk::permissions(image.mode);
                rustix::fs::chmodat(stage, &name, mode, AtFlags::empty())?;
            }
            Kind::Link => {
                let target = Spot::of(images, &from)?.read_link()?;
                let target = String::from_utf8(target).map_err(io::Error::other)?;
                disk::create_link(stage, &name, &target)?;
            }
            Kind::File | Kind::Other => {
                if disk::link(images, &*from, stage, &*name).is_err() {
                    let from: File = disk::open(images, &from, OFlags::RDONLY)?.into();
                    let stat = rustix::fs::fstat(&from)?;
                    copy_file(&from, &disk::create(stage, &name)?, &stat, true)?;
                }
            }
        }
        Ok(id)
    }
}

/// What a session sees of a change that is held.
enum Shown<'a> {
    /// The new file; `None`: nothing.
    Image(Option<&'a Image>),
    /// The disk, which is as the change would leave it.
    Done,
    /// The disk, which has other files there.
    LeftOut,
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File | Kind::Other => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
    }
}

/// The number in the name of an image.
fn number(commit: &str, image: &Image) -> io::Result<u32> {
    let number = image.name.strip_prefix(commit).and_then(|rest| rest.strip_prefix('.'));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
