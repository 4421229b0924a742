//! Generates documents from the definitions in the code: schemas, completions, manual pages, and
//! the references of the command line, of codes and of system calls.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use super::args::{Cli, Completions, Document, Man, Schema};
use super::output::Output;
use super::{CliError, exit};
use cofferdam_core::contract::ContractFile;
use cofferdam_core::definition::Definition;
use cofferdam_core::policy::{RoleSettings, Settings};
use cofferdam_engine::journal::Entry;
use cofferdam_engine::pipeline::designer::DesignerOutput;
use cofferdam_engine::pipeline::qa::QaOutput;
use cofferdam_engine::pipeline::round::Round;
use cofferdam_engine::pipeline::work_order::WorkOrder;
use cofferdam_plugin::manifest::Manifest;

pub fn schema(args: &Schema, output: &Output) -> Result<u8, CliError> {
    output.json(&document(args.document)?)?;
    Ok(exit::OK)
}

fn document(document: Document) -> Result<Value, CliError> {
    let written = match document {
        Document::EnvelopeActions => include_str!("../../../schemas/envelope.actions.json"),
        Document::EnvelopeTool => include_str!("../../../schemas/envelope.tool.json"),
        Document::ResultsActions => include_str!("../../../schemas/results.actions.json"),
        Document::ResultsTool => include_str!("../../../schemas/results.tool.json"),
        Document::Refusal => include_str!("../../../schemas/refusal.json"),
        Document::Manifest => return Ok(identified::<Manifest<Value>>("manifest")),
        Document::Plugin => return Ok(identified::<Manifest<PathBuf>>("plugin")),
        Document::Settings => return Ok(identified::<Settings>("settings")),
        Document::Agent => return Ok(identified::<Definition>("agent")),
        Document::Role => return Ok(identified::<RoleSettings>("role")),
        Document::Contract => return Ok(identified::<ContractFile>("contract")),
        Document::Journal => return Ok(identified::<Entry>("journal")),
        Document::PipelineWorkOrder => return Ok(identified::<WorkOrder>("pipeline.work-order")),
        Document::PipelineDesigner => return Ok(identified::<DesignerOutput>("pipeline.designer")),
        Document::PipelineQa => return Ok(identified::<QaOutput>("pipeline.qa")),
        Document::PipelineResult => return Ok(identified::<Round>("pipeline.result")),
    };
    serde_json::from_str(written).map_err(CliError::host)
}

/// The schema of a type, with the id of the document that it describes: the name of its file in
/// `schemas/`, and the version of the format.
fn identified<T: JsonSchema>(name: &str) -> Value {
    let mut schema = schema_for!(T);
    schema.insert("$id".to_owned(), format!("urn:cofferdam:schema:{name}:1").into());
    schema.to_value()
}

pub fn completions(args: &Completions, output: &Output) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cofferdam", &mut script);
    output.verbatim(&script)?;
    Ok(exit::OK)
}

pub fn man(args: &Man, output: &Output) -> Result<u8, CliError> {
    fs::create_dir_all(&args.folder)?;
    clap_mangen::generate_to(Cli::command(), &args.folder)?;
    output.document(&serde_json::json!({ "written_to": args.folder }))?;
    Ok(exit::OK)
}

pub fn reference(output: &Output) -> Result<u8, CliError> {
    let mut text = String::from(
        "# The command line\n\nGenerated from the code by `cargo xtask gen`. Results go to standard output as one\nJSON document, everything else to standard error.\n",
    );
    let mut root = Cli::command().term_width(100);
    root.build();
    describe(&mut text, &mut root, 2);
    output.verbatim(text.as_bytes())?;
    Ok(exit::OK)
}

pub fn outcomes(output: &Output) -> Result<u8, CliError> {
    output.verbatim(cofferdam_core::reference::outcomes().as_bytes())?;
    Ok(exit::OK)
}

pub fn system_calls(output: &Output) -> Result<u8, CliError> {
    output.verbatim(cofferdam_sandbox::system_calls().as_bytes())?;
    Ok(exit::OK)
}

fn describe(text: &mut String, command: &mut Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or("cofferdam").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(text, "\n{} {name}\n\n```text\n{}\n```", "#".repeat(depth), help.join("\n"));
    for sub in command.get_subcommands_mut() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            describe(text, sub, depth + 1);
        }
    }
}
