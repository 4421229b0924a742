//! The host's side of a run: starts the helper, writes its request, cancels it, reads its report.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::system::fork_server;
use crate::wire::{self, Answer, FORK_SERVER_ARGUMENT, HELPER_ARGUMENT, Preparation, Request};
use crate::{Command, Loopback, Probe, Report, SandboxError, Stream, Tier};

/// How long the host waits for sockets of the helper, which needs some milliseconds.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// The executable of the helper process.
#[derive(Debug, Clone)]
pub struct Helper {
    program: PathBuf,
    /// What is kept for the next runs, if anything is.
    kept: Option<Arc<Mutex<Kept>>>,
}

/// What is kept for the next runs.
#[derive(Debug, Default)]
struct Kept {
    server: Option<ForkServer>,
    ready: Option<Ready>,
}

/// A helper that waits for its request.
#[derive(Debug)]
struct Ready {
    helper: Running,
    /// What it has done before.
    preparation: Preparation,
}

impl Helper {
    /// Uses the running executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn current() -> Self {
        Self::at(crate::system::own_executable())
    }

    /// Uses another executable, which must call [`run_if_helper`](crate::run_if_helper) first.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), kept: None }
    }

    /// Starts the helper of the next run while a run begins, so that the next one starts sooner. Two
    /// processes more wait then, this helper and the one that forks helpers, until the last copy of this
    /// value is dropped or this process ends.
    #[must_use]
    pub fn kept_ready(self) -> Self {
        Self { kept: Some(Arc::default()), ..self }
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
        let preparation = Preparation::of(request);
        let ready = self.kept.as_ref().and_then(|kept| locked(kept).ready.take());
        // One that has entered the namespaces of a run can do nothing else.
        let serves = |ready: &Ready| {
            ready.preparation == preparation || ready.preparation != Preparation::Enter
        };
        let ready = ready.filter(serves).map(|ready| ready.helper);
        // One that was killed takes no request.
        let ready = ready.filter(|helper| helper.control.request(request, input).is_ok());
        let running = match ready {
            Some(ready) => ready,
            None => {
                let running = self.spawn(preparation)?;
                if running.control.request(request, input).is_err() {
                    // It has ended. Its answer says why.
                    return Err(running.answer(|_, _| {}).err().unwrap_or_else(unexpected));
                }
                running
            }
        };
        if let Some(kept) = &self.kept
            && let Ok(helper) = self.spawn(preparation)
        {
            locked(kept).ready.get_or_insert(Ready { helper, preparation });
        }
        Ok(running)
    }

    /// Starts a helper, which waits for its request. One that is forked prepares its run.
    fn spawn(&self, preparation: Preparation) -> Result<Running, SandboxError> {
        let streams = UnixStream::pair().and_then(|pair| {
            pair.1.set_read_timeout(Some(HELPER_TIMEOUT))?;
            Ok((pair, io::pipe()?))
        });
        let ((input, host), (stdout, output)) =
            streams.map_err(|error| failed(error.to_string()))?;
        let is_forked = self.kept.as_ref().is_some_and(|kept| {
            self.fork(&mut locked(kept).server, preparation, &input, &output).is_ok()
        });
        let child = match is_forked {
            true => None,
            false => Some(self.execute(None, OwnedFd::from(input).into(), output.into())?),
        };
        let control = Canceller::new(host);
        Ok(Running { child, stdout: Some(stdout), control, proxy: None, loopback: None })
    }

    /// Has a helper forked by the server, which is started if it does not run.
    fn fork(
        &self,
        server: &mut Option<ForkServer>,
        preparation: Preparation,
        input: &UnixStream,
        output: &PipeWriter,
    ) -> Result<(), SandboxError> {
        let streams = [input.as_fd(), output.as_fd()];
        let request =
            |server: &ForkServer| fork_server::request(&server.host, preparation, streams);
        if server.as_ref().is_some_and(|server| request(server).is_ok()) {
            return Ok(());
        }
        let (input, host) = UnixStream::pair().map_err(|error| failed(error.to_string()))?;
        let input = OwnedFd::from(input).into();
        let child = self.execute(Some(FORK_SERVER_ARGUMENT), input, Stdio::null())?;
        let server = server.insert(ForkServer { child, host });
        request(server).map_err(|error| failed(error.to_string()))
    }

    /// Starts the executable as a helper.
    fn execute(
        &self,
        kind: Option<&str>,
        input: Stdio,
        output: Stdio,
    ) -> Result<Child, SandboxError> {
        let mut command = self.command();
        command.arg(HELPER_ARGUMENT).args(kind);
        let started = command.stdin(input).stdout(output).stderr(Stdio::null()).spawn();
        started.map_err(|error| {
            failed(format!("{} can't be started: {error}", self.program.display()))
        })
    }
}

/// A process that forks helpers. It ends when this is dropped.
#[derive(Debug)]
struct ForkServer {
    child: Child,
    host: UnixStream,
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        // If either fails, the server has ended.
        let _ = self.host.shutdown(Shutdown::Both);
        let _ = self.child.wait();
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
    /// `None` if the fork server has started it.
    child: Option<Child>,
    stdout: Option<PipeReader>,
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
        let status = ended(&mut stdout, &mut self.child);
        answer.map_err(|error| match status {
            Some(status) => failed(format!("no report ({error}); it ended with {status}")),
            None => failed(format!("no report ({error})")),
        })?
    }
}

/// Waits until a helper has ended: then its output ends. In tier A, it ends when the last process of the
/// namespace has. Returns its status, unless another process has started it.
fn ended(stdout: &mut PipeReader, child: &mut Option<Child>) -> Option<ExitStatus> {
    // After an error, there is nothing to wait for.
    let _ = io::copy(stdout, &mut io::sink());
    child.as_mut()?.wait().ok()
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.cancel();
        // After `answer`, it has ended already.
        if let Some(mut stdout) = self.stdout.take() {
            ended(&mut stdout, &mut self.child);
        }
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
