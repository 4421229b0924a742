//! Runs one program in a process group of its own, in a single thread that never blocks on a pipe,
//! and kills the group in the end.

use std::collections::HashMap;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::orphans;
use cofferdam_text::escape_control;

/// How often the deadline, the process and cancellation are checked while the pipes are quiet.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a program may take to exit after SIGTERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// How much of the end of standard error is kept, in bytes.
const MAX_KEPT_STDERR_BYTES: usize = 16 << 10;

/// The size of one read, in bytes.
const READ_BLOCK_BYTES: usize = 64 << 10;

pub(super) struct Start {
    /// The absolute path of the executable.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    pub environment: HashMap<String, String>,
    /// A unique text in its environment, which its child processes inherit.
    pub mark: String,
}

/// The limits of a run.
pub(super) struct Bounds {
    pub time: Duration,
    /// The maximum size of standard output, in bytes.
    pub output: usize,
}

/// How a program ended, and its output.
pub(super) struct Ended {
    pub end: End,
    pub stdout: Vec<u8>,
    /// The last part of it.
    pub stderr: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    Signal(i32),
    Timeout,
    TooLong,
    Stopped,
}

/// Runs a program until it exits or exceeds a limit, or until `stop` returns true. Before this
/// returns, its process group is killed, and all other processes whose environment contains the
/// mark.
///
/// # Errors
/// I/O errors of starting the program and waiting for it.
pub(super) fn run(
    start: Start,
    input: &[u8],
    bounds: &Bounds,
    stop: &dyn Fn() -> bool,
) -> io::Result<Ended> {
    let started = Instant::now();
    let (mut group, mut pipes) = spawn(start, input)?;
    // Why the program is being ended, and since when.
    let mut ending: Option<(End, Instant)> = None;
    while !group.has_ended()? {
        pipes.wait()?;
        pipes.input.feed();
        pipes.read(bounds.output);
        let why = if pipes.output.bytes.len() > bounds.output {
            Some(End::TooLong)
        } else if started.elapsed() >= bounds.time {
            Some(End::Timeout)
        } else if stop() {
            Some(End::Stopped)
        } else {
            None
        };
        match (ending, why) {
            (None, Some(why)) => {
                group.signal(Signal::TERM);
                ending = Some((why, Instant::now()));
            }
            (Some((_, since)), _) if since.elapsed() >= TERM_GRACE => break,
            _ => {}
        }
    }
    // Anything still in the pipes was printed before. Later output of other processes is not
    // awaited.
    group.kill();
    pipes.read(bounds.output);
    let Pipes { output, mut log, .. } = pipes;
    log.end();
    let status = group.reap()?;
    let end = match ending {
        Some((why, _)) => why,
        None if output.bytes.len() > bounds.output => End::TooLong,
        None => match status.signal() {
            Some(signal) => End::Signal(signal),
            None => End::Exit(status.code().unwrap_or(-1)),
        },
    };
    Ok(Ended { end, stdout: output.bytes, stderr: log.stream.bytes })
}

/// Starts a program in a process group of its own, with non-blocking pipes.
fn spawn(start: Start, input: &[u8]) -> io::Result<(Group, Pipes<'_>)> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the user's agent starts")]
    let mut command = Command::new(&start.program);
    let child = command
        .args(&start.arguments)
        .current_dir(&start.directory)
        .env_clear()
        .envs(&start.environment)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut group = Group { child, mark: start.mark, is_reaped: false };
    let pipes = Pipes {
        input: Input { pipe: group.child.stdin.take(), rest: input },
        output: Stream { pipe: group.child.stdout.take(), bytes: Vec::new() },
        log: Log {
            stream: Stream { pipe: group.child.stderr.take(), bytes: Vec::new() },
            line: Vec::new(),
        },
    };
    for (pipe, _) in pipes.open() {
        fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
    }
    Ok((group, pipes))
}

/// A program and its process group, killed on drop.
struct Group {
    child: Child,
    mark: String,
    is_reaped: bool,
}

