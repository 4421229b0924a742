//! Runs a command in a shell and describes its end.

use std::time::Duration;

use cofferdam_sdk::answer::text_bytes;
use cofferdam_sdk::process::{self, Captured, Changes, Command, End, Error};
use cofferdam_sdk::{Context, ToolError, WorkspacePath, shorten, shorten_captured};

/// The shells that may be granted, in order of preference.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// The maximum length of a command, in bytes: Linux' limit of one argument (`MAX_ARG_STRLEN`)
/// without the terminating zero.
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// The maximum size of a stream in a result, as JSON, in bytes; the middle of longer output is cut out.
/// The host keeps all of it.
const MAX_STREAM_BYTES: usize = 14 << 10;

/// The end and the output of a command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) end: End,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Whether the middle of a stream was cut out.
    pub(crate) truncated: bool,
    pub(crate) duration_ms: u32,
}

/// Runs a command until it exits, or `timeout_ms` or the deadline of the call is reached.
///
/// # Errors
/// `InvalidCommand` for a command that can't be passed to a program; those of running programs.
pub(crate) fn run(
    command: &str,
    directory: &WorkspacePath,
    timeout_ms: Option<u32>,
    keep_files: &[String],
    context: &Context,
) -> Result<Run, ToolError> {
    if command.contains('\0') {
        let message = "the command holds a NUL character, which no program can be given";
        return Err(ToolError::invalid_args("InvalidCommand", message));
    }
    if command.len() > MAX_COMMAND_BYTES {
        let message = format!(
            "the command is {} bytes long; at most {MAX_COMMAND_BYTES} are possible: write a script to a \
             file and run that",
            command.len()
        );
        return Err(ToolError::invalid_args("InvalidCommand", message));
    }
    // The `--` prevents a command that starts with `-` from being an option of the shell.
    let run = |shell| {
        let command = Command {
            directory: directory.as_str().to_owned(),
            timeout_ms: context.timeout_ms(timeout_ms, Duration::ZERO),
            changes: Changes::Keep,
            ..process::command(shell, &["-c", "--", command])
        };
        process::run(&command, context)
    };
    if !keep_files.is_empty() {
        process::keep_files(keep_files)?;
    }
    let [preferred, other] = SHELLS;
    let output = match run(preferred) {
        // The operator grants one of the two; the first error names the usual one.
        Err(error @ (Error::Denied(_) | Error::NotFound(_))) => run(other).map_err(|_| error),
        output => output,
    }?;
    let ((stdout, short_out), (stderr, short_err)) =
        (shortened(&output.stdout), shortened(&output.stderr));
    Ok(Run {
        stdout,
        stderr,
        truncated: short_out || short_err,
        end: output.end,
        duration_ms: output.duration_ms,
    })
}

/// Returns a stream in the maximum size, and whether something is missing.
fn shortened(captured: &Captured) -> (String, bool) {
    let text = String::from_utf8_lossy(&captured.bytes);
    // As many bytes as have the maximum size, if all of the text is escaped alike.
    let most = MAX_STREAM_BYTES as u64 * text.len() as u64 / text_bytes(&text).max(1) as u64;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let short = shorten_captured(&text, most, captured.total);
    let is_short = short.len() != text.len();
    (short.into_owned(), is_short)
}

impl Run {
    /// The exit code as a shell reports it: 128 plus the signal's number for a killed program;
    /// `None` for one that was stopped.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        match self.end {
            End::Exited(code) => Some(code),
            End::Signalled(signal) => Some(128 + signal),
            End::TimedOut | End::Limit(_) => None,
        }
    }

    /// The error of a command; `None` if it succeeded. With 126 and 127, a shell reports that it
    /// could not run a program.
    pub(crate) fn problem(&self) -> Option<ToolError> {
        let last_words = self
            .stderr
            .trim_end()
            .lines()
            .next_back()
            .map_or_else(String::new, |l| format!(": {}", shorten(l, 500)));
        Some(match &self.end {
            End::Exited(0) => return None,
            End::Exited(126) => ToolError::denied(
                "PermissionDenied",
                format!("a command may not be run (exit code 126){last_words}"),
            ),
            End::Exited(127) => ToolError::not_found(
                "CommandNotFoundError",
                format!("a command was not found (exit code 127){last_words}"),
            ),
            End::Exited(code) => ToolError::failed(
                "ExitCode",
                format!("the command ended with exit code {code}{last_words}"),
            ),
            End::Signalled(signal) => ToolError::failed(
                "ExitCode",
                format!("the command was ended by signal {signal}{last_words}"),
            ),
            End::TimedOut => ToolError::limit(
                "TimeoutError",
                format!("the command was stopped after {} ms", self.duration_ms),
            ),
            End::Limit(limit) => ToolError::limit(
                limit,
                format!("the command was stopped at a limit: {limit}{last_words}"),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_exit_has_a_message() {
        let run = |end: End| Run {
            end,
            stdout: String::new(),
            stderr: "first\nlast\n".to_owned(),
            truncated: false,
            duration_ms: 1234,
        };
        for (end, exit_code, code, message) in [
            (End::Exited(2), Some(2), "ExitCode", "the command ended with exit code 2: last"),
            (
                End::Exited(126),
                Some(126),
                "PermissionDenied",
                "a command may not be run (exit code 126): last",
            ),
            (
                End::Exited(127),
                Some(127),
                "CommandNotFoundError",
                "a command was not found (exit code 127): last",
            ),
            (End::Signalled(9), Some(137), "ExitCode", "the command was ended by signal 9: last"),
            (End::TimedOut, None, "TimeoutError", "the command was stopped after 1234 ms"),
            (
                End::Limit("MemoryLimit".to_owned()),
                None,
                "MemoryLimit",
                "the command was stopped at a limit: MemoryLimit: last",
            ),
        ] {
            let run = run(end);
            let problem = run.problem().map(|error| (error.code, error.message));
            assert_eq!(problem, Some((code.to_owned(), message.to_owned())));
            assert_eq!(run.exit_code(), exit_code);
        }
        assert_eq!(run(End::Exited(0)).problem(), None);
    }
}
