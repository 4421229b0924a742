//! Statistics of calls, computed from journal lines or the calls of this process: counts,
//! latencies, errors and fallbacks, per tool and in total (the tool schemas, "Observability
//! Metrics").
//!
//! | module | is for |
//! |---|---|
//! | [`latency`] | percentiles of latencies |
//! | [`timeline`] | calls over time |
//! | [`health`] | health checks of the host |
//! | [`plugin`] | usage of each plugin |
//! | [`alert`] | thresholds and advice |
//! | [`html`], [`markdown`], [`text`] | output formats |
//!
//! No I/O, except for reading the given lines. Memory is bounded for any input.

mod alert;
mod health;
mod html;
mod latency;
mod markdown;
mod plugin;
mod text;
mod timeline;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use jiff::Timestamp;
use serde::Serialize;

pub use alert::{Alert, AlertKind};
pub use health::HealthSummary;
pub use latency::Figures;
pub use plugin::PluginUse;
pub use timeline::{Bucket, Timeline};

use crate::journal::{Entry, Event, Lines, Record};
use cofferdam_core::outcome::Status;
use cofferdam_text::shorten;
use health::Health;
use latency::Latencies;
use plugin::Uses;
use timeline::Times;

/// How many tools, reasons and sources are distinguished, since agents can invent any number of
/// names.
const MAX_NAMES: usize = 500;

/// The name under which everything beyond [`MAX_NAMES`] is counted.
const OTHER_NAMES: &str = "(others)";

/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// How many unreadable lines are listed.
const MAX_PROBLEMS: usize = 20;

/// Selects the entries that are counted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only calls and events of this tool, given by its name or the part of a qualified name after
    /// the dot.
    pub tool: Option<String>,
}

/// Collects statistics from journal entries.
#[derive(Debug, Default)]
pub struct Stats {
    filter: Filter,
    period: Option<Period>,
    total: Tally,
    tools: BTreeMap<String, Tally>,
    plugins: BTreeMap<String, Uses>,
    reasons: BTreeMap<String, u64>,
    sources: BTreeMap<String, u64>,
    commits: u64,
    callers: BTreeMap<String, u64>,
    decisions: BTreeMap<String, u64>,
    health: Health,
    times: Times,
    lines: LineCount,
}

/// The time from the first to the last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Period {
    /// The time of the first entry.
    pub from: Timestamp,
    /// The time of the last entry.
    pub to: Timestamp,
}

/// Counts the calls of one tool, or of all.
#[derive(Debug, Default)]
struct Tally {
    outcomes: BTreeMap<Status, u64>,
    nested: u64,
    latencies: Latencies,
    /// The latencies of calls that ran no programs and asked no agents.
    own_latencies: Latencies,
    fallbacks: u64,
}

/// Counts the lines that were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LineCount {
    /// The number of lines that are not blank.
    pub read: u64,
    /// The number of lines that could not be parsed.
    pub unreadable: u64,
    /// The first lines that could not be parsed.
    pub problems: Vec<LineProblem>,
}

/// A line that could not be parsed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineProblem {
    /// The name of the file.
    pub file: String,
    /// The line number, counted from 1.
    pub line: u64,
    /// A description of the problem.
    pub problem: String,
}

/// All statistics of the collected entries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The time of the counted entries; `None` if there are none.
    pub period: Option<Period>,
    /// The statistics of all calls.
    pub total: Scope,
    /// Calls by tool, sorted by name.
    pub tools: Vec<Scope>,
    /// Usage by plugin, sorted by name; tools without a plugin's name are omitted.
    pub plugins: Vec<PluginUse>,
    /// Fallbacks by reason and source.
    pub fallbacks: Fallbacks,
    /// Health checks of the host.
    pub health: HealthSummary,
    /// The number of commits.
    pub commits: u64,
    /// The number of calls by client, role and agent: `claude-code 2.1.0 (coder, agent opus)`.
    pub callers: BTreeMap<String, u64>,
    /// The number of decisions of users, by answer: `yes`, `yes, for a pattern`, `no`, `accepted` and so on.
    pub decisions: BTreeMap<String, u64>,
    /// The number of calls over time.
    pub timeline: Timeline,
    /// Values above a threshold.
    pub alerts: Vec<Alert>,
    /// The lines that were read.
    pub lines: LineCount,
}

