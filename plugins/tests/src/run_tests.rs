//! `run_tests`: chooses test runners, runs them, and returns failures first.
//!
//! Failed tests and a timeout are a result with `success: false`, not an error: the actions
//! reference shows such a result, and agents need the failures as fields. The call is an error only
//! if no tests could be run at all, which the actions reference calls "test runner not configured".
//!
//! A result is a page of a bounded size. The whole run is stored in the plugin's cache, so that a
//! later page does not run the tests again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use cofferdam_sdk::backend::testing::{Report, Request, Status, Test};
use cofferdam_sdk::backend::{Error, surest};
use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::answer::{Output, Ran, Run};
use crate::modules::{below, modules};
use crate::telling::cure;

/// The frameworks of the actions reference in its order, and cargo. It is also the order of
/// preference among runners that are equally sure.
const FRAMEWORKS: [&str; 5] = ["go", "jest", "npm", "pytest", "cargo"];

/// The default timeout in seconds, as in the first example of the actions reference.
const DEFAULT_TIMEOUT_SECONDS: u32 = 300;

/// How sure a runner is of a project that only might have tests for it.
const UNSURE: u8 = 10;

/// The maximum number of projects below the root that one call looks at and runs.
const MAX_PROJECTS: usize = 32;

/// The arguments of the tool.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A pattern for the tests to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_pattern: Option<String>,
    /// The test runner to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The directory of the project; the default is the workspace, or the projects in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The timeout in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Whether tests that were skipped or passed are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
    /// The number of tests that earlier pages listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// Access to the test runners that the operator has, and to the host.
pub trait Runners {
    /// The names of all runners.
    fn available(&self) -> Vec<String>;
    /// How sure a runner is that it fits the project in a directory: 0 to 100.
    fn detect(&self, name: &str, root: &str) -> u8;
    /// Runs tests with the named runner.
    ///
    /// # Errors
    /// See [`Error`]: the run could not start, or exceeded a limit other than its timeout.
    fn run(&self, name: &str, request: &Request) -> Result<Report, Error>;
    /// The files of the workspace that mark projects.
    ///
    /// # Errors
    /// The workspace can't be listed.
    fn markers(&self, context: &Context) -> Result<Vec<String>, ToolError>;
    /// A value that an earlier call stored.
    fn stored(&self, key: &str) -> Option<Vec<u8>>;
    /// Stores a value for later calls that see the same files.
    fn store(&self, key: &str, value: &[u8]);
}

/// A runner, and the directory of the project that it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    framework: String,
    root: String,
}

/// Runs the tests of the projects in the workspace, or returns a later page of an earlier run.
///
/// # Errors
/// `TestRunnerNotConfigured` if there is no runner, or none fits or can run; `UnknownFramework`,
/// `InvalidTestRun`, `TestSetupFailed`, `TestLimit` and `TestRunnerFailed`.
pub fn run(args: &Args, runners: &impl Runners, context: &Context) -> Result<Output, ToolError> {
    let started = Instant::now();
    let key = key(args);
    if args.offset.is_some_and(|offset| offset > 0)
        && let Some(run) = runners.stored(&key).and_then(|run| serde_json::from_slice(&run).ok())
    {
        let run: Run = run;
        return Ok(run.page(args));
    }
    let (mut jobs, notes) = jobs(args, runners, context)?;
    let mut pattern = args.test_pattern.clone();
    // A path below a project is a pattern of that project.
    if let Some(wanted) = &args.test_pattern
        && let Some((job, rest)) =
            jobs.iter().find_map(|job| Some((job.clone(), below(wanted, &job.root)?.to_owned())))
    {
        (jobs, pattern) = (vec![job], Some(rest));
    }
    let wanted = args.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).saturating_mul(1_000);
    let mut reports = Vec::new();
    for job in &jobs {
        let spent = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
        let left = wanted.saturating_sub(spent).max(1);
        let request = Request {
            root: job.root.clone(),
            pattern: pattern.clone(),
            timeout_ms: context.timeout_ms(Some(left), started.elapsed()),
        };
        let report = match runners.run(&job.framework, &request) {
            Ok(report) => report,
            Err(error) if jobs.len() == 1 => return Err(tool_error(error)),
            Err(error) => not_run(job, error),
        };
        let Job { framework, root } = job.clone();
        reports.push(Ran { framework, root, report });
    }
    let run = Run::new(args.test_pattern.as_deref(), reports, notes)?;
    if let Ok(bytes) = serde_json::to_vec(&run) {
        runners.store(&key, &bytes);
    }
    Ok(run.page(args))
}