impl Group {
    /// Whether the program has exited. It is not reaped here, so that the id of its group stays
    /// valid.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to the process group.
    fn signal(&self, signal: Signal) {
        let group = Pid::from_child(&self.child);
        if !self.is_reaped && test_kill_process_group(group).is_ok() {
            // The group may be empty by now.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the process group, and the marked processes outside of it.
    fn kill(&self) {
        self.signal(Signal::KILL);
        orphans::kill(&self.mark);
    }

    fn reap(&mut self) -> io::Result<std::process::ExitStatus> {
        let status = self.child.wait()?;
        self.is_reaped = true;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            // It was killed; an error can't be handled here.
            let _ = self.child.wait();
        }
    }
}

/// The pipes to and from a program.
struct Pipes<'a> {
    input: Input<'a>,
    output: Stream<ChildStdout>,
    log: Log<ChildStderr>,
}

impl Pipes<'_> {
    /// The open pipes, and the events to wait for on each.
    fn open(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let pipes = [
            (self.input.pipe.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (self.output.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.log.stream.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        pipes.into_iter().filter_map(|(pipe, flags)| Some((pipe?, flags)))
    }

    /// Waits until a pipe is ready, for one [`POLL_INTERVAL`] at most.
    fn wait(&self) -> io::Result<()> {
        let mut open: Vec<PollFd<'_>> =
            self.open().map(|(pipe, flags)| PollFd::from_borrowed_fd(pipe, flags)).collect();
        let interval = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.subsec_nanos().into() };
        match poll(&mut open, Some(&interval)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads available output without blocking.
    fn read(&mut self, max_output_bytes: usize) {
        self.output.read(max_output_bytes);
        self.log.read();
    }
}

/// The rest of the input. The program need not read it.
struct Input<'a> {
    pipe: Option<ChildStdin>,
    rest: &'a [u8],
}

impl Input<'_> {
    fn feed(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.write(self.rest) {
                Ok(written) => self.rest = &self.rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The program has closed its standard input.
                Err(_) => self.rest = &[],
            }
            if self.rest.is_empty() {
                self.pipe = None;
            }
        }
    }
}

/// An output stream of the program, and the bytes read from it.
struct Stream<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read> Stream<P> {
    /// Reads available bytes without blocking. Stops reading the stream once it exceeds `max_bytes`
    /// bytes.
    fn read(&mut self, max_bytes: usize) {
        let mut block = vec![0; READ_BLOCK_BYTES];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.pipe = None,
                Ok(length) => self.bytes.extend_from_slice(&block[..length]),
            }
            if self.bytes.len() > max_bytes {
                self.pipe = None;
            }
        }
    }
}

/// Standard error: each line is logged, and the last [`MAX_KEPT_STDERR_BYTES`] bytes are kept.
struct Log<P> {
    stream: Stream<P>,
    line: Vec<u8>,
}

impl<P: Read> Log<P> {
    /// Reads at most one block without blocking, so that a program that floods its standard error
    /// can't keep the loop from checking the other stream and the deadline.
    fn read(&mut self) {
        let Some(pipe) = &mut self.stream.pipe else { return };
        let mut block = vec![0; READ_BLOCK_BYTES];
        let length = match pipe.read(&mut block) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                return;
            }
            Ok(0) | Err(_) => {
                self.stream.pipe = None;
                return;
            }
            Ok(length) => length,
        };
        let block = &block[..length];
        for part in block.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= MAX_KEPT_STDERR_BYTES {
                self.end();
            }
        }
        let kept = &mut self.stream.bytes;
        kept.extend_from_slice(block);
        kept.drain(..kept.len().saturating_sub(MAX_KEPT_STDERR_BYTES));
    }

    /// Logs the current line.
    fn end(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end();
        if !line.is_empty() {
            tracing::info!("agent: {}", escape_control(line));
        }
        self.line.clear();
    }
}
