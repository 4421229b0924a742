//! What a call has used, for the journal: limits, services, and the output of its programs.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Add;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cofferdam_core::policy::Origin;
use cofferdam_workspace::KeptOutput;

/// How many refused origins of a call are remembered.
const MAX_REFUSED_ORIGINS: usize = 8;

/// Collects what a call uses while it runs. Shared by the instances of the call and its backends.
#[derive(Debug, Default)]
pub struct CallUsage(Mutex<Used>);

/// Origins that plugins were not granted, by the name of the plugin.
pub type RefusedOrigins = BTreeMap<String, BTreeSet<String>>;

/// What a call has used and asked.
#[derive(Debug, Default)]
pub struct Used {
    /// The origins that it sent requests to.
    pub origins: BTreeSet<Origin>,
    /// The origins that its plugins tried to send requests to and were not granted.
    pub refused: RefusedOrigins,
    /// The agents that it gave tasks to.
    pub agents: BTreeSet<String>,
    /// The tools that it called and whose changes the user has to approve.
    pub asks: BTreeSet<String>,
    /// Whether it has called a tool whose changes are held.
    pub is_held: bool,
    /// Who approved it.
    pub approver: Option<String>,
    /// What all its instances that have ended have used.
    pub usage: Usage,
    /// How many programs it has run.
    pub programs: u32,
    /// What is kept of what its programs have printed.
    pub outputs: Vec<KeptOutput>,
}

/// What the instances of a call, those of its backends included, have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The linear memory of its largest instance at the end, in bytes. It never shrinks.
    pub memory: u64,
    /// Calls from plugins into the host.
    pub host_calls: u64,
    /// What was written to files, in bytes.
    pub written: u64,
    /// Files, directories and links that were created or changed.
    pub files: u64,
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            host_calls: self.host_calls.saturating_add(other.host_calls),
            written: self.written.saturating_add(other.written),
            files: self.files.saturating_add(other.files),
        }
    }
}

impl CallUsage {
    pub(crate) fn add_origin(&self, origin: &Origin) {
        self.lock().origins.insert(origin.clone());
    }

    /// Adds an origin that a plugin was not granted; only the first ones are remembered. `text` is
    /// the origin as it may be shown.
    pub(crate) fn add_refused(&self, plugin: &str, text: String) {
        let refused = &mut self.lock().refused;
        if refused.values().map(BTreeSet::len).sum::<usize>() < MAX_REFUSED_ORIGINS {
            refused.entry(plugin.to_owned()).or_default().insert(text);
        }
    }

    /// The origins that were not granted.
    pub(crate) fn refused(&self) -> RefusedOrigins {
        self.lock().refused.clone()
    }

    pub(crate) fn add_agent(&self, name: &str) {
        self.lock().agents.insert(name.to_owned());
    }

    /// Adds a tool whose changes the user has to approve.
    pub(crate) fn add_ask(&self, tool: &str) {
        self.lock().asks.insert(tool.to_owned());
    }

    /// The tools whose changes the user has to approve.
    pub(crate) fn asks(&self) -> Vec<String> {
        self.lock().asks.iter().cloned().collect()
    }

    /// Notes who has approved it.
    pub(crate) fn approved_by(&self, approver: &str) {
        self.lock().approver = Some(approver.to_owned());
    }

    /// Notes that it has called a tool whose changes are held.
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Whether it has called a tool whose changes are held.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().is_held
    }

    /// Adds what one instance has used.
    pub(crate) fn add_usage(&self, usage: Usage) {
        let mut used = self.lock();
        used.usage = used.usage + usage;
    }

    /// Files, directories and links that were created or changed so far.
    pub(crate) fn files(&self) -> u64 {
        self.lock().usage.files
    }

    /// Counts a program that is run: the first one is 1.
    pub(crate) fn next_program(&self) -> u32 {
        let mut used = self.lock();
        used.programs += 1;
        used.programs
    }

    pub(crate) fn add_output(&self, output: KeptOutput) {
        self.lock().outputs.push(output);
    }

    /// How many outputs are kept.
    pub(crate) fn outputs(&self) -> usize {
        self.lock().outputs.len()
    }

    /// Returns what was used so far, and begins anew.
    pub fn take(&self) -> Used {
        mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
