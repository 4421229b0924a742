//! The `report` plugin: `save_agent_report` saves the report of a verification agent.
//!
//! [`check`] validates a report, [`place`] finds free names. The format of a report and its
//! rendering are in `cofferdam_report_format`, which the host uses to sum up reports.

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
