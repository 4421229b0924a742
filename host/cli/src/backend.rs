//! `cofferdam backend`: lists the linters, test runners, builders and checkers, and compares two linters.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::args::{BackendCommand, Format, Global};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_core::policy::BackendKind;
use cofferdam_engine::host::Host;
use cofferdam_engine::runtime::BackendError;
use cofferdam_engine::runtime::linting::{Finding, Report, Request};

pub fn execute(global: &Global, command: &BackendCommand, output: &Output) -> Result<u8, CliError> {
    let (host, runtime) = setup::host(global, None)?;
    let _runtime = runtime.enter();
    match command {
        BackendCommand::List => list(&host, output),
        BackendCommand::Compare { first, second, path } => {
            compare(&host, [first, second], path, output)
        }
    }
}

fn list(host: &Host, output: &Output) -> Result<u8, CliError> {
    let mut backends = Vec::new();
    let mut text = String::new();
    for kind in BackendKind::ALL {
        for entry in host.backends(kind) {
            let backend = entry.backend();
            let version = host.backend_version(kind, &backend.name);
            let (state, chosen_for) = match &version {
                Ok(version) => (version.clone(), entry.chosen_for().join(", ")),
                Err(error) => (format!("not usable: {}", reason(error)), String::new()),
            };
            let note =
                if chosen_for.is_empty() { chosen_for } else { format!("  <- {chosen_for}") };
            text.push_str(&format!("{kind:<12} {:<16} {state}{note}\n", backend.name));
            backends.push(json!({
                "kind": kind,
                "name": backend.name,
                "plugin": entry.plugin(),
                "languages": backend.languages,
                "chosen_for": entry.chosen_for(),
                "programs": backend.programs,
                "version": version.as_ref().ok(),
                "unusable": version.as_ref().err().map(reason),
            }));
        }
    }
    if output.format() == Format::Text {
        output.text(&text)?;
    } else {
        output.json(&json!({ "backends": backends, "warnings": host.unknown() }))?;
    }
    Ok(exit::OK)
}

/// The findings of one linter and how long it took.
struct Run {
    report: Report,
    first_ms: f64,
    again_ms: f64,
}

fn compare(host: &Host, names: [&String; 2], path: &str, output: &Output) -> Result<u8, CliError> {
    let [first, second] = names;
    let [left, right] = [run(host, first, path)?, run(host, second, path)?];
    let (only_left, both) = compare_lines(&left.report, &right.report);
    let (only_right, _) = compare_lines(&right.report, &left.report);
    let side = |name: &str, run: &Run, only: &[&Finding]| {
        json!({
            "backend": name,
            "findings": run.report.findings.len(),
            "files_checked": run.report.files_checked,
            "first_ms": run.first_ms,
            "again_ms": run.again_ms,
            "only_here": only.iter().map(|finding| describe(finding)).collect::<Vec<_>>(),
        })
    };
    if output.format() == Format::Text {
        let mut text = String::new();
        for (name, run, only) in [(first, &left, &only_left), (second, &right, &only_right)] {
            text.push_str(&format!(
                "{name}: {} findings in {} files, {:.1} ms ({:.1} ms at first); {} where the other has none\n",
                run.report.findings.len(), run.report.files_checked, run.again_ms, run.first_ms, only.len()
            ));
            for finding in only {
                text.push_str(&format!(
                    "  {}:{}:{} {} {}\n",
                    finding.path, finding.line, finding.column, finding.code, finding.message
                ));
            }
        }
        text.push_str(&format!("lines where both have one: {both}\n"));
        output.text(&text)?;
    } else {
        output.json(&json!({
            "path": path,
            "compared": [side(first, &left, &only_left), side(second, &right, &only_right)],
            "lines_in_both": both,
        }))?;
    }
    Ok(exit::OK)
}

/// Runs a linter twice, so that the second time is measured without loading the plugin.
fn run(host: &Host, name: &str, path: &str) -> Result<Run, CliError> {
    let lint = || {
        let request = Request {
            root: String::new(),
            paths: vec![path.to_owned()],
            config: None,
            select: Vec::new(),
            timeout_ms: 0,
        };
        let started = Instant::now();
        let report = host
            .lint(name, request)
            .map_err(|error| CliError::usage(format!("{name}: {}", reason(&error))))?;
        Ok::<_, CliError>((report, started.elapsed().as_secs_f64() * 1000.0))
    };
    let (_, first_ms) = lint()?;
    let (report, again_ms) = lint()?;
    Ok(Run { report, first_ms, again_ms })
}

/// Returns the findings on lines where the other report has none, and the number of lines where
/// both have some. Linters name and place the same problem differently, so only lines can be
/// compared.
fn compare_lines<'a>(report: &'a Report, other: &Report) -> (Vec<&'a Finding>, usize) {
    let lines = |report: &Report| -> BTreeSet<(String, u32)> {
        report.findings.iter().map(|finding| (finding.path.clone(), finding.line)).collect()
    };
    let there = lines(other);
    let is_there = |finding: &Finding| there.contains(&(finding.path.clone(), finding.line));
    let only = report.findings.iter().filter(|finding| !is_there(finding)).collect();
    (only, lines(report).intersection(&there).count())
}

fn describe(finding: &Finding) -> Value {
    json!({
        "file": finding.path,
        "line": finding.line,
        "column": finding.column,
        "code": finding.code,
        "message": finding.message,
    })
}

fn reason(error: &BackendError) -> &str {
    match error {
        BackendError::Unavailable(why)
        | BackendError::Invalid(why)
        | BackendError::Limit(why)
        | BackendError::Failed(why) => why,
    }
}
