//! What the calls of one session have done: their commits, the programs that they have left running, and
//! the secrets that they have read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::secrets::SecretReads;
use crate::background::Background;
use cofferdam_core::policy::CallPattern;
use cofferdam_workspace::SessionName;

/// The number of commits that are remembered; older ones are no longer the session's.
const MAX_COMMITS: usize = 1000;

/// The number of approved patterns that are remembered; the oldest ones are forgotten first.
const MAX_PATTERNS: usize = 100;

/// What the calls of one session share: an MCP session, or one run of the command. Clones are the same
/// session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The name in the journal, and of the proposal that its held changes are.
    name: Arc<SessionName>,
    /// What the user has approved for later calls.
    approved: Arc<Mutex<Approved>>,
    /// The commits that its calls have made.
    commits: Arc<Mutex<VecDeque<SessionCommit>>>,
    /// The programs that its calls have left running.
    background: Option<Arc<Background>>,
    /// What its calls have read of secrets.
    reads: SecretReads,
}

/// Which later calls of its tool in this session an approval covers as well.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Later {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those whose arguments match, for a time.
    Like(CallPattern, Duration),
}

/// The tools (qualified names) that the user has approved for the whole session, and the patterns of
/// calls of a tool, each with its end.
#[derive(Debug, Default)]
struct Approved {
    tools: BTreeSet<String>,
    patterns: VecDeque<(String, CallPattern, Instant)>,
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

    /// Notes which later calls of a tool (qualified name) the user has approved.
    pub fn approve(&self, tool: &str, later: &Later) {
        let mut approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        match later {
            Later::None => {}
            Later::All => drop(approved.tools.insert(tool.to_owned())),
            Later::Like(pattern, time) => {
                if approved.patterns.len() == MAX_PATTERNS {
                    approved.patterns.pop_front();
                }
                let until = Instant::now() + *time;
                approved.patterns.push_back((tool.to_owned(), pattern.clone(), until));
            }
        }
    }

    /// Whether the user has approved this call of a tool with an earlier one.
    pub fn is_approved(&self, tool: &str, args: &Value) -> bool {
        let mut approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        approved.patterns.retain(|(_, _, until)| now < *until);
        let mut patterns = approved.patterns.iter();
        approved.tools.contains(tool)
            || patterns.any(|(of, pattern, _)| of == tool && pattern.matches(args))
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn approvals_cover_only_what_was_approved() {
        let (session, args) = (Session::default(), json!({"command": "npm test"}));
        session.approve("a.b", &Later::None);
        assert!(!session.is_approved("a.b", &args));
        let like = |command: &str, seconds: u64| {
            let pattern = CallPattern::new(json!({ "command": command })).unwrap();
            Later::Like(pattern, Duration::from_secs(seconds))
        };
        session.approve("a.b", &like("npm *", 0));
        assert!(!session.is_approved("a.b", &args), "the time is over");
        session.approve("a.b", &like("npm *", 60));
        assert!(session.is_approved("a.b", &args) && !session.is_approved("a.c", &args));
        assert!(!session.is_approved("a.b", &json!({"command": "npx test"})));
        assert!(!Session::default().is_approved("a.b", &args));
        for _ in 0..MAX_PATTERNS {
            session.approve("a.c", &like("x", 60));
        }
        assert!(!session.is_approved("a.b", &args), "the oldest are forgotten");
        session.approve("a.b", &Later::All);
        assert!(session.clone().is_approved("a.b", &json!({})));
    }
}
