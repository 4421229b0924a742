//! Calls that a person has to say yes to.

use std::fmt;
use std::future::pending;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::run::cancelled;
use super::{Host, RunOptions};
use crate::capability::Contacts;
use crate::dispatch::{self, Executor, GrantedCall};
use crate::line::Client;
use crate::outcome::{Failure, Outcome, Status};
use crate::plugin::digest::Digest;
use crate::runtime::blocking;
use crate::workspace::Transaction;

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
}

impl Proposal {
    /// A digest of everything that was shown.
    pub fn digest(&self) -> String {
        let Self { tool, args, diff } = self;
        let mut shown = format!("{tool}\0{args}\0").into_bytes();
        shown.extend(diff.iter().flatten());
        Digest::of(&shown).hex()
    }
}

/// Whoever can ask a person.
pub trait Approver: Send + Sync {
    /// Asks. Ends without an error only if the person said yes.
    fn approve<'a>(&'a self, proposal: &'a Proposal) -> BoxFuture<'a, Result<(), Failure>>;
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}

impl Host {
    /// Has a person asked, where the policy wants that for this call. Answers what the call may
    /// change, where that was shown.
    pub(super) async fn approved(
        &self,
        executor: &Executor<'_>,
        id: &str,
        call: &GrantedCall,
        options: &RunOptions,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if !call.needs_approval() {
            return Ok(None);
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
            let diff = self.preview(executor, id, call, options.client).await?;
            let proposal = Proposal { tool, args: call.args().clone(), diff };
            approver.approve(&proposal).await.map(|()| proposal.diff)
        };
        tokio::select! {
            approved = ask => approved,
            () = cancelled(&mut cancel) => Err(dispatch::cancelled()),
        }
    }

    /// The transaction, if it changes what a person has seen and nothing else.
    pub(super) async fn as_shown(
        transaction: Transaction,
        shown: Vec<u8>,
    ) -> Result<Transaction, Failure> {
        let compared = blocking(move || Ok((transaction.diff()? == shown, transaction))).await;
        match compared.map_err(|error| dispatch::not_committed(&error))? {
            (true, transaction) => Ok(transaction),
            (false, _) => Err(outdated()),
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
    ) -> Result<Option<Vec<u8>>, Failure> {
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
        let diff = blocking(move || transaction.diff()).await;
        diff.map(Some).map_err(|error| dispatch::not_committed(&error))
    }
}

/// What a call that would do something other than what the person saw answers.
pub fn outdated() -> Failure {
    let message = "what this call would do is not, or no longer, what the person saw; make the call \
                   again without an answer";
    Failure::new(Status::Denied, "ApprovalOutdated", message)
}
