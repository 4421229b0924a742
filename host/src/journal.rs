//! The append-only record of every call, refusals included, of every commit, and of what came of a
//! failure: one JSON object a line, in `.cofferdam/journal.jsonl` of the workspace.
//!
//! The fields `timestamp`, `tool`, `latency_ms` and `status`, and events, are those of S4's "Log
//! Format"; so are `library` and `library_id`, which a manifest asks for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::outcome::{Failure, Outcome, Status, neutralise, shorten};
use crate::workspace::{Manifest, OWN, Workspace, summary};

/// The file's name in the host's own directory.
const FILE: &str = "journal.jsonl";

/// How much of an argument a record has, in bytes.
const NOTED: usize = 200;

/// The event of a failure after which whoever called has to do without the tool.
const FALLBACK: &str = "fallback_activated";

/// How many paths the record of a commit names; the history has all of them.
const MAX_CHANGES: usize = 100;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Entry {
    /// How a call ended.
    Call(Record),
    /// What was changed.
    Commit(CommitRecord),
    /// What came of a failure.
    Event(EventRecord),
}

/// What came of a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRecord {
    /// When (RFC 3339, UTC).
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// `fallback_activated`: whoever called has to do without the tool.
    pub event: String,
    /// Why, in the words of the tool's manifest, such as `context7_timeout`.
    pub reason: String,
    /// The tool that failed.
    pub for_tool: String,
    /// The call that failed.
    pub for_call: String,
}

impl EventRecord {
    /// The fallback that a failed call leads to.
    pub fn fallback(record: &Record, reason: &str) -> Self {
        Self {
            timestamp: record.timestamp,
            event: FALLBACK.to_owned(),
            reason: reason.to_owned(),
            for_tool: record.tool.clone(),
            for_call: record.call.clone(),
        }
    }
}

/// The arguments of a call that its record names, as the tool's manifest says.
pub fn noted(names: &BTreeMap<String, String>, args: &Value) -> Map<String, Value> {
    let note = |(name, argument): (&String, &String)| {
        let value = match args.get(argument)? {
            Value::String(text) => neutralise(&shorten(text, NOTED)).into(),
            value @ (Value::Bool(_) | Value::Number(_)) => value.clone(),
            _ => return None,
        };
        Some((name.clone(), value))
    };
    names.iter().filter_map(note).collect()
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
        Self {
            timestamp: manifest.time,
            commit: manifest.id.clone(),
            calls: manifest.calls.clone(),
            undoes: manifest.undoes.clone(),
            recovered,
            paths: summary.len(),
            changes: summary.iter().take(MAX_CHANGES).map(change).collect(),
            conflicts: manifest.conflicts.clone(),
        }
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
    /// Wall-clock time from the decision to the checked answer, in milliseconds.
    pub latency_ms: f64,
    /// `success` or `error`.
    pub status: String,
    /// How exactly it ended.
    #[schemars(with = "String")]
    pub outcome: Status,
    /// The call's own name.
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
    /// Arguments that the tool's manifest wants to be named here.
    #[serde(flatten)]
    pub noted: Map<String, Value>,
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
            outcome: outcome.status(),
            call: call.to_owned(),
            code: None,
            role: role.map(str::to_owned),
            output_bytes: 0,
            commit: None,
            dry_run: false,
            hosts: Vec::new(),
            noted: Map::new(),
        };
        record.end(outcome);
        record
    }

    /// Says how the call ended after all.
    pub fn end(&mut self, outcome: &Outcome) {
        self.outcome = outcome.status();
        (self.status, self.code, self.output_bytes) = match outcome {
            Outcome::Executed(output) => ("success".to_owned(), None, size(output)),
            Outcome::Failed(Failure { code, .. }) => ("error".to_owned(), Some(code.clone()), 0),
        };
    }
}

/// How long a document is as JSON, in bytes.
fn size(document: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither a value nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, document);
    count.0
}

/// Where a workspace's records go. The file is made with the first one.
pub struct Journal {
    workspace: Arc<Workspace>,
    file: Mutex<Option<File>>,
}

impl Journal {
    /// The journal of a workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, file: Mutex::new(None) }
    }

    /// Appends one line. A workspace that can't be written has no journal: that is said
    /// once for each line, and no reason to refuse the call.
    pub fn append(&self, entry: &Entry) {
        if let Err(error) = self.try_append(entry) {
            tracing::warn!("the journal {OWN}/{FILE} can't be written: {error}");
        }
    }

    fn try_append(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = Some(self.workspace.append_own(FILE)?);
        }
        // One write, so that records of several hosts don't mix.
        file.as_mut().map_or(Ok(()), |file| file.write_all(&line))
    }

    /// All records, oldest first, and how many lines could not be read: those of a newer
    /// version, or broken by a crash.
    ///
    /// # Errors
    /// A journal that can't be read.
    pub fn read(&self) -> io::Result<(Vec<Entry>, usize)> {
        let text = self.workspace.read_own(&format!("{OWN}/{FILE}"))?.unwrap_or_default();
        let mut unreadable = 0;
        let entries = text
            .lines()
            .filter_map(|line| {
                let entry = serde_json::from_str(line).ok();
                unreadable += usize::from(entry.is_none());
                entry
            })
            .collect();
        Ok((entries, unreadable))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn records_come_back_and_broken_lines_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Arc::new(Workspace::open(directory.path()).unwrap()));
        assert_eq!(journal.read().unwrap(), (vec![], 0));
        let failure = Failure::new(Status::Denied, "NotGranted", "no");
        let first = Record::new("1", "a.b", Some("reader"), &Outcome::Failed(failure), 1.23456);
        let second = Record::new("2", "a.b", None, &Outcome::Executed(serde_json::json!({})), 2.0);
        let (first, second) = (Entry::Call(first), Entry::Call(second));
        journal.append(&first);
        std::fs::write(
            directory.path().join(".cofferdam/journal.jsonl"),
            format!("{}\n{{\"timestamp\":\n", serde_json::to_string(&first).unwrap()),
        )
        .unwrap();
        journal.append(&second);
        assert_eq!(journal.read().unwrap(), (vec![first, second], 1));
        let ignore =
            std::fs::read_to_string(directory.path().join(".cofferdam/.gitignore")).unwrap();
        assert_eq!(ignore, "*\n");
    }
}
