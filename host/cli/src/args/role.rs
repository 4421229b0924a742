//! Arguments of `role`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct RoleArgs {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: RoleCommand,
}

#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// List the roles
    #[command(after_help = "\
Examples:
  cofferdam role list --format text")]
    List,
    /// Show a role: its tools, what is denied or not installed, its scope
    #[command(after_help = "\
Examples:
  cofferdam role show code-reviewer --format text
  cofferdam role show agents/lint/lint_subagent.yaml")]
    Show {
        /// A role's name, or an agent definition (.yaml)
        #[arg(value_name = "ROLE|FILE")]
        role: String,
    },
    /// Print what an agent begins with: messages, tools and context
    ///
    /// Calls the context providers, which only read. A definition in the workspace may have been
    /// changed by an agent, so it counts only with --trust-workspace.
    #[command(after_help = "\
Examples:
  cofferdam role prompt ~/agents/lint_subagent.yaml --target src/app.py
  cofferdam role prompt agents/lint/lint_subagent.yaml --target src/app.py --trust-workspace")]
    Prompt {
        /// The agent definition
        file: PathBuf,
        /// The file that it is bound to, relative to the workspace
        #[arg(long, value_name = "PATH")]
        target: String,
    },
}
