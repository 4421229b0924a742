//! Asks the user to approve calls, and checks that nothing changed since.

use std::future::pending;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::Host;
use super::approver::{Approval, Approver, Proposal};
use super::cancel::cancelled;
use super::context::ActiveCall;
use super::ended::Performed;
use crate::call::{ConsentGuard, Later};
use crate::dispatch::{self, GrantedCall};
use crate::journal::{DecisionRecord, Entry, Event, bounded};
use crate::runtime::blocking;
use cofferdam_core::outcome::{DenialCode, ErrorCode, FailedCode, Failure, Outcome};
use cofferdam_workspace::{Fingerprint, FingerprintError, Preview, Transaction};

/// An approval by the user.
#[derive(Clone, Copy, Default)]
pub(super) struct Approved {
    /// The digest of the change, if the user approved a diff.
    pub(super) change: Option<[u8; 32]>,
    /// The state of the workspace that must not change until the call has run.
    pub(super) tree: Option<Fingerprint>,
    /// Whether the user saw this call. If not, an earlier one was approved for the session.
    pub(super) was_shown: bool,
}

impl Host {
    /// Asks the user to approve this call if the policy requires it.
    pub(super) async fn approved(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
    ) -> Result<Approved, Failure> {
        if !call.needs_approval() {
            return Ok(Approved::default());
        }
        let options = active.run.options;
        let tool = call.call().tool().qualified_name().to_string();
        if let Some(approver) = options.session.approver(&tool, call.call().args()) {
            active.usage.approved_by(&format!("{approver}, with an earlier call"));
            return Ok(Approved::default());
        }
        let Some(approver) = &options.approver else {
            let message = format!(
                "each call of '{tool}' needs the yes of a person (`ask` in the settings), and \
                 nobody can be asked here; an MCP client that supports elicitation can"
            );
            return Err(Failure::new(DenialCode::ApprovalNeeded, message));
        };
        let ask = async {
            let preview = self.preview_with_answers(active, call).await?;
            let tree = match preview {
                None if !approver.was_asked() => Some(self.fingerprint(&tool).await?),
                _ => None,
            };
            let (diff, change) = preview.map(|Preview { diff, digest }| (diff, digest)).unzip();
            let proposal =
                Proposal { diff, change, tree, for_session: true, ..Proposal::about(call) };
            let approval = self.ask_user(active, approver.as_ref(), &proposal).await?;
            Ok(Approved { change, tree: approval.tree, was_shown: true })
        };
        tokio::select! {
            approved = ask.boxed() => approved,
            () = cancelled(options.cancel.clone()) => Err(dispatch::cancelled()),
        }
    }

    /// Asks the user, and records the answer with the beginning of what was shown.
    pub(super) async fn ask_user(
        &self,
        active: &ActiveCall<'_>,
        approver: &dyn Approver,
        proposal: &Proposal,
    ) -> Result<Approval, Failure> {
        let options = active.run.options;
        let answered = approver.approve(proposal).await;
        let name = approver.answered_by().map_or_else(|| approver_name(active), str::to_owned);
        let declined = DenialCode::Declined.as_str();
        let (answer, comment) = match &answered {
            Ok(Approval { later: Later::All, .. }) => ("yes, for this session", None),
            Ok(Approval { later: Later::Like(pattern, time), .. }) => {
                let minutes = time.as_secs() / 60;
                let like = format!("for {minutes} min, like {}", pattern.json());
                ("yes, for a pattern", Some(bounded(&like)))
            }
            Ok(_) => ("yes", None),
            Err(failure) if failure.code.as_str() == declined => {
                ("no", Some(bounded(&failure.message)))
            }
            // The user has not been asked yet.
            Err(_) => return answered,
        };
        if let Ok(approval) = &answered {
            active.usage.approved_by(&name);
            match &proposal.consent {
                Some(request) if approval.later == Later::All => {
                    options.session.consents().add(request.clone());
                }
                Some(_) => {}
                None if proposal.for_session => {
                    options.session.approve(&proposal.tool, &approval.later, &name);
                }
                None => {}
            }
        }
        let mut event = Event::decided(
            Event::APPROVAL,
            DecisionRecord {
                answer: answer.to_owned(),
                approver: name,
                comment,
                client: options.client_name.clone(),
                session: Some(options.session.name().to_string()),
                role: options.role.clone(),
                shown: shown(proposal),
                ..DecisionRecord::default()
            },
        );
        event.tool = Some(proposal.tool.clone());
        event.call = Some(active.id.clone());
        self.append(Entry::Event(event));
        answered
    }

