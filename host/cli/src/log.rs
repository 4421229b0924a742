//! `cofferdam log`: shows the journal, diffs of commits, and kept output of programs.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::args::{Format, Global, Log};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_core::outcome::Status;
use cofferdam_engine::journal::{
    CommitRecord, DecisionRecord, Entry, Event, HealthRecord, Journal, Record, Verdict,
};
use cofferdam_workspace::{History, RangeDiff, Workspace};

/// How many calls that were made by calls are shown at most.
const MAX_NESTED: usize = 2_000;

/// How many paths a line of the text format names.
const MAX_SHOWN_PATHS: usize = 5;

/// How many streams an error message names.
const MAX_NAMED_STREAMS: usize = 8;

pub fn execute(global: &Global, args: &Log, output: &Output) -> Result<u8, CliError> {
    let workspace = Arc::new(setup::workspace(global)?);
    if let Some((from, to)) = args.diff.as_ref().and_then(|id| id.split_once("..")) {
        return print_range(&History::new(workspace).diff_range(from, to)?, output);
    }
    if let Some(id) = &args.diff {
        let diff = History::new(workspace).diff(id)?;
        if output.format() == Format::Text {
            output.raw(&diff)?;
        } else {
            output.json(&json!({ "diff": String::from_utf8_lossy(&diff) }))?;
        }
        return Ok(exit::OK);
    }
    if let Some(name) = &args.output {
        return print_output(&workspace, name, args, output);
    }
    let journal = Journal::new(workspace);
    let is_tree = args.tool.is_none() && !args.failed && !args.commits;
    let has_nested = Cell::new(false);
    let is_wanted = |entry: &Entry| {
        let is_nested = is_tree && parent(entry).is_some();
        has_nested.set(has_nested.get() || is_nested);
        !is_nested && matches_filters(entry, args)
    };
    let (mut entries, unreadable) = journal.latest(args.limit, is_wanted)?;
    // It reads the whole journal again.
    if has_nested.get() {
        entries = with_nested(&journal, entries)?;
    }
    if output.format() == Format::Text {
        let line = |entry: &Entry| match is_tree && parent(entry).is_some() {
            true => format!("  {}", line(entry)),
            false => line(entry),
        };
        output.text(&entries.iter().map(line).collect::<String>())?;
    } else {
        output.json(&json!({ "records": entries, "unreadable_lines": unreadable }))?;
    }
    Ok(exit::OK)
}

/// The call that made the call of an entry.
fn parent(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Call(record) => record.parent.as_deref(),
        _ => None,
    }
}

/// Adds the calls that the calls of `entries` made, each after the call that made it.
fn with_nested(journal: &Journal, entries: VecDeque<Entry>) -> Result<VecDeque<Entry>, CliError> {
    let call = |entry: &Entry| match entry {
        Entry::Call(record) => Some(record.call.clone()),
        _ => None,
    };
    let calls: HashSet<String> = entries.iter().filter_map(call).collect();
    let is_nested = |entry: &Entry| parent(entry).is_some_and(|parent| calls.contains(parent));
    let (nested, _) = journal.latest(MAX_NESTED, is_nested)?;
    let mut of_call: HashMap<String, Vec<Entry>> = HashMap::new();
    for entry in nested {
        let parent = parent(&entry).unwrap_or_default().to_owned();
        of_call.entry(parent).or_default().push(entry);
    }
    let mut all = VecDeque::new();
    for entry in entries {
        let made = call(&entry).and_then(|call| of_call.remove(&call));
        all.push_back(entry);
        all.extend(made.into_iter().flatten());
    }
    Ok(all)
}

/// Prints a kept stream, or a part of it.
fn print_output(
    workspace: &Arc<Workspace>,
    name: &str,
    args: &Log,
    output: &Output,
) -> Result<u8, CliError> {
    let mut found = workspace.outputs(name).map_err(unreadable)?;
    if let Some(stream) = args.stream {
        found.retain(|(name, _)| name.ends_with(&format!(".{}", stream.as_str())));
    }
    let name = match &found[..] {
        [(name, _)] => name,
        [] => return Err(CliError::usage(why_none(workspace, name)?)),
        several => {
            let named = several.iter().take(MAX_NAMED_STREAMS);
            let named: Vec<String> =
                named.map(|(name, bytes)| format!("{name} ({bytes} bytes)")).collect();
            let more = several.len() - named.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(CliError::usage(format!(
                "'{name}' is the beginning of several streams, write more of one: {}{more}",
                named.join(", ")
            )));
        }
    };
    let offset = args.offset.unwrap_or(0);
    let part = workspace.output(name, offset, args.length.unwrap_or(u64::MAX));
    let Some((part, bytes)) = part.map_err(unreadable)? else {
        return Err(CliError::usage(format!("{name} has just made room for others")));
    };
    if offset > bytes {
        return Err(CliError::usage(format!("{name} has {bytes} bytes, so none at {offset}")));
    }
    if output.format() == Format::Text {
        output.raw(&part)?;
    } else {
        let text = String::from_utf8_lossy(&part);
        output.json(&json!({"name": name, "bytes": bytes, "offset": offset, "output": text}))?;
    }
    Ok(exit::OK)
}

