//! Agents that can be given tasks: programs that the user names in the settings.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{AgentSettings, PolicyError};
use crate::name::RoleName;

/// The variable with an agent's own name in the settings, for the record of its calls.
pub const AGENT_VARIABLE: &str = "COFFERDAM_AGENT";

/// The default timeout of an agent.
pub const AGENT_TIMEOUT: Duration = Duration::from_secs(600);

/// The environment variable with the role of an agent.
pub const ROLE_VARIABLE: &str = "COFFERDAM_ROLE";

/// The environment variable with the largest number of turns of an agent.
const TURNS_VARIABLE: &str = "COFFERDAM_MAX_TURNS";

/// The longest timeout of an agent in seconds: a day.
const MAX_TIMEOUT_SECONDS: u32 = 24 * 60 * 60;

/// The longest name of an agent in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A program and its arguments, which are passed without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    program: String,
    arguments: Vec<String>,
}

/// The words are not a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentCommandError {
    /// No program is named.
    #[error("no program is named; write a program and its arguments")]
    Empty,
    /// A relative path depends on the working directory.
    #[error("'{0}' is a relative path; write a name that is found in PATH, or an absolute path")]
    Relative(String),
    /// No operating system passes a NUL.
    #[error("the command holds a NUL character")]
    Nul,
}

