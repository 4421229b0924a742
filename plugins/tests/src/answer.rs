//! Converts the reports of test runners to the result of `run_tests`: the fields of the actions
//! reference, failures first, in a bounded size.

use cofferdam_sdk::answer::{call_text, item_bytes};
use cofferdam_sdk::backend::testing::{Report, Status, Test};
use cofferdam_sdk::{ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::run_tests::Args;
use crate::telling::{cure, rest_of_output, telling};

/// The maximum size of a result as JSON, in bytes.
pub const MAX_RESULT_BYTES: usize = 16 * 1024;

/// The part of [`MAX_RESULT_BYTES`] for everything but the tests.
const OTHER_BYTES: usize = 3 * 1024;

/// The maximum size of the runner's own output in a result, in bytes.
const MAX_RAW_BYTES: usize = 1024;

/// The minimum and maximum size of one failure's texts, in bytes.
const FAILURE_BYTES: (usize, usize) = (240, 6 * 1024);

/// The maximum number of tests that are stored for later pages, failed ones first.
const MAX_STORED: usize = 20_000;

/// The maximum size of all texts that are stored for later pages, in bytes.
const MAX_STORED_BYTES: usize = 4_000_000;

/// The maximum number of failures that the runner's own output is compared with.
const MAX_COMPARED: usize = 200;

/// The maximum number of failures in the error of a run that could not be set up.
const MAX_SETUP_FAILURES: usize = 5;

/// The result of the tool.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The runners that ran.
    pub framework: String,
    /// Whether the runs ended with exit code 0, no test failed, and a pattern (if given) matched a
    /// test.
    pub success: bool,
    /// `None` if a run was stopped.
    pub exit_code: Option<i32>,
    /// Whether it was stopped at its timeout.
    pub timed_out: bool,
    /// The duration, such as `1.234s`.
    pub duration: String,
    /// The number of tests by status.
    pub summary: Summary,
    /// The tests: those that failed; with `verbose` also those that were skipped and passed.
    pub tests: Vec<Listed>,
    /// The end of the runner's output, without what `tests` contains.
    pub raw_output: String,
    /// What was left out or not run, and the call for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The number of tests by status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of all tests.
    pub total: usize,
    /// The number of tests that passed.
    pub passed: usize,
    /// The number of tests that failed or could not run.
    pub failed: usize,
    /// The number of skipped tests.
    pub skipped: usize,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The name that the runner uses.
    pub name: String,
    /// Its package, module or file.
    pub package: String,
    /// The status: `pass`, `fail`, `skip` or `error`.
    pub status: String,
    /// The duration, if the runner reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Why the test failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The telling lines of the runner's description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
}

/// Everything that is known of a run, from which pages are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    framework: String,
    success: bool,
    exit_code: Option<i32>,
    timed_out: bool,
    duration: String,
    summary: Summary,
    /// Failed tests first, then skipped ones, then those that passed.
    tests: Vec<Listed>,
    raw: String,
    /// What was not run.
    notes: Vec<String>,
}

/// The report of a runner, with its project's directory.
pub struct Ran {
    /// The name of the runner.
    pub framework: String,
    /// Relative to the workspace; empty: the workspace.
    pub root: String,
    /// What it reported.
    pub report: Report,
}

