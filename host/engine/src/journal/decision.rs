//! The decisions of users: about calls that they are asked about, and about held changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cofferdam_text::escape_control;
use cofferdam_workspace::{Decided, Decision};

/// How much is kept of what was shown and of a comment, in bytes.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// A decision of a user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRecord {
    /// `yes`, `yes, for this session`, `yes, for a pattern`, `no`, `accepted`, `rejected` or
    /// `cancelled`; for a question of a plugin `answered`, `declined` or `not answered`.
    pub answer: String,
    /// Who decided: `the user of CLIENT` if a client has asked, `cli` for the command, `console` for the
    /// console.
    pub approver: String,
    /// What the user said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The client of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The role of the session's calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The beginning of what was shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
    /// The proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// The number of hunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<usize>,
    /// The commit of what was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl DecisionRecord {
    /// The records of a review: one for what was accepted, one for what was rejected.
    pub fn of_review(decided: &Decided, decision: &Decision) -> Vec<Self> {
        let record = |answer: &str, hunks: usize| Self {
            answer: answer.to_owned(),
            approver: decision.reviewer.clone(),
            comment: decision.comment.as_deref().map(bounded),
            client: decided.author.client.clone(),
            session: Some(decided.author.session.to_string()),
            role: decided.author.role.clone(),
            shown: bounded(&decided.notice),
            proposal: Some(decided.proposal.to_string()),
            hunks: Some(hunks),
            commit: None,
        };
        let commit = decided.commit.as_ref().map(|commit| commit.id.to_string());
        let accepted = || Self { commit, ..record("accepted", decided.accepted) };
        let rejected = || record("rejected", decided.rejected);
        let mut records = Vec::new();
        records.extend((decided.accepted > 0).then(accepted));
        records.extend((decided.rejected > 0).then(rejected));
        records
    }
}

/// The beginning of a text, with escapes for characters that hide text.
pub(crate) fn bounded(text: &str) -> String {
    escape_control(&text[..text.floor_char_boundary(MAX_SHOWN_BYTES)])
}
