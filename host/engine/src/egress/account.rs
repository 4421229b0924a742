//! Counts the bytes and requests of a run against the limits of its rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_core::policy::{NetworkRule, NetworkRules};

/// What the rules of a run have used.
pub(super) struct Account(Vec<Arc<Used>>);

/// What the rules of one entry in the settings have used.
#[derive(Debug)]
pub(super) struct Used {
    entry: usize,
    most_bytes: u64,
    most_requests: u64,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Account {
    pub(super) fn new(rules: &NetworkRules) -> Self {
        let mut all: Vec<Arc<Used>> = Vec::new();
        for rule in rules.iter() {
            if all.iter().all(|used| used.entry != rule.entry) {
                all.push(Arc::new(Used {
                    entry: rule.entry,
                    most_bytes: rule.bytes.unwrap_or(u64::MAX),
                    most_requests: rule.requests.unwrap_or(u64::MAX),
                    bytes: AtomicU64::new(0),
                    requests: AtomicU64::new(0),
                }));
            }
        }
        Self(all)
    }

    /// What the entry of a rule has used.
    pub(super) fn of(&self, rule: &NetworkRule) -> Option<Arc<Used>> {
        self.0.iter().find(|used| used.entry == rule.entry).cloned()
    }
}

impl Used {
    /// Counts a request; returns `false` without counting if the limits are used up.
    pub(super) fn add_request(&self) -> bool {
        let more = |count: u64| (count < self.most_requests).then_some(count + 1);
        self.bytes.load(Ordering::Relaxed) < self.most_bytes
            && self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts bytes, and returns whether they were still allowed.
    pub(super) fn add_bytes(&self, count: usize) -> bool {
        let count = count as u64;
        let before = self.bytes.fetch_add(count, Ordering::Relaxed);
        before.saturating_add(count) <= self.most_bytes
    }
}
