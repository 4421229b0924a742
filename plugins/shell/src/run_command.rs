//! `run_command`: runs a command; returns its exit code and output.

use std::fs;

use cofferdam_sdk::process::End;
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::shell::{self, Run};

/// The message of the actions reference for an exit code other than 0.
const ERROR: &str = "command execution failed";

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The command for the shell.
    pub command: String,
    /// The working directory; the default is the workspace.
    pub working_dir: Option<String>,
    /// Files and directories that stay although the command fails. Where any are named, an exit code
    /// other than 0 is not an error, since the changes of a call that failed are discarded.
    #[serde(default)]
    pub keep_files: Vec<String>,
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The id of the call in the journal.
    pub command_id: String,
    /// 0, unless files were named to keep: other codes are errors.
    pub exit_code: i32,
    /// The output of the command: standard output, then standard error.
    pub output: String,
    /// Whether the middle of the output was cut out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The failure document of a command that failed.
#[derive(Debug, Serialize)]
struct Failure {
    error: &'static str,
    reason: String,
    command_id: String,
    exit_code: Option<i32>,
    output: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Runs a command in a shell.
///
/// # Errors
/// `CommandExecutionFailed` for an exit code other than 0, `TimeoutError` and other limits, each
/// with the failure document; `FileNotFoundError` and `NotADirectoryError` for the working
/// directory; those of running programs.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let directory = directory(args.working_dir.as_deref().unwrap_or("."), context)?;
    let files = args.keep_files.iter().map(|file| Ok(context.resolve(file)?.as_str().to_owned()));
    let files = files.collect::<Result<Vec<_>, ToolError>>()?;
    let run = shell::run(&args.command, &directory, None, &files, context)?;
    let (exit_code, truncated) = (run.exit_code(), run.truncated);
    let command_id = context.call_id.clone();
    if let End::Exited(exit_code) = run.end
        && !files.is_empty()
    {
        return Ok(Output { command_id, exit_code, output: both(run), truncated });
    }
    match run.problem() {
        None => Ok(Output { command_id, exit_code: 0, output: both(run), truncated }),
        Some(mut error) => {
            if exit_code.is_some() {
                "CommandExecutionFailed".clone_into(&mut error.code);
            }
            let reason = error.message;
            error.message = format!("{ERROR}: {reason}");
            let output = both(run);
            Err(error.with_detail(Failure {
                error: ERROR,
                reason,
                command_id,
                exit_code,
                output,
                truncated,
            }))
        }
    }
}

fn directory(path: &str, context: &Context) -> Result<WorkspacePath, ToolError> {
    let directory = context.resolve(path)?;
    let metadata = fs::metadata(context.local(&directory))
        .map_err(|error| ToolError::io(&directory.to_string(), &error))?;
    if metadata.is_dir() {
        Ok(directory)
    } else {
        let message = format!("working_dir is no directory: {directory}");
        Err(ToolError::invalid_args("NotADirectoryError", message))
    }
}

/// Standard output, then standard error, each beginning on a new line.
fn both(run: Run) -> String {
    let mut output = run.stdout;
    if !output.is_empty() && !output.ends_with('\n') && !run.stderr.is_empty() {
        output.push('\n');
    }
    output.push_str(&run.stderr);
    output
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn call(command: &str, working_dir: Option<&str>) -> Result<Output, ToolError> {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("frontend")).unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let args = Args {
            command: command.to_owned(),
            working_dir: working_dir.map(str::to_owned),
            keep_files: Vec::new(),
        };
        run(&args, &Context::for_directory(directory.path()))
    }

    #[test]
    fn commands_are_run_by_a_shell() {
        for (command, working_dir, wanted) in [
            ("echo out; echo err >&2", None, "out\nerr\n"),
            ("printf out; echo err >&2", None, "out\nerr\n"),
            ("printf 'a b' | tr ' ' '\\n' && echo \"$((1 + 1))\"", None, "a\nb2\n"),
            ("basename \"$PWD\"", Some("frontend"), "frontend\n"),
            ("ls", None, "file\nfrontend\n"),
            ("ls", Some("frontend/.."), "file\nfrontend\n"),
            ("-x 2>/dev/null || echo option", None, "option\n"),
            ("cat", None, ""),
        ] {
            let answer = call(command, working_dir).unwrap();
            assert_eq!((answer.exit_code, answer.truncated), (0, false));
            assert_eq!(answer.output, wanted, "{command}");
        }
    }

    #[test]
    fn failures_have_all_details() {
        for (command, exit_code, output) in [
            ("echo out; echo err >&2; exit 3", 3, "out\nerr\n"),
            ("false", 1, ""),
            ("kill -9 $$", 137, ""),
        ] {
            let error = call(command, None).unwrap_err();
            assert_eq!(error.code, "CommandExecutionFailed");
            assert!(error.message.starts_with("command execution failed: "), "{error}");
            let detail = error.detail.unwrap();
            assert_eq!(detail["exit_code"], exit_code);
            assert_eq!(detail["output"], output);
            assert_eq!(detail["error"], "command execution failed");
            assert_eq!(detail["command_id"], "test");
        }
        let detail = call("no-such-program-here", None).unwrap_err().detail.unwrap();
        assert_eq!(detail["exit_code"], 127);
        assert!(detail["output"].as_str().unwrap().contains("not found"));
    }

    #[test]
    fn a_failure_is_an_answer_if_files_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let call = |command: &str, keep: &str| {
            let (command, keep_files) = (command.to_owned(), vec![keep.to_owned()]);
            run(&Args { command, working_dir: None, keep_files }, &context)
        };
        let answer = call("echo out; exit 3", "report.xml").unwrap();
        assert_eq!((answer.exit_code, answer.output.as_str()), (3, "out\n"));
        assert_eq!(call("true", "report.xml").unwrap().exit_code, 0);
        assert_eq!(call("kill -9 $$", "report.xml").unwrap_err().code, "CommandExecutionFailed");
        assert_eq!(call("true", "../report.xml").unwrap_err().code, "PathNotAllowed");
    }

    #[test]
    fn invalid_commands_are_refused() {
        for (command, working_dir, code) in [
            ("true", Some("none"), "FileNotFoundError"),
            ("true", Some("file"), "NotADirectoryError"),
            ("true", Some("../x"), "PathNotAllowed"),
            ("true", Some("/etc"), "PathNotAllowed"),
            ("true", Some(""), "InvalidPath"),
            ("echo \0", None, "InvalidCommand"),
            (&"x".repeat(200_000), None, "InvalidCommand"),
        ] {
            let error = call(command, working_dir).unwrap_err();
            assert_eq!(error.code, code, "{working_dir:?}: {error}");
            assert_eq!(error.detail, None);
        }
    }

    #[test]
    fn long_output_loses_its_middle() {
        let answer = call("seq 2000", None).unwrap();
        assert!(!answer.truncated && answer.output.lines().count() == 2000);
        let answer = call("seq 1000000", None).unwrap();
        assert!(answer.truncated && answer.output.len() < 15_000);
        assert!(answer.output.starts_with("1\n2\n") && answer.output.ends_with("\n1000000\n"));
        // 1 to 1000000 has 6,888,896 bytes.
        let mark = answer.output.lines().find(|line| line.starts_with("[...")).unwrap();
        let shown = answer.output.len() - mark.len() - 1;
        assert_eq!(mark, format!("[... {} bytes left out ...]", 6_888_896 - shown));
        // Escapes count.
        let answer = call("head -c 50000 /dev/zero | tr '\\0' '\\033'", None).unwrap();
        assert!(serde_json::to_string(&answer).unwrap().len() < 15_000);
    }
}