/// The statistics of one tool, or of all calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scope {
    /// The tool's name in the journal, or `total`.
    pub name: String,
    /// The number of calls, without skipped ones.
    pub calls: u64,
    /// The number of calls that other calls made, such as scripts.
    #[serde(skip_serializing_if = "is_zero")]
    pub nested: u64,
    /// The number of calls that did not succeed.
    pub errors: u64,
    /// `errors / calls`; `None` without calls.
    pub error_rate: Option<f64>,
    /// The number of calls that were cancelled, or not begun because an earlier one failed.
    pub skipped: u64,
    /// The number of activated fallbacks.
    pub fallbacks: u64,
    /// `fallbacks / calls`; `None` without calls.
    pub fallback_rate: Option<f64>,
    /// The latencies of the calls, in milliseconds.
    pub latency_ms: Figures,
    /// The 95th percentile of the latencies of calls that ran no programs and asked no agents.
    #[serde(skip)]
    own_p95_ms: f64,
    /// The number of calls by outcome.
    pub outcomes: BTreeMap<Status, u64>,
}

/// Fallbacks: cases in which a service was not available and callers continued without it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fallbacks {
    /// The number of fallbacks by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The number of fallbacks by service or tool.
    pub sources: Vec<FallbackSource>,
}

/// The fallbacks of a service or a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FallbackSource {
    /// The tool in the event; if there is none, the service at the beginning of the reason:
    /// `context7` for `context7_timeout`.
    pub source: String,
    /// The number of fallbacks.
    pub fallbacks: u64,
    /// The number of calls of the tool, or of the tools whose names begin with the service's name.
    pub calls: u64,
    /// `fallbacks / calls`; `None` without calls.
    pub rate: Option<f64>,
}

impl Stats {
    /// Statistics of the entries that `filter` selects.
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Adds the lines of a file; `name` is the file's name in [`LineProblem`].
    ///
    /// # Errors
    /// I/O error if the file can't be read.
    pub fn read(&mut self, name: &str, lines: Lines<impl BufRead>) -> io::Result<()> {
        for line in lines {
            let line = line?;
            self.lines.read += 1;
            match line.entry {
                Ok(entry) => self.add(&entry),
                Err(problem) => self.problem(name, line.number, problem),
            }
        }
        Ok(())
    }

    fn problem(&mut self, file: &str, line: u64, problem: String) {
        self.lines.unreadable += 1;
        if self.lines.problems.len() < MAX_PROBLEMS {
            self.lines.problems.push(LineProblem { file: file.to_owned(), line, problem });
        }
    }

    /// Adds one entry, if the filter selects it.
    pub fn add(&mut self, entry: &Entry) {
        let time = match entry {
            Entry::Call(record) => record.timestamp,
            Entry::Commit(commit) => commit.timestamp,
            Entry::Health(health) => health.timestamp,
            Entry::Event(event) => event.timestamp,
        };
        let is_wanted = match (entry, &self.filter.tool) {
            (Entry::Call(record), Some(tool)) => is_tool(&record.tool, tool),
            (Entry::Event(event), Some(tool)) => covers(source(event), tool),
            (Entry::Commit(_) | Entry::Health(_), Some(_)) => false,
            (_, None) => true,
        };
        if !is_wanted || self.filter.since.is_some_and(|since| time < since) {
            return;
        }
        let Period { from, to } = self.period.unwrap_or(Period { from: time, to: time });
        self.period = Some(Period { from: from.min(time), to: to.max(time) });
        match entry {
            Entry::Call(record) => {
                let outcome = record.outcome();
                for tally in [&mut self.total, named(&mut self.tools, &record.tool)] {
                    *tally.outcomes.entry(outcome).or_default() += 1;
                    tally.nested += u64::from(record.parent.is_some());
                    // Skipped calls have no latency.
                    if outcome != Status::Skipped {
                        tally.latencies.add(record.latency_ms);
                        if record.is_own_time() {
                            tally.own_latencies.add(record.latency_ms);
                        }
                    }
                }
                if let Some(client) = &record.client {
                    *named(&mut self.callers, &caller(client, record)) += 1;
                }
                if let Some(plugin) = record.plugin() {
                    named(&mut self.plugins, plugin).add(record);
                }
                self.times.call(time, outcome);
            }
            Entry::Event(event) if event.event == Event::FALLBACK => {
                self.total.fallbacks += 1;
                if let Some(tool) = &event.tool {
                    named(&mut self.tools, tool).fallbacks += 1;
                }
                *named(&mut self.reasons, &event.reason) += 1;
                *named(&mut self.sources, source(event)) += 1;
                self.times.fallback(time);
            }
            Entry::Event(event) => {
                if let Some(decision) = &event.decision {
                    *named(&mut self.decisions, &decision.answer) += 1;
                }
            }
            Entry::Commit(_) => self.commits += 1,
            Entry::Health(record) => self.health.add(record),
        }
    }

