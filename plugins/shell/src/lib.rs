//! The `shell` plugin: commands that a shell runs, in the operating system's sandbox.
//!
//! | module | is for |
//! |---|---|
//! | [`run_command`] | the tool of that name: S3, "run_command" and "Error Handling" |
//! | [`bash`] | the tool of that name: S4, "Bash Schema" |
//! | `shell` | running a command and saying how it ended, for both |
//!
//! A shell runs whatever its argument says, so the host gives this plugin none until the operator
//! grants one.
//!
//! Where it differs from its sources:
//! - S4 keeps the working directory from call to call. A plugin has no state between calls, so
//!   every call starts in the workspace; `cd src && ...` goes elsewhere.
//! - S4 passes the environment of the parent on. A program gets the host's fixed environment and
//!   what the grant names.
//! - A command that ends with another exit code than 0 is an error, in both sources. As with
//!   every tool, nothing is kept of what a failed call changed.

pub mod bash;
pub mod run_command;
mod shell;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin.
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
