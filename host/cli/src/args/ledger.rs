//! What agents leave for each other: `beads` and `inbox`.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use cofferdam_beads_format::{Kind, MessageId, Status};

use super::Printed;

#[derive(Debug, Args)]
pub struct Beads {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: BeadsCommand,
}

#[derive(Debug, Subcommand)]
pub enum BeadsCommand {
    /// List beads, the most urgent first, and of those of one priority the oldest
    #[command(after_help = "\
Examples:
  cofferdam beads list --format text
  cofferdam beads list --status open --status rejected --type bug
  cofferdam beads list --project proj-123 --tag security --tag urgent")]
    List(ListBeads),
    /// Show a bead with its history
    #[command(after_help = "\
Examples:
  cofferdam beads show bead-7k2m-x9qd --format text
  cofferdam beads show 7k2")]
    Show {
        /// The bead's id, or the beginning of it, with or without `bead-`
        #[arg(value_name = "ID")]
        bead: String,
    },
}

#[derive(Debug, Args)]
pub struct ListBeads {
    /// Only beads of this status (may be repeated: of any of them)
    #[arg(long, value_parser = PossibleValuesParser::new(Status::NAMES).try_map(|name| name.parse::<Status>()))]
    pub status: Vec<Status>,
    /// Only beads of this type (may be repeated: of any of them)
    #[arg(long = "type", value_name = "TYPE", value_parser = PossibleValuesParser::new(Kind::NAMES).try_map(|name| name.parse::<Kind>()))]
    pub kind: Vec<Kind>,
    /// Only beads of this project
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// Only beads with this tag (may be repeated: with all of them)
    #[arg(long)]
    pub tag: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Inbox {
    #[command(flatten)]
    pub printed: Printed,
    /// Only messages to this name, and broadcasts
    #[arg(long = "for", value_name = "NAME")]
    pub name: Option<String>,
    /// Only messages after this one
    #[arg(long, value_name = "ID")]
    pub after: Option<MessageId>,
}
