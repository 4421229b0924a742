//! Making the changes of a manifest, one rename or exchange each, and taking them back. Each sees
//! whether it was made, so that whoever comes after a crash can go on.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, OFlags};

use super::CommitError;
use super::disk::{self, Spot};
use super::manifest::{Change, FILE, Image, Kind, Manifest};

/// Where a manifest is written before it counts.
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

/// Writes a manifest, which gets its name when it is whole. `is_durable`: it is to be on the disk
/// by then. Before that, `ready` may still say no.
pub(super) fn write_manifest(
    stage: &OwnedFd,
    encoded: &[u8],
    is_durable: bool,
    ready: impl FnOnce() -> Result<(), CommitError>,
) -> Result<(), CommitError> {
    let own = |source| CommitError::Io { place: super::OWN.to_owned(), source };
    let mut file = disk::create(stage, TEMPORARY).map_err(own)?;
    file.write_all(encoded).map_err(own)?;
    if is_durable {
        disk::sync(file).and_then(|()| disk::sync(stage)).map_err(own)?;
    }
    ready()?;
    disk::rename(stage, TEMPORARY, stage, FILE).map_err(own)?;
    if is_durable { disk::sync(stage).map_err(own) } else { Ok(()) }
}

/// Makes all changes of a manifest. Where one can't be made, takes all of them back.
pub(super) fn carry_out(
    root: &OwnedFd,
    stage: &OwnedFd,
    manifest: &Manifest,
) -> Result<(), CommitError> {
    for (index, change) in manifest.changes.iter().enumerate() {
        let Err(trouble) = make(root, stage, change) else { continue };
        let place = change.path.clone();
        take_back(root, stage, manifest, index)?;
        return Err(match trouble {
            Trouble::Conflict => CommitError::Conflict(vec![place]),
            Trouble::Io(source) => CommitError::Io { place, source },
        });
    }
    set_directory_times(root, manifest);
    Ok(())
}

/// Makes those changes of a manifest that a host which died has not made yet, and returns which of
/// them can't be made since another program has changed what is there: that stays as it is. Takes
/// nothing back: the commit was made, and others may have gone on from it.
pub(super) fn finish(
    root: &OwnedFd,
    stage: &OwnedFd,
    manifest: &Manifest,
) -> Result<Vec<usize>, CommitError> {
    let mut conflicts = Vec::new();
    for (index, change) in manifest.changes.iter().enumerate() {
        let made = was_made(root, stage, change).map_err(Trouble::from);
        match made.and_then(|made| if made { Ok(()) } else { make(root, stage, change) }) {
            Ok(()) => {}
            Err(Trouble::Conflict) => conflicts.push(index),
            Err(Trouble::Io(source)) => {
                return Err(CommitError::Io { place: change.path.clone(), source });
            }
        }
    }
    set_directory_times(root, manifest);
    Ok(conflicts)
}

