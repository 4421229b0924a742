//! Sums up the reports of all agents by phase and wave: findings by agent, duration of each wave,
//! missing reports, and contradictions.
//!
//! An agent may have several reports about a phase, since saving never replaces one. The report
//! with the highest number in its name counts; earlier ones are listed.

mod html;
mod markdown;
mod text;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Number;

use super::place::Place;
use super::report::{Agent, Args, Finding, Report, Summary, Wave};

/// A file in the directory of reports.
#[derive(Debug, Clone)]
pub struct File {
    /// The file's path, relative to the workspace.
    pub path: String,
    /// The file's contents, or why it could not be read.
    pub contents: Result<Vec<u8>, String>,
}

/// Selects the reports to sum up.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only reports about this phase.
    pub phase: Option<f64>,
    /// Only reports of this wave.
    pub wave: Option<Wave>,
}

/// The sums over all selected reports.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    /// The number of findings in all phases.
    pub totals: Summary,
    /// The phases, by number.
    pub phases: Vec<PhaseOverview>,
    /// All findings: by severity, then phase, wave and agent, then in the order of submission.
    pub findings: Vec<Reported>,
    /// Contradictions between or within reports.
    pub contradictions: Vec<ReportProblem>,
    /// Files that are not valid reports.
    pub unreadable: Vec<ReportProblem>,
}

/// The reports about one phase.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseOverview {
    /// The number of the phase.
    pub phase: Number,
    /// The number of findings in this phase.
    pub totals: Summary,
    /// Seconds from the first agent's start to the last one's end; `None` if no report has times.
    pub elapsed_seconds: Option<f64>,
    /// The phase's waves, in order.
    pub waves: Vec<WaveOverview>,
}

/// The reports of one wave of a phase.
#[derive(Debug, Clone, Serialize)]
pub struct WaveOverview {
    /// The first or the second wave.
    pub wave: Wave,
    /// The number of findings in this wave.
    pub totals: Summary,
    /// Seconds from the first agent's start to the last one's end: the agents of a wave run in
    /// parallel.
    pub elapsed_seconds: Option<f64>,
    /// The sum of the durations of the agents, in seconds.
    pub agent_seconds: f64,
    /// The number of agents whose duration is known.
    pub timed_agents: usize,
    /// Agents of the wave without a report.
    pub missing: Vec<Agent>,
    /// Agents of the wave with a report.
    pub agents: Vec<AgentOverview>,
}

/// The report of one agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentOverview {
    /// The agent that reported.
    pub agent_name: Agent,
    /// Path of the JSON file of the report that counts.
    pub report: String,
    /// The number of findings in it.
    pub totals: Summary,
    /// When the agent started.
    pub start_time: Option<Timestamp>,
    /// When the agent finished.
    pub end_time: Option<Timestamp>,
    /// The agent's duration in seconds.
    pub seconds: Option<f64>,
    /// Paths of the agent's earlier reports, which are not counted.
    pub superseded: Vec<String>,
}

/// A finding with its agent, phase and wave.
#[derive(Debug, Clone, Serialize)]
pub struct Reported {
    /// The agent that reported it.
    pub agent_name: Agent,
    /// The phase that it was found in.
    pub phase: Number,
    /// The wave that it was found in.
    pub wave: Wave,
    /// The finding as reported.
    #[serde(flatten)]
    pub finding: Finding,
}

impl Reported {
    fn by(&self) -> String {
        format!("{}, phase {}, {}", self.agent_name, self.phase, self.wave)
    }
}

/// A problem with a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportProblem {
    /// Path of the report's JSON file.
    pub report: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A report with its path.
struct Stored {
    path: String,
    number: u32,
    report: Report,
}

impl Stored {
    /// Start and end, if both are known and in order.
    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.report.start.zip(self.report.end).filter(|(start, end)| start <= end)
    }
}

