//! Runs agents of the user: programs, such as a model's command line, that read a prompt on their
//! standard input and print a response on their standard output.
//!
//! The user names the program, on the command line or in accepted settings. It is not sandboxed: it
//! has the user's permissions, the host's environment, and the workspace as its working directory.
//! Its time and the size of its response are limited, and its process group is always killed in the
//! end. The response is untrusted text, which callers have to check.

mod orphans;
mod process;
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

pub use team::{Answer, Report, Task, TaskError, Team};

/// How much of an agent's standard error an error message quotes, in bytes.
const MAX_STDERR_TAIL_BYTES: usize = 2 << 10;

/// Environment variable with the ids of the tasks that a process works on, the outermost first,
/// separated by `:`.
const TASKS_VARIABLE: &str = "COFFERDAM_TASKS";

/// How deeply agents may be nested: agents that run a host that runs an agent, and so on.
pub const MAX_DEPTH: usize = 3;

/// Starts agents: the workspace and the environment that they get.
#[derive(Clone)]
pub struct Agents {
    workspace: Arc<Workspace>,
    environment: HashMap<String, String>,
}

/// A prompt for an agent, and the limits of its run.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The program to run, with its arguments.
    pub command: &'a AgentCommand,
    /// Environment variables in addition to the host's environment.
    pub variables: &'a [(String, String)],
    /// The text on its standard input.
    pub prompt: String,
    /// How long the agent may run.
    pub timeout: Duration,
    /// The maximum size of its standard output, in bytes.
    pub max_bytes: usize,
}

/// The reason why an agent gave no response.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program was not found.
    #[error("there is no program '{0}' in the absolute directories of PATH")]
    NotFound(String),
    /// The program is in the workspace, where a tool may have planted it.
    #[error(
        "the agent is {}, in the workspace itself, where a tool could have planted it; install it \
         elsewhere", .0.display()
    )]
    InWorkspace(PathBuf),
    /// More than [`MAX_DEPTH`] agents would be nested.
    #[error("agents that ask agents are nested at most {MAX_DEPTH} deep")]
    TooDeep,
    /// The caller's deadline has passed.
    #[error("no time was left to ask the agent")]
    NoTime,
    /// I/O error: the program can't be started, or a pipe failed.
    #[error("the agent {program} can't be run: {source}")]
    System {
        /// The path of the program.
        program: String,
        /// The underlying I/O error.
        source: std::io::Error,
    },
    /// The agent exceeded its time limit.
    #[error("the agent did not answer within {:.1} s and was ended{stderr}", after.as_secs_f64())]
    Timeout {
        /// The time limit that it exceeded.
        after: Duration,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The agent exceeded the size limit of its output.
    #[error("the agent printed more than {max_bytes} bytes and was ended{stderr}")]
    TooLong {
        /// The limit, in bytes.
        max_bytes: usize,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The run was cancelled.
    #[error("cancelled while the agent was asked")]
    Cancelled,
    /// The agent exited with an error status, or was killed by another process.
    #[error("the agent ended with {how}{stderr}")]
    Ended {
        /// How it ended, such as `exit status 1` or `signal 9`.
        how: String,
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The agent exited without printing anything.
    #[error("the agent printed nothing{stderr}")]
    Silent {
        /// The end of its standard error.
        stderr: StderrTail,
    },
    /// The output is not UTF-8. Contains the offset of the first invalid byte.
    #[error("the agent's answer is not UTF-8 (first bad byte at offset {0})")]
    NotUtf8(usize),
}

/// The end of an agent's standard error, with control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StderrTail(String);

impl StderrTail {
    fn of(stderr: &[u8]) -> Self {
        let end = &stderr[stderr.len().saturating_sub(MAX_STDERR_TAIL_BYTES)..];
        Self(escape_control(String::from_utf8_lossy(end).trim()))
    }
}

impl std::fmt::Display for StderrTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; it said: {}", self.0) }
    }
}

