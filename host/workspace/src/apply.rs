//! Applying and reverting the changes of a commit, one rename or exchange each. Each can detect
//! whether it was made, so that recovery can continue after a crash.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, OFlags};

use crate::commit::{Change, Commit, Image, Kind};
use crate::disk::{self, Spot};
use crate::error::{CommitError, is_gone};
use crate::layout::{COMMIT_FILE, NEW_COMMIT_FILE};

/// Why one change was not made.
enum ApplyError {
    /// Another program has changed the file.
    Conflict,
    Io(io::Error),
}

impl From<io::Error> for ApplyError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes a commit's file and renames it when it is complete, unless `check` fails before that.
/// `is_durable`: waits until the file and its name are on the disk.
pub(crate) fn write_commit_file(
    stage: &OwnedFd,
    encoded: &[u8],
    is_durable: bool,
    check: impl FnOnce() -> Result<(), CommitError>,
) -> Result<(), CommitError> {
    let own = |source| CommitError::Io { place: OWN.to_owned(), source };
    let mut file = disk::create(stage, NEW_COMMIT_FILE).map_err(own)?;
    file.write_all(encoded).map_err(own)?;
    if is_durable {
        disk::sync(file).and_then(|()| disk::sync(stage)).map_err(own)?;
    }
    check()?;
    disk::rename(stage, NEW_COMMIT_FILE, stage, COMMIT_FILE).map_err(own)?;
    if is_durable { disk::sync(stage).map_err(own) } else { Ok(()) }
}

/// Applies all changes of a commit. If one fails, reverts those before it.
pub(crate) fn apply_all(
    root: &OwnedFd,
    stage: &OwnedFd,
    commit: &Commit,
) -> Result<(), CommitError> {
    for (index, change) in commit.changes.iter().enumerate() {
        let Err(error) = apply(root, stage, change) else { continue };
        let place = change.path.clone();
        revert_all(root, stage, commit, index)?;
        return Err(match error {
            ApplyError::Conflict => CommitError::Conflict(vec![place]),
            ApplyError::Io(source) => CommitError::Io { place, source },
        });
    }
    set_directory_times(root, commit);
    Ok(())
}

/// Applies the changes that an interrupted process has not applied yet. Returns the indices of
/// those that conflict with a change by another program; they are skipped. Reverts nothing: the
/// commit was made, and other programs may have used its results.
pub(crate) fn finish(
    root: &OwnedFd,
    stage: &OwnedFd,
    commit: &Commit,
) -> Result<Vec<usize>, CommitError> {
    let mut conflicts = Vec::new();
    for (index, change) in commit.changes.iter().enumerate() {
        let applied = was_applied(root, stage, change).map_err(ApplyError::from);
        match applied.and_then(|applied| if applied { Ok(()) } else { apply(root, stage, change) })
        {
            Ok(()) => {}
            Err(ApplyError::Conflict) => conflicts.push(index),
            Err(ApplyError::Io(source)) => {
                return Err(CommitError::Io { place: change.path.clone(), source });
            }
        }
    }
    set_directory_times(root, commit);
    Ok(conflicts)
}

