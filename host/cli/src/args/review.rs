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
    Show {
        /// The proposal; the beginning of its id will do
        id: String,
        /// Only these hunks, as a patch for `git apply` (may be repeated)
        #[arg(long, value_name = "HUNK")]
        hunk: Vec<String>,
    },
    /// Make what a proposal changes a commit of the workspace
    Accept(Decide),
    /// Remove hunks from a proposal, and tell its session
    Reject(Decide),
    /// Decide about each hunk at the terminal, as `git add --patch` does
    Interactive {
        /// The proposal; the beginning of its id will do
        id: String,
    },
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
