//! `bash`: runs a command with a timeout; returns its exit code and its two output streams
//! separately.

use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::shell;

/// The default timeout in milliseconds, from the tool schemas.
const DEFAULT_TIMEOUT_MS: u32 = 120_000;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The command for the shell.
    pub command: String,
    /// The purpose of the command, for readers of the journal.
    pub description: Option<String>,
    /// The timeout in milliseconds.
    pub timeout_ms: Option<u32>,
}

/// The result of a command that succeeded.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Always 0, since other codes are errors.
    pub exit_code: i32,
    /// The standard output of the command.
    pub stdout: String,
    /// The standard error output of the command.
    pub stderr: String,
    /// The duration in milliseconds.
    pub duration_ms: u32,
    /// Whether the middle of a stream was cut out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The failure document of a command that failed.
#[derive(Debug, Serialize)]
struct Failure {
    error: String,
    message: String,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    duration_ms: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Runs a command in a shell.
///
/// # Errors
/// As in the tool schemas: `TimeoutError`, `CommandNotFoundError`, `PermissionDenied`, and
/// `ExitCode` for "ExitCode != 0". These and other limits have the failure document. Also those of
/// running programs.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
    let run = shell::run(&args.command, &context.resolve(".")?, Some(timeout_ms), &[], context)?;
    let exit_code = run.exit_code();
    let problem = run.problem();
    let shell::Run { stdout, stderr, truncated, duration_ms, .. } = run;
    match problem {
        None => Ok(Output { exit_code: 0, stdout, stderr, duration_ms, truncated }),
        Some(error) => {
            let failure = Failure {
                error: error.code.clone(),
                message: error.message.clone(),
                exit_code,
                stdout,
                stderr,
                duration_ms,
                truncated,
            };
            Err(error.with_detail(failure))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use cofferdam_sdk::ErrorKind;

    use super::*;

    fn call(command: &str, timeout_ms: Option<u32>) -> Result<Output, ToolError> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("not-executable"), "").unwrap();
        let args = Args { command: command.to_owned(), description: None, timeout_ms };
        run(&args, &Context::for_directory(directory.path()))
    }

    #[test]
    fn streams_are_separate() {
        let answer = call("echo out; echo err >&2", None).unwrap();
        assert_eq!((answer.exit_code, answer.truncated), (0, false));
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn the_documented_failures() {
        for (command, timeout_ms, code, kind, exit_code) in [
            ("echo so far; sleep 5", Some(300), "TimeoutError", ErrorKind::Limit, None),
            ("no-such-program-here", None, "CommandNotFoundError", ErrorKind::NotFound, Some(127)),
            ("echo so far; exit 3", None, "ExitCode", ErrorKind::Failed, Some(3)),
            ("./not-executable", None, "PermissionDenied", ErrorKind::Denied, Some(126)),
            ("if", None, "ExitCode", ErrorKind::Failed, Some(2)),
        ] {
            let error = call(command, timeout_ms).unwrap_err();
            assert_eq!((error.code.as_str(), error.kind), (code, kind), "{error}");
            let detail = error.detail.unwrap();
            assert_eq!(detail["error"], code);
            assert_eq!(detail["exit_code"].as_i64(), exit_code);
            if command.starts_with("echo") {
                assert_eq!(detail["stdout"], "so far\n");
            }
        }
    }
}
