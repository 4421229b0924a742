//! What the host calls: `cofferdam:backend/test-runner`. The output is read in `tap.rs`.

mod tap;

use std::fs;
use std::path::Path;

// Generated from the WIT files.
wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use cofferdam::backend::testing::{Report, Request, Status, Test};
use cofferdam::backend::types::Error;
use cofferdam::host::process::{self, Changes, Command, End};

/// Where the plugin sees the workspace.
const WORKSPACE: &str = "/workspace";

struct Plugin;

impl exports::cofferdam::backend::test_runner::Guest for Plugin {
    fn detect(_: String, root: String) -> u8 {
        let makefile = Path::new(WORKSPACE).join(root).join("Makefile");
        let text = fs::read_to_string(makefile).unwrap_or_default();
        if text.lines().any(|line| line.starts_with("test:")) { 40 } else { 0 }
    }

    fn version(_: String) -> Result<String, Error> {
        let output = make("", &["--version"], 0)?;
        let said = String::from_utf8_lossy(&output.stdout.bytes).into_owned();
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }

    /// Failed tests and timeouts are not errors; `wit/deps/backend` says what a report
    /// promises.
    fn run(_: String, request: Request) -> Result<Report, Error> {
        if request.pattern.is_some() {
            return Err(Error::Invalid("`make test` can't choose tests by name".to_owned()));
        }
        let output = make(&request.root, &["--silent", "test"], request.timeout_ms)?;
        let (exit_code, timed_out) = match &output.end {
            End::Exited(code) => (Some(*code), false),
            End::TimedOut => (None, true),
            End::Signalled(signal) => return Err(Error::Failed(format!("ended by signal {signal}"))),
            End::Limit(limit) => return Err(Error::Limit(limit.clone())),
        };
        let said = String::from_utf8_lossy(&output.stdout.bytes);
        Ok(Report {
            tests: tap::parse(&said).into_iter().map(|test| reported(test, &request.root)).collect(),
            exit_code,
            timed_out,
            duration_ms: output.duration_ms,
            raw: format!("{said}{}", String::from_utf8_lossy(&output.stderr.bytes)),
        })
    }
}

fn make(root: &str, arguments: &[&str], timeout_ms: u32) -> Result<process::Output, Error> {
    let command = Command {
        program: "make".to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        directory: root.to_owned(),
        environment: Vec::new(),
        stdin: Vec::new(),
        timeout_ms,
        // Tests may write files; the changes are discarded.
        changes: Changes::Discard,
    };
    process::run(&command).map_err(|error| match error {
        process::Error::Denied(why)
        | process::Error::NotFound(why)
        | process::Error::Unavailable(why) => Error::Unavailable(why),
        process::Error::Invalid(why) => Error::Invalid(why),
        process::Error::Changes(why) | process::Error::Failed(why) => Error::Failed(why),
    })
}

fn reported(test: tap::Test, suite: &str) -> Test {
    Test {
        name: test.name,
        suite: suite.to_owned(),
        status: match test.status {
            tap::Status::Pass => Status::Pass,
            tap::Status::Fail => Status::Fail,
            tap::Status::Skip => Status::Skip,
        },
        duration: None,
        message: test.directive,
        stack: None,
    }
}

export!(Plugin);
