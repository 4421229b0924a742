//! Calls that a person has to say yes to.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::run::{Performed, cancelled};
use super::{Host, RunOptions};
use crate::capability::Contacts;
use crate::dispatch::{self, Executor, GrantedCall};
use crate::line::Client;
use crate::outcome::{Failure, Outcome, Status};
use crate::plugin::digest::Digest;
use crate::runtime::blocking;
use crate::workspace::{Fingerprint, FingerprintError, Transaction};

/// A call that waits for a yes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The tool's qualified name.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// What it would change, as a unified diff, where that can be found out without doing more
    /// than changing files.
    pub diff: Option<Vec<u8>>,
    /// The digest of these changes ([`Transaction::digest`]), where there is a diff: of a binary file,
    /// the diff says only that it changes.
    pub changes: Option<[u8; 32]>,
    /// The workspace when the person is asked, where there is no diff: what the call does may depend
    /// on anything in it.
    pub tree: Option<Fingerprint>,
}

impl Proposal {
    /// A digest of the call and of its changes. The diff is not part of it: it shows these changes,
    /// and how it does may depend on how busy the machine is.
    pub fn digest(&self) -> String {
        let Self { tool, args, diff: _, changes, tree: _ } = self;
        let mut bound = format!("{tool}\0{args}\0").into_bytes();
        bound.extend(changes.iter().flatten());
        Digest::of(&bound).hex()
    }
}

/// Whoever can ask a person.
pub trait Approver: Send + Sync {
    /// Asks. Ends without an error only if the person said yes: with the workspace as it was when
    /// they were asked ([`Proposal::tree`]), which may have been at an earlier call.
    fn approve<'a>(
        &'a self,
        proposal: &'a Proposal,
    ) -> BoxFuture<'a, Result<Option<Fingerprint>, Failure>>;

    /// Whether the person was asked at an earlier call, so that the workspace of this moment is not
    /// what the answer is about.
    fn was_asked(&self) -> bool;
}

/// What a person's yes holds for.
#[derive(Default)]
pub(super) struct Approved {
    /// The digest of what the call may change, where that was shown.
    pub(super) changes: Option<[u8; 32]>,
    /// What the workspace has to be, from before the call until after it.
    tree: Option<Fingerprint>,
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}

impl Host {
    /// Has a person asked, where the policy wants that for this call.
    pub(super) async fn approved(
        &self,
        executor: &Executor<'_>,
        id: &str,
        call: &GrantedCall,
        options: &RunOptions,
    ) -> Result<Approved, Failure> {
        if !call.needs_approval() {
            return Ok(Approved::default());
        }
        let tool = call.tool().qualified_name();
        let Some(approver) = &options.approver else {
            let message = format!(
                "each call of '{tool}' needs the yes of a person (`ask` in the settings), and \
                 nobody can be asked here; an MCP client that supports elicitation can"
            );
            return Err(Failure::new(Status::Denied, "ApprovalNeeded", message));
        };
        let mut cancel = options.cancel.clone();
        let ask = async {
            let preview = self.preview(executor, id, call, options.client).await?;
            let tree = match preview {
                None if !approver.was_asked() => Some(self.fingerprint(&tool).await?),
                _ => None,
            };
            let (diff, changes) = preview.unzip();
            let proposal = Proposal { tool, args: call.args().clone(), diff, changes, tree };
            let tree = approver.approve(&proposal).await?;
            Ok(Approved { changes, tree })
        };
        tokio::select! {
            approved = ask => approved,
            () = cancelled(&mut cancel) => Err(dispatch::cancelled()),
        }
    }

    /// The workspace as it is now, for a question about a call of `tool`.
    async fn fingerprint(&self, tool: &str) -> Result<Fingerprint, Failure> {
        let workspace = Arc::clone(&self.standing.workspace);
        let taken = blocking(move || workspace.fingerprint()).await;
        taken.map_err(|error| {
            let message = format!(
                "each call of '{tool}' needs the yes of a person (`ask` in the settings), which \
                 holds as long as the workspace stays as it is, and that can't be compared: {error}"
            );
            match error {
                FingerprintError::TooLarge => {
                    Failure::new(Status::Denied, "WorkspaceTooLarge", message)
                }
                FingerprintError::Changing(_) => Failure::new(Status::Error, "Conflict", message),
                FingerprintError::Io(_) => Failure::new(Status::Failed, "WorkspaceError", message),
            }
        })
    }

    /// Runs a call as long as the workspace is what the person was asked about: before, and after it,
    /// when nothing of it is kept yet. Agents change the workspace by calls of their own.
    pub(super) async fn as_approved(
        &self,
        approved: &Approved,
        asks_agents: bool,
        run: impl Future<Output = Performed>,
    ) -> Result<Performed, Failure> {
        self.check_unchanged(approved).await?;
        let performed = run.await;
        if !asks_agents && matches!(performed.outcome, Outcome::Executed(_)) {
            self.check_unchanged(approved).await?;
        }
        Ok(performed)
    }

    async fn check_unchanged(&self, approved: &Approved) -> Result<(), Failure> {
        let Some(tree) = approved.tree else { return Ok(()) };
        let workspace = Arc::clone(&self.standing.workspace);
        match blocking(move || workspace.changed_since(&tree)).await {
            Ok(None) => Ok(()),
            Ok(Some(paths)) if paths.is_empty() => Err(outdated("")),
            Ok(Some(paths)) => {
                Err(outdated(&format!(" since the workspace has changed: {}", paths.join(", "))))
            }
            Err(error) => Err(outdated(&format!(" since the workspace has changed: {error}"))),
        }
    }

    /// The transaction, if it changes what a person has seen and nothing else.
    pub(super) async fn as_shown(
        transaction: Transaction,
        shown: [u8; 32],
    ) -> Result<Transaction, Failure> {
        let compared = blocking(move || Ok((transaction.digest()? == shown, transaction))).await;
        match compared.map_err(|error| dispatch::not_committed(&error))? {
            (true, transaction) => Ok(transaction),
            (false, _) => Err(outdated("")),
        }
    }

    /// What a call would change, as a diff and its digest. None where running it would do something else as well. Ends with
    /// whoever waits for it.
    async fn preview(
        &self,
        executor: &Executor<'_>,
        id: &str,
        call: &GrantedCall,
        client: Client,
    ) -> Result<Option<(Vec<u8>, [u8; 32])>, Failure> {
        if !call.may_write() || call.reaches_out() {
            return Ok(None);
        }
        let begun = self.begin(client, call.time()).await;
        let transaction = begun.map_err(|error| dispatch::not_begun(&error))?;
        let (tree, contacts) = (transaction.overlay(), Contacts::default().into());
        let tried = executor.execute(id, call.clone(), tree, &contacts, pending()).await;
        if let Outcome::Failed(failure) = tried {
            return Err(failure);
        }
        let shown = blocking(move || Ok((transaction.diff()?, transaction.digest()?))).await;
        shown.map(Some).map_err(|error| dispatch::not_committed(&error))
    }
}

/// The failure of a call that would do something other than what the person saw. `why` continues its
/// message.
pub fn outdated(why: &str) -> Failure {
    let message = format!(
        "what this call would do is not, or no longer, what the person saw{why}; make the call \
         again without an answer"
    );
    Failure::new(Status::Denied, "ApprovalOutdated", message)
}