    /// The state of the workspace, for a question about a call of `tool`.
    pub(super) async fn fingerprint(&self, tool: &str) -> Result<Fingerprint, Failure> {
        let workspace = Arc::clone(&self.services.workspace);
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

    /// Runs a call if the workspace has not changed since the user was asked. Checks this again
    /// before its changes are committed, unless the call changes the workspace itself: by agents, which
    /// make calls of their own, or by a commit to git.
    pub(super) async fn run_if_unchanged(
        &self,
        approved: &Approved,
        changes_itself: bool,
        run: impl Future<Output = Performed>,
    ) -> Result<Performed, Failure> {
        self.check_unchanged(approved).await?;
        let performed = run.await;
        if !changes_itself && matches!(performed.outcome, Outcome::Executed(_)) {
            self.check_unchanged(approved).await?;
        }
        Ok(performed)
    }

    async fn check_unchanged(&self, approved: &Approved) -> Result<(), Failure> {
        let Some(tree) = approved.tree else { return Ok(()) };
        let workspace = Arc::clone(&self.services.workspace);
        match blocking(move || workspace.changed_since(&tree)).await {
            Ok(None) => Ok(()),
            Ok(Some(paths)) if paths.is_empty() => Err(outdated("")),
            Ok(Some(paths)) => {
                Err(outdated(&format!(" since the workspace has changed: {}", paths.join(", "))))
            }
            Err(error) => Err(outdated(&format!(" since the workspace has changed: {error}"))),
        }
    }

    /// Returns the transaction if its changes are exactly those that the user approved.
    pub(super) async fn if_as_previewed(
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

    /// Previews the changes of a call, after the user has answered its questions.
    async fn preview_with_answers(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
    ) -> Result<Option<Preview>, Failure> {
        loop {
            let previewed = self.preview(active, call).await;
            let Some(questions) = active.questions.wanted() else { return previewed };
            self.ask_questions(active, call, questions).await?;
        }
    }

    /// Previews the changes of a call. Returns `None` if the call may have other effects.
    async fn preview(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
    ) -> Result<Option<Preview>, Failure> {
        if !call.may_write() || call.reaches_out() {
            return Ok(None);
        }
        let begun = self.begin(active.run.options, call.limits.call).await;
        let transaction = begun.map_err(|error| dispatch::not_begun(&error))?;
        // The usage of the preview is not recorded.
        let (run, id) = (active.run, active.id.clone());
        let secrets = Arc::clone(&active.secrets);
        let (usage, consents) = (Arc::default(), Arc::new(ConsentGuard::preview()));
        // The answers to its questions decide what it changes.
        let questions = Arc::clone(&active.questions);
        let preview = ActiveCall { run, id, usage, secrets, consents, questions, progress: None };
        let tried =
            self.execute_call(&preview, call.clone(), transaction.overlay(), pending()).await;
        if let Outcome::Failed(failure) = tried {
            return Err(failure);
        }
        let preview = blocking(move || transaction.preview()).await;
        preview.map(Some).map_err(|error| dispatch::not_committed(&error))
    }
}

/// The user of the client, for the record.
pub(super) fn approver_name(active: &ActiveCall<'_>) -> String {
    match &active.run.options.client_name {
        Some(client) => format!("the user of {client}"),
        None => "the user".to_owned(),
    }
}

/// The beginning of what the user is shown.
fn shown(proposal: &Proposal) -> String {
    if let Some(request) = &proposal.consent {
        return bounded(&format!("{request}: {}", proposal.args));
    }
    match (&proposal.flow, &proposal.diff) {
        (Some(flow), _) => bounded(&format!("{flow}: {}", proposal.args)),
        (None, Some(diff)) => bounded(&String::from_utf8_lossy(diff)),
        (None, None) => bounded(&proposal.args.to_string()),
    }
}

/// The failure of a call that would have other effects than those that the user approved. `why` is
/// the end of the message.
pub fn outdated(why: &str) -> Failure {
    let message = format!(
        "what this call would do is not, or no longer, what the person saw{why}; make the call \
         again without an answer"
    );
    Failure::new(DenialCode::ApprovalOutdated, message)
}
