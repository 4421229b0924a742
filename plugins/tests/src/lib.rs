//! The `tests` plugin: `run_tests`, by whichever test runner the operator has and fits.
//!
//! | module | is for |
//! |---|---|
//! | [`run_tests`] | the tool: the choice of a runner, and what it is asked |
//! | [`answer`] | a runner's report as the tool's answer |
//!
//! Only this module reaches the runners, which are other components. What they run and how they
//! read it is theirs.
//!
//! Source: S3, "run_tests".

pub mod answer;
pub mod run_tests;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::test_runners;
use cofferdam_sdk::backend::testing::{Report, Request};
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin.
pub struct Tests;

impl Tests {
    fn run_tests(args: run_tests::Args, context: &Context) -> Result<answer::Output, ToolError> {
        run_tests::run(args, &Broker, context)
    }
}

plugin!(Tests { run_tests });

/// The test runners that the host has.
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
