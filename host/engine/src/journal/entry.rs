//! The lines of the journal.
//!
//! Calls and events have the fields of the tool schemas ("Log Format for MCP Calls") and additional
//! ones. Lines in the original format can be read as well.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decision::DecisionRecord;
use crate::call::{ConsentRecord, RefusedOrigins, Used};
use cofferdam_core::envelope::size;
use cofferdam_core::outcome::{Failure, Outcome, RefusalCode, Status};
use cofferdam_core::policy::executed_by;
use cofferdam_text::{escape_control, shorten};
use cofferdam_workspace::{Commit, KeptOutput, summary};

/// How many paths the record of a commit lists; the history has all of them.
const MAX_LISTED_CHANGES: usize = 100;

/// The maximum size of one list of paths in a record, in bytes of JSON: lines longer than 1 MiB are
/// not read. The number of calls is limited by the envelope.
const MAX_LIST_BYTES: usize = 128 << 10;

/// The maximum length of a library's name in a record, in bytes.
const MAX_LIBRARY_NAME_BYTES: usize = 200;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "A line of the journal")]
pub enum Entry {
    /// The result of a call.
    Call(Box<Record>),
    /// A commit of changes to the workspace.
    Commit(CommitRecord),
    /// The result of a health check of the host.
    Health(HealthRecord),
    /// Another event, such as a fallback.
    Event(Event),
}

impl Entry {
    /// Parses a line. Unknown fields are ignored.
    ///
    /// # Errors
    /// A description of what is wrong with the line.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        /// The fields that distinguish the kinds of lines.
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
                Ok(Self::Call(record.into()))
            }
            Kind { commit: Some(_), .. } => read(line).map(Self::Commit),
            Kind { .. } => {
                Err("no line of a journal: it has neither tool, event nor commit".to_owned())
            }
        }
    }
}

/// An event other than calls and commits, such as `{"timestamp": "2026-02-08T10:30:10Z", "event":
/// "fallback_activated", "reason": "context7_timeout"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it happened (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The kind of event, such as `fallback_activated`.
    pub event: String,
    /// The reason for the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The tool concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call that caused it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What a user has decided, if that is the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<DecisionRecord>>,
}

impl Event {
    /// A service was not available, so the caller continues without it (the tool schemas, "Fallback
    /// Actions").
    pub const FALLBACK: &str = "fallback_activated";

    /// The user installed or updated a plugin; `reason` names it and its grants.
    pub const INSTALLED: &str = "plugin_installed";

    /// The user removed a plugin.
    pub const REMOVED: &str = "plugin_removed";

    /// The user changed the grants of a plugin.
    pub const GRANTED: &str = "grant_changed";

    /// A server continued with other settings or plugins; `reason` names the plugins that differ.
    pub const RENEWED: &str = "host_renewed";

    /// A call has left a program running; `reason` has its id, its name and its plugin.
    pub const PROGRAM_STARTED: &str = "program_started";

    /// A program that was left running has ended; `reason` also says how.
    pub const PROGRAM_ENDED: &str = "program_ended";

    /// A user has answered whether a call may be made.
    pub const APPROVAL: &str = "approval";

    /// A user has answered a question of a plugin; `reason` says how.
    pub const QUESTION: &str = "question";

    /// A user has accepted or rejected held changes.
    pub const REVIEW: &str = "review";

    /// A user has cancelled a call from another process.
    pub const CANCELLED: &str = "call_cancelled";

    /// A decision of a user, which was made now.
    pub fn decided(event: &str, decision: DecisionRecord) -> Self {
        let reason = decision.answer.clone();
        Self { decision: Some(decision.into()), ..Self::new(event, reason) }
    }

    /// An event of the host or an action of the user, which happened now.
    pub fn new(event: &str, reason: impl Into<String>) -> Self {
        Self {
            timestamp: Timestamp::now(),
            event: event.to_owned(),
            reason: reason.into(),
            tool: None,
            call: None,
            decision: None,
        }
    }

    /// An event of the host that the call with this id caused.
    pub fn of_call(event: &str, reason: impl Into<String>, call: &str) -> Self {
        Self { call: Some(call.to_owned()), ..Self::new(event, reason) }
    }

    /// The event that a failed call could not use a service. `reason` begins with the name of the
    /// service, as in `context7_timeout`.
    pub fn fallback(reason: &str, record: &Record) -> Self {
        Self {
            timestamp: record.timestamp,
            event: Self::FALLBACK.to_owned(),
            reason: reason.to_owned(),
            tool: Some(record.tool.clone()),
            call: Some(record.call.clone()),
            decision: None,
        }
    }
}

/// The result of a health check (the tool schemas, "Health Check").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthRecord {
    /// When it was checked (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The kind of event: always `health_check`.
    pub event: String,
    /// The health of the host.
    pub verdict: Verdict,
    /// The latency of the slowest probe, in milliseconds.
    pub latency_ms: f64,
    /// The names of the probes that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl HealthRecord {
    /// The value of `event` in these lines.
    pub const EVENT: &str = "health_check";
}

