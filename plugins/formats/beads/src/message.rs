//! A message, its file `.team/messages/msg-20260207T103000.123Z.yaml`, and its id.
//!
//! Source: the tool schemas, "SendMessage Schema". They define neither where messages are stored
//! nor ids; this module does.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bead::to_millisecond;
use crate::lines::{self, Lines, Problem};

/// The directory for files of a team's agents, relative to the workspace.
pub const TEAM: &str = ".team";

/// The directory of messages, relative to the workspace.
pub const DIRECTORY: &str = ".team/messages";

/// Name and contents of a file in [`TEAM`] that excludes the directory from git: messages are
/// between the agents that work here now, and are not meant for a branch.
pub const IGNORE: (&str, &str) = (".gitignore", "*\n");

const FIELD_NAMES: [&str; 5] = ["type", "recipient", "summary", "content", "call"];

const PREFIX: &str = "msg-";

const EXTENSION: &str = ".yaml";

/// The format of the time in an id.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S.%3fZ";

/// A message from one agent to another or to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The name of the recipient; `None` for a broadcast.
    pub recipient: Option<String>,
    /// The subject of the message.
    pub summary: String,
    /// The text of the message.
    pub content: String,
    /// The id of the call that sent the message, as in the journal.
    pub call: String,
}

/// Whether a message is for one recipient or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// The message is for one recipient.
    Message,
    /// The message is for all agents.
    Broadcast,
}

impl Message {
    /// Parses the contents of a message's file.
    ///
    /// # Errors
    /// The first line that is invalid, with the reason.
    pub fn parse(contents: impl AsRef<[u8]>) -> Result<Self, Problem> {
        let lines = Lines::read(lines::text(contents.as_ref())?, &FIELD_NAMES)?;
        let message = Self {
            recipient: lines.optional("recipient")?,
            summary: lines.required("summary")?,
            content: lines.required("content")?,
            call: lines.required("call")?,
        };
        if lines.required::<MessageKind>("type")? != message.kind() {
            let wrong = "type: a message has a recipient, and a broadcast has none";
            return Err(Problem::new(lines.line("type"), wrong));
        }
        Ok(message)
    }

    /// The contents of the message's file.
    pub fn to_text(&self) -> String {
        let kind = match self.kind() {
            MessageKind::Message => "message",
            MessageKind::Broadcast => "broadcast",
        };
        let mut text = lines::field("type", kind);
        text.extend(self.recipient.as_deref().map(|name| lines::field("recipient", name)));
        text.push_str(&lines::field("summary", self.summary.as_str()));
        text.push_str(&lines::field("content", self.content.as_str()));
        text.push_str(&lines::field("call", self.call.as_str()));
        text
    }

    /// Whether the message is for one recipient or for all.
    pub fn kind(&self) -> MessageKind {
        match self.recipient {
            Some(_) => MessageKind::Message,
            None => MessageKind::Broadcast,
        }
    }

    /// Whether the agent of this name is to read the message.
    pub fn is_for(&self, name: &str) -> bool {
        self.recipient.as_deref().is_none_or(|recipient| recipient == name)
    }
}

/// A message's id: `msg-` and the time of sending in milliseconds. Ids are unique in a workspace
/// and increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(Timestamp);

/// The error for text that is not a message's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no id of a message, such as msg-20260207T103000.123Z")]
pub struct InvalidMessageId(String);

impl MessageId {
    /// The id for a message sent at `now`, after the message `latest`.
    pub fn next(now: Timestamp, latest: Option<Self>) -> Self {
        let now = to_millisecond(now);
        let after = latest.map(|Self(latest)| {
            latest.saturating_add(SignedDuration::from_millis(1)).unwrap_or(latest)
        });
        Self(after.map_or(now, |after| now.max(after)))
    }

    /// The id of a file in the directory of messages; `None` if the file is not named like a
    /// message.
    ///
    /// # Errors
    /// [`InvalidMessageId`] if the name is like that of a message but does not contain an id.
    pub fn of_file(name: &str) -> Option<Result<Self, InvalidMessageId>> {
        let id = name.strip_suffix(EXTENSION)?;
        id.starts_with(PREFIX).then(|| id.parse())
    }

