//! `cofferdam pipeline`: runs a round of Designer, QA and Main.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::args::{DocumentSource, Global, Pipeline, RoundFormat};
use super::output::Output;
use super::run::{mode, session};
use super::{CliError, exit, setup};
use cofferdam_core::policy::{AGENT_TIMEOUT, Agent, AgentCommand, LimitSettings};
use cofferdam_engine::host::{Host, Inputs, PipelineOptions, Source};
use cofferdam_engine::pipeline::report;
use cofferdam_engine::pipeline::round::Round;

pub fn execute(global: &Global, args: &Pipeline, output: &Output) -> Result<u8, CliError> {
    let Pipeline { designer, qa, .. } = args;
    let (designer, qa) = (designer.document(), qa.document());
    let files = [Some(args.work_order.as_path()), designer.file, qa.file];
    if files.iter().filter(|file| **file == Some(Path::new("-"))).count() > 1 {
        let message = "standard input can be one of the documents, not several".to_owned();
        return Err(CliError::usage(message));
    }
    // An unwritable record file is an error before anything runs.
    let record = args.record.as_deref().map(RecordFile::create).transpose()?;
    let work_order = setup::read_input(&args.work_order)?;
    let (host, runtime) = setup::host(global, None)?;
    let timeout = args.agent_timeout_s;
    let inputs = Inputs {
        work_order,
        designer: source(&designer, &host, timeout)?,
        qa: source(&qa, &host, timeout)?,
    };
    let options = PipelineOptions {
        mode: mode(args.strict),
        phase_boundary: args.phase_boundary,
        keep: args.keep,
        dry_run: args.dry_run,
        hold: args.holding.hold,
        session: session(&args.holding),
        limits: LimitSettings { call_ms: args.call_ms, ..LimitSettings::default() },
        cancel: Some(setup::interruption(&runtime)?),
    };
    let round = runtime.block_on(host.pipeline(inputs, &options));
    let kept = record.map_or(Ok(()), |record| record.write(&round));
    match args.format {
        RoundFormat::Json => output.document(&round)?,
        RoundFormat::Text => output.text(&report::text(&round))?,
        RoundFormat::Markdown => output.text(&report::markdown(&round))?,
    }
    kept?;
    Ok(exit::of_round(&round))
}

/// Where a document comes from, according to the options.
fn source(
    document: &DocumentSource<'_>,
    host: &Host,
    timeout: Option<u32>,
) -> Result<Source, CliError> {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    match *document {
        DocumentSource { command: Some(text), option, .. } => Ok(Source::Agent {
            command: command(text, option)?,
            variables: Vec::new(),
            timeout: timeout.map_or(AGENT_TIMEOUT, seconds),
        }),
        DocumentSource { agent: Some(name), option, .. } => {
            let agent = host.policy().agent(name).ok_or_else(|| unknown(name, option, host))?;
            Ok(Source::Agent {
                command: agent.command().clone(),
                variables: agent.variables(),
                timeout: timeout.map_or(agent.timeout(), seconds),
            })
        }
        DocumentSource { file: Some(file), .. } => Ok(Source::Text(setup::read_input(file)?)),
        // clap requires one of the three options.
        DocumentSource { option, .. } => Err(CliError::usage(format!("--{option} is missing"))),
    }
}

/// Splits a command into words by the quoting rules of a POSIX shell. No shell interprets it.
fn command(text: &str, option: &str) -> Result<AgentCommand, CliError> {
    let wrong = |message: String| CliError::usage(format!("--{option}-cmd: {message}"));
    let mut words = shlex::split(text)
        .ok_or_else(|| wrong("a quote is not closed, or nothing follows a backslash".to_owned()))?;
    // A relative program path is relative to the user's working directory, but the agent runs in
    // the workspace.
    if let Some(program) = words.first_mut()
        && program.contains('/')
    {
        let path = std::path::absolute(&*program).map_err(|error| wrong(error.to_string()))?;
        *program =
            path.to_str().ok_or_else(|| wrong("a path that is not UTF-8".into()))?.to_owned();
    }
    AgentCommand::new(&words).map_err(|error| wrong(error.to_string()))
}

fn unknown(name: &str, option: &str, host: &Host) -> CliError {
    let known: Vec<&str> = host.policy().agents().map(Agent::name).collect();
    let known = match known.as_slice() {
        [] => "there is none; cofferdam.toml names them under [agents.NAME]".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    CliError::usage(format!("--{option}-agent: there is no agent '{name}': {known}"))
}

/// A file that is moved to its place once it is complete.
struct RecordFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl RecordFile {
    fn create(path: &Path) -> Result<Self, CliError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(|error| {
            CliError::usage(format!("--record: {} can't be written: {error}", path.display()))
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn write(mut self, round: &Round) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.file, round).map_err(CliError::host)?;
        self.file.write_all(b"\n")?;
        self.file.persist(&self.path).map_err(|error| {
            CliError::host(format!("--record: {}: {}", self.path.display(), error.error))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_command_is_split_without_a_shell() {
        for (text, program, arguments) in [
            ("claude -p", "claude", vec!["-p"]),
            ("a 'b c' \"d e\" f\\ g", "a", vec!["b c", "d e", "f g"]),
            ("a $(rm x) | b > c; d", "a", vec!["$(rm", "x)", "|", "b", ">", "c;", "d"]),
            ("/opt/agent $HOME '' *", "/opt/agent", vec!["$HOME", "", "*"]),
        ] {
            let command = command(text, "qa").unwrap();
            assert_eq!(
                (command.program(), command.arguments()),
                (
                    program,
                    &arguments[..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()[..]
                ),
                "{text}"
            );
        }
        let here = command("./agent.sh", "qa").unwrap();
        assert!(here.program().starts_with('/') && here.program().ends_with("/agent.sh"));
        for (text, wanted) in [
            ("", "--qa-cmd: no program is named"),
            ("a 'b", "--qa-cmd: a quote is not closed"),
            ("..", "--qa-cmd: '..' is a relative path"),
        ] {
            let error = command(text, "qa").unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
