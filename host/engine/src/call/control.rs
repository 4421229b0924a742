//! When a call ends, and why it was stopped.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use cofferdam_core::outcome::{HostCode, LimitCode, NO_DESCRIPTOR};

/// Why the host stopped a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It exceeded a limit.
    Limit(LimitCode),
    /// Its programs wrote too much, or a disk is full: the code, and what happened.
    Storage(HostCode, String),
    /// It crashed, or its result can't be read.
    Trap(String),
    /// The call was cancelled.
    Cancelled,
    /// The host ran out of file descriptors.
    Descriptors,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "stopped at the limit {}", limit.as_str()),
            Self::Storage(code, message) => write!(f, "{}: {message}", code.as_str()),
            Self::Trap(message) => write!(f, "the plugin crashed: {message}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Descriptors => f.write_str(NO_DESCRIPTOR),
        }
    }
}

/// A call's deadline, its cancellation, and its stage.
#[derive(Debug)]
pub struct Control {
    begun: Instant,
    deadline: Instant,
    cancelled: AtomicBool,
    stage: AtomicU8,
    noted: OnceLock<Stop>,
}

/// The stages of a call on its thread.
mod stage {
    /// No thread has taken it yet.
    pub(super) const WAITING: u8 = 0;
    pub(super) const RUNNING: u8 = 1;
    /// It was cancelled before a thread took it.
    pub(super) const WITHDRAWN: u8 = 2;
    /// It did not end in time: its thread was abandoned.
    pub(super) const ABANDONED: u8 = 3;
    pub(super) const ENDED: u8 = 4;
}

impl Control {
    /// A call that may take `time` from now on.
    pub fn new(time: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            deadline: begun + time,
            cancelled: AtomicBool::new(false),
            stage: AtomicU8::new(stage::WAITING),
            noted: OnceLock::new(),
        }
    }

    /// How long the call has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// When the call ends at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Makes the call fail with `stop`, even if its tool or a backend reports success.
    pub(crate) fn note(&self, stop: Stop) {
        self.noted.get_or_init(|| stop);
    }

    pub(crate) fn noted(&self) -> Option<&Stop> {
        self.noted.get()
    }

    /// Cancels the call: it ends at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Begins the call, unless it was withdrawn. Returns whether it may run.
    pub(crate) fn begin(&self) -> bool {
        self.pass(stage::WAITING, stage::RUNNING)
    }

    /// Withdraws a call that no thread has taken yet, so that none will. Returns whether it was
    /// withdrawn.
    pub fn withdraw(&self) -> bool {
        self.pass(stage::WAITING, stage::WITHDRAWN)
    }

    /// Whether no thread has taken the call yet.
    pub(crate) fn waits(&self) -> bool {
        self.stage.load(Ordering::Acquire) == stage::WAITING
    }

    /// Abandons a call that did not end in time, with its thread. Returns whether it was running.
    pub(crate) fn give_up(&self) -> bool {
        self.pass(stage::RUNNING, stage::ABANDONED)
    }

    /// Ends the call, unless it was abandoned. Returns whether it was running.
    pub(crate) fn end(&self) -> bool {
        self.pass(stage::RUNNING, stage::ENDED)
    }

    fn pass(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the call was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The reason if the call has to stop now.
    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.cancelled.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else if Instant::now() >= self.deadline {
            Some(Stop::Limit(LimitCode::WallClockLimit))
        } else {
            None
        }
    }
}
