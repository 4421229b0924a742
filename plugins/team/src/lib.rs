//! The `team` plugin: what agents that work together have to do with each other.
//!
//! [`send`] is `send_message`, [`mailbox`] keeps the messages, a file each. What is in a file is
//! the crate `cofferdam-ledger`'s, which the command `cofferdam inbox` reads them with. [`task`]
//! has one of the operator's agents do something; asking it is the host's business.
//!
//! Source: S4, "Agent Operations".

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
