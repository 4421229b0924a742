//! The extended attributes of overlayfs.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use crate::error::Refused;

/// The prefix of all attributes of an overlayfs that is mounted with `userxattr`.
#[cfg(target_os = "linux")]
const PREFIX: &[u8] = b"user.overlay.";

/// Set to `y` on a directory that hides the lower directory.
#[cfg(target_os = "linux")]
const OPAQUE: &str = "user.overlay.opaque";

/// Attributes of a file whose content is elsewhere, or that represents a removed file. The mount of
/// a run never sets them.
#[cfg(target_os = "linux")]
const UNSUPPORTED: [&str; 3] =
    ["user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout"];

/// Makes a directory hide the lower one at its place.
#[cfg(target_os = "linux")]
pub(super) fn set_opaque(directory: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::fsetxattr(directory, OPAQUE, b"y", flags)?)
}

/// Whether a directory hides the lower one.
///
/// # Errors
/// [`Refused`] for a file with other attributes of overlayfs that affect its content.
#[cfg(target_os = "linux")]
pub(super) fn is_opaque(file: impl AsFd) -> io::Result<bool> {
    if let Some(name) = UNSUPPORTED.iter().find(|name| get(&file, name).is_some()) {
        let why = format!("has the attribute {name}, which nothing here should have set");
        return Err(Refused::unsupported(why));
    }
    match get(&file, OPAQUE).as_deref() {
        None => Ok(false),
        Some(b"y") => Ok(true),
        Some(_) => Err(Refused::unsupported(format!(
            "has the attribute {OPAQUE} with a value that nothing here should have set"
        ))),
    }
}

#[cfg(target_os = "linux")]
fn get(file: impl AsFd, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(length) => Some(value[..length].to_vec()),
        // It exists, and is longer than any valid value.
        Err(rustix::io::Errno::RANGE) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Removes the attributes of overlayfs: they have no meaning outside of a run.
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
