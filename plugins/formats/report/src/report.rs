//! What an agent submits, and whether it makes sense.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Arguments of `save_agent_report`; also what the JSON file holds.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Who reports.
    pub agent_name: Agent,
    /// The phase that was verified.
    pub phase: Number,
    /// What was found.
    pub findings: Vec<Finding>,
    /// How much was found.
    pub summary: Summary,
    /// The wave of agents that this one belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<Wave>,
    /// When the agent began, as RFC 3339 writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When the agent was done, as RFC 3339 writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
}

/// The verification agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Agent {
    BestPracticesEnforcer,
    SecurityAuditor,
    HallucinationDetector,
    CodeReviewer,
    TestGenerator,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::BestPracticesEnforcer,
        Self::SecurityAuditor,
        Self::HallucinationDetector,
        Self::CodeReviewer,
        Self::TestGenerator,
    ];

    /// The wave that the agent runs in (S4, "Integration Points").
    pub fn wave(self) -> Wave {
        match self {
            Self::BestPracticesEnforcer | Self::SecurityAuditor | Self::HallucinationDetector => {
                Wave::Wave1
            }
            Self::CodeReviewer | Self::TestGenerator => Wave::Wave2,
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The two waves in which the agents run: side by side in a wave, one wave after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Wave {
    Wave1,
    Wave2,
}

impl Wave {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Wave1, Self::Wave2];
}

impl fmt::Display for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One thing that an agent found.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Unique within the report.
    pub id: String,
    /// Absolute path of the file it is about.
    pub file: String,
    /// The line in that file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub finding: String,
    /// What would be right.
    pub fix: String,
}

impl Finding {
    /// The file, and the line where it is known: `/src/a.py:12`.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How many findings there are, altogether and of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Summary {
    pub total: u64,
    pub critical: u64,
    pub high: u64,
    pub medium: u64,
    pub low: u64,
}

impl Summary {
    /// Counts findings.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut summary = Self::default();
        for finding in findings {
            summary.total += 1;
            *match finding.severity {
                Severity::Critical => &mut summary.critical,
                Severity::High => &mut summary.high,
                Severity::Medium => &mut summary.medium,
                Severity::Low => &mut summary.low,
            } += 1;
        }
        summary
    }

    /// The counts with their names, as a table shows them.
    pub fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("total", self.total),
            ("critical", self.critical),
            ("high", self.high),
            ("medium", self.medium),
            ("low", self.low),
        ]
    }
}

impl std::iter::Sum for Summary {
    fn sum<I: Iterator<Item = Self>>(summaries: I) -> Self {
        summaries.fold(Self::default(), |sum, summary| Self {
            total: sum.total + summary.total,
            critical: sum.critical + summary.critical,
            high: sum.high + summary.high,
            medium: sum.medium + summary.medium,
            low: sum.low + summary.low,
        })
    }
}

/// What the schema of a report can't say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The summary has other counts than the findings.
    #[error("the summary does not count the findings: {0}")]
    SummaryMismatch(String),
    /// Two findings of one report have the same id.
    #[error("findings[{first}] and findings[{second}] have the same id '{id}'")]
    DuplicateFindingId {
        /// Where it stands first, counted from 0.
        first: usize,
        /// Where it stands again.
        second: usize,
        /// The id.
        id: String,
    },
    /// A finding names its file by a relative path.
    #[error("findings[{at}].file must be absolute: '{file}'")]
    RelativePath {
        /// Which finding, counted from 0.
        at: usize,
        /// The path.
        file: String,
    },
    /// A time is none.
    #[error(
        "{field}: '{value}' is not a point in time such as 2026-02-07T10:30:00Z or \
         2026-02-07T11:30:00+01:00 ({error})"
    )]
    InvalidTimestamp {
        /// `start_time` or `end_time`.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What is wrong with it.
        error: String,
    },
    /// The end is before the start.
    #[error("end_time {end} is before start_time {start}")]
    InvalidTimeRange {
        /// When the agent began.
        start: Timestamp,
        /// When it was done.
        end: Timestamp,
    },
}

/// A report with the points in time that it names.
#[derive(Debug, Clone)]
pub struct Report {
    /// As it was submitted.
    pub args: Args,
    /// When the agent began.
    pub start: Option<Timestamp>,
    /// When the agent was done.
    pub end: Option<Timestamp>,
}

