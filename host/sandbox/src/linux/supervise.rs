//! Runs the program, supervises it, and kills what remains.

use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, WaitStatus, pidfd_open, setsid};

use super::attempts::Attempts;
use super::confine::Confinement;
use super::disk::Watch;
use super::gate::{self, Gate, PendingCall, Reply};
use super::groups::Groups;
use super::memory::Memory;
use super::mounts;
use super::network::Exchange;
use super::procfs;
use super::requests::{Requests, WritablePaths};
use super::tree::{self, Tree};
use crate::capture::Capture;
use crate::{Captured, Command, End, Limit, Limits, Report, SandboxError, Stream, Tier};

/// How often a waiting lock is retried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// The size of the read buffer in bytes.
const READ_BYTES: usize = 64 << 10;

/// The state of a run besides its description.
pub(super) struct Run {
    pub(super) tier: Tier,
    pub(super) input: Vec<u8>,
    pub(super) watch: Watch,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    /// Receives the parts of streams that are passed on.
    pub(super) piece: PieceSink,
}

/// Receives a part of a stream.
pub(super) type PieceSink = Box<dyn FnMut(Stream, &[u8]) -> io::Result<()>>;

/// Runs a program to its end. Afterwards, none of its processes exists.
///
/// # Errors
/// Returns an error if the program can't be started or supervised.
pub(super) fn run(
    run: Run,
    command: &Command,
    temporary: &Path,
    confinement: Confinement,
) -> Result<Report, SandboxError> {
    let tree = match run.tier {
        Tier::A => Tree::Namespace,
        Tier::B => Tree::Descendants,
    };
    let mut exchange = command.loopback.then(Exchange::default);
    if let Some(exchange) = &mut exchange {
        exchange.serve_until_start().map_err(|error| SandboxError::Setup(error.to_string()))?;
    }
    let start = Instant::now();
    let attempts = Attempts::new(run.tier);
    let (child, gate) = spawn(command, temporary, confinement)?;
    let own = writable(command, run.tier, temporary);
    let mut supervisor = Supervisor {
        tree,
        memory: memory(command, run.tier),
        requests: Requests::new(own),
        attempts,
        exchange,
        limits: &command.limits,
        deadline: start + command.limits.wall,
        groups: Groups::new(Pid::from_child(&child), command.limits.processes),
        program: Pid::from_child(&child),
        status: None,
        gate: Some(gate),
        stdin: child.stdin.map(|pipe| (pipe, run.input, 0)),
        stdout: Source { stream: Stream::Stdout, pipe: child.stdout, capture: run.stdout },
        stderr: Source { stream: Stream::Stderr, pipe: child.stderr, capture: run.stderr },
        piece: run.piece,
        disks: run.watch,
        buffer: vec![0; READ_BYTES],
    };
    let stopped = supervisor.watch();
    // After any error, all processes are killed.
    let killed = supervisor.end();
    let stopped = stopped.and_then(|stopped| Ok((stopped, killed?)));
    let (stopped, killed) = stopped.map_err(|error| SandboxError::Setup(error.to_string()))?;
    let end = match (stopped, supervisor.status) {
        (Some(end), _) => end,
        (None, Some(status)) => ended(status),
        (None, None) => {
            return Err(SandboxError::Setup("the program's status was lost".to_owned()));
        }
    };
    let Supervisor { stdout, stderr, mut piece, attempts, .. } = supervisor;
    let kept =
        stdout.finish(&mut piece).and_then(|stdout| Ok((stdout, stderr.finish(&mut piece)?)));
    let (stdout, stderr) = kept.map_err(|error| SandboxError::Setup(error.to_string()))?;
    let (wall, attempts) = (start.elapsed(), attempts.into_found());
    Ok(Report { end, tier: run.tier, stdout, stderr, wall, killed, attempts })
}

/// The files that the program may write.
fn writable(command: &Command, tier: Tier, temporary: &Path) -> WritablePaths {
    let private: Vec<PathBuf> = match tier {
        Tier::A => mounts::private(command).map(PathBuf::from).collect(),
        Tier::B => vec![temporary.to_owned()],
    };
    let shown = command.overlay.iter().map(|overlay| overlay.lower.clone());
    let beneath = |path: &&Path| private.iter().any(|private| path.starts_with(private));
    let read_only = command.read_only().filter(beneath).map(Path::to_owned);
    let excluded = command.protected.iter().cloned().chain(read_only).collect();
    let places = command.writable.iter().cloned().chain(shown);
    WritablePaths { excluded, places: places.chain(private.iter().cloned()).collect() }
}

fn memory(command: &Command, tier: Tier) -> Memory {
    let directories = match tier {
        Tier::A => mounts::private(command).map(PathBuf::from).collect(),
        Tier::B => Vec::new(), // They are on disk.
    };
    Memory::new(command.limits.memory, directories, tier == Tier::A)
}

