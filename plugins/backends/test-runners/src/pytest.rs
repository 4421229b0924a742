//! pytest, run by the script `reporter.py`, which prints the result of each test immediately.
//!
//! pytest's own machine-readable output, JUnit XML, is a file written at the end. A sandboxed run
//! returns no files, and a stopped run has written none; so the script uses the same hooks to print
//! lines of JSON. All other output goes to standard error, for users.
//!
//! The project's environment (`.venv` or `venv`) is used first, then the one that the account has for
//! the project (`VIRTUAL_ENV`), then that of `python3`, then that of the program `pytest`.

use std::collections::HashMap;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Request, Status, Test};
use cofferdam_sdk::process::Command;
use cofferdam_sdk::telling;
use serde::Deserialize;

use crate::Runner;
use crate::output::{self, UNFINISHED, complete, json_lines, short_message, short_stack};
use crate::pattern;
use crate::project::{Project, set};

pub const RUNNER: Runner = Runner { name: "pytest", detect, version, run };

const REPORTER: &str = include_str!("reporter.py");

/// The script is passed as an argument, so that it can start itself with another interpreter.
const START: [&str; 3] = ["-c", "import sys; exec(sys.argv[1])", REPORTER];

/// pytest's exit codes for invalid arguments or configuration, and for a run without tests.
const USAGE_ERROR: i32 = 4;
const NO_TESTS: i32 = 5;

fn detect(project: &Project) -> u8 {
    let configured = |file: &str, table: &str| {
        project
            .text(file)
            .is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with(table)))
    };
    let ours = |name: &str| {
        name == "conftest.py"
            || name
                .strip_suffix(".py")
                .is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    if ["pytest.ini", ".pytest.ini", "pytest.toml"].iter().any(|name| project.has(name)) {
        85
    } else if configured("pyproject.toml", "[tool.pytest")
        || configured("setup.cfg", "[tool:pytest]")
        || configured("tox.ini", "[pytest]")
    {
        84
    } else if project.any_file(ours) {
        60
    } else if project.has("pyproject.toml") {
        40
    } else {
        0
    }
}

fn version(project: &Project) -> Result<String, Error> {
    let printed = project.ask_version("python3", &[&START[..], &["--version"]].concat())?;
    if let Some(event) = json_lines::<Event>(&printed).next() {
        return Err(missing(&event));
    }
    Ok(printed)
}

fn run(project: &Project, request: &Request) -> Result<Report, Error> {
    let mut command =
        Command { timeout_ms: request.timeout_ms, ..project.command("python3", &START) };
    let options = ["--color=no", "--continue-on-collection-errors", "-pno:cacheprovider"];
    command.arguments.extend(options.map(str::to_owned));
    if let Some(pattern) = &request.pattern {
        command.arguments.extend(pattern_argument(project, pattern)?);
    }
    set(&mut command, &[("PYTHONDONTWRITEBYTECODE", "1")]);
    let output = project.run(&command)?;
    let events = complete(&output.stdout, "pytest")?;
    let printed = output.stderr_text();
    let tests = read(&events)?;
    if output.exit_code() == Some(USAGE_ERROR) {
        return Err(Error::Invalid(format!("pytest: {}", telling(usage_error(&printed)))));
    }
    Ok(output::report("pytest", tests, &output, &printed, &[NO_TESTS]))
}

/// pytest's message about invalid arguments or configuration.
fn usage_error(printed: &str) -> &str {
    let line = printed.lines().rev().find_map(|line| line.strip_prefix("ERROR: "));
    // The line `usage: ...` continues below.
    line.filter(|line| !line.starts_with("usage: ")).unwrap_or_else(|| output::last_lines(printed))
}

/// Converts a pattern to an argument of pytest: a path of a file, a directory or a test in a file;
/// otherwise an expression for `-k`. In an expression, names match anywhere, so the stars of a glob
/// are dropped.
fn pattern_argument(project: &Project, pattern: &str) -> Result<Option<String>, Error> {
    let file = pattern.split("::").next().unwrap_or(pattern);
    if pattern.contains("::") || project.exists(file) {
        return Ok(Some(pattern::as_argument(pattern)?.to_owned()));
    }
    if !pattern::is_glob(pattern) {
        return Ok(Some(format!("-k{pattern}")));
    }
    let parts: Vec<&str> = pattern::parts(pattern).collect();
    Ok((!parts.is_empty()).then(|| format!("-k{}", parts.join(" and "))))
}

/// A line that `reporter.py` printed.
#[derive(Deserialize)]
struct Event {
    event: Kind,
    /// The node id of a test or file; the path of the interpreter for `missing`.
    id: String,
    /// The phase: `setup`, `call` or `teardown`.
    #[serde(default)]
    when: String,
    /// The result: `passed`, `failed` or `skipped`.
    #[serde(default)]
    outcome: String,
    duration: Option<f64>,
    message: Option<String>,
    stack: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Start,
    Report,
    End,
    Collect,
    Missing,
}

fn read(events: &str) -> Result<Vec<Test>, Error> {
    let mut tests: Vec<Test> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for event in json_lines::<Event>(events) {
        if let Kind::Missing = event.event {
            return Err(missing(&event));
        }
        let place = *places.entry(event.id.clone()).or_insert_with(|| {
            let (suite, name) = event.id.split_once("::").unwrap_or((&event.id, ""));
            tests.push(output::error(suite, name, UNFINISHED));
            tests.len() - 1
        });
        let Some(test) = tests.get_mut(place) else { continue };
        match event.event {
            Kind::Report => report(test, event),
            Kind::Collect => {
                test.name = "[collection]".to_owned();
                test.message = event.message.as_deref().and_then(short_message);
                test.stack = event.stack.as_deref().and_then(short_stack);
            }
            Kind::Start | Kind::End | Kind::Missing => {}
        }
    }
    Ok(tests)
}

