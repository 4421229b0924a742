//! Counts and times of the calls of this process, by tool.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::journal::Record;
use crate::outcome::Status;

/// How many times of a tool are kept for the percentiles: the latest ones.
const KEPT: usize = 10_000;

/// Where every call is counted.
#[derive(Default)]
pub struct Metrics(Mutex<BTreeMap<String, Tool>>);

#[derive(Default)]
struct Tool {
    outcomes: BTreeMap<Status, u64>,
    latencies: Vec<f64>,
    next: usize,
}

/// The figures of one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The tool's qualified name.
    pub tool: String,
    /// Calls, by how they ended.
    pub outcomes: BTreeMap<Status, u64>,
    /// Median wall-clock time, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
}

impl Metrics {
    /// Counts a call.
    pub fn count(&self, record: &Record) {
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = tools.entry(record.tool.clone()).or_default();
        *tool.outcomes.entry(record.outcome).or_default() += 1;
        match tool.latencies.get_mut(tool.next) {
            Some(oldest) => *oldest = record.latency_ms,
            None => tool.latencies.push(record.latency_ms),
        }
        tool.next = (tool.next + 1) % KEPT;
    }

    /// The figures of every tool, by name.
    pub fn summaries(&self) -> Vec<Summary> {
        let tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tools
            .iter()
            .map(|(name, tool)| {
                let mut latencies = tool.latencies.clone();
                latencies.sort_by(f64::total_cmp);
                Summary {
                    tool: name.clone(),
                    outcomes: tool.outcomes.clone(),
                    p50_ms: percentile(&latencies, 50),
                    p95_ms: percentile(&latencies, 95),
                    p99_ms: percentile(&latencies, 99),
                }
            })
            .collect()
    }
}

/// The nearest-rank percentile of sorted values; 0 where there are none.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn figures_are_those_of_the_calls() {
        let metrics = Metrics::default();
        for latency in 1..=200_u32 {
            metrics.count(&Record::new(
                "c",
                "a.b",
                None,
                &Outcome::Executed(serde_json::json!({})),
                latency.into(),
            ));
        }
        let summaries = metrics.summaries();
        assert_eq!(summaries.len(), 1);
        assert_eq!(summaries[0].outcomes[&Status::Executed], 200);
        assert_eq!(
            (summaries[0].p50_ms, summaries[0].p95_ms, summaries[0].p99_ms),
            (100.0, 190.0, 198.0)
        );
        assert_eq!(percentile(&[], 50), 0.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }
}
