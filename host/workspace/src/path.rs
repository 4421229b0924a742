//! Paths as plugins write them.

use std::io;
use std::path::Path;

use cofferdam_core::policy::Place;
use rustix::io::Errno;

use crate::disk;
use crate::error::Refused;

/// The longest path that is accepted, in bytes: Linux' `PATH_MAX`.
pub const MAX_PATH: usize = 4096;

/// Checks that a place of a tree is no longer than a path may be. A program can create longer ones
/// by going from directory to directory.
///
/// # Errors
/// `ENAMETOOLONG`.
pub(crate) fn check_length(place: &str) -> io::Result<()> {
    if place.len() > MAX_PATH { Err(Errno::NAMETOOLONG.into()) } else { Ok(()) }
}

/// Checks a path without looking at any tree.
///
/// # Errors
/// A path that is empty, too long, absolute, or contains a NUL.
pub(crate) fn check(path: &str) -> io::Result<()> {
    if path.is_empty() {
        Err(Errno::NOENT.into())
    } else if path.contains('\0') {
        Err(Refused::denied(format!("{path:?} holds a NUL character")))
    } else if path.starts_with('/') {
        Err(Refused::denied(format!("{path} is absolute; paths are relative to the workspace")))
    } else {
        check_length(path)
    }
}

/// Returns the place of a name in a directory.
pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Returns the directories above a place, the nearest first.
pub(crate) fn above(place: &str) -> impl Iterator<Item = &str> {
    let ends = place.rmatch_indices('/').map(|(end, _)| &place[..end]);
    ends.chain([""]).filter(move |_| !place.is_empty())
}

/// Returns `.`, cap-std's name for the directory itself, instead of an empty path.
pub fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// How a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a name that is not `.` or `..`.
    Name,
    /// With a slash: the path refers to a directory.
    Slash,
    /// With `.`: another name of a directory.
    Dot,
    /// With `..`: the parent of a directory.
    DotDot,
}

/// Returns how a path ends.
pub fn ending(path: &str) -> Ending {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(".") => Ending::Dot,
        Some("..") => Ending::DotDot,
        _ if path.ends_with('/') => Ending::Slash,
        _ => Ending::Name,
    }
}

/// Returns the place of a path beneath `base` by its names alone, which is right unless a symbolic
/// link is on the way. Returns `None` if the tree has to be looked at: for a path with `..`, or one
/// that does not end with a name.
///
/// # Errors
/// A path that is empty, too long, absolute, or contains a NUL.
pub fn by_names(base: &str, path: &str) -> io::Result<Option<Place>> {
    check(path)?;
    if path != "." && ending(path) != Ending::Name {
        return Ok(None);
    }
    Ok(Place::beneath(base, path).ok())
}

/// Returns the place that a symbolic link at `place` to `target` leads to, by the names of the
/// target alone: what is later opened through the link is checked then.
///
/// # Errors
/// [`Refused`] if the target is outside of the workspace.
pub fn link_target(place: &str, target: &str) -> io::Result<Place> {
    Place::lexical(disk::split(place).0, target)
        .map_err(|_| Refused::denied(format!("a link to {target} would leave the workspace")))
}
