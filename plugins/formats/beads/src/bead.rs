//! A bead and its file, `.beads/bead-7k2m-x9qd.yaml`.
//!
//! The fields describe the bead and are never changed by a tool. The history is a list of events,
//! to which tools only append. The status is computed from the history and not stored. So when two
//! branches have changed a bead, the merged file has the lines of both, which is what git's merge
//! driver `union` produces ([`ATTRIBUTES`]). The order of the lines does not matter, since events
//! are sorted by time.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::{Change, Event};
use crate::id::Id;
use crate::lines::{self, Lines, Problem};

/// The directory of beads, relative to the workspace. Beads are part of the project: they are meant
/// to be committed and merged.
pub const DIRECTORY: &str = ".beads";

/// Name and contents of a file in [`DIRECTORY`] that tells git how to merge beads.
pub const ATTRIBUTES: (&str, &str) = (".gitattributes", "bead-*.yaml merge=union\n");

/// The names of the fields, in the order in which they are written.
const FIELD_NAMES: [&str; 9] = [
    "title",
    "type",
    "priority",
    "project_id",
    "tags",
    "description",
    "decides",
    "returned_to",
    "created",
];

/// An issue, task, decision or question, with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bead {
    /// One line that says what the bead is about.
    pub title: String,
    /// The type of the bead.
    pub kind: Kind,
    /// How urgent it is.
    pub priority: Priority,
    /// The project that the bead belongs to; `None` for some questions.
    pub project_id: Option<String>,
    /// Tags to search for.
    pub tags: Vec<String>,
    /// The long form of the title.
    pub description: Option<String>,
    /// For a decision: the bead that waits for it.
    pub decides: Option<Id>,
    /// For a decision: the agent to be told the result.
    pub returned_to: Option<String>,
    /// When the bead was created.
    pub created: Timestamp,
    /// Everything that has happened to the bead, the earliest first.
    pub history: Vec<Event>,
}

/// The type of a bead. The actions reference names the first four; `escalate_ceo` and
/// `ask_followup` create the other two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Task,
    Bug,
    Feature,
    Epic,
    /// A decision that a person or another agent has to make about another bead.
    Decision,
    /// A question that the user has to answer.
    Question,
}

/// The priority of a bead, from 0 (critical) to 4 (backlog).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct Priority(u8);

/// The status of a bead, computed from its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not reviewed, escalated or closed yet.
    Open,
    /// Waits for a decision.
    Escalated,
    /// The latest review approved it.
    Approved,
    /// The latest review rejected it.
    Rejected,
    /// Completed, or its question got a response; final.
    Closed,
}

impl Bead {
    /// Parses the contents of a bead's file.
    ///
    /// # Errors
    /// The first line that is invalid, with the reason.
    pub fn parse(contents: impl AsRef<[u8]>) -> Result<Self, Problem> {
        let lines = Lines::read(lines::text(contents.as_ref())?, &FIELD_NAMES)?;
        let bead = Self {
            title: lines.required("title")?,
            kind: lines.required("type")?,
            priority: lines.required("priority")?,
            project_id: lines.optional("project_id")?,
            tags: lines.optional("tags")?.unwrap_or_default(),
            description: lines.optional("description")?,
            decides: lines.optional("decides")?,
            returned_to: lines.optional("returned_to")?,
            created: lines.required("created")?,
            history: in_order(lines.history()?.into_iter().map(|(_, event)| event).collect()),
        };
        bead.check().map_err(|(field, message)| {
            Problem::new(lines.line(field), format!("{field}: {message}"))
        })?;
        Ok(bead)
    }

