//! Paths as plugins write them.

use std::io;

use rustix::io::Errno;

use super::Refused;

/// The longest path that is looked at, in bytes: Linux' `PATH_MAX`.
pub const MAX_PATH: usize = 4096;

/// Checks that a place of a tree is no longer than a path may be. What is reached from directory to
/// directory could be so otherwise.
///
/// # Errors
/// `ENAMETOOLONG`.
pub(super) fn check_length(place: &str) -> io::Result<()> {
    if place.len() > MAX_PATH { Err(Errno::NAMETOOLONG.into()) } else { Ok(()) }
}

/// Checks what can be checked without looking at any tree.
///
/// # Errors
/// A path that is empty, too long, absolute, or holds a NUL.
pub(super) fn check(path: &str) -> io::Result<()> {
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

/// The place of a name in a directory.
pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// How a path ends, where that is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a name.
    Name,
    /// With a slash: what it names is a directory.
    Slash,
    /// With `.`: a directory by another name.
    Dot,
    /// With `..`.
    DotDot,
}

/// How a path ends.
pub fn ending(path: &str) -> Ending {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(".") => Ending::Dot,
        Some("..") => Ending::DotDot,
        _ if path.ends_with('/') => Ending::Slash,
        _ => Ending::Name,
    }
}

/// The place that a path beneath `base` names by its names alone: what it stands for, unless a
/// symbolic link is on the way. None where only looking can tell (`..`, an end that is not a name).
///
/// # Errors
/// As [`check`].
pub fn by_names(base: &str, path: &str) -> io::Result<Option<String>> {
    check(path)?;
    if path.split('/').any(|name| name == "..") || (path != "." && ending(path) != Ending::Name) {
        return Ok(None);
    }
    let names = base.split('/').chain(path.split('/'));
    let names: Vec<&str> = names.filter(|name| !matches!(*name, "" | ".")).collect();
    Ok(Some(names.join("/")))
}

/// The place that a symbolic link at `place` to `target` leads to. The names of the target are
/// taken as they are: what is opened through the link later is decided on then.
///
/// # Errors
/// [`Refused`] for one that leads out of the workspace.
pub fn link_target(place: &str, target: &str) -> io::Result<String> {
    let leaves = || Err(Refused::denied(format!("a link to {target} would leave the workspace")));
    if target.starts_with('/') {
        return leaves();
    }
    let mut names: Vec<&str> = place.split('/').collect();
    names.pop();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." if names.pop().is_none() => return leaves(),
            ".." => {}
            name => names.push(name),
        }
    }
    Ok(names.join("/"))
}
