//! `run_linter`: runs the operator's linters on files of any language.

use std::collections::BTreeSet;
use std::time::Instant;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Report, Request, Severity};
use cofferdam_sdk::{Context, ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::choice::{self, Choice, Job};
use crate::failure;
use crate::host::HostApi;
use crate::language::Language;
use crate::project::projects;
use crate::target::{self, Target};

/// The rule of a violation for something that was not checked.
pub const NOT_CHECKED: &str = "not-checked";

/// The rule of a violation for a file that can't be parsed.
const SYNTAX_ERROR: &str = "syntax-error";

/// The maximum number of violations in a result; more are only counted.
const MAX_LISTED: usize = 10_000;

/// The maximum size of the raw output, in bytes.
const MAX_RAW_BYTES: usize = 1 << 20;

/// A linter that runs other linters: its rules are the names of these, so a violation's linter is
/// its rule.
const META_LINTER: &str = "golangci-lint";

/// The arguments of `run_linter`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Files, directories and globs; the default is everything.
    pub files: Option<Vec<String>>,
    /// The name of a linter; the default is those that the operator chose.
    pub framework: Option<String>,
    /// The timeout in seconds.
    pub timeout_seconds: Option<u32>,
}

/// The result of `run_linter`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    /// The names of the linters that ran.
    pub framework: String,
    /// Whether everything was checked and there are no violations.
    pub success: bool,
    /// The first exit code of a native program that is not 0; without native programs, 1 if there
    /// are violations, otherwise 0.
    pub exit_code: i32,
    /// The duration, such as `2.345s`.
    pub duration: String,
    /// The number of violations, with those not listed.
    pub violation_count: usize,
    /// The violations, by file, line and column.
    pub violations: Vec<Violation>,
    /// The output of the linters.
    pub raw_output: String,
}

/// A finding of a linter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Relative to the workspace.
    pub file: String,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
    /// Counted from 1 in characters; 0: the line as a whole.
    pub column: u32,
    /// The name of the rule.
    pub rule: String,
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// The message of the linter.
    pub message: String,
    /// The linter that has the rule.
    pub linter: String,
}

/// Runs the linters that are chosen for the targets.
///
/// # Errors
/// Those of [`target::named`] and [`choice::choose`]; `LinterUnavailable`, `InvalidLintRequest`,
/// `LinterLimit` or `LinterFailed` if no linter has a report.
pub fn run(args: &Args, context: &Context, host: &impl HostApi) -> Result<Output, ToolError> {
    let started = Instant::now();
    let targets = match args.files.as_deref() {
        Some(names) if !names.is_empty() => target::named(names, context, host)?,
        _ => target::everything(context, host)?,
    };
    let present: BTreeSet<Language> = targets.iter().flat_map(Target::languages).collect();
    let choice = choice::choose(args.framework.as_deref(), &present, &host.linters())?;
    let wanted = args.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000));
    let timeout_ms = context.timeout_ms(wanted, started.elapsed());
    let requests: Vec<(String, Request)> =
        choice.jobs.iter().flat_map(|job| requests(job, &targets, context, timeout_ms)).collect();
    let answers = if requests.is_empty() { Vec::new() } else { host.lint(&requests) };
    let mut output = answer(&choice, &requests, &answers)?;
    output.duration = format!("{:.3}s", started.elapsed().as_secs_f64());
    Ok(output)
}

/// The requests for a job: one for each project.
fn requests(
    job: &Job,
    targets: &[Target],
    context: &Context,
    timeout_ms: u32,
) -> Vec<(String, Request)> {
    let request = |(root, paths): (String, BTreeSet<String>)| Request {
        root,
        paths: paths.into_iter().collect(),
        config: None,
        select: Vec::new(),
        timeout_ms,
    };
    let projects = projects(job, targets, context);
    projects.into_iter().map(|project| (job.linter.clone(), request(project))).collect()
}

/// A linter's name, a request to it, and the result.
type Asked<'a, T> = (&'a str, &'a Request, &'a T);

