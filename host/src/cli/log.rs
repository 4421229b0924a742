//! `cofferdam log`

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::args::{Format, Global, Log};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::journal::{CommitRecord, Entry, Event, HealthRecord, Journal, Record, Verdict};
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
    let journal = Journal::new(workspace);
    let (entries, unreadable) = journal.latest(args.limit, |entry| is_wanted(entry, args))?;
    if output.format() == Format::Text {
        output.text(&entries.iter().map(line).collect::<String>())?;
    } else {
        output.json(&json!({ "records": entries, "unreadable_lines": unreadable }))?;
    }
    Ok(exit::OK)
}

fn is_wanted(entry: &Entry, args: &Log) -> bool {
    let is_tool = |tool: Option<&String>| args.tool.is_none() || args.tool.as_ref() == tool;
    match entry {
        Entry::Call(record) => {
            let failed = record.outcome() != Status::Executed;
            !args.commits && is_tool(Some(&record.tool)) && (!args.failed || failed)
        }
        Entry::Commit(_) => args.tool.is_none() && !args.failed,
        Entry::Event(event) => !args.commits && !args.failed && is_tool(event.tool.as_ref()),
        Entry::Health(health) => {
            !args.commits
                && args.tool.is_none()
                && (!args.failed || health.verdict == Verdict::Failed)
        }
    }
}

fn line(entry: &Entry) -> String {
    match entry {
        Entry::Call(record) => call_line(record),
        Entry::Commit(record) => commit_line(record),
        Entry::Event(event) => event_line(event),
        Entry::Health(health) => health_line(health),
    }
}

fn event_line(event: &Event) -> String {
    let time = event.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let tool = event.tool.as_ref().map(|tool| format!("  {tool}")).unwrap_or_default();
    format!("{time}  event     {}  {}{tool}\n", event.event, event.reason)
}

fn health_line(health: &HealthRecord) -> String {
    let time = health.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let failed = health.failed.join(", ");
    let failed = if failed.is_empty() { failed } else { format!("  not working: {failed}") };
    format!("{time}  health    {:9.3} ms  {}{failed}\n", health.latency_ms, health.verdict.as_str())
}

fn call_line(record: &Record) -> String {
    format!(
        "{}  {:8}  {:9.3} ms  {}{}{}\n",
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S"),
        record.outcome().as_str(),
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
