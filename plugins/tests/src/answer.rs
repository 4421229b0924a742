//! Converts a test runner's report to the result of `run_tests`: the fields of the actions
//! reference, with bounded size.

use cofferdam_sdk::backend::testing::{Report, Status, Test};
use cofferdam_sdk::shorten;
use serde::Serialize;

/// The maximum size of the raw output, in bytes; the middle of longer output is cut out.
const MAX_RAW_BYTES: usize = 100_000;

/// The maximum number of listed tests, failed ones first; `summary` counts all.
const MAX_LISTED: usize = 2_000;

/// The maximum size of all error messages and stack traces together, in bytes.
const MAX_TEXTS_BYTES: usize = 1_000_000;
/// The maximum size of a message or stack trace after [`MAX_TEXTS_BYTES`] is used up, in bytes.
const SHORT_TEXT_BYTES: usize = 200;

/// The result of the tool.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The runner that ran.
    pub framework: String,
    /// Whether the run ended with exit code 0, no test failed, and a pattern (if given) matched a
    /// test.
    pub success: bool,
    /// `None` if the run was stopped.
    pub exit_code: Option<i32>,
    /// Whether it was stopped at its timeout.
    pub timed_out: bool,
    /// The duration, such as `1.234s`.
    pub duration: String,
    /// The number of tests by status.
    pub summary: Summary,
    /// The tests, in the order in which they ran.
    pub tests: Vec<Listed>,
    /// The output of the runner.
    pub raw_output: String,
}

/// The number of tests by status.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The name that the runner uses.
    pub name: String,
    /// Its package, module or file.
    pub package: String,
    /// The status: `pass`, `fail`, `skip` or `error`.
    pub status: &'static str,
    /// The duration, if the runner reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Why the test failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The runner's full description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
}

/// Makes the result for a run of all tests, or of those that match `pattern`. With a pattern that
/// matches no tests it is not a success, even if the runner succeeded.
pub fn output(framework: String, pattern: Option<&str>, mut report: Report) -> Output {
    let summary = Summary::of(&report.tests);
    let nothing_ran = summary.passed + summary.failed == 0 && !report.timed_out;
    let unmatched = pattern.filter(|_| nothing_ran);
    if let Some(pattern) = unmatched {
        let skipped = match summary.skipped {
            0 => String::new(),
            skipped => format!("; {skipped} were left out"),
        };
        let said = format!("no test that matches the pattern '{pattern}' ran{skipped}\n");
        report.raw.insert_str(0, &said);
    }
    let is_well = report.exit_code == Some(0) && !report.timed_out && summary.failed == 0;
    Output {
        framework,
        success: is_well && unmatched.is_none(),
        exit_code: report.exit_code,
        timed_out: report.timed_out,
        duration: seconds(f64::from(report.duration_ms) / 1_000.0),
        tests: listed(report.tests, summary.failed),
        summary,
        raw_output: shorten(&report.raw, MAX_RAW_BYTES).into_owned(),
    }
}

impl Summary {
    fn of(tests: &[Test]) -> Self {
        let count =
            |wanted: &[Status]| tests.iter().filter(|test| wanted.contains(&test.status)).count();
        Self {
            total: tests.len(),
            passed: count(&[Status::Pass]),
            failed: count(&[Status::Fail, Status::Error]),
            skipped: count(&[Status::Skip]),
        }
    }
}

fn has_failed(test: &Test) -> bool {
    matches!(test.status, Status::Fail | Status::Error)
}

/// Limits the number of tests, keeping their order. Failed tests have precedence.
fn listed(tests: Vec<Test>, failed: usize) -> Vec<Listed> {
    let mut room_for_failed = failed.min(MAX_LISTED);
    let mut room_for_others = MAX_LISTED - room_for_failed;
    let mut texts = MAX_TEXTS_BYTES;
    tests
        .into_iter()
        .filter(|test| {
            let room = if has_failed(test) { &mut room_for_failed } else { &mut room_for_others };
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        })
        .map(|test| describe(test, &mut texts))
        .collect()
}