    /// Checks rules that concern several fields. The error is a field's name and the problem.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_decision = self.kind == Kind::Decision;
        if self.title.trim().is_empty() {
            return Err(("title", "a bead has a title"));
        }
        if self.project_id.is_none() && !matches!(self.kind, Kind::Question | Kind::Decision) {
            return Err(("project_id", "a bead of this type belongs to a project"));
        }
        if is_decision && self.decides.is_none() {
            return Err(("decides", "a decision names the bead that waits for it"));
        }
        if !is_decision && self.decides.is_some() {
            return Err(("decides", "only a decision has this field"));
        }
        if !is_decision && self.returned_to.is_some() {
            return Err(("returned_to", "only a decision has this field"));
        }
        Ok(())
    }

    /// The contents of the bead's file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let created = self.created.to_string();
        let tags = (!self.tags.is_empty()).then(|| json!(self.tags));
        let values: [(&str, Option<Value>); FIELD_NAMES.len()] = [
            ("title", Some(self.title.as_str().into())),
            ("type", Some(self.kind.as_str().into())),
            ("priority", Some(self.priority.0.into())),
            ("project_id", self.project_id.as_deref().map(Value::from)),
            ("tags", tags),
            ("description", self.description.as_deref().map(Value::from)),
            ("decides", self.decides.as_ref().map(|id| id.as_str().into())),
            ("returned_to", self.returned_to.as_deref().map(Value::from)),
            ("created", Some(created.into())),
        ];
        for (name, value) in values {
            text.extend(value.map(|value| lines::field(name, value)));
        }
        text.push_str(&lines::history());
        text.extend(self.history.iter().map(Event::to_line));
        text
    }

    /// The status after all events. The latest review counts; a closed bead stays closed even if
    /// decisions are pending.
    pub fn status(&self) -> Status {
        let review = self.history.iter().rev().find_map(|event| match event.change {
            Change::Approved { .. } => Some(Status::Approved),
            Change::Rejected { .. } => Some(Status::Rejected),
            Change::Closed { .. } => Some(Status::Closed),
            Change::Escalated { .. } | Change::Decided { .. } => None,
        });
        match review {
            Some(Status::Closed) => Status::Closed,
            _ if !self.waits_for().is_empty() => Status::Escalated,
            review => review.unwrap_or(Status::Open),
        }
    }

    /// The decisions that the bead waits for, the earliest first.
    pub fn waits_for(&self) -> Vec<&Id> {
        let mut waiting = Vec::new();
        for event in &self.history {
            match &event.change {
                Change::Escalated { decision, .. } => waiting.push(decision),
                Change::Decided { decision } => waiting.retain(|other| *other != decision),
                Change::Approved { .. } | Change::Rejected { .. } | Change::Closed { .. } => {}
            }
        }
        waiting
    }

    /// The time for a new event: `now`, or one millisecond after the latest event if that is later,
    /// such as after an event from a machine whose clock was fast.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let times = self.history.iter().map(|event| event.at).chain([self.created]);
        let latest = times.max().unwrap_or(self.created);
        let after = latest.saturating_add(SignedDuration::from_millis(1));
        to_millisecond(now).max(to_millisecond(after.unwrap_or(latest)))
    }
}

/// Rounds a time to milliseconds.
pub fn to_millisecond(time: Timestamp) -> Timestamp {
    // Rounding fails only at the end of the calendar.
    time.round(Unit::Millisecond).unwrap_or(time)
}

/// Sorts events by time; events of the same time by their text, so that merges do not change the
/// order.
fn in_order(mut history: Vec<Event>) -> Vec<Event> {
    history.sort_by_cached_key(|event| (event.at, event.to_line()));
    history
}

impl Kind {
    /// The types as they are written in files.
    pub const NAMES: [&str; 6] = ["task", "bug", "feature", "epic", "decision", "question"];

    /// The type as it is written in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Bug => "bug",
            Self::Feature => "feature",
            Self::Epic => "epic",
            Self::Decision => "decision",
            Self::Question => "question",
        }
    }
}

impl Priority {
    /// The priority of beads that are created without one.
    pub const MEDIUM: Self = Self(2);

    /// The priority as a number from 0 to 4.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<Value> for Priority {
    type Error = &'static str;

