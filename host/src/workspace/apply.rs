//! Making the changes of a manifest, one rename or exchange each, and taking them back. Each sees
//! whether it was made, so that whoever comes after a crash can go on.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, OFlags};

use super::CommitError;
use super::disk::{self, Spot};
use super::manifest::{Change, Directory, FILE, Image, Kind, Manifest};

/// Where a manifest of several changes is written before it counts.
pub(super) const TEMPORARY: &str = "manifest.json.new";

/// Why one change was not made.
enum Trouble {
    Conflict,
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether nothing is there, or nothing of the transaction's any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(error),
        Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP)
    )
}

pub(super) fn write_manifest(stage: &OwnedFd, name: &str, manifest: &Manifest) -> io::Result<File> {
    let mut file = disk::create(stage, name)?;
    file.write_all(&manifest.text()?)?;
    Ok(file)
}

/// Makes all changes of a manifest. Where one can't be made, takes all of them back; when
/// recovering, leaves what somebody else has changed as it is and notes it in the manifest.
pub(super) fn carry_out(
    root: &OwnedFd,
    stage: &OwnedFd,
    manifest: &mut Manifest,
    recovering: bool,
) -> Result<(), CommitError> {
    let is_single = manifest.changes.len() == 1;
    let mut conflicts = Vec::new();
    for (index, change) in manifest.changes.iter().enumerate() {
        let trouble = match make(root, stage, change) {
            Ok(()) => continue,
            Err(Trouble::Conflict) if recovering => {
                conflicts.push(change.path.clone());
                continue;
            }
            Err(trouble) => trouble,
        };
        let place = change.path.clone();
        take_back(root, stage, &manifest.changes[..=index], &manifest.directories)?;
        return Err(match trouble {
            Trouble::Conflict => CommitError::Conflict(vec![place]),
            Trouble::Io(source) => CommitError::Io { place, source },
        });
    }
    for directory in &manifest.directories {
        let set = set_directory_time(root, &directory.path, directory.after);
        let synced = set.and_then(|opened| if is_single { Ok(()) } else { disk::sync(opened) });
        if let Err(error) = synced {
            // It is only a time, or a directory that somebody has removed by now.
            tracing::debug!("{}: {error}", directory.path);
        }
    }
    if !conflicts.is_empty() {
        manifest.changes.retain(|change| !conflicts.contains(&change.path));
        manifest.conflicts = conflicts;
        let place = super::OWN.to_owned();
        disk::remove(stage, TEMPORARY, AtFlags::empty())
            .and_then(|()| write_manifest(stage, TEMPORARY, manifest))
            .and_then(disk::sync)
            .and_then(|()| disk::rename(stage, TEMPORARY, stage, FILE))
            .map_err(|source| CommitError::Io { place, source })?;
    }
    Ok(())
}

/// Sets the time of a directory, and returns the directory.
fn set_directory_time(root: &OwnedFd, place: &str, time: i64) -> io::Result<OwnedFd> {
    let directory = disk::open(root, place, OFlags::RDONLY | OFlags::DIRECTORY)?;
    disk::set_modified(&Spot::of(&directory, ".")?, time)?;
    Ok(directory)
}

/// The spot of a path of the workspace. A directory that is not there any more, or not one any
/// more, is somebody else's doing.
fn spot<'a>(root: &'a OwnedFd, path: &'a str) -> Result<Spot<'a>, Trouble> {
    Spot::of(root, path)
        .map_err(|error| if is_gone(&error) { Trouble::Conflict } else { Trouble::Io(error) })
}

/// Makes one change, unless it was made already.
fn make(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), Trouble> {
    let target = spot(root, &change.path)?;
    let there = target.look()?;
    match (&change.before, &change.after) {
        (_, Some(after)) if there.as_ref().is_some_and(|stat| after.is(stat)) => Ok(()),
        (None, Some(after)) => {
            if there.is_some() {
                return Err(Trouble::Conflict);
            }
            match Spot::of(stage, &after.name)?.move_to(&target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(Trouble::Conflict)
                }
                moved => Ok(moved?),
            }
        }
        (Some(before), Some(after)) => {
            if !there.is_some_and(|stat| before.is(&stat)) {
                return Err(Trouble::Conflict);
            }
            let staged = Spot::of(stage, &after.name)?;
            staged.exchange(&target)?;
            if !before.is(&staged.stat()?) {
                // Somebody was faster.
                staged.exchange(&target)?;
                return Err(Trouble::Conflict);
            }
            Ok(())
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            if kept.look()?.is_some_and(|stat| before.is(&stat)) {
                return Ok(());
            }
            if !there.is_some_and(|stat| before.is(&stat)) {
                return Err(Trouble::Conflict);
            }
            target.move_to(&kept)?;
            if before.is(&kept.stat()?) && is_empty(stage, before)? {
                Ok(())
            } else {
                kept.move_to(&target)?;
                Err(Trouble::Conflict)
            }
        }
        (None, None) => Ok(()),
    }
}

/// Whether a directory that was taken out is empty; anything else counts as such.
fn is_empty(stage: &OwnedFd, image: &Image) -> io::Result<bool> {
    if image.kind != Kind::Directory {
        return Ok(true);
    }
    let directory = disk::open(stage, &image.name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    disk::is_empty(directory)
}

/// Takes back those of the changes that were made, the last one first, and with the manifest
/// the commit itself.
fn take_back(
    root: &OwnedFd,
    stage: &OwnedFd,
    changes: &[Change],
    directories: &[Directory],
) -> Result<(), CommitError> {
    for change in changes.iter().rev() {
        if let Err(Trouble::Io(source)) = unmake(root, stage, change) {
            // The manifest stays: recovery tries again.
            return Err(CommitError::Unfinished { place: change.path.clone(), source });
        }
    }
    for directory in directories.iter().filter(|directory| directory.before != 0) {
        // A time at most.
        let _ = set_directory_time(root, &directory.path, directory.before);
    }
    disk::remove(stage, FILE, AtFlags::empty())
        .map_err(|source| CommitError::Unfinished { place: super::OWN.to_owned(), source })
}

fn unmake(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), Trouble> {
    let target = match spot(root, &change.path) {
        // There is nothing of ours in a directory that is not there.
        Err(Trouble::Conflict) => return Ok(()),
        target => target?,
    };
    let there = target.look()?;
    match (&change.before, &change.after) {
        (before, Some(after)) => {
            if !there.is_some_and(|stat| after.is(&stat)) {
                return Ok(());
            }
            let staged = Spot::of(stage, &after.name)?;
            match before {
                Some(_) => Ok(staged.exchange(&target)?),
                None => Ok(target.move_to(&staged)?),
            }
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            match (kept.look()?, there) {
                (Some(stat), None) if before.is(&stat) => Ok(kept.move_to(&target)?),
                _ => Ok(()),
            }
        }
        (None, None) => Ok(()),
    }
}
