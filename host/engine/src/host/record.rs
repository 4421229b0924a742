//! Records calls and refusals in the journal, the statistics and telemetry.

use std::sync::PoisonError;

use super::Host;
use super::context::RunOptions;
use crate::dispatch::{CallProblem, Refusal};
use crate::journal::{Entry, Event, Record};
use crate::telemetry::Origin;
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_plugin::registry::ToolEntry;

impl Host {
    /// Adds the result of a call to the journal, the statistics and telemetry.
    pub(super) fn record(&self, record: Record, tool: Option<&ToolEntry>, origin: &Origin) {
        if let Some(telemetry) = &self.shared.telemetry {
            telemetry.ended(&record, tool.map(ToolEntry::qualified_name).as_deref(), origin);
        }
        let fallback = tool.and_then(|tool| fallback(tool, &record));
        self.append(Entry::Call(record.into()));
        if let Some(event) = fallback {
            self.append(Entry::Event(event));
        }
    }

    pub(super) fn append(&self, entry: Entry) {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
        self.shared.journal.append(&entry);
    }

    /// Records each refused call with its first problem, under the tool's own name: the qualified
    /// one if there is such a tool. `tool` is the tool of a single call; an envelope that is refused
    /// as a whole is recorded as `-`. `parent` is the call that made it.
    pub(super) fn record_refusal(
        &self,
        refusal: &Refusal,
        tool: Option<&str>,
        options: &RunOptions,
        parent: Option<&str>,
    ) {
        let role = options.role.as_deref();
        let known_role = role.and_then(|role| self.policy.role(role));
        let mut recorded = None;
        for CallProblem { code, call, tool: named, problem } in &refusal.problems {
            if recorded.replace(*call) == Some(*call) {
                continue;
            }
            let outcome = Outcome::Failed(Failure::new(*code, problem.to_string()));
            let name = named.as_deref().or(tool).unwrap_or("-");
            let entry = self.registry.resolve(name, known_role).ok();
            let name =
                entry.map_or_else(|| name.to_owned(), |entry| entry.qualified_name().to_string());
            let id = uuid::Uuid::now_v7().to_string();
            let mut record = Record::new(&id, &name, role, &outcome, 0.0);
            record.parent = parent.map(str::to_owned);
            options.name_caller(&mut record);
            self.record(record, entry.map(AsRef::as_ref), &options.origin);
        }
    }
}

/// The event that a tool was not available, if its manifest declares the failure as a fallback.
fn fallback(tool: &ToolEntry, record: &Record) -> Option<Event> {
    let reason = tool.tool().fallbacks.get(record.code.as_ref()?)?;
    Some(Event::fallback(reason, record))
}
