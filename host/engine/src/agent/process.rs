//! One run of a program: started in a process group of its own, fed, read and watched by one
//! thread that never waits for a pipe, and killed with its group in the end.

use std::collections::HashMap;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::strays;
use cofferdam_text::escape_control;

/// How often the clock, the process and the wish to stop are looked at, however quiet the pipes.
const TICK: Duration = Duration::from_millis(20);

/// How long a program that is told to end may take to do so.
const GRACE: Duration = Duration::from_secs(1);

/// How much of standard error is kept, in bytes.
const KEPT: usize = 16 << 10;

/// How much is read in one go, in bytes.
const BLOCK: usize = 64 << 10;

/// What is started.
pub(super) struct Start {
    /// Its absolute path.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    pub environment: HashMap<String, String>,
    /// A text that its environment holds, and that of nothing but what it starts.
    pub mark: String,
}

/// Where it is stopped.
pub(super) struct Bounds {
    pub time: Duration,
    /// Bytes of standard output.
    pub output: usize,
}

/// How it ended, and what it printed.
pub(super) struct Ended {
    pub end: End,
    pub stdout: Vec<u8>,
    /// The last of it.
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

/// Runs a program until it ends, or until it is ended. What it left behind is killed before this
/// returns: its process group, and whatever else has its mark.
///
/// # Errors
/// Those of the system, on starting and on waiting.
pub(super) fn run(
    start: Start,
    input: &[u8],
    bounds: &Bounds,
    stop: &dyn Fn() -> bool,
) -> io::Result<Ended> {
    #[expect(clippy::disallowed_methods, reason = "the one place where a person's agent starts")]
    let mut command = Command::new(&start.program);
    let started = Instant::now();
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
    let stdin = group.child.stdin.take();
    let stdout = group.child.stdout.take();
    let stderr = group.child.stderr.take();
    for pipe in [
        stdin.as_ref().map(AsFd::as_fd),
        stdout.as_ref().map(AsFd::as_fd),
        stderr.as_ref().map(AsFd::as_fd),
    ] {
        let Some(pipe) = pipe else { continue };
        fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
    }
    let mut input = Input { pipe: stdin, rest: input };
    let mut output = Stream { pipe: stdout, bytes: Vec::new() };
    let mut log = Log { stream: Stream { pipe: stderr, bytes: Vec::new() }, line: Vec::new() };
    // Why it is being ended, and since when.
    let mut ending: Option<(End, Instant)> = None;
    while !group.has_ended()? {
        wait(&input, &output, &log.stream)?;
        input.feed();
        output.read(bounds.output);
        log.read();
        let why = if output.bytes.len() > bounds.output {
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
            (Some((_, since)), _) if since.elapsed() >= GRACE => break,
            _ => {}
        }
    }
    // What is still in the pipes was printed before; nobody waits for what others might add.
    group.kill();
    output.read(bounds.output);
    log.read();
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

/// A program with what it started, which is killed when this goes.
struct Group {
    child: Child,
    mark: String,
    is_reaped: bool,
}

impl Group {
    /// Whether the program has ended. It is not reaped, so that its group keeps its number.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to the whole group.
    fn signal(&self, signal: Signal) {
        let group = Pid::from_child(&self.child);
        if !self.is_reaped && test_kill_process_group(group).is_ok() {
            // Nobody may be left.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the group, and what has left it.
    fn kill(&self) {
        self.signal(Signal::KILL);
        strays::kill(&self.mark);
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
            // It is dead, and nothing can be done about a system that does not say so.
            let _ = self.child.wait();
        }
    }
}

/// Waits until something can be read or written, at most for a tick.
fn wait<O: AsFd, E: AsFd>(
    input: &Input<'_>,
    output: &Stream<O>,
    log: &Stream<E>,
) -> io::Result<()> {
    let pipes: [(Option<BorrowedFd<'_>>, PollFlags); 3] = [
        (input.pipe.as_ref().map(AsFd::as_fd), PollFlags::OUT),
        (output.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
        (log.pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
    ];
    let open =
        pipes.into_iter().filter_map(|(pipe, flags)| Some(PollFd::from_borrowed_fd(pipe?, flags)));
    let mut open: Vec<PollFd<'_>> = open.collect();
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    match poll(&mut open, Some(&tick)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the program still has to be given. It need not read it.
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
                // It has closed its end: it wants no more.
                Err(_) => self.rest = &[],
            }
            if self.rest.is_empty() {
                self.pipe = None;
            }
        }
    }
}

/// One of the streams that the program writes to.
struct Stream<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read> Stream<P> {
    /// Reads what is there, and no more once there are more than `most` bytes.
    fn read(&mut self, most: usize) {
        let mut block = vec![0; BLOCK];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.pipe = None,
                Ok(length) => self.bytes.extend_from_slice(&block[..length]),
            }
            if self.bytes.len() > most {
                self.pipe = None;
            }
        }
    }
}

/// Standard error: it is passed on by lines, and the last of it is kept.
struct Log<P> {
    stream: Stream<P>,
    line: Vec<u8>,
}

impl<P: Read> Log<P> {
    /// Reads a block of what is there. A program that only complains is looked at once a block,
    /// so that its time and its answer count as well.
    fn read(&mut self) {
        let Some(pipe) = &mut self.stream.pipe else { return };
        let mut block = vec![0; BLOCK];
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
            if part.ends_with(b"\n") || self.line.len() >= KEPT {
                self.end();
            }
        }
        let kept = &mut self.stream.bytes;
        kept.extend_from_slice(block);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }

    /// Passes on the line as far as it has come.
    fn end(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end();
        if !line.is_empty() {
            tracing::info!("agent: {}", escape_control(line));
        }
        self.line.clear();
    }
}
