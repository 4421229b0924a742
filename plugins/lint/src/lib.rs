//! The `lint` plugin: `run_linter` for every language, and `lint_backend` for Python, with findings
//! grouped by code.
//!
//! | module | is for |
//! |---|---|
//! | [`run_linter`], [`lint_backend`] | the tools: arguments and results |
//! | [`language`] | the languages of a file or a directory |
//! | [`target`] | what to lint: paths, directories, globs |
//! | [`project`] | finds the projects in a workspace |
//! | [`choice`] | chooses the linters to run |
//! | [`failure`] | errors of linters |
//! | [`host`] | everything that needs the host |
//!
//! Code that was not checked is never reported as clean: a linter that can't run is an error or, if
//! other linters ran, a violation.

pub mod choice;
pub mod failure;
pub mod host;
pub mod language;
pub mod lint_backend;
pub mod project;
pub mod run_linter;
pub mod target;
pub mod type_checker;

#[cfg(test)]
mod testing;

use cofferdam_sdk::{Context, ToolError, plugin};
use host::Host;

/// The plugin: each function is a tool.
pub struct Lint;

impl Lint {
    fn run_linter(
        args: run_linter::Args,
        context: &Context,
    ) -> Result<run_linter::Output, ToolError> {
        run_linter::run(&args, context, &Host(context))
    }

    fn lint_backend(
        args: lint_backend::Args,
        context: &Context,
    ) -> Result<lint_backend::Output, ToolError> {
        lint_backend::run(&args, context, &Host(context))
    }
}

plugin!(Lint { run_linter, lint_backend });
