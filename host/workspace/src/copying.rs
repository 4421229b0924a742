//! Copies of files: content, permissions, owner, extended attributes, times.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{Gid, Mode, Stat, Uid};

use super::disk;

/// Gives `to` what `from` is: content, permissions and, as far as this user may, owner and
/// extended attributes. With its content, a file keeps its times.
pub(super) fn copy_file(from: &File, to: &File, stat: &Stat, content: bool) -> io::Result<()> {
    if content {
        // The size is the one that was counted, should the file be growing.
        io::copy(&mut from.take(u64::try_from(stat.st_size).unwrap_or(0)), &mut &*to)?;
    }
    copy_permissions(to, stat)?;
    copy_attributes(from, to);
    if content {
        rustix::fs::futimens(to, &disk::times(stat))?;
    }
    Ok(())
}

/// Gives `to` the permissions and, as far as this user may, the owner of what was looked at.
pub(super) fn copy_permissions(to: &File, stat: &Stat) -> io::Result<()> {
    let own = rustix::fs::fstat(to)?;
    if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        if rustix::fs::fchown(to, owner.0, owner.1).is_err() {
            // Only root gives files away; the group can be one of the user's.
            let _ = rustix::fs::fchown(to, None, owner.1);
        }
    }
    if own.st_mode != stat.st_mode {
        rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    }
    Ok(())
}

/// Extended attributes (access lists among them) are copied as far as the file system and the
/// user's rights go.
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
