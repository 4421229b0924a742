//! Ruff, by `ruff check`, with its rules, fixes and configuration files.

use std::collections::HashSet;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Fix, Report, Severity};
use cofferdam_sdk::process::Output;
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

use crate::files;
use crate::findings::{Findings, SYNTAX_ERROR, finding, fix};
use crate::job::Job;
use crate::program::{Program, Run};

const RUFF: Program = Program { name: "ruff" };

/// The version of Ruff.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    RUFF.version(&["--version"], context)
}

/// Lints with Ruff. It never fixes files, regardless of its configuration.
///
/// # Errors
/// `Invalid` for a rule or a configuration that Ruff rejects; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let mut run = Run::new(job, &["check", "--output-format=json-lines", "--no-cache", "--no-fix"]);
    if let Some(config) = &job.config {
        run.arguments.push(format!("--config={}", job.from_root(config)));
    }
    // This code is not a rule: Ruff reports syntax errors with any selection.
    let rules: Vec<_> = job.select.iter().copied().filter(|&code| code != SYNTAX_ERROR).collect();
    if !rules.is_empty() {
        run.arguments.push(format!("--select={}", rules.join(",")));
    }
    run.targets(job);
    let output = RUFF.run(job, run)?;
    let diagnostics = parse(&output)?;
    let counted = job.read_ahead(&with_fixes(job, &output, &diagnostics), EXTENSIONS);
    let count = counted.unwrap_or_else(|| files::count(job, EXTENSIONS));
    Ok(findings(job, &output, diagnostics).report(count, &output))
}

/// The extensions of files that Ruff checks.
const EXTENSIONS: &[&str] = &["py", "pyi"];

#[derive(Deserialize)]
struct Diagnostic {
    /// The cell of a notebook, within which lines are counted.
    cell: Option<u32>,
    code: Option<String>,
    filename: String,
    location: Location,
    end_location: Location,
    message: String,
    fix: Option<Correction>,
    url: Option<String>,
    severity: Option<String>,
}

/// Line and column, from 1, columns in characters.
#[derive(Deserialize)]
struct Location {
    row: u32,
    column: u32,
}

#[derive(Deserialize)]
struct Correction {
    applicability: String,
    message: Option<String>,
    edits: Vec<Replacement>,
}

#[derive(Deserialize)]
struct Replacement {
    content: String,
    location: Location,
    end_location: Location,
}

/// Parses the output of `ruff check --output-format=json-lines`.
fn parse(output: &Output) -> Result<Vec<Diagnostic>, Error> {
    // Exit code 2: the command line or a configuration file is invalid, or Ruff crashed.
    if output.exit_code() == Some(2) {
        let said = output.stderr_text();
        let crashed = said.contains("panicked") || said.contains("This indicates a bug in Ruff");
        return Err(if crashed { RUFF.failed(output) } else { RUFF.refused(&said) });
    }
    let printed = RUFF.stdout(output)?;
    let diagnostics: Vec<_> = printed
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| RUFF.unreadable(output, &error))?;
    // Exit code 1: there are findings.
    if diagnostics.is_empty() && output.exit_code() == Some(1) {
        return Err(RUFF.failed(output));
    }
    Ok(diagnostics)
}

/// The files whose contents are needed to convert the positions of fixes.
fn with_fixes(
    job: &Job<'_>,
    output: &Output,
    diagnostics: &[Diagnostic],
) -> HashSet<WorkspacePath> {
    let with_fixes = diagnostics.iter().filter(|diagnostic| diagnostic.fix.is_some());
    with_fixes.filter_map(|diagnostic| job.printed(output, &diagnostic.filename)).collect()
}

fn findings<'a>(job: &'a Job<'a>, output: &Output, diagnostics: Vec<Diagnostic>) -> Findings<'a> {
    let mut findings = Findings::new(job);
    for diagnostic in diagnostics {
        if let Some(path) = job.printed(output, &diagnostic.filename) {
            findings.add(&path, diagnostic.finding(job, &path));
        }
    }
    findings
}

