//! `run_linter`: runs the operator's linters on files of any language.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use cofferdam_sdk::answer::{call_text, item_bytes};
use cofferdam_sdk::backend::linting::{Finding, Report, Request, Severity};
use cofferdam_sdk::backend::{Error, left_out};
use cofferdam_sdk::{Context, ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::choice::{self, Choice, Job, StandIn, why_wanted};
use crate::failure;
use crate::host::HostApi;
use crate::language::Language;
use crate::project::{configured, projects};
use crate::target::{self, Target};

/// The rule of a violation for something that was not checked.
pub const NOT_CHECKED: &str = "not-checked";

/// The rule of a violation for a file that can't be parsed.
const SYNTAX_ERROR: &str = "syntax-error";

/// The maximum size of the violations in a result, as JSON, in bytes.
const PAGE_BYTES: usize = 24 * 1024;

/// The maximum size of the raw output, in bytes.
const MAX_RAW_BYTES: usize = 2 * 1024;

/// The maximum number of rules in the totals.
const MAX_RULES: usize = 50;

/// The maximum number of files that a note names.
const MAX_NAMED_FILES: usize = 3;

/// A linter that runs other linters: its rules are the names of these, so a violation's linter is
/// its rule.
const META_LINTER: &str = "golangci-lint";

/// The arguments of `run_linter`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Files, directories and globs; the default is everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The name of a linter; the default is the one that the project configures, or those that the
    /// operator chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The rules whose violations are returned; the default is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<String>>,
    /// The number of violations to leave out at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// The timeout in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The violations, by severity, file, line and column.
    pub violations: Vec<Violation>,
    /// The numbers of all violations, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// The output of the linters, without what `violations` contains.
    pub raw_output: String,
    /// What was left out, and the call for it; which linters stood in for others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The numbers of all violations.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// By severity.
    pub severities: BTreeMap<&'static str, u64>,
    /// By rule: those with the most violations.
    pub rules: BTreeMap<String, u64>,
    /// The number of violations of other rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_rules: Option<u64>,
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
    let configured = |language| configured(language, &targets, context);
    let framework = args.framework.as_deref();
    let mut choice = choice::choose(framework, &present, &host.linters(), &configured)?;
    let wanted = args.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000));
    let ask = |jobs: &[Job]| {
        let timeout_ms = context.timeout_ms(wanted, started.elapsed());
        let requests: Vec<(String, Request)> =
            jobs.iter().flat_map(|job| requests(job, &targets, context, timeout_ms)).collect();
        let answers = if requests.is_empty() { Vec::new() } else { host.lint(&requests) };
        requests.into_iter().zip(answers).collect::<Vec<Asked>>()
    };
    let mut asked = ask(&choice.jobs);
    for stand_in in std::mem::take(&mut choice.stand_ins) {
        if let Some(why) = failed(&asked, &stand_in) {
            asked.retain(|((linter, _), _)| *linter != stand_in.linter);
            asked.extend(ask(&stand_in.jobs));
            let names: Vec<&str> = stand_in.jobs.iter().map(|job| job.linter.as_str()).collect();
            choice.notes.push(format!(
                "{}, but it can't run here ({why}): {} stood in for it",
                why_wanted(&stand_in.linter, &stand_in.configured),
                names.join(", ")
            ));
        }
    }
    let mut output = answer(args, &choice, &asked)?;
    output.duration = format!("{:.3}s", started.elapsed().as_secs_f64());
    Ok(output)
}

/// Why others have to stand in for a linter: it has no report, because it is missing or, where only
/// the project's configuration asks for it, for any reason.
fn failed(asked: &[Asked], stand_in: &StandIn) -> Option<String> {
    let mut why = None;
    for ((linter, _), answer) in asked {
        match answer {
            _ if *linter != stand_in.linter || stand_in.jobs.is_empty() => {}
            Err(error @ Error::Unavailable(_)) => why = Some(error),
            Err(error) if !stand_in.configured.is_empty() => why = Some(error),
            _ => return None,
        }
    }
    let line = failure::reason(why?).lines().next().unwrap_or_default();
    Some(shorten(line, 300).into_owned())
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

/// A linter's name with a request to it, and the result.
type Asked = ((String, Request), Result<Report, Error>);

/// A linter's name, a request to it, and the report or error.
type Answered<'a, T> = (&'a str, &'a Request, &'a T);

