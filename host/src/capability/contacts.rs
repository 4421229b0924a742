//! Whom a call has asked, and what it has used, for the journal.

use std::collections::BTreeSet;
use std::ops::Add;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::Origin;

/// The origins that a call has sent something to, the agents that it has given tasks to, and what
/// its instances have used.
#[derive(Debug, Default)]
pub struct Contacts(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    origins: BTreeSet<Origin>,
    agents: BTreeSet<String>,
    usage: Usage,
}

/// What a call has used, the backends that it asked included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The linear memory of its largest instance at the end, in bytes. It never shrinks.
    pub memory: u64,
    /// Calls from plugins into the host.
    pub host_calls: u64,
    /// What was written to files, in bytes.
    pub written: u64,
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            host_calls: self.host_calls.saturating_add(other.host_calls),
            written: self.written.saturating_add(other.written),
        }
    }
}

impl Contacts {
    pub(super) fn add_origin(&self, origin: &Origin) {
        self.lock().origins.insert(origin.clone());
    }

    pub(super) fn add_agent(&self, name: &str) {
        self.lock().agents.insert(name.to_owned());
    }

    /// Adds what one instance has used.
    pub(crate) fn add_usage(&self, usage: Usage) {
        let mut asked = self.lock();
        asked.usage = asked.usage + usage;
    }

    /// What all instances have used that have ended.
    pub fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// The origins' names, in order.
    pub fn hosts(&self) -> Vec<String> {
        self.lock().origins.iter().map(ToString::to_string).collect()
    }

    /// The agents' names, in order.
    pub fn agents(&self) -> Vec<String> {
        self.lock().agents.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
