//! Calls over time, counted in spans whose length grows with the period, so that there are never
//! too many for a chart.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use cofferdam_core::outcome::Status;

/// The maximum number of spans from the first to the last.
const MAX_BUCKETS: i64 = 96;

/// The possible lengths of a span in seconds; longer ones are doubled.
const SPAN_SECONDS: [i64; 10] = [1, 10, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 604_800];

/// Counts calls in spans of time.
#[derive(Debug)]
pub(super) struct Times {
    seconds: i64,
    buckets: BTreeMap<i64, Bucket>,
}

/// Calls over time, in spans of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The length of each span, in seconds.
    pub bucket_seconds: i64,
    /// The spans that are not empty, in order of time.
    pub buckets: Vec<Bucket>,
}

/// The calls in one span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The begin of the span.
    pub start: Timestamp,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that did not succeed.
    pub errors: u64,
    /// The number of fallbacks.
    pub fallbacks: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { seconds: SPAN_SECONDS[0], buckets: BTreeMap::new() }
    }
}

impl Times {
    pub(super) fn call(&mut self, time: Timestamp, outcome: Status) {
        let bucket = self.at(time);
        bucket.calls += u64::from(outcome != Status::Skipped);
        bucket.errors += u64::from(!matches!(outcome, Status::Executed | Status::Skipped));
    }

    pub(super) fn fallback(&mut self, time: Timestamp) {
        self.at(time).fallbacks += 1;
    }

    pub(super) fn timeline(&self) -> Timeline {
        let bucket = |(number, bucket): (&i64, &Bucket)| {
            // The span of a valid time may begin before the first valid time.
            let start = Timestamp::from_second(number * self.seconds).unwrap_or(Timestamp::MIN);
            Bucket { start, ..*bucket }
        };
        Timeline {
            bucket_seconds: self.seconds,
            buckets: self.buckets.iter().map(bucket).collect(),
        }
    }

    fn at(&mut self, time: Timestamp) -> &mut Bucket {
        loop {
            let number = time.as_second().div_euclid(self.seconds);
            let first = self.buckets.keys().next().copied().unwrap_or(number).min(number);
            let last = self.buckets.keys().next_back().copied().unwrap_or(number).max(number);
            if last - first < MAX_BUCKETS {
                return self.buckets.entry(number).or_default();
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        let wider = SPAN_SECONDS.into_iter().find(|seconds| *seconds > self.seconds);
        let wider = wider.unwrap_or(self.seconds * 2);
        for (number, Bucket { calls, errors, fallbacks, .. }) in std::mem::take(&mut self.buckets) {
            let bucket = self.buckets.entry((number * self.seconds).div_euclid(wider)).or_default();
            bucket.calls += calls;
            bucket.errors += errors;
            bucket.fallbacks += fallbacks;
        }
        self.seconds = wider;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn timeline(seconds: impl IntoIterator<Item = i64>) -> Timeline {
        let mut times = Times::default();
        for second in seconds {
            times.call(Timestamp::from_second(second).unwrap(), Status::Executed);
        }
        times.timeline()
    }

    #[test]
    fn spans_grow_without_losing_calls() {
        for (last, seconds) in
            [(0, 1), (95, 1), (96, 10), (3_600, 60), (86_400, 3_600), (60_000_000, 1_209_600)]
        {
            let timeline = timeline([0, 1, last, -1, last]);
            assert_eq!(timeline.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), 5);
            assert!(
                timeline.buckets.len() <= 96 && timeline.bucket_seconds >= seconds,
                "{last}: {timeline:?}"
            );
            let starts: Vec<i64> =
                timeline.buckets.iter().map(|bucket| bucket.start.as_second()).collect();
            assert!(
                starts.is_sorted()
                    && starts.iter().all(|start| start % timeline.bucket_seconds == 0)
            );
        }
        assert_eq!(timeline(0..=95).bucket_seconds, 1);
        assert_eq!(timeline(0..=96).bucket_seconds, 10);
    }

    #[test]
    fn extreme_times_are_accepted() {
        let ends = [Timestamp::MIN, Timestamp::MAX].map(Timestamp::as_second);
        let timeline = timeline(ends);
        assert_eq!(timeline.buckets.len(), 2, "{timeline:?}");
    }

    #[test]
    fn errors_and_fallbacks_are_counted_by_time() {
        let mut times = Times::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        times.call(at(10), Status::Error);
        times.call(at(10), Status::Skipped);
        times.fallback(at(11));
        let [first, second] = times.timeline().buckets[..] else { panic!("{times:?}") };
        assert_eq!((first.calls, first.errors, first.fallbacks), (1, 1, 0));
        assert_eq!((second.calls, second.errors, second.fallbacks), (0, 0, 1));
    }
}