/// The result without the duration.
fn answer(args: &Args, choice: &Choice, asked: &[Asked]) -> Result<Output, ToolError> {
    let failures: Vec<Answered<'_, Error>> = asked
        .iter()
        .filter_map(|((linter, request), answer)| {
            Some((&**linter, request, answer.as_ref().err()?))
        })
        .collect();
    let reports: Vec<Answered<'_, Report>> = asked
        .iter()
        .filter_map(|((linter, request), answer)| Some((&**linter, request, answer.as_ref().ok()?)))
        .collect();
    if reports.is_empty() {
        let unfit = choice.unfit.iter().map(|(linter, error)| (linter.as_str(), error));
        let failures: Vec<(&str, &Error)> =
            failures.iter().map(|(linter, _, error)| (*linter, *error)).chain(unfit).collect();
        let error = failure::error(&failures);
        return Err(error.unwrap_or_else(|| not_configured(&choice.unchecked)));
    }
    let found = Found::new(&reports);
    let unchecked = unchecked(choice, &failures);
    let exit_code = exit_code(&reports, !found.is_empty(), !unchecked.is_empty());
    let has_none = found.is_empty() && unchecked.is_empty();
    let raw_output = raw_output(&reports);
    let mut found = found.of_rules(args.rules.as_deref());
    found.violations.extend(unchecked);
    found.sort();
    let (page, left_out) = found.page(args);
    let mut linters: Vec<&str> = Vec::new();
    for (linter, ..) in &reports {
        if !linters.contains(linter) {
            linters.push(linter);
        }
    }
    Ok(Output {
        framework: linters.join(", "),
        success: has_none && exit_code == 0,
        exit_code,
        duration: String::new(),
        violation_count: usize::try_from(found.total()).unwrap_or(usize::MAX),
        violations: page,
        totals: left_out.is_some().then(|| found.totals()),
        raw_output,
        notes: choice.notes.iter().cloned().chain(left_out).collect(),
    })
}

/// All violations of the reports.
struct Found {
    /// After [`Found::sort`], the most telling ones first.
    violations: Vec<Violation>,
    /// The numbers of those that the linters left out, by rule and severity.
    left_out: BTreeMap<(String, &'static str), u64>,
}

impl Found {
    fn new(reports: &[Answered<'_, Report>]) -> Self {
        let (mut violations, mut counts) = (Vec::new(), BTreeMap::new());
        for (linter, _, report) in reports {
            for finding in &report.findings {
                let violation = violation(linter, finding);
                match left_out(finding) {
                    Some(count) => {
                        *counts.entry((violation.rule, violation.severity)).or_default() += count;
                    }
                    None => violations.push(violation),
                }
            }
        }
        let key = |violation: &Violation| {
            (violation.file.clone(), violation.line, violation.column, violation.rule.clone())
        };
        violations.sort_by_cached_key(key);
        // A nested project may have been checked twice.
        violations.dedup();
        Self { violations, left_out: counts }
    }

    fn is_empty(&self) -> bool {
        self.violations.is_empty() && self.left_out.is_empty()
    }

    fn of_rules(mut self, rules: Option<&[String]>) -> Self {
        if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
            self.violations.retain(|violation| rules.contains(&violation.rule));
            self.left_out.retain(|(rule, _), _| rules.contains(rule));
        }
        self
    }

    /// Sorts the first violation of each rule, and both of a rule with two, before all others; each
    /// part by severity, then by the number of earlier violations of the same file. So neither one
    /// rule nor one file pushes out all others.
    fn sort(&mut self) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for violation in &self.violations {
            *counts.entry(&violation.rule).or_default() += 1;
        }
        let (mut of_rule, mut in_file) = (HashMap::new(), HashMap::new());
        let mut keys: Vec<(bool, bool, u8, usize)> = Vec::with_capacity(self.violations.len());
        for violation in &self.violations {
            let (rank, rule) = (rank(violation), violation.rule.as_str());
            let earlier: &mut usize = of_rule.entry(rule).or_default();
            *earlier += 1;
            let repeats = *earlier > 1 && counts.get(rule).is_none_or(|count| *count > 2);
            let nth: &mut usize = in_file.entry((rank, violation.file.as_str())).or_default();
            *nth += 1;
            keys.push((rule != NOT_CHECKED, repeats, rank, *nth));
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        // Stable: by file, line and column.
        order.sort_by_key(|&index| keys[index]);
        let mut sorted: Vec<Option<Violation>> = self.violations.drain(..).map(Some).collect();
        self.violations = order.into_iter().filter_map(|index| sorted[index].take()).collect();
    }

