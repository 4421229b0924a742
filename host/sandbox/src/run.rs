//! The host's side of a run: starts the helper, writes its request, cancels it, reads its report.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wire::{self, Answer, HELPER_ARGUMENT, PREPARE_ARGUMENT, Request};
use crate::{Command, Loopback, Probe, Report, SandboxError, Stream, Tier};

/// How long the host waits for sockets of the helper, which needs some milliseconds.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// The executable of the helper process.
#[derive(Debug, Clone)]
pub struct Helper {
    program: PathBuf,
    /// The helper of the next run, if one is kept ready.
    ready: Option<Arc<Mutex<Option<Ready>>>>,
}

/// A helper that waits for its request.
#[derive(Debug)]
struct Ready {
    helper: Running,
    /// Whether it has entered the namespaces of a run.
    is_prepared: bool,
}

impl Helper {
    /// Uses the running executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn current() -> Self {
        Self::at(crate::system::own_executable())
    }

    /// Uses another executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ready: None }
    }

    /// Starts the helper of the next run while a run begins, so that the next one starts sooner. One
    /// process more waits then, until the last copy of this value is dropped or this process ends.
    #[must_use]
    pub fn kept_ready(self) -> Self {
        Self { ready: Some(Arc::default()), ..self }
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

    /// Sends a request to a helper: to the one that is kept ready, if there is one.
    fn start(&self, request: &Request, input: &[u8]) -> Result<Running, SandboxError> {
        let prepares = can_be_prepared(request);
        let ready = self.ready.as_ref().and_then(|ready| locked(ready).take());
        let ready = ready.filter(|ready| ready.is_prepared == prepares).map(|ready| ready.helper);
        // One that was killed takes no request.
        let ready = ready.filter(|helper| helper.control.request(request, input).is_ok());
        let running = match ready {
            Some(ready) => ready,
            None => {
                let running = self.spawn(prepares)?;
                running.control.request(request, input)?;
                running
            }
        };
        if let Some(ready) = &self.ready
            && let Ok(helper) = self.spawn(prepares)
        {
            locked(ready).get_or_insert(Ready { helper, is_prepared: prepares });
        }
        Ok(running)
    }

    /// Starts a helper, which waits for its request; with `prepares`, in the namespaces of its run.
    fn spawn(&self, prepares: bool) -> Result<Running, SandboxError> {
        let pair = UnixStream::pair().and_then(|pair| {
            pair.1.set_read_timeout(Some(HELPER_TIMEOUT))?;
            Ok(pair)
        });
        let (helper, host) = pair.map_err(|error| failed(error.to_string()))?;
        let started = self
            .command()
            .arg(HELPER_ARGUMENT)
            .args(prepares.then_some(PREPARE_ARGUMENT))
            .stdin(OwnedFd::from(helper))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = started.map_err(|error| {
            failed(format!("{} can't be started: {error}", self.program.display()))
        })?;
        let stdout = child.stdout.take();
        Ok(Running { child, stdout, control: Canceller::new(host), proxy: None, loopback: None })
    }
}

/// Whether a helper can enter the namespaces of a run before it has the request. Those of root depend on
/// the owner of the files that the program works on.
fn can_be_prepared(request: &Request) -> bool {
    matches!(request, Request::Run { tier: Tier::A, .. }) && !rustix::process::getuid().is_root()
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
        let mut running = self.helper.start(&request, &input)?;
        if has_proxy || has_loopback {
            let sockets = running.control.channel().and_then(|channel| {
                running.proxy = crate::system::receive(&channel)?;
                running.loopback = has_loopback.then(|| Loopback::new(channel));
                Ok(())
            });
            sockets.map_err(|error| failed(format!("is not ready: {error}")))?;
        }
        Ok(running)
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

/// Cancels a run. Cancelling a second time, or after the end, does nothing.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Mutex<Option<UnixStream>>>);

impl Canceller {
    /// `host` is the host's end of the helper's standard input: the run is cancelled when it is closed.
    fn new(host: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(Some(host))))
    }

    /// Kills the program and everything that it started. [`Running::wait`] returns soon after.
    pub fn cancel(&self) {
        if let Some(host) = locked(&self.0).take() {
            // The helper sees the end of its input, even if there are copies of this end. It fails if the
            // helper has ended.
            let _ = host.shutdown(Shutdown::Both);
        }
    }

    /// Returns a copy of the host's end.
    fn channel(&self) -> io::Result<UnixStream> {
        locked(&self.0).as_ref().ok_or(io::ErrorKind::NotConnected)?.try_clone()
    }

    fn request(&self, request: &Request, input: &[u8]) -> Result<(), SandboxError> {
        let sent = self.send(request, input);
        sent.map_err(|error| failed(format!("does not take its request: {error}")))
    }

    fn send(&self, request: &Request, input: &[u8]) -> io::Result<()> {
        let mut host = locked(&self.0);
        let Some(host) = &mut *host else { return Ok(()) };
        wire::write_document(host, request)?;
        host.write_all(input)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(message: impl Into<String>) -> SandboxError {
    SandboxError::Helper(message.into())
}

fn unexpected() -> SandboxError {
    failed("an unexpected answer")
}