impl AgentCommand {
    /// Creates a command from its words: the program's name or absolute path, and its arguments.
    ///
    /// # Errors
    /// Those of [`AgentCommandError`].
    pub fn new(words: &[String]) -> Result<Self, AgentCommandError> {
        let Some((program, arguments)) = words.split_first().filter(|(name, _)| !name.is_empty())
        else {
            return Err(AgentCommandError::Empty);
        };
        if words.iter().any(|word| word.contains('\0')) {
            return Err(AgentCommandError::Nul);
        }
        let is_name = !program.contains('/') && program != "." && program != "..";
        if !is_name && !program.starts_with('/') {
            return Err(AgentCommandError::Relative(program.clone()));
        }
        Ok(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// A name that is searched in `PATH`, or an absolute path.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The arguments of the program.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// An agent of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    name: String,
    command: AgentCommand,
    role: Option<RoleName>,
    contract: Option<String>,
    max_turns: Option<NonZeroU32>,
    timeout: Duration,
}

impl Agent {
    /// Creates an agent from its settings. Whether its role exists is checked when all settings are
    /// known.
    ///
    /// # Errors
    /// Returns an error if the name, the command or the timeout is invalid.
    pub(super) fn new(name: &str, settings: &AgentSettings) -> Result<Self, PolicyError> {
        let wrong = |key: &str, message: String| PolicyError {
            place: format!("agents.{name}{key}"),
            message,
        };
        if !is_name(name) {
            let message = format!("'{name}' is no name: letters, digits, '-', '_' and '.'");
            return Err(wrong("", message));
        }
        let timeout = match settings.timeout_s {
            None => AGENT_TIMEOUT,
            Some(0) => {
                let message = "0 is too little; leave the key out for the default".to_owned();
                return Err(wrong(".timeout-s", message));
            }
            Some(seconds) if seconds > MAX_TIMEOUT_SECONDS => {
                let message = format!("{seconds} is more than the most, {MAX_TIMEOUT_SECONDS}");
                return Err(wrong(".timeout-s", message));
            }
            Some(seconds) => Duration::from_secs(seconds.into()),
        };
        Ok(Self {
            name: name.to_owned(),
            command: AgentCommand::new(&settings.command)
                .map_err(|error| wrong(".command", error.to_string()))?,
            role: settings.role.as_deref().map(RoleName::from),
            contract: settings.contract.clone(),
            max_turns: settings.max_turns,
            timeout,
        })
    }

    /// The agent's name in the settings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program that is run.
    pub fn command(&self) -> &AgentCommand {
        &self.command
    }

    /// The role for the agent's own calls.
    pub fn role(&self) -> Option<&RoleName> {
        self.role.as_ref()
    }

    /// The contract of its answers, if it differs from that of its role.
    pub fn contract(&self) -> Option<&str> {
        self.contract.as_deref()
    }

    /// The largest number of turns that it is told.
    pub fn max_turns(&self) -> Option<NonZeroU32> {
        self.max_turns
    }

    /// The environment variables for it: `COFFERDAM_ROLE`, the role that `cofferdam` then uses for
    /// its calls, `COFFERDAM_AGENT`, its name for the record of them, and `COFFERDAM_MAX_TURNS`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let role = self.role.clone().map(|role| (ROLE_VARIABLE.to_owned(), role.into()));
        let turns = self.max_turns.map(|n| (TURNS_VARIABLE.to_owned(), n.to_string()));
        let name = (AGENT_VARIABLE.to_owned(), self.name.clone());
        role.into_iter().chain([name]).chain(turns).collect()
    }

    /// The timeout of an answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// Whether this is a valid name of an agent.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::policy::{Policy, Settings};

    fn policy(layers: &[&str]) -> Result<Policy, String> {
        let layers: Result<Vec<_>, _> = layers.iter().map(|layer| Settings::parse(layer)).collect();
        Policy::new(&layers.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    #[test]
    fn a_later_layer_replaces_an_agent() {
        let policy = policy(&[
            "[agents.designer]\ncommand = ['a']\n[agents.qa]\ncommand = ['b']\nrole = 'mine'",
            "[roles.mine]\ntools = ['*']\n[agents.designer]\ncommand = ['/opt/c', '-p', 'x y']\n\
             timeout-s = 60\ncontract = 'tdd-task-executor'\nmax-turns = 15",
        ])
        .unwrap();
        let names: Vec<&str> = policy.agents().map(Agent::name).collect();
        assert_eq!(names, ["designer", "qa"]);
        let designer = policy.agent("designer").unwrap();
        assert_eq!(designer.command().program(), "/opt/c");
        assert_eq!(designer.command().arguments(), ["-p", "x y"]);
        assert_eq!(designer.timeout(), Duration::from_secs(60));
        assert_eq!(designer.contract(), Some("tdd-task-executor"));
        assert_eq!(designer.max_turns().map(NonZeroU32::get), Some(15));
        let turns = ("COFFERDAM_MAX_TURNS".to_owned(), "15".to_owned());
        let name = |name: &str| ("COFFERDAM_AGENT".to_owned(), name.to_owned());
        assert_eq!(designer.variables(), [name("designer"), turns]);
        let qa = policy.agent("qa").unwrap();
        let role = ("COFFERDAM_ROLE".to_owned(), "mine".to_owned());
        assert_eq!(qa.variables(), [role, name("qa")]);
        assert_eq!((qa.role(), qa.timeout()), (Some(&"mine".into()), AGENT_TIMEOUT));
        assert!(policy.agent("main").is_none());
    }

    #[test]
    fn invalid_agents_are_refused() {
        for (toml, wanted) in [
            ("[agents.a]", "missing field `command`"),
            ("[agents.a]\ncommand = 'sh -c x'", "expected a sequence"),
            ("[agents.a]\ncommand = ['x']\nshell = true", "unknown field `shell`"),
            ("[agents.a]\ncommand = []", "agents.a.command: no program is named"),
            ("[agents.a]\ncommand = ['']", "agents.a.command: no program is named"),
            ("[agents.a]\ncommand = ['bin/x']", "agents.a.command: 'bin/x' is a relative path"),
            ("[agents.a]\ncommand = ['./x']", "agents.a.command: './x' is a relative path"),
            ("[agents.a]\ncommand = ['..']", "agents.a.command: '..' is a relative path"),
            ("[agents.a]\ncommand = [\"x\", \"\\u0000\"]", "agents.a.command: the command holds"),
            ("[agents.a]\ncommand = ['x']\ntimeout-s = 0", "agents.a.timeout-s: 0 is too little"),
            ("[agents.a]\ncommand = ['x']\ntimeout-s = 86401", "agents.a.timeout-s: 86401 is more"),
            ("[agents.a]\ncommand = ['x']\nrole = 'no'", "agents.a.role: there is no role 'no'"),
            ("[agents.a]\ncommand = ['x']\nmax-turns = 0", "expected a nonzero u32"),
            ("[agents.'a b']\ncommand = ['x']", "agents.a b: 'a b' is no name"),
        ] {
            let error = policy(&[toml]).unwrap_err();
            assert!(error.contains(wanted), "{toml}: {error}");
        }
    }
}
