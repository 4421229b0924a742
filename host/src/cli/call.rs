//! `cofferdam call`

use std::path::Path;

use super::args::{Call, Global};
use super::output::Output;
use super::run::limits;
use super::{CliError, exit, setup};
use crate::envelope;
use crate::host::RunOptions;

pub fn execute(global: &Global, args: &Call, output: &Output) -> Result<u8, CliError> {
    let text =
        if args.args == "-" { setup::read_input(Path::new("-"))? } else { args.args.clone() };
    let (host, timers) = setup::host(global, Some(1))?;
    let options = RunOptions {
        role: args.role.clone(),
        limits: limits(&args.limits),
        cancel: Some(setup::interruption(&timers)?),
        ..RunOptions::default()
    };
    let answer = timers.block_on(host.call(&args.tool, &text, &options))?;
    let role = host.role(args.role.as_deref())?;
    let (dialect, has_failure) = host
        .registry()
        .resolve(&args.tool, role)
        .map(|entry| (entry.tool().dialect, entry.tool().failure.is_some()))
        .unwrap_or_default();
    output.document(&envelope::single(dialect, has_failure, &answer))?;
    Ok(exit::of(std::iter::once(&answer.outcome)))
}
