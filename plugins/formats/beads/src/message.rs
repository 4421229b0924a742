//! A message, its file `.team/messages/msg-20260207T103000.123Z.yaml`, and its id.
//!
//! Source: S4, "SendMessage Schema". What S4 leaves open: where messages are kept, and that each
//! has an id.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::bead::to_millisecond;
use crate::lines::{self, Lines, Problem};

/// The directory of what a team's agents keep, relative to the workspace.
pub const TEAM: &str = ".team";

/// The directory of messages, relative to the workspace.
pub const DIRECTORY: &str = ".team/messages";

/// A file in [`TEAM`] that keeps it out of git, and what it says. Messages are talk between those
/// who work here now; a branch has no part in it.
pub const IGNORE: (&str, &str) = (".gitignore", "*\n");

const FIELDS: [&str; 5] = ["type", "recipient", "summary", "content", "call"];

const BEGIN: &str = "msg-";

const END: &str = ".yaml";

/// The time in an id.
const TIME: &str = "%Y%m%dT%H%M%S.%3fZ";

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Whom it is for; `None`: everybody.
    pub recipient: Option<String>,
    /// What it is about.
    pub summary: String,
    /// What it says.
    pub content: String,
    /// The call that sent it, as the journal names it.
    pub call: String,
}

/// Whether a message is for one agent or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// For one.
    Message,
    /// For all.
    Broadcast,
}

impl Message {
    /// Reads a message's file.
    ///
    /// # Errors
    /// The first line with something wrong.
    pub fn parse(contents: impl AsRef<[u8]>) -> Result<Self, Problem> {
        let lines = Lines::read(lines::text(contents.as_ref())?, &FIELDS)?;
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

    /// The message's file.
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

    /// Whether it is for one or for all.
    pub fn kind(&self) -> MessageKind {
        match self.recipient {
            Some(_) => MessageKind::Message,
            None => MessageKind::Broadcast,
        }
    }

    /// Whether it is for somebody of this name.
    pub fn is_for(&self, name: &str) -> bool {
        self.recipient.as_deref().is_none_or(|recipient| recipient == name)
    }
}

/// A message's id: `msg-` and the moment at which it was sent, to the millisecond. No two
/// messages of a workspace have the same, and a later one has a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(Timestamp);

/// What is no message's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no id of a message, such as msg-20260207T103000.123Z")]
pub struct InvalidMessageId(String);

impl MessageId {
    /// The id of a message that is sent now, after the `latest` one.
    pub fn next(now: Timestamp, latest: Option<Self>) -> Self {
        let now = to_millisecond(now);
        let after = latest.map(|Self(latest)| {
            latest.saturating_add(SignedDuration::from_millis(1)).unwrap_or(latest)
        });
        Self(after.map_or(now, |after| now.max(after)))
    }

    /// The id of a file in the directory of messages; `None` for a file that is none.
    ///
    /// # Errors
    /// A name that looks like a message's and holds no id.
    pub fn of_file(name: &str) -> Option<Result<Self, InvalidMessageId>> {
        let id = name.strip_suffix(END)?;
        id.starts_with(BEGIN).then(|| id.parse())
    }

    /// The name of the message's file.
    pub fn file_name(self) -> String {
        format!("{self}{END}")
    }

    /// When it was sent.
    pub fn sent(self) -> Timestamp {
        self.0
    }
}

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, InvalidMessageId> {
        let time = text.strip_prefix(BEGIN).and_then(|time| time.parse().ok());
        // One moment has one id: what could be written in another way is none.
        time.map(Self)
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| InvalidMessageId(text.chars().take(64).collect()))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGIN}{}", self.0.strftime(TIME))
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
    fn ids_are_moments_of_which_each_is_later() {
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