    /// The statistics of all added entries.
    pub fn summary(&self) -> Summary {
        let total = self.total.scope("total");
        let tools: Vec<Scope> = self.tools.iter().map(|(name, tally)| tally.scope(name)).collect();
        let source = |(source, &fallbacks): (&String, &u64)| {
            let calls = tools.iter().filter(|tool| covers(source, &tool.name));
            let calls = calls.map(|tool| tool.calls).sum();
            FallbackSource {
                source: source.clone(),
                fallbacks,
                calls,
                rate: rate(fallbacks, calls),
            }
        };
        let sources: Vec<FallbackSource> = self.sources.iter().map(source).collect();
        let health = self.health.summary();
        let alerts = alert::alerts(&total, &tools, &sources, &health);
        Summary {
            period: self.period,
            total,
            tools,
            plugins: self.plugins.iter().map(|(name, uses)| uses.of(name)).collect(),
            fallbacks: Fallbacks { reasons: self.reasons.clone(), sources },
            health,
            commits: self.commits,
            callers: self.callers.clone(),
            decisions: self.decisions.clone(),
            timeline: self.times.timeline(),
            alerts,
            lines: self.lines.clone(),
        }
    }
}

/// The name of who made a call: the client, and its role and agent where there are any.
fn caller(client: &str, record: &Record) -> String {
    let agent = record.agent.as_ref().map(|agent| format!("agent {agent}"));
    let more: Vec<String> = record.role.iter().cloned().chain(agent).collect();
    if more.is_empty() { client.to_owned() } else { format!("{client} ({})", more.join(", ")) }
}

impl Tally {
    fn scope(&self, name: &str) -> Scope {
        let of = |status| self.outcomes.get(&status).copied().unwrap_or_default();
        let skipped = of(Status::Skipped);
        let calls = self.outcomes.values().sum::<u64>() - skipped;
        let errors = calls - of(Status::Executed);
        Scope {
            name: name.to_owned(),
            calls,
            nested: self.nested,
            errors,
            error_rate: rate(errors, calls),
            skipped,
            fallbacks: self.fallbacks,
            fallback_rate: rate(self.fallbacks, calls),
            latency_ms: self.latencies.figures(),
            own_p95_ms: self.own_latencies.figures().p95,
            outcomes: self.outcomes.clone(),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns `part / whole`; `None` if `whole` is 0.
fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The counter of a name, shortened; the shared one if there are too many names.
fn named<'a, T: Default>(counts: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = shorten(name, MAX_NAME_BYTES);
    let is_one_more = counts.len() >= MAX_NAMES && !counts.contains_key(&name);
    counts.entry(if is_one_more { OTHER_NAMES.to_owned() } else { name }).or_default()
}

/// Whether `wanted` is the tool's name, or the part of it after the dot.
fn is_tool(tool: &str, wanted: &str) -> bool {
    tool == wanted || short(tool) == wanted
}

fn short(tool: &str) -> &str {
    tool.rsplit_once('.').map_or(tool, |(_, name)| name)
}

/// The service or the tool whose failure caused a fallback.
fn source(event: &Event) -> &str {
    let service = || event.reason.split('_').next().unwrap_or_default();
    event.tool.as_deref().unwrap_or_else(service)
}

/// Whether fallbacks of `source` belong to a tool: it is the source itself, or has a name such as
/// `docs.context7_query_docs` for the service `context7`.
fn covers(source: &str, tool: &str) -> bool {
    let of_service = || short(tool).strip_prefix(source).is_some_and(|rest| rest.starts_with('_'));
    is_tool(source, tool) || is_tool(tool, source) || (!source.is_empty() && of_service())
}