impl Agents {
    /// Returns the agents on another workspace.
    pub fn on(&self, workspace: Arc<Workspace>) -> Self {
        Self::new(workspace, self.environment.clone())
    }

    /// Agents that run in `workspace` with the environment `environment`.
    pub fn new(workspace: Arc<Workspace>, environment: HashMap<String, String>) -> Self {
        Self { workspace, environment }
    }

    /// Runs an agent and returns its response. Kills the agent when the returned future is dropped
    /// and when `cancelled` completes.
    ///
    /// Each line of the agent's standard error is logged.
    ///
    /// # Errors
    /// See [`AgentError`]. Output so far is discarded.
    pub async fn ask(
        &self,
        question: Question<'_>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<String, AgentError> {
        let start = self.start(&question)?;
        let Question { prompt, timeout, max_bytes, .. } = question;
        let stop = Arc::new(AtomicBool::new(false));
        let _stop_when_dropped = CancelOnDrop(Arc::clone(&stop));
        let running = {
            let stop = Arc::clone(&stop);
            let stop = move || stop.load(Ordering::Relaxed);
            tokio::task::spawn_blocking(move || run(start, &prompt, timeout, max_bytes, &stop))
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

    /// Like [`Self::ask`], but blocking, and cancelled when `stop` returns true.
    fn ask_here(
        &self,
        question: &Question<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<String, AgentError> {
        let start = self.start(question)?;
        run(start, &question.prompt, question.timeout, question.max_bytes, stop)
    }

    fn start(&self, question: &Question<'_>) -> Result<process::Start, AgentError> {
        let around = self.environment.get(TASKS_VARIABLE).filter(|tasks| !tasks.is_empty());
        if around.is_some_and(|tasks| tasks.split(':').count() >= MAX_DEPTH) {
            return Err(AgentError::TooDeep);
        }
        let task = uuid::Uuid::now_v7().simple().to_string();
        let tasks = around.map_or_else(|| task.clone(), |around| format!("{around}:{task}"));
        let mut environment = self.environment.clone();
        environment.extend(question.variables.iter().cloned());
        environment.insert(TASKS_VARIABLE.to_owned(), tasks);
        Ok(process::Start {
            program: self.find(question.command.program())?,
            arguments: question.command.arguments().to_vec(),
            directory: self.workspace.path().to_owned(),
            environment,
            mark: task,
        })
    }

    /// The path of an agent's program.
    ///
    /// # Errors
    /// [`AgentError::NotFound`] and [`AgentError::InWorkspace`].
    pub(crate) fn find(&self, program: &str) -> Result<PathBuf, AgentError> {
        let found = if program.starts_with('/') {
            PathBuf::from(program)
        } else {
            let path = self.environment.get("PATH").map(String::as_str).unwrap_or_default();
            let directories: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
            // Relative directories are skipped: they would be relative to the workspace.
            find_program(program, &directories)
                .ok_or_else(|| AgentError::NotFound(program.to_owned()))?
        };
        if self.workspace.holds(&found) { Err(AgentError::InWorkspace(found)) } else { Ok(found) }
    }
}

fn run(
    start: process::Start,
    prompt: &str,
    timeout: Duration,
    max_bytes: usize,
    stop: &dyn Fn() -> bool,
) -> Result<String, AgentError> {
    let program = start.program.display().to_string();
    let bounds = process::Bounds { time: timeout, output: max_bytes };
    let ended = process::run(start, prompt.as_bytes(), &bounds, stop)
        .map_err(|source| AgentError::System { program, source })?;
    answer(ended, timeout, max_bytes)
}

/// Turns the end of a process into its response or an error.
fn answer(
    process::Ended { end, stdout, stderr }: process::Ended,
    after: Duration,
    max_bytes: usize,
) -> Result<String, AgentError> {
    let stderr = StderrTail::of(&stderr);
    match end {
        process::End::Timeout => return Err(AgentError::Timeout { after, stderr }),
        process::End::TooLong => return Err(AgentError::TooLong { max_bytes, stderr }),
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

/// Cancels the agent when the future of its caller is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
