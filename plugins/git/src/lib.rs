//! The `git` plugin: `git_status` and `git_diff` of the workspace, without arguments.
//!
//! [`cofferdam_sdk::git`] prevents a repository from running its own programs; the tests of this
//! crate verify that.
//!
//! Source: the actions reference, "Git Operations".

use cofferdam_sdk::git::Report;
use cofferdam_sdk::{Context, ToolError, git, plugin, shorten};
use serde::{Deserialize, Serialize};

/// The maximum size of a result's output, in bytes; the middle of longer output is cut out.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The arguments of both tools (none).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// The result of both tools.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The output of git.
    pub output: String,
    /// Whether the middle of the output was cut out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The parts of the repository that are outside of the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
}

impl From<Report> for Output {
    fn from(report: Report) -> Self {
        let Report { output: printed, repository } = report;
        let output = printed.stdout_text();
        let truncated = printed.stdout.total > MAX_OUTPUT_BYTES as u64;
        Self {
            output: shorten(&output, MAX_OUTPUT_BYTES).into_owned(),
            truncated,
            outside: repository.outside,
        }
    }
}

/// The plugin: each function is a tool.
pub struct Git;

impl Git {
    fn git_status(_: Args, context: &Context) -> Result<Output, ToolError> {
        git::status(&["--long"], context).map(Output::from)
    }

    fn git_diff(_: Args, context: &Context) -> Result<Output, ToolError> {
        git::diff(&[], context).map(Output::from)
    }
}

plugin!(Git { git_status, git_diff });