impl Run {
    /// Joins the reports of a run of all tests, or of those that match `pattern`. With a pattern that
    /// matches no tests it is not a success, even if the runners succeeded.
    ///
    /// # Errors
    /// `TestSetupFailed` if no test ran because something is not installed.
    pub fn new(
        pattern: Option<&str>,
        reports: Vec<Ran>,
        notes: Vec<String>,
    ) -> Result<Self, ToolError> {
        let mut run = Self {
            framework: frameworks(&reports),
            success: false,
            exit_code: exit_code(pattern, &reports),
            timed_out: reports.iter().any(|ran| ran.report.timed_out),
            duration: seconds(
                reports.iter().map(|ran| f64::from(ran.report.duration_ms)).sum::<f64>() / 1_000.0,
            ),
            summary: Summary::default(),
            tests: Vec::new(),
            raw: joined_output(&reports),
            notes,
        };
        for ran in reports {
            run.tests.extend(ran.report.tests.into_iter().map(|test| {
                let by_path = ["pytest", "jest"].contains(&ran.framework.as_str());
                listed(test, &ran.root, by_path)
            }));
        }
        run.tests.sort_by_key(rank);
        run.summary = Summary::of(&run.tests);
        if let Some(error) = run.setup_failure() {
            return Err(error);
        }
        run.success = run.exit_code == Some(0) && !run.timed_out && run.summary.failed == 0;
        run.add_unmatched(pattern);
        run.add_cure();
        run.bound();
        Ok(run)
    }

    /// Reports a pattern that no test matched.
    fn add_unmatched(&mut self, pattern: Option<&str>) {
        let Summary { passed, failed, skipped, .. } = self.summary;
        let Some(pattern) = pattern.filter(|_| passed + failed == 0 && !self.timed_out) else {
            return;
        };
        let skipped = match skipped {
            0 => String::new(),
            skipped => format!("; {skipped} were left out"),
        };
        let said = format!("no test that matches the pattern '{pattern}' ran{skipped}\n");
        self.raw.insert_str(0, &said);
        self.success = false;
    }

    /// The error of a run in which something is missing that all tests need.
    fn setup_failure(&self) -> Option<ToolError> {
        let none_ran = self.summary.failed == self.tests.len()
            && self.tests.iter().all(|test| test.name.starts_with('[') || test.name == "npm test");
        let cure = self.tests.iter().find_map(Listed::cure)?;
        if !none_ran || self.timed_out {
            return None;
        }
        let failures: Vec<String> =
            self.tests.iter().take(MAX_SETUP_FAILURES).map(Listed::in_short).collect();
        let more = match self.tests.len().saturating_sub(MAX_SETUP_FAILURES) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let message = format!(
            "no test ran, because the tests could not be set up: {}{more}. Cure: {cure}",
            failures.join("; ")
        );
        Some(ToolError::failed("TestSetupFailed", message))
    }

    /// Adds what to do about tests that could not run because something is not installed.
    fn add_cure(&mut self) {
        let unset = self.tests.iter().filter(|test| test.status == "error");
        if let Some(cure) = unset.filter_map(Listed::cure).next() {
            self.notes.push(format!("some tests could not be set up; cure: {cure}"));
        }
    }

    /// Bounds what is stored of a run.
    fn bound(&mut self) {
        self.tests.truncate(MAX_STORED);
        let mut left = MAX_STORED_BYTES;
        for test in &mut self.tests {
            for text in [&mut test.error, &mut test.stack_trace].into_iter().flatten() {
                if text.len() > left {
                    *text = shorten(text, FAILURE_BYTES.0).into_owned();
                }
                left = left.saturating_sub(text.len());
            }
        }
    }

    /// The page of the result that begins at `args.offset`, with at most [`MAX_RESULT_BYTES`].
    pub fn page(&self, args: &Args) -> Output {
        let offset = args.offset.unwrap_or(0);
        let failed = || self.tests.iter().take(self.summary.failed);
        let all = if args.verbose.unwrap_or(false) { self.tests.len() } else { failed().count() };
        let selected = self.tests.get(offset.min(all)..all).unwrap_or_default();
        let texts = selected.iter().filter(|test| test.has_failed()).count();
        let share = (MAX_RESULT_BYTES - OTHER_BYTES) / texts.max(1);
        let share = share.clamp(FAILURE_BYTES.0, FAILURE_BYTES.1);
        let mut left = MAX_RESULT_BYTES - OTHER_BYTES;
        let mut tests = Vec::new();
        let mut is_cut = false;
        for test in selected {
            let (short, cut) = test.shortened(share);
            let Some(rest) = left.checked_sub(item_bytes(&short)) else { break };
            left = rest;
            is_cut |= cut;
            tests.push(short);
        }
        let texts = failed()
            .take(MAX_COMPARED)
            .map(|test| (test.name.as_str(), [test.error.as_deref(), test.stack_trace.as_deref()]));
        let most = if args.offset.is_some() { 0 } else { MAX_RAW_BYTES };
        Output {
            framework: self.framework.clone(),
            success: self.success,
            exit_code: self.exit_code,
            timed_out: self.timed_out,
            duration: self.duration.clone(),
            summary: self.summary.clone(),
            raw_output: rest_of_output(&self.raw, texts, most),
            notes: self.notes_for(args, offset + tests.len(), all, is_cut),
            tests,
        }
    }

