//! Cumulative metrics of the calls in this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cofferdam_core::outcome::Status;

/// The upper bounds of the buckets of a duration, in seconds. Source: OpenTelemetry's semantic
/// conventions for MCP, `mcp.server.operation.duration`.
pub(super) const DURATION_BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// How many tools are distinguished; all others are counted together.
const MAX_TOOLS: usize = 2_000;

/// The name of tools that do not exist. Source: the conventions for `error.type`, which define it
/// for values that are not distinguished.
pub(super) const OTHER_TOOL: &str = "_OTHER";

/// The metrics of a process.
#[derive(Default)]
pub(super) struct Metrics {
    durations: Mutex<BTreeMap<(String, Outcome), Histogram>>,
    /// The number of accepted calls that have not ended.
    held: AtomicUsize,
    /// The number of calls that were rejected because there were too many.
    busy: AtomicUsize,
}

/// The outcome of a call, sorted by its name.
type Outcome = &'static str;

/// A histogram of durations in seconds.
#[derive(Clone, Default)]
pub(super) struct Histogram {
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// The number of durations up to each bound and above the previous one; the last bucket is for
    /// durations above all bounds.
    pub buckets: [u64; DURATION_BOUNDS_SECONDS.len() + 1],
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        (self.min, self.max) = match self.count {
            0 => (seconds, seconds),
            _ => (self.min.min(seconds), self.max.max(seconds)),
        };
        self.count += 1;
        self.sum += seconds;
        self.buckets[DURATION_BOUNDS_SECONDS.partition_point(|bound| *bound < seconds)] += 1;
    }
}

impl Metrics {
    /// Counts a call that ended.
    pub(super) fn ended(&self, tool: &str, status: Status, seconds: f64) {
        let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (tool.to_owned(), status.as_str());
        if durations.len() >= MAX_TOOLS && !durations.contains_key(&key) {
            OTHER_TOOL.clone_into(&mut key.0);
        }
        durations.entry(key).or_default().add(seconds);
    }

    /// The durations by tool and outcome.
    pub(super) fn durations(&self) -> BTreeMap<(String, Outcome), Histogram> {
        self.durations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn refused(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    pub(super) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_buckets_with_inclusive_bounds() {
        let metrics = Metrics::default();
        for seconds in [0.0, 0.01, 0.011, 300.0, 300.5] {
            metrics.ended("a.b", Status::Executed, seconds);
        }
        metrics.ended("a.b", Status::Limit, 1.0);
        let durations = metrics.durations();
        let executed = &durations[&("a.b".to_owned(), "executed")];
        let mut buckets = [0; DURATION_BOUNDS_SECONDS.len() + 1];
        (buckets[0], buckets[1], buckets[13], buckets[14]) = (2, 1, 1, 1);
        assert_eq!(executed.buckets, buckets);
        assert_eq!((executed.count, executed.min, executed.max), (5, 0.0, 300.5));
        assert!((executed.sum - 600.521).abs() < 1e-9);
        assert_eq!(durations[&("a.b".to_owned(), "limit")].count, 1);
    }

    #[test]
    fn the_number_of_distinguished_tools_is_limited() {
        let metrics = Metrics::default();
        for number in 0..MAX_TOOLS + 10 {
            metrics.ended(&format!("a.{number}"), Status::Executed, 1.0);
        }
        let durations = metrics.durations();
        assert_eq!(durations.len(), MAX_TOOLS + 1);
        assert_eq!(durations[&(OTHER_TOOL.to_owned(), "executed")].count, 10);
    }
}
