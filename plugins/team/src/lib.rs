//! The `team` plugin: what agents that work together have to do with each other.
//!
//! [`send`] is `send_message`, [`mailbox`] keeps the messages, a file each. What is in a file is
//! the crate `cofferdam-ledger`'s, which the command `cofferdam inbox` reads them with.
//!
//! Source: S4, "Agent Operations".

pub mod mailbox;
pub mod send;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Team;

impl Team {
    fn send_message(args: send::Args, context: &Context) -> Result<send::Output, ToolError> {
        send::run(args, context)
    }
}

plugin!(Team { send_message });
