//! `cofferdam log`

use serde_json::json;

use super::args::{Format, Global, Log};
use super::output::Output;
use super::{CliError, exit, setup};
use std::sync::Arc;

use crate::journal::{Journal, Record};
use crate::outcome::Status;

pub fn execute(global: &Global, args: &Log, output: &Output) -> Result<u8, CliError> {
    let journal = Journal::new(Arc::new(setup::workspace(global)?));
    let (mut records, unreadable) = journal.read()?;
    records.retain(|record| {
        args.tool.as_ref().is_none_or(|tool| *tool == record.tool)
            && (!args.failed || record.outcome != Status::Executed)
    });
    let records = &records[records.len().saturating_sub(args.limit)..];
    if output.format() == Format::Text {
        output.text(&records.iter().map(line).collect::<String>())?;
    } else {
        output.json(&json!({ "records": records, "unreadable_lines": unreadable }))?;
    }
    Ok(exit::OK)
}

fn line(record: &Record) -> String {
    format!(
        "{}  {:8}  {:9.3} ms  {}{}\n",
        record.timestamp.strftime("%Y-%m-%d %H:%M:%S"),
        record.outcome.as_str(),
        record.latency_ms,
        record.tool,
        record.code.as_ref().map(|code| format!("  {code}")).unwrap_or_default()
    )
}
