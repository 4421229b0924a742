//! `cofferdam:host/agents`: which agents a call may give tasks to, and until when. [`crate::agent`]
//! runs them and parses their responses.

use std::time::Duration;

use serde_json::Value;
use tracing::Level;
use wasmtime::Result;

use super::bindings::cofferdam::host::agents::{
    Action, Answer, Broken, Error, Host, Kept, Report, Task,
};
use super::state::CallState;
use crate::agent::{self, AgentError, TaskError};
use cofferdam_core::contract;
use cofferdam_text::shorten;

/// How long before the deadline of its call an agent is killed. Killing it may take a second, and
/// the plugin needs time to return.
const KILL_RESERVE: Duration = Duration::from_secs(2);

impl Host for CallState {
    fn run(&mut self, task: Task) -> Result<std::result::Result<Report, Error>> {
        Ok(self.give(&task))
    }
}

impl CallState {
    fn give(&self, task: &Task) -> std::result::Result<Report, Error> {
        let name = &task.agent;
        let permissions = &self.context.permissions;
        let plugin = permissions.plugin();
        if !permissions.capabilities.allows_agent(name) {
            let granted: Vec<&str> =
                permissions.capabilities.agents.iter().map(String::as_str).collect();
            return Err(Error::Denied(format!(
                "'{}' is not among the agents that the plugin '{plugin}' may give tasks to here \
                 ({}); a person can grant it by agents = [...] under [grants.{plugin}] in \
                 cofferdam.toml",
                shorten(name, 80),
                if granted.is_empty() { "none".to_owned() } else { granted.join(", ") },
            )));
        }
        let team = &self.context.services.team;
        let control = self.control();
        let deadline = control.deadline();
        let deadline = deadline.checked_sub(KILL_RESERVE).unwrap_or(deadline);
        if team.has(name) {
            self.context.usage.add_agent(name);
        }
        let messages = &self.messages;
        let mut retried = |why: &str| messages.say(Level::WARN, &format!("{name}: {why}"));
        let stop = || control.is_cancelled();
        let task = agent::Task { agent: name, prompt: &task.prompt, deadline };
        match team.perform(&task, &stop, &mut retried) {
            Ok(report) => Ok(report.into()),
            Err(error) => Err(failure(&error)),
        }
    }
}

impl From<agent::Report> for Report {
    fn from(report: agent::Report) -> Self {
        let agent::Report { agent, role, tries, answer } = report;
        let problems = |parsed: &contract::Parsed| {
            parsed.problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let answer = match answer {
            agent::Answer::Text(text) => Answer::Text(text),
            agent::Answer::Kept { contract, parsed, next, reason } => Answer::Kept(Kept {
                contract,
                problems: problems(&parsed),
                fields: Value::Object(parsed.record).to_string(),
                next: action(next),
                reason,
            }),
            agent::Answer::Broken { contract, parsed, reason, response } => {
                Answer::Broken(Broken { contract, reason, problems: problems(&parsed), response })
            }
        };
        Self { agent, role, tries, answer }
    }
}

fn action(action: contract::Action) -> Action {
    match action {
        contract::Action::Proceed => Action::Proceed,
        contract::Action::Review => Action::Review,
        contract::Action::Fix => Action::Fix,
        // No attempt is left.
        contract::Action::Blocked | contract::Action::Retry => Action::Blocked,
    }
}

fn failure(error: &TaskError) -> Error {
    let message = error.to_string();
    match error {
        TaskError::Unknown { .. } | TaskError::NoAnswer(AgentError::NotFound(_)) => {
            Error::NotFound(message)
        }
        TaskError::NoAnswer(AgentError::TooDeep) => Error::TooDeep(message),
        TaskError::NoAnswer(AgentError::Timeout { .. } | AgentError::NoTime) => {
            Error::TimedOut(message)
        }
        TaskError::NoAnswer(_) => Error::Failed(message),
    }
}
