//! A bead and its file, `.beads/bead-7k2m-x9qd.yaml`.
//!
//! What a bead is stands in fields that no tool changes; what became of it is a history that tools
//! only add lines to. Its status is what the history comes to, and stands nowhere else. So where
//! two branches went on with a bead, the merged file is the lines of both, which is what git's
//! driver `union` makes of them ([`ATTRIBUTES`]); and the order of the lines does not matter,
//! since events are taken by their time.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::{Change, Event};
use crate::id::Id;
use crate::lines::{self, Lines, Problem};

/// The directory of beads, relative to the workspace. They belong to the work, so they are to be
/// committed and merged with it.
pub const DIRECTORY: &str = ".beads";

/// A file in [`DIRECTORY`] that tells git how beads are merged, and what it says.
pub const ATTRIBUTES: (&str, &str) = (".gitattributes", "bead-*.yaml merge=union\n");

/// The fields, in the order in which they are written.
const FIELDS: [&str; 9] = [
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

/// A bead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bead {
    /// What it is about.
    pub title: String,
    /// What sort of bead it is.
    pub kind: Kind,
    /// How urgent it is.
    pub priority: Priority,
    /// The project that it belongs to; questions may have none.
    pub project_id: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// More of what it is about.
    pub description: Option<String>,
    /// Of a decision: the bead that waits for it.
    pub decides: Option<Id>,
    /// Of a decision: the agent who is to hear of it.
    pub returned_to: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// What became of it, the earliest first.
    pub history: Vec<Event>,
}

/// What sort of bead one is. S3 names the first four; the others are what `escalate_ceo` and
/// `ask_followup` make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Task,
    Bug,
    Feature,
    Epic,
    /// Somebody is to decide about another bead.
    Decision,
    /// The user is to answer.
    Question,
}

/// From 0, critical, to 4, backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct Priority(u8);

/// What a bead's history comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing was decided yet.
    Open,
    /// It waits for a decision.
    Escalated,
    /// It passed a review.
    Approved,
    /// It did not.
    Rejected,
    /// It is complete.
    Closed,
}

impl Bead {
    /// Reads a bead's file.
    ///
    /// # Errors
    /// The first line with something wrong.
    pub fn parse(contents: impl AsRef<[u8]>) -> Result<Self, Problem> {
        let lines = Lines::read(lines::text(contents.as_ref())?, &FIELDS)?;
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

    /// What the fields have to say together.
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

    /// The bead's file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let created = self.created.to_string();
        let tags = (!self.tags.is_empty()).then(|| json!(self.tags));
        let values: [(&str, Option<Value>); FIELDS.len()] = [
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

    /// What the history comes to. The latest review counts, and a closed bead is closed whatever
    /// else it waits for.
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

    /// The decisions that it waits for, the earliest first.
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

    /// The time of an event that happens now: later than all before it, to the millisecond, even
    /// if somebody's clock was fast.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let times = self.history.iter().map(|event| event.at).chain([self.created]);
        let latest = times.max().unwrap_or(self.created);
        let after = latest.saturating_add(SignedDuration::from_millis(1));
        to_millisecond(now).max(to_millisecond(after.unwrap_or(latest)))
    }
}

/// A time without what is finer than a millisecond.
pub fn to_millisecond(time: Timestamp) -> Timestamp {
    // Only a time at the end of the calendar can't be rounded.
    time.round(Unit::Millisecond).unwrap_or(time)
}

/// Events by their time; of those of the same moment, in an order that no merge changes.
fn in_order(mut history: Vec<Event>) -> Vec<Event> {
    history.sort_by_cached_key(|event| (event.at, event.to_line()));
    history
}

impl Kind {
    /// The types, as they are written.
    pub const NAMES: [&str; 6] = ["task", "bug", "feature", "epic", "decision", "question"];

    /// The type, as it is written.
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
    /// What a bead has that nobody gave a priority: neither urgent nor put off.
    pub const MEDIUM: Self = Self(2);

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<Value> for Priority {
    type Error = &'static str;

    fn try_from(number: Value) -> Result<Self, Self::Error> {
        // JSON does not tell 1 from 1.0.
        (0..=4)
            .find(|priority| number.as_f64() == Some(f64::from(*priority)))
            .map(Self)
            .ok_or("expected a whole number from 0 (critical) to 4 (backlog)")
    }
}

impl Status {
    /// The statuses, as they are written.
    pub const NAMES: [&str; 5] = ["open", "escalated", "approved", "rejected", "closed"];

    /// The status, as it is written.
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

/// Not one of the names.
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

    /// An event at a minute.
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
    fn what_is_wrong_with_a_file_is_named_by_its_line() {
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
    fn the_status_is_what_the_history_comes_to() {
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
            // What two branches came to on their own.
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
            // A merge may put the lines in another order.
            lines.reverse();
            assert_eq!(with(&lines).status(), wanted, "{events:?} reversed");
        }
    }

    #[test]
    fn an_event_is_later_than_those_before_it() {
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
    fn names_lead_back() {
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
