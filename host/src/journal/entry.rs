//! What stands in a line of the journal.
//!
//! Calls and events are as S4's "Log Format for MCP Calls" has them, with more fields of our own;
//! S4's own lines can be read as they stand.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope::size;
use crate::outcome::{Failure, Outcome, Status, neutralise, shorten};
use crate::policy::executed_by;
use crate::workspace::{KeptOutput, Manifest, summary};

/// How many paths the record of a commit names; the history has all of them.
const MAX_CHANGES: usize = 100;

/// How large each list in a record is at most, in bytes as JSON. All lists of a record together stay
/// well below the longest line that is read, so that no path can hide a commit from the log.
const MAX_LIST_BYTES: usize = 128 << 10;

/// How long the reason of an event is at most, in bytes.
const MAX_REASON_BYTES: usize = 16 << 10;

/// How long a library's name in a record is at most, in bytes.
const MAX_NAME: usize = 200;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "A line of the journal")]
pub enum Entry {
    /// How a call ended.
    Call(Record),
    /// What was changed.
    Commit(CommitRecord),
    /// How the host itself was.
    Health(HealthRecord),
    /// Something else that happened.
    Event(Event),
}

impl Entry {
    /// Reads a line. What it has besides the fields that are known here is left alone.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        /// What tells the kinds of line apart.
        #[derive(Deserialize)]
        struct Kind {
            event: Option<String>,
            tool: Option<IgnoredAny>,
            commit: Option<IgnoredAny>,
        }
        fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
            serde_json::from_slice(line).map_err(|error| error.to_string())
        }
        let kind: Kind = read(line)?;
        match kind {
            Kind { event: Some(event), .. } if event == HealthRecord::EVENT => {
                read(line).map(Self::Health)
            }
            Kind { event: Some(_), .. } => read(line).map(Self::Event),
            Kind { tool: Some(_), .. } => {
                let record: Record = read(line)?;
                if record.latency_ms < 0.0 {
                    return Err(format!("latency_ms is negative: {}", record.latency_ms));
                }
                Ok(Self::Call(record))
            }
            Kind { commit: Some(_), .. } => read(line).map(Self::Commit),
            Kind { .. } => {
                Err("no line of a journal: it has neither tool, event nor commit".to_owned())
            }
        }
    }
}

impl Entry {
    /// A copy whose line is short enough to be read again: lists are cut.
    pub(super) fn shortened(&self) -> Self {
        let mut entry = self.clone();
        match &mut entry {
            Self::Call(record) => {
                keep_within(&mut record.hosts, MAX_LIST_BYTES);
                keep_within(&mut record.agents, MAX_LIST_BYTES);
                keep_within(&mut record.outputs, MAX_LIST_BYTES);
                keep_within(&mut record.executed, MAX_LIST_BYTES);
            }
            Self::Health(record) => {
                keep_within(&mut record.failed, MAX_LIST_BYTES);
            }
            Self::Event(event) => event.reason = shorten(&event.reason, MAX_REASON_BYTES),
            // Its lists were cut when it was made.
            Self::Commit(_) => {}
        }
        entry
    }
}

/// Removes the last items of a list until it has at most `most` bytes as JSON. Returns how many were
/// removed.
fn keep_within<T: Serialize>(list: &mut Vec<T>, most: usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&T| {
        bytes += serde_json::to_vec(item).map_or(usize::MAX / 2, |json| json.len() + 1);
        bytes <= most
    };
    let kept = list.iter().take_while(fits).count();
    let removed = list.len() - kept;
    list.truncate(kept);
    removed
}

/// Something that happened beside calls and commits, such as
/// `{"timestamp": "2026-02-08T10:30:10Z", "event": "fallback_activated", "reason": "context7_timeout"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// What.
    pub event: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The tool that it happened to, where it happened to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call that it came of, where it came of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

impl Event {
    /// A tool went on without what it asks for (S4, "Fallback Actions").
    pub const FALLBACK: &str = "fallback_activated";

