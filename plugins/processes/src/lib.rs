//! The `processes` plugin: programs that stay for a session, such as development servers and watchers.
//! The host runs them and keeps the end of their output; the plugin asks it for pages.
//!
//! | module | is for |
//! |---|---|
//! | [`answers`] | the results of the tools |
//! | `page` | a part of the output as text |

pub mod answers;
mod page;

use cofferdam_sdk::background::{self, Error, Output, Program, State};
use cofferdam_sdk::{Context, ToolError, WorkspacePath, plugin, process};
use serde::Deserialize;

use answers::{Listed, Printed, Stopped};

/// The shells that may be granted, in order of preference.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// The default time that `start_process` waits for output, in milliseconds, from its schema.
const DEFAULT_WAIT_MS: u32 = 1000;

/// The arguments of `start_process`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartArgs {
    /// The command for the shell.
    pub command: String,
    /// The working directory; the default is the workspace.
    pub working_dir: Option<String>,
    /// The time after which it is stopped, in seconds; without it, the longest one.
    pub timeout_s: Option<u32>,
    /// How long to wait for output, in milliseconds.
    pub wait_ms: Option<u32>,
}

/// The arguments of `read_output`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The id of the program, as `start_process` returned it.
    pub process_id: String,
    /// The first byte; without it, the end of the output is returned.
    pub offset: Option<u64>,
    /// How long to wait for output from `offset` on, in milliseconds.
    #[serde(default)]
    pub wait_ms: u32,
}

/// The arguments of `stop_process`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopArgs {
    /// The id of the program, as `start_process` returned it.
    pub process_id: String,
}

/// The arguments of `list_processes`: none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArgs {}

/// The plugin: each function is a tool.
pub struct Processes;

impl Processes {
    fn start_process(args: StartArgs, context: &Context) -> Result<Printed, ToolError> {
        let directory = context.resolve(args.working_dir.as_deref().unwrap_or("."))?;
        let timeout_ms = args.timeout_s.unwrap_or(0).saturating_mul(1000);
        let program = start(&args.command, &directory, timeout_ms)?;
        let wait_ms = args.wait_ms.unwrap_or(DEFAULT_WAIT_MS);
        let printed = Printed::new(read(&program.id, 0, wait_ms)?, 0);
        Ok(printed.with_note(program.lacks))
    }

    fn read_output(args: ReadArgs, _: &Context) -> Result<Printed, ToolError> {
        let ReadArgs { process_id, offset, wait_ms } = args;
        let Some(offset) = offset else { return last(&process_id, wait_ms) };
        let output = read(&process_id, offset, wait_ms)?;
        if offset > output.offset {
            let message = format!("the program has printed only {} bytes so far", output.offset);
            return Err(ToolError::invalid_args("InvalidOffset", message));
        }
        Ok(Printed::new(output, offset))
    }

    fn stop_process(args: StopArgs, _: &Context) -> Result<Stopped, ToolError> {
        Ok(Stopped::new(&background::stop(&args.process_id)?))
    }

    fn list_processes(_: ListArgs, _: &Context) -> Result<Listed, ToolError> {
        Ok(Listed::new(&background::programs()?))
    }
}

/// Starts a command in the shell that is granted.
fn start(command: &str, directory: &WorkspacePath, timeout_ms: u32) -> Result<Program, ToolError> {
    // The `--` prevents a command that starts with `-` from being an option of the shell.
    let start = |shell| {
        background::start(&process::Command {
            directory: directory.as_str().to_owned(),
            // Otherwise Python keeps what it prints until there is much of it.
            environment: vec![("PYTHONUNBUFFERED".to_owned(), "1".to_owned())],
            timeout_ms,
            ..process::command(shell, &["-c", "--", command])
        })
    };
    let [preferred, other] = SHELLS;
    let started = match start(preferred) {
        // The operator grants one of the two; the first error names the usual one.
        Err(error @ (Error::Denied(_) | Error::NotFound(_))) => start(other).map_err(|_| error),
        started => started,
    };
    Ok(started?)
}

/// The end of the output, as much as fits into an answer.
fn last(id: &str, wait_ms: u32) -> Result<Printed, ToolError> {
    let mut output = read(id, 0, wait_ms)?;
    loop {
        let begin = output.program.written.saturating_sub(page::MAX_BYTES.into());
        if begin <= output.offset {
            break;
        }
        output = read(id, begin, 0)?;
        // What it has printed since is for the next call, unless there is no more to come.
        if matches!(output.program.state, State::Running) {
            break;
        }
    }
    let skipped = page::skipped(&output.bytes);
    output.bytes.drain(..skipped);
    output.offset += skipped as u64;
    let asked = output.offset;
    Ok(Printed::new(output, asked))
}

fn read(id: &str, offset: u64, wait_ms: u32) -> Result<Output, ToolError> {
    Ok(background::read(id, offset, page::MAX_BYTES, wait_ms)?)
}

plugin!(Processes { start_process, read_output, stop_process, list_processes });