    fn try_from(number: Value) -> Result<Self, Self::Error> {
        // A JSON number may be written as 1 or 1.0.
        (0..=4)
            .find(|priority| number.as_f64() == Some(f64::from(*priority)))
            .map(Self)
            .ok_or("expected a whole number from 0 (critical) to 4 (backlog)")
    }
}

impl Status {
    /// The statuses as they are written.
    pub const NAMES: [&str; 5] = ["open", "escalated", "approved", "rejected", "closed"];

    /// The status as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Escalated => "escalated",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Closed => "closed",
        }
    }
}

/// The error for a name that is not a type or status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such name")]
pub struct UnknownName;

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        use Kind::{Bug, Decision, Epic, Feature, Question, Task};
        let kinds = [Task, Bug, Feature, Epic, Decision, Question];
        kinds.into_iter().find(|kind| kind.as_str() == name).ok_or(UnknownName)
    }
}

impl FromStr for Status {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        use Status::{Approved, Closed, Escalated, Open, Rejected};
        let statuses = [Open, Escalated, Approved, Rejected, Closed];
        statuses.into_iter().find(|status| status.as_str() == name).ok_or(UnknownName)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const FILE: &str = "\
title: \"Fix authentication bug\"
type: \"bug\"
priority: 1
project_id: \"proj-123\"
tags: [\"security\",\"urgent\"]
description: \"Users cannot login after password reset\"
created: \"2026-02-07T10:30:00Z\"
history:
";

    fn with(history: &[&str]) -> Bead {
        let lines: String = history.iter().map(|line| format!("- {line}\n")).collect();
        Bead::parse(format!("{FILE}{lines}")).unwrap()
    }

    /// One event of the history, at this minute, as JSON.
    fn at(minute: u8, rest: &str) -> String {
        format!(r#"{{"at":"2026-02-07T11:{minute:02}:00Z","event":{rest}}}"#)
    }

    #[test]
    fn a_file_is_read_and_written() {
        let bead = with(&[]);
        assert_eq!(bead.to_text(), FILE);
        assert_eq!((bead.kind, bead.priority.get()), (Kind::Bug, 1));
        assert_eq!(bead.tags, ["security", "urgent"]);
        assert_eq!(bead.status(), Status::Open);
        let line = at(0, r#""closed","reason":"Fixed authentication bug and added tests""#);
        let closed = with(&[&line]);
        assert_eq!(closed.to_text(), format!("{FILE}- {line}\n"));
        assert_eq!(Bead { history: Vec::new(), ..closed }, bead);
        let least = "title: \"x\"\ntype: \"question\"\npriority: 2\ncreated: \
                     \"2026-02-07T10:30:00Z\"\nhistory:\n";
        assert_eq!(Bead::parse(least).unwrap().to_text(), least);
    }

    #[test]
    fn problems_of_a_file_have_their_line() {
        for (old, new, wanted) in [
            ("priority: 1", "priority: 5", "line 3: priority: expected a whole number from 0"),
            ("priority: 1", "priority: -1", "line 3: priority: expected a whole number from 0"),
            ("priority: 1", "priority: 1.5", "line 3: priority: expected a whole number from 0"),
            (
                "priority: 1",
                "priority: \"1\"",
                "line 3: priority: expected a whole number from 0 (critical) to 4 (backlog), found",
            ),
            ("priority: 1", "priority: high", "line 3: priority: expected value, found 'high'"),
            ("priority: 1\n", "", "line 7: the file ends without the field priority"),
            ("\"bug\"", "\"chore\"", "line 2: type: unknown variant `chore`"),
            ("\"bug\"", "\"decision\"", "line 8: decides: a decision names the bead"),
            ("project_id: \"proj-123\"\n", "", "line 7: project_id: a bead of this type belongs"),
            ("\"Fix authentication bug\"", "\" \"", "line 1: title: a bead has a title"),
            ("tags: [\"security\",", "tags: [1,", "line 5: tags: invalid type: integer `1`"),
            ("history:", "decides: \"bead-a\"\nhistory:", "line 8: decides: only a decision has"),
            (
                "history:",
                "returned_to: \"a\"\nhistory:",
                "line 8: returned_to: only a decision has",
            ),
            ("history:", "status: \"open\"\nhistory:", "line 8: expected one of the fields title"),
            ("10:30:00Z", "10:30:00", "line 7: created: "),
            ("history:\n", "", "line 7: the file ends without the field history"),
            ("history:\n", "history:\n- {}\n", "line 9: history: missing field `at`"),
            (
                "priority: 1\n",
                "<<<<<<< HEAD\npriority: 1\n=======\npriority: 2\n>>>>>>> b\n",
                "line 3: a merge conflict",
            ),
            (
                "priority: 1\n",
                "priority: 1\npriority: 2\n",
                "line 4: priority stands here and on line 3",
            ),
        ] {
            assert!(FILE.contains(old), "{old}");
            let problem = Bead::parse(FILE.replace(old, new)).unwrap_err().to_string();
            assert!(problem.starts_with(wanted), "{new}: {problem}");
        }
        let problem = Bead::parse(b"title: \"x\"\ntype: \"\xff\"\n").unwrap_err();
        assert_eq!(problem.to_string(), "line 2: the file is not UTF-8 text");
    }

    #[test]
    fn the_status_follows_from_the_history() {
        let (escalated, decided) =
            (r#""escalated","decision":"bead-d""#, r#""decided","decision":"bead-d""#);
        let (approved, rejected, closed) =
            (r#""approved""#, r#""rejected","reason":"no""#, r#""closed""#);
        for (events, wanted) in [
            (&[][..], Status::Open),
            (&[approved], Status::Approved),
            (&[rejected], Status::Rejected),
            (&[rejected, approved], Status::Approved),
            (&[approved, rejected], Status::Rejected),
            (&[approved, closed], Status::Closed),
            (&[escalated], Status::Escalated),
            (&[approved, escalated], Status::Escalated),
            (&[escalated, decided], Status::Open),
            (&[rejected, escalated, decided], Status::Rejected),
            // The merged histories of two branches.
            (&[escalated, r#""escalated","decision":"bead-e""#, decided], Status::Escalated),
            (&[escalated, closed], Status::Closed),
            (&[closed, escalated], Status::Closed),
            (&[closed, rejected], Status::Rejected),
            (&[decided], Status::Open),
        ] {
            let lines: Vec<String> =
                (0..).zip(events).map(|(minute, event)| at(minute, event)).collect();
            let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(with(&lines).status(), wanted, "{events:?}");
            // A merge may change the order of the lines.
            lines.reverse();
            assert_eq!(with(&lines).status(), wanted, "{events:?} reversed");
        }
    }

    #[test]
    fn event_times_increase() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let bead = with(&[&at(5, r#""approved""#)]);
        for (now, wanted) in [
            ("2026-02-08T00:00:00.123456Z", "2026-02-08T00:00:00.123Z"),
            ("2026-02-07T11:05:00Z", "2026-02-07T11:05:00.001Z"),
            ("2020-01-01T00:00:00Z", "2026-02-07T11:05:00.001Z"),
        ] {
            assert_eq!(bead.next(time(now)), time(wanted), "{now}");
        }
        assert_eq!(with(&[]).next(time("2020-01-01T00:00:00Z")), time("2026-02-07T10:30:00.001Z"));
    }

    #[test]
    fn names_can_be_parsed_again() {
        for name in Kind::NAMES {
            assert_eq!(name.parse::<Kind>().unwrap().as_str(), name);
            let json = format!("\"{name}\"");
            assert_eq!(serde_json::from_str::<Kind>(&json).unwrap().as_str(), name);
        }
        for name in Status::NAMES {
            assert_eq!(name.parse::<Status>().unwrap().as_str(), name);
        }
        assert!("Bug".parse::<Kind>().is_err() && "done".parse::<Status>().is_err());
    }
}
