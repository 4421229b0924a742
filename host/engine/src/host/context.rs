//! The options of a run, and values that are looked up once for a run or a call.

use std::sync::Arc;

use tokio::sync::watch;

use super::approver::Approver;
use super::paused::Progress;
use crate::call::{CallUsage, ConsentGuard, Observer, QuestionGuard, SecretGuard, Session};
use crate::journal::Record;
use crate::telemetry::Origin;
use cofferdam_core::policy::{LimitSettings, Role, Scope};
use cofferdam_workspace::fair_queue::Client;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The role of the calls.
    pub role: Option<String>,
    /// Skip all calls after the first that fails.
    pub fail_fast: bool,
    /// Commit the changes of all calls as one commit, or nothing if a call fails. Calls see the
    /// changes of earlier calls; calls after the first that fails are skipped.
    pub atomic: bool,
    /// The key of an atomic run of an envelope in a copy of a store: its result is published with its
    /// changes.
    pub key: Option<String>,
    /// Commit nothing, and return the changes as a diff.
    pub dry_run: bool,
    /// Additional limits of every call: the lower one of each and the usual limit applies.
    pub limits: LimitSettings,
    /// The files and directories that calls may access, within the role's scope; empty: the whole
    /// scope.
    pub scope: Vec<String>,
    /// A channel whose value becomes true when the run is cancelled.
    pub cancel: Option<watch::Receiver<bool>>,
    /// Receives messages and progress of these calls; `None`: the host's own observer.
    pub observer: Option<Arc<dyn Observer>>,
    /// Asks the user for approval; `None`: calls that need approval are denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// The client of the calls: clients take turns.
    pub client: Client,
    /// The session of the calls: its commits can be listed and undone by them, and what it has read
    /// of secrets counts for all of them.
    pub session: Session,
    /// The client, as it names itself, for the record.
    pub client_name: Option<String>,
    /// The agent that makes the calls, by its name in the settings, for the record.
    pub agent: Option<String>,
    /// Hold the changes of all calls until a user accepts them.
    pub hold: bool,
    /// Leave notices for the session to later calls: only the host sees the results.
    pub leave_notices: bool,
    /// Whether results contain the bytes of images and other content that is not JSON.
    pub parts: bool,
    /// The origin of the calls, for telemetry.
    pub origin: Origin,
}

impl RunOptions {
    /// The options of calls in a session, which are the default ones otherwise.
    pub fn of(session: Session) -> Self {
        Self {
            role: None,
            fail_fast: false,
            atomic: false,
            key: None,
            dry_run: false,
            limits: LimitSettings::default(),
            scope: Vec::new(),
            cancel: None,
            observer: None,
            approver: None,
            client: Client::default(),
            session,
            client_name: None,
            agent: None,
            hold: false,
            leave_notices: false,
            parts: false,
            origin: Origin::default(),
        }
    }

    /// Adds who makes the call to its record.
    pub(super) fn name_caller(&self, record: &mut Record) {
        record.client.clone_from(&self.client_name);
        record.session = Some(self.session.name().to_string());
        record.agent.clone_from(&self.agent);
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::of(Session::default())
    }
}

/// Values that are looked up once for all calls of a run.
pub(super) struct RunContext<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) role: Option<&'a Role>,
    /// The part of the role's scope that the calls may access.
    pub(super) scope: &'a Scope,
}

/// A call of a run that is being made.
pub(super) struct ActiveCall<'a> {
    pub(super) run: &'a RunContext<'a>,
    /// Identifies the call in the journal.
    pub(super) id: String,
    pub(super) usage: Arc<CallUsage>,
    pub(super) secrets: Arc<SecretGuard>,
    /// What its plugins ask consent for.
    pub(super) consents: Arc<ConsentGuard>,
    /// What its plugins ask the user.
    pub(super) questions: Arc<QuestionGuard>,
    /// What it has done by calls of other tools, if it makes any.
    pub(super) progress: Option<Arc<Progress>>,
}
