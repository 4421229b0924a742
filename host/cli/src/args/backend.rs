//! Arguments of `backend`.

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct Backend {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: BackendCommand,
}

#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List the backends, their versions, and what each is chosen for
    #[command(after_help = "\
Examples:
  cofferdam backend list --format text")]
    List,
    /// Lint the same files with two linters, and show what each finds that the other doesn't
    #[command(after_help = "\
Examples:
  cofferdam backend compare ruff pyflakes src --format text")]
    Compare {
        /// A linter's name
        first: String,
        /// The other linter's name
        second: String,
        /// A file or directory of the workspace
        #[arg(default_value = ".")]
        path: String,
    },
}
