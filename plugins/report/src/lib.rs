//! The `report` plugin: `save_agent_report` keeps what a verification agent found.
//!
//! [`report`] checks what an agent submits, [`json`], [`markdown`] and [`html`] render it,
//! [`place`] finds names that are free. What an agent writes is shown, never obeyed: [`inert`]
//! is the one place that knows which characters could do more than be read.

pub mod html;
pub mod inert;
pub mod json;
pub mod markdown;
pub mod place;
pub mod report;
pub mod save;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Reports;

impl Reports {
    fn save_agent_report(args: report::Args, context: &Context) -> Result<save::Output, ToolError> {
        save::run(args, context)
    }
}

plugin!(Reports { save_agent_report });
