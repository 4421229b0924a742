//! Runs a linter's program, and interprets an exit without findings.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::process::{self, Captured, Changes, Command, End, Output};
use cofferdam_sdk::{Context, WorkspacePath};

use crate::job::Job;

/// The maximum size of a program's error message that is passed on, in bytes.
const MAX_ERROR_MESSAGE_BYTES: usize = 2_000;

/// The program of a backend.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The name, as in the manifest.
    pub name: &'static str,
}

/// How to run a program for a job.
pub struct Run<'a> {
    /// The working directory of the program.
    pub directory: &'a WorkspacePath,
    /// The arguments after the program's name.
    pub arguments: Vec<String>,
    /// Environment variables in addition to the fixed ones.
    pub environment: Vec<(&'static str, String)>,
    /// Whether it may write into the workspace. Its changes are discarded.
    pub scratch: bool,
    /// The timeout in milliseconds; 0: the deadline of the call.
    pub timeout_ms: u32,
}

impl<'a> Run<'a> {
    /// A run in the job's directory that can't write into the workspace.
    pub fn new(job: &'a Job<'_>, arguments: &[&str]) -> Self {
        Self {
            directory: &job.root,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            scratch: false,
            timeout_ms: job.timeout_ms,
        }
    }

    /// Adds an option with its value as a separate argument.
    pub fn option(&mut self, name: &str, value: impl Into<String>) {
        self.arguments.extend([name.to_owned(), value.into()]);
    }

    /// Adds `--` and the job's targets.
    pub fn targets(&mut self, job: &Job<'_>) {
        self.arguments.push("--".to_owned());
        self.arguments.extend(job.arguments());
    }
}

impl Program {
    /// Runs the program until it exits.
    ///
    /// # Errors
    /// `Unavailable` if the program is missing or not granted; `Limit` if it was stopped; `Failed`
    /// if it crashed.
    pub fn run(&self, job: &Job<'_>, run: Run<'_>) -> Result<Output, Error> {
        let changes = if run.scratch { Changes::Discard } else { Changes::None };
        let environment =
            run.environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let command = Command {
            arguments: run.arguments,
            directory: run.directory.as_str().to_owned(),
            environment,
            timeout_ms: run.timeout_ms,
            changes,
            ..process::command(self.name, &[])
        };
        let output = process::run(&command, job.context)?;
        self.ended(output)
    }

    /// Runs the program with `arguments` and returns the first version in its output.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn version(&self, arguments: &[&str], context: &Context) -> Result<String, Error> {
        let command = process::command(self.name, arguments);
        let output = process::run(&command, context)?;
        let output = self.ended(output)?;
        let printed = output.stdout_text();
        match version_in(&printed) {
            Some(version) if output.exit_code() == Some(0) => Ok(version.to_owned()),
            _ => Err(self.failed(&output)),
        }
    }

    /// The whole standard output of the program.
    ///
    /// # Errors
    /// `Limit` if the output was too large and was cut.
    pub fn stdout(&self, output: &Output) -> Result<String, Error> {
        let Captured { bytes, total } = &output.stdout;
        if *total > bytes.len() as u64 {
            return Err(Error::Limit(format!(
                "{} printed {total} bytes, too many to be read: lint fewer files at a time",
                self.name
            )));
        }
        Ok(output.stdout_text())
    }

    /// The error for a program that rejects the request or a configuration.
    pub fn refused(&self, message: &str) -> Error {
        Error::Invalid(format!("{}: {}", self.name, ending(message.trim())))
    }

    /// The error for a program that exited in an unexpected way.
    pub fn failed(&self, output: &Output) -> Error {
        let how = match output.exit_code() {
            Some(code) => format!("with status {code}"),
            None => "early".to_owned(),
        };
        match error_message(output).as_str() {
            "" => Error::Failed(format!("{} ended {how} and said nothing", self.name)),
            words => Error::Failed(format!("{} ended {how}: {words}", self.name)),
        }
    }

    /// The error for output that can't be parsed.
    pub fn unreadable(&self, output: &Output, error: &dyn std::fmt::Display) -> Error {
        match error_message(output).as_str() {
            "" => Error::Failed(format!("what {} printed can't be read: {error}", self.name)),
            _ => self.failed(output),
        }
    }

    fn ended(&self, output: Output) -> Result<Output, Error> {
        match &output.end {
            End::Exited(_) => Ok(output),
            End::TimedOut => Err(Error::Limit(format!(
                "{} did not end within {} ms",
                self.name, output.duration_ms
            ))),
            End::Limit(limit) => {
                Err(Error::Limit(format!("{} was stopped at a limit: {limit}", self.name)))
            }
            End::Signalled(signal) => {
                let words = error_message(&output);
                Err(Error::Failed(format!("{} was ended by signal {signal}: {words}", self.name)))
            }
        }
    }
}