/// Returns the cache key of the run that a call asks for; all its pages have the same key.
fn key(args: &Args) -> String {
    let mut hasher = DefaultHasher::new();
    (&args.test_pattern, &args.framework, &args.path).hash(&mut hasher);
    format!("run-{:016x}", hasher.finish())
}

/// The report for one of several projects whose tests could not be run.
fn not_run(job: &Job, error: Error) -> Report {
    let test = Test {
        name: format!("[{}]", job.framework),
        suite: String::new(),
        status: Status::Error,
        duration: None,
        message: Some(tool_error(error).message),
        stack: None,
    };
    let raw = String::new();
    Report { tests: vec![test], exit_code: Some(1), timed_out: false, duration_ms: 0, raw }
}

/// The runners to run, and notes about projects that are not run.
fn jobs(
    args: &Args,
    runners: &impl Runners,
    context: &Context,
) -> Result<(Vec<Job>, Vec<String>), ToolError> {
    let available = runners.available();
    if available.is_empty() {
        return Err(not_configured("the operator has none"));
    }
    if let Some(framework) = &args.framework {
        check_framework(framework, &available)?;
    }
    let at = |root: &str| best(args.framework.as_deref(), root, &available, runners);
    if let Some(path) = &args.path {
        let root = context.resolve(path)?;
        let job = at(root.as_str()).or_else(|| named(args, root.as_str()));
        return match job {
            Some((job, _)) => Ok((vec![job], Vec::new())),
            None => Err(no_project(&available)),
        };
    }
    let modules = modules(&runners.markers(context)?);
    let nested: Vec<Job> = modules
        .iter()
        .filter(|root| !root.is_empty())
        .take(MAX_PROJECTS)
        .filter_map(|root| at(root).filter(|(_, sure)| *sure > UNSURE))
        .map(|(job, _)| job)
        .collect();
    let outer = at("");
    let is_project = modules.iter().any(String::is_empty);
    match outer {
        Some((job, sure)) if nested.is_empty() || (is_project && sure > UNSURE) => {
            let notes = others(&job, &nested);
            Ok((vec![job], notes))
        }
        outer if nested.is_empty() => match outer.or_else(|| named(args, "")) {
            Some((job, _)) => Ok((vec![job], Vec::new())),
            None => Err(no_project(&available)),
        },
        _ => Ok((nested, Vec::new())),
    }
}

/// The requested runner, or the one that is surest that it fits a directory, if it may fit at all.
fn best(
    wanted: Option<&str>,
    root: &str,
    available: &[String],
    runners: &impl Runners,
) -> Option<(Job, u8)> {
    let framework = match wanted {
        Some(wanted) => wanted,
        None => surest(available, |name| runners.detect(name, root), &FRAMEWORKS)?,
    };
    let sure = runners.detect(framework, root);
    let job = Job { framework: framework.to_owned(), root: root.to_owned() };
    (sure > 0).then_some((job, sure))
}

/// The requested runner, which runs even if it does not recognise the project.
fn named(args: &Args, root: &str) -> Option<(Job, u8)> {
    let framework = args.framework.clone()?;
    Some((Job { framework, root: root.to_owned() }, 0))
}