impl Overview {
    /// Sums up the reports in `files` that `filter` selects.
    pub fn new(files: Vec<File>, filter: &Filter) -> Self {
        let mut overview = Self {
            totals: Summary::default(),
            phases: Vec::new(),
            findings: Vec::new(),
            contradictions: Vec::new(),
            unreadable: Vec::new(),
        };
        let mut stored = Vec::new();
        for File { path, contents } in files {
            match contents.and_then(|bytes| parse(&bytes)) {
                Err(problem) => overview.unreadable.push(ReportProblem { report: path, problem }),
                Ok(args) => {
                    let (report, problems) = Report::check(args);
                    if !filter.takes_phase(&report) {
                        continue;
                    }
                    if filter.takes_wave(report.wave()) {
                        let problems = problems.iter().map(ToString::to_string);
                        let problems = problems.chain(misplaced(&path, &report));
                        let problem_of = |problem| ReportProblem { report: path.clone(), problem };
                        overview.contradictions.extend(problems.map(problem_of));
                    }
                    let number = Place::parse(&path).map_or(1, |place| place.number);
                    stored.push(Stored { path, number, report });
                }
            }
        }
        overview.phases = phases(stored, filter, &mut overview.findings);
        overview.findings.sort_by_key(|reported| reported.finding.severity);
        overview.totals = overview.phases.iter().map(|phase| phase.totals).sum();
        overview
    }
}

impl Filter {
    fn takes_phase(&self, report: &Report) -> bool {
        self.phase.is_none_or(|phase| report.args.phase.as_f64() == Some(phase))
    }

    fn takes_wave(&self, wave: Wave) -> bool {
        self.wave.is_none_or(|only| only == wave)
    }
}

fn parse(bytes: &[u8]) -> Result<Args, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("no verification report: {error}"))
}

/// How a report contradicts its path, or the wave of its agent.
fn misplaced(path: &str, report: &Report) -> Vec<String> {
    let mut problems = Vec::new();
    let Args { agent_name, wave, .. } = report.args;
    if let Some(wave) = wave
        && wave != agent_name.wave()
    {
        problems.push(format!("{agent_name} belongs to {}, not to {wave}", agent_name.wave()));
    }
    let Some(place) = Place::parse(path) else { return problems };
    if place.agent != agent_name {
        problems
            .push(format!("it is kept as a report of {} and is one of {agent_name}", place.agent));
    }
    if place.phase != report.phase() {
        problems.push(format!(
            "it is kept in phase {} and is about phase {}",
            place.phase,
            report.phase()
        ));
    }
    if place.wave != wave {
        let name = |wave: Option<Wave>| wave.map_or("no wave".to_owned(), |wave| wave.to_string());
        problems.push(format!("it is kept in {} and names {}", name(place.wave), name(wave)));
    }
    problems
}

/// Groups reports by phase; returns the phases by number, and all findings.
fn phases(
    stored: Vec<Stored>,
    filter: &Filter,
    findings: &mut Vec<Reported>,
) -> Vec<PhaseOverview> {
    let mut by_phase: BTreeMap<Ordered, Vec<Stored>> = BTreeMap::new();
    for report in stored {
        by_phase.entry(Ordered(report.report.args.phase.as_f64())).or_default().push(report);
    }
    let phase = |mut reports: Vec<Stored>| {
        // A wave without any report has all of its agents missing.
        let number = reports.first()?.report.args.phase.clone();
        reports.retain(|stored| filter.takes_wave(stored.report.wave()));
        let elapsed_seconds = elapsed(reports.iter().filter_map(Stored::span));
        let waves = Wave::ALL.into_iter().filter(|wave| filter.takes_wave(*wave));
        let waves: Vec<WaveOverview> = waves
            .map(|wave| {
                let of_wave = reports.extract_if(.., |stored| stored.report.wave() == wave);
                wave_overview(wave, &number, of_wave.collect(), findings)
            })
            .collect();
        let totals = waves.iter().map(|wave| wave.totals).sum();
        Some(PhaseOverview { phase: number, totals, elapsed_seconds, waves })
    };
    by_phase.into_values().filter_map(phase).collect()
}

