//! The `tests` plugin: `run_tests`, which runs one of the operator's test runners.
//!
//! | module | is for |
//! |---|---|
//! | [`run_tests`] | the tool: chooses runners and calls them |
//! | [`modules`] | finds the projects of a workspace |
//! | [`answer`] | converts reports to the tool's result, in pages |
//! | [`telling`] | the telling lines of a failure, and what to do about missing dependencies |
//!
//! Only this module calls the runners, which are other components, and the host.
//!
//! Source: the actions reference, "run_tests".

pub mod answer;
pub mod modules;
pub mod run_tests;
pub mod telling;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::test_runners;
use cofferdam_sdk::backend::testing::{Report, Request};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, cache, plugin};

/// The plugin: each function is a tool.
pub struct Tests;

impl Tests {
    fn run_tests(args: run_tests::Args, context: &Context) -> Result<answer::Output, ToolError> {
        run_tests::run(&args, &Broker, context)
    }
}

plugin!(Tests { run_tests });

/// The test runners, called through the host.
struct Broker;

impl run_tests::Runners for Broker {
    fn available(&self) -> Vec<String> {
        test_runners::available()
    }

    fn detect(&self, name: &str, root: &str) -> u8 {
        test_runners::detect(name, root)
    }

    fn run(&self, name: &str, request: &Request) -> Result<Report, Error> {
        test_runners::run(name, request)
    }

    fn markers(&self, context: &Context) -> Result<Vec<String>, ToolError> {
        let Some(query) = modules::marker_query(context) else { return Ok(Vec::new()) };
        Ok(Scanner::open(&query)?.files().map(|file| file.path).collect())
    }

    fn stored(&self, key: &str) -> Option<Vec<u8>> {
        cache::get(key)
    }

    fn store(&self, key: &str, value: &[u8]) {
        // Without it, a later page runs the tests again.
        let _ = cache::put(key, value);
    }
}
