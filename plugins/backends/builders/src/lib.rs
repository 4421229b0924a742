//! Builders: `go`, `npm`, `make`, `cargo`, `maven` and `gradle`, each using the program of the
//! operator. Wrapper scripts in the workspace (`gradlew`, `mvnw`) are never run.
//!
//! | module | is for |
//! |---|---|
//! | [`framework`] | detecting frameworks, their commands and environment |
//! | [`text`] | errors and warnings in what compilers and build programs print |
//! | [`cargo`] | errors and warnings in cargo's JSON |
//! | [`places`] | converts paths and columns to those of reports |
//!
//! The files that a build writes become part of the workspace; caches and intermediate files go to
//! the plugin's cache directory. There is no network, so dependencies must be downloaded already.

pub mod cargo;
pub mod framework;
pub mod places;
pub mod text;

use std::collections::HashSet;

use cofferdam_sdk::backend::building::{Diagnostic, Report, Request, Severity};
use cofferdam_sdk::backend::{Builder, Error};
use cofferdam_sdk::process::{self, Changes, Command, End, Output};
use cofferdam_sdk::{Context, builder, shorten, telling};

use framework::{Framework, Project};
use places::Places;

/// The maximum number of errors and warnings in a report.
const MAX_DIAGNOSTICS: usize = 10_000;

/// The maximum size of the raw output in a report, in bytes; the middle of longer output is cut
/// out.
const MAX_RAW_BYTES: usize = 1024 * 1024;

/// The plugin: a builder for each framework.
pub struct Builders;

impl Builder for Builders {
    fn detect(name: &str, root: &str, context: &Context) -> u8 {
        match (Framework::named(name), Project::at(root, context)) {
            (Ok(framework), Ok(project)) => framework.fits(&project),
            _ => 0,
        }
    }

    fn version(name: &str, context: &Context) -> Result<String, Error> {
        let framework = Framework::named(name)?;
        let (program, arguments) = framework.asking_for_version();
        let command = Command {
            environment: framework.environment(&process::cache_directory(context)),
            ..process::command(program, arguments)
        };
        let output = process::run(&command, context)?;
        let said = [output.stdout_text(), output.stderr_text()].concat();
        // The output of a program that can't start may contain another version, such as that of its
        // runtime.
        let version = text::version(&said).filter(|_| output.exit_code() == Some(0));
        version.ok_or_else(|| {
            let words = text::last_line(&said).unwrap_or_else(|| "nothing".to_owned());
            Error::Failed(format!("{program} does not say its version, but: {}", telling(&words)))
        })
    }

    fn build(name: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        let framework = Framework::named(name)?;
        let project = Project::at(&request.root, context)?;
        let words = match request.command.as_slice() {
            [] => framework.command(&project, request.target.as_deref(), request.timeout_ms)?,
            words => words.to_vec(),
        };
        let output =
            framework::run(framework, &words, &project, Changes::Keep, request.timeout_ms)?;
        report(framework, &output, &project)
    }
}

builder!(Builders);

/// Converts the output of a build program to a report.
fn report(framework: Framework, output: &Output, project: &Project) -> Result<Report, Error> {
    let (exit_code, timed_out) = match &output.end {
        End::Exited(code) => (Some(*code), false),
        // The exit code that shells report for a signal.
        End::Signalled(signal) => (Some(128 + signal), false),
        End::TimedOut => (None, true),
        End::Limit(limit) => {
            return Err(Error::Limit(format!("the build was stopped at a limit: {limit}")));
        }
    };
    let failed = exit_code != Some(0);
    let stdout = text::without_escapes(&output.stdout_text());
    let stderr = text::without_escapes(&output.stderr_text());
    let cargo::Messages { mut found, stdout } = match framework {
        Framework::Cargo => {
            let messages = cargo::parse(&stdout);
            let is_cut = output.stdout.total > output.stdout.bytes.len() as u64;
            if is_cut && !messages.found.is_empty() {
                let total = output.stdout.total;
                return Err(Error::Failed(format!(
                    "cargo printed {total} bytes of messages, more than can be read"
                )));
            }
            messages
        }
        _ => cargo::Messages { found: Vec::new(), stdout },
    };
    let raw = joined(stdout, &stderr);
    // Cargo's messages were read from the JSON; other lines of its output are text.
    let printed = if found.is_empty() { &raw } else { &stderr };
    found.extend(text::parse(printed, framework.columns()));
    let mut places = Places::new(project, output, text::entered_directories(printed));
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    // Maven prints messages twice; so do compilers for a file that is compiled twice.
    let mut said = HashSet::new();
    for found in found {
        if diagnostics.len() == MAX_DIAGNOSTICS {
            break;
        }
        let diagnostic = places.diagnostic(found, failed);
        let Diagnostic { path, line, column, message, .. } = diagnostic.clone();
        if said.insert((path, line, column, message)) {
            diagnostics.push(diagnostic);
        }
    }
    let is_error = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
    if failed && !timed_out && !diagnostics.iter().any(is_error) {
        let message = text::fallback_message(&raw).or_else(|| text::last_line(&raw));
        let status = exit_code.unwrap_or_default();
        diagnostics.push(Diagnostic {
            path: String::new(),
            line: 0,
            column: 0,
            message: message
                .unwrap_or_else(|| format!("the build ended with status {status}, without a word")),
            severity: Severity::Error,
        });
    }
    let raw = shorten(&raw, MAX_RAW_BYTES).into_owned();
    Ok(Report { diagnostics, exit_code, timed_out, duration_ms: output.duration_ms, raw })
}

/// Joins standard output and standard error, each beginning on a new line.
fn joined(mut stdout: String, stderr: &str) -> String {
    if !stdout.is_empty() && !stdout.ends_with('\n') && !stderr.is_empty() {
        stdout.push('\n');
    }
    stdout.push_str(stderr);
    stdout
}

#[cfg(test)]
mod tests;