    /// The name of the message's file.
    pub fn file_name(self) -> String {
        format!("{self}{EXTENSION}")
    }

    /// The time of sending.
    pub fn sent(self) -> Timestamp {
        self.0
    }
}

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, InvalidMessageId> {
        let time = text.strip_prefix(PREFIX).and_then(|time| time.parse().ok());
        // Each time has exactly one id: other spellings of the same time are invalid.
        time.map(Self)
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| InvalidMessageId(text.chars().take(64).collect()))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0.strftime(TIME_FORMAT))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn message(recipient: Option<&str>) -> Message {
        Message {
            recipient: recipient.map(str::to_owned),
            summary: "Phase 3 complete, token reduction achieved".to_owned(),
            content: "Phase 3 implementation complete with 37% token reduction".to_owned(),
            call: "1".to_owned(),
        }
    }

    #[test]
    fn a_file_is_read_and_written() {
        let to_one = message(Some("team-lead"));
        assert_eq!(
            to_one.to_text(),
            "type: \"message\"\nrecipient: \"team-lead\"\nsummary: \"Phase 3 complete, token \
             reduction achieved\"\ncontent: \"Phase 3 implementation complete with 37% token \
             reduction\"\ncall: \"1\"\n"
        );
        for message in [to_one, message(None)] {
            assert_eq!(Message::parse(message.to_text()), Ok(message));
        }
        for (text, wanted) in [
            ("", "line 1: the file ends without the field summary"),
            ("type: \"message\"\nsummary: 1\n", "line 2: summary: invalid type: integer `1`"),
            (
                "summary: \"\"\ncontent: \"\"\ncall: \"\"\ntype: \"message\"\n",
                "line 4: type: a message has a recipient",
            ),
            (
                "summary: \"\"\ncontent: \"\"\ncall: \"\"\ntype: \"broadcast\"\nrecipient: \"a\"\n",
                "line 4: type: a message has a recipient, and a broadcast has none",
            ),
            (
                "summary: \"\"\ncontent: \"\"\ncall: \"\"\ntype: \"memo\"\n",
                "line 4: type: unknown variant `memo`",
            ),
            ("from: \"me\"\n", "line 1: expected one of the fields type, recipient"),
        ] {
            let problem = Message::parse(text).unwrap_err().to_string();
            assert!(problem.starts_with(wanted), "{text}: {problem}");
        }
    }

    #[test]
    fn a_broadcast_is_for_everybody() {
        assert!(message(None).is_for("anybody"));
        assert!(message(Some("team-lead")).is_for("team-lead"));
        assert!(!message(Some("team-lead")).is_for("team"));
    }

    #[test]
    fn ids_are_increasing_times() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let first = MessageId::next(time("2026-02-07T10:30:00.1234567Z"), None);
        assert_eq!(first.to_string(), "msg-20260207T103000.123Z");
        assert_eq!(first.sent(), time("2026-02-07T10:30:00.123Z"));
        for (now, wanted) in [
            ("2026-02-07T10:30:00.123Z", "msg-20260207T103000.124Z"),
            ("2020-01-01T00:00:00Z", "msg-20260207T103000.124Z"),
            ("2026-02-07T10:30:01Z", "msg-20260207T103001.000Z"),
        ] {
            let next = MessageId::next(time(now), Some(first));
            assert_eq!(next.to_string(), wanted);
            assert!(next > first);
            assert_eq!(wanted.parse(), Ok(next));
            assert_eq!(MessageId::of_file(&next.file_name()), Some(Ok(next)));
        }
        for id in [
            "",
            "20260207T103000.123Z",
            "msg-",
            "msg-1",
            "msg-20260207T103000Z",
            "msg-20260207T103000.1234Z",
            "msg-2026-02-07T10:30:00.123Z",
            "msg-20260207T113000.123+01",
            "msg-20260230T103000.123Z",
        ] {
            assert!(id.parse::<MessageId>().is_err(), "{id}");
        }
        assert_eq!(MessageId::of_file(".gitignore"), None);
        assert!(MessageId::of_file("msg-x.yaml").unwrap().is_err());
    }
}