/// The result without the duration.
fn answer(
    choice: &Choice,
    requests: &[(String, Request)],
    answers: &[Result<Report, Error>],
) -> Result<Output, ToolError> {
    let asked = || requests.iter().zip(answers);
    let failures: Vec<Asked<'_, Error>> = asked()
        .filter_map(|((linter, request), answer)| {
            Some((&**linter, request, answer.as_ref().err()?))
        })
        .collect();
    let reports: Vec<Asked<'_, Report>> = asked()
        .filter_map(|((linter, request), answer)| Some((&**linter, request, answer.as_ref().ok()?)))
        .collect();
    if reports.is_empty() {
        let unfit = choice.unfit.iter().map(|(linter, error)| (linter.as_str(), error));
        let failures: Vec<(&str, &Error)> =
            failures.iter().map(|(linter, _, error)| (*linter, *error)).chain(unfit).collect();
        let error = failure::error(&failures);
        return Err(error.unwrap_or_else(|| not_configured(&choice.unchecked)));
    }
    let mut violations: Vec<Violation> = reports
        .iter()
        .flat_map(|(linter, _, report)| {
            report.findings.iter().map(|found| violation(linter, found))
        })
        .collect();
    violations.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    // A nested project may have been checked twice.
    violations.dedup();
    let unchecked = unchecked(choice, &failures);
    let mut raw = raw_output(&reports);
    for Violation { linter, message, .. } in &unchecked {
        push_line(&mut raw, &format!("{linter}: {message}"));
    }
    let exit_code = exit_code(&reports, !violations.is_empty(), !unchecked.is_empty());
    violations.splice(0..0, unchecked);

    let violation_count = violations.len();
    violations.truncate(MAX_LISTED);
    if violation_count > violations.len() {
        push_line(
            &mut raw,
            &format!("only {MAX_LISTED} of {violation_count} violations are listed"),
        );
    }
    let mut linters: Vec<&str> = reports.iter().map(|(linter, ..)| *linter).collect();
    linters.dedup();
    Ok(Output {
        framework: linters.join(", "),
        success: violation_count == 0 && exit_code == 0,
        exit_code,
        duration: String::new(),
        violation_count,
        violations,
        raw_output: raw,
    })
}

fn not_configured(languages: &[Language]) -> ToolError {
    ToolError::unavailable(
        "LinterUnavailable",
        format!(
            "linter not configured: the operator has chosen none for {}",
            choice::listed(languages)
        ),
    )
}

fn violation(linter: &str, finding: &Finding) -> Violation {
    Violation {
        file: finding.path.clone(),
        line: finding.line,
        column: finding.column,
        rule: finding.code.clone(),
        severity: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        },
        message: finding.message.clone(),
        linter: match finding.code.as_str() {
            rule if linter == META_LINTER && rule != SYNTAX_ERROR => rule.to_owned(),
            _ => linter.to_owned(),
        },
    }
}

