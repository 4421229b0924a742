//! Arguments of `workspace`: stores of workspaces.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct WorkspaceArgs {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: WorkspaceCommand,
}

#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Upload the workspace to a store, as its next commit
    ///
    /// Uploads what the store does not have yet. Left out are `.git`, `.cofferdam`, `cofferdam.toml` and
    /// `cofferdam.lock`, links that leave the workspace, and what ignore files name. Refuses if the
    /// store has newer commits.
    #[command(after_help = "\
Examples:
  cofferdam workspace push /media/backup/project
  cofferdam workspace push s3://bucket/project --message 'before the release'
  cofferdam workspace push --pull --format text")]
    Push(Push),
    /// Create a directory from a store
    #[command(after_help = "\
Examples:
  cofferdam workspace clone s3://bucket/project project
  cofferdam workspace clone /media/backup/project ~/project --format text")]
    Clone {
        /// The store: a path, file:///PATH or s3://BUCKET/PREFIX
        #[arg(value_name = "STORE")]
        store: String,
        /// The new directory, or an empty one
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Take over the newer commits of the store, as one commit that can be undone
    ///
    /// What was changed only here stays. If a place was changed here and in the store, nothing is
    /// changed, and the places are named.
    #[command(after_help = "\
Examples:
  cofferdam workspace pull
  cofferdam workspace pull /media/backup/project --format text")]
    Pull {
        /// The store, if the workspace has not been pushed or pulled yet
        #[arg(value_name = "STORE")]
        store: Option<String>,
    },
    /// List the commits of the store, newest first
    #[command(after_help = "\
Examples:
  cofferdam workspace log --format text
  cofferdam workspace log s3://bucket/project --limit 100")]
    Log {
        /// The store, if it is not that of the workspace
        #[arg(value_name = "STORE")]
        store: Option<String>,
        /// How many commits, at most
        #[arg(long, short = 'n', default_value_t = 20, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[derive(Debug, Args)]
pub struct Push {
    /// The store: a path, file:///PATH or s3://BUCKET/PREFIX. Needed the first time only
    #[arg(value_name = "STORE")]
    pub store: Option<String>,
    /// Pull newer commits of the store first
    #[arg(long)]
    pub pull: bool,
    /// Push also what ignore files name
    #[arg(long)]
    pub ignored: bool,
    /// What to say about the commit
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
}
