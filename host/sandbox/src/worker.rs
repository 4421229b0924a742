//! Runs a computation on untrusted bytes in a process of its own: bytes in, bytes out, and nothing
//! else. The executable defines the computation.
//!
//! The worker is the helper's executable again. Before it reads its input, it gives up everything
//! that a computation does not need: files, sockets, other processes, capabilities, new executable
//! code, and memory and processor time beyond its limits. On Linux it uses seccomp, Landlock and
//! resource limits; on other systems only resource limits.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Helper, Limit};

/// The first argument of a worker process; its memory in bytes and its processor time in seconds
/// follow.
const WORKER_ARGUMENT: &str = "--cofferdam-sandbox-worker";

/// The environment variable by which mimalloc, if it is the executable's allocator, does not start
/// with a gigabyte of writable memory: all of it would count as the worker's memory.
const EAGER_COMMIT_VARIABLE: &str = "MIMALLOC_ARENA_EAGER_COMMIT";

/// How often the host checks whether a computation must end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How much of a worker's standard error is kept, in bytes.
const MAX_STDERR_BYTES: u64 = 4 << 10;

/// The first byte of a successful answer, and that of a refusal.
const DONE: u8 = b'+';
const REFUSED: u8 = b'-';

/// The limits of a computation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Writable memory in bytes: an allocation beyond it fails. Not every system except Linux
    /// enforces it.
    pub memory: u64,
    /// The size of the answer in bytes.
    pub output: u64,
}

/// The computation returned no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The computation refused its input. The message is as untrusted as the input.
    #[error("{0}")]
    Refused(String),
    /// It exceeded a limit.
    #[error("it reached its limit of {0}")]
    Limit(Limit),
    /// The process ended without an answer: its exit status, and its standard error, which is
    /// untrusted.
    #[error("its process crashed: {0}")]
    Crashed(String),
    /// The caller cancelled the computation.
    #[error("it was cancelled")]
    Cancelled,
    /// The process could not be started.
    #[error("its process can't be started: {0}")]
    Start(String),
}

/// Calls `work` with the standard input if this process was started by [`Helper::work`]. An
/// executable that is used as [`Helper`] calls this before it starts a thread or opens a file, and
/// returns the exit status that it gets.
#[must_use = "a worker that goes on would do the work of the host"]
pub fn run_if_worker(work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String>) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORKER_ARGUMENT {
        return None;
    }
    Some(match answer(arguments, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the exit status still reports the failure.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    })
}

fn answer(
    mut arguments: impl Iterator<Item = OsString>,
    work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String>,
) -> io::Result<()> {
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let (Some(memory), Some(cpu_seconds)) = (number(), number()) else {
        return Err(io::Error::other("a worker without its limits"));
    };
    crate::system::lock_down(memory, cpu_seconds)?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let (kind, bytes) = match work(input) {
        Ok(bytes) => (DONE, bytes),
        Err(reason) => (REFUSED, reason.into_bytes()),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[kind])?;
    stdout.write_all(&bytes)?;
    stdout.flush()
}

impl Helper {
    /// Runs the executable's computation ([`run_if_worker`]) on `input` in a new process. Blocks
    /// until it has ended; calls `is_cancelled` every few milliseconds.
    ///
    /// The answer comes from a process that handled untrusted input, so it is untrusted as well.
    ///
    /// # Errors
    /// See [`WorkError`].
    pub fn work(
        &self,
        input: &[u8],
        bounds: &Bounds,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        let deadline = Instant::now() + bounds.wall;
        let mut child = self.start_worker(bounds).map_err(start)?;
        let pipes = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(WorkError::Start("it has no pipes".to_owned()));
        };
        thread::scope(|scope| {
            let (reading, has_ended) = mpsc::channel::<()>();
            // The worker may refuse its input before it has read all of it.
            let write = move || drop(stdin.write_all(input));
            let most = bounds.output.saturating_add(2);
            let answer = move || {
                let bytes = read(stdout, most);
                drop(reading);
                bytes
            };
            // If a thread can't be started, the worker is killed before the other threads are
            // joined.
            let _writer = thread::Builder::new().spawn_scoped(scope, write).map_err(start)?;
            let reader = thread::Builder::new().spawn_scoped(scope, answer).map_err(start)?;
            let listener = thread::Builder::new()
                .spawn_scoped(scope, || read(stderr, MAX_STDERR_BYTES))
                .map_err(start)?;
            loop {
                match has_ended.recv_timeout(POLL_INTERVAL) {
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) if is_cancelled() => {
                        return Err(WorkError::Cancelled);
                    }
                    Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                        return Err(WorkError::Limit(Limit::WallClock));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            let answer = reader.join().unwrap_or_default();
            if answer.len() as u64 == most {
                return Err(WorkError::Limit(Limit::Output));
            }
            let Some(status) = child.wait(deadline).map_err(start)? else {
                return Err(WorkError::Limit(Limit::WallClock));
            };
            drop(child);
            let words = listener.join().unwrap_or_default();
            ended(status, answer, &String::from_utf8_lossy(&words))
        })
    }

    fn start_worker(&self, bounds: &Bounds) -> io::Result<Worker> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let cpu_seconds = (bounds.wall.as_secs() + 1).saturating_mul(threads);
        self.command()
            .args([WORKER_ARGUMENT, &bounds.memory.to_string(), &cpu_seconds.to_string()])
            .env(EAGER_COMMIT_VARIABLE, "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Worker)
    }
}

/// Interprets the exit status and the output of the process.
fn ended(status: ExitStatus, mut answer: Vec<u8>, words: &str) -> Result<Vec<u8>, WorkError> {
    if status.success() && !answer.is_empty() {
        return match answer.remove(0) {
            DONE => Ok(answer),
            REFUSED => Err(WorkError::Refused(String::from_utf8_lossy(&answer).into_owned())),
            _ => Err(WorkError::Crashed("its answer is invalid".to_owned())),
        };
    }
    // The message of Rust's standard library; the C library does not set its own limit below this.
    if words.contains("memory allocation of ") {
        return Err(WorkError::Limit(Limit::Memory));
    }
    if status.signal() == Some(CPU_TIME) {
        return Err(WorkError::Limit(Limit::CpuTime));
    }
    let words = words.trim();
    Err(WorkError::Crashed(match words.is_empty() {
        true => status.to_string(),
        false => format!("{status}; it said: {words}"),
    }))
}

/// The signal SIGXCPU, on every Unix.
const CPU_TIME: i32 = 24;

/// Reads to the end, but at most `most` bytes.
fn read(input: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, the bytes that were read are returned.
    let _ = input.take(most).read_to_end(&mut bytes);
    bytes
}

fn start(error: io::Error) -> WorkError {
    WorkError::Start(error.to_string())
}

/// A process that is killed on drop.
struct Worker(Child);

impl Worker {
    /// Waits for the exit status; returns `None` at the deadline.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It fails if the process has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
