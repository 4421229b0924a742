//! How fast a client has to send and to read: it may pause for a while, and has to make up for that.

use std::time::Duration;

use tokio::time::Instant;

/// A minimum rate, which a client may stay below for some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRate {
    pub bytes_per_second: u32,
    /// How long the client may send or read nothing.
    pub grace: Duration,
}

/// The progress of one client.
#[derive(Debug)]
pub(super) struct Pace {
    rate: MinRate,
    deadline: Instant,
}

impl Pace {
    pub fn new(rate: MinRate) -> Self {
        Self { rate, deadline: Instant::now() + rate.grace }
    }

    /// When the client is too slow, unless it makes progress.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The client has sent or read some bytes.
    pub fn progress(&mut self, bytes: usize) {
        let earned = bytes as f64 / f64::from(self.rate.bytes_per_second);
        // What is more than any grace does not count.
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(self.rate.grace);
        let latest = Instant::now() + self.rate.grace;
        self.deadline = (self.deadline + earned.min(self.rate.grace)).min(latest);
    }

    /// The client had to wait for the server.
    pub fn pause(&mut self, time: Duration) {
        self.deadline += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_client_uses_its_grace_up() {
        let grace = Duration::from_secs(5);
        let begun = Instant::now();
        let mut pace = Pace::new(MinRate { bytes_per_second: 1000, grace });
        (0..10).for_each(|_| pace.progress(1));
        let drips = pace.deadline() - begun;
        assert!(drips < grace + Duration::from_millis(500), "{drips:?}");
        pace.progress(1 << 30);
        let fast = pace.deadline() - Instant::now();
        assert!(fast > Duration::from_secs(4) && fast <= grace, "{fast:?}");
        pace.pause(grace);
        assert!(pace.deadline() - Instant::now() > grace);
    }
}
