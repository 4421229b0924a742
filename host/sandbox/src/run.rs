//! The host's side of a run: starts the helper, writes its request, cancels it, reads its report.

use std::fmt;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{self, Answer, HELPER_ARGUMENT, Request};
use crate::{Command, Loopback, Probe, Report, SandboxError, Stream, Tier};

/// The executable of the helper process.
#[derive(Debug, Clone)]
pub struct Helper {
    program: PathBuf,
}

impl Helper {
    /// Uses the running executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn current() -> Self {
        Self { program: crate::system::own_executable() }
    }

    /// Uses another executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Finds out what this system offers. It takes some ten milliseconds; the result does not
    /// change while the system runs.
    ///
    /// # Errors
    /// Returns an error if the helper can't be started.
    pub fn probe(&self) -> Result<Probe, SandboxError> {
        let facts = self.start(&Request::Facts, &[])?.answer(|_, _| {})?;
        let Answer::Facts { landlock, cgroup } = facts else {
            return Err(unexpected());
        };
        let tier_a = self.try_tier(Tier::A)?;
        let tier_b = self.try_tier(Tier::B)?;
        Ok(Probe { tier_a, tier_b, landlock, cgroup })
    }

    fn try_tier(&self, tier: Tier) -> Result<Result<(), String>, SandboxError> {
        match self.start(&Request::Try { tier }, &[])?.answer(|_, _| {}) {
            Ok(Answer::Tried) => Ok(Ok(())),
            Ok(_) => Err(unexpected()),
            Err(SandboxError::Unavailable(reason)) => Ok(Err(reason)),
            Err(error @ SandboxError::Helper(_)) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Returns a command for the executable, with an empty environment.
    #[expect(clippy::disallowed_methods, reason = "the one place where the helper is started")]
    pub(crate) fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.env_clear().current_dir("/");
        command
    }

    fn start(&self, request: &Request, input: &[u8]) -> Result<Running, SandboxError> {
        let (mut child, stdout) = self.spawn(Stdio::piped())?;
        let stdin = child.stdin.take().map(|pipe| Box::new(pipe) as Box<dyn Control>);
        let control = Canceller::new(stdin);
        let running = Running { child, stdout, control, proxy: None, loopback: None };
        running.control.request(request, input)?;
        Ok(running)
    }

    /// Starts a helper like [`Self::start`] with a pair of sockets instead of a pipe, and receives the
    /// socket of the run's proxy, if it has one.
    #[cfg(target_os = "linux")]
    fn start_with_sockets(
        &self,
        request: &Request,
        input: &[u8],
        has_loopback: bool,
    ) -> Result<Running, SandboxError> {
        let channel = crate::system::channel().and_then(|(helper, host)| {
            let receiver = host.try_clone()?;
            Ok((helper, host, receiver))
        });
        let (helper, host, receiver) = channel.map_err(|error| failed(error.to_string()))?;
        let (child, stdout) = self.spawn(helper.into())?;
        let control = Canceller::new(Some(Box::new(host)));
        let mut running = Running { child, stdout, control, proxy: None, loopback: None };
        running.control.request(request, input)?;
        let listener = crate::system::receive(&receiver);
        running.proxy = listener.map_err(|error| failed(format!("is not ready: {error}")))?;
        running.loopback = has_loopback.then(|| Loopback::new(receiver));
        Ok(running)
    }

    #[cfg(not(target_os = "linux"))]
    fn start_with_sockets(
        &self,
        request: &Request,
        input: &[u8],
        _: bool,
    ) -> Result<Running, SandboxError> {
        self.start(request, input)
    }

    fn spawn(&self, stdin: Stdio) -> Result<(Child, Option<ChildStdout>), SandboxError> {
        let mut child = self
            .command()
            .arg(HELPER_ARGUMENT)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                failed(format!("{} can't be started: {error}", self.program.display()))
            })?;
        let stdout = child.stdout.take();
        Ok((child, stdout))
    }
}

/// Runs programs by a helper, in a tier that works on this system.
#[derive(Debug, Clone)]
pub struct Sandbox {
    helper: Helper,
    tier: Tier,
    scratch: PathBuf,
}

impl Sandbox {
    /// Finds out which tiers work, and uses the better one, or only `tier`.
    ///
    /// # Errors
    /// Returns an error if no tier works, or not the requested one. Then no program can be run.
    pub fn open(helper: Helper, tier: Option<Tier>) -> Result<Self, SandboxError> {
        let probe = helper.probe()?;
        Self::with(helper, &probe, tier)
    }

    /// Opens a sandbox with the result of an earlier probe.
    ///
    /// # Errors
    /// Those of [`Sandbox::open`].
    pub fn with(helper: Helper, probe: &Probe, tier: Option<Tier>) -> Result<Self, SandboxError> {
        let tier = match (tier, &probe.tier_a, &probe.tier_b) {
            (None | Some(Tier::A), Ok(()), _) => Tier::A,
            (None | Some(Tier::B), _, Ok(())) => Tier::B,
            (Some(Tier::A), Err(reason), _) | (Some(Tier::B), _, Err(reason)) => {
                return Err(SandboxError::Unavailable(reason.clone()));
            }
            (None, Err(a), Err(b)) => {
                return Err(SandboxError::Unavailable(format!("tier A: {a}; tier B: {b}")));
            }
        };
        Ok(Self { helper, tier, scratch: "/tmp".into() })
    }

