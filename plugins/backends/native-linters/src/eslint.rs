//! ESLint: the workspace's own if it has one, since its configuration and plugins need that
//! version; otherwise the operator's program `eslint`.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Fix, Report, Severity};
use cofferdam_sdk::process::Output;
use cofferdam_sdk::text::{Text, Unit};
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

use crate::findings::{Findings, SYNTAX_ERROR, finding, fix};
use crate::job::Job;
use crate::program::{Program, Run};

const ESLINT: Program = Program { name: "eslint" };
const NODE: Program = Program { name: "node" };

/// The path of an installed ESLint in a package's directory.
const LOCAL_ESLINT: &str = "node_modules/eslint/bin/eslint.js";

/// The code of ESLint's own messages, such as about an unused directive.
const OWN_CODE: &str = "eslint";

/// The version of the workspace's ESLint, or of the operator's.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    match context.resolve(LOCAL_ESLINT) {
        Ok(local) if context.local(&local).is_file() => {
            NODE.version(&[LOCAL_ESLINT, "--version"], context)
        }
        _ => ESLINT.version(&["--version"], context),
    }
}

/// Lints with ESLint. It fixes nothing itself.
///
/// # Errors
/// `Invalid` for a configuration that is missing or that ESLint rejects; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let mut run = Run::new(job, &[]);
    let program = match local(job) {
        Some(script) => {
            run.arguments.push(job.argument(&script));
            NODE
        }
        None => ESLINT,
    };
    // A directory without files to lint is not an error.
    run.arguments.extend(["--format=json", "--no-error-on-unmatched-pattern"].map(str::to_owned));
    if let Some(config) = &job.config {
        run.option("--config", job.argument(config));
    }
    run.targets(job);
    let output = program.run(job, run)?;
    let (mut findings, files) = read(job, &output)?;
    findings.choose();
    Ok(findings.report(files, &output))
}

/// The workspace's ESLint that the job's directory would use.
fn local(job: &Job<'_>) -> Option<WorkspacePath> {
    let script =
        |directory: &WorkspacePath| job.context.resolve(&format!("{directory}/{LOCAL_ESLINT}"));
    job.up_from(&job.root).iter().filter_map(|at| script(at).ok()).find(|path| job.is_file(path))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    file_path: String,
    messages: Vec<Message>,
}

/// Positions are counted from 1, columns in UTF-16 code units. Messages about ignored files have
/// none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    rule_id: Option<String>,
    #[serde(default)]
    fatal: bool,
    severity: u8,
    message: String,
    line: Option<u32>,
    column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
    fix: Option<Replacement>,
}

/// Offsets in UTF-16 code units without a byte order mark; -1 is the position before the mark.
#[derive(Deserialize)]
struct Replacement {
    range: (i64, i64),
    text: String,
}

/// The findings in the output of `eslint --format=json`, and the number of files.
fn read<'a>(job: &'a Job<'a>, output: &Output) -> Result<(Findings<'a>, u32), Error> {
    // Exit code 2: the command line or a configuration file is invalid, or ESLint crashed.
    if output.exit_code() == Some(2) {
        return Err(refused(output));
    }
    let files: Vec<File> = serde_json::from_str(&ESLINT.stdout(output)?)
        .map_err(|error| ESLINT.unreadable(output, &error))?;
    let mut findings = Findings::new(job);
    let mut linted = 0;
    for file in &files {
        let Some(path) = job.printed(output, &file.file_path) else { continue };
        let ignored = file.messages.iter().any(Message::says_ignored);
        linted += u32::from(!ignored);
        for message in &file.messages {
            findings.add(&path, message.finding(job, &path));
        }
    }
    Ok((findings, linted))
}

/// The error for an invalid configuration, without the introduction and the stack trace of ESLint's
/// message. A crash of ESLint looks similar, but names the rule and the file.
fn refused(output: &Output) -> Error {
    let said = output.stderr_text();
    if said.contains("\nOccurred while linting ") {
        return ESLINT.failed(output);
    }
    let is_message = |line: &&str| {
        let line = line.trim();
        !(line.starts_with("Oops!") || line.starts_with("ESLint: ") || line.starts_with("at "))
    };
    let message: Vec<&str> = said.lines().filter(is_message).collect();
    ESLINT.refused(&message.join("\n"))
}

