//! The `shell` plugin: runs commands with a shell, in the operating system's sandbox.
//!
//! | module | is for |
//! |---|---|
//! | [`run_command`] | the tool of that name, from the actions reference: "run_command" and "Error Handling" |
//! | [`bash`] | the tool of that name, from the tool schemas: "Bash Schema" |
//! | `shell` | runs a command and describes its end, for both tools |
//!
//! A shell can run anything, so the host grants this plugin no shell unless the operator does.
//!
//! Differences to the source documents:
//! - The tool schemas keep the working directory from call to call. A plugin has no state between
//!   calls, so every call starts in the workspace; use `cd src && ...`.
//! - The tool schemas pass on the environment of the parent process. Here a program gets the host's
//!   fixed environment and the variables that the grant names.
//! - In both documents, an exit code other than 0 is an error. As with every tool, the changes of a
//!   failed call are discarded.

pub mod bash;
pub mod run_command;
mod shell;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Shell;

impl Shell {
    fn run_command(
        args: run_command::Args,
        context: &Context,
    ) -> Result<run_command::Output, ToolError> {
        run_command::run(&args, context)
    }

    fn bash(args: bash::Args, context: &Context) -> Result<bash::Output, ToolError> {
        bash::run(&args, context)
    }
}

plugin!(Shell { run_command, bash });
