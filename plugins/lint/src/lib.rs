//! The `lint` plugin: `run_linter` for every language, `lint_backend` for Python by code.
//!
//! | module | is for |
//! |---|---|
//! | [`run_linter`], [`lint_backend`] | the tools: arguments and answers |
//! | [`language`] | which languages a file or a directory holds |
//! | [`target`] | what is to be linted: paths, directories, globs |
//! | [`project`] | where the projects of a workspace are |
//! | [`choice`] | which of the operator's linters run for it |
//! | [`failure`], [`time`] | linters that have no report; how long they may take |
//! | [`world`] | everything that only the host can do |
//!
//! Nothing is answered as clean that was not checked: a linter that can't work is an error, or,
//! where others did work, a violation.

pub mod choice;
pub mod failure;
pub mod language;
pub mod lint_backend;
pub mod project;
pub mod run_linter;
pub mod target;
pub mod world;

#[cfg(test)]
mod testing;

use cofferdam_sdk::{Context, ToolError, plugin};
use world::Host;

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
