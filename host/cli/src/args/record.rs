//! What is on record: `log`, `stats`, `report`, and `undo`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Printed, Shown};

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    pub printed: Printed,
    /// At most so many, the latest ones
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: usize,
    /// Only calls of this tool (qualified name)
    #[arg(long)]
    pub tool: Option<String>,
    /// Only calls that did not succeed
    #[arg(long)]
    pub failed: bool,
    /// Only commits
    #[arg(long, conflicts_with_all = ["tool", "failed"])]
    pub commits: bool,
    /// Print what this commit changed, as a unified diff; the beginning of its id will do. With
    /// `A..B`, what changed from before A to after B, and with `A..`, up to the latest one
    #[arg(long, value_name = "ID", conflicts_with_all = ["tool", "failed", "commits"])]
    pub diff: Option<String>,
    /// Print what a program of this call printed, where that was much; the beginning of the name
    /// that the call's line shows will do
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["tool", "failed", "commits", "diff"]
    )]
    pub output: Option<String>,
    /// Which of its streams
    #[arg(long, requires = "output")]
    pub stream: Option<Stream>,
    /// From this byte on, counted from 0
    #[arg(long, value_name = "BYTE", requires = "output")]
    pub offset: Option<u64>,
    /// At most so many bytes
    #[arg(long, value_name = "BYTES", requires = "output")]
    pub length: Option<u64>,
}

/// One of a program's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl Stream {
    /// The value on the command line and in file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub shown: Shown,
    /// Read this log instead of the journal (may be repeated, the oldest first); `-`: standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub log_file: Vec<PathBuf>,
    /// Only what happened since: a time (2026-02-08T10:30:00Z), a day (2026-02-08, UTC), or how
    /// long ago (24h, 7 days)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only calls of this tool: its qualified name, or the name behind the dot
    #[arg(long)]
    pub tool: Option<String>,
    /// End with 1 where there is an alert
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    #[command(subcommand)]
    pub command: ReportCommand,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// Sum up the reports that agents saved with save_agent_report, by phase and wave
    ///
    /// Shows how much each agent found, how long a wave took (its agents work side by side), whose
    /// report is missing, what contradicts itself, and all findings, the worst first. An agent's
    /// last report counts.
    #[command(after_help = "\
Examples:
  cofferdam report summary --format text
  cofferdam report summary --phase 3 --wave 1
  cofferdam report summary --format html --output summary.html")]
    Summary {
        #[command(flatten)]
        shown: Shown,
        /// Only this phase
        #[arg(long, value_name = "N")]
        phase: Option<f64>,
        /// Only this wave
        #[arg(long, value_enum)]
        wave: Option<WaveName>,
    },
}

/// A wave of verification agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaveName {
    /// best-practices-enforcer, security-auditor, hallucination-detector
    #[value(name = "1", alias = "Wave1", alias = "wave1", alias = "wave-1")]
    First,
    /// code-reviewer, test-generator
    #[value(name = "2", alias = "Wave2", alias = "wave2", alias = "wave-2")]
    Second,
}

#[derive(Debug, Args)]
pub struct Undo {
    #[command(flatten)]
    pub printed: Printed,
    /// The commit, or the beginning of its id; the latest one where none is named
    #[arg(value_name = "ID")]
    pub commit: Option<String>,
}