/// The health of a host or a part of it, the best value first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It works within the time limits.
    Healthy,
    /// It works partially or slowly.
    Degraded,
    /// It does not work, or takes too long.
    Failed,
}

impl Verdict {
    /// The value as it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// A commit of changes to the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommitRecord {
    /// When it was made (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The id of the commit. `cofferdam log --diff` and `cofferdam undo` take it or its beginning.
    pub commit: String,
    /// The calls whose changes it contains.
    pub calls: Vec<String>,
    /// The commit that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// The proposal of which it applies something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// Who accepted that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// Whether it was begun by a process that died, and finished by another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// The number of changed paths.
    pub paths: usize,
    /// The first changed paths, sorted by path.
    pub changes: Vec<PathChange>,
    /// The first paths that were not changed because another program had changed them before the
    /// commit was recovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The number of further such paths.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_conflicts: u64,
    /// The first written files that other programs execute by name, and which programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<String>,
}

/// The change of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathChange {
    /// The path relative to the workspace.
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: String,
}

impl CommitRecord {
    /// The record of a commit.
    pub fn new(commit: &Commit, recovered: bool) -> Self {
        let summary = summary(&commit.changes);
        let change = |(path, change): &(&str, &str)| PathChange {
            path: (*path).to_owned(),
            change: (*change).to_owned(),
        };
        let executed = |(path, change): &(&str, &str)| {
            let by = executed_by(path).filter(|_| *change != "removed")?;
            Some(escape_control(&format!("wrote {path}, which {by}")))
        };
        let conflicts = first(commit.conflicts.iter().cloned());
        Self {
            timestamp: commit.time,
            commit: commit.id.to_string(),
            calls: commit.calls.clone(),
            undoes: commit.undoes.as_ref().map(ToString::to_string),
            proposal: commit.accepts.as_ref().map(|accepts| accepts.proposal.to_string()),
            approver: commit.accepts.as_ref().map(|accepts| escape_control(&accepts.reviewer)),
            recovered,
            paths: summary.len(),
            changes: first(summary.iter().take(MAX_LISTED_CHANGES).map(change)),
            more_conflicts: (commit.conflicts.len() - conflicts.len()) as u64,
            conflicts,
            executed: first(summary.iter().filter_map(executed).take(MAX_LISTED_CHANGES)),
        }
    }
}

/// The first items that fit into [`MAX_LIST_BYTES`].
fn first<T: Serialize>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut left = MAX_LIST_BYTES;
    let fits = |item: &T| {
        let size = serde_json::to_vec(item).map_or(usize::MAX, |json| json.len());
        left.checked_sub(size).map(|rest| left = rest).is_some()
    };
    items.take_while(fits).collect()
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// When it ended (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// The tool's qualified name, or the name that the agent wrote if there is no such tool.
    pub tool: String,
    /// The name of the library that the call asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The id of the library that the call asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_id: Option<String>,
    /// Wall-clock time from the decision to the checked response, in milliseconds.
    pub latency_ms: f64,
    /// `success`, or `error`. Any other value counts as an error.
    pub status: String,
    /// How the call ended; absent in lines of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    outcome: Option<Status>,
    /// The id of the call; empty in lines of other programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// The id of the call that made this call, such as that of a script. Changes are committed with
    /// those of that call, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The role of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The client that made the call, as it names itself: `claude-code 2.1.0`; `cli` for the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The session of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent that made the call, by its name in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who approved the call, if the user was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// The size of the response in bytes; 0 if there is none.
    #[serde(default)]
    pub output_bytes: usize,
    /// The commit of its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The proposal that holds its changes until a user accepts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// Whether this was a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The origins that it sent requests to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The origins that its plugins tried to send requests to and were not granted, by the name of the
    /// plugin: a backend's are not the tool's.
    #[serde(default, skip_serializing_if = "RefusedOrigins::is_empty")]
    pub refused_hosts: RefusedOrigins,
    /// The agents that it gave tasks to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The secrets of the settings that it has read, or that its programs could read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The actions that its plugins have asked consent for, and how each was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consents: Vec<ConsentRecord>,
    /// The number of programs that it ran.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub programs: u64,
    /// The outputs of its programs that are kept in files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<KeptOutput>,
    /// The written files that other programs execute by name, and which programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<String>,
    /// The linear memory of its largest instance, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// Calls from plugins into the host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_calls: u64,
    /// The number of bytes written to files, committed or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_bytes: u64,
}

