//! The checks of the host's health that are on record.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::journal::{HealthRecord, Verdict};

/// So many failures in a row are an alert ...
pub(super) const ROW: usize = 3;

/// ... if they are within this time.
const WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Takes checks in, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Health {
    summary: HealthSummary,
    /// The failures since the last check that did not fail; the last ones of them.
    row: VecDeque<Timestamp>,
}

/// The checks of the host's health.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HealthSummary {
    /// How many there were.
    pub checks: u64,
    /// It was healthy.
    pub healthy: u64,
    /// It worked in part, or slowly.
    pub degraded: u64,
    /// It did not work.
    pub failed: u64,
    /// The last check.
    pub last: Option<HealthRecord>,
    /// The last time that three or more checks failed in a row within an hour.
    pub failures_in_a_row: Option<Row>,
}

/// Failures without anything else in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// How many.
    pub checks: u64,
    /// When the first one of them was.
    pub from: Timestamp,
    /// When the last one was.
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
        if self.row.len() > ROW {
            self.row.pop_front();
        }
        let Some(&from) = self.row.front().filter(|_| self.row.len() == ROW) else { return };
        let to = record.timestamp;
        if from.duration_until(to) > WITHIN {
            return;
        }
        match &mut summary.failures_in_a_row {
            // The same row, one longer.
            Some(row) if goes_on && row.to >= from => {
                row.checks += 1;
                row.to = to;
            }
            row => *row = Some(Row { checks: ROW as u64, from, to }),
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

    /// The row of failures after checks as `(minute, verdict)`: how many, and from when to when.
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
    fn three_failures_in_a_row_within_an_hour_are_an_alert() {
        for (checks, wanted) in [
            (&[][..], None),
            (&[(0, 'f'), (20, 'f')], None),
            (&[(0, 'f'), (20, 'f'), (40, 'f')], Some((3, 0, 40))),
            // Exactly an hour is in one hour; more is not.
            (&[(0, 'f'), (30, 'f'), (60, 'f')], Some((3, 0, 60))),
            (&[(0, 'f'), (30, 'f'), (61, 'f')], None),
            (&[(0, 'f'), (60, 'f'), (120, 'f'), (180, 'f')], None),
            // Anything else in between ends the row.
            (&[(0, 'f'), (10, 'f'), (15, 'h'), (20, 'f')], None),
            (&[(0, 'f'), (10, 'f'), (15, 'd'), (20, 'f')], None),
            (&[(0, 'd'), (10, 'd'), (20, 'd')], None),
            // A long row is one row, and stays on record when all is well again.
            (&[(0, 'f'), (10, 'f'), (20, 'f'), (30, 'f'), (40, 'h')], Some((4, 0, 30))),
            // The last of several rows counts.
            (
                &[(0, 'f'), (1, 'f'), (2, 'f'), (3, 'h'), (4, 'f'), (5, 'f'), (6, 'f')],
                Some((3, 4, 6)),
            ),
            // A slow start does not count.
            (&[(0, 'f'), (300, 'f'), (310, 'f'), (320, 'f')], Some((3, 300, 320))),
        ] {
            assert_eq!(row(checks), wanted, "{checks:?}");
        }
    }
}
