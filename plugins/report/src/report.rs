//! What an agent submits, and whether it makes sense.

use std::collections::HashMap;
use std::fmt;

use cofferdam_sdk::{Context, ToolError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Arguments of `save_agent_report`; also what the JSON file holds.
#[derive(Debug, Deserialize, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Agent {
    BestPracticesEnforcer,
    SecurityAuditor,
    HallucinationDetector,
    CodeReviewer,
    TestGenerator,
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The two waves in which the agents run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Wave {
    Wave1,
    Wave2,
}

impl fmt::Display for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One thing that an agent found.
#[derive(Debug, Deserialize, Serialize)]
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
    fn of(findings: &[Finding]) -> Self {
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

/// A report that has been checked.
#[derive(Debug)]
pub struct Report {
    /// As it was submitted.
    pub args: Args,
    /// When the agent began.
    pub start: Option<Timestamp>,
    /// When the agent was done.
    pub end: Option<Timestamp>,
}

impl Report {
    /// Checks what the schema can't say.
    ///
    /// # Errors
    /// `SummaryMismatch`, `DuplicateFindingId`, `RelativePathError`, `InvalidTimestamp`, or
    /// `InvalidTimeRange` where the end is before the start.
    pub fn check(args: Args, context: &Context) -> Result<Self, ToolError> {
        check_summary(&args)?;
        check_ids(&args.findings)?;
        check_paths(&args.findings, context)?;
        let start = timestamp("start_time", args.start_time.as_deref())?;
        let end = timestamp("end_time", args.end_time.as_deref())?;
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            let message = format!("end_time {end} is before start_time {start}");
            return Err(ToolError::invalid_args("InvalidTimeRange", message));
        }
        Ok(Self { args, start, end })
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

fn check_summary(args: &Args) -> Result<(), ToolError> {
    let counted = Summary::of(&args.findings);
    let wrong: Vec<String> = args
        .summary
        .counts()
        .iter()
        .zip(counted.counts())
        .filter(|((_, given), (_, expected))| given != expected)
        .map(|((name, given), (_, expected))| format!("{name} is {given}, expected {expected}"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let message = format!("the summary does not count the findings: {}", wrong.join("; "));
    Err(ToolError::invalid_args("SummaryMismatch", message))
}

fn check_ids(findings: &[Finding]) -> Result<(), ToolError> {
    let mut seen = HashMap::new();
    for (at, finding) in findings.iter().enumerate() {
        if let Some(first) = seen.insert(finding.id.as_str(), at) {
            let id = &finding.id;
            let message = format!("findings[{first}] and findings[{at}] have the same id '{id}'");
            return Err(ToolError::invalid_args("DuplicateFindingId", message));
        }
    }
    Ok(())
}

fn check_paths(findings: &[Finding], context: &Context) -> Result<(), ToolError> {
    for (at, Finding { file, .. }) in findings.iter().enumerate() {
        if !file.starts_with('/') {
            let absolute = context.absolute(&context.resolve(file)?);
            let message =
                format!("findings[{at}].file must be absolute: '{file}' would be '{absolute}'");
            return Err(ToolError::invalid_args("RelativePathError", message));
        }
    }
    Ok(())
}

fn timestamp(field: &str, value: Option<&str>) -> Result<Option<Timestamp>, ToolError> {
    let parse = |value: &str| {
        value.parse().map_err(|error| {
            let message = format!(
                "{field}: '{value}' is not a point in time such as 2026-02-07T10:30:00Z or \
                 2026-02-07T11:30:00+01:00 ({error})"
            );
            ToolError::invalid_args("InvalidTimestamp", message)
        })
    };
    value.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

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

    fn check(args: &Value) -> Result<Report, ToolError> {
        let context = Context::for_directory(Path::new("/ws"));
        Report::check(serde_json::from_value(args.clone()).unwrap(), &context)
    }

    #[test]
    fn the_worst_comes_first() {
        let report = check(&args(&[
            ("1", "LOW"),
            ("2", "CRITICAL"),
            ("3", "LOW"),
            ("4", "HIGH"),
            ("5", "MEDIUM"),
        ]));
        let report = report.unwrap();
        let ids: Vec<&str> = report.ranked().iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["2", "4", "5", "1", "3"]);
    }

    #[test]
    fn a_summary_that_miscounts_is_refused_field_by_field() {
        let mut wrong = args(&[("1", "LOW"), ("2", "HIGH")]);
        wrong["summary"] = json!({"total": 3, "critical": 0, "high": 0, "medium": 1, "low": 1});
        let error = check(&wrong).unwrap_err();
        assert_eq!(error.code, "SummaryMismatch");
        for part in ["total is 3, expected 2", "high is 0, expected 1", "medium is 1, expected 0"] {
            assert!(error.message.contains(part), "{error}");
        }
        assert!(!error.message.contains("low") && !error.message.contains("critical"), "{error}");
    }

    #[test]
    fn ids_are_unique() {
        let error = check(&args(&[("A", "LOW"), ("B", "LOW"), ("A", "HIGH")])).unwrap_err();
        assert_eq!(error.code, "DuplicateFindingId");
        assert!(error.message.contains("findings[0] and findings[2]"), "{error}");
    }

    #[test]
    fn files_are_absolute() {
        let mut relative = args(&[("A", "LOW")]);
        relative["findings"][0]["file"] = json!("src/a.py");
        let error = check(&relative).unwrap_err();
        assert_eq!(error.code, "RelativePathError");
        assert!(error.message.ends_with("'/ws/src/a.py'"), "{error}");
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
            check(&args)
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
        ] {
            let times = with(start, end).unwrap().times();
            let times: Vec<String> =
                times.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(times, wanted);
        }
        for (start, end, code) in [
            (Some("yesterday"), None, "InvalidTimestamp"),
            (Some("2026-02-30T10:30:00Z"), None, "InvalidTimestamp"),
            (None, Some("2026-02-07"), "InvalidTimestamp"),
            (None, Some("2026-02-07T10:30:00"), "InvalidTimestamp"),
            (Some(morning), Some("2026-02-07T11:29:59+01:00"), "InvalidTimeRange"),
        ] {
            assert_eq!(with(start, end).unwrap_err().code, code, "{start:?} {end:?}");
        }
        assert!(with(Some(morning), Some(morning)).is_ok());
    }
}