    fn total(&self) -> u64 {
        self.violations.len() as u64 + self.left_out.values().sum::<u64>()
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let listed = self.violations.iter().map(|found| (&found.rule, found.severity, 1));
        let counted =
            self.left_out.iter().map(|((rule, severity), count)| (rule, *severity, *count));
        let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
        for (rule, severity, count) in listed.chain(counted) {
            *totals.severities.entry(severity).or_default() += count;
            *rules.entry(rule).or_default() += count;
        }
        let mut rules: Vec<(&str, u64)> = rules.into_iter().collect();
        rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let others = rules.split_off(rules.len().min(MAX_RULES));
        totals.rules = rules.into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect();
        let others: u64 = others.iter().map(|(_, count)| count).sum();
        totals.other_rules = (others > 0).then_some(others);
        totals
    }

    /// The violations that fit in a result, and a text about those left out.
    fn page(&self, args: &Args) -> (Vec<Violation>, Option<String>) {
        let offset = args.offset.unwrap_or(0).min(self.violations.len());
        let mut left = PAGE_BYTES;
        let mut page: Vec<Violation> = Vec::new();
        for violation in &self.violations[offset..] {
            const MAX_MESSAGE_BYTES: usize = 1_000;
            let message = shorten(&violation.message, MAX_MESSAGE_BYTES).into_owned();
            let violation = Violation { message, ..violation.clone() };
            match left.checked_sub(item_bytes(&violation)) {
                Some(rest) => left = rest,
                None => break,
            }
            page.push(violation);
        }
        let end = offset + page.len();
        let left_out = (end as u64) < self.total();
        let left_out = left_out.then(|| self.left_out_text(args, page.len(), end));
        page.sort_by_cached_key(|violation| {
            let is_checked = violation.rule != NOT_CHECKED;
            (is_checked, rank(violation), violation.file.clone(), violation.line, violation.column)
        });
        (page, left_out)
    }

