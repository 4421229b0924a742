//! What the command says of itself: `schema`, `completions`, `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Schema {
    /// Which document
    #[arg(value_enum)]
    pub document: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// An envelope of the dialect `actions`
    EnvelopeActions,
    /// An envelope of the dialect `tool`
    EnvelopeTool,
    /// The results of an envelope of the dialect `actions`
    ResultsActions,
    /// The results of an envelope of the dialect `tool`
    ResultsTool,
    /// What is printed for an envelope that was refused
    Refusal,
    /// The manifest inside of a packed component
    Manifest,
    /// `plugin.toml`, as a plugin's author writes it
    Plugin,
    /// `cofferdam.toml`
    Settings,
    /// A role in `cofferdam.toml`
    Role,
    /// An agent definition
    Agent,
    /// The file of an output contract
    Contract,
    /// A line of the journal
    Journal,
    /// A work order of a pipeline
    PipelineWorkOrder,
    /// A Designer's output
    PipelineDesigner,
    /// QA's output
    PipelineQa,
    /// What is printed and recorded for a round of a pipeline
    PipelineResult,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The folder that the pages go to
    pub folder: PathBuf,
}
