//! The WASI context of one call: it inherits nothing from the host, and its clocks are coarse.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder};

use super::messages::Messages;

/// The maximum number of random bytes per request.
const MAX_RANDOM_BYTES: u64 = 1 << 20;

/// The resolution of clocks. Finer clocks would help attacks by cache timing.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// A WASI context that inherits nothing from the host.
pub(super) fn new(messages: &Messages) -> WasiCtx {
    let mut context = WasiCtxBuilder::new();
    context
        .allow_blocking_current_thread(true)
        .max_random_size(MAX_RANDOM_BYTES)
        .wall_clock(CoarseClock { start: Instant::now() })
        .monotonic_clock(CoarseClock { start: Instant::now() })
        .stdout(messages.stream(tracing::Level::INFO))
        .stderr(messages.stream(tracing::Level::WARN));
    context.build()
}

/// A clock that returns whole steps of [`CLOCK_STEP`].
struct CoarseClock {
    start: Instant,
}

impl HostWallClock for CoarseClock {
    fn resolution(&self) -> Duration {
        CLOCK_STEP
    }
    fn now(&self) -> Duration {
        // Times before 1970 are returned as 1970.
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
