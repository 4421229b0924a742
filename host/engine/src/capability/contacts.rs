//! Whom a call has asked, what it has used, and what is kept of its programs, for the journal.

use std::collections::BTreeSet;
use std::ops::Add;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cofferdam_core::policy::Origin;
use cofferdam_workspace::KeptOutput;

/// The origins that a call has sent something to, the agents that it has given tasks to, what its
/// instances have used, and what its programs have printed.
#[derive(Debug, Default)]
pub struct Contacts(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    origins: BTreeSet<Origin>,
    agents: BTreeSet<String>,
    usage: Usage,
    programs: u32,
    outputs: Vec<KeptOutput>,
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

    /// Counts a program that is run: the first one is 1.
    pub(super) fn next_program(&self) -> u32 {
        let mut asked = self.lock();
        asked.programs += 1;
        asked.programs
    }

    pub(super) fn add_output(&self, output: KeptOutput) {
        self.lock().outputs.push(output);
    }

    /// What is kept of what its programs have printed.
    pub fn outputs(&self) -> Vec<KeptOutput> {
        self.lock().outputs.clone()
    }

    /// What all instances that have ended have used.
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
