//! `run_linter`: runs the operator's linters on the target file.

use std::time::Duration;

use cofferdam_sdk::answer::item_bytes;
use cofferdam_sdk::backend::available::linters::{self, Backend};
use cofferdam_sdk::backend::linting::{Finding, Fix, Report, Request};
use cofferdam_sdk::backend::{Error, left_out};
use cofferdam_sdk::{Context, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::answer::Failure;
use crate::target;

/// The language of the target.
const LANGUAGE: &str = "python";

/// The maximum size of the issues in a result, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// The arguments of `run_linter`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Ignored: linting never changes files.
    #[serde(rename = "check_only")]
    pub _check_only: Option<bool>,
}

/// The result of `run_linter`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The issues, by line and column.
    pub issues: Vec<Issue>,
    /// The number of issues.
    pub total: usize,
    /// The number of issues that `apply_fix` can fix.
    pub fixable_count: usize,
    /// How many issues are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A finding in the target.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// The name of the rule.
    pub code: String,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
    /// Counted from 1 in characters; 0: the line as a whole.
    pub col: u32,
    /// The message of the linter.
    pub message: String,
    /// Whether `apply_fix` can fix it.
    pub fixable: bool,
}

/// What the tools need from the host.
pub trait Linters {
    /// The operator's linters, the chosen ones first.
    fn available(&self) -> Vec<Backend>;

    /// Runs linters by name, in parallel; the results are in the order of the requests.
    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>>;
}

/// The linters, called through the host.
pub struct Host;

impl Linters for Host {
    fn available(&self) -> Vec<Backend> {
        linters::available()
    }

    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>> {
        linters::lint(requests)
    }
}

/// Lints the target with all chosen linters.
///
/// # Errors
/// Those of [`target::path`] and [`lint`]; the error of any linter, since its findings are unknown;
/// the target is not text, or no linter checked it.
pub fn run(context: &Context, linters: &impl Linters) -> Result<Output, Failure> {
    let target = target::path(context)?;
    // Some linters skip files that they can't read.
    context.read_text(&target)?;
    let (mut issues, mut left_out_count) = (Vec::new(), 0);
    for Checked { linter, report } in lint(&target, &[], context, linters)? {
        let report = report.map_err(|error| failure(&linter, &error))?;
        if report.files_checked == 0 && report.findings.is_empty() {
            return Err(Failure(format!(
                "{linter}: it did not check {target}: {}",
                report.raw.trim()
            )));
        }
        let findings = report.findings.iter().filter(|found| found.path == target.as_str());
        left_out_count += report.findings.iter().filter_map(left_out).sum::<u64>();
        issues.extend(findings.map(|found| issue(found, &target)));
    }
    issues.sort_by_key(|issue| (issue.line, issue.col));
    let fixable_count = issues.iter().filter(|issue| issue.fixable).count();
    let more = usize::try_from(left_out_count).unwrap_or(usize::MAX);
    let total = issues.len() + more;
    let mut left = PAGE_BYTES;
    let fits = issues.iter().take_while(|issue| {
        let rest = left.checked_sub(item_bytes(issue));
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    let listed = fits.count();
    issues.truncate(listed);
    let left_out = (listed < total).then(|| {
        format!("{listed} of {total} issues are listed, by line; the next once these are fixed")
    });
    Ok(Output { issues, total, fixable_count, left_out })
}

fn issue(finding: &Finding, target: &WorkspacePath) -> Issue {
    Issue {
        code: finding.code.clone(),
        line: finding.line,
        col: finding.column,
        message: finding.message.clone(),
        fixable: safe_fix(finding, target).is_some(),
    }
}

/// A finding's fix, if it is safe and changes only the target.
pub fn safe_fix<'a>(finding: &'a Finding, target: &WorkspacePath) -> Option<&'a Fix> {
    let is_here = |fix: &&Fix| fix.edits.iter().all(|edit| edit.path == target.as_str());
    finding.fix.as_ref().filter(|fix| fix.safe && !fix.edits.is_empty()).filter(is_here)
}

/// The result of one linter.
#[derive(Debug)]
pub struct Checked {
    /// The name of the linter.
    pub linter: String,
    /// Its report, or its error.
    pub report: Result<Report, Error>,
}

