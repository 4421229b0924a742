//! What is recorded of calls and refusals: in the journal, the figures and telemetry.

use std::sync::PoisonError;

use super::{Host, RunOptions};
use crate::dispatch::{CallProblem, Refusal};
use crate::journal::{Entry, Event, Record};
use crate::telemetry::Origin;
use cofferdam_core::outcome::{Failure, Outcome};

impl Host {
    /// The journal, the figures and telemetry see every exit.
    pub(super) fn record(&self, record: Record, origin: &Origin) {
        if let Some(telemetry) = &self.standing.telemetry {
            let role = record.role.as_deref().and_then(|role| self.policy.role(role));
            let tool = self.registry.resolve(&record.tool, role).ok();
            telemetry.ended(&record, tool.map(|tool| tool.qualified_name()).as_deref(), origin);
        }
        let fallback = self.fallback(&record);
        self.append(Entry::Call(record));
        if let Some(event) = fallback {
            self.append(Entry::Event(event));
        }
    }

    pub(super) fn append(&self, entry: Entry) {
        self.standing.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
        self.standing.journal.append(&entry);
    }

    /// That whoever made the call has to do without the tool now, where its manifest says so.
    fn fallback(&self, record: &Record) -> Option<Event> {
        let code = record.code.as_ref()?;
        let tool = self.registry.resolve(&record.tool, None).ok()?;
        let reason = tool.tool().fallbacks.get(code)?;
        Some(Event::fallback(reason, record))
    }

    pub(super) fn record_refusal(&self, refusal: &Refusal, options: &RunOptions) {
        if let Some(CallProblem { code, tool, problem, .. }) = refusal.problems.first() {
            let outcome = Outcome::Failed(Failure::new(*code, problem.to_string()));
            let tool = tool.as_deref().unwrap_or("-");
            let id = uuid::Uuid::now_v7().to_string();
            let record = Record::new(&id, tool, options.role.as_deref(), &outcome, 0.0);
            self.record(record, &options.origin);
        }
    }
}
