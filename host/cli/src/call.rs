//! `cofferdam call`: makes one call and prints the tool's answer.

use std::path::Path;

use serde_json::json;

use super::args::{Call, Format, Global};
use super::output::Output;
use super::run::{limits, print_diff, session};
use super::setup::RoleUse;
use super::{CliError, exit, setup};
use cofferdam_core::envelope::{self, Answer};
use cofferdam_engine::host::{Config, Effects, Host, RunOptions};

pub fn execute(global: &Global, args: &Call, output: &Output) -> Result<u8, CliError> {
    make(global, args, false, output)
}

/// Makes a call, which may be that of a script, and prints the answer.
pub fn make(
    global: &Global,
    args: &Call,
    is_script: bool,
    output: &Output,
) -> Result<u8, CliError> {
    let text =
        if args.args == "-" { setup::read_input(Path::new("-"))? } else { args.args.clone() };
    let target = args.narrowed.target.as_deref();
    let usage = RoleUse::Calling { target };
    let (config, role) = setup::config_under(global, Some(1), args.role.as_deref(), usage)?;
    // The user runs scripts under any role.
    let config = Config { scripts: is_script.then(Vec::new), ..config };
    let (host, runtime) = setup::open(config, setup::current_thread_runtime()?)?;
    let options = RunOptions {
        role,
        dry_run: args.dry_run,
        limits: limits(&args.narrowed),
        scope: args.narrowed.scope.clone(),
        cancel: Some(setup::interruption(&runtime)?),
        hold: args.narrowed.holding.hold,
        session: session(&args.narrowed.holding),
        ..setup::run_options()
    };
    let ended = runtime.block_on(host.call(&args.tool, &text, &options));
    let role = options.role.as_deref();
    let shown =
        ended.map_err(CliError::from).and_then(|ended| show(&host, args, role, ended, output));
    setup::shut_down(&host, &runtime);
    shown
}

fn show(
    host: &Host,
    args: &Call,
    role: Option<&str>,
    ended: (Answer, Effects),
    output: &Output,
) -> Result<u8, CliError> {
    let (answer, Effects { diff, outputs }) = ended;
    let role = host.role(role)?;
    let (dialect, has_failure) = host
        .registry()
        .resolve(&args.tool, role)
        .map(|entry| (entry.tool().dialect, entry.tool().failure.is_some()))
        .unwrap_or_default();
    let answer = envelope::in_dialect(dialect, answer);
    let document = envelope::single(dialect, has_failure, &answer);
    match diff {
        None => output.document(&document)?,
        Some(diff) if output.format() == Format::Text => {
            print_diff(&diff, std::slice::from_ref(&answer), output)?;
        }
        Some(diff) => {
            let diff = String::from_utf8_lossy(&diff);
            output.json(&json!({ "answer": document, "diff": diff }))?;
        }
    }
    output.kept_outputs(&outputs);
    output.warnings(&answer.warnings);
    Ok(exit::of(std::iter::once(&answer.outcome)))
}
