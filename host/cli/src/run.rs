//! `cofferdam run`: runs an envelope of calls and prints its results.

use super::args::{Format, Global, Holding, Narrowed, Run};
use super::output::Output;
use super::setup::RoleUse;
use super::{CliError, exit, setup};
use cofferdam_core::envelope::{Answer, Mode};
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_core::policy::LimitSettings;
use cofferdam_engine::call::Session;
use cofferdam_engine::host::{self, Host, RunOptions};

pub fn execute(global: &Global, args: &Run, output: &Output) -> Result<u8, CliError> {
    let text = setup::read_input(&args.file)?;
    let target = args.narrowed.target.as_deref();
    let (host, runtime, role) =
        setup::host_under(global, None, args.role.as_deref(), RoleUse::Calling { target })?;
    let options = RunOptions {
        role,
        fail_fast: args.fail_fast,
        atomic: args.atomic,
        dry_run: args.dry_run,
        hold: args.narrowed.holding.hold,
        session: session(&args.narrowed.holding),
        limits: limits(&args.narrowed),
        scope: args.narrowed.scope.clone(),
        cancel: Some(setup::interruption(&runtime)?),
        ..setup::run_options()
    };
    let run = runtime.block_on(host.run(&text, mode(args.strict), &options));
    let ended = run.map_err(CliError::from).and_then(|run| show(&host, &run, output));
    setup::shut_down(&host, &runtime);
    ended
}

fn show(host: &Host, run: &host::Run, output: &Output) -> Result<u8, CliError> {
    for figures in host.stats().tools {
        let outcomes = figures.outcomes.iter();
        let outcomes: Vec<String> =
            outcomes.map(|(status, count)| format!("{count} {}", status.as_str())).collect();
        tracing::info!(
            "{}: {}, p50 {} ms, p99 {} ms",
            figures.name,
            outcomes.join(", "),
            figures.latency_ms.p50,
            figures.latency_ms.p99
        );
    }
    match &run.effects.diff {
        Some(diff) if output.format() == Format::Text => print_diff(diff, &run.answers, output)?,
        _ => output.document(&run.document())?,
    }
    output.kept_outputs(&run.effects.outputs);
    Ok(exit::of(run.answers.iter().map(|answer| &answer.outcome)))
}

/// Prints the changes that a dry run would make, and its failures.
pub fn print_diff(diff: &[u8], answers: &[Answer], output: &Output) -> Result<(), CliError> {
    for answer in answers {
        if let Outcome::Failed(Failure { code, message, .. }) = &answer.outcome {
            tracing::warn!("{} fails: {code}: {message}", answer.tool);
        }
    }
    output.raw(diff)
}

/// The session from the options.
pub fn session(args: &Holding) -> Session {
    match &args.session {
        Some(name) => Session::default().named(name.clone()),
        None => Session::default(),
    }
}

/// The limits from the options.
pub fn limits(args: &Narrowed) -> LimitSettings {
    LimitSettings { call_ms: args.call_ms, memory_mb: args.memory_mb, ..LimitSettings::default() }
}

pub fn mode(strict: bool) -> Mode {
    if strict { Mode::Strict } else { Mode::Lenient }
}