/// Violations for everything that was not checked, so that the result is not clean.
fn unchecked(choice: &Choice, failures: &[Asked<'_, Error>]) -> Vec<Violation> {
    let violation = |linter: &str, place: &str, message: String| Violation {
        file: if place.is_empty() { "." } else { place }.to_owned(),
        line: 0,
        column: 0,
        rule: NOT_CHECKED.to_owned(),
        severity: "error",
        message,
        linter: linter.to_owned(),
    };
    let failed = failures.iter().map(|(linter, request, error)| {
        violation(linter, &request.root, format!("not checked: {}", failure::reason(error)))
    });
    let unfit = choice.unfit.iter().map(|(linter, error)| {
        violation(linter, "", format!("not checked: {}", failure::reason(error)))
    });
    let without_linter = choice.unchecked.iter().map(|language| {
        let name = language.name();
        violation(name, "", format!("not checked: the operator has chosen no linter for {name}"))
    });
    failed.chain(unfit).chain(without_linter).collect()
}

/// The output of the linters, with headings if there are several.
fn raw_output(reports: &[Asked<'_, Report>]) -> String {
    if let [(_, _, report)] = reports {
        return shorten(&report.raw, MAX_RAW_BYTES).into_owned();
    }
    let mut raw = String::new();
    for (linter, request, report) in reports {
        let place = if request.root.is_empty() { "" } else { " in " };
        push_line(&mut raw, &format!("== {linter}{place}{} ==", request.root));
        raw.push_str(&shorten(&report.raw, MAX_RAW_BYTES / reports.len()));
    }
    raw
}

/// Adds a text that begins on a new line.
fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

/// The first exit code of a native program that is not 0, or else the code that such a program
/// would have.
fn exit_code(reports: &[Asked<'_, Report>], found: bool, unchecked: bool) -> i32 {
    let codes = || reports.iter().filter_map(|(_, _, report)| report.exit_code);
    let failed = unchecked || (found && codes().next().is_none());
    codes().find(|&code| code != 0).unwrap_or(i32::from(failed))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_testing::{fits, parsed, takes_examples};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Fake, backend, finding, report};

    const INPUT: &str = include_str!("../../../schemas/tools/lint.run_linter.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/lint.run_linter.output.json");

    /// Runs the tool, checks the result against the schema, and removes the duration.
    fn lint(fake: &Fake, args: Value) -> Result<Value, ToolError> {
        fits(&parsed(INPUT), &args);
        let args = serde_json::from_value(args).unwrap();
        let output = run(&args, &fake.context, fake)?;
        let mut answer = serde_json::to_value(output).unwrap();
        fits(&parsed(OUTPUT), &answer);
        let duration = answer.as_object_mut().unwrap().remove("duration").unwrap();
        assert!(duration.as_str().unwrap().ends_with('s'), "{duration}");
        Ok(answer)
    }

    #[test]
    fn the_documented_example_has_the_documented_result() {
        let mut fake = Fake::new(&[("go.mod", ""), ("internal/foo.go", ""), ("pkg/bar.go", "")]);
        fake.linters = vec![backend("golangci-lint", &["go"], &["go"])];
        let found = finding("internal/foo.go", 10, 2, "unused", "unused variable 'x'");
        let mut found = report(vec![found], Some(1));
        found.raw = "full linter output...".to_owned();
        fake.answers.insert("golangci-lint", Ok(found));
        let args = json!({
            "files": ["internal/*.go", "pkg/*.go"], "framework": "golangci-lint",
            "timeout_seconds": 300
        });
        assert_eq!(
            lint(&fake, args).unwrap(),
            json!({
                "framework": "golangci-lint", "success": false, "exit_code": 1,
                "violation_count": 1,
                "violations": [{
                    "file": "internal/foo.go", "line": 10, "column": 2, "rule": "unused",
                    "severity": "error", "message": "unused variable 'x'", "linter": "unused"
                }],
                "raw_output": "full linter output..."
            })
        );
        let (linter, request) = &fake.asked()[0];
        assert_eq!(linter, "golangci-lint");
        assert_eq!(request.paths, ["internal/foo.go", "pkg/bar.go"]);
        assert!((1..=9_500).contains(&request.timeout_ms), "the call has ten seconds");
    }

    #[test]
    fn all_languages_are_linted_in_one_call() {
        let mut fake = Fake::new(&[("a.py", ""), ("b.js", ""), ("c.ts", "")]);
        fake.linters = vec![
            backend("ruff", &["python"], &["python"]),
            backend("mypy", &["python"], &["python"]),
            backend("deno_lint", &["javascript", "typescript"], &["javascript"]),
            backend("eslint", &["javascript", "typescript"], &["typescript"]),
        ];
        fake.answers
            .insert("ruff", Ok(report(vec![finding("a.py", 2, 1, "F401", "unused")], None)));
        fake.answers
            .insert("mypy", Ok(report(vec![finding("a.py", 1, 1, "misc", "bad")], Some(1))));
        fake.answers.insert("deno_lint", Ok(report(vec![], None)));
        fake.answers.insert("eslint", Ok(report(vec![], None)));
        let answer = lint(&fake, json!({})).unwrap();
        assert_eq!(answer["framework"], "ruff, mypy, deno_lint, eslint");
        assert_eq!(answer["exit_code"], 1);
        assert_eq!(answer["violation_count"], 2);
        assert_eq!(answer["violations"][0]["linter"], "mypy");
        assert_eq!(answer["violations"][1]["linter"], "ruff");
        assert_eq!(
            answer["raw_output"],
            "== ruff ==\na.py:2:1: F401 unused\n== mypy ==\na.py:1:1: misc bad\n== deno_lint ==\n== eslint ==\n"
        );
        let paths: Vec<_> = fake.asked().into_iter().map(|(_, request)| request.paths).collect();
        assert_eq!(paths, [["."], ["."], ["b.js"], ["c.ts"]]);
    }

    #[test]
    fn each_project_is_linted_in_its_own_directory() {
        let mut fake =
            Fake::new(&[("go.mod", ""), ("a.go", ""), ("tools/go.mod", ""), ("tools/b.go", "")]);
        fake.linters = vec![backend("golangci-lint", &["go"], &["go"])];
        let found = finding("tools/b.go", 0, 0, "syntax-error", "no package");
        fake.answers.insert("golangci-lint", Ok(report(vec![found], Some(1))));
        let answer = lint(&fake, json!({})).unwrap();
        assert_eq!(answer["framework"], "golangci-lint");
        assert_eq!(answer["violation_count"], 1, "what both find is one violation");
        assert_eq!(answer["violations"][0]["linter"], "golangci-lint");
        let raw = answer["raw_output"].as_str().unwrap();
        assert!(raw.contains("\n== golangci-lint in tools ==\n"), "{raw}");
        let asked: Vec<_> =
            fake.asked().into_iter().map(|(_, request)| (request.root, request.paths)).collect();
        let wanted = [("", "."), ("tools", "tools")]
            .map(|(root, path)| (root.to_owned(), vec![path.to_owned()]));
        assert_eq!(asked, wanted);
    }

    #[test]
    fn no_findings_is_a_success() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = vec![backend("ruff", &["python"], &["python"])];
        for (exit_code, success) in [(None, true), (Some(0), true), (Some(4), false)] {
            fake.answers.insert("ruff", Ok(report(vec![], exit_code)));
            assert_eq!(
                lint(&fake, json!({"framework": "pylint"})).unwrap(),
                json!({
                    "framework": "ruff", "success": success,
                    "exit_code": exit_code.unwrap_or(0), "violation_count": 0, "violations": [],
                    "raw_output": ""
                })
            );
        }
    }

    #[test]
    fn unchecked_files_are_violations() {
        let mut fake = Fake::new(&[("a.py", ""), ("b.go", "")]);
        fake.linters = vec![
            backend("ruff", &["python"], &["python"]),
            backend("pylint", &["python"], &["python"]),
        ];
        fake.answers.insert("ruff", Ok(report(vec![], None)));
        fake.answers
            .insert("pylint", Err(Error::Unavailable("there is no program 'pylint'".into())));
        let answer = lint(&fake, json!({})).unwrap();
        let unchecked = |linter: &str, message: &str| {
            json!({
                "file": ".", "line": 0, "column": 0, "rule": "not-checked", "severity": "error",
                "message": message, "linter": linter
            })
        };
        assert_eq!(
            answer,
            json!({
                "framework": "ruff", "success": false, "exit_code": 1, "violation_count": 2,
                "violations": [
                    unchecked("pylint", "not checked: there is no program 'pylint'"),
                    unchecked("go", "not checked: the operator has chosen no linter for go")
                ],
                "raw_output": "pylint: not checked: there is no program 'pylint'\n\
                               go: not checked: the operator has chosen no linter for go\n"
            })
        );
    }

    #[test]
    fn a_chosen_linter_that_is_not_installed_is_reported_as_not_checked() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = vec![
            backend("mipy", &[], &["python"]),
            backend("ruff", &["python"], &["python"]),
            backend("mypy", &["python"], &[]),
        ];
        fake.answers.insert("ruff", Ok(report(vec![], None)));
        let said = "the setting linters.python names 'mipy', which is no linter for python here; \
                    there are: mypy, ruff";
        let answer = lint(&fake, json!({"files": ["a.py"]})).unwrap();
        assert_eq!((&answer["success"], &answer["exit_code"]), (&json!(false), &json!(1)));
        assert_eq!(
            answer["violations"],
            json!([{
                "file": ".", "line": 0, "column": 0, "rule": "not-checked", "severity": "error",
                "message": format!("not checked: {said}"), "linter": "mipy"
            }])
        );
        fake.linters[1].chosen_for.clear();
        let error = lint(&fake, json!({})).unwrap_err();
        assert_eq!(error.to_string(), format!("LinterUnavailable: mipy: {said}"));
    }

    #[test]
    fn without_any_report_the_call_fails() {
        let mut fake = Fake::new(&[("a.py", ""), ("b.go", "")]);
        fake.linters = vec![backend("pylint", &["python"], &["python"])];
        fake.answers
            .insert("pylint", Err(Error::Unavailable("there is no program 'pylint'".into())));
        for (args, wanted) in [
            (json!({}), "LinterUnavailable: pylint: there is no program 'pylint'"),
            (
                json!({"files": ["b.go"]}),
                "LinterUnavailable: linter not configured: the operator has chosen none for go",
            ),
            (
                json!({"framework": "golangci-lint"}),
                "LinterUnavailable: linter not configured: the operator has chosen none for go",
            ),
            (
                json!({"framework": "eslint"}),
                "NothingToLint: there is nothing to lint for eslint: found go, python",
            ),
            (json!({"files": ["c.py"]}), "FileNotFoundError: file not found: c.py"),
        ] {
            assert_eq!(lint(&fake, args).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn long_output_is_cut() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = vec![backend("ruff", &["python"], &["python"])];
        let found = (1..=10_001).map(|line| finding("a.py", line, 1, "F401", "unused"));
        let mut many = report(found.collect(), None);
        many.raw = "ä".repeat(MAX_RAW_BYTES);
        fake.answers.insert("ruff", Ok(many));
        let answer = lint(&fake, json!({})).unwrap();
        assert_eq!(answer["violation_count"], 10_001);
        assert_eq!(answer["violations"].as_array().unwrap().len(), MAX_LISTED);
        let raw = answer["raw_output"].as_str().unwrap();
        assert!(raw.len() < MAX_RAW_BYTES + 200);
        assert!(raw.contains("\n[... 1048576 bytes left out ...]\n"));
        assert!(raw.ends_with("only 10000 of 10001 violations are listed\n"));
    }

    #[test]
    fn the_examples_of_the_schema_are_arguments() {
        takes_examples::<Args>(&parsed(INPUT));
    }
}
