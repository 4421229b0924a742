//! The `report` plugin: `save_agent_report` keeps what a verification agent found.
//!
//! [`check`] says what is wrong with a report, [`place`] finds names that are free. What a report
//! is and how it is shown is in `cofferdam_reporting`, which the host sums reports up with.

pub mod check;
pub mod place;
pub mod save;

use cofferdam_report_format::Args;
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Reports;

impl Reports {
    fn save_agent_report(args: Args, context: &Context) -> Result<save::Output, ToolError> {
        save::run(args, context)
    }
}

plugin!(Reports { save_agent_report });