/// The end of a program's error message: of standard error, or of standard output if that is empty.
pub fn error_message(output: &Output) -> String {
    let stderr = output.stderr_text();
    let words = if stderr.trim().is_empty() { output.stdout_text() } else { stderr };
    ending(words.trim()).to_owned()
}

/// The last part of a long text, beginning at a line if possible.
fn ending(text: &str) -> &str {
    let Some(at) = text.len().checked_sub(MAX_ERROR_MESSAGE_BYTES) else { return text };
    let at = (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let end = &text[at..];
    end.split_once('\n').map_or(end, |(_, lines)| lines)
}

/// The first word that looks like a version.
fn version_in(printed: &str) -> Option<&str> {
    printed
        .split_whitespace()
        .map(|word| word.strip_prefix('v').unwrap_or(word).trim_end_matches([',', ')']))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Workspace;

    const RUFF: Program = Program { name: "ruff" };

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (printed, wanted) in [
            ("ruff 0.17.6\n", "0.17.6"),
            ("v10.15.0\n", "10.15.0"),
            ("mypy 2.4.1 (compiled: yes)\n", "2.4.1"),
            ("pylint 4.1.4\nastroid 4.3.4\nPython 3.11.7 (main)\n", "4.1.4"),
            ("import-linter 2.16\n", "2.16"),
            ("clippy 0.1.95 (59807616e1 2026-04-14)\n", "0.1.95"),
            (
                "golangci-lint has version 2.7.2 built with go1.25.4 from 9f61b0f5 on \
                 2025-12-07T16:57:12Z\n",
                "2.7.2",
            ),
            ("golangci-lint has version v1.64.8 built with go1.24.1 from x", "1.64.8"),
        ] {
            assert_eq!(version_in(printed), Some(wanted), "{printed}");
        }
        assert_eq!(version_in("no such option"), None);
    }

    #[test]
    fn exits_are_classified() {
        let ended = |end| {
            let output = Output { end, ..Workspace::output(0, "", "some\nwords\n") };
            RUFF.ended(output).map(|_| ())
        };
        assert!(ended(End::Exited(2)).is_ok());
        assert!(matches!(ended(End::TimedOut), Err(Error::Limit(_))));
        assert!(matches!(ended(End::Limit("memory".to_owned())), Err(Error::Limit(_))));
        let Err(Error::Failed(message)) = ended(End::Signalled(11)) else { unreachable!() };
        assert_eq!(message, "ruff was ended by signal 11: some\nwords");
    }

    #[test]
    fn truncated_output_is_an_error() {
        let mut output = Workspace::output(1, "[]", "");
        assert!(RUFF.stdout(&output).is_ok());
        output.stdout.total = 9_000_000;
        assert!(matches!(RUFF.stdout(&output), Err(Error::Limit(_))));
    }

    #[test]
    fn only_the_end_of_a_long_error_message_is_kept() {
        let long = format!("{}\nthe last line é", "x".repeat(5_000));
        assert_eq!(error_message(&Workspace::output(1, "", &long)), "the last line é");
        let endless = "é".repeat(5_000);
        assert!(
            error_message(&Workspace::output(1, "", &endless)).len() <= MAX_ERROR_MESSAGE_BYTES
        );
        assert_eq!(error_message(&Workspace::output(1, "out", " \n")), "out");
    }
}
