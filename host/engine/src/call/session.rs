//! The commits of one session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of commits that are remembered; older ones are no longer the session's.
const MAX_COMMITS: usize = 1000;

/// The commits that the calls of one session have made: an MCP session, or one run of the command.
/// Clones are the same session.
#[derive(Debug, Clone, Default)]
pub struct Session(Arc<Mutex<VecDeque<SessionCommit>>>);

/// A commit of a session.
#[derive(Debug, Clone)]
pub struct SessionCommit {
    /// The id of the commit.
    pub id: String,
    /// The short names of the tools whose calls made it.
    pub tools: Vec<String>,
}

impl Session {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
