//! Actions that plugins ask consent for and that the user has to be asked about. The instance ends at such
//! a request, and nothing that the call changed is kept. With the answer the call is made again: after a no
//! the plugin is refused as if nothing had been granted.

use super::Host;
use super::approver::Proposal;
use super::cancel::cancelled;
use super::context::{ActiveCall, RunOptions};
use crate::call::{ConsentGuard, ConsentRequest};
use crate::dispatch::{self, GrantedCall};
use cofferdam_core::outcome::{DenialCode, Failure};

/// The guard of a call that is about to be made. The user is not asked about calls that call tools: what
/// those have done can't be done again.
pub(super) fn guard(options: &RunOptions, call: &GrantedCall) -> ConsentGuard {
    let has_rules = !call.permissions.grant.consent.is_empty();
    // Last, since it looks for a program that answers.
    let can_ask = || options.approver.as_ref().is_some_and(|approver| approver.can_ask());
    ConsentGuard::new(has_rules && !call.calls_tools() && can_ask())
}

impl ActiveCall<'_> {
    /// Whether the user may have to be asked about something that the call does.
    pub(super) fn may_ask(&self) -> bool {
        self.secrets.may_ask() || self.consents.may_ask() || self.questions.may_ask()
    }
}

impl Host {
    /// Asks the user about an action, and notes the answer.
    ///
    /// # Errors
    /// The call ends: the user has not answered yet, or could not be asked.
    pub(super) async fn ask_consent(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        request: ConsentRequest,
    ) -> Result<(), Failure> {
        let options = active.run.options;
        let Some(approver) = &options.approver else {
            active.consents.answered(request, Err(String::new()));
            return Ok(());
        };
        let consent = Some(request.clone());
        let proposal = Proposal { consent, for_session: true, ..Proposal::about(call) };
        let answered = tokio::select! {
            answered = self.ask_user(active, approver.as_ref(), &proposal) => answered,
            () = cancelled(options.cancel.clone()) => return Err(dispatch::cancelled()),
        };
        let answer = match answered {
            Ok(_) => Ok(()),
            Err(failure) if failure.code.as_str() == DenialCode::Declined.as_str() => {
                Err(failure.message)
            }
            Err(failure) => return Err(failure),
        };
        active.consents.answered(request, answer);
        Ok(())
    }
}