impl Diagnostic {
    fn finding(self, job: &Job<'_>, path: &WorkspacePath) -> Finding {
        let code = match self.code.as_deref() {
            // Older versions have no code for syntax errors.
            None | Some("invalid-syntax") => SYNTAX_ERROR,
            Some(code) => code,
        };
        let severity = match self.severity.as_deref() {
            Some("warning") => Severity::Warning,
            Some("info") => Severity::Info,
            _ => Severity::Error,
        };
        if let Some(cell) = self.cell {
            let Location { row, column } = self.location;
            let message = format!("{} (cell {cell}, line {row}, column {column})", self.message);
            return Finding { url: self.url, ..finding(path, code, severity, message) };
        }
        Finding {
            line: self.location.row,
            column: self.location.column,
            end_line: Some(self.end_location.row),
            end_column: Some(self.end_location.column),
            url: self.url,
            fix: self.fix.and_then(|correction| correction.fix(job, path)),
            ..finding(path, code, severity, self.message)
        }
    }
}

impl Correction {
    fn fix(self, job: &Job<'_>, path: &WorkspacePath) -> Option<Fix> {
        let safe = match self.applicability.as_str() {
            "safe" => true,
            "unsafe" => false,
            // Fixes for display only: the code may not even parse afterwards.
            _ => return None,
        };
        let text = job.text(path)?;
        let offset = |at: &Location| text.offset(at.row, at.column);
        let edits = self
            .edits
            .into_iter()
            .map(|edit| Some((offset(&edit.location)?, offset(&edit.end_location)?, edit.content)));
        let edits = edits.collect::<Option<Vec<_>>>()?;
        fix(path, self.message.as_deref().unwrap_or("apply the fix"), safe, edits)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    const BOM: &str = "\u{feff}import os\r\nx = \"hé😀\"; import sys\r\n";

    fn workspace() -> Workspace {
        Workspace::new(&[
            ("p/a.py", "import os\nimport sys\n\nreveal_type(f)\n"),
            ("p/bad.py", "def f(:\n  x = = 1\n"),
            ("p/bom.py", BOM),
            ("p/latin.py", "x = 1\n"),
            ("p/n.ipynb", "{}"),
        ])
    }

    #[test]
    fn recorded_output_becomes_findings() {
        let workspace = workspace();
        let request = request(&["p"]);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(1, include_str!("../tests/data/ruff.jsonl"), "");
        let report = findings(&job, &output, parse(&output).unwrap()).report(4, &output);
        assert_eq!(
            places(&report),
            [
                "p/a.py:1:8-1:10 error F401",
                "p/bad.py:1:7-1:8 error syntax-error",
                "p/bom.py:1:8-1:10 error F401",
                "p/bom.py:2:19-2:22 error F401",
                "p/latin.py:1:1-1:1 error E902",
                "p/n.ipynb:0:0 error F401",
            ]
        );
        let finding = |number: usize| &report.findings[number];
        assert_eq!(
            finding(0).url.as_deref(),
            Some("https://docs.astral.sh/ruff/rules/unused-import")
        );
        assert_eq!(finding(1).message, "Expected a parameter or the end of the parameter list");
        assert_eq!(finding(5).message, "`os` imported but unused (cell 2, line 1, column 8)");
        assert!(finding(5).fix.is_none());
        assert!(report.raw.starts_with("p/a.py:1:8: F401 `os` imported but unused\n"));

        let fix = finding(0).fix.as_ref().unwrap();
        assert_eq!((fix.safe, fix.description.as_str()), (true, "Remove unused import: `os`"));
        assert!(workspace.fixed(finding(0)).starts_with("import sys\n"));
        assert_eq!(workspace.fixed(finding(2)), "\u{feff}x = \"hé😀\"; import sys\r\n");
        assert_eq!(workspace.fixed(finding(3)), "\u{feff}import os\r\nx = \"hé😀\"; \r\n");
        assert!(!finding(3).fix.as_ref().unwrap().safe);
    }

    #[test]
    fn errors_of_ruff_are_invalid_requests() {
        let read = |code, stdout, stderr| {
            parse(&Workspace::output(code, stdout, stderr)).map(|_| ()).unwrap_err()
        };
        let said = "ruff failed\n  Cause: Unknown rule selector `ZZZ` in `select` from the CLI\n";
        let Error::Invalid(message) = read(2, "", said) else { unreachable!() };
        assert_eq!(
            message,
            "ruff: ruff failed\n  Cause: Unknown rule selector `ZZZ` in `select` from the CLI"
        );
        for (code, stdout, stderr) in [
            (2, "", "thread 'main' panicked at crates/ruff/src/lib.rs"),
            (1, "", ""),
            (0, "{}", "something else"),
        ] {
            let error = read(code, stdout, stderr);
            assert!(matches!(error, Error::Failed(_)), "{code} {stderr}");
        }
    }
}
