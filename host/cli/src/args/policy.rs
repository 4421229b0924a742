//! Arguments of `policy`.

use clap::{Args, Subcommand};

use super::Printed;
use cofferdam_core::policy::{Capability, CapabilityError};

#[derive(Debug, Args)]
pub struct Policy {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show what every plugin is granted here
    #[command(after_help = "\
Examples:
  cofferdam policy show
  cofferdam policy show --plugin ./hello.wasm")]
    Show,
    /// Accept the workspace's cofferdam.toml as it is now
    #[command(after_help = "\
Examples:
  cofferdam policy accept
  cofferdam policy accept --workspace ~/project")]
    Accept,
    /// Say why a plugin or a tool may do what it may, or why not, down to the line that says so
    #[command(after_help = "\
Examples:
  cofferdam policy explain shell --format text
  cofferdam policy explain files.write_file --role reader")]
    Explain {
        /// A plugin's name, or a tool's
        #[arg(value_name = "PLUGIN|TOOL")]
        name: String,
        /// The role that a call would be made under
        #[arg(long)]
        role: Option<String>,
    },
    /// Grant a plugin something that it asks for, in your own cofferdam.toml
    #[command(after_help = "\
Examples:
  cofferdam policy grant lines files=read
  cofferdam policy grant docs http=https://context7.com
  cofferdam policy grant team agents=code-implementer
  cofferdam policy grant lines all")]
    Grant {
        /// The plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// files=read, files=write, scan, process=PROGRAM, backends=KIND, cache, history, git-commit,
        /// background, tools, questions, agents=NAME, http=ORIGIN, consent=CLASS, or all
        #[arg(required = true, value_name = "CAPABILITY")]
        capabilities: Vec<Granted>,
    },
    /// Take back what a plugin is granted, in your own cofferdam.toml
    #[command(after_help = "\
Examples:
  cofferdam policy revoke lines files=write
  cofferdam policy revoke lines")]
    Revoke {
        /// The plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// What is taken back, as it is granted: files=read, files=write, scan, process=PROGRAM,
        /// backends=KIND, cache, history, git-commit, background, tools, questions, agents=NAME,
        /// http=ORIGIN, consent=CLASS; everything where nothing is named. Without files=write, reading is left
        #[arg(value_name = "CAPABILITY")]
        capabilities: Vec<Capability>,
    },
}

/// One capability, or everything that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    All,
    One(Capability),
}

impl std::str::FromStr for Granted {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}
