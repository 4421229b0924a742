//! Staging the state before a commit, for an undo.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;

use crate::commit::{Commit, Image, Kind, Net, net};
use crate::content::{check_kept, open_placed};
use crate::disk::StatFields as _;
use crate::disk::{self, Spot};
use crate::error::is_gone;
use crate::file_fingerprint::is_same_content;
use crate::overlay::Overlay;
use crate::quota::Quota;

/// Returns the paths that are not as the commit left them, each with the difference.
///
/// # Errors
/// Files of the history that are gone or not what the host kept; I/O errors.
pub(crate) fn changed_since(
    overlay: &Overlay,
    commit: &Commit,
    images: &OwnedFd,
) -> io::Result<Vec<String>> {
    let mut changed = Vec::new();
    let net = net(&commit.changes);
    check_old(&net, images)?;
    for (path, (before, after)) in &net {
        let (before, after) = (*before, *after);
        let current = match overlay.open_or_link(path) {
            // A directory on the way may be a file or a link now.
            Err(error) if is_gone(&error) => None,
            current => Some(current?),
        };
        let what = match (after, current) {
            (None, None) => continue,
            (None, Some(_)) => "is there again",
            (Some(_), None) => "is gone",
            (Some(after), Some((stat, content))) => {
                let is_same = Kind::from(disk::file_type(&stat)) == after.kind
                    && match after.kind {
                        Kind::File | Kind::Link => {
                            is_same_content(content, open_placed(images, before, after)?)?
                        }
                        Kind::Directory | Kind::Other => true,
                    };
                let is_mode = after.kind != Kind::File || stat.mode() & 0o7777 == after.mode;
                match (is_same, is_mode) {
                    (true, true) => continue,
                    (true, false) => "has other permissions",
                    (false, _) => "has other content",
                }
            }
        };
        changed.push(format!("{path} {what}"));
    }
    if changed.is_empty() {
        changed.extend(filled_since(overlay, &net)?);
    }
    Ok(changed)
}

/// Returns the first of the directories that replaced something else and in which there is now an
/// entry that the commit did not place.
fn filled_since(overlay: &Overlay, net: &Net<'_>) -> io::Result<Option<String>> {
    for (path, (before, after)) in net {
        if before.is_none() || is_directory(*before) || !is_directory(*after) {
            continue;
        }
        let is_ours = |name: &str| {
            net.get(format!("{path}/{name}").as_str()).is_some_and(|(_, after)| after.is_some())
        };
        let entries = overlay.list(path)?;
        if !entries.iter().all(|entry| entry.name.to_str().is_some_and(is_ours)) {
            return Ok(Some(format!("{path} has other files in it")));
        }
    }
    Ok(None)
}

/// Checks that every old file of a commit can be put back.
fn check_old(net: &Net<'_>, images: &OwnedFd) -> io::Result<()> {
    for (path, (before, _)) in net {
        match before {
            Some(image) if matches!(image.kind, Kind::File | Kind::Link) => {
                check_kept(images, &image.name, |stat| image.is(stat))?;
            }
            Some(Image { kind: Kind::Other, .. }) => {
                let why = format!("{path} was no regular file, directory or link");
                return Err(io::Error::other(why));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Stages the state before a commit. Returns the old modification times of directories, in
/// nanoseconds since the epoch.
pub(crate) fn restore(
    overlay: &Overlay,
    commit: &Commit,
    images: &OwnedFd,
) -> io::Result<BTreeMap<String, i64>> {
    let net = net(&commit.changes);
    remove_new(overlay, &net)?;
    for (path, (before, after)) in &net {
        if let Some(image) = before {
            put_back(overlay, path, image, *after, images)?;
        }
    }
    // A directory that was not changed since gets its old time back.
    let unchanged = commit
        .directories
        .iter()
        .filter(|directory| overlay.disk_modified(&directory.path) == Some(directory.after));
    Ok(unchanged.map(|directory| (directory.path.clone(), directory.before)).collect())
}

fn is_directory(image: Option<&Image>) -> bool {
    image.is_some_and(|image| image.kind == Kind::Directory)
}

/// Removes what a commit placed, entries before their directories. Old files and links are
/// overwritten later, unless a directory is in their place now.
fn remove_new(overlay: &Overlay, net: &Net<'_>) -> io::Result<()> {
    for (path, (before, after)) in net.iter().rev() {
        match (is_directory(*before), is_directory(*after)) {
            _ if after.is_none() => {}
            (false, true) => match overlay.remove_directory(path) {
                // Another program has put files of its own there.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => removed?,
            },
            (was_directory, false) if was_directory || before.is_none() => {
                overlay.remove_file(path)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Stages the old file `image` in place of the new file `after`.
fn put_back(
    overlay: &Overlay,
    path: &str,
    image: &Image,
    after: Option<&Image>,
    images: &OwnedFd,
) -> io::Result<()> {
    let quota = Quota::unlimited();
    match image.kind {
        Kind::Directory if is_directory(after) => {}
        Kind::Directory => {
            overlay.create_directory(path, &quota)?;
            overlay.set_mode(path, image.mode)?;
            overlay.set_modified(path, image.modified)?;
        }
        Kind::File => {
            check_kept(images, &image.name, |stat| image.is(stat))?;
            let file = disk::open(images, &image.name, OFlags::RDONLY)?;
            overlay.restore(path, &file.into(), &quota)?;
        }
        Kind::Link => {
            check_kept(images, &image.name, |stat| image.is(stat))?;
            let target = Spot::of(images, &image.name)?.read_link()?;
            let target = String::from_utf8(target)
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            // A directory was removed before.
            if after.is_some_and(|after| after.kind != Kind::Directory) {
                overlay.remove_file(path)?;
            }
            overlay.create_link(&target, path, &quota)?;
            overlay.set_modified(path, image.modified)?;
        }
        // Refused by `check_old`.
        Kind::Other => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}
