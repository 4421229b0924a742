//! The agents of the settings, each with the contract that its answers keep to. A task is given to
//! one of them, and given again with the contract's reminder where the answer breaks it (S1,
//! "Contract Violations").

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AgentError, Agents, Question};
use cofferdam_core::contract::{Action, Contract, Contracts, Parsed, Turn, UnknownAgent};
use cofferdam_core::policy::{Agent, Policy, PolicyError, Role};
use cofferdam_core::schema::nearest;
use cofferdam_workspace::Workspace;

/// How much of an answer that broke its contract is shown, in bytes.
const SHOWN: usize = 4 << 10;

/// Agents that tasks can be given to.
#[derive(Clone)]
pub struct Team {
    agents: Agents,
    members: BTreeMap<String, Member>,
    most: usize,
}

#[derive(Debug, Clone)]
struct Member {
    agent: Agent,
    contract: Option<Contract>,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The agent.
    pub agent: String,
    /// The role that its own calls were made under.
    pub role: Option<String>,
    /// How often it was asked.
    pub tries: u32,
    /// What it answered in the end.
    pub answer: Answer,
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It has no contract: all that it said.
    Text(String),
    /// Its record is whole.
    Kept {
        /// The contract's agent.
        contract: String,
        /// The record, and what is wrong with the answer all the same.
        parsed: Parsed,
        /// What the contract says is done next.
        next: Action,
        /// Why.
        reason: String,
    },
    /// Its record was not whole when it had been asked for the last time.
    Broken {
        /// The contract's agent.
        contract: String,
        /// What was wrong in the end.
        parsed: Parsed,
        /// Why it is not asked again.
        reason: String,
        /// The end of what it said last.
        response: String,
    },
}

/// Why a task was not done.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The settings name no such agent.
    #[error("there is no agent '{name}'{}", hint(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// The nearest name that there is.
        nearest: Option<String>,
    },
    /// It gave no answer.
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
    /// The agents of a policy. Their answers may have `most` bytes.
    ///
    /// # Errors
    /// A contract of an agent or a role that does not exist.
    pub fn new(
        agents: Agents,
        policy: &Policy,
        contracts: &Contracts,
        most: usize,
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
        Ok(Self { agents, members, most })
    }

    /// No agents.
    pub fn none(workspace: Arc<Workspace>) -> Self {
        let agents = Agents::new(workspace, HashMap::new());
        Self { agents, members: BTreeMap::new(), most: 0 }
    }

    /// Whether there is an agent of this name.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Has an agent do a task, on this thread. It is ended at `deadline`, or when `stop` says so;
    /// `retried` hears why it is asked again.
    ///
    /// # Errors
    /// See [`TaskError`]. An answer that breaks its contract is not an error.
    pub fn perform(
        &self,
        name: &str,
        task: &str,
        deadline: Instant,
        stop: &dyn Fn() -> bool,
        retried: &mut dyn FnMut(&str),
    ) -> Result<Report, TaskError> {
        let Some(Member { agent, contract }) = self.members.get(name) else {
            let nearest = nearest(name, self.members.keys().map(String::as_str));
            return Err(TaskError::Unknown { name: name.to_owned(), nearest });
        };
        let variables = agent.variables();
        let ask = |prompt: String| {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(AgentError::NoTime);
            }
            let timeout = agent.timeout().min(left);
            let command = agent.command();
            let variables = &variables;
            let question = Question { command, variables, prompt, timeout, most: self.most };
            self.agents.ask_here(&question, stop)
        };
        let report = |tries, answer| Report {
            agent: name.to_owned(),
            role: agent.role().map(ToString::to_string),
            tries,
            answer,
        };
        let Some(contract) = contract else {
            return Ok(report(1, Answer::Text(ask(task.to_owned())?)));
        };
        let task = format!("{}\n\n", task.trim_end());
        let mut prompt = format!("{task}{}", contract.prompt());
        let mut attempt = 0;
        loop {
            let response = ask(prompt)?;
            let parsed = contract.parse(&response);
            let next = contract.next(&parsed, Turn { attempt, ..Turn::default() });
            if next.action == Action::Retry
                && let Some(reminder) = contract.reminder(&parsed)
            {
                retried(&next.reason);
                prompt = format!("{task}{reminder}");
                attempt += 1;
                continue;
            }
            let (contract, reason) = (contract.agent.clone(), next.reason);
            let answer = if parsed.is_complete() {
                Answer::Kept { contract, parsed, next: next.action, reason }
            } else {
                let end = response.ceil_char_boundary(response.len().saturating_sub(SHOWN));
                let response = response[end..].to_owned();
                Answer::Broken { contract, parsed, reason, response }
            };
            return Ok(report(attempt + 1, answer));
        }
    }
}