    /// A person has installed or updated a plugin; `reason` names it, and what it is granted.
    pub const INSTALLED: &str = "plugin_installed";

    /// A person has removed a plugin.
    pub const REMOVED: &str = "plugin_removed";

    /// A person has changed what a plugin is granted.
    pub const GRANTED: &str = "grant_changed";

    /// A server goes on with other settings or plugins; `reason` names the plugins that are others.
    pub const RENEWED: &str = "host_renewed";

    /// Something that happened to the host, or that a person has done.
    pub fn new(event: &str, reason: impl Into<String>) -> Self {
        Self {
            timestamp: Timestamp::now(),
            event: event.to_owned(),
            reason: reason.into(),
            tool: None,
            call: None,
        }
    }

    /// What whoever made a call has to do without, now that it has failed. `reason` begins with
    /// the service that was missed, as in `context7_timeout`.
    pub fn fallback(reason: &str, record: &Record) -> Self {
        Self {
            timestamp: record.timestamp,
            event: Self::FALLBACK.to_owned(),
            reason: reason.to_owned(),
            tool: Some(record.tool.clone()),
            call: Some(record.call.clone()),
        }
    }
}

/// How well the host did when it was looked at (S4, "Health Check").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthRecord {
    /// When (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// `health_check`.
    pub event: String,
    /// How it is.
    pub verdict: Verdict,
    /// How long the slowest probe took, in milliseconds.
    pub latency_ms: f64,
    /// The probes that did not succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl HealthRecord {
    /// What `event` says in these lines.
    pub const EVENT: &str = "health_check";
}

/// How something is, the best first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It works, in time.
    Healthy,
    /// It works in part, or slowly.
    Degraded,
    /// It does not work, or far too slowly.
    Failed,
}

impl Verdict {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// One commit of changes to the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommitRecord {
    /// When it was made (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The commit's own name: `cofferdam log --diff` and `cofferdam undo` take it, or its
    /// beginning.
    pub commit: String,
    /// The calls that it holds the changes of.
    pub calls: Vec<String>,
    /// How many more there are, where their list would be too long.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub more_calls: usize,
    /// The commit that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Begun by a process that died, and finished by another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// How many paths changed.
    pub paths: usize,
    /// The first of them, by path.
    pub changes: Vec<PathChange>,
    /// What somebody else had changed before it was recovered, and what therefore was left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// How many more conflicts there are, where their list would be too long.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub more_conflicts: usize,
    /// The first of the files that other programs execute by their names, and which programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<String>,
}

/// What happened to one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathChange {
    /// Relative to the workspace.
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: String,
}

impl CommitRecord {
    /// The record of a commit.
    pub fn new(manifest: &Manifest, recovered: bool) -> Self {
        let summary = summary(&manifest.changes);
        let change = |(path, change): &(&str, &str)| PathChange {
            path: (*path).to_owned(),
            change: (*change).to_owned(),
        };
        let executed = |(path, change): &(&str, &str)| {
            let by = executed_by(path).filter(|_| *change != "removed")?;
            Some(neutralise(&format!("wrote {path}, which {by}")))
        };
        let mut record = Self {
            timestamp: manifest.time,
            commit: manifest.id.clone(),
            calls: manifest.calls.clone(),
            more_calls: 0,
            undoes: manifest.undoes.clone(),
            recovered,
            paths: summary.len(),
            changes: summary.iter().take(MAX_CHANGES).map(change).collect(),
            conflicts: manifest.conflicts.clone(),
            more_conflicts: 0,
            executed: summary.iter().filter_map(executed).take(MAX_CHANGES).collect(),
        };
        record.more_calls = keep_within(&mut record.calls, MAX_LIST_BYTES);
        record.more_conflicts = keep_within(&mut record.conflicts, MAX_LIST_BYTES);
        keep_within(&mut record.changes, MAX_LIST_BYTES);
        keep_within(&mut record.executed, MAX_LIST_BYTES);
        record
    }
}

