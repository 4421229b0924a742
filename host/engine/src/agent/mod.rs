//! Asks an agent: a program of the person's own that takes a prompt on its standard input and
//! answers on its standard output, such as a model's command line.
//!
//! It is named by the person, on the command line or in settings that a person accepted, and it is
//! not sandboxed: it has the person's rights, the host's environment and the workspace as its
//! working directory. What bounds it is its time and the size of its answer, and that its process
//! group is killed in the end, however that comes about. Its answer is text that nobody has
//! checked yet. What is asked, and what answers mean, is for whoever asks.

mod process;
mod strays;
mod team;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_sandbox::find_program;

use cofferdam_core::policy::AgentCommand;
use cofferdam_text::escape_control;
use cofferdam_workspace::Workspace;

pub use team::{Answer, Report, TaskError, Team};

/// How much of what an agent prints to its standard error an error shows, in bytes.
const COMPLAINT: usize = 2 << 10;

/// The variable that names the tasks that a process works on, the outermost first, separated by
/// `:`.
const TASKS: &str = "COFFERDAM_TASKS";

/// How many agents may wait for each other: one that a host asks, one that a host asks for that
/// one, and so on.
pub const MAX_DEPTH: usize = 3;

/// What every agent is started with.
#[derive(Clone)]
pub struct Agents {
    workspace: Arc<Workspace>,
    environment: HashMap<String, String>,
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The program.
    pub command: &'a AgentCommand,
    /// Variables that it gets besides the host's environment.
    pub variables: &'a [(String, String)],
    /// What it reads.
    pub prompt: String,
    /// How long it may take.
    pub timeout: Duration,
    /// How long its answer may be, in bytes.
    pub most: usize,
}

/// Why an agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no such program.
    #[error("there is no program '{0}' in the absolute directories of PATH")]
    NotFound(String),
    /// A tool may have put it there.
    #[error(
        "the agent is {}, in the workspace itself, where a tool could have planted it; install it \
         elsewhere", .0.display()
    )]
    InWorkspace(PathBuf),
    /// The host itself works for an agent that works for an agent ...
    #[error("agents that ask agents are nested at most {MAX_DEPTH} deep")]
    TooDeep,
    /// Whoever asks has to be done by now.
    #[error("no time was left to ask the agent")]
    NoTime,
    /// The system does not start it, or its pipes broke.
    #[error("the agent {program} can't be run: {source}")]
    System {
        /// Its program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("the agent did not answer within {:.1} s and was ended{stderr}", after.as_secs_f64())]
    Timeout {
        /// How long it had.
        after: Duration,
        /// The end of what it said on its standard error.
        stderr: Complaint,
    },
    /// It printed too much.
    #[error("the agent printed more than {most} bytes and was ended{stderr}")]
    TooLong {
        /// The most that it may print.
        most: usize,
        /// The end of what it said on its standard error.
        stderr: Complaint,
    },
    /// The person, or the system, wanted the run to end.
    #[error("cancelled while the agent was asked")]
    Cancelled,
    /// It failed, or was killed by somebody else.
    #[error("the agent ended with {how}{stderr}")]
    Ended {
        /// `exit status 1`, `signal 9`.
        how: String,
        /// The end of what it said on its standard error.
        stderr: Complaint,
    },
    /// It printed nothing.
    #[error("the agent printed nothing{stderr}")]
    Silent {
        /// The end of what it said on its standard error.
        stderr: Complaint,
    },
    /// What it printed is not text.
    #[error("the agent's answer is not UTF-8 (first bad byte at offset {0})")]
    NotUtf8(usize),
}

/// The end of what an agent said on its standard error, made inert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint(String);

impl Complaint {
    fn of(stderr: &[u8]) -> Self {
        let end = &stderr[stderr.len().saturating_sub(COMPLAINT)..];
        Self(escape_control(String::from_utf8_lossy(end).trim()))
    }
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; it said: {}", self.0) }
    }
}

impl Agents {
    /// Agents that work in `workspace` and get `environment`.
    pub fn new(workspace: Arc<Workspace>, environment: HashMap<String, String>) -> Self {
        Self { workspace, environment }
    }

