//! pylint. The code of a finding is the message's symbol, such as `unused-import`; its identifier,
//! such as `W0611`, is at the end of the message.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Report, Severity};
use cofferdam_sdk::process::{self, Output};
use cofferdam_sdk::text::Unit;
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

use crate::files;
use crate::findings::{Findings, SYNTAX_ERROR, finding};
use crate::job::Job;
use crate::program::{Program, Run, error_message};

const PYLINT: Program = Program { name: "pylint" };

/// The version of pylint.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    PYLINT.version(&["--version"], context)
}

/// Lints with pylint. The selected codes are passed to `--enable`: symbols, identifiers or
/// categories, but not prefixes.
///
/// # Errors
/// `Invalid` for a message or a configuration that pylint rejects; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let mut run = Run::new(job, &["--output-format=json2", "--recursive=y"]);
    run.environment = vec![
        ("PYLINTHOME", format!("{}/pylint", process::cache_directory(job.context))),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ];
    if let Some(config) = &job.config {
        run.arguments.push(format!("--rcfile={}", job.from_root(config)));
    }
    if !job.select.is_empty() {
        run.arguments.push("--disable=all".to_owned());
        run.arguments.push(format!("--enable={}", job.select.join(",")));
    }
    // Without `--`: pylint parses arguments after it as options.
    run.arguments.extend(job.arguments());
    let output = PYLINT.run(job, run)?;
    let findings = read(job, &output)?;
    Ok(findings.report(files::count(job, &["py", "pyi"]), &output))
}

#[derive(Deserialize)]
struct Answer {
    messages: Vec<Message>,
}

/// A message. Lines are counted from 1, columns in bytes of UTF-8 from 0.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(rename = "type")]
    category: String,
    symbol: String,
    message: String,
    message_id: String,
    line: u32,
    column: u32,
    end_line: Option<u32>,
    end_column: Option<u32>,
    path: String,
}

/// The bit of pylint's exit code for an invalid command line or configuration.
const USAGE_ERROR: i32 = 32;

/// The findings in the output of `pylint --output-format=json2`.
fn read<'a>(job: &'a Job<'a>, output: &Output) -> Result<Findings<'a>, Error> {
    let printed = PYLINT.stdout(output)?;
    if output.exit_code().is_some_and(|code| code & USAGE_ERROR != 0) {
        if printed.starts_with("No files to lint") {
            return match job.select.as_slice() {
                [] => Ok(Findings::new(job)),
                select => Err(PYLINT
                    .refused(&format!("none of these messages is known: {}", select.join(", ")))),
            };
        }
        return Err(PYLINT.refused(&error_message(output)));
    }
    // pylint prints an error about an invalid configuration before the JSON and continues without
    // it, which would give a misleading result.
    let start =
        if printed.starts_with('{') { Some(0) } else { printed.find("\n{").map(|at| at + 1) };
    let Some(start) = start else { return Err(PYLINT.failed(output)) };
    let (words, json) = printed.split_at(start);
    if words.contains("config-parse-error") {
        return Err(PYLINT.refused(words));
    }
    let answer: Answer =
        serde_json::from_str(json).map_err(|error| PYLINT.unreadable(output, &error))?;
    let mut findings = Findings::new(job);
    for message in &answer.messages {
        if let Some(path) = job.printed(output, &message.path) {
            findings.add(&path, message.finding(job, &path));
        }
    }
    Ok(findings)
}

impl Message {
    fn finding(&self, job: &Job<'_>, path: &WorkspacePath) -> Finding {
        let severity = match self.category.as_str() {
            "fatal" | "error" => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Info,
        };
        let is_syntax_error = self.symbol == SYNTAX_ERROR;
        let column = |line: u32, column: u32| {
            // Syntax errors are from Python's parser, which counts characters from 1; 0: unknown.
            if is_syntax_error {
                return column;
            }
            job.text(path).map_or(column + 1, |text| text.column(line, column, Unit::Byte))
        };
        let end = self.end_line.zip(self.end_column);
        Finding {
            line: self.line,
            column: column(self.line, self.column),
            end_line: self.end_line,
            end_column: end.map(|(line, end)| column(line, end)),
            url: Some(self.url()),
            ..finding(path, &self.symbol, severity, self.text())
        }
    }

    fn text(&self) -> String {
        format!("{} ({})", self.message, self.message_id)
    }

    /// The URL of the message's documentation.
    fn url(&self) -> String {
        let category = if self.category == "info" { "information" } else { &self.category };
        let symbol = &self.symbol;
        format!(
            "https://pylint.readthedocs.io/en/stable/user_guide/messages/{category}/{symbol}.html"
        )
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    const RECORDED: &str = include_str!("../tests/data/pylint.json");

    fn lint(
        paths: &[&str],
        select: &[&str],
        code: i32,
        stdout: &str,
        stderr: &str,
    ) -> Result<Report, Error> {
        let workspace = Workspace::new(&[
            ("a.py", "import os\nimport sys\n"),
            ("bad.py", "def f(:\n  x = = 1\n"),
            ("bom.py", "\u{feff}import os\r\nx = \"hé😀\"; import sys\r\n"),
            ("latin.py", ""),
        ]);
        let mut request = request(paths);
        request.select = select.iter().map(|&code| code.to_owned()).collect();
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(code, stdout, stderr);
        Ok(read(&job, &output)?.report(1, &output))
    }

    #[test]
    fn recorded_output_becomes_findings() {
        let report = lint(&["."], &[], 22, RECORDED, "").unwrap();
        assert_eq!(
            places(&report),
            [
                "a.py:1:1 info missing-module-docstring",
                "a.py:4:1-4:6 info missing-function-docstring",
                "bad.py:1:7 error syntax-error",
                "bom.py:2:12-2:22 info multiple-statements",
                "bom.py:2:12-2:22 warning unused-import",
                "latin.py:1:0 error syntax-error",
            ]
        );
        let unused = &report.findings[4];
        assert_eq!(unused.message, "Unused import sys (W0611)");
        assert_eq!(
            unused.url.as_deref(),
            Some(
                "https://pylint.readthedocs.io/en/stable/user_guide/messages/warning/\
                 unused-import.html"
            )
        );
    }

    #[test]
    fn errors_of_pylint_are_invalid_requests() {
        let broken = format!(
            "************* Module bad.pylintrc\nbad.pylintrc:1:0: F0011: error while parsing the \
             configuration: File contains no section headers.\nfile: 'bad.pylintrc', line: \
             1\n'[MAIN\\n' (config-parse-error)\n{RECORDED}"
        );
        let usage = "usage: pylint [options]\npylint: error: argument --jobs/-j: invalid int \
                     value: 'x'\n";
        let nothing = "No files to lint: exiting.\n";
        for (select, code, stdout, stderr, wanted) in [
            (&[][..], 23, broken.as_str(), "", "error while parsing the configuration"),
            (&[], 32, "", usage, "argument --jobs/-j: invalid int value: 'x'"),
            (&["zzz", "yyy"], 32, nothing, "", "none of these messages is known: zzz, yyy"),
        ] {
            let Err(Error::Invalid(message)) = lint(&["a.py"], select, code, stdout, stderr) else {
                unreachable!("{wanted}")
            };
            assert!(message.contains(wanted), "{message}");
        }
        assert!(lint(&["a.py"], &[], 32, nothing, "").unwrap().findings.is_empty());
        let traceback = "Traceback (most recent call last):\n";
        assert!(matches!(lint(&["a.py"], &[], 1, "", traceback), Err(Error::Failed(_))));
    }
}