/// How one call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// When it ended (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The tool's qualified name, or what the agent wrote where there is no such tool.
    pub tool: String,
    /// The library that it was about, by the name that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The library that it was about, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_id: Option<String>,
    /// Wall-clock time from the decision to the checked answer, in milliseconds.
    pub latency_ms: f64,
    /// `success`; anything else is an error, and `error` here.
    pub status: String,
    /// How exactly it ended; not in lines that somebody else wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    outcome: Option<Status>,
    /// The call's own name; empty in lines that somebody else wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// The code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The role that it was made under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The size of the answer, in bytes; 0 for a call without one.
    #[serde(default)]
    pub output_bytes: usize,
    /// The commit of what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Nothing that it changed was to be committed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The origins that it sent requests to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The agents that it gave tasks to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// What its programs printed and is kept as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<KeptOutput>,
    /// What it wrote that other programs execute by its name, and which programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<String>,
    /// The linear memory of its largest instance, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// Calls from plugins into the host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_calls: u64,
    /// What was written to files, in bytes, whatever became of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_bytes: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none_left_out(count: &usize) -> bool {
    *count == 0
}

impl Record {
    /// The record of a call that ended now.
    pub fn new(
        call: &str,
        tool: &str,
        role: Option<&str>,
        outcome: &Outcome,
        latency_ms: f64,
    ) -> Self {
        let mut record = Self {
            timestamp: Timestamp::now(),
            tool: tool.to_owned(),
            latency_ms: (latency_ms * 1000.0).round() / 1000.0,
            status: String::new(),
            library: None,
            library_id: None,
            outcome: None,
            call: call.to_owned(),
            code: None,
            role: role.map(str::to_owned),
            output_bytes: 0,
            commit: None,
            dry_run: false,
            hosts: Vec::new(),
            agents: Vec::new(),
            outputs: Vec::new(),
            executed: Vec::new(),
            memory_bytes: 0,
            host_calls: 0,
            written_bytes: 0,
        };
        record.end(outcome);
        record
    }

    /// How it ended.
    pub fn outcome(&self) -> Status {
        let said = if self.status == "success" { Status::Executed } else { Status::Error };
        self.outcome.unwrap_or(said)
    }

    /// The plugin of its tool; none where there is no such tool, or somebody else wrote the line
    /// and names tools in another way.
    pub fn plugin(&self) -> Option<&str> {
        let is_known = !matches!(self.code.as_deref(), Some("UnknownTool" | "AmbiguousTool"));
        self.tool.split_once('.').map(|(plugin, _)| plugin).filter(|_| is_known)
    }

    /// Says how the call ended after all.
    pub fn end(&mut self, outcome: &Outcome) {
        self.outcome = Some(outcome.status());
        (self.status, self.code, self.output_bytes) = match outcome {
            Outcome::Executed(output) => ("success".to_owned(), None, size(output)),
            Outcome::Failed(Failure { code, .. }) => ("error".to_owned(), Some(code.clone()), 0),
        };
    }
}

