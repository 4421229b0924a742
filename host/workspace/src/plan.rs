//! The changes that a transaction makes to the disk, in order, and the check that the disk is still
//! as the transaction saw it.

use std::fs::File;
use std::io;

use rustix::fs::{FileType, OFlags, Stat};

use crate::clock::now;
use crate::commit::{Change, DirectoryTimes, Image, Kind, net, parents};
use crate::disk;
use crate::error::CommitError;
use crate::overlay::{Entry, Overlay};

/// Returns the changes to make, in order, and the directories whose entries they change.
///
/// # Errors
/// [`CommitError::Conflict`] if another program has changed a place; [`CommitError::Io`].
pub(crate) fn plan(overlay: &Overlay) -> Result<(Vec<Change>, Vec<DirectoryTimes>), CommitError> {
    let mut plan = Plan::new(overlay);
    for (place, entry) in overlay.entries() {
        plan.add(&place, entry).map_err(|source| CommitError::Io { place, source })?;
    }
    if !plan.conflicts.is_empty() {
        return Err(CommitError::Conflict(plan.conflicts));
    }
    let Plan { mut removals, placements, .. } = plan;
    removals.extend(placements);
    let parents = parents(&removals);
    let net = net(&removals);
    let after = now();
    let directories = parents
        .into_iter()
        .map(|path| {
            let stat = disk::stat(overlay.disk(), path);
            let before = stat.map_or(0, |stat| disk::modified(&stat));
            let after = match net.get(path) {
                // A directory of the transaction keeps the time that it has in the stage.
                Some((_, Some(image))) if image.kind == Kind::Directory => image.modified,
                _ => after,
            };
            DirectoryTimes { path: path.to_owned(), before, after }
        })
        .collect();
    Ok((removals, directories))
}

/// Converts entries into changes, and compares the disk with what the transaction saw.
struct Plan<'a> {
    overlay: &'a Overlay,
    removals: Vec<Change>,
    placements: Vec<Change>,
    conflicts: Vec<String>,
    /// Places whose entries hide everything beneath them on the disk.
    covers: Vec<String>,
}

impl<'a> Plan<'a> {
    fn new(overlay: &'a Overlay) -> Self {
        Self {
            overlay,
            removals: Vec::new(),
            placements: Vec::new(),
            conflicts: Vec::new(),
            covers: Vec::new(),
        }
    }

    /// Adds an entry. The entry of a directory is added before those of its contents.
    fn add(&mut self, place: &str, entry: Entry) -> io::Result<()> {
        let is_covered = place.match_indices('/').any(|(end, _)| {
            self.covers.binary_search_by(|cover| (**cover).cmp(&place[..end])).is_ok()
        });
        let on_disk = if is_covered { None } else { self.look(place)? };
        self.covers.push(place.to_owned());
        let staged = match entry {
            Entry::Gone => None,
            Entry::Staged(id, kind) => {
                let name = self.overlay.image_name(id);
                let stat = disk::stat(self.overlay.stage()?, &name)?;
                Some((Image::of(&stat, name), kind))
            }
        };
        match (on_disk, staged) {
            (None, None) => {}
            (Some(stat), None) => self.remove_tree(place, stat)?,
            (None, Some((after, _))) => self.place(place, None, after),
            (Some(stat), Some((after, kind))) => {
                let is_directory = |kind| kind == FileType::Directory;
                if is_directory(kind) || is_directory(disk::file_type(&stat)) {
                    self.remove_tree(place, stat)?;
                    self.place(place, None, after);
                } else {
                    let before = Image::of(&stat, after.name.clone());
                    self.place(place, Some(before), after);
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, place: &str, before: Option<Image>, after: Image) {
        self.placements.push(Change { path: place.to_owned(), before, after: Some(after) });
    }

    /// Returns what is at a place of the disk. Notes a conflict if the transaction saw something
    /// else there.
    fn look(&mut self, place: &str) -> io::Result<Option<Stat>> {
        let stat = disk::find(self.overlay.disk(), place)?;
        let holds = match (self.overlay.seen(place), &stat) {
            (Some(None), None) => true,
            (Some(Some(seen)), Some(stat)) => seen.holds(stat, || {
                disk::open(self.overlay.disk(), place, OFlags::RDONLY).map(File::from)
            })?,
            // The transaction never looked: another program has changed it.
            _ => false,
        };
        if !holds {
            self.conflicts.push(place.to_owned());
        }
        Ok(stat)
    }

    /// Removes what is on the disk, the contents of a directory before the directory.
    fn remove_tree(&mut self, place: &str, stat: Stat) -> io::Result<()> {
        let mut found = vec![(place.to_owned(), stat)];
        let mut next = 0;
        while let Some((place, stat)) = found.get(next) {
            next += 1;
            if disk::file_type(stat) != FileType::Directory {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let directory = disk::open(self.overlay.disk(), place, flags)?;
            let place = place.clone();
            for entry in disk::entries(&directory)? {
                let name = entry?.name;
                let Some(name) = name.to_str() else {
                    self.conflicts.push(format!("{place}/{}", name.display()));
                    continue;
                };
                let below = format!("{place}/{name}");
                if let Some(stat) = self.look(&below)? {
                    found.push((below, stat));
                }
            }
        }
        for (path, stat) in found.into_iter().rev() {
            let name = self.overlay.image_name(format_args!("r{}", self.removals.len()));
            let before = Some(Image::of(&stat, name));
            self.removals.push(Change { path, before, after: None });
        }
        Ok(())
    }
}
