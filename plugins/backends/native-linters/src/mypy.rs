//! mypy, the static type checker for Python.
//!
//! mypy checks imported files too; only findings in the targets are reported. It stops at the first
//! files that can't be parsed.

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

const MYPY: Program = Program { name: "mypy" };

/// mypy 2's own parser has wrong columns in lines that are not ASCII; Python's parser does not.
/// Versions without this option use Python's parser.
const PYTHONS_PARSER: &str = "--no-native-parser";

/// The version of mypy.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    MYPY.version(&["--version"], context)
}

/// Lints with mypy. Findings are filtered by the selected codes, which do not enable checks.
///
/// # Errors
/// `Invalid` for a configuration or a layout of files that mypy rejects; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let mut output = run(job, &[PYTHONS_PARSER])?;
    if output.exit_code() == Some(2) && output.stderr_text().contains(PYTHONS_PARSER) {
        output = run(job, &[])?;
    }
    let mut findings = read(job, &output)?;
    findings.choose();
    Ok(findings.report(files::count(job, &["py", "pyi"]), &output))
}

fn run(job: &Job<'_>, options: &[&str]) -> Result<Output, Error> {
    let mut run = Run::new(job, options);
    run.arguments.push("--output=json".to_owned());
    run.option("--cache-dir", format!("{}/mypy", process::cache_directory(job.context)));
    if let Some(config) = &job.config {
        run.option("--config-file", job.argument(config));
    }
    run.arguments.push("--".to_owned());
    for target in &job.targets {
        if job.is_directory(target) && has_name_of_a_file(target) {
            let mut files = Vec::new();
            collect(job, target, &mut files);
            run.arguments.extend(files.iter().map(|file| job.argument(file)));
        } else {
            run.arguments.push(job.argument(target));
        }
    }
    MYPY.run(job, run)
}

/// Whether mypy treats the path as a file by its name, even if it is a directory.
fn has_name_of_a_file(path: &WorkspacePath) -> bool {
    [".py", ".pyi"].iter().any(|end| path.as_str().ends_with(end))
}

/// Collects the Python files below a directory; links to directories are not followed.
fn collect(job: &Job<'_>, directory: &WorkspacePath, files: &mut Vec<WorkspacePath>) {
    let Ok(entries) = std::fs::read_dir(job.context.local(directory)) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(path) = job.context.resolve(&format!("{directory}/{name}")) else { continue };
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(job, &path, files);
        } else if has_name_of_a_file(&path) {
            files.push(path);
        }
    }
}

/// A line of mypy's JSON. Lines are counted from 1, columns in bytes from 0; -1: unknown.
#[derive(Deserialize)]
struct Message {
    file: String,
    line: i64,
    column: i64,
    end_line: Option<i64>,
    end_column: Option<i64>,
    message: String,
    hint: Option<String>,
    code: Option<String>,
    severity: String,
}

/// The code that mypy has for files that can't be parsed.
const UNPARSABLE: &str = "syntax";

/// The findings in the output of `mypy --output=json`.
fn read<'a>(job: &'a Job<'a>, output: &Output) -> Result<Findings<'a>, Error> {
    let said = output.stderr_text();
    if let Some(problem) = said.lines().find(|line| is_broken_configuration(line)) {
        return Err(MYPY.refused(problem));
    }
    let messages: Vec<Message> =
        MYPY.stdout(output)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut findings = Findings::new(job);
    for message in &messages {
        if let Some(path) = job.printed(output, &message.file) {
            findings.add(&path, message.finding(job, &path));
        }
    }
    match output.exit_code() {
        Some(0 | 1) => {}
        // Exit code 2: files can't be parsed or read, the command line or the configuration is
        // invalid, or mypy crashed.
        _ if messages.iter().any(Message::is_syntax_error) => {}
        _ if said.contains("There are no .py[i] files") => {}
        _ => unreadable(job, output, &messages, &mut findings)?,
    }
    Ok(findings)
}

/// Whether a line of standard error says that a configuration file can't be read. mypy continues
/// without it, which would give a misleading result. Lines about single options name a section and
/// are only warnings.
fn is_broken_configuration(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(file, problem)| {
        let is_configuration = [".ini", ".toml", ".cfg"].iter().any(|end| file.ends_with(end));
        is_configuration && !file.contains(' ') && !problem.starts_with('[')
    })
}

