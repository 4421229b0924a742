//! Programs that are left running after the call that started them: those of one session, with the end
//! of their output. They are killed when they are stopped, and when the session ends.
//!
//! | module | is for |
//! |---|---|
//! | [`output`] | the end of what a program has printed, in bounded memory |
//! | [`reach`] | lets the programs of a session reach each other's ports |
//!
//! It leaves out which program may run, and describing it for the sandbox (`capability::background`).

mod output;
mod reach;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Canceller, End, Loopback};

use output::Output;
pub(crate) use reach::{Reach, Source};

/// The largest number of programs of one session that run at a time.
pub(crate) const MAX_RUNNING: usize = 4;

/// The largest number of programs of all sessions of a host that run at a time.
const MAX_RUNNING_IN_HOST: usize = 16;

/// How many programs of a session are known, with their output; the oldest that have ended are forgotten.
const MAX_KNOWN: usize = 16;

/// How long to wait for more output after the first.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// How long a program may take to end after it was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts the programs that run in a host, and ends all of them.
#[derive(Debug, Default)]
pub struct Pool {
    state: Mutex<PoolState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    running: usize,
    sessions: Vec<Weak<Background>>,
}

impl Pool {
    /// Ends the programs of all sessions, and waits until they have ended, for at most `timeout`. Their
    /// sessions start no more.
    pub fn end(&self, timeout: Duration) {
        let sessions = std::mem::take(&mut self.lock().sessions);
        sessions.iter().filter_map(Weak::upgrade).for_each(|session| session.end());
        let state = self.lock();
        let waited = self.ended.wait_timeout_while(state, timeout, |state| state.running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a running program, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Arc<Pool>,
    session: Weak<Background>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.lock().running -= 1;
        }
        self.pool.lock().running -= 1;
        self.pool.ended.notify_all();
    }
}

/// The programs of one session. Dropping it kills them.
#[derive(Debug, Default)]
pub(crate) struct Background(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the latest program.
    last: u64,
    /// How many permits there are.
    running: usize,
    programs: VecDeque<Arc<Program>>,
    has_ended: bool,
}

/// Why no program can be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Full {
    #[error(
        "{MAX_RUNNING} programs of this session are running, and no more may; stop one of them first"
    )]
    Session,
    #[error(
        "{MAX_RUNNING_IN_HOST} programs of all sessions are running, and no more may; try again later"
    )]
    Host,
    #[error("the session has ended")]
    Ended,
}