    /// The notes of a page that ends before the test `end` of `all`.
    fn notes_for(&self, args: &Args, end: usize, all: usize, is_cut: bool) -> Vec<String> {
        let mut notes = self.notes.clone();
        if end < all {
            let next = Args { offset: Some(end), ..args.clone() };
            let left = self.summary.failed.min(all).saturating_sub(end);
            let kind = if left > 0 { format!(", {left} of them failed") } else { String::new() };
            notes.push(format!(
                "{} more tests{kind}: {}, which does not run them again while no file \
                 changes",
                all - end,
                call_text("run_tests", &next)
            ));
        }
        if is_cut {
            notes.push(
                "long stack traces are shortened: a test_pattern that fits one test shows more"
                    .to_owned(),
            );
        }
        notes
    }
}

/// The names of the runners, each once.
fn frameworks(reports: &[Ran]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for ran in reports {
        if !names.contains(&ran.framework.as_str()) {
            names.push(&ran.framework);
        }
    }
    names.join(", ")
}

/// The first exit code that is not 0; `None` if a run was stopped. Of several projects, those
/// without a test that matches the pattern don't count.
fn exit_code(pattern: Option<&str>, reports: &[Ran]) -> Option<i32> {
    let counts = |ran: &&Ran| {
        reports.len() == 1
            || pattern.is_none()
            || ran.report.timed_out
            || ran.report.tests.iter().any(|test| !matches!(test.status, Status::Skip))
    };
    let codes: Option<Vec<i32>> =
        reports.iter().filter(counts).map(|ran| ran.report.exit_code).collect();
    Some(codes?.into_iter().find(|code| *code != 0).unwrap_or(0))
}

/// The output of all runners, with headings if there are several.
fn joined_output(reports: &[Ran]) -> String {
    const MAX_KEPT_BYTES: usize = 256 * 1024;
    if let [ran] = reports {
        return shorten(&ran.report.raw, MAX_KEPT_BYTES).into_owned();
    }
    let mut raw = String::new();
    for Ran { framework, root, report } in reports {
        raw += &format!("== {framework} in {} ==\n", if root.is_empty() { "." } else { root });
        // The end has the runner's summary.
        let lines: Vec<&str> = report.raw.lines().collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        raw += &shorten(&last.join("\n"), MAX_RAW_BYTES);
        raw += "\n";
    }
    raw
}

impl Summary {
    fn of(tests: &[Listed]) -> Self {
        let count = |wanted: usize| tests.iter().filter(|test| rank(test) == wanted).count();
        Self { total: tests.len(), failed: count(0), skipped: count(1), passed: count(2) }
    }
}

/// The place of a test in a result: failed, skipped, passed.
fn rank(test: &Listed) -> usize {
    match test.status.as_str() {
        "fail" | "error" => 0,
        "skip" => 1,
        _ => 2,
    }
}

impl Listed {
    fn has_failed(&self) -> bool {
        rank(self) == 0
    }

    /// What to do about the test, if something is not installed.
    fn cure(&self) -> Option<String> {
        let texts = [&self.error, &self.stack_trace];
        texts.into_iter().flatten().find_map(|text| cure(text))
    }

