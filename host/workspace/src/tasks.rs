//! Tasks: calls that go on after their request was answered, and their ends. A client asks for the end by
//! the task's id, also in a process that was started since.
//!
//! A task is a file in `.cofferdam/tasks` whose name is its id: 128 random bits, which can't be guessed.
//! The file is authenticated and bound to its name. The process that makes the call holds a lock on it,
//! and replaces it with the end of the call. So a file that has no end and no lock is one of a
//! process that was killed. What is needed to go on with a paused call is in the file while it waits.
//!
//! Who may ask for a task, and what its end means, is not decided here.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cofferdam_core::policy::OWN;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::disk::{self, LockedFile};
use crate::layout::TASKS;
use crate::own::{self, Own};
use crate::workspace::Workspace;

/// How long a task without an end is kept, in seconds: as long as a paused call.
const MAX_AGE_S: i64 = 24 * 60 * 60;

/// How long a task is kept after its end.
pub const TASK_TTL: Duration = Duration::from_secs(60 * 60);

/// The largest number of tasks of a workspace, those that have ended included.
pub const MAX_TASKS: usize = 1024;

/// The size of all tasks from which on none is begun, in bytes.
const MAX_ALL_BYTES: u64 = 64 << 20;

/// The largest file of a task, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The version of the format.
const VERSION: u32 = 1;

/// The domain of the tags.
const DOMAIN: &str = "task";

/// How the name of a file begins that is not complete.
const NEW: &str = "new.";

/// How often to try to take a task over.
const LOCK_ATTEMPTS: usize = 20;

/// The length of an id, in bytes.
const ID_BYTES: usize = 16;

/// The id of a task: 128 random bits, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskId(String);

impl TaskId {
    fn new() -> io::Result<Self> {
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        Ok(Self(cofferdam_text::hex(&id)))
    }
}

/// A text that is not the id of a task.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not the id of a task")]
pub struct InvalidTaskId;

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == ID_BYTES * 2 && text.bytes().all(is_digit);
        is_id.then(|| Self(text.to_owned())).ok_or(InvalidTaskId)
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a task is, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The tool, as it was called.
    pub tool: String,
    /// The role of the call.
    pub role: Option<String>,
    /// The session of the call.
    pub session: String,
    /// When the task was created.
    pub created: Timestamp,
}

/// How a task has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// When it ended.
    pub ended: Timestamp,
    /// What the client gets.
    pub content: Value,
}

/// The file of a task.
#[derive(Debug, Serialize, Deserialize)]
struct TaskFile {
    version: u32,
    task: TaskRecord,
    end: Option<TaskEnd>,
    waits: Option<Value>,
}

/// A task whose process does not make the call any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// What it is.
    pub task: TaskRecord,
    /// `None` if the process has ended before the call.
    pub end: Option<TaskEnd>,
    /// What is needed to go on with the call, if it was paused.
    pub waits: Option<Value>,
    /// It is kept for [`TASK_TTL`] after this time, at least.
    pub until: Timestamp,
}

/// A task whose call this process makes. If it is dropped without an end, its process has failed.
#[derive(Debug)]
pub struct RunningTask {
    own: Arc<Own>,
    directory: OwnedFd,
    id: TaskId,
    task: TaskRecord,
    /// Locked as long as the call is made.
    file: Mutex<LockedFile>,
}

impl Workspace {
    /// Creates a task; `None` if there are too many, or they are too large. Removes those that have ended
    /// more than [`TASK_TTL`] ago.
    ///
    /// # Errors
    /// I/O errors.
    pub fn begin_task(&self, task: TaskRecord) -> io::Result<Option<RunningTask>> {
        let own = self.own()?;
        let directory = own::directory(&*own, TASKS)?;
        let (count, bytes) = tidy(&own, &directory)?;
        if count >= MAX_TASKS || bytes >= MAX_ALL_BYTES {
            return Ok(None);
        }
        let id = TaskId::new()?;
        let begun = TaskFile { version: VERSION, task: task.clone(), end: None, waits: None };
        let file = Mutex::new(write(&own, &directory, &id, &begun)?);
        Ok(Some(RunningTask { own, directory, id, task, file }))
    }

    /// Returns a task that no process works on; `None` if there is none with this id, or the file is not
    /// authentic.
    ///
    /// # Errors
    /// I/O errors.
    pub fn kept_task(&self, id: &TaskId) -> io::Result<Option<KeptTask>> {
        let Some((own, directory)) = self.tasks()? else { return Ok(None) };
        let name = id.to_string();
        let Some(file) = unlocked(&directory, &name, FlockOperation::NonBlockingLockShared)? else {
            return Ok(None);
        };
        let modified = disk::modified(&rustix::fs::fstat(file.file())?);
        let Some(TaskFile { task, end, waits, .. }) = read(&own, &name, file.file())? else {
            tracing::warn!("{OWN}/{TASKS}/{name} is not used: no host of this user wrote it");
            return Ok(None);
        };
        let modified = Timestamp::from_nanosecond(modified.into()).unwrap_or(task.created);
        let last = SignedDuration::from_secs(MAX_AGE_S) - ttl();
        let until = match end {
            Some(_) => modified,
            None => clock::present().min(modified.saturating_add(last).unwrap_or(modified)),
        };
        Ok(Some(KeptTask { task, end, waits, until }))
    }

