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
use crate::runtime::blocking;
use cofferdam_core::outcome::{DenialCode, ErrorCode, FailedCode, Failure, Outcome};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{Fingerprint, FingerprintError, Preview, Transaction};

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
    /// The digest of that change ([`Preview::digest`]): a diff does not show all of it.
    pub change: Option<[u8; 32]>,
    /// The workspace when the person is asked, where there is no diff: what the call does may depend
    /// on anything in it.
    pub tree: Option<Fingerprint>,
}

impl Proposal {
    /// A digest of everything that was shown.
    pub fn digest(&self) -> String {
        let Self { tool, args, diff, change, tree: _ } = self;
        let mut shown = format!("{tool}\0{args}\0").into_bytes();
        // How a change is shown depends on the time that there is.
        match change {
            Some(change) => shown.extend(change),
            None => shown.extend(diff.iter().flatten()),
        }
        Digest::of(&shown).hex()
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
    pub(super) change: Option<[u8; 32]>,
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
        let tool = call.tool().qualified_name().to_string();
        let Some(approver) = &options.approver else {
            let message = format!(
                "each call of '{tool}' needs the yes of a person (`ask` in the settings), and \
                 nobody can be asked here; an MCP client that supports elicitation can"
            );
            return Err(Failure::new(DenialCode::ApprovalNeeded, message));
        };
        let mut cancel = options.cancel.clone();
        let ask = async {
            let preview = self.preview(executor, id, call, options.client).await?;
            let tree = match preview {
                None if !approver.was_asked() => Some(self.fingerprint(&tool).await?),
                _ => None,
            };
            let (diff, change) = preview.map(|Preview { diff, digest }| (diff, digest)).unzip();
            let proposal = Proposal { tool, args: call.args().clone(), diff, change, tree };
            let tree = approver.approve(&proposal).await?;
            Ok(Approved { change, tree })
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
                FingerprintError::TooLarge => Failure::new(DenialCode::WorkspaceTooLarge, message),
                FingerprintError::Changing(_) => Failure::new(ErrorCode::Conflict, message),
                FingerprintError::Io(_) => Failure::new(FailedCode::WorkspaceError, message),
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
        let compared =
            blocking(move || Ok((transaction.preview()?.digest == shown, transaction))).await;
        match compared.map_err(|error| dispatch::not_committed(&error))? {
            (true, transaction) => Ok(transaction),
            (false, _) => Err(outdated("")),
        }
    }

    /// What a call would change. None where running it would do something else as well. Ends with
    /// whoever waits for it.
    async fn preview(
        &self,
        executor: &Executor<'_>,
        id: &str,
        call: &GrantedCall,
        client: Client,
    ) -> Result<Option<Preview>, Failure> {
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
        let preview = blocking(move || transaction.preview()).await;
        preview.map(Some).map_err(|error| dispatch::not_committed(&error))
    }
}

/// The failure of a call that would do something other than what the person saw. `why` continues its
/// message.
pub fn outdated(why: &str) -> Failure {
    let message = format!(
        "what this call would do is not, or no longer, what the person saw{why}; make the call \
         again without an answer"
    );
    Failure::new(DenialCode::ApprovalOutdated, message)
}
