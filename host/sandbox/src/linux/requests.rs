//! The supervisor's decisions about waiting calls: see [`gate`](super::gate).
//!
//! Locks, and changes of the mode, owner or times of an open file, are for files that the program
//! may write. On other files they would affect processes beyond the run, which wait for a lock. A
//! filter can't inspect a file, so the supervisor does. Then it either performs the operation
//! instead of the program, on the very file that it has inspected, or lets the kernel do it: if the
//! process has one thread, the file can't be exchanged in between. If it has several, a lock that
//! belongs to the process is verified afterwards.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libc::{EBADF, EFAULT, EINVAL, ENOLCK, ENOMEM, EPERM};
use rustix::fs::{Mode, Timespec, Timestamps, UTIME_NOW, fchmod, fstat, futimens};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, geteuid, pidfd_getfd, pidfd_open, pidfd_send_signal,
};

use super::gate::{Gate, PendingCall, Reply};
use super::memory::Memory;
use super::procfs;
use super::sockets::Sockets;

/// The number of locks that can wait at a time.
const MAX_WAITING_LOCKS: usize = 256;

/// The files that the program may write: those in `places` except those in `excluded`.
pub(super) struct WritablePaths {
    pub(super) places: Vec<PathBuf>,
    pub(super) excluded: Vec<PathBuf>,
}

impl WritablePaths {
    fn contains(&self, path: &Path) -> bool {
        let is_in = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        is_in(&self.places) && !is_in(&self.excluded)
    }
}

/// How long after its admission a lock is verified in each poll; later it is verified once in this
/// time.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// The state of the calls of a run.
pub(super) struct Requests {
    writable: WritablePaths,
    waiting: Vec<Waiting>,
    suspects: Vec<Suspect>,
    sockets: Sockets,
}

/// A process with several threads that was allowed to take a lock of its own.
struct Suspect {
    process: Pid,
    handle: OwnedFd,
    asked: Instant,
    looked_at: Instant,
}

/// A `flock` that waits for its lock.
struct Waiting {
    call: PendingCall,
    file: OwnedFd,
}

impl Requests {
    pub(super) fn new(writable: WritablePaths) -> Self {
        Self { writable, waiting: Vec::new(), suspects: Vec::new(), sockets: Sockets::default() }
    }

    /// Decides about a call. Returns `None` if it keeps waiting, or does not wait any more.
    pub(super) fn decide(
        &mut self,
        gate: &Gate,
        call: PendingCall,
        memory: &mut Memory,
        members: impl FnOnce() -> io::Result<Vec<Pid>>,
    ) -> Option<(PendingCall, Reply)> {
        let reply = match call.call {
            libc::SYS_mmap => match memory.share(call.arguments[1], members) {
                true => Reply::Continue,
                false => Reply::Failed(ENOMEM),
            },
            // Only in tier B, which has no sockets.
            libc::SYS_socket => Reply::Failed(EPERM),
            libc::SYS_flock | libc::SYS_fcntl => return self.lock(gate, call),
            libc::SYS_listen | libc::SYS_connect => return self.sockets.decide(gate, call),
            _ => match self.open_file(gate, &call)? {
                Ok((file, true)) => change(&call, &file),
                Ok((_, false)) => Reply::Failed(EPERM),
                Err(error) => Reply::Failed(error),
            },
        };
        Some((call, reply))
    }

