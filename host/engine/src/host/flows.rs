//! Calls that would send something to an origin after they, or their session, have read a secret that
//! the origin may not receive. Such a call is stopped before it sends, and nothing that it changed is
//! kept. If the user approves, it is made again.

use std::collections::BTreeSet;

use super::Host;
use super::approver::Proposal;
use super::cancel::cancelled;
use super::context::ActiveCall;
use crate::call::SecretFlow;
use crate::dispatch::{self, GrantedCall};
use cofferdam_core::outcome::{DenialCode, Failure, Outcome, SkippedCode};

/// How many questions one call may lead to.
const MAX_QUESTIONS: usize = 8;

impl Host {
    /// Asks the user whether a call may send what it was stopped at.
    pub(super) async fn approved_flow(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        flow: SecretFlow,
    ) -> Result<(), Failure> {
        let options = active.run.options;
        let Some(approver) = &options.approver else {
            let why = "and nobody can be asked here; an MCP client that supports elicitation can";
            return Err(not_sent(&flow, why));
        };
        let proposal = Proposal { flow: Some(flow.clone()), ..Proposal::about(call) };
        tokio::select! {
            approved = self.ask_user(active, approver.as_ref(), &proposal) => approved.map_err(|failure| {
                match failure.code.as_str() == DenialCode::ApprovalNeeded.as_str() {
                    true => not_sent(&flow, &format!("and {}", failure.message)),
                    false => failure,
                }
            }).map(drop)?,
            () = cancelled(options.cancel.clone()) => return Err(dispatch::cancelled()),
        };
        match active.secrets.approve(flow.clone()) {
            ..=MAX_QUESTIONS => Ok(()),
            _ => Err(not_sent(&flow, &format!("after {MAX_QUESTIONS} questions"))),
        }
    }
}

impl ActiveCall<'_> {
    /// Adds what the call has read to its session. Returns the names of the secrets.
    pub(super) fn note_reads(&self, outcome: &Outcome) -> Vec<String> {
        let own = self.secrets.own();
        let names: BTreeSet<&String> = own.iter().map(|read| &read.secret).collect();
        let names = names.into_iter().cloned().collect();
        let pending = SkippedCode::ApprovalPending.as_str();
        // The call is made again with the answer, and has to read and send the same then.
        if !matches!(outcome, Outcome::Failed(failure) if failure.code.as_str() == pending) {
            self.run.options.session.reads().add(own);
        }
        names
    }
}

/// The failure of a call that was stopped before it sent something. `why` is the end of the message's
/// first sentence.
pub(super) fn not_sent(flow: &SecretFlow, why: &str) -> Failure {
    let message = format!(
        "nothing was sent: {flow}, which the settings do not allow {why}. A person can allow it by {}",
        flow.remedy()
    );
    Failure::new(DenialCode::SecretFlow, message)
}
