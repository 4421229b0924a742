//! When a call ends, and why it was stopped.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cofferdam_core::outcome::{HostCode, LimitCode, NO_DESCRIPTOR};

/// Why the host stopped a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It exceeded a limit.
    Limit(LimitCode),
    /// Its programs wrote too much, a disk is full, or it used what is not granted: the code, and what
    /// happened.
    Ended(HostCode, String),
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
            Self::Ended(code, message) => write!(f, "{}: {message}", code.as_str()),
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
    /// How long the call may run without the time that calls of other tools take.
    own: Option<Duration>,
    /// How long calls of other tools have taken, in microseconds.
    elsewhere: AtomicU64,
    /// When the call began to wait for other tools, in microseconds since its beginning; 0: it does not.
    waits_since: AtomicU64,
    /// The call that makes this one.
    parent: Option<Arc<Self>>,
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
            own: None,
            elsewhere: AtomicU64::new(0),
            waits_since: AtomicU64::new(0),
            parent: None,
            cancelled: AtomicBool::new(false),
            stage: AtomicU8::new(stage::WAITING),
            noted: OnceLock::new(),
        }
    }

    /// A call that calls other tools: it may take `time` with them, and `own` without them.
    pub fn with_own_time(time: Duration, own: Duration) -> Self {
        Self { own: Some(own), ..Self::new(time.max(own)) }
    }

    /// A call that another call makes, which ends with that one at the latest.
    pub fn nested(time: Duration, parent: &Arc<Self>) -> Self {
        let nested = Self::new(time);
        let deadline = nested.deadline.min(parent.deadline);
        Self { deadline, parent: Some(Arc::clone(parent)), ..nested }
    }

    /// Counts the time until the returned guard is dropped as that of other tools.
    pub(crate) fn elsewhere(&self) -> Elsewhere<'_> {
        self.waits_since.store(micros(self.begun.elapsed()).max(1), Ordering::Relaxed);
        Elsewhere(self)
    }

    /// How long the call has run itself.
    fn own_time(&self) -> Duration {
        let elapsed = micros(self.begun.elapsed());
        let since = self.waits_since.load(Ordering::Relaxed);
        let now = if since == 0 { elapsed } else { since };
        Duration::from_micros(now.saturating_sub(self.elsewhere.load(Ordering::Relaxed)))
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
            || self.parent.as_ref().is_some_and(|parent| parent.is_cancelled())
    }

    /// The reason if the call has to stop now.
    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.is_cancelled() {
            Some(Stop::Cancelled)
        } else if self.own.is_some_and(|own| self.own_time() >= own) {
            Some(Stop::Limit(LimitCode::WallClockLimit))
        } else if Instant::now() < self.deadline {
            None
        } else if self.own.is_some() {
            let message = "the call and the tools that it called took too long (program-call-ms)";
            Some(Stop::Ended(LimitCode::WallClockLimit.into(), message.to_owned()))
        } else {
            Some(Stop::Limit(LimitCode::WallClockLimit))
        }
    }
}

/// Counts the time until it is dropped as that of other tools.
pub(crate) struct Elsewhere<'a>(&'a Control);

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        let since = self.0.waits_since.swap(0, Ordering::Relaxed);
        let took = micros(self.0.begun.elapsed()).saturating_sub(since);
        self.0.elsewhere.fetch_add(took, Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(30);

    #[test]
    fn a_nested_call_ends_with_its_parent() {
        let parent = Arc::new(Control::new(MOMENT));
        let nested = Control::nested(Duration::from_secs(60), &parent);
        assert_eq!(nested.deadline(), parent.deadline());
        assert!(Control::nested(Duration::ZERO, &parent).deadline() < parent.deadline());
        assert_eq!(nested.stop(), None);
        nested.cancel();
        assert_eq!((parent.stop(), nested.stop()), (None, Some(Stop::Cancelled)));
        let nested = Control::nested(Duration::from_secs(60), &parent);
        parent.cancel();
        assert_eq!(nested.stop(), Some(Stop::Cancelled));
    }

    #[test]
    fn the_time_of_other_tools_is_not_the_calls_own() {
        let control = Control::with_own_time(Duration::from_secs(60), MOMENT);
        let waiting = control.elsewhere();
        std::thread::sleep(2 * MOMENT);
        assert_eq!(control.stop(), None);
        drop(waiting);
        assert_eq!(control.stop(), None);
        std::thread::sleep(MOMENT);
        assert_eq!(control.stop(), Some(Stop::Limit(LimitCode::WallClockLimit)));
        let control = Control::with_own_time(Duration::ZERO, MOMENT);
        let waiting = control.elsewhere();
        std::thread::sleep(2 * MOMENT);
        assert!(matches!(control.stop(), Some(Stop::Ended(..))));
        drop(waiting);
    }
}
