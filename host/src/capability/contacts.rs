//! Whom a call has asked, for the journal.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::Origin;

/// The origins that a call has sent something to, and the agents that it has given tasks to.
#[derive(Debug, Default)]
pub struct Contacts(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    origins: BTreeSet<Origin>,
    agents: BTreeSet<String>,
}

impl Contacts {
    pub(super) fn add_origin(&self, origin: &Origin) {
        self.lock().origins.insert(origin.clone());
    }

    pub(super) fn add_agent(&self, name: &str) {
        self.lock().agents.insert(name.to_owned());
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