    /// Sets the directory in which tier B creates a directory for temporary files for each run, and
    /// removes it; `/tmp` by default.
    #[must_use]
    pub fn with_scratch(self, scratch: impl Into<PathBuf>) -> Self {
        Self { scratch: scratch.into(), ..self }
    }

    /// The tier that programs run in.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Starts a program in the sandbox.
    ///
    /// # Errors
    /// Returns an error if the helper can't be started. All other errors are returned by
    /// [`Running::wait`].
    pub fn start(&self, mut command: Command) -> Result<Running, SandboxError> {
        let input = std::mem::take(&mut command.stdin);
        command.proxy &= self.tier == Tier::A;
        command.loopback &= self.tier == Tier::A;
        let (has_proxy, has_loopback) = (command.proxy, command.loopback);
        let request = Request::Run {
            command: Box::new(command),
            tier: self.tier,
            scratch: self.scratch.clone(),
            stdin: input.len() as u64,
        };
        match has_proxy || has_loopback {
            true => self.helper.start_with_sockets(&request, &input, has_loopback),
            false => self.helper.start(&request, &input),
        }
    }
}

/// A running program. Dropping it cancels the run and waits for its end.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    control: Canceller,
    proxy: Option<TcpListener>,
    loopback: Option<Loopback>,
}

impl Running {
    /// Returns a handle that cancels the run from any thread.
    pub fn canceller(&self) -> Canceller {
        self.control.clone()
    }

    /// Returns the socket on which the program reaches the proxy, if [`Command::proxy`] is set. The
    /// program's connections wait until they are accepted.
    pub fn take_proxy(&mut self) -> Option<TcpListener> {
        self.proxy.take()
    }

    /// Returns the channel for sockets of the run's loopback interface, if [`Command::loopback`] is set.
    /// The program starts after [`Loopback::start_program`].
    pub fn take_loopback(&mut self) -> Option<Loopback> {
        self.loopback.take()
    }

    /// Waits until the program and all its processes have ended, at most a little longer than
    /// [`Limits::wall`](crate::Limits::wall).
    ///
    /// # Errors
    /// Returns why the program was not run: see [`SandboxError`].
    pub fn wait(self) -> Result<Report, SandboxError> {
        self.wait_with(|_, _| {})
    }

    /// Waits like [`Running::wait`]; `sink` receives the streams that [`Command::spill`] selects,
    /// in pieces, while the program runs. While `sink` is busy, the program may have to wait.
    ///
    /// # Errors
    /// Those of [`Running::wait`].
    pub fn wait_with(self, sink: impl FnMut(Stream, &[u8])) -> Result<Report, SandboxError> {
        match self.answer(sink)? {
            Answer::Ran(report) => Ok(report),
            Answer::Facts { .. } | Answer::Tried => Err(unexpected()),
        }
    }

    fn answer(mut self, sink: impl FnMut(Stream, &[u8])) -> Result<Answer, SandboxError> {
        let Some(mut stdout) = self.stdout.take() else { return Err(unexpected()) };
        let answer = wire::read_answer(&mut stdout, sink);
        // In tier A, the helper ends when the last process of the namespace has.
        let status = self.child.wait();
        answer.map_err(|error| match status {
            Ok(status) => failed(format!("no report ({error}); it ended with {status}")),
            Err(_) => failed(format!("no report ({error})")),
        })?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.cancel();
        self.stdout = None; // The report is not read.
        // After `answer`, the child has exited already.
        let _ = self.child.wait();
    }
}

/// The host's end of a helper's standard input. The run is cancelled when it is closed.
trait Control: Write + Send + fmt::Debug {
    /// Closes it, also for copies of it.
    fn close(&mut self) {}
}

impl Control for std::process::ChildStdin {}

#[cfg(target_os = "linux")]
impl Control for std::os::unix::net::UnixStream {
    fn close(&mut self) {
        // It fails if the helper has ended.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

/// Cancels a run. Cancelling a second time, or after the end, does nothing.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Mutex<Option<Box<dyn Control>>>>);

impl Canceller {
    fn new(control: Option<Box<dyn Control>>) -> Self {
        Self(Arc::new(Mutex::new(control)))
    }

    /// Kills the program and everything that it started. [`Running::wait`] returns soon after.
    pub fn cancel(&self) {
        // The helper sees the end of its input.
        let control = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut control) = control {
            control.close();
        }
    }

    fn request(&self, request: &Request, input: &[u8]) -> Result<(), SandboxError> {
        let sent = self.send(request, input);
        sent.map_err(|error| failed(format!("does not take its request: {error}")))
    }

    fn send(&self, request: &Request, input: &[u8]) -> std::io::Result<()> {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = &mut *pipe else { return Ok(()) };
        wire::write_document(pipe, request)?;
        pipe.write_all(input)
    }
}

fn failed(message: impl Into<String>) -> SandboxError {
    SandboxError::Helper(message.into())
}

fn unexpected() -> SandboxError {
    failed("an unexpected answer")
}