/// Converts a test; reduces `texts`, the bytes left for messages and stack traces.
fn describe(test: Test, texts: &mut usize) -> Listed {
    let mut within = |text: Option<String>| {
        let text = text?;
        if let Some(left) = texts.checked_sub(text.len()) {
            *texts = left;
            return Some(text);
        }
        Some(shorten(&text, SHORT_TEXT_BYTES).into_owned())
    };
    Listed {
        error: within(test.message),
        stack_trace: within(test.stack),
        name: test.name,
        package: test.suite,
        status: match test.status {
            Status::Pass => "pass",
            Status::Fail => "fail",
            Status::Skip => "skip",
            Status::Error => "error",
        },
        duration: test.duration.map(seconds),
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
    use crate::run_tests::Args;

    const INPUT: &str = include_str!("../../../schemas/tools/tests.run_tests.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/tests.run_tests.output.json");

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

    fn check(output: &Output) -> Value {
        let answer = serde_json::to_value(output).unwrap();
        fits(&parsed(OUTPUT), &answer);
        answer
    }

    #[test]
    fn the_fields_are_the_documented_ones() {
        let statuses = [Status::Fail, Status::Pass, Status::Skip, Status::Error];
        let answer =
            check(&output("go".to_owned(), None, report(statuses.map(test).into(), Some(1))));
        let passed = |status: &str| json!({"name": "TestCalculate", "package": "github.com/user/pkg", "status": status});
        let failed = |status: &str| {
            let mut test = passed(status);
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
                "tests": [failed("fail"), passed("pass"), passed("skip"), failed("error")],
                "raw_output": "full test output..."
            })
        );
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
            let output = output("go".to_owned(), None, report(vec![test(status)], exit_code));
            check(&output);
            assert_eq!(output.success, success, "{status:?} {exit_code:?}");
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
            let all = output("go".to_owned(), None, report.clone());
            assert_eq!(all.raw_output, "full test output...");
            assert_eq!(all.success, exit_code == Some(0), "{exit_code:?}");
            let output = output("go".to_owned(), Some("TestNone"), report);
            check(&output);
            assert_eq!((output.success, output.exit_code), (success, exit_code));
            let wanted = wanted.unwrap_or_default() + "full test output...";
            assert_eq!(output.raw_output, wanted);
        }
    }

    #[test]
    fn failed_tests_are_listed_first() {
        let many = (0..30_000).map(|n| test(if n % 30 == 0 { Status::Fail } else { Status::Pass }));
        let listed = output("go".to_owned(), None, report(many.collect(), Some(1)));
        check(&listed);
        assert_eq!(listed.summary.total, 30_000);
        assert_eq!(listed.tests.len(), MAX_LISTED);
        assert_eq!(listed.tests.iter().filter(|test| test.status == "fail").count(), 1_000);
        assert_eq!(listed.tests[0].status, "fail");
        let failing = (0..30_000).map(|_| test(Status::Fail)).collect();
        assert_eq!(output("go".to_owned(), None, report(failing, Some(1))).tests.len(), MAX_LISTED);
    }

    #[test]
    fn the_size_of_a_result_is_limited() {
        let long = || Test { stack: Some("x".repeat(30_000)), ..test(Status::Fail) };
        let long =
            output("go".to_owned(), None, report((0..2_000).map(|_| long()).collect(), Some(1)));
        assert!(check(&long).to_string().len() < 3_000_000);
        assert_eq!(long.tests[0].stack_trace.as_ref().unwrap().len(), 30_000);
        assert!(long.tests[1_999].stack_trace.as_ref().unwrap().len() < 300);
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
        ] {
            assert!(!jsonschema::is_valid(&input, &wrong), "{wrong}");
        }
        examples(&parsed(OUTPUT));
    }
}