/// A note about projects that the project in the root does not include.
fn others(outer: &Job, nested: &[Job]) -> Vec<String> {
    const MOST: usize = 10;
    let apart: Vec<&Job> = nested
        .iter()
        .filter(|job| job.framework != outer.framework || job.framework == "go")
        .collect();
    let Some(first) = apart.first() else { return Vec::new() };
    let names: Vec<String> =
        apart.iter().take(MOST).map(|job| format!("{} ({})", job.root, job.framework)).collect();
    let more = match apart.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let call = serde_json::json!({"path": first.root});
    vec![format!("not run: the projects in {}{more}; for one: run_tests {call}", names.join(", "))]
}

fn check_framework(wanted: &str, available: &[String]) -> Result<(), ToolError> {
    if available.iter().any(|name| name == wanted) {
        return Ok(());
    }
    let there = format!("there is no '{wanted}' here; there are {}", available.join(", "));
    Err(if FRAMEWORKS.contains(&wanted) {
        not_configured(&there)
    } else {
        ToolError::invalid_args("UnknownFramework", format!("unknown test framework: {there}"))
    })
}

fn no_project(available: &[String]) -> ToolError {
    not_configured(&format!(
        "the project is of no kind that the test runners know ({}); name one in 'framework', or \
         add its file, such as go.mod, package.json, pytest.ini, pyproject.toml or Cargo.toml",
        available.join(", ")
    ))
}

fn not_configured(why: &str) -> ToolError {
    let message = format!("test runner not configured: {why}");
    ToolError::unavailable("TestRunnerNotConfigured", message)
}

