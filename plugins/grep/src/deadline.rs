//! The deadline of a search.

use std::time::{Duration, Instant};

/// The number of bytes searched between two reads of the clock, each of which is a call into the
/// host.
const BYTES_PER_CLOCK_READ: usize = 256 * 1024;

/// The cost of searching a file in addition to its size, in bytes.
const BYTES_PER_FILE: usize = 2048;

/// Tells when a search has to end so that its result is still in time.
pub struct Deadline {
    started: Instant,
    allowed: Duration,
    unseen: usize,
}

impl Deadline {
    /// A deadline after this number of milliseconds.
    pub fn new(milliseconds: u32) -> Self {
        Self {
            started: Instant::now(),
            allowed: Duration::from_millis(milliseconds.into()),
            unseen: BYTES_PER_CLOCK_READ,
        }
    }

    /// Whether the deadline has passed. Called before each file, with its size in bytes.
    pub fn passed(&mut self, size: usize) -> bool {
        self.unseen = self.unseen.saturating_add(size).saturating_add(BYTES_PER_FILE);
        if self.unseen < BYTES_PER_CLOCK_READ {
            return false;
        }
        self.unseen = 0;
        self.started.elapsed() >= self.allowed
    }

    /// The time allowed for a search.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_at_the_start_and_after_each_batch() {
        let mut late = Deadline::new(0);
        assert!(late.passed(0));
        assert!(!late.passed(1));
        assert!(!late.passed(1));
        assert!(late.passed(BYTES_PER_CLOCK_READ));
        assert!(!Deadline::new(60_000).passed(usize::MAX));
    }
}
