//! Output contracts: what an agent's response has to end with, and what is done about it.
//!
//! ```text
//! ---OUTPUT---
//! approved: false
//! major: [Missing input validation, No rate limiting]
//! ---END---
//! ```
//!
//! A contract is a data file. From it come the text that is added to the agent's prompt
//! ([`Contract::prompt`]), the checks of the response ([`Contract::parse`]), the next action
//! ([`Contract::next`]), and the words for another try ([`Contract::reminder`]). Those of S1
//! are built in. Pure: nothing here runs an agent or opens a file.
//!
//! ```
//! use cofferdam::contract::{Action, Contracts, Turn};
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

/// The files of S1's contracts.
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

/// What an agent's response has to end with, and what is done about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contract {
    /// The agent's name.
    pub agent: String,
    /// One line on what the agent is for.
    pub purpose: String,
    /// The line of the prompt before the block.
    pub opening: String,
    /// For reviews: how many rounds there are before work that is not done blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// The fields, in the order of the block.
    pub fields: Vec<Field>,
    /// What is done next: the first rule that holds; the last one always does.
    pub next: Vec<Rule>,
}

/// A contract's file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ContractError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there, and what would be right.
    pub message: String,
}

/// A name that no contract has, or more than one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAgent {
    /// No contract has it.
    #[error("there is no contract for '{name}'{}", hint(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// The nearest name that there is.
        nearest: Option<String>,
    },
    /// It is short for more than one.
    #[error("'{name}' could be {}", .agents.join(" or "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The agents that it could mean.
        agents: Vec<String>,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

impl Contract {
    /// Reads the text of a contract's file. Unknown keys are errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn from_toml(text: &str) -> Result<Self, ContractError> {
        file::read(text)
    }

    /// The name of the contract's file.
    pub fn file_name(&self) -> String {
        format!("{}.toml", self.agent.replace(':', "."))
    }

    /// The text that is added to the agent's prompt (S1, "Input Prompt Suffix"), with a newline
    /// at its end.
    pub fn prompt(&self) -> String {
        let fields = self.fields.iter().map(|field| (field.name.as_str(), field.hint.as_str()));
        format!("{}\n{}", self.opening, block(fields))
    }

    /// The block of a response as it ought to be (S1, "Expected Output"), with a newline at its
    /// end.
    pub fn example(&self) -> String {
        block(
            self.fields
                .iter()
                .filter_map(|field| Some((field.name.as_str(), field.example.as_deref()?))),
        )
    }

    /// Reads a response: any text, of which the last block counts.
    ///
    /// Where there is no block, the fields are taken from the lines of the text, and the log
    /// has a warning with the agent's name (S1, "Contract Violations").
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

    /// What the orchestrator does with a response that was read.
    ///
    /// A record that is not whole is asked for again, at most [`MAX_RETRIES`] times, then it
    /// blocks. For a whole one the contract's rules decide; in the last round of a review, what
    /// would lead to another one blocks.
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
            // The last rule has no condition: a contract is not read without one.
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

    /// What the agent is told when it is run again: what was wrong, and the contract. None: the
    /// response kept it.
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

    /// Proves the contract: its example keeps it, its prompt says what each field may be, and
    /// each of its choices and rules can be reached. Says everything that is wrong.
    pub fn check(&self) -> Vec<String> {
        check::check(self)
    }
}

fn block<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let fields: String = fields.map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("{}\n{fields}{}\n", Marker::Output.as_str(), Marker::End.as_str())
}

/// The contracts that there are, by agent.
#[derive(Debug, Clone, Default)]
pub struct Contracts {
    by_agent: BTreeMap<String, Contract>,
}

impl Contracts {
    /// The contracts of S1.
    ///
    /// # Errors
    /// A file that came with the host is broken, which its tests rule out.
    pub fn built_in() -> Result<Self, ContractError> {
        let mut contracts = Self::default();
        for (_, text) in BUILT_IN {
            contracts.add(Contract::from_toml(text)?);
        }
        Ok(contracts)
    }

    /// Adds a contract; it replaces one for the same agent.
    pub fn add(&mut self, contract: Contract) {
        self.by_agent.insert(contract.agent.clone(), contract);
    }

    /// The contracts, by agent.
    pub fn iter(&self) -> impl Iterator<Item = &Contract> {
        self.by_agent.values()
    }

    /// The contract of an agent. What follows the `:` of a name will do where only one agent
    /// has it.
    ///
    /// # Errors
    /// A name that no contract has, or more than one.
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
