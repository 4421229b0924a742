//! Arguments of `pipeline`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Holding;

/// How a round of the pipeline is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoundFormat {
    /// One JSON document
    Json,
    /// For people
    Text,
    /// A document
    Markdown,
}

#[derive(Debug, Args)]
pub struct Pipeline {
    /// The work order; `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub work_order: PathBuf,
    #[command(flatten)]
    pub designer: DesignerSource,
    #[command(flatten)]
    pub qa: QaSource,
    /// End an agent that has not answered after so many seconds (default: what its settings say,
    /// or 600)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub agent_timeout_s: Option<u32>,
    /// Take exactly one JSON document from each, with nothing around it
    #[arg(long)]
    pub strict: bool,
    /// The step is the last one of its phase: the work order's phase_boundary_lint has to pass, too
    #[arg(long)]
    pub phase_boundary: bool,
    /// If the round fails, commit what was done by then, to be looked at
    #[arg(long, conflicts_with = "dry_run")]
    pub keep: bool,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub holding: Holding,
    /// Stop each call after so many milliseconds
    #[arg(long, value_name = "N")]
    pub call_ms: Option<u32>,
    /// Write the record of the round there as well, as JSON
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = RoundFormat::Json)]
    pub format: RoundFormat,
}

/// Where the Designer's output comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct DesignerSource {
    /// The Designer's output; `-`: standard input
    #[arg(long, value_name = "FILE")]
    designer: Option<PathBuf>,
    /// Ask this program: the prompt on its standard input, the answer on its standard output
    #[arg(long, value_name = "COMMAND")]
    designer_cmd: Option<String>,
    /// Ask this agent of the settings ([agents.NAME])
    #[arg(long, value_name = "NAME")]
    designer_agent: Option<String>,
}

/// Where QA's output comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct QaSource {
    /// QA's output; `-`: standard input
    #[arg(long, value_name = "FILE")]
    qa: Option<PathBuf>,
    /// Ask this program: the prompt on its standard input, the answer on its standard output
    #[arg(long, value_name = "COMMAND")]
    qa_cmd: Option<String>,
    /// Ask this agent of the settings ([agents.NAME])
    #[arg(long, value_name = "NAME")]
    qa_agent: Option<String>,
}

/// Where a document comes from: one of the three.
#[derive(Debug, Clone, Copy)]
pub struct DocumentSource<'a> {
    /// What the options begin with.
    pub option: &'static str,
    pub file: Option<&'a Path>,
    pub command: Option<&'a str>,
    pub agent: Option<&'a str>,
}

impl DesignerSource {
    pub fn document(&self) -> DocumentSource<'_> {
        let Self { designer, designer_cmd, designer_agent } = self;
        DocumentSource {
            option: "designer",
            file: designer.as_deref(),
            command: designer_cmd.as_deref(),
            agent: designer_agent.as_deref(),
        }
    }
}

impl QaSource {
    pub fn document(&self) -> DocumentSource<'_> {
        let Self { qa, qa_cmd, qa_agent } = self;
        DocumentSource {
            option: "qa",
            file: qa.as_deref(),
            command: qa_cmd.as_deref(),
            agent: qa_agent.as_deref(),
        }
    }
}
