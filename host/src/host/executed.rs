//! Calls that write files which other programs execute by their names.

use std::time::{Duration, Instant};

use super::approval::Proposal;
use super::run::cancelled;
use super::{Host, RunOptions};
use crate::dispatch::{self, GrantedCall};
use crate::outcome::{Failure, Status, neutralise};
use crate::policy::Executed;
use crate::runtime::blocking;
use crate::workspace::{ExecutedFile, Transaction};

/// How many files an answer names.
const NAMED: usize = 20;

/// What is said of the files in the answer and the journal.
pub(super) fn named(written: &[ExecutedFile]) -> Vec<String> {
    let line = |file: &ExecutedFile| neutralise(&format!("wrote {file}"));
    let mut lines: Vec<String> = written.iter().take(NAMED).map(line).collect();
    if written.len() > lines.len() {
        let more = written.len() - lines.len();
        lines.push(format!("wrote {more} more files that other programs execute by their names"));
    }
    lines
}

impl Host {
    /// What becomes of calls that write such files.
    pub(super) fn executed(&self, options: &RunOptions) -> Executed {
        let role = options.role.as_deref();
        self.policy.executed(role.and_then(|role| self.policy.role(role)))
    }

    /// Decides whether a call may be committed that has written such files, and has a person asked
    /// where the policy wants that. Answers the transaction, and how long the person took.
    pub(super) async fn approved_files(
        &self,
        transaction: Transaction,
        written: &[ExecutedFile],
        asks: Option<&GrantedCall>,
        options: &RunOptions,
    ) -> Result<(Transaction, Duration), Failure> {
        let mode = self.executed(options);
        if written.is_empty() || mode == Executed::Named {
            return Ok((transaction, Duration::ZERO));
        }
        let Some(call) = asks.filter(|_| mode == Executed::Ask) else {
            // A person has said yes to the call already.
            let is_asked = mode == Executed::Ask;
            return if is_asked {
                Ok((transaction, Duration::ZERO))
            } else {
                Err(not_written(mode, written))
            };
        };
        let Some(approver) = &options.approver else { return Err(not_written(mode, written)) };
        let shown =
            blocking(move || Ok((transaction.diff()?, transaction.digest()?, transaction))).await;
        let (diff, changes, transaction) =
            shown.map_err(|error| dispatch::not_committed(&error))?;
        // What stands before a diff's first header is a remark.
        let mut remarks = named(written).join("\n").into_bytes();
        remarks.extend_from_slice(b"\n\n");
        remarks.extend(diff);
        let (tool, args) = (call.tool().qualified_name(), call.args().clone());
        let (diff, changes) = (Some(remarks), Some(changes));
        let proposal = Proposal { tool, args, diff, changes, tree: None };
        let mut cancel = options.cancel.clone();
        let asked = Instant::now();
        tokio::select! {
            approved = approver.approve(&proposal) => drop(approved?),
            () = cancelled(&mut cancel) => return Err(dispatch::cancelled()),
        }
        Ok((transaction, asked.elapsed()))
    }
}

/// The failure of a call whose files are not written.
pub(super) fn not_written(mode: Executed, written: &[ExecutedFile]) -> Failure {
    let files: Vec<String> = written.iter().take(NAMED).map(ExecutedFile::to_string).collect();
    let files = neutralise(&files.join("; "));
    if mode == Executed::Refused {
        let message = format!(
            "nothing was changed: other programs execute what it writes by its name, which \
             `executed` in the settings refuses: {files}"
        );
        return Failure::new(Status::Denied, "PermissionError", message);
    }
    let message = format!(
        "nothing was changed: what it writes needs the yes of a person (`executed` in the settings), \
         and this client can't ask: {files}"
    );
    Failure::new(Status::Denied, "ApprovalNeeded", message)
}
