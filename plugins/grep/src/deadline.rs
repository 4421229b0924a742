//! The time that a call may take.

use std::time::{Duration, Instant};

/// How many bytes are searched between two looks at the clock: each look leaves the sandbox.
const BYTES_PER_LOOK: usize = 256 * 1024;

/// What searching one file costs beside its bytes, in bytes.
const COST_PER_FILE: usize = 2048;

/// Says when a search has to end so that its answer still arrives in time.
pub struct Deadline {
    started: Instant,
    allowed: Duration,
    unseen: usize,
}

impl Deadline {
    /// In so many milliseconds.
    pub fn new(milliseconds: u32) -> Self {
        Self {
            started: Instant::now(),
            allowed: Duration::from_millis(milliseconds.into()),
            unseen: BYTES_PER_LOOK,
        }
    }

    /// Whether the time is up. Asked before each file, with its size in bytes.
    pub fn passed(&mut self, size: usize) -> bool {
        self.unseen = self.unseen.saturating_add(size).saturating_add(COST_PER_FILE);
        if self.unseen < BYTES_PER_LOOK {
            return false;
        }
        self.unseen = 0;
        self.started.elapsed() >= self.allowed
    }

    /// How long a search may take.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_first_and_then_after_each_batch_of_bytes() {
        let mut late = Deadline::new(0);
        assert!(late.passed(0));
        assert!(!late.passed(1));
        assert!(!late.passed(1));
        assert!(late.passed(BYTES_PER_LOOK));
        assert!(!Deadline::new(60_000).passed(usize::MAX));
    }
}
