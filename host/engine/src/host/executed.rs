//! Changes that may need the yes of the user before they are committed: files that other programs execute
//! by name, and changes by tools that a tool called.

use std::time::{Duration, Instant};

use super::Host;
use super::approval::Approved;
use super::approver::Proposal;
use super::cancel::cancelled;
use super::context::{ActiveCall, RunContext};
use super::paused::pending;
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

    /// The failure of a call in a shared transaction, about whose changes the user is not asked.
    pub(super) fn not_asked(active: &ActiveCall<'_>) -> Option<Failure> {
        let nested = active.usage.asks();
        let is_asked = !nested.is_empty() && !active.run.options.dry_run;
        is_asked.then(|| not_approved(&nested))
    }

    /// Decides whether the changes of a call may be committed, and asks the user if the policy
    /// requires it: about files `written` that other programs execute, and about changes by tools
    /// that the call called. Without `call`, the user is not asked; nor about files if they `approved`
    /// this very call. Returns the transaction, and how long the user took.
    pub(super) async fn approved_changes(
        &self,
        active: &ActiveCall<'_>,
        transaction: Transaction,
        written: &[ExecutedFile],
        call: Option<(&GrantedCall, &Approved)>,
    ) -> Result<(Transaction, Duration), Failure> {
        let mode = self.executed(active.run);
        if mode == Executed::Refused && !written.is_empty() {
            return Err(not_written(mode, written));
        }
        let nested = active.usage.asks();
        let asks_about_files = mode == Executed::Ask && !written.is_empty();
        let is_asked = |(_, approved): &(&GrantedCall, &Approved)| {
            !nested.is_empty() || (asks_about_files && !approved.was_shown)
        };
        let Some((call, _)) = call.filter(is_asked) else {
            return Ok((transaction, Duration::ZERO));
        };
        let options = active.run.options;
        let Some(approver) = &options.approver else {
            return Err(match nested.is_empty() {
                true => not_written(mode, written),
                false => not_approved(&nested),
            });
        };
        let shown = blocking(move || Ok((transaction.preview()?, transaction))).await;
        let (Preview { diff, digest }, transaction) =
            shown.map_err(|error| dispatch::not_committed(&error))?;
        // Lines before the first header of a diff are comments.
        let mut remarks = named(written);
        if !nested.is_empty() {
            remarks.push(format!("the settings ask about changes by {}", nested.join(", ")));
        }
        let mut remarks = remarks.join("\n").into_bytes();
        remarks.extend_from_slice(b"\n\n");
        remarks.extend(diff);
        if let Some(progress) = &active.progress
            && progress.ask_about_changes(&remarks, digest)
        {
            self.pause(active, progress, transaction).await?;
            return Err(pending());
        }
        let (diff, change) = (Some(remarks), Some(digest));
        let proposal = Proposal { diff, change, ..Proposal::about(call) };
        let asked = Instant::now();
        tokio::select! {
            approved = self.ask_user(active, approver.as_ref(), &proposal) => drop(approved?),
            () = cancelled(options.cancel.clone()) => return Err(dispatch::cancelled()),
        }
        Ok((transaction, asked.elapsed()))
    }
}

/// The failure of a call whose changes are discarded because the user can't be asked about those of
/// the tools that it called.
fn not_approved(nested: &[String]) -> Failure {
    let message = format!(
        "nothing was changed: changes by {} need the yes of a person (`ask` in the settings), and this \
         client can't ask",
        nested.join(", ")
    );
    Failure::new(DenialCode::ApprovalNeeded, message)
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
