//! The `beads` plugin: issues and tasks, stored in the workspace in one file each.
//!
//! [`actions`] has the tools, [`store`] reads and writes the files. The format of a file and the
//! rules for changing a bead are in the crate `cofferdam-beads-format`, which the command
//! `cofferdam beads` uses too.
//!
//! Source: the actions reference, "Bead Management" and "Communication".

pub mod actions;
pub mod store;

use actions::{Answer, Approve, Ask, Close, Create, Escalate, Escalated, Reject, Rejected};
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Beads;

impl Beads {
    fn create_bead(args: Create, context: &Context) -> Result<Answer, ToolError> {
        actions::create(args, context)
    }

    fn close_bead(args: Close, context: &Context) -> Result<Answer, ToolError> {
        actions::close(args, context)
    }

    fn escalate_ceo(args: Escalate, context: &Context) -> Result<Escalated, ToolError> {
        actions::escalate(args, context)
    }

    fn approve_bead(args: Approve, context: &Context) -> Result<Answer, ToolError> {
        actions::approve(args, context)
    }

    fn reject_bead(args: Reject, context: &Context) -> Result<Rejected, ToolError> {
        actions::reject(args, context)
    }

    fn ask_followup(args: Ask, context: &Context) -> Result<Answer, ToolError> {
        actions::ask(args, context)
    }
}

plugin!(Beads { create_bead, close_bead, escalate_ceo, approve_bead, reject_bead, ask_followup });
