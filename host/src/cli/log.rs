//! `cofferdam log`

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::args::{Format, Global, Log};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::journal::{CommitRecord, Entry, Journal, Record};
use crate::outcome::Status;
use crate::workspace::History;

/// How many paths a line for people names.
const PATHS: usize = 5;

pub fn execute(global: &Global, args: &Log, output: &Output) -> Result<u8, CliError> {
    let workspace = Arc::new(setup::workspace(global)?);
    if let Some(id) = &args.diff {
        let diff = History::new(workspace).diff(id)?;
        if output.format() == Format::Text {
            output.diff(&diff)?;
        } else {
            output.json(&json!({ "diff": String::from_utf8_lossy(&diff) }))?;
        }
        return Ok(exit::OK);
    }
    let (mut entries, unreadable) = Journal::new(workspace).read()?;
    entries.retain(|entry| match entry {
        Entry::Call(record) => {
            !args.commits
                && args.tool.as_ref().is_none_or(|tool| *tool == record.tool)
                && (!args.failed || record.outcome != Status::Executed)
        }
        Entry::Commit(_) => args.tool.is_none() && !args.failed,
        Entry::Event(event) => {
            !args.commits && args.tool.as_ref().is_none_or(|tool| *tool == event.for_tool)
        }
    });
    let entries = &entries[entries.len().saturating_sub(args.limit)..];
    if output.format() == Format::Text {
        output.text(&entries.iter().map(line).collect::<String>())?;
    } else {
        output.json(&json!({ "records": entries, "unreadable_lines": unreadable }))?;
    }
    Ok(exit::OK)
}

fn line(entry: &Entry) -> String {
    match entry {
        Entry::Call(record) => call_line(record),
        Entry::Commit(record) => commit_line(record),
        Entry::Event(event) => {
            let time = event.timestamp.strftime("%Y-%m-%d %H:%M:%S");
            format!("{time}  {}  {}\n", event.event, event.reason)
        }
    }
}

fn call_line(record: &Record) -> String {
    format!(
        "{}  {:8}  {:9.3} ms  {}{}{}\n",
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S"),
        record.outcome.as_str(),
        record.latency_ms,
        record.tool,
        record.code.as_ref().map(|code| format!("  {code}")).unwrap_or_default(),
        if record.dry_run { "  (dry run)" } else { "" }
    )
}

fn commit_line(record: &CommitRecord) -> String {
    let time = record.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let mut line = format!("{time}  commit    {}", record.commit);
    if let Some(undone) = &record.undoes {
        let _ = write!(line, "  undoes {undone}");
    }
    if record.recovered {
        line.push_str("  recovered");
    }
    let named: Vec<String> = record
        .changes
        .iter()
        .take(PATHS)
        .map(|change| format!("{} {}", change.change, change.path))
        .collect();
    let _ = write!(line, "  {}", named.join(", "));
    if record.paths > named.len() {
        let _ = write!(line, " and {} more", record.paths - named.len());
    }
    for conflict in &record.conflicts {
        let _ = write!(line, "  conflict: {conflict}");
    }
    line.push('\n');
    line
}