/// Whether a change was made before the host died, going by what is staged: the workspace may have
/// been changed since. So what was there before is never taken for something to throw away.
fn was_made(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> io::Result<bool> {
    match (&change.before, &change.after) {
        (None, Some(after)) => Ok(disk::look(stage, &after.name)?.is_none()),
        (Some(_), Some(after)) => {
            restore_aside(stage, after)?;
            Ok(disk::look(stage, &after.name)?.is_some_and(|stat| stat.st_ino != after.inode))
        }
        (Some(before), None) => was_removed(root, stage, &change.path, before),
        (None, None) => Ok(true),
    }
}

fn was_removed(root: &OwnedFd, stage: &OwnedFd, path: &str, before: &Image) -> io::Result<bool> {
    let kept = Spot::of(stage, &before.name)?;
    let Some(stat) = kept.look()? else { return Ok(false) };
    let target = match Spot::of(root, path) {
        // Its directory is gone as well.
        Err(error) if is_gone(&error) => return Ok(true),
        target => target?,
    };
    match target.look()? {
        // A file system that moves in two steps: the second one.
        Some(there) if there.st_ino == stat.st_ino => target.remove().map(|()| true),
        // Not what was meant, and the host died before it could put it back.
        None if !before.is(&stat) => kept.move_to(&target).map(|()| false),
        // Something else is there by now: this one goes to the history.
        _ => Ok(true),
    }
}

/// Finishes an exchange on a file system that has none, and takes three steps for it.
fn restore_aside(stage: &OwnedFd, image: &Image) -> io::Result<()> {
    let aside = disk::aside(&image.name);
    if disk::look(stage, &aside)?.is_none() {
        return Ok(());
    }
    match disk::look(stage, &image.name)? {
        None => disk::rename(stage, &aside, stage, &image.name),
        // Nothing was replaced yet.
        Some(_) => disk::remove(stage, &aside, AtFlags::empty()),
    }
}

fn set_directory_times(root: &OwnedFd, manifest: &Manifest) {
    let is_single = manifest.changes.len() == 1;
    for directory in &manifest.directories {
        let set = set_directory_time(root, &directory.path, directory.after);
        let synced = set.and_then(|opened| if is_single { Ok(()) } else { disk::sync(opened) });
        if let Err(error) = synced {
            // It is only a time, or a directory that somebody has removed by now.
            tracing::debug!("{}: {error}", directory.path);
        }
    }
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

/// Makes one change.
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

/// Takes back those of the changes up to the `last` that were made, the last one first, and with
/// the manifest the commit itself.
fn take_back(
    root: &OwnedFd,
    stage: &OwnedFd,
    manifest: &Manifest,
    last: usize,
) -> Result<(), CommitError> {
    for change in manifest.changes.iter().take(last + 1).rev() {
        // Where it fails, the manifest stays: recovery goes on from there.
        let place = || change.path.clone();
        unmake(root, stage, change).map_err(|trouble| match trouble {
            Trouble::Io(source) => CommitError::Unfinished { place: place(), source },
            Trouble::Conflict => CommitError::Unfinished {
                place: place(),
                source: io::Error::other("another program has changed it meanwhile"),
            },
        })?;
    }
    for directory in manifest.directories.iter().filter(|directory| directory.before != 0) {
        // A time at most.
        let _ = set_directory_time(root, &directory.path, directory.before);
    }
    let own = |source| CommitError::Unfinished { place: super::OWN.to_owned(), source };
    disk::remove(stage, FILE, AtFlags::empty()).map_err(own)?;
    // A power cut must not bring it back: there is an answer that nothing was changed.
    if manifest.changes.len() > 1 { disk::sync(stage).map_err(own) } else { Ok(()) }
}

/// Takes back a change if it was made. A conflict where another program has changed what was placed:
/// there is no room then for what was there before.
fn unmake(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), Trouble> {
    let target = match spot(root, &change.path) {
        // There is nothing of ours in a directory that is not there.
        Err(Trouble::Conflict) => return Ok(()),
        target => target?,
    };
    let there = target.look()?;
    match (&change.before, &change.after) {
        (before, Some(after)) => {
            let staged = Spot::of(stage, &after.name)?;
            if there.is_some_and(|stat| after.is(&stat)) {
                return match before {
                    Some(_) => Ok(staged.exchange(&target)?),
                    None => Ok(target.move_to(&staged)?),
                };
            }
            let is_theirs =
                before.is_some() && staged.look()?.is_none_or(|stat| stat.st_ino != after.inode);
            if is_theirs { Err(Trouble::Conflict) } else { Ok(()) }
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            match (kept.look()?, there) {
                (Some(_), None) => Ok(kept.move_to(&target)?),
                (Some(stat), Some(there)) if stat.st_ino == there.st_ino => Ok(()),
                (Some(_), Some(_)) => Err(Trouble::Conflict),
                (None, _) => Ok(()),
            }
        }
        (None, None) => Ok(()),
    }
}
