//! `cofferdam undo`: reverts a commit.

use std::sync::Arc;

use serde_json::json;

use super::args::{Format, Global, Undo};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_engine::journal::CommitRecord;
use cofferdam_engine::review::{DecideError, Reviewer};
use cofferdam_workspace::HistoryError;

pub fn execute(global: &Global, args: &Undo, output: &Output) -> Result<u8, CliError> {
    let reviewer = Reviewer::new(Arc::new(setup::workspace(global)?));
    let undone = reviewer.undo(args.commit.clone());
    let (undone, commit) = match setup::current_thread_runtime()?.block_on(undone) {
        Err(DecideError::History(changed @ HistoryError::Changed { .. })) => {
            tracing::error!("{changed}");
            if output.format() == Format::Json
                && let HistoryError::Changed { paths, earlier, .. } = changed
            {
                let mut document = json!({ "undone": null, "changed_since": paths });
                if let Some(earlier) = earlier {
                    document["earlier"] = earlier.into();
                }
                output.json(&document)?;
            }
            return Ok(exit::ERROR);
        }
        done => done?,
    };
    let record = commit.map(|commit| CommitRecord::new(&commit, false));
    if output.format() == Format::Text {
        let paths = record.iter().flat_map(|record| &record.changes);
        let lines = paths.map(|path| format!("{} {}\n", path.change, path.path));
        let lines: String = lines.collect();
        let executed = record.iter().flat_map(|record| &record.executed);
        let executed: String = executed.map(|line| format!("{line}\n")).collect();
        output.text(&format!("undone: {}\n{lines}{executed}", undone.id))?;
    } else {
        output.json(&json!({ "undone": undone.id, "commit": record }))?;
    }
    Ok(exit::OK)
}