fn tool_error(error: Error) -> ToolError {
    match error {
        Error::Unavailable(why) => not_configured(&why),
        Error::Invalid(message) | Error::Failed(message) if cure(&message).is_some() => {
            let cure = cure(&message).unwrap_or_default();
            ToolError::failed("TestSetupFailed", format!("{message}. Cure: {cure}"))
        }
        Error::Invalid(message) => ToolError::invalid_args("InvalidTestRun", message),
        Error::Limit(message) => ToolError::limit("TestLimit", message),
        Error::Failed(message) => ToolError::failed("TestRunnerFailed", message),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Runners that recognise projects by directory, and return one report.
    struct Fake {
        sure: Vec<(&'static str, &'static str, u8)>,
        names: Vec<&'static str>,
        markers: Vec<&'static str>,
        answer: Result<Report, Error>,
        asked: RefCell<Vec<(String, String, Option<String>)>>,
        stored: RefCell<BTreeMap<String, Vec<u8>>>,
    }

    fn report(passed: usize) -> Report {
        let test = |n: usize| Test {
            name: format!("test_{n}_{}", "x".repeat(100)),
            suite: "tests".to_owned(),
            status: Status::Pass,
            duration: None,
            message: None,
            stack: None,
        };
        Report {
            tests: (0..passed).map(test).collect(),
            exit_code: Some(0),
            timed_out: false,
            duration_ms: 1,
            raw: String::new(),
        }
    }

    /// Runners that are this sure of a directory: name, directory, sureness.
    fn fake(sure: &[(&'static str, &'static str, u8)], markers: &[&'static str]) -> Fake {
        let mut names: Vec<&str> = sure.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        Fake {
            sure: sure.to_vec(),
            names,
            markers: markers.to_vec(),
            answer: Ok(report(1)),
            asked: RefCell::default(),
            stored: RefCell::default(),
        }
    }

    impl Runners for Fake {
        fn available(&self) -> Vec<String> {
            self.names.iter().map(|&name| name.to_owned()).collect()
        }
        fn detect(&self, name: &str, root: &str) -> u8 {
            let found = self.sure.iter().find(|(known, at, _)| (*known, *at) == (name, root));
            found.map_or(0, |(.., sure)| *sure)
        }
        fn run(&self, name: &str, request: &Request) -> Result<Report, Error> {
            let asked = (name.to_owned(), request.root.clone(), request.pattern.clone());
            self.asked.borrow_mut().push(asked);
            self.answer.clone()
        }
        fn markers(&self, _: &Context) -> Result<Vec<String>, ToolError> {
            Ok(self.markers.iter().map(|&path| path.to_owned()).collect())
        }
        fn stored(&self, key: &str) -> Option<Vec<u8>> {
            self.stored.borrow().get(key).cloned()
        }
        fn store(&self, key: &str, value: &[u8]) {
            self.stored.borrow_mut().insert(key.to_owned(), value.to_owned());
        }
    }

    fn asked(args: serde_json::Value, runners: &Fake) -> Result<Output, ToolError> {
        let args = serde_json::from_value(args).unwrap();
        run(&args, runners, &Context::for_directory(Path::new("/project")))
    }

    #[test]
    fn the_surest_runner_is_chosen() {
        for (sure, wanted) in [
            (&[("npm", 50), ("jest", 88), ("go", 0)][..], Some("jest")),
            (&[("cargo", 80), ("pytest", 80), ("npm", 80), ("jest", 80), ("go", 80)], Some("go")),
            (&[("cargo", 80), ("pytest", 80), ("npm", 80)], Some("npm")),
            (&[("bazel", 90), ("cargo", 90)], Some("cargo")),
            (&[("bazel", 91), ("cargo", 90)], Some("bazel")),
            (&[("npm", 10)], Some("npm")),
            (&[("go", 0), ("npm", 0)], None),
            (&[], None),
        ] {
            let sure: Vec<_> = sure.iter().map(|(name, sure)| (*name, "", *sure)).collect();
            let answer = asked(json!({}), &fake(&sure, &[]));
            match (answer, wanted) {
                (Ok(output), Some(wanted)) => assert_eq!(output.framework, wanted),
                (Err(error), None) => {
                    assert_eq!(error.code, "TestRunnerNotConfigured");
                    assert!(error.message.starts_with("test runner not configured: "), "{error}");
                }
                (answer, _) => unreachable!("{answer:?} {wanted:?}"),
            }
        }
    }

    #[test]
    fn a_requested_framework_runs_without_detection() {
        let runners = fake(&[("go", "", 90), ("pytest", "", 0)], &[]);
        let args = |framework: &str| json!({"test_pattern": "test_api", "framework": framework, "timeout_seconds": 60});
        assert_eq!(asked(args("pytest"), &runners).unwrap().framework, "pytest");
        let wanted = ("pytest".to_owned(), String::new(), Some("test_api".to_owned()));
        assert_eq!(*runners.asked.borrow(), [wanted]);
        for (framework, code, message) in [
            (
                "jest",
                "TestRunnerNotConfigured",
                "test runner not configured: there is no 'jest' here; there are go, pytest",
            ),
            (
                "mocha",
                "UnknownFramework",
                "unknown test framework: there is no 'mocha' here; there are go, pytest",
            ),
        ] {
            let error = asked(args(framework), &runners).unwrap_err();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
        }
        assert_eq!(runners.asked.borrow().len(), 1);
    }

    #[test]
    fn projects_below_the_root_are_run() {
        const SURE: [(&str, &str, u8); 7] = [
            // Test files anywhere.
            ("go", "", 60),
            ("pytest", "", 60),
            ("pytest", "api", 84),
            ("npm", "web", 50),
            ("npm", "docs", 10),
            ("go", "svc", 90),
            ("pytest", "svc", 0),
        ];
        const MARKERS: [&str; 4] =
            ["api/pyproject.toml", "web/package.json", "docs/package.json", "svc/go.mod"];
        for (args, wanted) in [
            (json!({}), &[("pytest", "api", None), ("go", "svc", None), ("npm", "web", None)][..]),
            (json!({"framework": "pytest"}), &[("pytest", "api", None)]),
            (json!({"path": "web"}), &[("npm", "web", None)]),
            (json!({"path": "docs/"}), &[("npm", "docs", None)]),
            (json!({"path": "none", "framework": "go"}), &[("go", "none", None)]),
            (
                json!({"test_pattern": "api/tests/test_a.py::test_x"}),
                &[("pytest", "api", Some("tests/test_a.py::test_x"))],
            ),
        ] {
            let runners = fake(&SURE, &MARKERS);
            asked(args.clone(), &runners).unwrap();
            let ran = runners.asked.borrow();
            let mut ran: Vec<_> = ran
                .iter()
                .map(|(name, root, pattern)| (&**name, &**root, pattern.as_deref()))
                .collect();
            ran.sort_by_key(|(_, root, _)| *root);
            assert_eq!(ran, wanted, "{args}");
        }
        let error = asked(json!({"path": "none"}), &fake(&SURE, &MARKERS)).unwrap_err();
        assert_eq!(error.code, "TestRunnerNotConfigured");
    }

    #[test]
    fn a_project_in_the_root_is_run_and_others_are_named() {
        let sure = [("pytest", "", 84), ("npm", "web", 50), ("pytest", "tools", 84)];
        let markers = ["pyproject.toml", "tools/pytest.ini", "web/package.json"];
        let runners = fake(&sure, &markers);
        let output = asked(json!({}), &runners).unwrap();
        assert_eq!(runners.asked.borrow().len(), 1);
        let wanted = "not run: the projects in web (npm); for one: run_tests {\"path\":\"web\"}";
        assert_eq!(output.notes, [wanted]);
        // A package.json without a script for tests does not stand in for the projects below.
        let sure = [("npm", "", 10), ("go", "svc", 90)];
        let runners = fake(&sure, &["package.json", "svc/go.mod"]);
        assert_eq!(asked(json!({}), &runners).unwrap().framework, "go");
    }

    #[test]
    fn one_of_several_projects_that_cannot_run_is_a_failure() {
        let sure = [("pytest", "api", 84), ("go", "svc", 90)];
        let mut runners = fake(&sure, &["api/pytest.ini", "svc/go.mod"]);
        runners.answer = Err(Error::Unavailable("there is no program".to_owned()));
        let output = asked(json!({}), &runners).unwrap();
        assert!(!output.success);
        assert_eq!(output.summary.failed, 2);
        assert!(output.tests[0].error.as_ref().unwrap().contains("there is no program"));
    }

    #[test]
    fn a_later_page_does_not_run_the_tests_again() {
        let mut runners = fake(&[("pytest", "", 84)], &["pytest.ini"]);
        runners.answer = Ok(report(500));
        let first = asked(json!({"verbose": true}), &runners).unwrap();
        let offset = first.tests.len();
        assert!(offset < 500);
        let second = asked(json!({"verbose": true, "offset": offset}), &runners).unwrap();
        assert_eq!(runners.asked.borrow().len(), 1);
        assert!(second.tests[0].name.starts_with(&format!("test_{offset}_")));
        // Other tests are another run, and a run without stored values is repeated.
        asked(json!({"test_pattern": "test_1", "offset": 1}), &runners).unwrap();
        runners.stored.borrow_mut().clear();
        let again = asked(json!({"verbose": true, "offset": offset}), &runners).unwrap();
        assert_eq!(runners.asked.borrow().len(), 3);
        assert_eq!(again.tests, second.tests);
    }

    #[test]
    fn an_unavailable_runner_is_an_error() {
        for (error, code, message) in [
            (
                Error::Unavailable("there is no program 'go'".to_owned()),
                "TestRunnerNotConfigured",
                "test runner not configured: there is no program 'go'",
            ),
            (Error::Invalid("x".to_owned()), "InvalidTestRun", "x"),
            (Error::Limit("x".to_owned()), "TestLimit", "x"),
            (Error::Failed("x".to_owned()), "TestRunnerFailed", "x"),
            (
                Error::Invalid("ImportError while loading conftest".to_owned()),
                "TestSetupFailed",
                "ImportError while loading conftest. Cure: install",
            ),
        ] {
            let mut runners = fake(&[("go", "", 90)], &[]);
            runners.answer = Err(error);
            let error = asked(json!({}), &runners).unwrap_err();
            assert_eq!(error.code, code);
            assert!(error.message.starts_with(message), "{error}");
        }
    }
}
