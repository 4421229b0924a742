//! The interface for asking the user to approve a call.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::call::{ConsentRequest, Later, PluginQuestion, SecretFlow};
use crate::dispatch::GrantedCall;
use cofferdam_core::form::FormAnswer;
use cofferdam_core::outcome::{DenialCode, Failure};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{Fingerprint, PausedId};

/// The message if an answer belongs to no open question.
pub const NOT_OPEN: &str = "the requestState is not that of an open question; make the call again without \
                            it and without an answer";

/// A call that the user has to approve.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The tool's qualified name.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
    /// The changes as a unified diff, if the call has no other effects.
    pub diff: Option<Vec<u8>>,
    /// The digest of the changes ([`Preview::digest`](cofferdam_workspace::Preview::digest)), which
    /// the diff may not show completely.
    pub change: Option<[u8; 32]>,
    /// The state of the workspace when the user is asked, if there is no diff: the effects of the
    /// call may depend on anything in it.
    pub tree: Option<Fingerprint>,
    /// What the call would send although it has read secrets, if this is the question.
    pub flow: Option<SecretFlow>,
    /// The action that a plugin of the call asks consent for, if this is the question.
    pub consent: Option<ConsentRequest>,
    /// Whether the user may approve later calls of the tool in this session as well; or the same action, if
    /// the question is about one.
    pub for_session: bool,
    /// The call that was paused for this question, and continues with the answer.
    pub paused: Option<PausedId>,
}

/// A user's approval of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Approval {
    /// The state of the workspace when the user was asked ([`Proposal::tree`]), which may have been
    /// at an earlier call.
    pub tree: Option<Fingerprint>,
    /// Which later calls of the tool the user approves as well; only if the proposal offers that.
    pub later: Later,
}

impl Proposal {
    /// The question whether a call may be made; nothing else is shown yet.
    pub(super) fn about(call: &GrantedCall) -> Self {
        Self {
            tool: call.call().tool().qualified_name().into(),
            args: call.call().args().clone(),
            diff: None,
            change: None,
            tree: None,
            flow: None,
            consent: None,
            for_session: false,
            paused: None,
        }
    }

    /// A digest of everything that was shown, in hexadecimal.
    pub fn digest(&self) -> String {
        let Self { tool, args, diff, change, tree: _, flow, consent, for_session: _, paused: _ } =
            self;
        let mut shown = format!("{tool}\0{args}\0").into_bytes();
        // The diff depends on the time that is available to make it.
        match change {
            Some(change) => shown.extend(change),
            None => shown.extend(diff.iter().flatten()),
        }
        if let Some(flow) = flow {
            shown.extend(format!("\0{flow:?}").into_bytes());
        }
        if let Some(consent) = consent {
            shown.extend(format!("\0{consent:?}").into_bytes());
        }
        Digest::of(&shown).hex()
    }
}

/// Questions of the plugins of a call, which are asked together.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedForms {
    /// The tool's qualified name.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
    /// The questions, at least one.
    pub questions: Vec<PluginQuestion>,
}

/// The answers to [`AskedForms`], in the order of the questions.
#[derive(Debug, Clone, PartialEq)]
pub struct FormAnswers {
    /// One answer for each question.
    pub answers: Vec<FormAnswer>,
    /// Whether they were given just now, and not to an earlier attempt of the call.
    pub is_new: bool,
}

impl AskedForms {
    /// A digest of everything that was asked, in hexadecimal. It differs from that of any [`Proposal`].
    pub fn digest(&self) -> String {
        let Self { tool, args, questions } = self;
        let mut asked = format!("questions\0{tool}\0{args}\0").into_bytes();
        for PluginQuestion { plugin, message, form } in questions {
            let question = serde_json::json!([plugin, message, form.schema()]);
            asked.extend(format!("{question}\0").into_bytes());
        }
        Digest::of(&asked).hex()
    }
}

/// Asks the user to approve calls, and what the plugins of calls want to know.
pub trait Approver: Send + Sync {
    /// Asks the user about a call. Returns `Ok` only if the user approved it.
    fn approve<'a>(&'a self, proposal: &'a Proposal) -> BoxFuture<'a, Result<Approval, Failure>>;

    /// Asks the user questions of plugins, all at once where the client can do that.
    ///
    /// # Errors
    /// `ApprovalNeeded` if no user can be asked, which the plugin is told; any other failure ends the call.
    fn ask<'a>(&'a self, _: &'a AskedForms) -> BoxFuture<'a, Result<FormAnswers, Failure>> {
        let none = Failure::new(DenialCode::ApprovalNeeded, "no user can be asked here");
        Box::pin(std::future::ready(Err(none)))
    }

    /// Whether the user was asked at an earlier call, so that the approval may refer to an earlier
    /// state of the workspace.
    fn was_asked(&self) -> bool;

    /// Whether the user can be asked.
    fn can_ask(&self) -> bool {
        true
    }

    /// Who has answered the last question, if not the user of the client.
    fn answered_by(&self) -> Option<&str> {
        None
    }

    /// The paused call that the user was asked about at an earlier call, and has answered with this one.
    fn resumes(&self) -> Option<PausedId> {
        None
    }

    /// The failure of a call whose answer belongs to no open question.
    fn not_open(&self) -> Failure {
        Failure::new(DenialCode::ApprovalUnknown, NOT_OPEN)
    }
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}
