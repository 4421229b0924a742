//! The report that an agent submits, and its validation.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Arguments of `save_agent_report`; also the contents of the JSON file.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The agent that reports.
    pub agent_name: Agent,
    /// The phase that was verified.
    pub phase: Number,
    /// All findings, in any order.
    pub findings: Vec<Finding>,
    /// The number of findings, by severity.
    pub summary: Summary,
    /// The wave in which the agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<Wave>,
    /// When the agent started, in RFC 3339 format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When the agent finished, in RFC 3339 format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
}

/// The five verification agents.
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
    /// All agents, in the order of the waves.
    pub const ALL: [Self; 5] = [
        Self::BestPracticesEnforcer,
        Self::SecurityAuditor,
        Self::HallucinationDetector,
        Self::CodeReviewer,
        Self::TestGenerator,
    ];

    /// The wave that the agent runs in (the tool schemas, "Integration Points").
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

/// The two waves of agents. The agents of a wave run in parallel; the second wave runs after the
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Wave {
    Wave1,
    Wave2,
}

impl Wave {
    /// Both waves, in order.
    pub const ALL: [Self; 2] = [Self::Wave1, Self::Wave2];
}

impl fmt::Display for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A finding of an agent.
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
    /// How severe the finding is.
    pub severity: Severity,
    /// What is wrong in the file.
    pub finding: String,
    /// How to fix it.
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

/// The severity of a finding, the most severe first.
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

/// The number of findings, in total and by severity.
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
    /// Counts findings by severity.
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

    /// The counts with their names, for a table.
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

/// A problem of a report that its JSON Schema can't detect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The counts in the summary differ from the findings.
    #[error("the summary does not count the findings: {0}")]
    SummaryMismatch(String),
    /// Two findings of one report have the same id.
    #[error("findings[{first}] and findings[{second}] have the same id '{id}'")]
    DuplicateFindingId {
        /// The index of the first finding with the id, from 0.
        first: usize,
        /// The index of the second one.
        second: usize,
        /// The id that both have.
        id: String,
    },
    /// A finding has a relative path.
    #[error("findings[{at}].file must be absolute: '{file}'")]
    RelativePath {
        /// The index of the finding, from 0.
        at: usize,
        /// The path in the finding.
        file: String,
    },
    /// A field is not a valid time.
    #[error(
        "{field}: '{value}' is not a point in time such as 2026-02-07T10:30:00Z or \
         2026-02-07T11:30:00+01:00 ({error})"
    )]
    InvalidTimestamp {
        /// The field's name: `start_time` or `end_time`.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// Why it is not a time.
        error: String,
    },
    /// The end is before the start.
    #[error("end_time {end} is before start_time {start}")]
    InvalidTimeRange {
        /// When the agent started.
        start: Timestamp,
        /// When the agent finished.
        end: Timestamp,
    },
}

/// A report with its times parsed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The report as submitted.
    pub args: Args,
    /// When the agent started.
    pub start: Option<Timestamp>,
    /// When the agent finished.
    pub end: Option<Timestamp>,
}

impl Report {
    /// Validates a report beyond its JSON Schema. A report with problems can be rendered and
    /// counted, but is not to be saved.
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

    /// The wave in the report, or else the wave of its agent.
    pub fn wave(&self) -> Wave {
        self.args.wave.unwrap_or_else(|| self.args.agent_name.wave())
    }

    /// The findings by severity, the most severe first; otherwise in the order of submission.
    pub fn ranked(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> = self.args.findings.iter().collect();
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    /// The phase without a needless fraction: `3` instead of `3.0`.
    pub fn phase(&self) -> String {
        match self.args.phase.as_f64() {
            Some(phase) if self.args.phase.is_f64() && phase.fract() == 0.0 && phase < 1e15 => {
                format!("{phase:.0}")
            }
            _ => self.args.phase.to_string(),
        }
    }

    /// A title with agent, phase and wave.
    pub fn title(&self) -> String {
        let wave = self.args.wave.map_or_else(String::new, |wave| format!(", {wave}"));
        format!("{}: phase {}{wave}", self.args.agent_name, self.phase())
    }

    /// Labels and values of start, end and duration, as far as they are known.
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

    /// Checks a report that has exactly one problem; returns the problem.
    fn problem(args: &Value) -> Problem {
        let (_, mut problems) = check(args);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    #[test]
    fn the_most_severe_comes_first() {
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
    fn each_wrong_count_in_the_summary_is_reported() {
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
    fn times_are_valid_and_in_order() {
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
    fn the_waves_have_the_documented_agents() {
        let of = |wave| {
            let agents = Agent::ALL.into_iter().filter(move |agent| agent.wave() == wave);
            agents.map(|agent| agent.to_string()).collect::<Vec<_>>()
        };
        let first = ["best-practices-enforcer", "security-auditor", "hallucination-detector"];
        assert_eq!(of(Wave::Wave1), first);
        assert_eq!(of(Wave::Wave2), ["code-reviewer", "test-generator"]);
    }
}
