//! `run_tests`: chooses a test runner, runs it, and returns the result of each test.
//!
//! Failed tests and a timeout are a result with `success: false`, not an error: the actions
//! reference shows such a result, and agents need the failures as fields. The call is an error only
//! if no tests could be run at all, which the actions reference calls "test runner not configured".

use std::time::Instant;

use cofferdam_sdk::backend::testing::{Report, Request};
use cofferdam_sdk::backend::{Error, surest};
use cofferdam_sdk::{Context, ToolError};
use serde::Deserialize;

use crate::answer::{self, Output};

/// The frameworks of the actions reference in its order, and cargo. It is also the order of
/// preference among runners that are equally sure.
const FRAMEWORKS: [&str; 5] = ["go", "jest", "npm", "pytest", "cargo"];

/// The default timeout in seconds, as in the first example of the actions reference.
const DEFAULT_TIMEOUT_SECONDS: u32 = 300;

/// The arguments of the tool.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A pattern for the tests to run.
    pub test_pattern: Option<String>,
    /// The test runner to use.
    pub framework: Option<String>,
    /// The timeout in seconds.
    pub timeout_seconds: Option<u32>,
}

/// Access to the test runners that the operator has.
pub trait Runners {
    /// The names of all runners.
    fn available(&self) -> Vec<String>;
    /// How sure a runner is that it fits the workspace: 0 to 100.
    fn detect(&self, name: &str) -> u8;
    /// Runs tests with the named runner.
    ///
    /// # Errors
    /// See [`Error`]: the run could not start, or exceeded a limit other than its timeout.
    fn run(&self, name: &str, request: &Request) -> Result<Report, Error>;
}

/// Runs the tests of the project in the workspace.
///
/// # Errors
/// `TestRunnerNotConfigured` if there is no runner, or none fits or can run; `UnknownFramework`,
/// `InvalidTestRun`, `TestLimit` and `TestRunnerFailed`.
pub fn run(args: Args, runners: &impl Runners, context: &Context) -> Result<Output, ToolError> {
    let started = Instant::now();
    let framework = choose(args.framework.as_deref(), runners)?;
    let wanted = args.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).saturating_mul(1_000);
    let request = Request {
        root: String::new(),
        pattern: args.test_pattern,
        timeout_ms: context.timeout_ms(Some(wanted), started.elapsed()),
    };
    let report = runners.run(&framework, &request).map_err(tool_error)?;
    Ok(answer::output(framework, request.pattern.as_deref(), report))
}

/// Chooses the requested runner, or the one that is surest that it fits.
fn choose(wanted: Option<&str>, runners: &impl Runners) -> Result<String, ToolError> {
    let available = runners.available();
    if available.is_empty() {
        return Err(not_configured("the operator has none"));
    }
    if let Some(wanted) = wanted {
        if available.iter().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let there = format!("there is no '{wanted}' here; there are {}", available.join(", "));
        return Err(if FRAMEWORKS.contains(&wanted) {
            not_configured(&there)
        } else {
            ToolError::invalid_args("UnknownFramework", format!("unknown test framework: {there}"))
        });
    }
    match surest(&available, |name| runners.detect(name), &FRAMEWORKS) {
        Some(name) => Ok(name.to_owned()),
        None => Err(not_configured(&format!(
            "the project is of no kind that the test runners know ({}); name one in 'framework', \
             or add its file, such as go.mod, package.json, pytest.ini, pyproject.toml or \
             Cargo.toml",
            available.join(", ")
        ))),
    }
}

fn not_configured(why: &str) -> ToolError {
    let message = format!("test runner not configured: {why}");
    ToolError::unavailable("TestRunnerNotConfigured", message)
}

fn tool_error(error: Error) -> ToolError {
    match error {
        Error::Unavailable(why) => not_configured(&why),
        Error::Invalid(message) => ToolError::invalid_args("InvalidTestRun", message),
        Error::Limit(message) => ToolError::limit("TestLimit", message),
        Error::Failed(message) => ToolError::failed("TestRunnerFailed", message),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use super::*;

    type Fixed = cofferdam_testing::Fixed<Request, Result<Report, Error>>;

    fn fixed(sure: &[(&'static str, u8)]) -> Fixed {
        let report = Report {
            tests: Vec::new(),
            exit_code: Some(0),
            timed_out: false,
            duration_ms: 1,
            raw: String::new(),
        };
        Fixed::new(sure, Ok(report))
    }

    impl Runners for Fixed {
        fn available(&self) -> Vec<String> {
            self.names()
        }
        fn detect(&self, name: &str) -> u8 {
            self.sureness(name)
        }
        fn run(&self, name: &str, request: &Request) -> Result<Report, Error> {
            self.ask(name, request)
        }
    }

    fn context(deadline_ms: u32) -> Context {
        let mut context = Context::for_directory(Path::new("/project"));
        context.deadline_ms = deadline_ms;
        context
    }

    fn asked(args: Args, runners: &Fixed) -> Result<String, ToolError> {
        run(args, runners, &context(600_000)).map(|output| output.framework)
    }

    #[test]
    fn the_surest_runner_is_chosen() {
        for (sure, wanted) in [
            (&[("npm", 50), ("jest", 88), ("go", 0)][..], Some("jest")),
            (&[("cargo", 80), ("pytest", 80), ("npm", 80), ("jest", 80), ("go", 80)], Some("go")),
            (&[("cargo", 80), ("pytest", 80), ("npm", 80)], Some("npm")),
            (&[("bazel", 90), ("cargo", 90)], Some("cargo")),
            (&[("bazel", 91), ("cargo", 90)], Some("bazel")),
            (&[("go", 0), ("npm", 0)], None),
            (&[], None),
        ] {
            let answer = asked(Args::default(), &fixed(sure));
            assert_eq!(answer.as_deref().ok(), wanted, "{sure:?}");
            if let Err(error) = answer {
                assert_eq!(error.code, "TestRunnerNotConfigured");
                assert!(error.message.starts_with("test runner not configured: "), "{error}");
            }
        }
    }

    #[test]
    fn a_requested_framework_runs_without_detection() {
        let runners = fixed(&[("go", 90), ("pytest", 0)]);
        let args = |framework: &str| Args {
            test_pattern: Some("test_api".to_owned()),
            framework: Some(framework.to_owned()),
            timeout_seconds: Some(60),
        };
        assert_eq!(asked(args("pytest"), &runners).unwrap(), "pytest");
        let (name, request) = runners.asked.borrow()[0].clone();
        assert_eq!((name.as_str(), request.root.as_str()), ("pytest", ""));
        assert_eq!((request.pattern.as_deref(), request.timeout_ms), (Some("test_api"), 60_000));
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
        ] {
            let runners = Fixed { answer: Err(error), ..fixed(&[("go", 90)]) };
            let error = asked(Args::default(), &runners).unwrap_err();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
        }
    }
}
