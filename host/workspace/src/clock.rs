//! The system's clocks: for the dates of commits, and for the times of files.

#[cfg(target_os = "linux")]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Returns the current time, with which commits are dated.
pub(crate) fn present() -> Timestamp {
    #[cfg(test)]
    return Timestamp::now() + test_clock::shift();
    #[cfg(not(test))]
    Timestamp::now()
}

/// Returns the current time, in nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the kernel's clock for file times, in nanoseconds since the epoch. It ticks every 1 to
/// 10 ms; a file that is changed after the next tick gets a different time.
#[cfg(target_os = "linux")]
pub(crate) fn tick() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    crate::disk::nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Waits until the kernel's clock for file times has passed the current time, and returns it, in
/// nanoseconds since the epoch: earlier changes of files have an earlier time, later ones do not.
#[cfg(target_os = "linux")]
pub(crate) fn next_tick() -> i64 {
    const PAUSE: Duration = Duration::from_micros(200);
    /// Longer than any tick, in case the clock is set back.
    const MAX_PAUSES: usize = 500;
    // The time of a change can be finer than the ticks, and so later than the latest tick.
    let present = now();
    for _ in 0..MAX_PAUSES {
        std::thread::sleep(PAUSE);
        if tick() > present {
            break;
        }
    }
    tick()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn next_tick() -> i64 {
    std::thread::sleep(std::time::Duration::from_millis(10));
    now()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn tick() -> i64 {
    const TICK_NS: i64 = 10_000_000;
    now() - TICK_NS
}

/// Shifts the clock with which commits are dated.
#[cfg(test)]
pub(crate) mod test_clock {
    use std::cell::Cell;

    use jiff::SignedDuration;

    thread_local! {
        static SHIFT_SECONDS: Cell<i64> = const { Cell::new(0) };
    }

    pub(super) fn shift() -> SignedDuration {
        SignedDuration::from_secs(SHIFT_SECONDS.get())
    }

    /// Sets the clock of this thread ahead by a number of seconds.
    pub(crate) fn set_shift(seconds: i64) {
        SHIFT_SECONDS.set(seconds);
    }
}
