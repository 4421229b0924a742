//! What the calls of one session have done: their commits, the programs that they have left running, and
//! the secrets that they have read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::consent::RememberedConsents;
use super::secrets::SecretReads;
use crate::background::Background;
use cofferdam_core::policy::CallPattern;
use cofferdam_workspace::SessionName;

/// The number of commits that are remembered; older ones are no longer the session's.
const MAX_COMMITS: usize = 1000;

/// The number of approvals that are remembered; the oldest ones are forgotten first.
const MAX_APPROVALS: usize = 100;

/// What the calls of one session share: an MCP session, or one run of the command. Clones are the same
/// session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The name in the journal, and of the proposal that its held changes are. Made at its first use.
    name: Arc<OnceLock<SessionName>>,
    /// What the user has approved for later calls.
    approvals: Arc<Mutex<VecDeque<ApprovedCalls>>>,
    /// The commits that its calls have made.
    commits: Arc<Mutex<VecDeque<SessionCommit>>>,
    /// The programs that its calls have left running.
    background: Option<Arc<Background>>,
    /// What its calls have read of secrets.
    reads: SecretReads,
    /// The actions that the user allows for the whole session.
    consents: RememberedConsents,
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

/// Calls that the user has approved.
#[derive(Debug)]
struct ApprovedCalls {
    /// The tool's qualified name.
    tool: String,
    /// Those that match, until a time; `None`: all, for the whole session.
    like: Option<(CallPattern, Instant)>,
    /// Who approved them.
    approver: String,
}

impl ApprovedCalls {
    fn covers(&self, tool: &str, args: &Value) -> bool {
        let fits = |(pattern, _): &(CallPattern, Instant)| pattern.matches(args);
        self.tool == tool && self.like.as_ref().is_none_or(fits)
    }
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

    /// Whether it may have several calls from now on: others have one.
    pub fn is_lasting(&self) -> bool {
        self.background.is_some()
    }

    /// This session under a name of the user: it continues with what is held for a session of that name.
    #[must_use]
    pub fn named(self, name: SessionName) -> Self {
        Self { name: Arc::new(name.into()), ..self }
    }

    /// The name of the session.
    pub fn name(&self) -> &SessionName {
        self.name.get_or_init(SessionName::unique)
    }

    /// Notes which later calls of a tool (qualified name) the user has approved, and who that was.
    pub fn approve(&self, tool: &str, later: &Later, approver: &str) {
        let like = match later {
            Later::None => return,
            Later::All => None,
            Later::Like(pattern, time) => Some((pattern.clone(), Instant::now() + *time)),
        };
        let mut approvals = self.approvals.lock().unwrap_or_else(PoisonError::into_inner);
        if approvals.len() == MAX_APPROVALS {
            approvals.pop_front();
        }
        let (tool, approver) = (tool.to_owned(), approver.to_owned());
        approvals.push_back(ApprovedCalls { tool, like, approver });
    }

    /// Who has approved this call of a tool with an earlier one; `None`: it is not approved.
    pub fn approver(&self, tool: &str, args: &Value) -> Option<String> {
        let mut approvals = self.approvals.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        approvals.retain(|calls| calls.like.as_ref().is_none_or(|(_, until)| now < *until));
        let found = approvals.iter().find(|calls| calls.covers(tool, args))?;
        Some(found.approver.clone())
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

    /// The actions that the user allows for the whole session.
    pub fn consents(&self) -> &RememberedConsents {
        &self.consents
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
        let of = |session: &Session, tool: &str| session.approver(tool, &args);
        session.approve("a.b", &Later::None, "one");
        assert_eq!(of(&session, "a.b"), None);
        let like = |command: &str, seconds: u64| {
            let pattern = CallPattern::new(json!({ "command": command })).unwrap();
            Later::Like(pattern, Duration::from_secs(seconds))
        };
        session.approve("a.b", &like("npm *", 0), "one");
        assert_eq!(of(&session, "a.b"), None, "the time is over");
        session.approve("a.b", &like("npm *", 60), "two");
        assert_eq!(of(&session, "a.b").as_deref(), Some("two"));
        assert_eq!(of(&session, "a.c"), None);
        assert_eq!(session.approver("a.b", &json!({"command": "npx test"})), None);
        assert_eq!(of(&Session::default(), "a.b"), None);
        for _ in 0..MAX_APPROVALS {
            session.approve("a.c", &like("x", 60), "two");
        }
        assert_eq!(of(&session, "a.b"), None, "the oldest are forgotten");
        session.approve("a.b", &Later::All, "three");
        let all = session.clone().approver("a.b", &json!({}));
        assert_eq!(all.as_deref(), Some("three"));
    }
}