impl Message {
    /// Whether the file was a target but its configuration ignores it.
    fn says_ignored(&self) -> bool {
        self.rule_id.is_none() && !self.fatal && self.line.is_none()
    }

    fn finding(&self, job: &Job<'_>, path: &WorkspacePath) -> Finding {
        let code = match self.rule_id.as_deref() {
            _ if self.fatal => SYNTAX_ERROR,
            Some(rule) => rule,
            None => OWN_CODE,
        };
        let severity = if self.severity >= 2 { Severity::Error } else { Severity::Warning };
        let text = job.text(path);
        let column = |line: Option<u32>, column: Option<u32>| {
            let before = column?.checked_sub(1)?;
            let column = |text: &Text| text.column(line.unwrap_or(0), before, Unit::Utf16);
            Some(text.as_deref().map_or(before + 1, column))
        };
        Finding {
            line: self.line.unwrap_or(0),
            column: column(self.line, self.column).unwrap_or(0),
            end_line: self.end_line,
            end_column: column(self.end_line, self.end_column),
            url: self.rule_id.as_deref().and_then(url),
            fix: text.as_deref().and_then(|text| self.fix.as_ref()?.fix(path, text)),
            ..finding(path, code, severity, &self.message)
        }
    }
}

/// The URL of a rule's documentation; the names of plugins' rules contain a `/`.
fn url(rule: &str) -> Option<String> {
    (!rule.contains('/')).then(|| format!("https://eslint.org/docs/latest/rules/{rule}"))
}

