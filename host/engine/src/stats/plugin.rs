//! Usage of each plugin by its calls.

use std::collections::BTreeMap;

use serde::Serialize;

use super::latency::Latencies;
use crate::journal::Record;
use cofferdam_core::outcome::Status;

/// Collects the calls of one plugin.
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

/// The usage of one plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginUse {
    /// The name of the plugin.
    pub name: String,
    /// The number of calls, without skipped ones.
    pub calls: u64,
    /// The number of calls that did not succeed.
    pub errors: u64,
    /// The number of calls that exceeded a limit, by the limit's code.
    pub limits: BTreeMap<String, u64>,
    /// The sum of all latencies, in milliseconds.
    pub time_ms: f64,
    /// The 95th percentile of latencies, in milliseconds.
    pub p95_ms: f64,
    /// The linear memory of the largest instance, in bytes.
    pub peak_memory_bytes: u64,
    /// The number of calls from the plugin into the host.
    pub host_calls: u64,
    /// The total size of all responses, in bytes.
    pub answered_bytes: u64,
    /// The number of bytes written to files, committed or not.
    pub written_bytes: u64,
}

impl Uses {
    /// Adds a call of the plugin.
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
        // Lines of other programs may contain any numbers.
        self.host_calls = self.host_calls.saturating_add(record.host_calls);
        self.answered = self.answered.saturating_add(record.output_bytes as u64);
        self.written = self.written.saturating_add(record.written_bytes);
    }

    /// The usage by all added calls.
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
