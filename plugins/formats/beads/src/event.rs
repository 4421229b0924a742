//! Events: the lines of a bead's history.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::id::Id;

/// An event in a bead's history.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Line")]
pub struct Event {
    /// The time of the event.
    pub at: Timestamp,
    /// The change that the event records.
    pub change: Change,
}

/// What an event records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A review approved the bead.
    Approved {
        /// The reason given for the approval.
        reason: Option<String>,
    },
    /// A review rejected the bead.
    Rejected {
        /// The reason given for the rejection.
        reason: String,
    },
    /// The bead was completed, or its question got a response.
    Closed {
        /// What was done, or the answer.
        reason: Option<String>,
    },
    /// The bead waits for a decision.
    Escalated {
        /// The id of the decision's bead.
        decision: Id,
        /// What is to be decided.
        reason: Option<String>,
    },
    /// A decision was made; its result is in the decision's bead.
    Decided {
        /// The id of the decision's bead.
        decision: Id,
    },
}

/// An event as it is serialized.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: Timestamp,
    event: Name,
    reason: Option<String>,
    decision: Option<Id>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Approved,
    Rejected,
    Closed,
    Escalated,
    Decided,
}

impl TryFrom<Line> for Event {
    type Error = &'static str;

    fn try_from(Line { at, event, reason, decision }: Line) -> Result<Self, Self::Error> {
        let change = match (event, reason, decision) {
            (Name::Approved, reason, None) => Change::Approved { reason },
            (Name::Rejected, Some(reason), None) => Change::Rejected { reason },
            (Name::Rejected, None, _) => return Err("a rejection needs a `reason`"),
            (Name::Closed, reason, None) => Change::Closed { reason },
            (Name::Escalated, reason, Some(decision)) => Change::Escalated { decision, reason },
            (Name::Decided, None, Some(decision)) => Change::Decided { decision },
            (Name::Escalated | Name::Decided, _, None) => {
                return Err("an event of this kind needs a `decision`");
            }
            (Name::Decided, Some(_), _) => return Err("its `reason` stands in the decision"),
            (_, _, Some(_)) => return Err("an event of this kind has no `decision`"),
        };
        Ok(Self { at, change })
    }
}

impl Event {
    /// The event as JSON, the value of its line.
    pub fn to_value(&self) -> Value {
        let (name, decision, reason) = match &self.change {
            Change::Approved { reason } => ("approved", None, reason.as_ref()),
            Change::Rejected { reason } => ("rejected", None, Some(reason)),
            Change::Closed { reason } => ("closed", None, reason.as_ref()),
            Change::Escalated { decision, reason } => {
                ("escalated", Some(decision), reason.as_ref())
            }
            Change::Decided { decision } => ("decided", Some(decision), None),
        };
        let mut event = json!({ "at": self.at.to_string(), "event": name });
        if let Some(decision) = decision {
            event["decision"] = decision.as_str().into();
        }
        if let Some(reason) = reason {
            event["reason"] = reason.as_str().into();
        }
        event
    }

    /// The line that is appended to the history.
    pub fn to_line(&self) -> String {
        crate::lines::entry(&self.to_value())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        let decision: Id = "bead-d".parse().unwrap();
        let reason = Some("Need \"x\"\n\u{202e}".to_owned());
        for change in [
            Change::Approved { reason: None },
            Change::Approved { reason: reason.clone() },
            Change::Rejected { reason: "no".to_owned() },
            Change::Closed { reason: reason.clone() },
            Change::Escalated { decision: decision.clone(), reason: None },
            Change::Escalated { decision: decision.clone(), reason },
            Change::Decided { decision },
        ] {
            let event = Event { at: "2026-02-07T10:30:00.123Z".parse().unwrap(), change };
            let line = event.to_line();
            let json = line.strip_prefix("- ").unwrap();
            assert_eq!(serde_json::from_str::<Event>(json).unwrap(), event, "{line}");
        }
        let event = Event {
            at: "2026-02-07T10:30:00Z".parse().unwrap(),
            change: Change::Rejected { reason: "Missing error handling in new code".to_owned() },
        };
        assert_eq!(
            event.to_line(),
            "- {\"at\":\"2026-02-07T10:30:00Z\",\"event\":\"rejected\",\"reason\":\"Missing error \
             handling in new code\"}\n"
        );
    }

    #[test]
    fn invalid_events_are_refused() {
        for (rest, wanted) in [
            (r#""event": "rejected""#, "a rejection needs a `reason`"),
            (r#""event": "escalated""#, "needs a `decision`"),
            (
                r#""event": "decided", "reason": "x", "decision": "bead-d""#,
                "stands in the decision",
            ),
            (r#""event": "closed", "decision": "bead-d""#, "has no `decision`"),
            (r#""event": "decided", "decision": "d""#, "'d' is no bead id"),
            (r#""event": "opened""#, "unknown variant `opened`, expected one of `approved`"),
            (r#""event": "closed", "who": "me""#, "unknown field `who`"),
            (r#""event": "closed", "event": "closed""#, "duplicate field `event`"),
            (r#""reason": "x""#, "missing field `event`"),
        ] {
            let json = format!(r#"{{"at": "2026-02-07T10:30:00Z", {rest}}}"#);
            let error = serde_json::from_str::<Event>(&json).unwrap_err().to_string();
            assert!(error.contains(wanted), "{rest}: {error}");
        }
        for at in ["yesterday", "2026-02-30T10:30:00Z", "2026-02-07", "2026-02-07T10:30:00"] {
            let json = format!(r#"{{"at": "{at}", "event": "closed"}}"#);
            assert!(serde_json::from_str::<Event>(&json).is_err(), "{at}");
        }
    }
}
