//! What the calls of one session have done: their commits, and the secrets that they have read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::secrets::SecretReads;

/// The number of commits that are remembered; older ones are no longer the session's.
const MAX_COMMITS: usize = 1000;

/// What the calls of one session have done: an MCP session, or one run of the command. Clones are the
/// same session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    commits: Arc<Mutex<VecDeque<SessionCommit>>>,
    reads: SecretReads,
}

/// A commit of a session.
#[derive(Debug, Clone)]
pub struct SessionCommit {
    /// The id of the commit.
    pub id: String,
    /// The short names of the tools whose calls made it.
    pub tools: Vec<String>,
}

impl Session {
    /// A session that shares what was read with other ones.
    pub fn with_reads(reads: SecretReads) -> Self {
        Self { reads, ..Self::default() }
    }

    /// What its calls have read of secrets.
    pub fn reads(&self) -> &SecretReads {
        &self.reads
    }

    /// Adds a commit, with the tools whose calls made it.
    pub fn add(&self, id: &str, mut tools: Vec<String>) {
        tools.sort();
        tools.dedup();
        let mut commits = self.lock();
        if commits.len() == MAX_COMMITS {
            commits.pop_front();
        }
        commits.push_back(SessionCommit { id: id.to_owned(), tools });
    }

    /// Returns the commits, oldest first.
    pub fn commits(&self) -> Vec<SessionCommit> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SessionCommit>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