#[expect(clippy::disallowed_methods, reason = "the one place where a sandboxed program is started")]
fn spawn(
    command: &Command,
    temporary: &Path,
    mut confinement: Confinement,
) -> Result<(std::process::Child, Gate), SandboxError> {
    let setup = |error: io::Error| SandboxError::Setup(error.to_string());
    let (sender, receiver) = gate::channel().map_err(setup)?;
    let mut program = std::process::Command::new(&command.program);
    program
        .args(&command.arguments)
        .env_clear()
        .env("HOME", temporary)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", temporary)
        .current_dir(&command.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the helper has one thread, so the memory is consistent in the child, and it may
    // allocate.
    unsafe {
        program.pre_exec(move || {
            // A session of its own: a signal that the program sends to its group stays in it.
            setsid()?;
            confinement.apply(|listener| sender.send(&listener))
        })
    };
    // When this returns, either the program has been executed or nothing has.
    let spawned = program.spawn();
    match (spawned, receiver.receive()) {
        (Ok(child), Ok(gate)) => Ok((child, gate)),
        (Err(error), Ok(_)) => Err(SandboxError::Program {
            program: command.program.display().to_string(),
            reason: error.to_string(),
        }),
        (Err(error), Err(_)) => Err(SandboxError::Setup(format!(
            "working in {}, or being confined: {error}",
            command.directory.display()
        ))),
        (Ok(mut child), Err(error)) => {
            // It did not report, so it can't have been confined.
            let _ = child.kill();
            let _ = child.wait();
            Err(setup(error))
        }
    }
}

/// Returns how a program ended by itself. A shell reports the signal of its last program as an exit
/// status above 128.
fn ended(status: WaitStatus) -> End {
    const PASSED_ON: i32 = 128;
    let status = ExitStatus::from_raw(status.as_raw());
    let signal = status.signal().or(status.code().map(|code| code - PASSED_ON));
    match (signal, status.signal(), status.code()) {
        (Some(libc::SIGXCPU), ..) => End::Limit(Limit::CpuTime),
        (Some(libc::SIGXFSZ), ..) => End::Limit(Limit::FileSize),
        (_, Some(signal), _) => End::Signalled(signal),
        (_, None, code) => End::Exited(code.unwrap_or_default()),
    }
}

struct Supervisor<'a> {
    tree: Tree,
    limits: &'a Limits,
    deadline: Instant,
    program: Pid,
    groups: Groups,
    status: Option<WaitStatus>,
    /// `None` after the gate is closed.
    gate: Option<Gate>,
    memory: Memory,
    requests: Requests,
    attempts: Attempts,
    /// `None` if the host exchanges no sockets with the run.
    exchange: Option<Exchange>,
    /// The pipe, its input, and the number of bytes written.
    stdin: Option<(ChildStdin, Vec<u8>, usize)>,
    stdout: Source<ChildStdout>,
    stderr: Source<ChildStderr>,
    piece: PieceSink,
    disks: Watch,
    buffer: Vec<u8>,
}

/// One of the program's streams. The pipe is `None` after the end of the stream.
struct Source<P> {
    stream: Stream,
    pipe: Option<P>,
    capture: Capture,
}