    /// Whether any lock or connection is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.sockets.is_waiting()
    }

    /// Tries to take the locks, and to make the connections, that are waited for.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a reply.
    pub(super) fn retry(&mut self, gate: &Gate) -> io::Result<()> {
        for waiting in std::mem::take(&mut self.waiting) {
            match take(&waiting.file, &waiting.call) {
                Some(reply) => gate.reply(&waiting.call, reply)?,
                None if gate.is_pending(&waiting.call) => self.waiting.push(waiting),
                None => {}
            }
        }
        self.sockets.retry(gate)
    }

    /// Kills each process that has exchanged a file between the supervisor's check and the kernel's
    /// lock, and so has locked a file that it can't write.
    pub(super) fn verify(&mut self) {
        let writable = &self.writable;
        self.suspects.retain_mut(|suspect| {
            // A lock may be granted later, after waiting.
            if suspect.asked.elapsed() > SETTLE_TIME && suspect.looked_at.elapsed() < SETTLE_TIME {
                return true;
            }
            suspect.looked_at = Instant::now();
            if locks_unwritable_file(suspect.process, writable) == Some(false) {
                return true;
            }
            // A process that can't be inspected has ended or hides.
            let _ = pidfd_send_signal(&suspect.handle, Signal::KILL);
            false
        });
    }

    /// Decides about a lock: `flock`, which belongs to the open file, or `fcntl`, which belongs to
    /// the process.
    fn lock(&mut self, gate: &Gate, call: PendingCall) -> Option<(PendingCall, Reply)> {
        let descriptor = call.arguments[0] as i32;
        let path = fs::read_link(format!("/proc/{}/fd/{descriptor}", call.thread.as_raw_nonzero()));
        let has_one_thread = has_one_thread(call.thread);
        // Then it was the same process all the time, not a later one with the same id.
        if !gate.is_pending(&call) {
            return None;
        }
        let reply = match path {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Reply::Failed(EBADF),
            Err(_) => Reply::Failed(ENOLCK),
            Ok(path) if !self.writable.contains(&path) => Reply::Done,
            Ok(_) if has_one_thread => Reply::Continue,
            Ok(_) if call.call == libc::SYS_flock => return self.flock(gate, call),
            Ok(_) => match self.suspect(call.thread) {
                Some(()) => Reply::Continue,
                None => Reply::Failed(ENOLCK),
            },
        };
        Some((call, reply))
    }

    /// Performs a `flock` for a process of several threads, which could exchange the file.
    fn flock(&mut self, gate: &Gate, call: PendingCall) -> Option<(PendingCall, Reply)> {
        let reply = match self.open_file(gate, &call)? {
            Err(EBADF) => Reply::Failed(EBADF),
            Err(_) => Reply::Failed(ENOLCK),
            Ok((_, false)) => Reply::Done,
            Ok((file, true)) => match take(&file, &call) {
                Some(reply) => reply,
                None if self.waiting.len() < MAX_WAITING_LOCKS => {
                    self.waiting.push(Waiting { call, file });
                    return None;
                }
                None => Reply::Failed(ENOLCK),
            },
        };
        Some((call, reply))
    }

    /// Marks a process for verification.
    fn suspect(&mut self, thread: Pid) -> Option<()> {
        let process = procfs::status(thread)?.process;
        let now = Instant::now();
        match self.suspects.iter_mut().find(|suspect| suspect.process == process) {
            Some(suspect) => suspect.asked = now,
            None => {
                let handle = pidfd_open(process, PidfdFlags::empty()).ok()?;
                self.suspects.push(Suspect { process, handle, asked: now, looked_at: now });
            }
        }
        Some(())
    }

    /// Returns the file of a call's first argument and whether the program may write it, or the
    /// error for the call; `None` if the caller does not wait any more.
    fn open_file(&self, gate: &Gate, call: &PendingCall) -> Option<Result<(OwnedFd, bool), i32>> {
        let file = descriptor(gate, call)?;
        Some(file.map(|file| {
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let is_own = path.is_ok_and(|path| self.writable.contains(&path));
            (file, is_own)
        }))
    }
}

/// Copies the descriptor that is a call's first argument; or returns the error for the call. `None`
/// if the caller does not wait any more.
pub(super) fn descriptor(gate: &Gate, call: &PendingCall) -> Option<Result<OwnedFd, i32>> {
    let copy = || -> rustix::io::Result<OwnedFd> {
        let process = procfs::status(call.thread).ok_or(Errno::SRCH)?.process;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        pidfd_getfd(&process, call.arguments[0] as i32, PidfdGetfdFlags::empty())
    };
    let copy = copy();
    gate.is_pending(call).then(|| copy.map_err(Errno::raw_os_error))
}

