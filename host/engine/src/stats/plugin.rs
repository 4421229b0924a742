//! What the calls of each plugin have used.

use std::collections::BTreeMap;

use serde::Serialize;

use super::latency::Latencies;
use crate::journal::Record;
use cofferdam_core::outcome::Status;

/// Takes the calls of one plugin in.
#[derive(Debug, Default)]
pub(super) struct Uses {
    calls: u64,
    errors: u64,
    limits: BTreeMap<String, u64>,
    latencies: Latencies,
    peak_memory: u64,
    host_calls: u64,
    answered: u64,
    written: u64,
}

/// What the calls of one plugin have used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginUse {
    /// The plugin's name.
    pub name: String,
    /// Calls that were made: all but those that were skipped.
    pub calls: u64,
    /// Calls that did not succeed.
    pub errors: u64,
    /// How often which limit ended a call, by the limits' stable names.
    pub limits: BTreeMap<String, u64>,
    /// How long all calls took together, in milliseconds.
    pub time_ms: f64,
    /// The 95th percentile of it.
    pub p95_ms: f64,
    /// The linear memory of the largest instance, in bytes.
    pub peak_memory_bytes: u64,
    /// Calls from the plugin into the host.
    pub host_calls: u64,
    /// The size of all answers, in bytes.
    pub answered_bytes: u64,
    /// What was written to files, in bytes, whatever became of it.
    pub written_bytes: u64,
}

impl Uses {
    /// Takes one call in.
    pub(super) fn add(&mut self, record: &Record) {
        let outcome = record.outcome();
        if outcome == Status::Skipped {
            return;
        }
        self.calls += 1;
        self.errors += u64::from(outcome != Status::Executed);
        if let (Status::Limit, Some(code)) = (outcome, &record.code) {
            *super::named(&mut self.limits, code) += 1;
        }
        self.latencies.add(record.latency_ms);
        self.peak_memory = self.peak_memory.max(record.memory_bytes);
        // What somebody else wrote may say anything.
        self.host_calls = self.host_calls.saturating_add(record.host_calls);
        self.answered = self.answered.saturating_add(record.output_bytes as u64);
        self.written = self.written.saturating_add(record.written_bytes);
    }

    /// What was taken in.
    pub(super) fn of(&self, name: &str) -> PluginUse {
        PluginUse {
            name: name.to_owned(),
            calls: self.calls,
            errors: self.errors,
            limits: self.limits.clone(),
            time_ms: self.latencies.sum(),
            p95_ms: self.latencies.figures().p95,
            peak_memory_bytes: self.peak_memory,
            host_calls: self.host_calls,
            answered_bytes: self.answered,
            written_bytes: self.written,
        }
    }
}
