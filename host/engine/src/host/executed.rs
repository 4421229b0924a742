//! Calls that write files which other programs execute by name.

use std::time::{Duration, Instant};

use super::Host;
use super::approver::Proposal;
use super::cancel::cancelled;
use super::context::RunContext;
use crate::dispatch::{self, GrantedCall};
use crate::runtime::blocking;
use cofferdam_core::outcome::{DenialCode, Failure};
use cofferdam_core::policy::Executed;
use cofferdam_text::escape_control;
use cofferdam_workspace::{ExecutedFile, Preview, Transaction};

/// How many files a response names at most.
const MAX_NAMED_FILES: usize = 20;

/// Describes the files for the response and the journal, one line each.
pub(super) fn named(written: &[ExecutedFile]) -> Vec<String> {
    let line = |file: &ExecutedFile| escape_control(&format!("wrote {file}"));
    let mut lines: Vec<String> = written.iter().take(MAX_NAMED_FILES).map(line).collect();
    if written.len() > lines.len() {
        let more = written.len() - lines.len();
        lines.push(format!("wrote {more} more files that other programs execute by their names"));
    }
    lines
}

impl Host {
    /// The policy for calls that write such files.
    pub(super) fn executed(&self, run: &RunContext<'_>) -> Executed {
        self.policy.executed(run.role)
    }

    /// Decides whether a call that wrote such files may be committed, and asks the user if the
    /// policy requires it. Returns the transaction, and how long the user took.
    pub(super) async fn approved_files(
        &self,
        run: &RunContext<'_>,
        transaction: Transaction,
        written: &[ExecutedFile],
        asks: Option<&GrantedCall>,
    ) -> Result<(Transaction, Duration), Failure> {
        let mode = self.executed(run);
        if written.is_empty() || mode == Executed::Named {
            return Ok((transaction, Duration::ZERO));
        }
        if mode == Executed::Refused {
            return Err(not_written(mode, written));
        }
        // In the other case the user has approved the call already.
        let Some(call) = asks else { return Ok((transaction, Duration::ZERO)) };
        let Some(approver) = &run.options.approver else { return Err(not_written(mode, written)) };
        let shown = blocking(move || Ok((transaction.preview()?, transaction))).await;
        let (Preview { diff, digest }, transaction) =
            shown.map_err(|error| dispatch::not_committed(&error))?;
        // Lines before the first header of a diff are comments.
        let mut remarks = named(written).join("\n").into_bytes();
        remarks.extend_from_slice(b"\n\n");
        remarks.extend(diff);
        let (tool, args) = (call.call().tool().qualified_name().into(), call.call().args().clone());
        let proposal = Proposal {
            tool,
            args,
            diff: Some(remarks),
            change: Some(digest),
            tree: None,
            flow: None,
        };
        let asked = Instant::now();
        tokio::select! {
            approved = approver.approve(&proposal) => drop(approved?),
            () = cancelled(run.options.cancel.clone()) => return Err(dispatch::cancelled()),
        }
        Ok((transaction, asked.elapsed()))
    }
}

/// The failure of a call whose changes are discarded because it wrote such files.
pub(super) fn not_written(mode: Executed, written: &[ExecutedFile]) -> Failure {
    let files: Vec<String> =
        written.iter().take(MAX_NAMED_FILES).map(ExecutedFile::to_string).collect();
    let files = escape_control(&files.join("; "));
    if mode == Executed::Refused {
        let message = format!(
            "nothing was changed: other programs execute what it writes by its name, which \
             `executed` in the settings refuses: {files}"
        );
        return Failure::new(DenialCode::PermissionError, message);
    }
    let message = format!(
        "nothing was changed: what it writes needs the yes of a person (`executed` in the settings), \
         and this client can't ask: {files}"
    );
    Failure::new(DenialCode::ApprovalNeeded, message)
}