fn wave_overview(
    wave: Wave,
    phase: &Number,
    reports: Vec<Stored>,
    findings: &mut Vec<Reported>,
) -> WaveOverview {
    let mut by_agent: BTreeMap<Agent, Vec<Stored>> = BTreeMap::new();
    for stored in reports {
        by_agent.entry(stored.report.args.agent_name).or_default().push(stored);
    }
    let missing = Agent::ALL.into_iter().filter(|agent| agent.wave() == wave);
    let missing = missing.filter(|agent| !by_agent.contains_key(agent)).collect();
    let mut spans = Vec::new();
    let mut agents = Vec::new();
    for (agent_name, mut reports) in by_agent {
        let end = |stored: &Stored| stored.report.end.or(stored.report.start);
        reports.sort_by(|a, b| (a.number, end(a), &a.path).cmp(&(b.number, end(b), &b.path)));
        let Some(last) = reports.pop() else { continue };
        let span = last.span();
        spans.extend(span);
        let Stored { path, report: Report { args, start, end }, .. } = last;
        agents.push(AgentOverview {
            agent_name,
            report: path,
            totals: Summary::of(&args.findings),
            start_time: start,
            end_time: end,
            seconds: elapsed(span),
            superseded: reports.into_iter().map(|stored| stored.path).collect(),
        });
        let reported = |finding| Reported { agent_name, phase: phase.clone(), wave, finding };
        findings.extend(args.findings.into_iter().map(reported));
    }
    WaveOverview {
        wave,
        totals: agents.iter().map(|agent| agent.totals).sum(),
        elapsed_seconds: elapsed(spans),
        agent_seconds: agents
            .iter()
            .filter_map(|agent| agent.seconds)
            .fold(0.0, |sum, seconds| sum + seconds),
        timed_agents: agents.iter().filter(|agent| agent.seconds.is_some()).count(),
        missing,
        agents,
    }
}

/// Seconds from the first start to the last end.
fn elapsed(spans: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Option<f64> {
    let whole = |(start, end): (Timestamp, Timestamp), (other_start, other_end)| {
        (start.min(other_start), end.max(other_end))
    };
    let (start, end) = spans.into_iter().reduce(whole)?;
    Some(start.duration_until(end).as_secs_f64())
}

/// A number that can be the key of a map.
#[derive(Clone, Copy)]
struct Ordered(Option<f64>);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let value = |number: &Self| number.0.unwrap_or(f64::INFINITY);
        value(self).total_cmp(&value(other))
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

/// Formats seconds: `5m`, `1h 5m 10s`, `0.25s`.
fn duration(seconds: f64) -> String {
    let exact = jiff::SignedDuration::try_from_secs_f64(seconds).unwrap_or_default();
    format!("{exact:#}")
}

/// A sentence about a wave's duration, if it is known.
fn wave_time(wave: &WaveOverview) -> Option<String> {
    let elapsed = duration(wave.elapsed_seconds?);
    let agents = duration(wave.agent_seconds);
    let untimed = wave.agents.len() - wave.timed_agents;
    let untimed = if untimed == 0 { String::new() } else { format!("; {untimed} without times") };
    Some(format!("{elapsed} ({agents} of agents' work side by side{untimed})"))
}

/// Joins the names of agents.
fn names(agents: &[Agent]) -> String {
    agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The heading of the overview.
const TITLE: &str = "Verification reports";

/// The header of the tables of agents.
const AGENT_COLUMNS: [&str; 7] = ["agent", "total", "critical", "high", "medium", "low", "time"];

/// The cells of an agent's row, without the name.
fn agent_cells(agent: &AgentOverview) -> Vec<String> {
    let counts = agent.totals.counts().map(|(_, count)| count.to_string());
    let time = agent.seconds.map_or_else(|| "-".to_owned(), duration);
    counts.into_iter().chain([time]).collect()
}

#[cfg(test)]
mod tests;
