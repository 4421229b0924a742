//! Arguments of `contract`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Printed;

#[derive(Debug, Args)]
pub struct Contract {
    #[command(flatten)]
    pub printed: Printed,
    /// Take the contracts in this directory as well, `*.toml` (may be repeated)
    #[arg(long, global = true, value_name = "DIR")]
    pub contracts: Vec<PathBuf>,
    #[command(subcommand)]
    pub command: ContractCommand,
}

#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// List the contracts
    #[command(after_help = "\
Examples:
  cofferdam contract list --format text
  cofferdam contract list --contracts ./contracts")]
    List,
    /// Show a contract: its fields, its prompt, an example, and what is done next
    #[command(after_help = "\
Examples:
  cofferdam contract show code-reviewer --format text")]
    Show {
        /// The agent, or what follows the `:` of its name
        agent: String,
    },
    /// Print the text that is added to the agent's prompt
    #[command(after_help = "\
Examples:
  cofferdam contract prompt tdd-task-executor --format text >> prompt.txt")]
    Prompt {
        /// The agent, or what follows the `:` of its name
        agent: String,
    },
    /// Read an agent's response, and say what is done next
    ///
    /// Exits with 1 where the response breaks the contract. `next` is then `retry`, with a
    /// `reminder` for the agent, or after two retries `blocked`.
    #[command(after_help = "\
Examples:
  cofferdam contract parse tdd-task-executor response.txt
  cofferdam contract parse code-reviewer --round 3 < response.txt
  cofferdam contract parse code-reviewer --attempt 1 --format text response.txt")]
    Parse {
        /// The agent, or what follows the `:` of its name
        agent: String,
        /// Its response; `-`: standard input
        #[arg(default_value = "-")]
        file: PathBuf,
        /// How often the agent was run again for this response
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
        attempt: u32,
        /// Which round of review this is
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
        round: u32,
    },
    /// Prove contracts: examples, prompts and rules fit their fields, and each rule is reached
    #[command(after_help = "\
Examples:
  cofferdam contract check
  cofferdam contract check ./contracts/my-agent.toml --format text")]
    Check {
        /// Agents, or contracts' files; all contracts where none is named
        // Not `contracts`: that is the group's option.
        #[arg(value_name = "AGENT|FILE")]
        names: Vec<String>,
    },
}
