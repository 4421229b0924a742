//! The host's own files in a workspace: opened, or made where they are missing.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;

use super::OWN;
use super::disk::{self, Spot};

/// What processes lock, in the host's own directory.
const LOCK: &str = "lock";

/// Where is kept what the host can't use and does not throw away.
const SET_ASIDE: &str = "set-aside";

/// What processes lock.
pub(super) fn lock(own: &OwnedFd) -> io::Result<OwnedFd> {
    let open = || disk::open(own, LOCK, OFlags::RDONLY);
    let create = || disk::create(own, LOCK).map(drop);
    open_or_create(LOCK, open, create)
}

/// A directory of the host's own, made where it is missing. What was in files that others may
/// not read is nobody else's business there either.
pub(super) fn directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let open = || disk::open(parent, name, disk::UNSEEN | OFlags::DIRECTORY);
    let create = || disk::create_directory(parent, name, disk::OWNER_ONLY);
    open_or_create(name, open, create)
}

/// A directory of the host's own, if it is there.
pub(super) fn existing_directory(parent: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match disk::open(parent, name, disk::UNSEEN | OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        directory => Ok(Some(directory?)),
    }
}

/// Moves something of the host's own out of the way, with everything in it, and returns the path
/// that it has from now on, from the workspace. Only a person removes what is there.
pub(super) fn set_aside(own: &OwnedFd, directory: &OwnedFd, name: &str) -> io::Result<String> {
    let room = self::directory(own, SET_ASIDE)?;
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S.%9fZ");
    let aside = format!("{time}-{name}");
    Spot::of(directory, name)?.move_to(&Spot::of(&room, &aside)?)?;
    Ok(format!("{OWN}/{SET_ASIDE}/{aside}"))
}

pub(super) fn open_or_create(
    name: &str,
    open: impl Fn() -> io::Result<OwnedFd>,
    create: impl Fn() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create() {
            // Somebody else may have been faster.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        },
        opened => opened,
    };
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("'{name}' of the host's own files: {error}"))
    })
}