impl Replacement {
    /// Converts a fix. ESLint's fixes are safe; its other edits are suggestions, which are left
    /// out.
    fn fix(&self, path: &WorkspacePath, text: &Text) -> Option<Fix> {
        let offset = |units: i64| match usize::try_from(units) {
            Ok(units) => text.offset_of(units, Unit::Utf16),
            Err(_) => Some(0),
        };
        let edit = (offset(self.range.0)?, offset(self.range.1)?, self.text.clone());
        fix(path, "apply ESLint's fix", true, [edit])
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    const MIXED: &str = "\u{feff}let a = \"hé😀\"; let b = 1\r\nif (!!a) { b\r\n}\r\n// \
                         eslint-disable-next-line no-undef\r\nlet c = 2\r\ntypeof c === \
                         \"strnig\"; [].map(x=>!x in c)";

    fn workspace() -> Workspace {
        Workspace::new(&[
            ("a.js", MIXED),
            ("bad.js", "let a = ;\n"),
            ("-dash.js", "y = 1\n"),
            ("t.ts", "let z: number = 1"),
        ])
    }

    #[test]
    fn recorded_output_becomes_findings() {
        let workspace = workspace();
        let request = request(&["."]);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(1, include_str!("../tests/data/eslint.json"), "");
        let (findings, files) = read(&job, &output).unwrap();
        let report = findings.report(files, &output);
        assert_eq!(report.files_checked, 3, "t.ts is ignored");
        assert_eq!(
            places(&report),
            [
                "-dash.js:1:1-1:2 error no-undef",
                "-dash.js:1:6-2:1 error semi",
                "a.js:1:5-1:6 error prefer-const",
                "a.js:1:20-1:21 error prefer-const",
                "a.js:1:25-2:1 error semi",
                "a.js:2:5-2:8 warning no-extra-boolean-cast",
                "a.js:2:13-3:1 error semi",
                "a.js:4:1 warning eslint",
                "a.js:5:5-5:6 error prefer-const",
                "a.js:5:10-6:1 error semi",
                "a.js:6:14-6:22 error valid-typeof",
                "a.js:6:34-6:36 error no-unsafe-negation",
                "a.js:6:42 error semi",
                "bad.js:1:9 error syntax-error",
                "t.ts:0:0 warning eslint",
            ]
        );
        let finding = |number: usize| &report.findings[number];
        assert_eq!(
            finding(2).url.as_deref(),
            Some("https://eslint.org/docs/latest/rules/prefer-const")
        );
        for (number, wanted) in [
            (2, "\u{feff}const a = \"hé😀\"; let b = 1\r\nif (!!a)"),
            (3, "\u{feff}let a = \"hé😀\"; const b = 1\r\nif (!!a)"),
            (4, "\u{feff}let a = \"hé😀\"; let b = 1;\r\nif (!!a)"),
            (5, "\u{feff}let a = \"hé😀\"; let b = 1\r\nif (a)"),
        ] {
            assert!(workspace.fixed(finding(number)).starts_with(wanted), "{number}");
        }
        assert!(workspace.fixed(finding(12)).ends_with("in c);"));
        assert!(finding(10).fix.is_none());
    }

    #[test]
    fn findings_are_filtered_by_code() {
        let workspace = workspace();
        let mut request = request(&["a.js", "bad.js"]);
        request.select = vec!["no-".to_owned()];
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(1, include_str!("../tests/data/eslint.json"), "");
        let (mut findings, files) = read(&job, &output).unwrap();
        findings.choose();
        assert_eq!(
            places(&findings.report(files, &output)),
            [
                "a.js:2:5-2:8 warning no-extra-boolean-cast",
                "a.js:6:34-6:36 error no-unsafe-negation",
                "bad.js:1:9 error syntax-error",
            ]
        );
    }

    #[test]
    fn a_fix_can_remove_the_byte_order_mark() {
        let workspace = Workspace::new(&[("a.js", "\u{feff}a();\n")]);
        let path = workspace.context.resolve("a.js").unwrap();
        let text = Text::new("\u{feff}a();\n".into());
        let replacement = Replacement { range: (-1, 0), text: String::new() };
        let fix = replacement.fix(&path, &text).unwrap();
        assert_eq!((fix.edits[0].start, fix.edits[0].end), (0, 3));
        let outside = Replacement { range: (0, 99), text: String::new() };
        assert!(outside.fix(&path, &text).is_none());
    }

    #[test]
    fn errors_of_eslint_have_no_stack() {
        let workspace = workspace();
        let request = request(&["a.js"]);
        let job = Job::new(&request, &workspace.context).unwrap();
        let said = "\nOops! Something went wrong! :(\n\nESLint: 10.15.0\n\nTypeError: Key \"rules\": \
                    Key \"zzz\": Could not find \"zzz\" in plugin \"@\".\n    at \
                    throwRuleNotFoundError (/w/node_modules/eslint/lib/config/config.js:119:16)\n    \
                    at async Object.execute (/w/node_modules/eslint/lib/cli.js:386:14)\n";
        let error = |code, stdout, stderr| {
            read(&job, &Workspace::output(code, stdout, stderr)).map(|_| ()).unwrap_err()
        };
        let Error::Invalid(message) = error(2, "", said) else { unreachable!() };
        assert_eq!(
            message,
            "eslint: TypeError: Key \"rules\": Key \"zzz\": Could not find \"zzz\" in plugin \"@\"."
        );
        let missing = "\nOops! Something went wrong! :(\n\nESLint: 10.15.0\n\nESLint couldn't find \
                       an eslint.config.* file.\n\nFrom ESLint v9.0.0, the default configuration \
                       file is now eslint.config.*.\n";
        let Error::Invalid(message) = error(2, "", missing) else { unreachable!() };
        assert!(message.starts_with("eslint: ESLint couldn't find an eslint.config.* file."));
        let crashed = "TypeError: Cannot read properties of undefined\nOccurred while linting \
                       /w/a.js:1\nRule: \"mine\"\n    at x (/w/y.js:1:1)\n";
        assert!(matches!(error(2, "", crashed), Error::Failed(_)));
        assert!(matches!(error(1, "", ""), Error::Failed(_)));
    }
}
