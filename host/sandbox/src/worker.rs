//! A computation on untrusted bytes, in a process of its own: bytes in, bytes out, and nothing
//! else. Which computation that is, the executable decides.
//!
//! The worker is the helper's executable once more. Before it reads its input, it gives up
//! everything that a computation does without: files, sockets, other processes, capabilities,
//! code that is not its own, and memory and processor time beyond its bounds. On Linux that is
//! seccomp, Landlock and resource limits; elsewhere there are only the resource limits.

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

/// If the executable's allocator is mimalloc, which otherwise begins with a gigabyte that it can
/// write: all of it would count as the worker's memory.
const EAGER_COMMIT_VARIABLE: &str = "MIMALLOC_ARENA_EAGER_COMMIT";

/// How often the host looks whether a computation is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How much of a worker's last words is kept, in bytes.
const MAX_STDERR_BYTES: u64 = 4 << 10;

/// What an answer begins with.
const DONE: u8 = b'+';
const REFUSED: u8 = b'-';

/// Where a computation is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// From start to end.
    pub wall: Duration,
    /// Memory that it can write, in bytes: an allocation beyond it fails. Not every system other
    /// than Linux keeps to it.
    pub memory: u64,
    /// The answer, in bytes.
    pub output: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The computation itself refused its input. Its words are as little trusted as its input.
    #[error("{0}")]
    Refused(String),
    /// It reached a limit.
    #[error("it reached its limit of {0}")]
    Limit(Limit),
    /// The process ended without an answer: how, and its last words, which are not trusted.
    #[error("its process crashed: {0}")]
    Crashed(String),
    /// Somebody cancelled it.
    #[error("it was cancelled")]
    Cancelled,
    /// The process could not be started.
    #[error("its process can't be started: {0}")]
    Start(String),
}

/// Does `work` on what stands on standard input, if this process was started by
/// [`Helper::work`]. An executable that is named as [`Helper`] calls this before it starts a
/// thread or opens a file, and returns the status that it gets.
pub fn run_if_worker(work: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String>) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORKER_ARGUMENT {
        return None;
    }
    Some(match answer(arguments, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody listens, the status still says it.
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
    /// Has the executable's computation ([`run_if_worker`]) done on `input`, in a process of its
    /// own. Blocks until it has ended; `is_cancelled` is asked every few milliseconds.
    ///
    /// The answer comes from a process that worked on untrusted input: nobody has checked it.
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
            // It may refuse before it has read everything.
            let write = move || drop(stdin.write_all(input));
            let most = bounds.output.saturating_add(2);
            let answer = move || {
                let bytes = read(stdout, most);
                drop(reading);
                bytes
            };
            // Whichever thread can't be started: the worker is dead before the others are waited
            // for.
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

/// What its process left behind.
fn ended(status: ExitStatus, mut answer: Vec<u8>, words: &str) -> Result<Vec<u8>, WorkError> {
    if status.success() && !answer.is_empty() {
        return match answer.remove(0) {
            DONE => Ok(answer),
            REFUSED => Err(WorkError::Refused(String::from_utf8_lossy(&answer).into_owned())),
            _ => Err(WorkError::Crashed("what it answered makes no sense".to_owned())),
        };
    }
    // What Rust's standard library says, and the C library does not get more than this.
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

/// SIGXCPU, on every Unix.
const CPU_TIME: i32 = 24;

/// Reads to the end, or `most` bytes.
fn read(input: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before a failure is all that there is.
    let _ = input.take(most).read_to_end(&mut bytes);
    bytes
}

fn start(error: io::Error) -> WorkError {
    WorkError::Start(error.to_string())
}

/// A process that does not outlive this.
struct Worker(Child);

impl Worker {
    /// How it ended; `None`: it has not.
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
        // It fails for one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