    fn left_out_text(&self, args: &Args, listed: usize, end: usize) -> String {
        let mut text = format!(
            "{listed} of {} violations are listed: the first of each rule, then errors first and spread over \
             the files",
            self.total()
        );
        if end < self.violations.len() {
            let next = Args { offset: Some(end), ..args.clone() };
            text += "; the next: ";
            text += &call_text("run_linter", &next);
        }
        let mut files: HashMap<&str, u64> = HashMap::new();
        for violation in &self.violations {
            *files.entry(&violation.file).or_default() += 1;
        }
        let mut files: Vec<(&str, u64)> = files.into_iter().collect();
        files.sort_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
        let most: Vec<String> = files
            .iter()
            .take(MAX_NAMED_FILES)
            .map(|(file, count)| format!("{file} ({count})"))
            .collect();
        text += &format!("; most are in {}", most.join(", "));
        let counted: u64 = self.left_out.values().sum();
        if counted > 0 {
            text += &format!("; {counted} were only counted: `files` returns those of fewer files");
        } else {
            text += "; `files` and `rules` return fewer";
        }
        text
    }
}

/// The place of a violation in a result, by its severity.
fn rank(violation: &Violation) -> u8 {
    match violation.severity {
        "error" => 0,
        "warning" => 1,
        _ => 2,
    }
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
fn unchecked(choice: &Choice, failures: &[Answered<'_, Error>]) -> Vec<Violation> {
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

/// What the linters printed except for their findings, with headings if there are several.
fn raw_output(reports: &[Answered<'_, Report>]) -> String {
    let mut raw = String::new();
    for (linter, request, report) in reports {
        let rest = shorten_output(report, MAX_RAW_BYTES / reports.len());
        if reports.len() > 1 && !rest.is_empty() {
            let place = if request.root.is_empty() { "" } else { " in " };
            push_line(&mut raw, &format!("== {linter}{place}{} ==", request.root));
        }
        raw.push_str(&rest);
    }
    raw
}

/// The output of a linter without the lines that only repeat a finding.
fn shorten_output(report: &Report, most: usize) -> String {
    let mut findings = HashSet::new();
    for Finding { path, line, column, code, message, .. } in &report.findings {
        for place in [format!("{path}:{line}:{column}"), format!("{path}:{line}"), path.clone()] {
            let text = format!("{place}: {code} {message}");
            findings.extend(text.lines().map(str::to_owned));
        }
    }
    let rest: String = report
        .raw
        .split_inclusive('\n')
        .filter(|line| !findings.contains(line.trim_end()))
        .collect();
    shorten(&rest, most).into_owned()
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
fn exit_code(reports: &[Answered<'_, Report>], found: bool, unchecked: bool) -> i32 {
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
        assert_eq!(answer["raw_output"], "", "findings are not repeated");
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
        assert_eq!(answer["raw_output"], "");
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
        let stood_in = "'pylint' was named, but there is no such linter for python here: ruff \
                        stood in for it";
        for (exit_code, success) in [(None, true), (Some(0), true), (Some(4), false)] {
            fake.answers.insert("ruff", Ok(report(vec![], exit_code)));
            assert_eq!(
                lint(&fake, json!({"framework": "pylint"})).unwrap(),
                json!({
                    "framework": "ruff", "success": success,
                    "exit_code": exit_code.unwrap_or(0), "violation_count": 0, "violations": [],
                    "raw_output": "", "notes": [stood_in]
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
                "raw_output": ""
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
    fn many_findings_are_paged_with_exact_totals() {
        let mut fake = Fake::new(&[("a.js", "")]);
        fake.linters = vec![backend("deno_lint", &["javascript"], &["javascript"])];
        let of = |file: &str, line, rule: &str, severity| Finding {
            severity,
            ..finding(file, line, 1, rule, "a message about this")
        };
        // One minified file has more than half of them.
        let minified = (1..=9_959).map(|line| of("app.min.js", line, "semi", Severity::Warning));
        let others = (0..800).flat_map(|n| {
            (1..=10).map(move |line| of(&format!("src/{n}.js"), line, "quotes", Severity::Warning))
        });
        let errors = (0..93).map(|n| of(&format!("src/{n}.js"), 99, "no-undef", Severity::Error));
        let all: Vec<Finding> = minified.chain(others).chain(errors).collect();
        assert_eq!(all.len(), 18_052);
        let mut many = report(all, None);
        many.raw.push_str("a warning about the configuration\n");
        fake.answers.insert("deno_lint", Ok(many));
        let first = lint(&fake, json!({})).unwrap();
        assert!(first.to_string().len() <= 32 * 1024, "{}", first.to_string().len());
        assert_eq!(first["violation_count"], 18_052);
        assert_eq!(
            first["totals"],
            json!({
                "severities": {"error": 93, "warning": 17_959},
                "rules": {"no-undef": 93, "quotes": 8_000, "semi": 9_959}
            })
        );
        assert_eq!(first["raw_output"], "a warning about the configuration\n");
        let violations = first["violations"].as_array().unwrap();
        assert!(violations[..93].iter().all(|found| found["severity"] == "error"));
        let of_minified = violations.iter().filter(|found| found["file"] == "app.min.js").count();
        assert_eq!((of_minified, violations.len() > 120), (1, true));
        let note = first["notes"][0].as_str().unwrap();
        let head = format!("{} of 18052 violations are listed", violations.len());
        assert!(note.starts_with(&head), "{note}");
        assert!(note.contains("most are in app.min.js (9959), "), "{note}");
        let call = note.split_once("run_linter ").unwrap().1.split_once("; most").unwrap().0;
        assert_eq!(parsed(call), json!({"offset": violations.len()}));
        let second = lint(&fake, parsed(call)).unwrap();
        assert!(
            second["violations"]
                .as_array()
                .unwrap()
                .iter()
                .all(|found| !violations.contains(found))
        );
        let of_rule = lint(&fake, json!({"rules": ["no-undef"]})).unwrap();
        assert_eq!(of_rule["violation_count"], 93);
        assert!(of_rule.get("totals").is_none() && of_rule["success"] == false, "{of_rule:#}");
    }

    #[test]
    fn rare_rules_are_not_hidden_behind_a_frequent_one() {
        let mut fake = Fake::new(&[("a.js", "")]);
        fake.linters = vec![backend("deno_lint", &["javascript"], &["javascript"])];
        let of = |file: &str, line, rule: &str, severity| Finding {
            severity,
            ..finding(file, line, 1, rule, "a message about this")
        };
        let frequent = (1..=9_000)
            .map(|line| of(&format!("a{}.js", line % 50), line, "semi", Severity::Error));
        let rare = [
            of("z.js", 1, "once", Severity::Error),
            of("z.js", 2, "twice", Severity::Warning),
            of("z.js", 3, "twice", Severity::Warning),
            of("vendor.min.js", 1, "hint", Severity::Info),
        ];
        fake.answers.insert("deno_lint", Ok(report(frequent.chain(rare).collect(), None)));
        let output = lint(&fake, json!({})).unwrap();
        let listed = |rule: &str| {
            let violations = output["violations"].as_array().unwrap();
            violations.iter().filter(|found| found["rule"] == rule).count()
        };
        assert_eq!((listed("once"), listed("twice"), listed("hint")), (1, 2, 1), "{output:#}");
        assert!(listed("semi") > 100, "{output:#}");
        assert_eq!(output["totals"]["rules"]["semi"], 9_000);
    }

    #[test]
    fn what_a_linter_only_counted_is_in_the_totals() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = vec![backend("ruff", &["python"], &["python"])];
        let mut bounded = cofferdam_sdk::backend::BoundedFindings::default();
        for line in 1..=200_000 {
            bounded.add(finding("a.py", line, 1, "E501", "line too long"));
        }
        fake.answers.insert("ruff", Ok(report(bounded.finish(), None)));
        let answer = lint(&fake, json!({})).unwrap();
        assert_eq!(answer["violation_count"], 200_000);
        assert_eq!(answer["totals"]["rules"], json!({"E501": 200_000}));
        assert!(
            answer["violations"].as_array().unwrap().iter().all(|found| found["file"] == "a.py")
        );
        assert!(answer.to_string().len() <= 32 * 1024);
        let note = answer["notes"][0].as_str().unwrap();
        assert!(note.contains("were only counted"), "{note}");
    }

    #[test]
    fn the_operators_linters_stand_in_for_one_that_cannot_run() {
        let mut fake = Fake::new(&[("a.py", ""), (".pylintrc", "")]);
        fake.linters =
            vec![backend("ruff", &["python"], &["python"]), backend("pylint", &["python"], &[])];
        fake.answers.insert("ruff", Ok(report(vec![], None)));
        fake.answers.insert("pylint", Ok(report(vec![], Some(0))));
        for args in [json!({}), json!({"framework": "pylint"})] {
            assert_eq!(lint(&fake, args).unwrap()["framework"], "pylint");
        }
        fake.answers.insert("pylint", Err(Error::Unavailable("there is no program".into())));
        for (args, why) in [
            (json!({}), ".pylintrc configures 'pylint'"),
            (json!({"framework": "pylint"}), "'pylint' was named"),
        ] {
            let answer = lint(&fake, args).unwrap();
            assert_eq!((&answer["framework"], &answer["success"]), (&json!("ruff"), &json!(true)));
            assert_eq!(
                answer["notes"],
                json!([format!(
                    "{why}, but it can't run here (there is no program): ruff stood in for it"
                )])
            );
        }
        // A configuration that it can't read: only one that was named is not replaced.
        fake.answers.insert("pylint", Err(Error::Invalid("bad option".into())));
        assert_eq!(lint(&fake, json!({})).unwrap()["framework"], "ruff");
        let error = lint(&fake, json!({"framework": "pylint"})).unwrap_err();
        assert_eq!(error.to_string(), "InvalidLintRequest: pylint: bad option");
    }

    #[test]
    fn the_examples_of_the_schema_are_arguments() {
        takes_examples::<Args>(&parsed(INPUT));
    }
}