/// What S4's format has of a call's arguments: the name and the id of the library that it is about.
pub fn library(args: &Value) -> (Option<String>, Option<String>) {
    let text = |name| args.get(name)?.as_str().map(|text| neutralise(&shorten(text, MAX_NAME)));
    (text("libraryName"), text("libraryId"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// The three lines of S4's "Log Format for MCP Calls".
    const LINES: [&str; 3] = [
        r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "context7_resolve_library_id", "library": "httpx", "latency_ms": 234, "status": "success"}"#,
        r#"{"timestamp": "2026-02-08T10:30:05Z", "tool": "context7_query_docs", "library_id": "/encode/httpx", "latency_ms": 456, "status": "success"}"#,
        r#"{"timestamp": "2026-02-08T10:30:10Z", "event": "fallback_activated", "reason": "context7_timeout"}"#,
    ];

    #[test]
    fn the_lines_of_the_source_are_read_and_written_as_they_stand() {
        for line in LINES {
            let entry = Entry::parse(line.as_bytes()).unwrap();
            let value: Value = serde_json::from_str(line).unwrap();
            let mut written = serde_json::to_value(&entry).unwrap();
            // Numbers of ours have a fraction, and a call says how much it answered.
            if let Some(latency) = written.get_mut("latency_ms") {
                assert_eq!(latency.as_f64(), value["latency_ms"].as_f64());
                *latency = value["latency_ms"].clone();
                assert_eq!(
                    written.as_object_mut().unwrap().shift_remove("output_bytes"),
                    Some(json!(0))
                );
            }
            assert_eq!(written, value);
        }
        let outcome = |line: &str| match Entry::parse(line.as_bytes()).unwrap() {
            Entry::Call(record) => record.outcome(),
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome(LINES[0]), Status::Executed);
        assert_eq!(outcome(&LINES[1].replace("success", "timeout")), Status::Error);
    }

    #[test]
    fn a_record_of_ours_has_every_field_of_the_source() {
        let executed = Outcome::Executed(json!({}));
        for (args, field, value) in [
            (json!({"libraryName": "httpx", "query": "q"}), "library", "httpx"),
            (json!({"libraryId": "/encode/httpx", "query": "q"}), "library_id", "/encode/httpx"),
        ] {
            let mut record = Record::new("1", "docs.t", None, &executed, 234.0);
            (record.library, record.library_id) = library(&args);
            let written = serde_json::to_value(Entry::Call(record)).unwrap();
            let keys: Vec<&String> = written.as_object().unwrap().keys().collect();
            assert_eq!(keys[..5], ["timestamp", "tool", field, "latency_ms", "status"]);
            assert_eq!((&written[field], &written["status"]), (&json!(value), &json!("success")));
        }
        assert_eq!(library(&json!({"libraryId": 5, "library": "x"})), (None, None));
    }

    #[test]
    fn a_fallback_has_the_fields_of_the_source() {
        let outcome = Outcome::Executed(json!({}));
        let record = Record::new("1", "docs.context7_query_docs", None, &outcome, 1.0);
        let event = Entry::Event(Event::fallback("context7_timeout", &record));
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["event"], "fallback_activated");
        assert_eq!(written["reason"], "context7_timeout");
        assert_eq!(written["tool"], "docs.context7_query_docs");
        assert_eq!(Entry::parse(written.to_string().as_bytes()), Ok(event));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, problem) in [
            ("", "EOF while parsing"),
            ("nonsense", "expected"),
            ("[]", "invalid"),
            ("{}", "neither tool, event nor commit"),
            (
                r#"{"timestamp": "2026-02-08T10:30:00Z", "level": "info"}"#,
                "neither tool, event nor commit",
            ),
            (
                r#"{"timestamp": "yesterday", "tool": "a", "latency_ms": 1, "status": "success"}"#,
                "as year",
            ),
            (
                r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "a", "status": "success"}"#,
                "missing field `latency_ms`",
            ),
            (
                r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "a", "latency_ms": -1, "status": "success"}"#,
                "negative",
            ),
            (
                r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": 7, "latency_ms": 1, "status": "success"}"#,
                "expected a string",
            ),
            (r#"{"tool": "a", "tool": "b"}"#, "duplicate field `tool`"),
            (r#"{"event": "health_check", "verdict": "splendid"}"#, "unknown variant"),
        ] {
            let error = Entry::parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }

    #[test]
    fn lists_are_cut_to_a_size() {
        let mut list = vec!["\u{1}".repeat(10); 20];
        // Six bytes for each character, two quotes and a comma.
        assert_eq!((keep_within(&mut list, 63 * 5), list.len()), (15, 5));
        assert_eq!((keep_within(&mut list, 63 * 5), list.len()), (0, 5));
        assert_eq!((keep_within(&mut list, 62), list.len()), (5, 0));
    }

    #[test]
    fn fields_that_are_not_known_are_left_alone() {
        let line = LINES[0].replace("\"status\"", "\"attempt\": 2, \"status\"");
        assert!(matches!(Entry::parse(line.as_bytes()), Ok(Entry::Call(_))));
    }
}
