//! `cofferdam undo`: reverts a commit.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::args::{Format, Global, Undo};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_engine::journal::{CommitRecord, Journal};
use cofferdam_workspace::{History, HistoryError, Transaction};

/// How long to wait for the workspace's lock while other processes change it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

pub fn execute(global: &Global, args: &Undo, output: &Output) -> Result<u8, CliError> {
    let workspace = Arc::new(setup::workspace(global)?);
    let journal = Arc::new(Journal::new(Arc::clone(&workspace)));
    journal.record_commits();
    let runtime = setup::current_thread_runtime()?;
    let begun = runtime.block_on(Transaction::begin(&workspace, LOCK_TIMEOUT));
    let (transaction, _) = begun.map_err(CliError::host)?;
    let history = History::new(workspace);
    let (undone, commit) = match history.undo(transaction, args.commit.as_deref()) {
        Err(changed @ HistoryError::Changed { .. }) => {
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
