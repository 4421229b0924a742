//! How calls are run: what the caller chose, and what is looked up once for a run and a call.

use std::sync::Arc;

use tokio::sync::watch;

use super::approver::Approver;
use crate::call::{CallUsage, Observer};
use crate::telemetry::Origin;
use cofferdam_core::policy::{LimitSettings, Role, Scope};
use cofferdam_workspace::fair_queue::Client;

/// How an envelope is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The role that the calls are made under.
    pub role: Option<String>,
    /// Skip what comes after the first call that fails.
    pub fail_fast: bool,
    /// Commit what all calls change as one, or nothing if a call fails. Later calls see what
    /// earlier ones changed; what comes after the first that fails is skipped.
    pub atomic: bool,
    /// Commit nothing, and return what would be committed.
    pub dry_run: bool,
    /// Limits of every call, below those that hold anyway.
    pub limits: LimitSettings,
    /// The files and directories that calls may touch, of those that the role's scope holds;
    /// empty: all of them.
    pub scope: Vec<String>,
    /// Turns true when the run is cancelled.
    pub cancel: Option<watch::Receiver<bool>>,
    /// Receives messages and progress of these calls; `None`: the host's own observer does.
    pub observer: Option<Arc<dyn Observer>>,
    /// Asks the user; `None`: calls that need approval are denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// The client that they are made for: clients take turns.
    pub client: Client,
    /// Where the calls come from, for telemetry.
    pub origin: Origin,
}

/// One run of calls: what is looked up once for all of them.
pub(super) struct RunContext<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) role: Option<&'a Role>,
    /// The part of the role's scope that the calls may touch.
    pub(super) scope: &'a Scope,
}

/// One call of a run.
pub(super) struct ActiveCall<'a> {
    pub(super) run: &'a RunContext<'a>,
    /// Identifies it in the journal.
    pub(super) id: String,
    pub(super) usage: Arc<CallUsage>,
}
