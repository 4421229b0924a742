//! The proposal on which a transaction is based.

use std::collections::{BTreeMap, BTreeSet};

use crate::commit::Commit;
use crate::overlay::Entry;

/// A proposal on which a transaction is based.
pub(crate) struct Stacked {
    pub(crate) commit: Commit,
    /// Paths of the proposal that the tree does not show.
    pub(crate) left_out: BTreeSet<String>,
    /// What was staged before the call.
    pub(crate) entries: BTreeMap<String, Entry>,
}