    /// Asks an agent and waits for its answer. When it is dropped, and when `cancelled` ends, the
    /// agent is ended as well.
    ///
    /// What the agent prints to its standard error goes to the log, line by line.
    ///
    /// # Errors
    /// See [`AgentError`]. What the agent has printed by then is lost.
    pub async fn ask(
        &self,
        question: Question<'_>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<String, AgentError> {
        let start = self.start(&question)?;
        let Question { prompt, timeout, most, .. } = question;
        let stop = Arc::new(AtomicBool::new(false));
        let _stop_when_dropped = StopWhenDropped(Arc::clone(&stop));
        let running = {
            let stop = Arc::clone(&stop);
            let stop = move || stop.load(Ordering::Relaxed);
            tokio::task::spawn_blocking(move || run(start, &prompt, timeout, most, &stop))
        };
        let mut running = std::pin::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = cancelled => {
                stop.store(true, Ordering::Relaxed);
                running.await
            }
        };
        match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// As [`Self::ask`], on this thread, until `stop` says so.
    fn ask_here(
        &self,
        question: &Question<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<String, AgentError> {
        let start = self.start(question)?;
        run(start, &question.prompt, question.timeout, question.most, stop)
    }

    /// What is started for a question.
    fn start(&self, question: &Question<'_>) -> Result<process::Start, AgentError> {
        let around = self.environment.get(TASKS).filter(|tasks| !tasks.is_empty());
        if around.is_some_and(|tasks| tasks.split(':').count() >= MAX_DEPTH) {
            return Err(AgentError::TooDeep);
        }
        let task = uuid::Uuid::now_v7().simple().to_string();
        let tasks = around.map_or_else(|| task.clone(), |around| format!("{around}:{task}"));
        let mut environment = self.environment.clone();
        environment.extend(question.variables.iter().cloned());
        environment.insert(TASKS.to_owned(), tasks);
        Ok(process::Start {
            program: self.find(question.command.program())?,
            arguments: question.command.arguments().to_vec(),
            directory: self.workspace.path().to_owned(),
            environment,
            mark: task,
        })
    }

    fn find(&self, program: &str) -> Result<PathBuf, AgentError> {
        let found = if program.starts_with('/') {
            PathBuf::from(program)
        } else {
            let path = self.environment.get("PATH").map(String::as_str).unwrap_or_default();
            let directories: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
            // A relative directory would be one of the workspace's.
            find_program(program, &directories)
                .ok_or_else(|| AgentError::NotFound(program.to_owned()))?
        };
        if self.workspace.holds(&found) { Err(AgentError::InWorkspace(found)) } else { Ok(found) }
    }
}

/// Runs an agent to its end.
fn run(
    start: process::Start,
    prompt: &str,
    timeout: Duration,
    most: usize,
    stop: &dyn Fn() -> bool,
) -> Result<String, AgentError> {
    let program = start.program.display().to_string();
    let bounds = process::Bounds { time: timeout, output: most };
    let ended = process::run(start, prompt.as_bytes(), &bounds, stop)
        .map_err(|source| AgentError::System { program, source })?;
    answer(ended, timeout, most)
}

/// What the end of an agent means.
fn answer(
    process::Ended { end, stdout, stderr }: process::Ended,
    after: Duration,
    most: usize,
) -> Result<String, AgentError> {
    let stderr = Complaint::of(&stderr);
    match end {
        process::End::Timeout => return Err(AgentError::Timeout { after, stderr }),
        process::End::TooLong => return Err(AgentError::TooLong { most, stderr }),
        process::End::Stopped => return Err(AgentError::Cancelled),
        process::End::Exit(0) => {}
        process::End::Exit(status) => {
            return Err(AgentError::Ended { how: format!("exit status {status}"), stderr });
        }
        process::End::Signal(signal) => {
            return Err(AgentError::Ended { how: format!("signal {signal}"), stderr });
        }
    }
    let text = String::from_utf8(stdout)
        .map_err(|error| AgentError::NotUtf8(error.utf8_error().valid_up_to()))?;
    if text.trim().is_empty() { Err(AgentError::Silent { stderr }) } else { Ok(text) }
}

/// Whoever does not wait for an answer any more wants none.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
