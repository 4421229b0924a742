//! Copies of files: content, permissions, owner, extended attributes, times.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{Gid, Stat, Uid};

use crate::disk;
use crate::disk::StatFields as _;

/// Copies the permissions and, as far as this user may, owner and extended attributes of
/// `from` to `to`. The times are copied only together with the content.
pub(crate) fn copy_file(from: &File, to: &File, stat: &Stat, content: bool) -> io::Result<()> {
    if content {
        // No more than the size that was counted, in case the file is growing.
        io::copy(&mut from.take(u64::try_from(stat.st_size).unwrap_or(0)), &mut &*to)?;
    }
    copy_permissions(to, stat)?;
    copy_attributes(from, to);
    if content {
        rustix::fs::futimens(to, &disk::times(stat))?;
    }
    Ok(())
}

/// Sets the permissions and, as far as this user may, the owner of `to` to those in `stat`.
pub(crate) fn copy_permissions(to: &File, stat: &Stat) -> io::Result<()> {
    let own = rustix::fs::fstat(to)?;
    if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        if rustix::fs::fchown(to, owner.0, owner.1).is_err() {
            // Only root can change the owner; the group may be one of the user's.
            let _ = rustix::fs::fchown(to, None, owner.1);
        }
    }
    if own.st_mode != stat.st_mode {
        rustix::fs::fchmod(to, disk::permissions(stat.mode() & 0o7777))?;
    }
    Ok(())
}

/// Copies extended attributes, which include access control lists, as far as the file system and
/// the user's permissions allow.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn copy_attributes(from: &File, to: &File) {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
    let mut names = [0_u8; 4096];
    let Ok(length) = flistxattr(from, &mut names[..]) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        if let Ok(length) = fgetxattr(from, name, &mut value[..]) {
            let _ = fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}
