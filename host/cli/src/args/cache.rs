//! Arguments of `cache`.

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct Cache {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show how much compiled code is kept, and where
    #[command(after_help = "\
Examples:
  cofferdam cache list --format text")]
    List,
    /// Remove all compiled code; plugins that did not come with the host are compiled again
    #[command(after_help = "\
Examples:
  cofferdam cache clear")]
    Clear,
}
