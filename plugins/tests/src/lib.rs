//! The `tests` plugin: `run_tests`, which runs one of the operator's test runners.
//!
//! | module | is for |
//! |---|---|
//! | [`run_tests`] | the tool: chooses a runner and calls it |
//! | [`answer`] | converts a runner's report to the tool's result |
//!
//! Only this module calls the runners, which are other components.
//!
//! Source: the actions reference, "run_tests".

pub mod answer;
pub mod run_tests;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::test_runners;
use cofferdam_sdk::backend::testing::{Report, Request};
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Tests;

impl Tests {
    fn run_tests(args: run_tests::Args, context: &Context) -> Result<answer::Output, ToolError> {
        run_tests::run(args, &Broker, context)
    }
}

plugin!(Tests { run_tests });

/// The test runners, called through the host.
struct Broker;

impl run_tests::Runners for Broker {
    fn available(&self) -> Vec<String> {
        test_runners::available()
    }

    fn detect(&self, name: &str) -> u8 {
        test_runners::detect(name, "")
    }

    fn run(&self, name: &str, request: &Request) -> Result<Report, Error> {
        test_runners::run(name, request)
    }
}