/// Whether a change was applied before the process died. Decided by the staged files, since the
/// workspace may have been changed again: so an old file is never mistaken for a staged one, which
/// may be removed.
fn was_applied(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> io::Result<bool> {
    match (&change.before, &change.after) {
        (None, Some(after)) => Ok(disk::look(stage, &after.name)?.is_none()),
        (Some(_), Some(after)) => {
            finish_exchange(stage, after)?;
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
        // Its directory was removed as well.
        Err(error) if is_gone(&error) => return Ok(true),
        target => target?,
    };
    match target.look()? {
        // On a file system that moves in two steps, this is the second one.
        Some(current) if current.st_ino == stat.st_ino => target.remove().map(|()| true),
        // Another file was moved, and the process died before it could move it back.
        None if !before.is(&stat) => kept.move_to(&target).map(|()| false),
        // Another program has created a new file; the old one goes to the history.
        _ => Ok(true),
    }
}

/// Finishes an exchange on a file system that can't exchange, where it takes three steps.
fn finish_exchange(stage: &OwnedFd, image: &Image) -> io::Result<()> {
    let aside = disk::aside(&image.name);
    if disk::look(stage, &aside)?.is_none() {
        return Ok(());
    }
    match disk::look(stage, &image.name)? {
        None => disk::rename(stage, &aside, stage, &image.name),
        // The file was not replaced yet.
        Some(_) => disk::remove(stage, &aside, AtFlags::empty()),
    }
}

fn set_directory_times(root: &OwnedFd, commit: &Commit) {
    let is_single = commit.changes.len() == 1;
    for directory in &commit.directories {
        let set = set_directory_time(root, &directory.path, directory.after);
        let synced = set.and_then(|opened| if is_single { Ok(()) } else { disk::sync(opened) });
        if let Err(error) = synced {
            // Only a time is lost, or the directory was removed meanwhile.
            tracing::debug!("{}: {error}", directory.path);
        }
    }
}

/// Sets the modification time of a directory, in nanoseconds since the epoch. Returns the directory.
fn set_directory_time(root: &OwnedFd, place: &str, time: i64) -> io::Result<OwnedFd> {
    let directory = disk::open(root, place, OFlags::RDONLY | OFlags::DIRECTORY)?;
    disk::set_modified(&Spot::of(&directory, ".")?, time)?;
    Ok(directory)
}

/// Opens the directory of a path. A conflict if another program has removed or replaced it.
fn spot<'a>(root: &'a OwnedFd, path: &'a str) -> Result<Spot<'a>, ApplyError> {
    Spot::of(root, path)
        .map_err(|error| if is_gone(&error) { ApplyError::Conflict } else { ApplyError::Io(error) })
}

/// Applies one change; does nothing if it was applied before.
fn apply(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), ApplyError> {
    let target = spot(root, &change.path)?;
    let current = target.look()?;
    match (&change.before, &change.after) {
        (_, Some(after)) if current.as_ref().is_some_and(|stat| after.is(stat)) => Ok(()),
        (None, Some(after)) => {
            if current.is_some() {
                return Err(ApplyError::Conflict);
            }
            match Spot::of(stage, &after.name)?.move_to(&target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(ApplyError::Conflict)
                }
                moved => Ok(moved?),
            }
        }
        (Some(before), Some(after)) => {
            if !current.is_some_and(|stat| before.is(&stat)) {
                return Err(ApplyError::Conflict);
            }
            let staged = Spot::of(stage, &after.name)?;
            staged.exchange(&target)?;
            if !before.is(&staged.stat()?) {
                // Another program changed the file just before.
                staged.exchange(&target)?;
                return Err(ApplyError::Conflict);
            }
            Ok(())
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            if !current.is_some_and(|stat| before.is(&stat)) {
                return Err(ApplyError::Conflict);
            }
            target.move_to(&kept)?;
            if before.is(&kept.stat()?) && is_empty(stage, before)? {
                Ok(())
            } else {
                kept.move_to(&target)?;
                Err(ApplyError::Conflict)
            }
        }
        (None, None) => Ok(()),
    }
}

/// Whether a directory that was moved to the stage is empty. True for anything else.
fn is_empty(stage: &OwnedFd, image: &Image) -> io::Result<bool> {
    if image.kind != Kind::Directory {
        return Ok(true);
    }
    let directory = disk::open(stage, &image.name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    disk::is_empty(directory)
}

/// Reverts the applied changes up to the index `last`, in reverse order, and removes the commit's
/// file.
fn revert_all(
    root: &OwnedFd,
    stage: &OwnedFd,
    commit: &Commit,
    last: usize,
) -> Result<(), CommitError> {
    for change in commit.changes.iter().take(last + 1).rev() {
        // If one fails, the commit's file stays, and recovery continues from there.
        revert(root, stage, change).map_err(|error| CommitError::Unfinished {
            place: change.path.clone(),
            source: match error {
                ApplyError::Io(source) => source,
                ApplyError::Conflict => {
                    io::Error::other("another program has changed it meanwhile")
                }
            },
        })?;
    }
    for directory in commit.directories.iter().filter(|directory| directory.before != 0) {
        // If this fails, only a time is lost.
        let _ = set_directory_time(root, &directory.path, directory.before);
    }
    let own = |source| CommitError::Unfinished { place: OWN.to_owned(), source };
    disk::remove(stage, COMMIT_FILE, AtFlags::empty()).map_err(own)?;
    // The caller reports that nothing was changed, so a power cut must not bring the file back.
    if commit.changes.len() > 1 { disk::sync(stage).map_err(own) } else { Ok(()) }
}

/// Reverts a change if it was applied. A conflict if another program has changed the new file: then
/// the old one can't be put back.
fn revert(root: &OwnedFd, stage: &OwnedFd, change: &Change) -> Result<(), ApplyError> {
    let target = match spot(root, &change.path) {
        // Without its directory, the new file is gone.
        Err(ApplyError::Conflict) => return Ok(()),
        target => target?,
    };
    let current = target.look()?;
    match (&change.before, &change.after) {
        (before, Some(after)) => {
            let staged = Spot::of(stage, &after.name)?;
            if current.is_some_and(|stat| after.is(&stat)) {
                return match before {
                    Some(_) => Ok(staged.exchange(&target)?),
                    None => Ok(target.move_to(&staged)?),
                };
            }
            let is_theirs =
                before.is_some() && staged.look()?.is_none_or(|stat| stat.st_ino != after.inode);
            if is_theirs { Err(ApplyError::Conflict) } else { Ok(()) }
        }
        (Some(before), None) => {
            let kept = Spot::of(stage, &before.name)?;
            match (kept.look()?, current) {
                (Some(_), None) => Ok(kept.move_to(&target)?),
                (Some(stat), Some(current)) if stat.st_ino == current.st_ino => Ok(()),
                (Some(_), Some(_)) => Err(ApplyError::Conflict),
                (None, _) => Ok(()),
            }
        }
        (None, None) => Ok(()),
    }
}