/// The result of a run that checked nothing although no file has a syntax error.
fn unreadable(
    job: &Job<'_>,
    output: &Output,
    messages: &[Message],
    findings: &mut Findings<'_>,
) -> Result<(), Error> {
    let said = output.stderr_text();
    if said.contains("Traceback (most recent call last)") || said.contains("INTERNAL ERROR") {
        return Err(MYPY.failed(output));
    }
    let said_in_json = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let refusals: Vec<Message> = said_in_json.collect();
    if let Some(message) = messages.iter().chain(&refusals).next() {
        return Err(MYPY.refused(&format!("{}: {}", message.file, message.text())));
    }
    for line in said.lines() {
        // A file in another encoding than it declares.
        let Some((path, message)) = line.split_once(": error: ") else { continue };
        if path == MYPY.name {
            return Err(MYPY.refused(message));
        }
        if let Some(path) = job.printed(output, path) {
            findings.add(&path, finding(&path, SYNTAX_ERROR, Severity::Error, message));
        }
    }
    if findings.is_empty() { Err(MYPY.refused(&error_message(output))) } else { Ok(()) }
}

impl Message {
    fn is_syntax_error(&self) -> bool {
        self.code.as_deref() == Some(UNPARSABLE)
    }

    /// The message with mypy's hint.
    fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\n{hint}", self.message),
            None => self.message.clone(),
        }
    }

    fn finding(&self, job: &Job<'_>, path: &WorkspacePath) -> Finding {
        let code = match self.code.as_deref() {
            Some(UNPARSABLE) => SYNTAX_ERROR,
            Some(code) => code,
            None => "misc",
        };
        let severity = match self.severity.as_str() {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Info,
        };
        let number = |number: i64| u32::try_from(number).ok();
        let column = |line: u32, column: i64| {
            let column = number(column)?;
            // Syntax errors are from Python's parser, which counts characters from 1.
            if self.is_syntax_error() {
                return Some(column.max(1));
            }
            let text = job.text(path);
            Some(text.map_or(column + 1, |text| text.column(line, column, Unit::Byte)))
        };
        let line = number(self.line).unwrap_or(0);
        let end_line = self.end_line.and_then(number);
        let end_column = |line| self.end_column.and_then(|end| column(line, end));
        Finding {
            line,
            column: column(line, self.column).unwrap_or(0),
            end_line,
            end_column: end_line.and_then(end_column),
            url: url(code),
            ..finding(path, code, severity, self.text())
        }
    }
}

