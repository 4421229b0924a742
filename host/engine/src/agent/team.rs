//! The agents in the settings, each with its output contract. An agent whose response breaks the
//! contract is asked again with the contract's reminder (the output contracts, "Contract
//! Violations").

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AgentError, Agents, Question};
use cofferdam_core::contract::{Action, Contract, Contracts, Parsed, Turn, UnknownAgent};
use cofferdam_core::policy::{Agent, Policy, PolicyError, Role};
use cofferdam_core::schema::nearest;
use cofferdam_workspace::Workspace;

/// How much of a response that broke its contract is returned, in bytes.
const MAX_SHOWN_RESPONSE_BYTES: usize = 4 << 10;

/// The agents that can be given tasks.
#[derive(Clone)]
pub struct Team {
    agents: Agents,
    members: BTreeMap<String, Member>,
    max_bytes: usize,
}

#[derive(Debug, Clone)]
struct Member {
    agent: Agent,
    contract: Option<Contract>,
}

/// A task for one of the agents.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// What to do, in words.
    pub prompt: &'a str,
    /// When the agent is killed.
    pub deadline: Instant,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The name of the agent.
    pub agent: String,
    /// The role of the agent's own calls.
    pub role: Option<String>,
    /// How many times the agent was run.
    pub tries: u32,
    /// The last response, parsed by its contract.
    pub answer: Answer,
}

/// The response of an agent, parsed by its contract.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The whole response of an agent without a contract.
    Text(String),
    /// A response with a complete record.
    Kept {
        /// The name of the agent in the contract.
        contract: String,
        /// The record, and remaining problems of the response.
        parsed: Parsed,
        /// The next step according to the contract.
        next: Action,
        /// The reason for the next step.
        reason: String,
    },
    /// An incomplete record after the last attempt.
    Broken {
        /// The name of the agent in the contract.
        contract: String,
        /// The parts of the record that were found, and the problems.
        parsed: Parsed,
        /// The reason why the agent is not run again.
        reason: String,
        /// The end of the last response.
        response: String,
    },
}

/// The reason why a task has no response.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The settings define no agent with this name.
    #[error("there is no agent '{name}'{}", hint(.nearest))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The most similar name of an agent.
        nearest: Option<String>,
    },
    /// The agent gave no response.
    #[error(transparent)]
    NoAnswer(#[from] AgentError),
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(
        || "; cofferdam.toml names agents under [agents.NAME]".to_owned(),
        |name| format!("; did you mean '{name}'?"),
    )
}

impl Team {
    /// The agents of a policy. Each response may have `max_bytes` bytes.
    ///
    /// # Errors
    /// [`PolicyError`] if an agent or a role names a contract that does not exist.
    pub fn new(
        agents: Agents,
        policy: &Policy,
        contracts: &Contracts,
        max_bytes: usize,
    ) -> Result<Self, PolicyError> {
        let find = |name: &str, place: String| {
            let wrong = |error: UnknownAgent| PolicyError { place, message: error.to_string() };
            contracts.get(name).cloned().map_err(wrong)
        };
        for role in policy.roles() {
            if let Some(contract) = role.contract() {
                find(contract, format!("roles.{}.contract", role.name()))?;
            }
        }
        let member = |agent: &Agent| {
            let role = agent.role().and_then(|role| policy.role(role));
            let contract = agent.contract().or_else(|| role.and_then(Role::contract));
            let place = || format!("agents.{}.contract", agent.name());
            let contract = contract.map(|name| find(name, place())).transpose()?;
            Ok((agent.name().to_owned(), Member { agent: agent.clone(), contract }))
        };
        let members = policy.agents().map(member).collect::<Result<_, PolicyError>>()?;
        Ok(Self { agents, members, max_bytes })
    }

    /// A team without agents.
    pub fn none(workspace: Arc<Workspace>) -> Self {
        let agents = Agents::new(workspace, HashMap::new());
        Self { agents, members: BTreeMap::new(), max_bytes: 0 }
    }

    /// Whether there is an agent with this name.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Runs an agent on this thread, again if its response breaks its contract. Kills it at the
    /// deadline or when `stop` returns true. Before each retry, `retried` is called with the reason.
    ///
    /// # Errors
    /// See [`TaskError`]. A response that breaks its contract is not an error.
    pub fn perform(
        &self,
        task: &Task<'_>,
        stop: &dyn Fn() -> bool,
        retried: &mut dyn FnMut(&str),
    ) -> Result<Report, TaskError> {
        let Some(Member { agent, contract }) = self.members.get(task.agent) else {
            let nearest = nearest(task.agent, self.members.keys().map(String::as_str));
            return Err(TaskError::Unknown { name: task.agent.to_owned(), nearest });
        };
        let variables = agent.variables();
        let ask = |prompt: String| {
            let left = task.deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(AgentError::NoTime);
            }
            let timeout = agent.timeout().min(left);
            let command = agent.command();
            let variables = &variables;
            let question =
                Question { command, variables, prompt, timeout, max_bytes: self.max_bytes };
            self.agents.ask_here(&question, stop)
        };
        let report = |tries, answer| Report {
            agent: task.agent.to_owned(),
            role: agent.role().map(ToString::to_string),
            tries,
            answer,
        };
        let Some(contract) = contract else {
            return Ok(report(1, Answer::Text(ask(task.prompt.to_owned())?)));
        };
        let prefix = format!("{}\n\n", task.prompt.trim_end());
        let mut prompt = format!("{prefix}{}", contract.prompt());
        let mut attempt = 0;
        loop {
            let response = ask(prompt)?;
            let parsed = contract.parse(&response);
            let next = contract.next(&parsed, Turn { attempt, ..Turn::default() });
            if next.action == Action::Retry
                && let Some(reminder) = contract.reminder(&parsed)
            {
                retried(&next.reason);
                prompt = format!("{prefix}{reminder}");
                attempt += 1;
                continue;
            }
            let (contract, reason) = (contract.agent.clone(), next.reason);
            let answer = if parsed.is_complete() {
                Answer::Kept { contract, parsed, next: next.action, reason }
            } else {
                let start = response.len().saturating_sub(MAX_SHOWN_RESPONSE_BYTES);
                let response = response[response.ceil_char_boundary(start)..].to_owned();
                Answer::Broken { contract, parsed, reason, response }
            };
            return Ok(report(attempt + 1, answer));
        }
    }
}
