//! Calls under way: what a user sees of them in another process, such as the console, and can cancel.
//!
//! A call that is shown has a file in `.cofferdam/calls`, whose name is the call's id. The process that makes
//! the call holds a lock on the file, replaces it while the call goes on, and removes it at its end. So a file
//! without a lock is one of a process that was killed. To cancel a call, another process leaves a file beside
//! it. Both are authenticated and bound to the call, so nothing that was written by a tool or came with a
//! repository counts. Nothing is synced: after a crash of the machine, no call is under way.
//!
//! Which calls are shown, and what cancelling means, is not decided here.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use rustix::fs::{AtFlags, FlockOperation, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::{self, LockedFile};
use crate::layout::CALLS;
use crate::own::{self, Own};
use crate::workspace::Workspace;

/// The domains of the tags, of calls and of requests to cancel one.
const CALL: &str = "call";
const CANCEL: &str = "call-cancel";

/// How the name of a file begins that is not complete.
const NEW: &str = "new.";

/// How the name of a request to cancel a call ends; the call's id comes before.
const CANCELLED: &str = ".cancel";

/// The largest file, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// How many calls of this process are shown at a time: each has an open file, and calls need the others.
const MAX_SHOWN: usize = 64;

/// How many calls of this process are shown.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// One of the places for calls that are shown.
#[derive(Debug)]
struct Place(());

impl Place {
    fn take() -> Option<Self> {
        let more = |shown| (shown < MAX_SHOWN).then_some(shown + 1);
        SHOWN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        SHOWN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCall {
    /// The tool's qualified name.
    pub tool: String,
    /// The session of the call.
    pub session: String,
    /// The client, as it names itself.
    pub client: Option<String>,
    /// The role of the call.
    pub role: Option<String>,
    /// When it began.
    pub since: Timestamp,
    /// Whether its plugin has begun to run: until then, the call waits for the user or for its turn.
    pub has_started: bool,
    /// What it has reported last.
    pub progress: Option<CallProgress>,
}

/// The progress of a call, as its plugin has reported it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProgress {
    /// How much is done.
    pub done: u64,
    /// How much there is to do.
    pub total: Option<u64>,
    /// What is being done.
    pub message: String,
}

/// Who has cancelled a call.
#[derive(Serialize, Deserialize)]
struct Cancellation {
    by: String,
}

/// A call of this process that others see. Dropping it ends that.
#[derive(Debug)]
pub struct ShownCall {
    own: Arc<Own>,
    id: String,
    /// Locked as long as the call is under way.
    file: LockedFile,
    _place: Place,
}

/// Whether there may be a place for another call that is shown.
pub fn may_show_call() -> bool {
    SHOWN.load(Ordering::Relaxed) < MAX_SHOWN
}

impl Workspace {
    /// Shows a call of this process to others; `None` if the workspace has no host's own directory yet, or
    /// as many calls of this process are shown as there are places.
    ///
    /// # Errors
    /// I/O errors; a call with texts that are too long.
    pub fn show_call(&self, id: &str, call: &RunningCall) -> io::Result<Option<ShownCall>> {
        let Some(place) = Place::take() else { return Ok(None) };
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let file = write(&own, &own::directory(&*own, CALLS)?, id, call)?;
        Ok(Some(ShownCall { own, id: id.to_owned(), file, _place: place }))
    }

    /// Returns the calls under way with their ids, the oldest first. Removes what killed processes have left.
    ///
    /// # Errors
    /// I/O errors.
    pub fn running_calls(&self) -> io::Result<Vec<(String, RunningCall)>> {
        let Some((own, directory)) = self.calls()? else { return Ok(Vec::new()) };
        let mut calls: Vec<(String, RunningCall)> = Vec::new();
        for entry in disk::entries(&directory)? {
            let Ok(name) = entry?.name.into_string() else { continue };
            let id = name.strip_suffix(CANCELLED).unwrap_or(&name);
            if !is_running(&directory, id) {
                disk::remove_all(&directory, &name)?;
            } else if id == name
                && let Some(call) = read(&own, &directory, (CALL, id), id)?
            {
                calls.push((name, call));
            }
        }
        calls.sort_by(|(a, one), (b, other)| (one.since, a).cmp(&(other.since, b)));
        Ok(calls)
    }