    /// The place and the end of the message, in one line.
    fn in_short(&self) -> String {
        const MOST: usize = 400;
        let error = self.error.as_deref().unwrap_or("failed");
        let place = if self.package.is_empty() { &self.name } else { &self.package };
        format!("{place}: {}", shorten(error.trim(), MOST).replace('\n', " | "))
    }

    /// The test with texts of about `most` bytes together, and whether they were cut.
    fn shortened(&self, most: usize) -> (Self, bool) {
        if !self.has_failed() {
            let error = self.error.as_ref().map(|text| shorten(text, FAILURE_BYTES.0).into_owned());
            return (Self { error, ..self.clone() }, false);
        }
        let message = self.error.as_deref().unwrap_or_default();
        let rest = Self { error: None, stack_trace: None, ..self.clone() };
        let most = most.saturating_sub(serde_json::to_string(&rest).map_or(0, |text| text.len()));
        let most = most.max(FAILURE_BYTES.0 / 2);
        let error = shorten(message, most / 2);
        // Quotes and line ends are longer as JSON.
        let room = (most - (error.len().min(most)) + FAILURE_BYTES.0 / 4) * 7 / 8;
        let stack = self.stack_trace.as_deref().unwrap_or_default();
        let short = telling(stack, message, room);
        let whole = telling(stack, message, usize::MAX - 1);
        let is_cut = error.len() < message.len() || short != whole;
        let error = self.error.is_some().then(|| error.into_owned());
        (Self { error, stack_trace: short, ..rest }, is_cut)
    }
}

/// Converts a test of the project in `root`; `by_path`: its suite is a path.
fn listed(test: Test, root: &str, by_path: bool) -> Listed {
    let package = match (root, test.suite.as_str()) {
        ("", _) => test.suite,
        (_, "") => root.to_owned(),
        (_, suite) if by_path => format!("{root}/{suite}"),
        _ => test.suite,
    };
    Listed {
        name: test.name,
        package,
        status: match test.status {
            Status::Pass => "pass",
            Status::Fail => "fail",
            Status::Skip => "skip",
            Status::Error => "error",
        }
        .to_owned(),
        duration: test.duration.map(seconds),
        error: test.message,
        stack_trace: test.stack,
    }
}

