//! How the user is asked to approve a call.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;

use cofferdam_core::outcome::Failure;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::Fingerprint;

/// A call that waits for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The tool's qualified name.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// What it would change, as a unified diff, where that can be found out without doing more
    /// than changing files.
    pub diff: Option<Vec<u8>>,
    /// The digest of that change ([`Preview::digest`](cofferdam_workspace::Preview::digest)): a diff
    /// does not show all of it.
    pub change: Option<[u8; 32]>,
    /// The workspace when the user is asked, where there is no diff: what the call does may depend
    /// on anything in it.
    pub tree: Option<Fingerprint>,
}

impl Proposal {
    /// A digest of what was shown, in hexadecimal.
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

/// Asks the user to approve calls.
pub trait Approver: Send + Sync {
    /// Asks. Returns no error only if the user approved: with the workspace as it was when they
    /// were asked ([`Proposal::tree`]), which may have been at an earlier call.
    fn approve<'a>(
        &'a self,
        proposal: &'a Proposal,
    ) -> BoxFuture<'a, Result<Option<Fingerprint>, Failure>>;

    /// Whether the user was asked at an earlier call, so that the answer is not about the workspace
    /// of this moment.
    fn was_asked(&self) -> bool;
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}
