//! The extended attributes in which overlayfs keeps what a directory has no words for.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// What all of overlayfs's attributes begin with, where it is mounted by an ordinary user.
#[cfg(target_os = "linux")]
const PREFIX: &[u8] = b"user.overlay.";

/// Set to `y` on a directory that hides what is below it.
#[cfg(target_os = "linux")]
const OPAQUE: &str = "user.overlay.opaque";

/// What says that the content is elsewhere, or that a file stands for nothing. The mount that is
/// made for a run never sets them.
#[cfg(target_os = "linux")]
const ELSEWHERE: [&str; 3] =
    ["user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout"];

/// Lets a directory hide what the lower one has at its place.
#[cfg(target_os = "linux")]
pub(super) fn set_opaque(directory: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::fsetxattr(directory, OPAQUE, b"y", flags)?)
}

/// Whether a directory hides what is below, as far as that is all that there is to it.
///
/// # Errors
/// A directory or file that is not what it seems.
#[cfg(target_os = "linux")]
pub(super) fn is_opaque(file: impl AsFd) -> io::Result<bool> {
    if let Some(name) = ELSEWHERE.iter().find(|name| get(&file, name).is_some()) {
        let why = format!("has the attribute {name}, which nothing here should have set");
        return Err(super::super::Refused::unsupported(why));
    }
    match get(&file, OPAQUE).as_deref() {
        None => Ok(false),
        Some(b"y") => Ok(true),
        Some(_) => Err(super::super::Refused::unsupported(format!(
            "has the attribute {OPAQUE} with a value that nothing here should have set"
        ))),
    }
}

#[cfg(target_os = "linux")]
fn get(file: impl AsFd, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(length) => Some(value[..length].to_vec()),
        // It is there, and longer than any that could be meant.
        Err(rustix::io::Errno::RANGE) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Removes overlayfs's attributes: outside of a run they mean nothing.
#[cfg(target_os = "linux")]
pub(super) fn strip(file: &File) -> io::Result<()> {
    let mut names = [0_u8; 4096];
    let Ok(length) = rustix::fs::flistxattr(file, &mut names[..]) else { return Ok(()) };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(PREFIX)) {
        rustix::fs::fremovexattr(file, name)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_opaque(_: impl AsFd) -> io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn strip(_: &File) -> io::Result<()> {
    Ok(())
}
