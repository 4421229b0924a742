//! Output contracts: how an agent's response must end, and what is done with it.
//!
//! ```text
//! ---OUTPUT---
//! approved: false
//! major: [Missing input validation, No rate limiting]
//! ---END---
//! ```
//!
//! A contract is a data file. It defines the text that is added to the agent's prompt
//! ([`Contract::prompt`]), the checks of the response ([`Contract::parse`]), the next action
//! ([`Contract::next`]), and the reminder for a retry ([`Contract::reminder`]). Those of the
//! document "Sub-Agent Output Contracts" are built in. This module runs no agent and opens no file.
//!
//! ```
//! use cofferdam_core::contract::{Action, Contracts, Turn};
//!
//! let contracts = Contracts::built_in()?;
//! let contract = contracts.get("code-reviewer")?;
//! let parsed = contract.parse(&contract.example());
//! assert_eq!(parsed.record["approved"], false);
//! assert_eq!(contract.next(&parsed, Turn::default()).action, Action::Fix);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod check;
mod field;
mod file;
mod list;
mod next;
mod parse;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::response::Marker;
use crate::schema::nearest;

pub use field::{Field, Kind};
pub use file::ContractFile;
pub use next::{Action, Condition, MAX_RETRIES, MAX_ROUNDS, Next, Rule, Test, Turn};
pub use parse::Parsed;
pub use problem::{Code, ContractProblem};

/// The files of the built-in contracts.
const BUILT_IN: [(&str, &str); 7] = {
    macro_rules! files {
        ($($name:literal),*) => {
            [$((concat!($name, ".toml"), include_str!(concat!("../../../../schemas/contracts/", $name, ".toml")))),*]
        };
    }
    files![
        "pr-review-toolkit.code-reviewer",
        "pr-review-toolkit.code-simplifier",
        "pr-review-toolkit.review-pr",
        "silent-failure-hunter",
        "tdd-task-executor",
        "todo-doc-generator",
        "type-design-analyzer"
    ]
};

/// How an agent's response must end, and what is done with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contract {
    /// The name of the agent.
    pub agent: String,
    /// One line on what the agent is for.
    pub purpose: String,
    /// The line of the prompt before the block.
    pub opening: String,
    /// For reviews: the number of rounds after which unfinished work blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// The fields, in the order of the block.
    pub fields: Vec<Field>,
    /// What is done next: the first rule that holds; the last one always does.
    pub next: Vec<Rule>,
}

/// A contract's file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ContractError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there, and what is expected.
    pub message: String,
}

