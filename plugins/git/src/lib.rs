//! The `git` plugin: `git_status` and `git_diff`, without arguments, of the workspace.
//!
//! What keeps a repository from running its own programs is in [`cofferdam_sdk::git`]; the tests
//! beside this crate plant them.
//!
//! Source: S3, "Git Operations".

use cofferdam_sdk::process::Output as Printed;
use cofferdam_sdk::{Context, ToolError, git, plugin, shorten};
use serde::{Deserialize, Serialize};

/// More than this, in bytes, is left out of the middle of an answer.
const MOST: usize = 1024 * 1024;

/// What both tools are given: nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// What both tools answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// What git printed.
    pub output: String,
    /// Whether something is missing in the middle of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl From<Printed> for Output {
    fn from(printed: Printed) -> Self {
        let output = printed.stdout_text();
        let truncated = printed.stdout.total > MOST as u64;
        Self { output: shorten(&output, MOST).into_owned(), truncated }
    }
}

/// The plugin.
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
