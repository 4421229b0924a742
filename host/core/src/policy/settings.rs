//! `cofferdam.toml`, as it is written. Unknown keys are errors.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    BackendKind, Capabilities, Executed, Files, HistorySettings, LimitSettings, Origin,
    OriginSettings,
};

/// The settings of a workspace or of a user.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "cofferdam.toml")]
pub struct Settings {
    /// Which linters answer for a language: `python = "pyflakes"`, or several. An empty list
    /// turns a language off.
    pub linters: BTreeMap<String, OneOrMore>,
    /// The test runners that are used, in the order in which they are asked; without this, all.
    pub test_runners: Option<Vec<String>>,
    /// The builders that are used, in the order in which they are asked; without this, all.
    pub builders: Option<Vec<String>>,
    /// Where native programs are, and how they are run.
    pub programs: ProgramSettings,
    /// What plugins are granted, by plugin name. Plugins that came with the host need no entry;
    /// an entry replaces what they have.
    pub grants: BTreeMap<String, GrantSettings>,
    /// Roles, by name. One with the name of a built-in role replaces it.
    pub roles: BTreeMap<String, RoleSettings>,
    /// Agents that can be asked, by name: programs of the person's own, which run unconfined.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Tools of which each call needs the yes of a person, who is asked by the MCP client: `*`,
    /// `plugin.*` or `plugin.tool`. Where nobody can be asked, such a call is denied.
    pub ask: Vec<String>,
    /// What becomes of calls that write files which other programs execute by name, such as
    /// `.envrc`: they are named in the answer and the journal (`named`, the default), a person is
    /// asked (`ask`), or the call is denied (`refused`). A role can be stricter.
    pub executed: Executed,
    /// Absolute directories with contracts of the person's own, beside those that are built in. A
    /// later one replaces an earlier one for the same agent.
    pub contracts: Vec<PathBuf>,
    /// Registries of plugins that keep tokens or content at other origins than their own, by name
    /// (`registry.example:5000`). Only a person's own settings count.
    pub registries: BTreeMap<String, RegistrySettings>,
    /// Limits of every call and envelope.
    pub limits: LimitSettings,
    /// How long commits are kept so that they can be undone.
    pub history: HistorySettings,
}

impl Settings {
    /// Reads the text of a `cofferdam.toml`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// One name or a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    /// One.
    One(String),
    /// Several, or none.
    More(Vec<String>),
}

impl OneOrMore {
    /// The names.
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::More(names) => names,
        }
    }

    pub(super) fn into_names(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::More(names) => names,
        }
    }
}

/// Where native programs are, and how they are run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProgramSettings {
    /// Absolute directories in which programs are looked up, before those of the system.
    pub path: Vec<PathBuf>,
    /// Absolute files and directories that programs can read, beside the system's own.
    pub readable: Vec<PathBuf>,
    /// The sandbox that programs have to run in; without this, the best one that works.
    pub tier: Option<SandboxTier>,
}

/// A kind of sandbox; `cofferdam doctor` says which of them work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SandboxTier {
    /// Namespaces, Landlock and seccomp.
    A,
    /// Landlock and seccomp.
    B,
}

/// Where a registry of plugins may send on to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// The origin that gives its tokens: it is sent the name and the password that `docker login`
    /// keeps for the registry.
    pub tokens: Option<Origin>,
    /// Origins that it may send on to for content although they have private addresses.
    pub content: Vec<Origin>,
}

/// What one plugin is granted. What is left out is not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantSettings {
    /// Access to the files of the workspace.
    pub files: Files,
    /// Reading trees in bulk; needs `files`.
    pub scan: bool,
    /// Programs that it may run, by name.
    pub process: BTreeSet<String>,
    /// Variables of the host's own environment that its programs get. A plugin never sees their
    /// values: where a program prints one, it is blotted out.
    pub environment: BTreeSet<String>,
    /// The kinds of backends that it may use.
    pub backends: BTreeSet<BackendKind>,
    /// Whether it may keep something from call to call.
    pub cache: bool,
    /// Agents of these settings that it may give tasks to, by name; `"*"`: all of them. An agent
    /// runs unconfined, so whoever can call the plugin can do what the agent can be told to do.
    pub agents: BTreeSet<String>,
    /// Origins that it may ask: `"https://context7.com"`, or a table where the host has to know
    /// more about one.
    pub http: Vec<OriginSettings>,
}

impl GrantSettings {
    /// The capabilities of the grant, without what the host has to know besides them.
    pub fn capabilities(&self) -> Capabilities {
        let Self { files, scan, process, environment: _, backends, cache, agents, http } = self;
        Capabilities {
            files: *files,
            scan: *scan,
            process: process.clone(),
            backends: backends.clone(),
            cache: *cache,
            agents: agents.clone(),
            http: http.iter().map(|granted| granted.origin.clone()).collect(),
            any_origin: false,
        }
    }
}

/// A role, as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSettings {
    /// What the role is for.
    #[serde(default)]
    pub description: String,
    /// Its tools: `*`, `plugin.*` or `plugin.tool`.
    pub tools: Vec<String>,
    /// Which tool a short name means: `read = "files.read"`.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The argument of a tool that may be a path relative to the workspace, although the tool
    /// takes absolute ones only: `"files.read" = "file_path"`.
    #[serde(default)]
    pub paths: BTreeMap<String, String>,
    /// The files and directories that it may touch, relative to the workspace; empty: all.
    #[serde(default)]
    pub scope: Vec<String>,
    /// Limits that it lowers.
    #[serde(default)]
    pub limits: LimitSettings,
    /// The contract that the answers of its agents keep to.
    #[serde(default)]
    pub contract: Option<String>,
    /// What becomes of its calls that write files which other programs execute by name, where that
    /// is stricter than the settings' own `executed`: `named`, `ask` or `refused`.
    #[serde(default)]
    pub executed: Executed,
}

/// An agent that can be asked. It gets a prompt on its standard input and answers on its standard
/// output. It is not sandboxed: it runs as the person's own program, in the workspace, with the
/// host's environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgentSettings {
    /// The program, by its name in `PATH` or its absolute path, and its arguments. No shell is
    /// between.
    pub command: Vec<String>,
    /// The role that its own calls are made under.
    #[serde(default)]
    pub role: Option<String>,
    /// The contract that its answers keep to; without this, its role's.
    #[serde(default)]
    pub contract: Option<String>,
    /// How many turns it may take. Only the agent can count them: it gets the number as
    /// `COFFERDAM_MAX_TURNS`.
    #[serde(default)]
    pub max_turns: Option<NonZeroU32>,
    /// How long it may take to answer, in seconds; without this, 600.
    #[serde(default)]
    pub timeout_s: Option<u32>,
}