    /// Takes over a task whose process has ended before the call; `None` if there is no such task, or
    /// another process works on it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn resume_task(&self, id: &TaskId) -> io::Result<Option<RunningTask>> {
        let Some((own, directory)) = self.tasks()? else { return Ok(None) };
        let (name, how) = (id.to_string(), FlockOperation::NonBlockingLockExclusive);
        let mut found = unlocked(&directory, &name, how)?;
        for _ in 1..LOCK_ATTEMPTS {
            if found.is_some() {
                break;
            }
            // Who reads it holds a lock for a moment.
            std::thread::sleep(Duration::from_millis(10));
            found = unlocked(&directory, &name, how)?;
        }
        let Some(file) = found else { return Ok(None) };
        let found = rustix::fs::fstat(file.file())?.st_ino;
        // Another process may have replaced the file before it was locked.
        let is_current = disk::look(&directory, &name)?.is_some_and(|stat| stat.st_ino == found);
        let read = read(&own, &name, file.file())?;
        let Some(TaskFile { task, end: None, .. }) = read.filter(|_| is_current) else {
            return Ok(None);
        };
        let (id, file) = (id.clone(), Mutex::new(file));
        Ok(Some(RunningTask { own, directory, id, task, file }))
    }

    /// The directory of tasks, if it exists.
    fn tasks(&self) -> io::Result<Option<(Arc<Own>, OwnedFd)>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let directory = own::existing_directory(&*own, TASKS)?;
        Ok(directory.map(|directory| (own, directory)))
    }
}

impl RunningTask {
    /// Its id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// What it is.
    pub fn record(&self) -> &TaskRecord {
        &self.task
    }

    /// Keeps the end of the call.
    ///
    /// # Errors
    /// I/O errors; a content that is too large.
    pub fn end(&self, end: TaskEnd) -> io::Result<()> {
        self.replace(Some(end), None)
    }

    /// Keeps what is needed to go on with the call while it is paused; `None` once it goes on.
    ///
    /// # Errors
    /// See [`Self::end`].
    pub fn wait(&self, waits: Option<Value>) -> io::Result<()> {
        self.replace(None, waits)
    }

    fn replace(&self, end: Option<TaskEnd>, waits: Option<Value>) -> io::Result<()> {
        let content = TaskFile { version: VERSION, task: self.task.clone(), end, waits };
        let file = write(&self.own, &self.directory, &self.id, &content)?;
        match content.end {
            None => *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file,
            Some(_) => drop(file),
        }
        Ok(())
    }

    /// Removes the task, of which no client knows.
    pub fn discard(&self) {
        disk::remove(&self.directory, &self.id.0, AtFlags::empty()).unwrap_or_else(|error| {
            tracing::warn!("{OWN}/{TASKS}/{} was not removed: {error}", self.id);
        });
    }
}

/// Writes the file of a task, and returns it locked.
fn write(
    own: &Own,
    directory: &OwnedFd,
    id: &TaskId,
    content: &TaskFile,
) -> io::Result<LockedFile> {
    let mut sealed = serde_json::to_vec(content)?;
    own.key().append(DOMAIN, &id.0, &mut sealed);
    if sealed.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the result is too large to be kept"));
    }
    LockedFile::create(directory, [&format!("{NEW}{id}"), &id.0], &sealed, true)
}

/// Opens the file of a task and locks it; `None` if there is none, or another process has locked it.
fn unlocked(
    directory: &OwnedFd,
    name: &str,
    how: FlockOperation,
) -> io::Result<Option<LockedFile>> {
    let file = match disk::open(directory, name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    LockedFile::new(file, how)
}

/// Reads the file of a task; `None` if it is not authentic, or of another version.
fn read(own: &Own, name: &str, file: &File) -> io::Result<Option<TaskFile>> {
    let content = own.content(file.try_clone()?, (DOMAIN, name), MAX_BYTES)?;
    let file = content.and_then(|content| serde_json::from_slice::<TaskFile>(&content).ok());
    Ok(file.filter(|file| file.version == VERSION))
}

fn ttl() -> SignedDuration {
    SignedDuration::try_from(TASK_TTL).unwrap_or(SignedDuration::MAX)
}

/// Removes what is too old. Returns the number of tasks that are left, and their size in bytes.
fn tidy(own: &Own, directory: &OwnedFd) -> io::Result<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for entry in disk::entries(directory)? {
        let Ok(name) = entry?.name.into_string() else { continue };
        let Some(stat) = disk::look(directory, &name)? else { continue };
        let modified = Timestamp::from_nanosecond(disk::modified(&stat).into()).unwrap_or_default();
        let age = clock::present().duration_since(modified);
        if age > ttl() && !is_kept(own, directory, &name, age)? {
            disk::remove_all(directory, &name)?;
            continue;
        }
        count += 1;
        bytes += u64::try_from(stat.st_size).unwrap_or(0);
    }
    Ok((count, bytes))
}

/// Whether a file is kept that is older than [`TASK_TTL`]: that of a task which has not ended.
fn is_kept(own: &Own, directory: &OwnedFd, name: &str, age: SignedDuration) -> io::Result<bool> {
    match unlocked(directory, name, FlockOperation::NonBlockingLockShared)? {
        None => Ok(disk::look(directory, name)?.is_some()),
        Some(_) if age.as_secs() > MAX_AGE_S => Ok(false),
        Some(file) => Ok(read(own, name, file.file())?.is_some_and(|file| file.end.is_none())),
    }
}