fn is_zero(count: &u64) -> bool {
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
            parent: None,
            code: None,
            role: role.map(str::to_owned),
            client: None,
            session: None,
            agent: None,
            approver: None,
            output_bytes: 0,
            commit: None,
            proposal: None,
            dry_run: false,
            hosts: Vec::new(),
            refused_hosts: RefusedOrigins::new(),
            agents: Vec::new(),
            secrets: Vec::new(),
            consents: Vec::new(),
            programs: 0,
            outputs: Vec::new(),
            executed: Vec::new(),
            memory_bytes: 0,
            host_calls: 0,
            written_bytes: 0,
        };
        record.end(outcome);
        record
    }

    /// How the call ended.
    pub fn outcome(&self) -> Status {
        let said = if self.status == "success" { Status::Executed } else { Status::Error };
        self.outcome.unwrap_or(said)
    }

    /// The plugin of the tool; `None` if there is no such tool, or if another program wrote the
    /// line and names tools differently.
    pub fn plugin(&self) -> Option<&str> {
        let unresolved = [RefusalCode::UnknownTool, RefusalCode::AmbiguousTool];
        let is_known = !unresolved.iter().any(|code| self.code.as_deref() == Some(code.as_str()));
        self.tool.split_once('.').map(|(plugin, _)| plugin).filter(|_| is_known)
    }

    /// Whether the host alone is responsible for how long the call took: programs and agents take as
    /// long as their own work.
    pub(crate) fn is_own_time(&self) -> bool {
        self.programs == 0 && self.agents.is_empty()
    }

    /// Adds the usage of the call.
    pub(crate) fn add_usage(&mut self, used: Used) {
        let Used {
            origins,
            refused,
            agents,
            usage,
            outputs,
            programs,
            asks: _,
            is_held: _,
            approver,
        } = used;
        self.approver = approver;
        self.hosts = origins.iter().map(ToString::to_string).collect();
        self.refused_hosts = refused;
        self.agents = agents.into_iter().collect();
        self.outputs = outputs;
        self.programs = programs.into();
        (self.memory_bytes, self.host_calls) = (usage.memory, usage.host_calls);
        self.written_bytes = usage.written;
    }

    /// Replaces the outcome of the call.
    pub fn end(&mut self, outcome: &Outcome) {
        self.outcome = Some(outcome.status());
        (self.status, self.code, self.output_bytes) = match outcome {
            Outcome::Executed(output) => ("success".to_owned(), None, size(output)),
            Outcome::Failed(Failure { code, .. }) => {
                ("error".to_owned(), Some(code.to_string()), 0)
            }
        };
    }
}

/// The fields of a call's arguments that the log format contains: the name and the id of a library.
pub fn library(args: &Value) -> (Option<String>, Option<String>) {
    let text = |name| {
        args.get(name)?.as_str().map(|text| escape_control(&shorten(text, MAX_LIBRARY_NAME_BYTES)))
    };
    (text("libraryName"), text("libraryId"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// The three lines in the tool schemas, "Log Format for MCP Calls".
    const LINES: [&str; 3] = [
        r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "context7_resolve_library_id", "library": "httpx", "latency_ms": 234, "status": "success"}"#,
        r#"{"timestamp": "2026-02-08T10:30:05Z", "tool": "context7_query_docs", "library_id": "/encode/httpx", "latency_ms": 456, "status": "success"}"#,
        r#"{"timestamp": "2026-02-08T10:30:10Z", "event": "fallback_activated", "reason": "context7_timeout"}"#,
    ];

    #[test]
    fn lines_of_the_original_format_round_trip() {
        for line in LINES {
            let entry = Entry::parse(line.as_bytes()).unwrap();
            let value: Value = serde_json::from_str(line).unwrap();
            let mut written = serde_json::to_value(&entry).unwrap();
            // Our numbers have a fraction, and calls have the size of their response.
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
    fn records_begin_with_the_fields_of_the_original_format() {
        let executed = Outcome::Executed(json!({}));
        for (args, field, value) in [
            (json!({"libraryName": "httpx", "query": "q"}), "library", "httpx"),
            (json!({"libraryId": "/encode/httpx", "query": "q"}), "library_id", "/encode/httpx"),
        ] {
            let mut record = Record::new("1", "docs.t", None, &executed, 234.0);
            (record.library, record.library_id) = library(&args);
            let written = serde_json::to_value(Entry::Call(record.into())).unwrap();
            let keys: Vec<&String> = written.as_object().unwrap().keys().collect();
            assert_eq!(keys[..5], ["timestamp", "tool", field, "latency_ms", "status"]);
            assert_eq!((&written[field], &written["status"]), (&json!(value), &json!("success")));
        }
        assert_eq!(library(&json!({"libraryId": 5, "library": "x"})), (None, None));
    }

    #[test]
    fn fallback_events_have_the_original_fields() {
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
    fn parse_errors_describe_the_problem() {
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
    fn lists_of_paths_are_limited_in_size() {
        let path = "\u{1}".repeat(4096);
        let kept = first(std::iter::repeat_n(path, 100));
        let size = serde_json::to_vec(&kept).unwrap().len();
        assert!(kept.len() > 1 && size <= MAX_LIST_BYTES + kept.len() + 1, "{} {size}", kept.len());
        assert_eq!(first(["a", "b"].into_iter()), ["a", "b"]);
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let line = LINES[0].replace("\"status\"", "\"attempt\": 2, \"status\"");
        assert!(matches!(Entry::parse(line.as_bytes()), Ok(Entry::Call(_))));
    }
}
