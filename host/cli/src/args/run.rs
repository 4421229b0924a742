//! The commands that make calls, or check them: `run`, `call`, `script`, `validate`.

use std::path::PathBuf;

use clap::Args;

use super::Printed;
use cofferdam_workspace::SessionName;

/// Whether changes are held, and for which session.
#[derive(Debug, Clone, Args)]
pub struct Holding {
    /// Hold all changes until they are accepted with `cofferdam review`
    #[arg(long)]
    pub hold: bool,
    /// The session of the calls: later runs of the same session see what is held for it, and are told
    /// what was decided. By default, each run has its own
    #[arg(long, value_name = "NAME")]
    pub session: Option<SessionName>,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub printed: Printed,
    /// The envelope; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The role that the calls are made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Take exactly one JSON document, with nothing around it
    #[arg(long)]
    pub strict: bool,
    /// Skip what comes after the first call that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Commit what all calls change as one, or nothing if a call fails
    #[arg(long)]
    pub atomic: bool,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

/// What narrows the calls of a run, below what holds anyway.
#[derive(Debug, Clone, Args)]
pub struct Narrowed {
    /// Let calls touch only this file or directory (may be repeated), within the role's scope
    #[arg(long, value_name = "PATH")]
    pub scope: Vec<String>,
    /// The file that an agent definition is bound to, relative to the workspace
    #[arg(long, value_name = "PATH", requires = "role")]
    pub target: Option<String>,
    #[command(flatten)]
    pub holding: Holding,
    /// Stop each call after so many milliseconds
    #[arg(long, value_name = "N")]
    pub call_ms: Option<u32>,
    /// Give each call at most so many MiB of memory
    #[arg(long, value_name = "N")]
    pub memory_mb: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Call {
    #[command(flatten)]
    pub printed: Printed,
    /// The tool: `plugin.tool`, or its short name where only one tool has it
    pub tool: String,
    /// The arguments as a JSON object; `-`: standard input
    #[arg(default_value = "{}")]
    pub args: String,
    /// The role that the call is made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

#[derive(Debug, Args)]
pub struct Script {
    #[command(flatten)]
    pub printed: Printed,
    /// The script; `-`: standard input
    #[arg(value_name = "FILE.py")]
    pub file: PathBuf,
    /// Give the script a variable: JSON, or else a text (may be repeated)
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub input: Vec<String>,
    /// Only check how it calls tools; nothing is run
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// The role that its calls are made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

#[derive(Debug, Args)]
pub struct Validate {
    #[command(flatten)]
    pub printed: Printed,
    /// The envelope; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The role that the calls would be made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Take exactly one JSON document, with nothing around it
    #[arg(long)]
    pub strict: bool,
}
