//! Statistics of the host's health checks.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::journal::{HealthRecord, Verdict};

/// The number of failures in a row from which on there is an alert.
pub(super) const MIN_ROW_FAILURES: usize = 3;

/// The maximum time between the first and the last of these failures.
const MAX_ROW_DURATION: SignedDuration = SignedDuration::from_hours(1);

/// Collects health checks in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Health {
    summary: HealthSummary,
    /// The last [`MIN_ROW_FAILURES`] failures since the last check that did not fail.
    row: VecDeque<Timestamp>,
}

/// The results of health checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HealthSummary {
    /// The number of health checks.
    pub checks: u64,
    /// Checks that found the host healthy.
    pub healthy: u64,
    /// Checks that found the host degraded.
    pub degraded: u64,
    /// Checks that found the host failed.
    pub failed: u64,
    /// The most recent health check.
    pub last: Option<HealthRecord>,
    /// The last time that three or more checks in a row failed within an hour.
    pub failures_in_a_row: Option<Row>,
}

/// Consecutive failures of health checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The number of failures.
    pub checks: u64,
    /// The time of the first failure.
    pub from: Timestamp,
    /// The time of the last failure.
    pub to: Timestamp,
}

impl Health {
    pub(super) fn add(&mut self, record: &HealthRecord) {
        let summary = &mut self.summary;
        summary.checks += 1;
        *match record.verdict {
            Verdict::Healthy => &mut summary.healthy,
            Verdict::Degraded => &mut summary.degraded,
            Verdict::Failed => &mut summary.failed,
        } += 1;
        summary.last = Some(record.clone());
        if record.verdict != Verdict::Failed {
            self.row.clear();
            return;
        }
        let goes_on = !self.row.is_empty();
        self.row.push_back(record.timestamp);
        if self.row.len() > MIN_ROW_FAILURES {
            self.row.pop_front();
        }
        let Some(&from) = self.row.front().filter(|_| self.row.len() == MIN_ROW_FAILURES) else {
            return;
        };
        let to = record.timestamp;
        if from.duration_until(to) > MAX_ROW_DURATION {
            return;
        }
        match &mut summary.failures_in_a_row {
            // The row continues.
            Some(row) if goes_on && row.to >= from => {
                row.checks += 1;
                row.to = to;
            }
            row => *row = Some(Row { checks: MIN_ROW_FAILURES as u64, from, to }),
        }
    }

    pub(super) fn summary(&self) -> HealthSummary {
        self.summary.clone()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The row of failures after checks given as `(minute, verdict)`: number, first and last
    /// minute.
    fn row(checks: &[(i64, char)]) -> Option<(u64, i64, i64)> {
        let mut health = Health::default();
        for (minute, verdict) in checks {
            health.add(&HealthRecord {
                timestamp: Timestamp::from_second(minute * 60).unwrap(),
                event: HealthRecord::EVENT.to_owned(),
                verdict: match verdict {
                    'h' => Verdict::Healthy,
                    'd' => Verdict::Degraded,
                    _ => Verdict::Failed,
                },
                latency_ms: 1.0,
                failed: Vec::new(),
            });
        }
        let row = health.summary().failures_in_a_row?;
        Some((row.checks, row.from.as_second() / 60, row.to.as_second() / 60))
    }

    #[test]
    fn three_failures_within_an_hour_are_a_row() {
        for (checks, wanted) in [
            (&[][..], None),
            (&[(0, 'f'), (20, 'f')], None),
            (&[(0, 'f'), (20, 'f'), (40, 'f')], Some((3, 0, 40))),
            // Exactly one hour is within an hour; more is not.
            (&[(0, 'f'), (30, 'f'), (60, 'f')], Some((3, 0, 60))),
            (&[(0, 'f'), (30, 'f'), (61, 'f')], None),
            (&[(0, 'f'), (60, 'f'), (120, 'f'), (180, 'f')], None),
            // A check that did not fail ends the row.
            (&[(0, 'f'), (10, 'f'), (15, 'h'), (20, 'f')], None),
            (&[(0, 'f'), (10, 'f'), (15, 'd'), (20, 'f')], None),
            (&[(0, 'd'), (10, 'd'), (20, 'd')], None),
            // A long row stays one row, and is kept when the host is healthy again.
            (&[(0, 'f'), (10, 'f'), (20, 'f'), (30, 'f'), (40, 'h')], Some((4, 0, 30))),
            // The last of several rows is reported.
            (
                &[(0, 'f'), (1, 'f'), (2, 'f'), (3, 'h'), (4, 'f'), (5, 'f'), (6, 'f')],
                Some((3, 4, 6)),
            ),
            // An isolated failure long before is not part of the row.
            (&[(0, 'f'), (300, 'f'), (310, 'f'), (320, 'f')], Some((3, 300, 320))),
        ] {
            assert_eq!(row(checks), wanted, "{checks:?}");
        }
    }
}
