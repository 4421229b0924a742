//! Arguments of `review`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct Review {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: Option<ReviewCommand>,
}

#[derive(Debug, Subcommand)]
pub enum ReviewCommand {
    /// Print what a proposal changes, by file and hunk, compared with the workspace as it is
    #[command(after_help = "\
Examples:
  cofferdam review show 019a6f2c --format text
  cofferdam review show 019a6f2c --hunk 4be0a1f29c7790cd12ab34ef77aa01be --format text | git apply --check")]
    Show {
        /// The proposal; the beginning of its id will do
        id: String,
        /// Only these hunks, as a patch for `git apply` (may be repeated)
        #[arg(long, value_name = "HUNK")]
        hunk: Vec<String>,
    },
    /// Make what a proposal changes a commit of the workspace
    #[command(after_help = "\
Examples:
  cofferdam review accept 019a6f2c --view 2.5f0c1d9a77e15f0c1d9a77e15f0c1d9a
  cofferdam review accept 019a6f2c --hunk 4be0a1f29c7790cd12ab34ef77aa01be")]
    Accept(Decide),
    /// Remove hunks from a proposal, and tell its session
    #[command(after_help = "\
Examples:
  cofferdam review reject 019a6f2c --view 2.5f0c1d9a77e15f0c1d9a77e15f0c1d9a -m 'not needed'
  cofferdam review reject 019a6f2c --hunk 77aa01be9d2077aa01be9d2077aa01be -m 'keep the old name'")]
    Reject(Decide),
    /// Decide about each hunk at the terminal, as `git add --patch` does
    #[command(after_help = "\
Examples:
  cofferdam review interactive 019a6f2c")]
    Interactive {
        /// The proposal; the beginning of its id will do
        id: String,
    },
    /// Answer the questions of calls, for clients that can't ask
    #[command(long_about = "\
Answer the questions of calls, for clients that can't ask

While it runs, a call of an MCP server of this workspace that needs a yes (`ask` in the settings) is shown
here, also if its client shows it: the first answer counts. Lines of standard input are the answers: `y`
(yes), `s` (yes, and later calls of the tool in the session), `t MINUTES` or `t MINUTES ARGUMENT=PATTERN`
(yes, and for so long calls with the same arguments, of which one may match a pattern with `*`), `n` or
`n REASON` (no; the reason is for the agent). It ends with the input.")]
    #[command(after_help = "\
Examples:
  cofferdam review answer
  cofferdam review answer --format json < answers > questions")]
    Answer,
}

#[derive(Debug, Args)]
pub struct Decide {
    /// The proposal; the beginning of its id will do
    pub id: String,
    /// What you have seen, as `show` prints it: refused if the proposal or the workspace has changed
    /// since
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
    /// Only this hunk (may be repeated)
    #[arg(long, value_name = "HUNK")]
    pub hunk: Vec<String>,
    /// Accept this hunk as the file has it: the text of the hunk, with other added lines (may be
    /// repeated)
    #[arg(long, value_name = "HUNK=FILE")]
    pub edit: Vec<String>,
    /// Tell the session this
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub comment: Option<String>,
    /// The file with the comment; `-`: standard input
    #[arg(long, value_name = "FILE", conflicts_with = "comment")]
    pub comment_file: Option<PathBuf>,
}