impl<P: Read> Source<P> {
    /// Reads available bytes without waiting; returns whether there may be more.
    fn take(&mut self, buffer: &mut [u8], piece: &mut PieceSink) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        match pipe.read(buffer) {
            Ok(0) => {
                self.pipe = None;
                Ok(false)
            }
            Ok(length) => {
                let mut sink = |bytes: &[u8]| piece(self.stream, bytes);
                self.capture.push(&buffer[..length], &mut sink).map(|()| true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn finish(self, piece: &mut PieceSink) -> io::Result<Captured> {
        self.capture.finish(&mut |bytes| piece(self.stream, bytes))
    }
}

impl Supervisor<'_> {
    /// Waits until the program ends; returns why it must be stopped before.
    fn watch(&mut self) -> io::Result<Option<End>> {
        if let Some((pipe, ..)) = &self.stdin {
            ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stdout.pipe {
            ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stderr.pipe {
            ioctl_fionbio(pipe, true)?;
        }
        let program = pidfd_open(self.program, PidfdFlags::empty())?;
        let mut next_look = Instant::now() + self.limits.poll;
        loop {
            self.feed_stdin()?;
            self.stdout.take(&mut self.buffer, &mut self.piece)?;
            self.stderr.take(&mut self.buffer, &mut self.piece)?;
            let now = Instant::now();
            if self.status.is_some() {
                return Ok(self.disks.look(&[], true)?.map(End::Limit));
            }
            if now >= self.deadline {
                return Ok(Some(End::Limit(Limit::WallClock)));
            }
            if self.stdout.capture.is_over() || self.stderr.capture.is_over() {
                return Ok(Some(End::Limit(Limit::Output)));
            }
            if now >= next_look {
                if let Some(limit) = self.check_limits()? {
                    return Ok(Some(End::Limit(limit)));
                }
                // With many processes, polling takes a while; it must not take all the time.
                next_look = Instant::now() + self.limits.poll.max(now.elapsed() * 4);
            }
            let next = if self.requests.is_waiting() {
                next_look.min(now + LOCK_RETRY_INTERVAL)
            } else {
                next_look
            };
            if let Some(end) = self.wait(program.as_fd(), self.deadline.min(next))? {
                return Ok(Some(end));
            }
            let (of, status) = (self.program, &mut self.status);
            tree::reap(|pid, ended| note(of, status, pid, ended));
        }
    }

    /// Waits for an event, and handles one waiting call. Returns whether the run must end.
    fn wait(&mut self, program: BorrowedFd<'_>, until: Instant) -> io::Result<Option<End>> {
        // The host sends nothing more, except for sockets. Its end closes when it cancels or dies.
        let awaited = match self.exchange {
            Some(_) => PollFlags::RDHUP | PollFlags::IN,
            None => PollFlags::RDHUP,
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(rustix::stdio::stdin(), awaited),
            PollFd::from_borrowed_fd(program, PollFlags::IN),
        ];
        fds.extend(self.stdout.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(self.stderr.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(self.stdin.iter().map(|(pipe, ..)| PollFd::new(pipe, PollFlags::OUT)));
        fds.extend(self.attempts.socket().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.gate.iter().map(|gate| PollFd::new(gate, PollFlags::IN)));
        let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        match poll(&mut fds, Some(&timeout.map_err(io::Error::other)?)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let from_host = fds[0].revents();
        let goes_on = match &mut self.exchange {
            Some(exchange) if from_host == PollFlags::IN => exchange.serve().is_ok(),
            _ => from_host.is_empty(),
        };
        if !goes_on {
            return Ok(Some(End::Cancelled));
        }
        let events = fds.last().map_or(PollFlags::empty(), |gate| gate.revents());
        let asked = events.contains(PollFlags::IN);
        self.attempts.answer();
        let Some(gate) = &self.gate else { return Ok(None) };
        if events.contains(PollFlags::HUP) && !asked {
            // All processes with the filter are gone. Polling the gate further would return at once
            // each time.
            self.gate = None;
            return Ok(None);
        }
        self.requests.retry(gate)?;
        if asked && let Some(call) = gate.next_call()? {
            return self.decide(call);
        }
        Ok(None)
    }

    /// Replies to a waiting call. Returns whether the run must end.
    fn decide(&mut self, call: PendingCall) -> io::Result<Option<End>> {
        self.attempts.look(&call);
        let Some(gate) = &self.gate else { return Ok(None) };
        if [libc::SYS_setpgid, libc::SYS_setsid].contains(&call.call) {
            // setpgid(2) creates a group only for the process that it moves, its first argument.
            let moved = match call.call {
                libc::SYS_setpgid => Pid::from_raw(call.arguments[0] as i32),
                _ => None,
            };
            let caller = || procfs::status(call.thread).map(|status| status.process);
            if moved.or_else(caller).is_some_and(|first| !self.groups.admit(first)) {
                return Ok(Some(End::Limit(Limit::Processes)));
            }
            gate.reply(&call, Reply::Continue)?;
            return Ok(None);
        }
        let (tree, most) = (self.tree, self.most_members());
        let members = || tree.members(most);
        if let Some((call, reply)) = self.requests.decide(gate, call, &mut self.memory, members) {
            gate.reply(&call, reply)?;
        }
        Ok(None)
    }

    /// The number of processes that are examined: more than the limit, since some may have ended.
    fn most_members(&self) -> usize {
        usize::try_from(self.limits.processes.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    /// Writes as much input as the program reads.
    fn feed_stdin(&mut self) -> io::Result<()> {
        while let Some((pipe, input, given)) = &mut self.stdin {
            if *given == input.len() {
                self.stdin = None;
                break;
            }
            match pipe.write(&input[*given..]) {
                Ok(length) => *given += length,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    // The program has closed its input.
                    io::ErrorKind::BrokenPipe => self.stdin = None,
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Polls the limits that are not reported by events.
    fn check_limits(&mut self) -> io::Result<Option<Limit>> {
        self.requests.verify();
        let pids = self.tree.members(self.most_members())?;
        let members: Vec<_> = pids.iter().filter_map(|&pid| procfs::status(pid)).collect();
        if members.iter().map(|status| status.threads).sum::<u64>() > self.limits.processes {
            return Ok(Some(Limit::Processes));
        }
        if self.memory.is_exceeded(&members) {
            return Ok(Some(Limit::Memory));
        }
        self.disks.look(&members, false)
    }

    /// Kills the remaining processes and reads the rest of the output. Returns whether there were
    /// any.
    fn end(&mut self) -> io::Result<bool> {
        self.stdin = None;
        // No call is admitted any more. The gate stays open until all processes are dead: those
        // that wait die waiting, whereas closing the gate would resume them all at once.
        let (of, status) = (self.program, &mut self.status);
        let killed = self.tree.kill(&self.groups, |pid, ended| note(of, status, pid, ended))?;
        self.gate = None;
        self.attempts.answer();
        // All writers are dead.
        while self.stdout.take(&mut self.buffer, &mut self.piece)? {}
        while self.stderr.take(&mut self.buffer, &mut self.piece)? {}
        Ok(killed)
    }
}

fn note(program: Pid, status: &mut Option<WaitStatus>, pid: Pid, ended: WaitStatus) {
    if pid == program {
        *status = Some(ended);
    }
}
