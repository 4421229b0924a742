//! Figures about calls, made from the journal's lines or the calls of this process: how many, how
//! long, how many errors and fallbacks, per tool and in total (S4, "Observability Metrics").
//!
//! | module | what |
//! |---|---|
//! | [`latency`] | percentiles; there is no other place that computes any |
//! | [`timeline`] | how many calls when |
//! | [`health`] | the checks of the host's health |
//! | [`plugin`] | what the calls of each plugin have used |
//! | [`alert`] | S4's thresholds and what it advises |
//! | [`html`], [`markdown`], [`text`] | the figures for people |
//!
//! Pure, except that it reads the lines that it is given. Memory is bounded, whatever they say.

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

use crate::journal::{Entry, Event, Lines};
use cofferdam_core::outcome::Status;
use cofferdam_text::shorten;
use health::Health;
use latency::Latencies;
use plugin::Uses;
use timeline::Times;

/// How many tools, reasons and sources are told apart. Names are what agents wrote.
const MAX_NAMES: usize = 500;

/// Where everything beyond [`MAX_NAMES`] is counted.
const OTHERS: &str = "(others)";

/// How long a name may be, in bytes.
const MAX_NAME: usize = 128;

/// How many lines that can't be read are named.
const MAX_PROBLEMS: usize = 20;

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only what happened then or later.
    pub since: Option<Timestamp>,
    /// Only calls of this tool, and what happened to it: its name, or what stands behind the dot
    /// of a qualified name.
    pub tool: Option<String>,
}

/// Takes lines in.
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
    health: Health,
    times: Times,
    lines: LineCount,
}

/// From the first moment to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Period {
    /// The first.
    pub from: Timestamp,
    /// The last.
    pub to: Timestamp,
}

/// The calls of one tool, or of all.
#[derive(Debug, Default)]
struct Tally {
    outcomes: BTreeMap<Status, u64>,
    latencies: Latencies,
    fallbacks: u64,
}

/// The lines that were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LineCount {
    /// Those that are not blank.
    pub read: u64,
    /// Those of them that could not be understood.
    pub unreadable: u64,
    /// The first ones of those.
    pub problems: Vec<LineProblem>,
}

/// A line that could not be understood.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineProblem {
    /// In which file.
    pub file: String,
    /// Which one, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// When what was counted happened; none where nothing was.
    pub period: Option<Period>,
    /// All calls.
    pub total: Scope,
    /// By tool, in the order of their names.
    pub tools: Vec<Scope>,
    /// By plugin, in the order of their names; tools without a plugin's name are left out.
    pub plugins: Vec<PluginUse>,
    /// The fallbacks.
    pub fallbacks: Fallbacks,
    /// The checks of the host's health.
    pub health: HealthSummary,
    /// How many commits there were.
    pub commits: u64,
    /// When the calls were.
    pub timeline: Timeline,
    /// What is above a threshold of S4.
    pub alerts: Vec<Alert>,
    /// What the figures were made from.
    pub lines: LineCount,
}

/// The figures of one tool, or of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scope {
    /// The tool's name as it stands in the journal, or `total`.
    pub name: String,
    /// Calls that were made: all but those that were skipped.
    pub calls: u64,
    /// Calls that did not succeed.
    pub errors: u64,
    /// `errors / calls`; none without calls.
    pub error_rate: Option<f64>,
    /// Calls that were cancelled or not begun, because an earlier one failed.
    pub skipped: u64,
    /// How often a fallback was activated.
    pub fallbacks: u64,
    /// `fallbacks / calls`; none without calls.
    pub fallback_rate: Option<f64>,
    /// How long the calls took.
    pub latency_ms: Figures,
    /// All of them, by how they ended.
    pub outcomes: BTreeMap<Status, u64>,
}

/// When tools went on without what they ask for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fallbacks {
    /// How often, by the reason that was given.
    pub reasons: BTreeMap<String, u64>,
    /// How often, by what was missed.
    pub sources: Vec<FallbackSource>,
}

/// A service or a tool that was done without.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FallbackSource {
    /// The tool that an event names; where it names none, the service that its reason begins
    /// with: `context7` for `context7_timeout`.
    pub source: String,
    /// How often.
    pub fallbacks: u64,
    /// The calls of that tool, or of the tools whose names begin with that service's.
    pub calls: u64,
    /// `fallbacks / calls`; none without calls.
    pub rate: Option<f64>,
}

impl Stats {
    /// Takes in what `filter` lets through.
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Takes in the lines of a file, one after the other; `name` is the file's for whoever looks
    /// for a line that can't be understood.
    ///
    /// # Errors
    /// The file can't be read on.
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

    /// Takes in one entry.
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
                    // What was not done took no time.
                    if outcome != Status::Skipped {
                        tally.latencies.add(record.latency_ms);
                    }
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
            Entry::Event(_) => {}
            Entry::Commit(_) => self.commits += 1,
            Entry::Health(record) => self.health.add(record),
        }
    }

    /// The figures of everything that was taken in.
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
            timeline: self.times.timeline(),
            alerts,
            lines: self.lines.clone(),
        }
    }
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
            errors,
            error_rate: rate(errors, calls),
            skipped,
            fallbacks: self.fallbacks,
            fallback_rate: rate(self.fallbacks, calls),
            latency_ms: self.latencies.figures(),
            outcomes: self.outcomes.clone(),
        }
    }
}

/// A part of a whole.
fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What is counted under a name.
fn named<'a, T: Default>(counts: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = shorten(name, MAX_NAME);
    let is_one_more = counts.len() >= MAX_NAMES && !counts.contains_key(&name);
    counts.entry(if is_one_more { OTHERS.to_owned() } else { name }).or_default()
}

/// Whether `wanted` means the tool: its name, or what stands behind the dot of it.
fn is_tool(tool: &str, wanted: &str) -> bool {
    tool == wanted || short(tool) == wanted
}

fn short(tool: &str) -> &str {
    tool.rsplit_once('.').map_or(tool, |(_, name)| name)
}

/// What a fallback did without.
fn source(event: &Event) -> &str {
    let service = || event.reason.split('_').next().unwrap_or_default();
    event.tool.as_deref().unwrap_or_else(service)
}

/// Whether a tool is the source of fallbacks or one of its tools: `context7` has
/// `docs.context7_query_docs`.
fn covers(source: &str, tool: &str) -> bool {
    let of_service = || short(tool).strip_prefix(source).is_some_and(|rest| rest.starts_with('_'));
    is_tool(source, tool) || is_tool(tool, source) || (!source.is_empty() && of_service())
}
