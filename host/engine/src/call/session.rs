//! What the calls of one session have done: their commits, the programs that they have left running, and
//! the secrets that they have read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::secrets::SecretReads;
use crate::background::Background;
use cofferdam_workspace::SessionName;

/// The number of commits that are remembered; older ones are no longer the session's.
const MAX_COMMITS: usize = 1000;

/// What the calls of one session share: an MCP session, or one run of the command. Clones are the same
/// session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The name in the journal, and of the proposal that its held changes are.
    name: Arc<SessionName>,
    /// The tools that the user has approved for the whole session.
    approved: Arc<Mutex<BTreeSet<String>>>,
    /// The commits that its calls have made.
    commits: Arc<Mutex<VecDeque<SessionCommit>>>,
    /// The programs that its calls have left running.
    background: Option<Arc<Background>>,
    /// What its calls have read of secrets.
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
    /// A session whose calls may leave programs running. They are killed by [`Session::end`], and when
    /// the last clone is dropped. Calls of other sessions can't leave any.
    pub fn lasting() -> Self {
        Self { background: Some(Arc::default()), ..Self::default() }
    }

    /// This session under a name of the user: it continues with what is held for a session of that name.
    #[must_use]
    pub fn named(self, name: SessionName) -> Self {
        Self { name: Arc::new(name), ..self }
    }

    /// The name of the session.
    pub fn name(&self) -> &SessionName {
        &self.name
    }

    /// Notes that the user has approved all calls of a tool (qualified name) in this session.
    pub fn approve(&self, tool: &str) {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
    }

    /// Whether the user has approved all calls of a tool in this session.
    pub fn is_approved(&self, tool: &str) -> bool {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Kills the programs of the session, without waiting; no more are started.
    pub fn end(&self) {
        if let Some(background) = &self.background {
            background.end();
        }
    }

    /// The programs of the session; `None` if it can't have any.
    pub(crate) fn background(&self) -> Option<&Arc<Background>> {
        self.background.as_ref()
    }

    /// This session, sharing what was read with other sessions.
    #[must_use]
    pub fn with_reads(self, reads: SecretReads) -> Self {
        Self { reads, ..self }
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