/// No contract has the name, or more than one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAgent {
    /// No contract has the name.
    #[error("there is no contract for '{name}'{}", hint(.nearest))]
    Unknown {
        /// The name of the agent.
        name: String,
        /// The most similar name of an agent.
        nearest: Option<String>,
    },
    /// The short name of several agents.
    #[error("'{name}' could be {}", .agents.join(" or "))]
    Ambiguous {
        /// The name of the agent.
        name: String,
        /// The agents with that short name.
        agents: Vec<String>,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

impl Contract {
    /// Parses the text of a contract's file. Unknown keys are errors.
    ///
    /// # Errors
    /// Returns the first error, with its line.
    pub fn from_toml(text: &str) -> Result<Self, ContractError> {
        file::read(text)
    }

    /// The name of the contract's file.
    pub fn file_name(&self) -> String {
        format!("{}.toml", self.agent.replace(':', "."))
    }

    /// The text that is added to the agent's prompt (the output contracts, "Input Prompt Suffix"),
    /// with a newline at its end.
    pub fn prompt(&self) -> String {
        let fields = self.fields.iter().map(|field| (field.name.as_str(), field.hint.as_str()));
        format!("{}\n{}", self.opening, block(fields))
    }

    /// An example of a valid block (the output contracts, "Expected Output"), with a newline at its
    /// end.
    pub fn example(&self) -> String {
        block(
            self.fields
                .iter()
                .filter_map(|field| Some((field.name.as_str(), field.example.as_deref()?))),
        )
    }

    /// Parses the last block of a response.
    ///
    /// Without a block, the fields are taken from the lines of the text, and a warning with the
    /// agent's name is logged (the output contracts, "Contract Violations").
    pub fn parse(&self, response: &str) -> Parsed {
        let parsed = parse::parse(self, response);
        if let [ContractProblem { code: Code::MissingBlock, .. }, ..] = parsed.problems.as_slice() {
            tracing::warn!(
                "{}: the response has no ---OUTPUT--- block; {} of {} fields could be extracted",
                self.agent,
                parsed.extracted.len(),
                self.fields.len()
            );
        }
        parsed
    }

    /// Decides what the orchestrator does with a parsed response.
    ///
    /// An incomplete record is retried at most [`MAX_RETRIES`] times, then it blocks. For a
    /// complete one the contract's rules decide; in the last round of a review, another round is
    /// replaced by blocking.
    pub fn next(&self, parsed: &Parsed, turn: Turn) -> Next {
        if !parsed.is_complete() {
            let count = parsed.problems.len();
            let problems = if count == 1 { "problem" } else { "problems" };
            return if turn.attempt < MAX_RETRIES {
                let reason = format!(
                    "the contract is broken ({count} {problems}): run the agent again with the reminder, retry {} of {MAX_RETRIES}",
                    turn.attempt + 1
                );
                Next { action: Action::Retry, reason }
            } else {
                let reason = format!(
                    "the contract is still broken after {MAX_RETRIES} retries ({count} {problems})"
                );
                Next { action: Action::Blocked, reason }
            };
        }
        let Some(rule) = self.next.iter().find(|rule| rule.holds(&parsed.record)) else {
            // The last rule has no condition: a contract without one is refused.
            return Next { action: Action::Blocked, reason: "no rule holds".to_owned() };
        };
        match self.rounds {
            Some(rounds)
                if turn.round >= rounds && matches!(rule.then, Action::Fix | Action::Review) =>
            {
                let reason = format!("not done after {rounds} rounds: {}", rule.reason);
                Next { action: Action::Blocked, reason }
            }
            _ => Next { action: rule.then, reason: rule.reason.clone() },
        }
    }

    /// The text for the agent's retry: the problems, and the contract. `None` if the response
    /// satisfied it.
    pub fn reminder(&self, parsed: &Parsed) -> Option<String> {
        if parsed.problems.is_empty() {
            return None;
        }
        let problems: String =
            parsed.problems.iter().map(|problem| format!("- {problem}\n")).collect();
        Some(format!(
            "Your last response did not keep its output contract:\n{problems}Answer again, with all of its fields.\n\n{}",
            self.prompt()
        ))
    }

    /// Checks the contract: its example must satisfy it, its prompt must describe the values of
    /// each field, and each of its choices and rules must be reachable. Returns everything that is
    /// wrong.
    pub fn check(&self) -> Vec<String> {
        check::check(self)
    }
}

fn block<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let fields: String = fields.map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("{}\n{fields}{}\n", Marker::Output.as_str(), Marker::End.as_str())
}

/// All contracts by agent.
#[derive(Debug, Clone, Default)]
pub struct Contracts {
    by_agent: BTreeMap<String, Contract>,
}

impl Contracts {
    /// The contracts of the document "Sub-Agent Output Contracts".
    ///
    /// # Errors
    /// Returns an error if a built-in file is invalid, which its tests exclude.
    pub fn built_in() -> Result<Self, ContractError> {
        let mut contracts = Self::default();
        for (_, text) in BUILT_IN {
            contracts.add(Contract::from_toml(text)?);
        }
        Ok(contracts)
    }

    /// Adds a contract; it replaces that of the same agent.
    pub fn add(&mut self, contract: Contract) {
        self.by_agent.insert(contract.agent.clone(), contract);
    }

    /// The contracts by agent.
    pub fn iter(&self) -> impl Iterator<Item = &Contract> {
        self.by_agent.values()
    }

    /// The contract of an agent. The part of the name after `:` is sufficient if only one agent has
    /// it.
    ///
    /// # Errors
    /// Those of [`UnknownAgent`].
    pub fn get(&self, name: &str) -> Result<&Contract, UnknownAgent> {
        if let Some(contract) = self.by_agent.get(name) {
            return Ok(contract);
        }
        let short = |agent: &str| agent.rsplit_once(':').map(|(_, short)| short.to_owned());
        let found: Vec<&Contract> = self
            .iter()
            .filter(|contract| short(&contract.agent).as_deref() == Some(name))
            .collect();
        match found.as_slice() {
            [contract] => Ok(contract),
            [] => {
                let shorts: Vec<String> =
                    self.by_agent.keys().filter_map(|agent| short(agent)).collect();
                let names = self.by_agent.keys().chain(&shorts).map(String::as_str);
                Err(UnknownAgent::Unknown { name: name.to_owned(), nearest: nearest(name, names) })
            }
            several => Err(UnknownAgent::Ambiguous {
                name: name.to_owned(),
                agents: several.iter().map(|contract| contract.agent.clone()).collect(),
            }),
        }
    }
}
