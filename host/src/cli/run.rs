//! `cofferdam run`

use super::args::{Global, Run};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::envelope::Mode;
use crate::host::RunOptions;

pub fn execute(global: &Global, args: &Run, output: &Output) -> Result<u8, CliError> {
    let text = setup::read_input(&args.file)?;
    let (host, timers) = setup::host(global)?;
    let options = RunOptions {
        role: args.role.clone(),
        fail_fast: args.fail_fast,
        cancel: Some(setup::interruption(&timers)?),
    };
    let run = timers.block_on(host.run(&text, mode(args.strict), &options))?;
    output.document(&run.document())?;
    Ok(exit::of(run.answers.iter().map(|answer| &answer.outcome)))
}

pub fn mode(strict: bool) -> Mode {
    if strict { Mode::Strict } else { Mode::Lenient }
}
