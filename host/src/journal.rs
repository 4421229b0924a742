//! The append-only record of every call, refusals included: one JSON object a line, in
//! `.cofferdam/journal.jsonl` of the workspace.
//!
//! The fields `timestamp`, `tool`, `latency_ms` and `status` are those of S4's "Log Format".

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::File;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::{OWN, Workspace};
use crate::outcome::{Failure, Outcome, Status};

/// The file's name in the host's own directory.
const FILE: &str = "journal.jsonl";

/// One line: how one call ended.
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
        let (status, code, output_bytes) = match outcome {
            Outcome::Executed(output) => ("success", None, size(output)),
            Outcome::Failed(Failure { code, .. }) => ("error", Some(code.clone()), 0),
        };
        Self {
            timestamp: Timestamp::now(),
            tool: tool.to_owned(),
            latency_ms: (latency_ms * 1000.0).round() / 1000.0,
            status: status.to_owned(),
            outcome: outcome.status(),
            call: call.to_owned(),
            code,
            role: role.map(str::to_owned),
            output_bytes,
        }
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

    /// Appends one record. A workspace that can't be written has no journal: that is said
    /// once for each record, and no reason to refuse the call.
    pub fn append(&self, record: &Record) {
        if let Err(error) = self.try_append(record) {
            tracing::warn!("the journal {OWN}/{FILE} can't be written: {error}");
        }
    }

    fn try_append(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
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
    pub fn read(&self) -> io::Result<(Vec<Record>, usize)> {
        let text = self.workspace.read_own(&format!("{OWN}/{FILE}"))?.unwrap_or_default();
        let mut unreadable = 0;
        let records = text
            .lines()
            .filter_map(|line| {
                let record = serde_json::from_str(line).ok();
                unreadable += usize::from(record.is_none());
                record
            })
            .collect();
        Ok((records, unreadable))
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
