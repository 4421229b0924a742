//! Which actions a bead's status allows.
//!
//! | status | approve | reject | close | escalate |
//! |---|---|---|---|---|
//! | open | yes | yes | yes | yes |
//! | approved | no, is approved | yes | yes | yes |
//! | rejected | yes | yes, again | with a reason | yes |
//! | escalated | once it is decided | once it is decided | once it is decided | no, is escalated |
//! | closed | no | no | no | no |
//!
//! A decision is approved or rejected once, and is not escalated itself.

use crate::bead::{Bead, Kind, Status};
use crate::event::Change;
use crate::id::Id;

/// What a caller wants to do with a bead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Record that a review approved the bead.
    Approve,
    /// Record that a review rejected the bead.
    Reject,
    /// Record that the bead is completed.
    Close {
        /// Whether the caller gives a reason.
        with_reason: bool,
    },
    /// Ask for a decision.
    Escalate,
}

/// Why the status of a bead does not allow an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Stable name: `BeadClosed`, `BeadEscalated`, `BeadApproved`, `BeadRejected`,
    /// `DecisionMade` or `NotEscalatable`.
    pub code: &'static str,
    /// What prevents the action and what to do instead.
    pub message: String,
}

impl Bead {
    /// Checks whether the status of this bead, whose id is `id`, allows an action.
    ///
    /// # Errors
    /// `BeadClosed`, `BeadEscalated`, `BeadApproved`, `BeadRejected`, `DecisionMade` or
    /// `NotEscalatable`: see [`Refusal::code`].
    pub fn allows(&self, id: &Id, action: Action) -> Result<(), Refusal> {
        let refuse = |code, message| Err(Refusal { code, message });
        let is_decision = self.kind == Kind::Decision;
        match (self.status(), action) {
            (Status::Closed, _) => {
                let message = format!("{id} is closed{}; create a new bead", self.why());
                refuse("BeadClosed", message)
            }
            (_, Action::Escalate) if is_decision => {
                let message = format!("{id} is a decision itself: approve, reject or close it");
                refuse("NotEscalatable", message)
            }
            (Status::Escalated, _) => {
                let waiting: Vec<&str> = self.waits_for().into_iter().map(Id::as_str).collect();
                let decision = waiting.join(" and ");
                let message = format!(
                    "{id} waits for the decision {decision}: approve, reject or close that first"
                );
                refuse("BeadEscalated", message)
            }
            (Status::Approved | Status::Rejected, Action::Approve | Action::Reject)
                if is_decision =>
            {
                let message = format!("{id} is {}{}", self.status(), self.why());
                refuse("DecisionMade", message)
            }
            (Status::Approved, Action::Approve) => {
                refuse("BeadApproved", format!("{id} is approved already{}", self.why()))
            }
            (Status::Rejected, Action::Close { with_reason: false }) if !is_decision => {
                let message = format!(
                    "{id} was rejected{}; close it with a reason, or approve it first",
                    self.why()
                );
                refuse("BeadRejected", message)
            }
            _ => Ok(()),
        }
    }

    /// The reason given with the latest review, as a suffix of a message; empty if there is none.
    fn why(&self) -> String {
        let reason = self.history.iter().rev().find_map(|event| match &event.change {
            Change::Approved { reason } | Change::Closed { reason } => Some(reason.as_deref()),
            Change::Rejected { reason } => Some(Some(reason.as_str())),
            Change::Escalated { .. } | Change::Decided { .. } => None,
        });
        reason.flatten().map(|reason| format!(" ({reason})")).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const CLOSE: Action = Action::Close { with_reason: false };
    const CLOSE_WITH_REASON: Action = Action::Close { with_reason: true };
    const ACTIONS: [Action; 5] =
        [Action::Approve, Action::Reject, CLOSE, CLOSE_WITH_REASON, Action::Escalate];

    fn bead(kind: &str, events: &[&str]) -> Bead {
        let mut text = format!("title: \"x\"\ntype: \"{kind}\"\npriority: 2\nproject_id: \"p\"\n");
        if kind == "decision" {
            text.push_str("decides: \"bead-w\"\n");
        }
        text.push_str("created: \"2026-02-07T10:30:00Z\"\nhistory:\n");
        for (minute, event) in (0..).zip(events) {
            let at = format!("2026-02-07T11:{minute:02}:00Z");
            text.push_str(&format!("- {{\"at\":\"{at}\",\"event\":{event}}}\n"));
        }
        Bead::parse(text).unwrap()
    }

    #[test]
    fn the_rules_are_those_of_the_table() {
        let (approved, rejected, closed, escalated) = (
            r#""approved""#,
            r#""rejected","reason":"no""#,
            r#""closed""#,
            r#""escalated","decision":"bead-d""#,
        );
        let ok = "";
        for (kind, events, wanted) in [
            ("task", &[][..], [ok; 5]),
            ("question", &[], [ok; 5]),
            ("bug", &[approved], ["BeadApproved", ok, ok, ok, ok]),
            ("bug", &[rejected], [ok, ok, "BeadRejected", ok, ok]),
            ("bug", &[escalated], ["BeadEscalated"; 5]),
            ("bug", &[approved, escalated], ["BeadEscalated"; 5]),
            ("bug", &[closed], ["BeadClosed"; 5]),
            ("decision", &[], [ok, ok, ok, ok, "NotEscalatable"]),
            ("decision", &[approved], ["DecisionMade", "DecisionMade", ok, ok, "NotEscalatable"]),
            ("decision", &[rejected], ["DecisionMade", "DecisionMade", ok, ok, "NotEscalatable"]),
            ("decision", &[closed], ["BeadClosed"; 5]),
        ] {
            let bead = bead(kind, events);
            let id: Id = "bead-a".parse().unwrap();
            let found = ACTIONS
                .map(|action| bead.allows(&id, action).err().map_or(ok, |refusal| refusal.code));
            assert_eq!(found, wanted, "{kind} {events:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_reason() {
        let id: Id = "bead-a".parse().unwrap();
        for (event, action, wanted) in [
            (r#""closed","reason":"done""#, CLOSE, "bead-a is closed (done); create a new bead"),
            (r#""closed""#, Action::Approve, "bead-a is closed; create a new bead"),
            (
                r#""escalated","decision":"bead-d""#,
                CLOSE,
                "bead-a waits for the decision bead-d: approve, reject or close that first",
            ),
            (
                r#""rejected","reason":"no tests""#,
                CLOSE,
                "bead-a was rejected (no tests); close it with a reason, or approve it first",
            ),
        ] {
            let refusal = bead("task", &[event]).allows(&id, action).unwrap_err();
            assert_eq!(refusal.to_string(), wanted);
        }
    }
}
