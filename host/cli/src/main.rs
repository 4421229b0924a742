//! The command `cofferdam`. No other crate prints, reads the host's environment or uses clap.
#![expect(
    clippy::disallowed_methods,
    reason = "files and environment are what a command line is about"
)]

mod args;
mod ask;
mod backend;
mod beads;
mod cache;
mod call;
mod config;
mod console;
mod contract;
mod doctor;
mod error;
mod exit;
mod fleet;
mod generate;
mod health;
mod inbox;
mod install;
mod ledger;
mod listing;
mod log;
mod mcp;
mod output;
mod pipeline;
mod plugin;
mod policy;
mod renew;
mod report;
mod review;
mod role;
mod root;
mod run;
mod script;
mod serve;
mod setup;
mod stats;
mod submit;
mod tokens;
mod tools;
mod undo;
mod validate;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;

use cofferdam_engine::host::run_if_helper;

use args::{Cli, Command};
use error::CliError;
use output::Output;

/// mimalloc, because each call allocates and frees about a thousand times, partly on another
/// thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Parses the command line, runs the command and returns the exit status.
fn main() -> ExitCode {
    // The host starts this binary again as a helper process, for native programs and for compiling.
    if let Some(status) = run_if_helper() {
        return status;
    }
    let mut cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If the terminal is closed, the message is lost.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::REFUSED } else { exit::OK });
        }
    };
    setup::logging(&cli.global);
    if cli.global.workspace.is_none() && cli.command.has_workspace() {
        cli.global.root = root::find();
        if let Some(root) = &cli.global.root {
            tracing::warn!("the workspace is {}; paths are relative to it", root.display());
        }
    }
    let output = Output::new(cli.command.format());
    let status = match execute(&cli, &output) {
        Ok(status) => status,
        Err(error) => {
            output.error(&error);
            error.status()
        }
    };
    ExitCode::from(status)
}

fn execute(cli: &Cli, output: &Output) -> Result<u8, CliError> {
    let global = &cli.global;
    match &cli.command {
        Command::Run(args) => run::execute(global, args, output),
        Command::Call(args) => call::execute(global, args, output),
        Command::Script(args) => script::execute(global, args, output),
        Command::Serve(args) => serve::execute(global, args),
        Command::Mcp { command } => mcp::execute(global, command, output),
        Command::Validate(args) => validate::execute(global, args, output),
        Command::Pipeline(args) => pipeline::execute(global, args, output),
        Command::Tools(args) => tools::execute(global, args, output),
        Command::Backend(args) => backend::execute(global, &args.command, output),
        Command::Beads(args) => beads::execute(global, &args.command, output),
        Command::Inbox(args) => inbox::execute(global, args, output),
        Command::Plugin(args) => plugin::execute(global, &args.command, output),
        Command::Role(args) => role::execute(global, &args.command, output),
        Command::Contract(args) => contract::execute(args, output),
        Command::Policy(args) => policy::execute(global, &args.command, output),
        Command::Log(args) => log::execute(global, args, output),
        Command::Stats(args) => stats::execute(global, args, output),
        Command::Health(_) => health::execute(global, output),
        Command::Report(args) => report::execute(global, &args.command, output),
        Command::Review(args) => review::execute(global, args, output),
        Command::Console(args) => console::execute(global, args, output),
        Command::Undo(args) => undo::execute(global, args, output),
        Command::Submit(args) => submit::execute(args, output),
        Command::Workspace(args) => workspace::execute(global, &args.command, output),
        Command::Cache(args) => cache::execute(&args.command, output),
        Command::Doctor(_) => doctor::execute(global, output),
        Command::Schema(args) => generate::schema(args, output),
        Command::Completions(args) => generate::completions(args, output),
        Command::Man(args) => generate::man(args, output),
        Command::Reference => generate::reference(output),
        Command::Outcomes => generate::outcomes(output),
        Command::SystemCalls => generate::system_calls(output),
        Command::CountTokens => tokens::execute(output),
    }
}
