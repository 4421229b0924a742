//! The `team` plugin: cooperation of agents.
//!
//! [`send`] is `send_message`, [`mailbox`] stores the messages, one file each. The format of a file
//! is in the crate `cofferdam-beads-format`, which the command `cofferdam inbox` uses too. [`task`]
//! gives a task to one of the operator's agents, which the host runs.
//!
//! Source: the tool schemas, "Agent Operations".

pub mod mailbox;
pub mod send;
pub mod task;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Team;

impl Team {
    fn send_message(args: send::Args, context: &Context) -> Result<send::Output, ToolError> {
        send::run(args, context)
    }

    fn task(args: task::Args, _: &Context) -> Result<task::Output, ToolError> {
        task::run(args)
    }
}

plugin!(Team { send_message, task });
