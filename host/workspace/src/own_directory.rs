//! Finding, creating and taking over the host's own directory of a workspace. The contents of one
//! that is not authentic are set aside as a whole.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cofferdam_core::policy::OWN;
use rustix::fs::{AtFlags, FileType, FlockOperation, OFlags, Stat};
use rustix::io::Errno;

use crate::disk;
use crate::own::{
    LOCK, MARK, NOT_MADE_HERE, Own, OwnState, SET_ASIDE, denied, directory, is_users, key_of,
    make_private, write_mark,
};
use crate::seal::SECRET;
use crate::workspace::Workspace;

/// The file that makes git ignore the directory.
const IGNORED: &str = ".gitignore";

/// How often the directory is looked at again while other processes change it.
const ATTEMPTS: u32 = 100;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

impl Workspace {
    /// Returns the path of the host's own directory, if it exists, authentic or not.
    pub fn path_of_own(&self) -> Option<PathBuf> {
        matches!(disk::look(&**self.disk(), OWN), Ok(Some(_))).then(|| self.path().join(OWN))
    }

    /// Returns the host's own directory; creates it if it is missing, with a `.gitignore` that
    /// covers it. If it is not authentic, its contents are set aside.
    ///
    /// # Errors
    /// A workspace that can't be written; a link or a file under that name; another user's
    /// directory; no secret.
    pub fn own(&self) -> io::Result<Arc<Own>> {
        for _ in 0..ATTEMPTS {
            match self.find_own()? {
                OwnState::Own(own) => return Ok(own),
                OwnState::Nothing => {
                    match disk::create_directory(&**self.disk(), OWN, disk::OWNER_ONLY) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                OwnState::Foreign(directory) => self.take_over(&directory)?,
            }
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{OWN} in the workspace is being changed by other processes again and again"),
        ))
    }

    /// Returns the host's own directory, if it exists and is authentic.
    ///
    /// # Errors
    /// A link or a file under that name; another user's directory; no secret.
    pub fn existing_own(&self) -> io::Result<Option<Arc<Own>>> {
        match self.find_own()? {
            OwnState::Own(own) => Ok(Some(own)),
            OwnState::Nothing => Ok(None),
            OwnState::Foreign(_) => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "{OWN} in the workspace is ignored: {NOT_MADE_HERE}; the next change sets it \
                         aside"
                    );
                }
                Ok(None)
            }
        }
    }

    /// Determines what the name of the host's own directory refers to.
    ///
    /// # Errors
    /// See [`Workspace::existing_own`].
    pub fn find_own(&self) -> io::Result<OwnState> {
        let Some(stat) = disk::look(&**self.disk(), OWN)? else { return Ok(OwnState::Nothing) };
        let mut known = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // As long as it is open, no other directory gets its inode.
        if let Some(own) = known.as_ref().filter(|own| own.is_at(&stat)) {
            make_private(own, &stat)?;
            return Ok(OwnState::Own(Arc::clone(own)));
        }
        let directory = disk::open(&**self.disk(), OWN, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| {
                if error.kind() == io::ErrorKind::PermissionDenied && !is_users(&stat) {
                    return of_another_user(&stat);
                }
                let message = format!("{OWN} in the workspace is no directory of the host's: ");
                io::Error::new(error.kind(), format!("{message}{error}"))
            })?;
        let stat = rustix::fs::fstat(&directory)?;
        match key_of(&self.secret()?, &directory)? {
            Some(key) => {
                make_private(&directory, &stat)?;
                let own = Arc::new(Own::new(directory, &stat, key));
                Ok(OwnState::Own(Arc::clone(known.insert(own))))
            }
            None if is_users(&stat) => Ok(OwnState::Foreign(directory)),
            None => Err(of_another_user(&stat)),
        }
    }

    fn secret(&self) -> io::Result<[u8; SECRET]> {
        self.secret.get(|directory| self.holds(directory))
    }

    /// Makes a directory authentic after setting its contents aside. If the process dies before
    /// that is complete, the directory is still not authentic, and the next process continues.
    fn take_over(&self, foreign: &OwnedFd) -> io::Result<()> {
        // One process at a time does this.
        match rustix::fs::flock(foreign, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                std::thread::sleep(PAUSE);
                return Ok(());
            }
            locked => locked?,
        }
        let secret = self.secret()?;
        let stat = rustix::fs::fstat(foreign)?;
        if key_of(&secret, foreign)?.is_some() {
            return Ok(());
        }
        let _lock = lock_foreign(foreign)?;
        make_private(foreign, &stat)?;
        if let Some(place) = set_all_aside(foreign)? {
            tracing::warn!(
                "{OWN} in the workspace is not used: {NOT_MADE_HERE}; what was in it was set aside as \
                 {OWN}/{SET_ASIDE}/{place}, and the directory is now empty"
            );
        }
        disk::create(foreign, IGNORED)?.write_all(b"*\n")?;
        write_mark(&secret, foreign)
    }
}

fn of_another_user(stat: &Stat) -> io::Error {
    denied(format!(
        "{OWN} in the workspace belongs to user {}, and this is user {}; run this as that user, or \
         remove the directory",
        stat.st_uid,
        rustix::process::geteuid().as_raw()
    ))
}

/// Sets aside the contents of a directory that is not authentic. Returns the name of their new
/// directory; `None` if there was nothing to set aside.
fn set_all_aside(foreign: &OwnedFd) -> io::Result<Option<String>> {
    let is_directory = |stat: &Stat| disk::file_type(stat) == FileType::Directory;
    if disk::look(foreign, SET_ASIDE)?.is_some_and(|stat| !is_directory(&stat)) {
        let fresh = format!("{SET_ASIDE}-{}", uuid::Uuid::now_v7());
        disk::rename(foreign, SET_ASIDE, foreign, fresh)?;
    }
    let aside = directory(foreign, SET_ASIDE)?;
    let place = format!("{}-{}", uuid::Uuid::now_v7(), OWN.trim_start_matches('.'));
    let mut to: Option<OwnedFd> = None;
    // Some file systems skip entries while others are removed, so repeat until none is left.
    loop {
        let mut is_done = true;
        for entry in disk::entries(foreign)? {
            let disk::Listed { name, kind, .. } = entry?;
            if [SET_ASIDE, MARK, IGNORED].iter().any(|kept| name == *kept) {
                continue;
            }
            is_done = false;
            let to = match &to {
                Some(to) => to,
                None => to.insert(directory(&aside, &place)?),
            };
            if kind == FileType::Directory {
                // Only a directory that its owner may write can be moved.
                disk::open_anyway(foreign.as_fd(), &name)?;
            }
            disk::rename(foreign, &name, to, &name)?;
        }
        if is_done {
            break;
        }
    }
    for name in [MARK, IGNORED] {
        disk::remove_all(foreign, name)?;
    }
    if to.is_none() {
        // Fails if it has contents from before; then it stays.
        let _ = disk::remove(foreign, SET_ASIDE, AtFlags::REMOVEDIR);
    }
    Ok(to.map(|_| place))
}

/// Locks the lock file of a directory that is not authentic, if it has one: a host with another
/// secret may be using it. A checkout can't bring a lock that is held.
fn lock_foreign(foreign: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let Ok(lock) = disk::open(foreign, LOCK, OFlags::RDONLY) else { return Ok(None) };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{OWN} in the workspace is in use by a host with another key; try again later"),
        )),
        _ => Ok(Some(lock)),
    }
}