/// Whether a process has only one thread: its directory of threads has one entry.
pub(super) fn has_one_thread(thread: Pid) -> bool {
    let threads = fs::metadata(format!("/proc/{}/task", thread.as_raw_nonzero()));
    threads.is_ok_and(|threads| threads.nlink() == 3)
}

/// Performs a `flock`. Returns `None` if the call blocks and the lock is not free.
fn take(file: &OwnedFd, call: &PendingCall) -> Option<Reply> {
    let operation = call.arguments[1] as i32;
    // SAFETY: no pointers.
    let status = unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) };
    if status == 0 {
        return Some(Reply::Done);
    }
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(ENOLCK);
    (error != libc::EWOULDBLOCK || operation & libc::LOCK_NB != 0).then_some(Reply::Failed(error))
}

/// Changes the mode or the times of a file that the program may write, and never its owner. Like
/// the kernel, it allows this only for the owner: the supervisor may have more rights than the
/// program.
fn change(call: &PendingCall, file: &OwnedFd) -> Reply {
    let done = |result: rustix::io::Result<()>| match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(error.raw_os_error()),
    };
    let stat = match fstat(file) {
        Ok(stat) if stat.st_uid == geteuid().as_raw() => stat,
        _ => return Reply::Failed(EPERM),
    };
    match call.call {
        libc::SYS_fchmod => {
            done(fchmod(file, Mode::from_raw_mode(call.arguments[1] as u32 & 0o1777)))
        }
        libc::SYS_fchown => {
            let stays = |asked: u64, is: u32| [is, u32::MAX].contains(&(asked as u32));
            if stays(call.arguments[1], stat.st_uid) && stays(call.arguments[2], stat.st_gid) {
                Reply::Done
            } else {
                Reply::Failed(EPERM)
            }
        }
        libc::SYS_utimensat if call.arguments[3] as u32 == 0 => match times(call) {
            Some(times) => done(futimens(file, &times)),
            None => Reply::Failed(EFAULT),
        },
        _ => Reply::Failed(EINVAL),
    }
}

/// Reads the times of a `utimensat`: two pairs of numbers in the caller's memory; a null pointer
/// means now.
fn times(call: &PendingCall) -> Option<Timestamps> {
    let address = call.arguments[2];
    if address == 0 {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        return Some(Timestamps { last_access: now, last_modification: now });
    }
    let mut bytes = [0; 32];
    procfs::read_memory(call.thread, address, &mut bytes)?;
    let number = |at: usize| Some(i64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let time = |at: usize| Some(Timespec { tv_sec: number(at)?, tv_nsec: number(at + 8)? as _ });
    Some(Timestamps { last_access: time(0)?, last_modification: time(16)? })
}

/// Whether a process has a lock on a file that it can't write: proc(5), `/proc/pid/fdinfo`. `None`
/// if it can't be inspected.
fn locks_unwritable_file(pid: Pid, writable: &WritablePaths) -> Option<bool> {
    let process = format!("/proc/{}", procfs::status(pid)?.thread.as_raw_nonzero());
    for entry in fs::read_dir(format!("{process}/fdinfo")).ok()? {
        let Ok(entry) = entry else { return None };
        let name = entry.file_name();
        // A descriptor that was closed in the meantime has no locks.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let is_locked =
            text.lines().any(|line| line.starts_with("lock:") && line.contains("POSIX"));
        if !is_locked {
            continue;
        }
        let Ok(path) = fs::read_link(PathBuf::from(format!("{process}/fd")).join(name)) else {
            continue;
        };
        if !writable.contains(&path) {
            return Some(true);
        }
    }
    Some(false)
}
