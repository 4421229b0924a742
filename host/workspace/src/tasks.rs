//! Tasks: calls that go on after their request was answered, and their ends. A client asks for the end by
//! the task's id, also in a process that was started since.
//!
//! A task is a file in `.cofferdam/tasks` whose name is its id: 128 random bits, which can't be guessed.
//! The file is authenticated and bound to its name. The process that makes the call holds a lock on it,
//! and replaces it with the end of the call. So a file that has no end and that nobody locks is one of a
//! process that was killed.
//!
//! Who may ask for a task, and what its end means, is not decided here.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_core::policy::OWN;
use jiff::Timestamp;
use rustix::fs::{AtFlags, FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layout::TASKS;
use crate::own::{self, Own};
use crate::workspace::Workspace;
use crate::{clock, disk};

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

/// The length of an id, in bytes.
const ID_BYTES: usize = 16;

/// The id of a task: 128 random bits, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskId(String);

impl TaskId {
    fn new() -> io::Result<Self> {
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        Ok(Self(id.iter().map(|byte| format!("{byte:02x}")).collect()))
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
}

/// A task whose process does not make the call any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// What it is.
    pub task: TaskRecord,
    /// `None` if the process has ended before the call.
    pub end: Option<TaskEnd>,
}

/// A task whose call this process makes. If it is dropped without an end, its process has failed.
#[derive(Debug)]
pub struct RunningTask {
    own: Arc<Own>,
    directory: OwnedFd,
    id: TaskId,
    task: TaskRecord,
    /// Locked as long as the call is made.
    #[expect(dead_code, reason = "only held")]
    file: File,
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
        let (count, bytes) = tidy(&directory)?;
        if count >= MAX_TASKS || bytes >= MAX_ALL_BYTES {
            return Ok(None);
        }
        let id = TaskId::new()?;
        let begun = TaskFile { version: VERSION, task: task.clone(), end: None };
        let file = write(&own, &directory, &id, &begun)?;
        Ok(Some(RunningTask { own, directory, id, task, file }))
    }

    /// Returns a task that no process works on; `None` if there is none with this id, or the file is not
    /// authentic.
    ///
    /// # Errors
    /// I/O errors.
    pub fn kept_task(&self, id: &TaskId) -> io::Result<Option<KeptTask>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(directory) = own::existing_directory(&*own, TASKS)? else { return Ok(None) };
        let name = id.to_string();
        let file = match disk::open(&directory, &name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !disk::try_lock(&file, FlockOperation::NonBlockingLockShared)? {
            return Ok(None);
        }
        let content = own.content(file.into(), (DOMAIN, &name), MAX_BYTES)?;
        let Some(content) = content else {
            tracing::warn!("{OWN}/{TASKS}/{name} is not used: no host of this user wrote it");
            return Ok(None);
        };
        let TaskFile { version, task, end } = serde_json::from_slice(&content)?;
        Ok((version == VERSION).then_some(KeptTask { task, end }))
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
        let ended = TaskFile { version: VERSION, task: self.task.clone(), end: Some(end) };
        write(&self.own, &self.directory, &self.id, &ended).map(drop)
    }

    /// Removes the task, of which no client knows.
    pub fn discard(&self) {
        disk::remove(&self.directory, &self.id.0, AtFlags::empty()).unwrap_or_else(|error| {
            tracing::warn!("{OWN}/{TASKS}/{} was not removed: {error}", self.id);
        });
    }
}

/// Writes the file of a task, and returns it locked.
fn write(own: &Own, directory: &OwnedFd, id: &TaskId, content: &TaskFile) -> io::Result<File> {
    let mut sealed = serde_json::to_vec(content)?;
    own.key().append(DOMAIN, &id.0, &mut sealed);
    if sealed.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the result is too large to be kept"));
    }
    let new = format!("{NEW}{id}");
    let mut file = disk::create(directory, &new)?;
    let written = flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(&sealed))
        .and_then(|()| disk::sync(&file))
        .and_then(|()| disk::rename(directory, &new, directory, &id.0));
    if let Err(error) = written {
        disk::remove(directory, &new, AtFlags::empty())?;
        return Err(error);
    }
    Ok(file)
}

/// Removes what is too old. Returns the number of tasks that are left, and their size in bytes.
fn tidy(directory: &OwnedFd) -> io::Result<(usize, u64)> {
    let ttl = i64::try_from(TASK_TTL.as_nanos()).unwrap_or(i64::MAX);
    let oldest = i64::try_from(clock::present().as_nanosecond()).unwrap_or(i64::MAX) - ttl;
    let (mut count, mut bytes) = (0, 0);
    for entry in disk::entries(directory)? {
        let Ok(name) = entry?.name.into_string() else { continue };
        let Some(stat) = disk::look(directory, &name)? else { continue };
        if disk::modified(&stat) < oldest && !is_locked(directory, &name)? {
            disk::remove_all(directory, &name)?;
            continue;
        }
        count += 1;
        bytes += u64::try_from(stat.st_size).unwrap_or(0);
    }
    Ok((count, bytes))
}

/// Whether a process makes the call of a task.
fn is_locked(directory: &OwnedFd, name: &str) -> io::Result<bool> {
    match disk::open(directory, name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        file => Ok(!disk::try_lock(&file?, FlockOperation::NonBlockingLockShared)?),
    }
}
