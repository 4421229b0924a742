//! `run_linter`: what the operator's linters find in files of any language.

use std::collections::BTreeSet;
use std::time::Instant;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Report, Request, Severity};
use cofferdam_sdk::{Context, ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::choice::{self, Choice, Job};
use crate::failure;
use crate::language::Language;
use crate::project::projects;
use crate::target::{self, Target};
use crate::world::World;

/// The rule of a violation that stands for something that was not checked.
pub const NOT_CHECKED: &str = "not-checked";

/// The rule of a violation that says that a file can't be parsed.
const SYNTAX_ERROR: &str = "syntax-error";

/// More violations than this are counted, but not listed.
const MAX_LISTED: usize = 10_000;

/// Longer output is cut, in bytes.
const MAX_RAW: usize = 1 << 20;

/// A linter that runs others: its rules are their names, and so a violation's linter is its rule.
const RUNS_OTHERS: &str = "golangci-lint";

/// Arguments of `run_linter`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Files, directories and globs; everything where it is missing.
    pub files: Option<Vec<String>>,
    /// A linter's name; those that the operator chose for what there is where it is missing.
    pub framework: Option<String>,
    /// The most time that it may take.
    pub timeout_seconds: Option<u32>,
}

/// Answer of `run_linter`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    /// The linters that ran.
    pub framework: String,
    /// Whether everything was checked and nothing was found.
    pub success: bool,
    /// The native program's, the first that is not 0; where there is none, 1 if something was
    /// found and else 0.
    pub exit_code: i32,
    /// Such as `2.345s`.
    pub duration: String,
    /// How many violations there are, listed or not.
    pub violation_count: usize,
    /// By file, line and column.
    pub violations: Vec<Violation>,
    /// What the linters printed.
    pub raw_output: String,
}

/// Something that a linter found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Relative to the workspace.
    pub file: String,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
    /// Counted from 1 in characters; 0: the line as a whole.
    pub column: u32,
    /// The rule's name.
    pub rule: String,
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// What is wrong.
    pub message: String,
    /// Whose rule it is.
    pub linter: String,
}

/// Runs the linters.
///
/// # Errors
/// As [`target::named`] and [`choice::choose`]; `LinterUnavailable`, `InvalidLintRequest`,
/// `LinterLimit` or `LinterFailed` where no linter has a report.
pub fn run(args: &Args, context: &Context, world: &impl World) -> Result<Output, ToolError> {
    let started = Instant::now();
    let targets = match args.files.as_deref() {
        Some(names) if !names.is_empty() => target::named(names, context, world)?,
        _ => target::everything(context, world)?,
    };
    let present: BTreeSet<Language> = targets.iter().flat_map(Target::languages).collect();
    let choice = choice::choose(args.framework.as_deref(), &present, &world.linters())?;
    let wanted = args.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000));
    let timeout_ms = context.timeout_ms(wanted, started.elapsed());
    let requests: Vec<(String, Request)> =
        choice.jobs.iter().flat_map(|job| requests(job, &targets, context, timeout_ms)).collect();
    let answers = if requests.is_empty() { Vec::new() } else { world.lint(&requests) };
    let mut output = answer(&choice, &requests, &answers)?;
    output.duration = format!("{:.3}s", started.elapsed().as_secs_f64());
    Ok(output)
}

/// One request for each of the projects that a job is about.
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

/// A request, and what came of it.
type Asked<'a, T> = (&'a str, &'a Request, &'a T);

/// Everything but the duration.
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
    // A project within another one may have been looked at twice.
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
            rule if linter == RUNS_OTHERS && rule != SYNTAX_ERROR => rule.to_owned(),
            _ => linter.to_owned(),
        },
    }
}

/// What was there and was not checked, as violations: it must not look clean.
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

/// What the linters printed, under their names where there are several.
fn raw_output(reports: &[Asked<'_, Report>]) -> String {
    if let [(_, _, report)] = reports {
        return shorten(&report.raw, MAX_RAW).into_owned();
    }
    let mut raw = String::new();
    for (linter, request, report) in reports {
        let place = if request.root.is_empty() { "" } else { " in " };
        push_line(&mut raw, &format!("== {linter}{place}{} ==", request.root));
        raw.push_str(&shorten(&report.raw, MAX_RAW / reports.len()));
    }
    raw
}

/// Adds a line of its own.
fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

/// The first native program's that is not 0, or else what such a program would end with.
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

    /// Runs the tool; the answer fits the schema and has a duration, which is taken out.
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
    fn the_example_of_the_source_is_answered_in_its_own_shape() {
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
    fn all_languages_are_linted_side_by_side() {
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
    fn clean_is_clean() {
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
    fn what_was_not_checked_does_not_look_clean() {
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
    fn a_choice_that_nobody_answers_to_is_not_checked() {
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
    fn too_much_is_cut_and_says_so() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = vec![backend("ruff", &["python"], &["python"])];
        let found = (1..=10_001).map(|line| finding("a.py", line, 1, "F401", "unused"));
        let mut many = report(found.collect(), None);
        many.raw = "ä".repeat(MAX_RAW);
        fake.answers.insert("ruff", Ok(many));
        let answer = lint(&fake, json!({})).unwrap();
        assert_eq!(answer["violation_count"], 10_001);
        assert_eq!(answer["violations"].as_array().unwrap().len(), MAX_LISTED);
        let raw = answer["raw_output"].as_str().unwrap();
        assert!(raw.len() < MAX_RAW + 200);
        assert!(raw.contains("\n[... 1048576 bytes left out ...]\n"));
        assert!(raw.ends_with("only 10000 of 10001 violations are listed\n"));
    }

    #[test]
    fn the_examples_of_the_schema_are_arguments() {
        takes_examples::<Args>(&parsed(INPUT));
    }
}
