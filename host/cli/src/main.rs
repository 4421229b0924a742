//! The command `cofferdam`. The only crate that prints, reads the environment or knows clap.
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
mod contract;
mod doctor;
mod exit;
mod generate;
mod health;
mod inbox;
mod install;
mod ledger;
mod log;
mod mcp;
mod output;
mod pipeline;
mod plugin;
mod policy;
mod renew;
mod report;
mod role;
mod run;
mod serve;
mod setup;
mod stats;
mod tokens;
mod tools;
mod undo;
mod validate;

use std::process::ExitCode;

use clap::Parser as _;

use crate::config::ConfigError;
use crate::install::InstallError;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::{OpenError, run_if_helper};
use cofferdam_plugin::distribution::FetchError;
use cofferdam_plugin::registry::RegistryError;
use cofferdam_plugin::store::StoreError;
use cofferdam_workspace::HistoryError;

use args::{Cli, Command};
use output::Output;

/// A call takes and returns memory a thousand times, a part of it on another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads the command line, does what it says, and returns the exit status.
fn main() -> ExitCode {
    // The host starts this binary anew, for native programs and for compiling.
    if let Some(status) = run_if_helper() {
        return status;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing to be done about a closed terminal.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::REFUSED } else { exit::OK });
        }
    };
    setup::logging(&cli.global);
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
        Command::Undo(args) => undo::execute(global, args, output),
        Command::Cache(args) => cache::execute(&args.command, output),
        Command::Doctor(_) => doctor::execute(global, output),
        Command::Schema(args) => generate::schema(args, output),
        Command::Completions(args) => generate::completions(args, output),
        Command::Man(args) => generate::man(args, output),
        Command::Reference => generate::reference(output),
        Command::SystemCalls => generate::system_calls(output),
    }
}

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Call(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Host(String),
}

impl CliError {
    fn status(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Usage(_) => exit::REFUSED,
            Self::Config(ConfigError::Changed { .. }) => exit::DENIED,
            Self::Config(_) => exit::REFUSED,
            Self::Call(_) => exit::ERROR,
            Self::Denied(_) => exit::DENIED,
            Self::Host(_) => exit::HOST,
        }
    }

    fn host(error: impl std::fmt::Display) -> Self {
        Self::Host(error.to_string())
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Registry(
                RegistryError::Changed { .. } | RegistryError::LockMismatch { .. },
            ) => Self::Denied(error.to_string()),
            OpenError::Workspace(_)
            | OpenError::Policy(_)
            | OpenError::Registry(_)
            | OpenError::InWorkspace(_) => Self::Usage(error.to_string()),
            OpenError::Contract(_)
            | OpenError::Runtime(_)
            | OpenError::Threads(_)
            | OpenError::NoRuntime(_) => Self::Host(error.to_string()),
        }
    }
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        let words = error.to_string();
        match error {
            InstallError::Settings(error) => Self::Config(error),
            InstallError::Lock(_)
            | InstallError::Unknown(_)
            | InstallError::Pack { .. }
            | InstallError::Fetch(FetchError::File { .. } | FetchError::TooLarge { .. }) => {
                Self::Usage(words)
            }
            InstallError::BuiltIn { .. }
            | InstallError::OtherName { .. }
            | InstallError::OtherDigest { .. }
            | InstallError::NoSignature { .. }
            | InstallError::Signature { .. }
            | InstallError::TrustChange { .. }
            | InstallError::Fetch(FetchError::Digest { .. })
            | InstallError::Store(StoreError::NotAccepted { .. } | StoreError::Gone { .. }) => {
                Self::Denied(words)
            }
            InstallError::Fetch(_) => Self::Call(words),
            InstallError::LockFile { .. } | InstallError::Store(_) => Self::Host(words),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        InstallError::from(error).into()
    }
}

impl From<HistoryError> for CliError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Unknown(_) | HistoryError::Ambiguous(_) => Self::Usage(error.to_string()),
            HistoryError::Changed(_) | HistoryError::Commit(_) | HistoryError::Io(_) => {
                Self::Host(error.to_string())
            }
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::Host(error.to_string())
    }
}