/// The URL of a code's documentation.
fn url(code: &str) -> Option<String> {
    (code != SYNTAX_ERROR)
        .then(|| format!("https://mypy.readthedocs.io/en/stable/_refs.html#code-{code}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    fn workspace() -> Workspace {
        Workspace::new(&[
            ("a.py", &b"import yaml\n\ndef f() -> int:\n  q = \"h\xc3\xa9\"; return \"s\"\n"[..]),
            ("notes.py", b"class A:\n  def g(self, x:int)->None: ...\n"),
            ("bad.py", "x = \"hé😀\"; y = = 2\n".as_bytes()),
            ("latin.py", b"x = \"\xff\"\n"),
            ("other/b.py", b""),
        ])
    }

    const FINDINGS: &str = r#"{"file": "a.py", "line": 1, "column": 0, "end_line": 1, "end_column": 1, "message": "Library stubs not installed for \"yaml\"", "hint": "Hint: \"python3 -m pip install types-PyYAML\"\n(or run \"mypy --install-types\" to install all missing stub packages)", "code": "import-untyped", "severity": "error"}
{"file": "a.py", "line": 4, "column": 20, "end_line": 4, "end_column": 23, "message": "Incompatible return value type (got \"str\", expected \"int\")", "hint": null, "code": "return-value", "severity": "error"}
{"file": "a.py", "line": 8, "column": 12, "end_line": 8, "end_column": 13, "message": "Revealed type is \"def (x: int) -> str\"", "hint": null, "code": "misc", "severity": "note"}
{"file": "other/b.py", "line": 5, "column": 11, "end_line": 5, "end_column": 12, "message": "Incompatible return value type (got \"int\", expected \"str\")", "hint": null, "code": "return-value", "severity": "error"}
"#;

    fn lint(paths: &[&str], code: i32, stdout: &str, stderr: &str) -> Result<Report, Error> {
        let workspace = workspace();
        let request = request(paths);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(code, stdout, stderr);
        Ok(read(&job, &output)?.report(1, &output))
    }

    #[test]
    fn recorded_output_becomes_findings() {
        let report = lint(&["a.py"], 1, FINDINGS, "").unwrap();
        assert_eq!(
            places(&report),
            [
                "a.py:1:1-1:2 error import-untyped",
                "a.py:4:20-4:23 error return-value",
                "a.py:8:13-8:14 info misc",
            ]
        );
        assert!(report.findings[0].message.contains("\"yaml\"\nHint: \"python3 -m pip"));
        assert_eq!(
            report.findings[1].url.as_deref(),
            Some("https://mypy.readthedocs.io/en/stable/_refs.html#code-return-value")
        );
    }

    #[test]
    fn unparsable_files_are_findings() {
        let printed = r#"{"file": "bad.py", "line": 1, "column": 16, "end_line": 1, "end_column": 17, "message": "Invalid syntax", "hint": null, "code": "syntax", "severity": "error"}"#;
        let report = lint(&["bad.py"], 2, printed, "").unwrap();
        assert_eq!(places(&report), ["bad.py:1:16-1:17 error syntax-error"]);

        let said = "latin.py: error: Cannot decode file: 'utf-8' codec can't decode byte 0xff in \
                    position 5: invalid start byte\n";
        let summary = "Found 1 error in 1 file (errors prevented further checking)\n";
        let report = lint(&["latin.py"], 2, summary, said).unwrap();
        assert_eq!(places(&report), ["latin.py:0:0 error syntax-error"]);
        assert!(report.findings[0].message.starts_with("Cannot decode file"));
    }

    #[test]
    fn a_directory_without_python_is_clean() {
        let report = lint(&["other"], 2, "", "There are no .py[i] files in directory 'other'\n");
        assert!(report.unwrap().findings.is_empty());
    }

    #[test]
    fn errors_of_mypy_are_invalid_requests() {
        let duplicate = r#"{"file": "d2/m.py", "line": -1, "column": -1, "end_line": -1, "end_column": 0, "message": "Duplicate module named \"m\" (also at \"d1/m.py\")", "hint": "See https://mypy.readthedocs.io", "code": null, "severity": "error"}"#;
        let plugin = r#"{"file": "badm.ini", "line": 2, "column": 0, "end_line": 2, "end_column": 1, "message": "Error importing plugin \"nothere\": No module named 'nothere'", "hint": null, "code": "misc", "severity": "error"}"#;
        let usage = "usage: mypy [-h] [-v] [-V] [more options; see below]\n            [files ...]\n\
                     mypy: error: unrecognized arguments: --bogus\n";
        for (code, stdout, stderr, wanted) in [
            (2, "", usage, "mypy: unrecognized arguments: --bogus"),
            (
                2,
                duplicate,
                "",
                "mypy: d2/m.py: Duplicate module named \"m\" (also at \"d1/m.py\")\nSee \
                 https://mypy.readthedocs.io",
            ),
            (
                2,
                "",
                plugin,
                "mypy: badm.ini: Error importing plugin \"nothere\": No module named 'nothere'",
            ),
            (
                1,
                FINDINGS,
                "badm.toml: Expected ']' at the end of a table declaration (at line 1, column 11)\n",
                "mypy: badm.toml: Expected ']' at the end of a table declaration (at line 1, \
                 column 11)",
            ),
            (
                1,
                FINDINGS,
                "mypy-bad.ini: File contains no section headers.\nfile: 'mypy-bad.ini', line: 1\n",
                "mypy: mypy-bad.ini: File contains no section headers.",
            ),
        ] {
            let Err(Error::Invalid(message)) = lint(&["a.py"], code, stdout, stderr) else {
                unreachable!("{wanted}")
            };
            assert_eq!(message, wanted);
        }
        let crash = "a.py: error: INTERNAL ERROR\nTraceback (most recent call last):\n";
        assert!(matches!(lint(&["a.py"], 2, "", crash), Err(Error::Failed(_))));
    }

    #[test]
    fn an_option_that_mypy_does_not_know_is_only_a_warning() {
        let warning = "mypy.ini: [mypy]: Unrecognized option: foo = 1\n";
        let report = lint(&["a.py"], 1, FINDINGS, warning).unwrap();
        assert_eq!(report.findings.len(), 3);
        assert!(report.raw.ends_with(warning));
    }
}