/// Formats seconds with three decimals, such as `1.234s`.
fn seconds(seconds: f64) -> String {
    format!("{:.3}s", seconds.max(0.0))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_testing::{examples, fits, parsed, takes_examples};
    use serde_json::{Value, json};

    use super::*;

    const INPUT: &str = include_str!("../../../schemas/tools/tests.run_tests.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/tests.run_tests.output.json");

    /// A recorded run of pytest: 908 tests, of which 21 failed.
    const EVENTS: &str = include_str!("../../backends/test-runners/tests/data/pytest-908.jsonl");
    const PRINTED: &str = include_str!("../../backends/test-runners/tests/data/pytest-908.txt");

    fn test(status: Status) -> Test {
        let failed = matches!(status, Status::Fail | Status::Error);
        Test {
            name: "TestCalculate".to_owned(),
            suite: "github.com/user/pkg".to_owned(),
            status,
            duration: failed.then_some(0.1234),
            message: failed.then(|| "Expected 100, got 99".to_owned()),
            stack: failed.then(|| "...".to_owned()),
        }
    }

    fn report(tests: Vec<Test>, exit_code: Option<i32>) -> Report {
        Report {
            tests,
            exit_code,
            timed_out: exit_code.is_none(),
            duration_ms: 1_234,
            raw: "full test output...".to_owned(),
        }
    }

    /// The recorded run.
    fn recorded() -> Report {
        let tests = EVENTS.lines().map(|line| {
            let event = parsed(line);
            let text = |key: &str| event[key].as_str().map(str::to_owned);
            let (suite, name) = event["id"].as_str().unwrap().split_once("::").unwrap();
            Test {
                name: name.to_owned(),
                suite: suite.to_owned(),
                status: match (event["outcome"].as_str().unwrap(), event["when"].as_str()) {
                    ("passed", _) => Status::Pass,
                    (_, Some("call")) => Status::Fail,
                    _ => Status::Error,
                },
                duration: event["duration"].as_f64(),
                message: text("message"),
                stack: text("stack"),
            }
        });
        Report { raw: PRINTED.to_owned(), ..report(tests.collect(), Some(1)) }
    }

    fn run(pattern: Option<&str>, report: Report) -> Run {
        let ran = Ran { framework: "go".to_owned(), root: String::new(), report };
        Run::new(pattern, vec![ran], Vec::new()).unwrap()
    }

    /// A page, which fits the schema and the maximum size.
    fn page(run: &Run, args: Value) -> Value {
        let args = serde_json::from_value(args).unwrap();
        let answer = serde_json::to_value(run.page(&args)).unwrap();
        fits(&parsed(OUTPUT), &answer);
        assert!(answer.to_string().len() <= MAX_RESULT_BYTES, "{}", answer.to_string().len());
        answer
    }

    #[test]
    fn the_fields_are_the_documented_ones() {
        let statuses = [Status::Fail, Status::Pass, Status::Skip, Status::Error];
        let run = run(None, report(statuses.map(test).into(), Some(1)));
        let answer = page(&run, json!({"verbose": true}));
        let other = |status: &str| json!({"name": "TestCalculate", "package": "github.com/user/pkg", "status": status});
        let failed = |status: &str| {
            let mut test = other(status);
            test["duration"] = "0.123s".into();
            test["error"] = "Expected 100, got 99".into();
            test["stack_trace"] = "...".into();
            test
        };
        assert_eq!(
            answer,
            json!({
                "framework": "go",
                "success": false,
                "exit_code": 1,
                "timed_out": false,
                "duration": "1.234s",
                "summary": {"total": 4, "passed": 1, "failed": 2, "skipped": 1},
                "tests": [failed("fail"), failed("error"), other("skip"), other("pass")],
                "raw_output": "full test output..."
            })
        );
        let failures = page(&run, json!({}));
        assert_eq!(failures["tests"], json!([failed("fail"), failed("error")]));
    }

    #[test]
    fn a_large_run_shows_all_its_failures_and_no_line_twice() {
        let run = run(None, recorded());
        let answer = page(&run, json!({}));
        assert_eq!(
            answer["summary"],
            json!({"total": 908, "passed": 887, "failed": 21, "skipped": 0})
        );
        let tests = answer["tests"].as_array().unwrap();
        assert_eq!(tests.len(), 21);
        for test in tests {
            let text = |key: &str| test[key].as_str().unwrap_or_default();
            let (error, trace) = (text("error"), text("stack_trace"));
            assert!(trace.lines().any(|line| line.contains(".py:")), "no place: {test:#}");
            assert!(!error.is_empty(), "{test:#}");
            assert!(
                trace.lines().all(|line| error.lines().all(|said| said != line.trim())),
                "twice: {test:#}"
            );
        }
        let find = |name: &str| tests.iter().find(|test| test["name"] == name).unwrap();
        let parse = find("test_parse[49]");
        let trace = parse["stack_trace"].as_str().unwrap();
        assert!(trace.contains("tests/test_prices.py:10:"), "{trace}");
        assert!(trace.ends_with("shop/prices.py:6: ValueError"), "{trace}");
        assert!(trace.contains(">       amount, currency = text.split(\" \")"), "{trace}");
        let setup = find("test_order_is_stored");
        assert_eq!(setup["status"], "error");
        assert_eq!(
            answer["raw_output"].as_str().unwrap().lines().last().unwrap(),
            "=================== 20 failed, 887 passed, 1 error in 1.05s ===================="
        );
        assert!(!answer["raw_output"].as_str().unwrap().contains("test_parse["));
    }

    #[test]
    fn every_test_is_on_exactly_one_page() {
        let run = run(None, recorded());
        let (mut names, mut args, mut pages) = (Vec::new(), json!({"verbose": true}), 0);
        loop {
            let answer = page(&run, args.clone());
            pages += 1;
            let tests = answer["tests"].as_array().unwrap();
            names.extend(tests.iter().map(|test| (test["package"].clone(), test["name"].clone())));
            let notes = answer["notes"].as_array().cloned().unwrap_or_default();
            let next = notes.iter().filter_map(Value::as_str).find_map(|note| {
                let call = note.split_once("run_tests ")?.1;
                Some(parsed(call.split_once(", which")?.0))
            });
            let Some(next) = next else { break };
            assert_eq!(next["offset"], names.len());
            args = next;
        }
        assert!(pages > 2 && names.len() == 908, "{pages} {}", names.len());
        names.sort_by_key(|(package, name)| format!("{package}{name}"));
        names.dedup();
        assert_eq!(names.len(), 908);
    }

    #[test]
    fn one_failure_is_shown_at_length() {
        let mut report = recorded();
        report.tests.retain(|test| test.name == "test_parse[49]");
        let answer = page(&run(Some("test_parse[49]"), report), json!({}));
        let trace = answer["tests"][0]["stack_trace"].as_str().unwrap();
        assert!(trace.contains("def parse(text):"), "{trace}");
        assert!(answer.get("notes").is_none(), "{answer:#}");
    }

    #[test]
    fn a_run_with_failures_or_a_timeout_is_not_a_success() {
        for (status, exit_code, success) in [
            (Status::Pass, Some(0), true),
            (Status::Skip, Some(0), true),
            (Status::Pass, Some(1), false),
            (Status::Fail, Some(0), false),
            (Status::Pass, None, false),
        ] {
            let answer = page(&run(None, report(vec![test(status)], exit_code)), json!({}));
            assert_eq!(answer["success"], success, "{status:?} {exit_code:?}");
        }
    }

    #[test]
    fn a_pattern_without_matching_tests_is_not_a_success() {
        let said = "no test that matches the pattern 'TestNone' ran";
        for (tests, exit_code, success, wanted) in [
            (vec![], Some(0), false, Some(format!("{said}\n"))),
            (vec![], Some(5), false, Some(format!("{said}\n"))),
            (
                vec![test(Status::Skip), test(Status::Skip)],
                Some(0),
                false,
                Some(format!("{said}; 2 were left out\n")),
            ),
            (vec![test(Status::Skip), test(Status::Pass)], Some(0), true, None),
            (vec![test(Status::Fail)], Some(1), false, None),
            (vec![], None, false, None),
        ] {
            let report = report(tests, exit_code);
            let all = page(&run(None, report.clone()), json!({}));
            assert_eq!(all["raw_output"], "full test output...");
            let answer = page(&run(Some("TestNone"), report), json!({}));
            assert_eq!(
                (&answer["success"], &answer["exit_code"]),
                (&json!(success), &json!(exit_code))
            );
            assert_eq!(answer["raw_output"], wanted.unwrap_or_default() + "full test output...");
        }
    }

    #[test]
    fn many_and_long_failures_are_paged() {
        let many = (0..30_000).map(|n| test(if n % 30 == 0 { Status::Fail } else { Status::Pass }));
        let run_of_many = run(None, report(many.collect(), Some(1)));
        let answer = page(&run_of_many, json!({}));
        assert_eq!(answer["summary"]["total"], 30_000);
        assert_eq!(answer["summary"]["failed"], 1_000);
        let listed = answer["tests"].as_array().unwrap();
        assert!(listed.len() > 50 && listed.iter().all(|test| test["status"] == "fail"));
        let note = answer["notes"][0].as_str().unwrap();
        assert!(
            note.starts_with(&format!("{0} more tests, {0} of them", 1_000 - listed.len())),
            "{note}"
        );

        let text = Some("\"x\"\n".repeat(2_500));
        let long = || Test { stack: text.clone(), message: text.clone(), ..test(Status::Fail) };
        let long = run(None, report((0..2_000).map(|_| long()).collect(), Some(1)));
        assert!(serde_json::to_string(&long).unwrap().len() < 10_000_000);
        assert!(!page(&long, json!({}))["tests"].as_array().unwrap().is_empty());
        assert!(!page(&long, json!({"offset": 1_990}))["tests"].as_array().unwrap().is_empty());
        assert_eq!(page(&long, json!({"offset": 9_999}))["tests"], json!([]));
    }

    #[test]
    fn a_run_that_lacks_a_dependency_is_an_error_with_its_cure() {
        let broken = |name: &str, message: &str| Test {
            name: name.to_owned(),
            suite: "tests/test_a.py".to_owned(),
            message: Some(message.to_owned()),
            ..test(Status::Error)
        };
        let missing = "ModuleNotFoundError: No module named 'requests'";
        let ran = |tests| Ran {
            framework: "pytest".to_owned(),
            root: "api".to_owned(),
            report: report(tests, Some(2)),
        };
        let run = |tests| Run::new(None, vec![ran(tests)], Vec::new());
        let error = run(vec![broken("[collection]", missing)]).unwrap_err();
        assert_eq!(error.code, "TestSetupFailed");
        for part in ["api/tests/test_a.py", missing, "Cure: install", ".venv"] {
            assert!(error.message.contains(part), "{error}");
        }
        let error = run(vec![broken("npm test", "sh: 1: mocha: not found")]).unwrap_err();
        assert!(error.message.contains("npm install"), "{error}");
        // Tests that ran are a result, with the cure for the others.
        let some = run(vec![broken("[collection]", missing), test(Status::Pass)]).unwrap();
        let some = page(&some, json!({}));
        assert_eq!(some["summary"]["failed"], 1);
        assert!(some["notes"][0].as_str().unwrap().contains("cure: install"), "{some:#}");
        let syntax = run(vec![broken("[collection]", "SyntaxError: invalid syntax")]).unwrap();
        assert_eq!(page(&syntax, json!({}))["summary"]["failed"], 1);
    }

    #[test]
    fn reports_of_several_projects_are_joined() {
        let ran = |framework: &str, root: &str, status, exit_code| Ran {
            framework: framework.to_owned(),
            root: root.to_owned(),
            report: report(vec![test(status)], Some(exit_code)),
        };
        let reports = vec![
            ran("pytest", "api", Status::Pass, 0),
            ran("go", "svc", Status::Fail, 1),
            ran("pytest", "web", Status::Pass, 0),
        ];
        let answer = page(&Run::new(None, reports, vec![]).unwrap(), json!({"verbose": true}));
        assert_eq!(answer["framework"], "pytest, go");
        assert_eq!((&answer["exit_code"], &answer["success"]), (&json!(1), &json!(false)));
        let packages: Vec<_> =
            answer["tests"].as_array().unwrap().iter().map(|t| &t["package"]).collect();
        assert_eq!(
            packages,
            ["github.com/user/pkg", "api/github.com/user/pkg", "web/github.com/user/pkg"]
        );
        assert!(answer["raw_output"].as_str().unwrap().contains("== go in svc =="));
        // Projects without a matching test don't fail.
        let none = Ran { report: report(vec![], Some(5)), ..ran("pytest", "web", Status::Pass, 5) };
        let reports = vec![ran("go", "svc", Status::Pass, 0), none];
        assert!(Run::new(Some("Calc"), reports, vec![]).unwrap().success);
    }

    #[test]
    fn schemas_and_types_agree() {
        let input = parsed(INPUT);
        takes_examples::<Args>(&input);
        for wrong in [
            json!({"test_pattern": ""}),
            json!({"framework": ""}),
            json!({"timeout_seconds": 0}),
            json!({"timeout_seconds": 1.5}),
            json!({"timeout_seconds": "300"}),
            json!({"offset": -1}),
        ] {
            assert!(!jsonschema::is_valid(&input, &wrong), "{wrong}");
        }
        examples(&parsed(OUTPUT));
    }
}
