//! The host's side of a run: starts the helper, feeds it, cancels it, reads its report.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{self, Answer, HELPER_ARGUMENT, Request};
use crate::{Command, Probe, Report, SandboxError, Stream, Tier};

/// How the helper process is started.
#[derive(Debug, Clone)]
pub struct Helper {
    program: PathBuf,
}

impl Helper {
    /// The running executable. It calls [`run_if_helper`](crate::run_if_helper) first of all.
    pub fn current() -> Self {
        Self { program: crate::system::own_executable() }
    }

    /// Another executable that calls [`run_if_helper`](crate::run_if_helper) first of all.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Finds out what this system offers. It takes some ten milliseconds, and does not change
    /// while the system runs.
    ///
    /// # Errors
    /// The helper can't be started.
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

    /// The executable, with nothing of the host's environment.
    #[expect(clippy::disallowed_methods, reason = "the one place where the helper is started")]
    pub(crate) fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.env_clear().current_dir("/");
        command
    }

    fn start(&self, request: &Request, input: &[u8]) -> Result<Running, SandboxError> {
        let mut child = self
            .command()
            .arg(HELPER_ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                failed(format!("{} can't be started: {error}", self.program.display()))
            })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let running = Running { child, stdout, control: Canceller(Arc::new(Mutex::new(stdin))) };
        running
            .control
            .send(request, input)
            .map_err(|error| failed(format!("does not take its request: {error}")))?;
        Ok(running)
    }
}

/// A way to run programs: a helper, and a tier that works here.
#[derive(Debug, Clone)]
pub struct Sandbox {
    helper: Helper,
    tier: Tier,
    scratch: PathBuf,
}

impl Sandbox {
    /// Finds out which tier works, and takes the better one, or only `tier`.
    ///
    /// # Errors
    /// No tier works here, or not that one. Then no program runs.
    pub fn open(helper: Helper, tier: Option<Tier>) -> Result<Self, SandboxError> {
        let probe = helper.probe()?;
        Self::with(helper, &probe, tier)
    }

    /// The same, where the system was probed before.
    ///
    /// # Errors
    /// As [`Sandbox::open`].
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

    /// Where tier B makes the directories for temporary files, one for each run, and removes them;
    /// `/tmp` by default.
    #[must_use]
    pub fn with_scratch(self, scratch: impl Into<PathBuf>) -> Self {
        Self { scratch: scratch.into(), ..self }
    }

    /// The tier that programs run in.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Starts a program.
    ///
    /// # Errors
    /// The helper can't be started. Everything else is reported by [`Running::wait`].
    pub fn start(&self, mut command: Command) -> Result<Running, SandboxError> {
        let input = std::mem::take(&mut command.stdin);
        let request = Request::Run {
            command: Box::new(command),
            tier: self.tier,
            scratch: self.scratch.clone(),
            stdin: input.len() as u64,
        };
        self.helper.start(&request, &input)
    }
}

/// A program that runs. Dropping it cancels the run and waits until it is over.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    control: Canceller,
}

impl Running {
    /// What ends the run early, from any thread.
    pub fn canceller(&self) -> Canceller {
        self.control.clone()
    }

    /// Waits until the program has ended and none of its processes is left. It takes not much
    /// longer than [`Limits::wall`](crate::Limits::wall).
    ///
    /// # Errors
    /// The program was not run: see [`SandboxError`].
    pub fn wait(self) -> Result<Report, SandboxError> {
        self.wait_with(|_, _| {})
    }

    /// The same; `sink` gets the streams that [`Command::spill`] names, piece by piece, while the
    /// program runs. As long as it takes a piece, the program may have to wait.
    ///
    /// # Errors
    /// As [`Running::wait`].
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
        self.stdout = None; // Nobody reads the report.
        // After `answer`, that is over already.
        let _ = self.child.wait();
    }
}

/// Ends a run early. Cancelling twice, or a run that is over, does nothing.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Mutex<Option<ChildStdin>>>);

impl Canceller {
    /// Kills the program and everything that it started. [`Running::wait`] returns soon.
    pub fn cancel(&self) {
        // The helper sees its input end.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    failed("an answer to something else")
}