    /// Asks the process that makes a call to cancel it. `by` names the program that the user does so with,
    /// for the record. Returns whether the call is under way.
    ///
    /// # Errors
    /// I/O errors.
    pub fn cancel_call(&self, id: &str, by: &str) -> io::Result<bool> {
        let Some((own, directory)) = self.calls()? else { return Ok(false) };
        if id.parse::<uuid::Uuid>().is_err() || !is_running(&directory, id) {
            return Ok(false);
        }
        let content = sealed(&own, (CANCEL, id), &Cancellation { by: by.to_owned() })?;
        let name = format!("{id}{CANCELLED}");
        disk::remove(&directory, &name, AtFlags::empty())?;
        match disk::create(&directory, &name) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => file?.write_all(&content)?,
        }
        Ok(true)
    }

    /// The directory of calls, if it exists.
    fn calls(&self) -> io::Result<Option<(Arc<Own>, OwnedFd)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let directory = own::existing_directory(&*own, CALLS)?;
        Ok(directory.map(|directory| (own, directory)))
    }
}

impl ShownCall {
    /// Replaces what others see.
    ///
    /// # Errors
    /// I/O errors; a call with texts that are too long.
    pub fn replace(&mut self, call: &RunningCall) -> io::Result<()> {
        self.file = write(&self.own, &own::directory(&*self.own, CALLS)?, &self.id, call)?;
        Ok(())
    }

    /// Returns who has cancelled the call, by the name of the program that they use. A request that no
    /// process of this user wrote for this call does not count.
    ///
    /// # Errors
    /// I/O errors.
    pub fn cancelled_by(&self) -> io::Result<Option<String>> {
        let name = format!("{}{CANCELLED}", self.id);
        let directory = own::directory(&*self.own, CALLS)?;
        let read = read::<Cancellation>(&self.own, &directory, (CANCEL, &self.id), &name);
        Ok(read?.map(|cancellation| cancellation.by))
    }
}

impl Drop for ShownCall {
    fn drop(&mut self) {
        match own::directory(&*self.own, CALLS) {
            Ok(directory) => {
                remove(&directory, &self.id);
                remove(&directory, &format!("{}{CANCELLED}", self.id));
            }
            // A file without a lock does not count.
            Err(error) => tracing::warn!("a call that has ended was not removed: {error}"),
        }
    }
}

/// Whether a process holds the lock of a call.
fn is_running(directory: &OwnedFd, id: &str) -> bool {
    disk::open(directory, id, OFlags::RDONLY).is_ok_and(|file| {
        let is_free = disk::try_lock(&file, FlockOperation::NonBlockingLockShared);
        is_free.is_ok_and(|is_free| !is_free)
    })
}

fn remove(directory: &OwnedFd, name: &str) {
    if let Err(error) = disk::remove(directory, name, AtFlags::empty()) {
        tracing::warn!("{name} of the calls under way was not removed: {error}");
    }
}

/// Writes the file of a call, and returns it locked.
fn write(own: &Own, directory: &OwnedFd, id: &str, call: &RunningCall) -> io::Result<LockedFile> {
    let content = sealed(own, (CALL, id), call)?;
    LockedFile::create(directory, [&format!("{NEW}{id}"), id], &content, false)
}

fn sealed(own: &Own, (domain, id): (&str, &str), content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut sealed = serde_json::to_vec(content)?;
    own.key().append(domain, id, &mut sealed);
    match sealed.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("the texts of the call are too long")),
        false => Ok(sealed),
    }
}

/// Reads a file; `None` if there is none, or no process of this user wrote it.
fn read<T: DeserializeOwned>(
    own: &Own,
    directory: &OwnedFd,
    seal: (&str, &str),
    name: &str,
) -> io::Result<Option<T>> {
    let file: File = match disk::open(directory, name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.into(),
    };
    let content = own.content(file, seal, MAX_BYTES)?;
    Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
}
