//! The result of a call, and committing or discarding its changes.

use std::sync::Arc;
use std::time::Duration;

use crate::journal::Record;
use cofferdam_core::envelope::Answer;
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_workspace::{ExecutedFile, HeldChanges, KeptOutput};

/// The result of a call.
pub(super) struct Ended {
    pub(super) answer: Answer,
    pub(super) outputs: Vec<KeptOutput>,
    pub(super) tool: Arc<ToolEntry>,
    /// The journal record; `None` if it was written already.
    pub(super) record: Option<Record>,
    /// Whether its changes are staged and not committed yet.
    pub(super) is_staged: bool,
    /// Whether its changes are held until a user accepts them.
    pub(super) is_held: bool,
}

impl Ended {
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.answer.outcome, Outcome::Failed(_))
    }
}

/// The result of executing a call.
pub(super) struct Performed {
    pub(super) outcome: Outcome,
    pub(super) commit: Option<String>,
    /// Whether its changes have to be held until a user accepts them.
    pub(super) is_held: bool,
    /// The proposal that holds them.
    pub(super) held: Option<HeldChanges>,
    /// The written files that other programs execute by name.
    pub(super) executed: Vec<ExecutedFile>,
    /// How long it took to ask the user about them.
    pub(super) asked: Duration,
}

impl From<Outcome> for Performed {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            commit: None,
            is_held: false,
            held: None,
            executed: Vec::new(),
            asked: Duration::ZERO,
        }
    }
}

impl From<Failure> for Performed {
    fn from(failure: Failure) -> Self {
        Outcome::Failed(failure).into()
    }
}

/// The calls whose changes are staged, with their records.
pub(super) fn staged(ended: &mut [Ended]) -> impl Iterator<Item = (&mut Answer, &mut Record)> {
    ended.iter_mut().filter(|ended| ended.is_staged).filter_map(|ended| {
        let record = ended.record.as_mut()?;
        Some((&mut ended.answer, record))
    })
}

/// Turns the results of calls with staged changes into failures.
pub(super) fn discard(ended: &mut [Ended], failure: &Failure) {
    for (answer, record) in staged(ended) {
        answer.outcome = Outcome::Failed(failure.clone());
        // Others, such as notices of the user's decisions, are told once only.
        answer.warnings.retain(|warning| !record.executed.contains(warning));
        record.executed.clear();
        record.end(&answer.outcome);
    }
}
