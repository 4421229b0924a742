//! The WASI context of one call: nothing of the host's is inherited, and clocks are coarse.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder};

use super::messages::Messages;

/// The most random bytes that a plugin gets at once.
const MAX_RANDOM: u64 = 1 << 20;

/// How finely a plugin sees the time. Finer clocks help only those who spy on caches.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// The WASI context of one call: nothing of the host's is inherited.
pub(super) fn new(messages: &Messages) -> WasiCtx {
    let mut context = WasiCtxBuilder::new();
    context
        .allow_blocking_current_thread(true)
        .max_random_size(MAX_RANDOM)
        .wall_clock(CoarseClock { start: Instant::now() })
        .monotonic_clock(CoarseClock { start: Instant::now() })
        .stdout(messages.stream(tracing::Level::INFO))
        .stderr(messages.stream(tracing::Level::WARN));
    context.build()
}

/// The time, in whole steps.
struct CoarseClock {
    start: Instant,
}

impl HostWallClock for CoarseClock {
    fn resolution(&self) -> Duration {
        CLOCK_STEP
    }
    fn now(&self) -> Duration {
        // A clock before 1970 is shown as 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }
}

impl HostMonotonicClock for CoarseClock {
    fn resolution(&self) -> u64 {
        CLOCK_STEP.as_nanos() as u64
    }
    fn now(&self) -> u64 {
        let steps = self.start.elapsed().as_nanos() / CLOCK_STEP.as_nanos();
        u64::try_from(steps * CLOCK_STEP.as_nanos()).unwrap_or(u64::MAX)
    }
}