impl Background {
    /// Reserves the place of a program that is about to start.
    ///
    /// # Errors
    /// [`Full`] if as many run as may, or the session has ended.
    pub(crate) fn reserve(self: &Arc<Self>, pool: &Arc<Pool>) -> Result<Permit, Full> {
        let mut in_pool = pool.lock();
        let mut state = self.lock();
        if state.has_ended {
            return Err(Full::Ended);
        }
        if state.running >= MAX_RUNNING {
            return Err(Full::Session);
        }
        if in_pool.running >= MAX_RUNNING_IN_HOST {
            return Err(Full::Host);
        }
        state.running += 1;
        in_pool.running += 1;
        let is_known = |known: &Weak<Self>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(self));
        in_pool.sessions.retain(|known| known.strong_count() > 0);
        if !in_pool.sessions.iter().any(is_known) {
            in_pool.sessions.push(Arc::downgrade(self));
        }
        Ok(Permit { pool: Arc::clone(pool), session: Arc::downgrade(self) })
    }

    /// Adds a program that was started.
    pub(crate) fn add(&self, started: Started) -> Arc<Program> {
        let Started { program, arguments, canceller, loopback } = started;
        let mut state = self.lock();
        state.last += 1;
        let program = Arc::new(Program {
            id: format!("process-{}", state.last),
            program,
            arguments,
            begun: Instant::now(),
            canceller,
            loopback,
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        if state.has_ended {
            program.stop();
        }
        if state.programs.len() >= MAX_KNOWN {
            let ended = state.programs.iter().position(|program| !program.is_running());
            ended.and_then(|ended| state.programs.remove(ended));
        }
        state.programs.push_back(Arc::clone(&program));
        program
    }

    /// The programs, oldest first: those that run, and the latest of those that have ended.
    pub(crate) fn programs(&self) -> Vec<Arc<Program>> {
        self.lock().programs.iter().cloned().collect()
    }

    /// The program with this id.
    pub(crate) fn program(&self, id: &str) -> Option<Arc<Program>> {
        self.lock().programs.iter().find(|program| program.id == id).cloned()
    }

    /// Kills all programs, without waiting, and starts no more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.programs.iter().for_each(|program| program.stop());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program that was started, and how to control it.
pub(crate) struct Started {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) canceller: Canceller,
    /// `None` in tier B, where programs have no sockets.
    pub(crate) loopback: Option<Loopback>,
}

/// One program of a session.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) id: String,
    /// Its name, as the plugin started it.
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    begun: Instant,
    canceller: Canceller,
    loopback: Option<Loopback>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// What a program has done so far.
#[derive(Debug, Default)]
struct Progress {
    output: Output,
    /// Whether it was killed on request.
    is_stopped: bool,
    /// How it ended, and after which time.
    ended: Option<(Ended, Duration)>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, or at a limit.
    By(End),
    /// It was stopped, or its session ended.
    Stopped,
    /// It could not be started or supervised.
    Failed(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(End::Exited(code)) => write!(f, "exited with {code}"),
            Self::By(End::Signalled(signal)) => write!(f, "killed by signal {signal}"),
            Self::By(End::Limit(limit)) => write!(f, "stopped at the limit {limit}"),
            Self::By(End::Cancelled) | Self::Stopped => f.write_str("stopped"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

/// The state of a program at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    /// How it ended; `None` while it runs.
    pub(crate) ended: Option<Ended>,
    /// How long it has been running, or ran.
    pub(crate) time: Duration,
    /// How many bytes it has printed.
    pub(crate) written: u64,
}

impl Program {
    /// Adds what it has printed.
    pub(crate) fn print(&self, bytes: &[u8]) {
        self.lock().output.push(bytes);
        self.changed.notify_all();
    }

    /// Records its end, when none of its processes exists any more.
    pub(crate) fn end(&self, ended: Ended) {
        let mut progress = self.lock();
        let ended = match ended {
            Ended::By(End::Cancelled) => Ended::Stopped,
            _ if progress.is_stopped => Ended::Stopped,
            ended => ended,
        };
        progress.ended.get_or_insert((ended, self.begun.elapsed()));
        drop(progress);
        self.changed.notify_all();
    }

    /// Kills it with all its processes, without waiting.
    pub(crate) fn stop(&self) {
        let mut progress = self.lock();
        progress.is_stopped |= progress.ended.is_none();
        drop(progress);
        self.canceller.cancel();
    }

    /// Kills it with all its processes, and waits for that. Returns whether it has ended.
    pub(crate) fn stop_and_wait(&self) -> bool {
        self.stop();
        let running = |progress: &mut Progress| progress.ended.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), KILL_TIMEOUT, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    /// The state of the program.
    pub(crate) fn status(&self) -> Status {
        self.status_of(&self.lock())
    }

    fn status_of(&self, progress: &Progress) -> Status {
        Status {
            ended: progress.ended.as_ref().map(|(ended, _)| ended.clone()),
            time: progress.ended.as_ref().map_or_else(|| self.begun.elapsed(), |(_, time)| *time),
            written: progress.output.written(),
        }
    }

    /// Returns the offset of the first byte, at most `max` bytes of output from there on, and the state
    /// at that moment. The offset is `offset`, or a later one if older output was dropped. Waits until
    /// there is output, and a moment for what belongs to it, or until the program has ended, as long as
    /// `wait` says so; it is asked at least every `interval`.
    pub(crate) fn read(
        &self,
        offset: u64,
        max: usize,
        interval: Duration,
        wait: impl Fn() -> bool,
    ) -> (u64, Vec<u8>, Status) {
        let mut progress = self.lock();
        let mut begun = (progress.output.written() > offset).then(Instant::now);
        while progress.ended.is_none() && wait() {
            match begun {
                None if progress.output.written() > offset => begun = Some(Instant::now()),
                // Programs print a line in several parts.
                Some(begun) if begun.elapsed() >= SETTLE_TIME => break,
                None | Some(_) => {}
            }
            let waited = self.changed.wait_timeout(progress, interval);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (first, bytes) = progress.output.read(offset, max);
        (first, bytes, self.status_of(&progress))
    }

    /// The ports on which it listens; none after its end.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let loopback = self.loopback.as_ref().filter(|_| self.is_running());
        loopback.and_then(|loopback| loopback.ports().ok()).unwrap_or_default()
    }

    /// The channel for sockets.
    pub(crate) fn loopback(&self) -> Option<&Loopback> {
        self.loopback.as_ref()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().ended.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