/// Updates a test with the result of a phase. A failure in `setup` or `teardown` is an error, as
/// pytest counts it.
fn report(test: &mut Test, event: Event) {
    let status = match (event.outcome.as_str(), event.when.as_str()) {
        ("passed", _) => Status::Pass,
        ("skipped", _) => Status::Skip,
        (_, "call") => Status::Fail,
        _ => Status::Error,
    };
    // A failed test stays failed if its teardown fails too.
    if event.when == "teardown" && matches!(test.status, Status::Fail) {
        return;
    }
    test.status = status;
    test.duration = match (event.when.as_str(), test.duration) {
        ("teardown", known) => known,
        _ => event.duration,
    };
    let message = event.message.as_deref();
    test.message = message.and_then(|text| short_message(text.trim_start_matches("Skipped: ")));
    test.stack = event.stack.as_deref().and_then(short_stack);
}

/// The error for a project without a usable pytest: what was found in each place.
fn missing(event: &Event) -> Error {
    let found = event.message.as_deref().unwrap_or("it was not found");
    Error::Unavailable(format!(
        "no pytest can be run here: {}. Run `python3 -m venv .venv && .venv/bin/python -m pip install \
         pytest` in the project, outside of this run, which has no network; an interpreter in another \
         place has to be in [programs] readable of cofferdam.toml",
        telling(found)
    ))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_sdk::Context;

    use super::*;
    use crate::output::recorded::shown;

    #[test]
    fn recorded_results() {
        let tests = read(include_str!("../tests/data/pytest.jsonl")).unwrap();
        assert_eq!(
            shown(&tests),
            [
                "tests/test_import.py [collection] error: ModuleNotFoundError: No module named \
                 'nowhere'",
                "tests/test_syntax.py [collection] error: SyntaxError: invalid syntax",
                "tests/test_calc.py test_adds pass",
                "tests/test_calc.py test_wrong_sum fail: AssertionError: sum é\nassert 3 == 4\n +  \
                 where 3 = add(1, 2)",
                "tests/test_calc.py test_later skip: not now",
                "tests/test_calc.py test_known skip: expected to fail: known",
                "tests/test_calc.py test_strict fail: [XPASS(strict)]",
                "tests/test_calc.py test_each[1] pass",
                "tests/test_calc.py test_each[2] fail: assert 2 == 1",
                "tests/test_calc.py TestGroup::test_inner pass",
                "tests/test_calc.py TestGroup::test_setup error: RuntimeError: no database",
                "tests/test_calc.py TestGroup::test_teardown error: OSError: cannot clean up",
                "tests/test_calc.py test_skips skip: inside",
            ]
        );
        let wrong = &tests[3];
        assert!(wrong.stack.as_ref().unwrap().contains("tests/test_calc.py:9: AssertionError"));
        assert!(wrong.duration.unwrap() > 0.0);
    }

    #[test]
    fn a_stopped_run_reports_completed_tests() {
        let events = include_str!("../tests/data/pytest.jsonl");
        let stopped: String = events.lines().take(6).map(|line| format!("{line}\n")).collect();
        let tests = read(&format!("{stopped}{{\"event\": \"rep")).unwrap();
        assert_eq!(
            shown(&tests)[2..],
            [
                "tests/test_calc.py test_adds pass",
                "tests/test_calc.py test_wrong_sum error: still running when the run ended",
            ]
        );
    }

    #[test]
    fn without_pytest_there_is_no_report() {
        let line = r#"{"event": "missing", "id": "p", "message": "/p has no module pytest"}"#;
        let error = read(line).unwrap_err();
        assert!(
            matches!(error, Error::Unavailable(why) if why.contains("here: /p has no module pytest. "))
        );
    }

    #[test]
    fn usage_errors_are_short() {
        let expression = "Wrong expression passed to '-k': should handle: at column 8: expected end \
                          of input; got identifier";
        let usage = "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --nope";
        for (printed, wanted) in [
            (format!("=== 2 errors in 0.71s ===\nERROR: {expression}\n\n"), expression),
            (format!("{usage}\n\n"), usage),
            (
                "ImportError while loading conftest\n".to_owned(),
                "ImportError while loading conftest",
            ),
        ] {
            assert_eq!(usage_error(&printed), wanted);
        }
    }

    #[test]
    fn patterns_are_expressions_or_paths() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("tests")).unwrap();
        std::fs::write(directory.path().join("tests/test_a.py"), "").unwrap();
        let context = Context::for_directory(directory.path());
        let project = Project::open("", &context).unwrap();
        for (pattern, wanted) in [
            ("test_api", Some("-ktest_api")),
            ("test_api and not slow", Some("-ktest_api and not slow")),
            ("test_api*", Some("-ktest_api")),
            ("TestFoo*bar", Some("-kTestFoo and bar")),
            ("*", None),
            ("tests", Some("tests")),
            ("tests/test_a.py", Some("tests/test_a.py")),
            ("tests/test_a.py::test_x[1]", Some("tests/test_a.py::test_x[1]")),
            ("tests/none.py", Some("-ktests/none.py")),
            ("--pdb", Some("-k--pdb")),
        ] {
            assert_eq!(
                pattern_argument(&project, pattern).unwrap().as_deref(),
                wanted,
                "{pattern}"
            );
        }
        assert!(matches!(pattern_argument(&project, "--rootdir=x::y"), Err(Error::Invalid(_))));
    }
}