impl Report {
    /// Looks for what the schema can't say. A report with problems can still be shown and counted;
    /// it is not to be saved.
    pub fn check(args: Args) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        problems.extend(miscounted(&args));
        problems.extend(duplicates(&args.findings));
        problems.extend(relative_paths(&args.findings));
        let mut time = |field, value: &Option<String>| {
            let value = value.as_deref()?;
            value
                .parse()
                .map_err(|error: jiff::Error| {
                    let (value, error) = (value.to_owned(), error.to_string());
                    problems.push(Problem::InvalidTimestamp { field, value, error });
                })
                .ok()
        };
        let start = time("start_time", &args.start_time);
        let end = time("end_time", &args.end_time);
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            problems.push(Problem::InvalidTimeRange { start, end });
        }
        (Self { args, start, end }, problems)
    }

    /// The wave that it belongs to: the one that it names, or else its agent's.
    pub fn wave(&self) -> Wave {
        self.args.wave.unwrap_or_else(|| self.args.agent_name.wave())
    }

    /// The findings, the worst first and otherwise in the order in which they were submitted.
    pub fn ranked(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> = self.args.findings.iter().collect();
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    /// The phase without a needless fraction: `3` for `3.0`.
    pub fn phase(&self) -> String {
        match self.args.phase.as_f64() {
            Some(phase) if self.args.phase.is_f64() && phase.fract() == 0.0 && phase < 1e15 => {
                format!("{phase:.0}")
            }
            _ => self.args.phase.to_string(),
        }
    }

    /// What the report is about, in one line.
    pub fn title(&self) -> String {
        let wave = self.args.wave.map_or_else(String::new, |wave| format!(", {wave}"));
        format!("{}: phase {}{wave}", self.args.agent_name, self.phase())
    }

    /// When it began, when it was done and how long it took, as far as that is known.
    pub fn times(&self) -> Vec<(&'static str, String)> {
        let duration = |(start, end): (Timestamp, _)| format!("{:#}", start.duration_until(end));
        [
            ("Started", self.start.map(|time| time.to_string())),
            ("Ended", self.end.map(|time| time.to_string())),
            ("Duration", self.start.zip(self.end).map(duration)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

fn miscounted(args: &Args) -> Option<Problem> {
    let counted = Summary::of(&args.findings);
    let wrong: Vec<String> = args
        .summary
        .counts()
        .iter()
        .zip(counted.counts())
        .filter(|((_, given), (_, expected))| given != expected)
        .map(|((name, given), (_, expected))| format!("{name} is {given}, expected {expected}"))
        .collect();
    (!wrong.is_empty()).then(|| Problem::SummaryMismatch(wrong.join("; ")))
}

fn duplicates(findings: &[Finding]) -> Vec<Problem> {
    let mut seen = HashMap::new();
    let numbered = findings.iter().enumerate();
    numbered
        .filter_map(|(second, Finding { id, .. })| {
            let first = *seen.entry(id.as_str()).or_insert(second);
            let id = id.clone();
            (first != second).then_some(Problem::DuplicateFindingId { first, second, id })
        })
        .collect()
}

fn relative_paths(findings: &[Finding]) -> impl Iterator<Item = Problem> {
    let numbered = findings.iter().enumerate();
    numbered
        .filter(|(_, finding)| !finding.file.starts_with('/'))
        .map(|(at, finding)| Problem::RelativePath { at, file: finding.file.clone() })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    /// A report of the given findings, as `(id, severity)`, whose summary fits.
    fn args(findings: &[(&str, &str)]) -> Value {
        let count = |severity| findings.iter().filter(|(_, other)| *other == severity).count();
        let summary = json!({
            "total": findings.len(),
            "critical": count("CRITICAL"),
            "high": count("HIGH"),
            "medium": count("MEDIUM"),
            "low": count("LOW"),
        });
        let finding = |(id, severity): &(&str, &str)| {
            let (file, finding, fix) = ("/ws/a", "x", "y");
            json!({"id": id, "file": file, "severity": severity, "finding": finding, "fix": fix})
        };
        let findings: Vec<Value> = findings.iter().map(finding).collect();
        json!({"agent_name": "test-generator", "phase": 3, "findings": findings, "summary": summary})
    }

    fn check(args: &Value) -> (Report, Vec<Problem>) {
        Report::check(serde_json::from_value(args.clone()).unwrap())
    }

    /// The one problem of a report.
    fn problem(args: &Value) -> Problem {
        let (_, mut problems) = check(args);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    #[test]
    fn the_worst_comes_first() {
        let (report, problems) = check(&args(&[
            ("1", "LOW"),
            ("2", "CRITICAL"),
            ("3", "LOW"),
            ("4", "HIGH"),
            ("5", "MEDIUM"),
        ]));
        assert_eq!(problems, []);
        let ids: Vec<&str> = report.ranked().iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["2", "4", "5", "1", "3"]);
    }

    #[test]
    fn a_summary_that_miscounts_is_a_problem_field_by_field() {
        let mut wrong = args(&[("1", "LOW"), ("2", "HIGH")]);
        wrong["summary"] = json!({"total": 3, "critical": 0, "high": 0, "medium": 1, "low": 1});
        let wanted = "total is 3, expected 2; high is 0, expected 1; medium is 1, expected 0";
        assert_eq!(problem(&wrong), Problem::SummaryMismatch(wanted.to_owned()));
    }

    #[test]
    fn ids_are_unique_and_files_absolute() {
        let twice = args(&[("A", "LOW"), ("B", "LOW"), ("A", "HIGH")]);
        let wanted = Problem::DuplicateFindingId { first: 0, second: 2, id: "A".to_owned() };
        assert_eq!(problem(&twice), wanted);
        let mut relative = args(&[("A", "LOW")]);
        relative["findings"][0]["file"] = json!("src/a.py");
        let wanted = Problem::RelativePath { at: 0, file: "src/a.py".to_owned() };
        assert_eq!(problem(&relative), wanted);
    }

    #[test]
    fn every_problem_is_found_at_once() {
        let mut wrong = args(&[("A", "LOW"), ("A", "HIGH")]);
        wrong["summary"]["low"] = json!(9);
        wrong["findings"][1]["file"] = json!("b");
        wrong["start_time"] = json!("yesterday");
        let (report, problems) = check(&wrong);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!((report.start, report.args.findings.len()), (None, 2));
    }

    #[test]
    fn times_are_real_and_in_order() {
        let with = |start: Option<&str>, end: Option<&str>| {
            let mut args = args(&[]);
            for (name, time) in [("start_time", start), ("end_time", end)] {
                if let Some(time) = time {
                    args[name] = json!(time);
                }
            }
            args
        };
        let morning = "2026-02-07T10:30:00Z";
        for (start, end, wanted) in [
            (None, None, &[][..]),
            (Some(morning), None, &["Started: 2026-02-07T10:30:00Z"]),
            (None, Some("2026-02-07T11:30:00.5+01:00"), &["Ended: 2026-02-07T10:30:00.5Z"]),
            (
                Some(morning),
                Some("2026-02-07T11:35:10Z"),
                &[
                    "Started: 2026-02-07T10:30:00Z",
                    "Ended: 2026-02-07T11:35:10Z",
                    "Duration: 1h 5m 10s",
                ],
            ),
            (
                Some(morning),
                Some(morning),
                &["Started: 2026-02-07T10:30:00Z", "Ended: 2026-02-07T10:30:00Z", "Duration: 0s"],
            ),
        ] {
            let (report, problems) = check(&with(start, end));
            assert_eq!(problems, []);
            let times: Vec<String> =
                report.times().iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(times, wanted);
        }
        for (start, end) in [
            (Some("yesterday"), None),
            (Some("2026-02-30T10:30:00Z"), None),
            (None, Some("2026-02-07")),
            (None, Some("2026-02-07T10:30:00")),
        ] {
            let problem = problem(&with(start, end));
            assert!(matches!(problem, Problem::InvalidTimestamp { .. }), "{problem}");
        }
        let problem = problem(&with(Some(morning), Some("2026-02-07T11:29:59+01:00")));
        assert!(matches!(problem, Problem::InvalidTimeRange { .. }), "{problem}");
    }

    #[test]
    fn the_waves_hold_the_agents_that_their_source_says() {
        let of = |wave| {
            let agents = Agent::ALL.into_iter().filter(move |agent| agent.wave() == wave);
            agents.map(|agent| agent.to_string()).collect::<Vec<_>>()
        };
        let first = ["best-practices-enforcer", "security-auditor", "hallucination-detector"];
        assert_eq!(of(Wave::Wave1), first);
        assert_eq!(of(Wave::Wave2), ["code-reviewer", "test-generator"]);
    }
}