/// Prints what several commits changed together.
fn print_range(range: &RangeDiff, output: &Output) -> Result<u8, CliError> {
    let RangeDiff { first, last, commits, diff, unreadable } = range;
    if output.format() == Format::Text {
        for path in unreadable {
            tracing::warn!("{path} is left out: its files are not kept any more");
        }
        output.raw(diff)?;
    } else {
        output.json(&json!({
            "first": first.id,
            "last": last.id,
            "commits": commits,
            "diff": String::from_utf8_lossy(diff),
            "unreadable": unreadable,
        }))?;
    }
    Ok(exit::OK)
}

/// Explains why no output is kept under a name.
fn why_none(workspace: &Arc<Workspace>, name: &str) -> Result<String, CliError> {
    let call = name.split('.').next().unwrap_or(name);
    let is_it = |entry: &Entry| match entry {
        Entry::Call(record) => !call.is_empty() && record.call.starts_with(call),
        _ => false,
    };
    let (entries, _) = Journal::new(Arc::clone(workspace)).latest(1, is_it)?;
    Ok(match entries.front() {
        Some(Entry::Call(record)) if record.outputs.is_empty() => format!(
            "nothing is kept of what the programs of call {} printed: only longer output is, and \
             only of calls that were not cancelled",
            record.call
        ),
        Some(Entry::Call(record)) => {
            let names: Vec<&str> =
                record.outputs.iter().map(|output| output.name.as_str()).collect();
            format!(
                "call {} has no such stream; it had these, which later ones may have replaced: {}",
                record.call,
                names.join(", ")
            )
        }
        _ => format!("there is no call '{call}' in the journal; `cofferdam log` shows the latest"),
    })
}

fn unreadable(error: std::io::Error) -> CliError {
    CliError::host(format!("the output that is kept of programs: {error}"))
}

fn matches_filters(entry: &Entry, args: &Log) -> bool {
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
    let decision = event.decision.as_deref().map(decided).unwrap_or_default();
    format!("{time}  event     {}  {}{tool}{decision}\n", event.event, event.reason)
}

/// What a user has decided, and about what.
fn decided(decision: &DecisionRecord) -> String {
    let mut text = format!("  by {}", decision.approver);
    let hunks = decision.hunks.map(|hunks| hunks.to_string());
    for (what, value) in [
        ("session", &decision.session),
        ("proposal", &decision.proposal),
        ("hunks", &hunks),
        ("commit", &decision.commit),
        ("comment", &decision.comment),
    ] {
        if let Some(value) = value {
            let _ = write!(text, "  {what} {}", value.replace('\n', " "));
        }
    }
    text
}

/// Who made a call.
fn caller(record: &Record) -> String {
    let session = record.session.as_ref().filter(|_| record.client.as_deref() != Some("cli"));
    let mut text = String::new();
    for (what, who) in [
        ("client", &record.client),
        ("session", &session.cloned()),
        ("role", &record.role),
        ("agent", &record.agent),
        ("approved by", &record.approver),
        ("held in", &record.proposal),
    ] {
        if let Some(who) = who {
            let _ = write!(text, "  {what} {}", who.replace('\n', " "));
        }
    }
    text
}

fn health_line(health: &HealthRecord) -> String {
    let time = health.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let failed = health.failed.join(", ");
    let failed = if failed.is_empty() { failed } else { format!("  not working: {failed}") };
    format!("{time}  health    {:9.3} ms  {}{failed}\n", health.latency_ms, health.verdict.as_str())
}

fn call_line(record: &Record) -> String {
    format!(
        "{}  {:8}  {:9.3} ms  {}{}{}{}{}{}\n",
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S"),
        record.outcome().as_str(),
        record.latency_ms,
        record.tool,
        record.code.as_ref().map(|code| format!("  {code}")).unwrap_or_default(),
        if record.dry_run { "  (dry run)" } else { "" },
        caller(record),
        printed(record),
        executed(&record.executed)
    )
}

/// The kept output of a call's programs.
fn printed(record: &Record) -> String {
    let kept = record.outputs.iter();
    kept.map(|kept| format!("  {} printed {} ({} bytes)", kept.program, kept.name, kept.bytes))
        .collect()
}

/// The written files that other programs execute.
fn executed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}")).collect()
}

fn commit_line(record: &CommitRecord) -> String {
    let time = record.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let mut line = format!("{time}  commit    {}", record.commit);
    if let Some(undone) = &record.undoes {
        let _ = write!(line, "  undoes {undone}");
    }
    if let (Some(proposal), Some(approver)) = (&record.proposal, &record.approver) {
        let _ = write!(line, "  of the proposal {proposal}, accepted by {approver}");
    }
    if record.recovered {
        line.push_str("  recovered");
    }
    let named: Vec<String> = record
        .changes
        .iter()
        .take(MAX_SHOWN_PATHS)
        .map(|change| format!("{} {}", change.change, change.path))
        .collect();
    let _ = write!(line, "  {}", named.join(", "));
    if record.paths > named.len() {
        let _ = write!(line, " and {} more", record.paths - named.len());
    }
    for conflict in &record.conflicts {
        let _ = write!(line, "  conflict: {conflict}");
    }
    if record.more_conflicts > 0 {
        let _ = write!(line, "  and {} more conflicts", record.more_conflicts);
    }
    // If there are calls, their own lines show the paths.
    if record.calls.is_empty() {
        line.push_str(&executed(&record.executed));
    }
    line.push('\n');
    line
}