/// Runs each of the operator's linters on the target, only for the codes in `select` unless it is
/// empty.
///
/// # Errors
/// The operator has chosen no linter, or one that does not support the target's language.
pub fn lint(
    target: &WorkspacePath,
    select: &[&str],
    context: &Context,
    linters: &impl Linters,
) -> Result<Vec<Checked>, Failure> {
    let request = Request {
        root: String::new(),
        paths: vec![target.as_str().to_owned()],
        config: None,
        select: select.iter().map(|&code| code.to_owned()).collect(),
        timeout_ms: context.timeout_ms(None, Duration::ZERO),
    };
    let available = linters.available();
    let chosen =
        available.iter().filter(|backend| backend.chosen_for.iter().any(|name| name == LANGUAGE));
    let is_for = |backend: &Backend| backend.languages.iter().any(|name| name == LANGUAGE);
    if let Some(unfit) = chosen.clone().find(|backend| !is_for(backend)) {
        let there = available.iter().filter(|backend| is_for(backend));
        let there: Vec<&str> = there.map(|backend| backend.name.as_str()).collect();
        return Err(Failure(format!(
            "the setting linters.{LANGUAGE} names '{}', which is no linter for {LANGUAGE} here; \
             there are: {}",
            unfit.name,
            there.join(", ")
        )));
    }
    let requests: Vec<(String, Request)> =
        chosen.map(|backend| (backend.name.clone(), request.clone())).collect();
    if requests.is_empty() {
        let message = format!("linter not configured: the operator has chosen none for {LANGUAGE}");
        return Err(Failure(message));
    }
    let answers = linters.lint(&requests);
    let names = requests.into_iter().map(|(name, _)| name);
    Ok(names.zip(answers).map(|(linter, report)| Checked { linter, report }).collect())
}

/// The message for a linter without a report.
pub fn failure(linter: &str, error: &Error) -> Failure {
    let (Error::Unavailable(reason)
    | Error::Invalid(reason)
    | Error::Limit(reason)
    | Error::Failed(reason)) = error;
    Failure(format!("{linter}: {reason}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, edit, finding, fits, fixed, report};

    #[test]
    fn issues_are_those_of_the_target_sorted_by_place() {
        let mut fake = Fake::new("a=1\nb= 2\n");
        let other = fixed(finding("E111", 2, 1), true, vec![edit("other.py", 0, 1, "")]);
        let elsewhere = Finding { path: "other.py".to_owned(), ..finding("F401", 1, 1) };
        fake.answers = vec![
            (
                "ruff",
                Ok(report(vec![
                    fixed(finding("E225", 1, 2), true, vec![edit("target.py", 1, 2, " = ")]),
                    fixed(finding("F841", 2, 1), false, vec![edit("target.py", 4, 9, "")]),
                    other,
                    elsewhere,
                ])),
            ),
            ("mypy", Ok(report(vec![finding("misc", 1, 1)]))),
        ];
        let issue = |code: &str, line: u32, col: u32, fixable: bool| {
            let message = format!("about {code}");
            json!({"code": code, "line": line, "col": col, "message": message, "fixable": fixable})
        };
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({
                "issues": [
                    issue("misc", 1, 1, false),
                    issue("E225", 1, 2, true),
                    issue("F841", 2, 1, false),
                    issue("E111", 2, 1, false)
                ],
                "total": 4,
                "fixable_count": 1
            })
        );
        for (_, request) in fake.asked() {
            assert_eq!(request.paths, ["target.py"]);
            assert!(request.select.is_empty());
        }
    }

    #[test]
    fn a_target_that_no_linter_read_is_an_error() {
        let mut fake = Fake::new("");
        fake.answers = vec![("ruff", Ok(report(vec![])))];
        fake.write("target.py", b"a = '\xe4'\n");
        let answer = fits("run_linter", run(&fake.context, &fake));
        assert!(answer["error"].as_str().unwrap().contains("not UTF-8 text"), "{answer}");
        fake.write("target.py", b"a = 1\n");
        let skipped = Report {
            files_checked: 0,
            raw: "target.py: not linted: permission denied\n".to_owned(),
            ..report(vec![])
        };
        fake.answers = vec![("ruff", Ok(skipped))];
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({
                "error": "ruff: it did not check target.py: target.py: not linted: permission denied"
            })
        );
    }

    #[test]
    fn many_issues_are_limited_and_counted() {
        let mut fake = Fake::new("");
        let mut bounded = cofferdam_sdk::backend::BoundedFindings::default();
        (1..=20_000).for_each(|line| bounded.add(finding("E225", line, 1)));
        fake.answers = vec![("ruff", Ok(report(bounded.finish())))];
        let answer = fits("run_linter", run(&fake.context, &fake));
        assert!(answer.to_string().len() <= 32 * 1024);
        assert_eq!(answer["total"], 20_000);
        let listed = answer["issues"].as_array().unwrap().len();
        let left_out = answer["left_out"].as_str().unwrap();
        assert!(left_out.starts_with(&format!("{listed} of 20000 issues")), "{left_out}");
    }

    #[test]
    fn an_unavailable_linter_is_an_error() {
        let mut fake = Fake::new("");
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({"error": "linter not configured: the operator has chosen none for python"})
        );
        fake.answers = vec![
            ("ruff", Ok(report(vec![]))),
            ("mypy", Err(Error::Unavailable("there is no program 'mypy'".to_owned()))),
        ];
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({"error": "mypy: there is no program 'mypy'"})
        );
        fake.answers.pop();
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({"issues": [], "total": 0, "fixable_count": 0})
        );
        fake.unfit = Some("mipy");
        assert_eq!(
            fits("run_linter", run(&fake.context, &fake)),
            json!({
                "error": "the setting linters.python names 'mipy', which is no linter for python \
                          here; there are: ruff, pylint"
            })
        );
        assert!(Fake::new("").asked().is_empty());
        assert_eq!(fake.asked().last().unwrap().0, "ruff");
    }
}
