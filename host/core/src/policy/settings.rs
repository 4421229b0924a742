//! The format of `cofferdam.toml`. Unknown keys are errors.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    ArgumentSettings, BackendKind, Capabilities, ConsentSettings, Executed, Files, HistorySettings,
    LimitSettings, NetworkSettings, Origin, OriginSettings, ProgramRules, SecretSettings,
    header_parts, is_consent_class,
};

/// The settings of a workspace or of a user.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "cofferdam.toml")]
pub struct Settings {
    /// Where an editor finds this schema: a file or an address. It has no other effect.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// The linters of each language: `python = "pyflakes"`, or several. An empty list turns linting
    /// of a language off.
    pub linters: BTreeMap<String, OneOrMore>,
    /// The test runners that are used, in the order in which they are tried; by default all.
    pub test_runners: Option<Vec<String>>,
    /// The builders that are used, in the order in which they are tried; by default all.
    pub builders: Option<Vec<String>>,
    /// Where native programs are, and how they are run.
    pub programs: ProgramSettings,
    /// What plugins are granted, by plugin name. Built-in plugins need no entry; an entry replaces
    /// their defaults.
    pub grants: BTreeMap<String, GrantSettings>,
    /// Roles, by name. One with the name of a built-in role replaces it.
    pub roles: BTreeMap<String, RoleSettings>,
    /// Agents that can be given tasks, by name: programs of the user, which are not sandboxed.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Tools whose calls each need the approval of the user, who is asked by the MCP client: `*`,
    /// `plugin.*` or `plugin.tool`. If the user can't be asked, the call is denied.
    pub ask: Vec<String>,
    /// Tools whose changes are held until a user accepts them with `cofferdam review`: `*`,
    /// `plugin.*` or `plugin.tool`. Later calls of the same session see them, and their changes are
    /// held as well. A role can be held as a whole.
    pub hold: Vec<String>,
    /// Tools whose calls are tasks of MCP from their beginning: `*`, `plugin.*` or `plugin.tool`. A
    /// client that does not know tasks can't call them. Calls of other tools become tasks if they take
    /// long, for clients that know tasks.
    pub tasks: Vec<String>,
    /// What happens to calls that write files which other programs execute by name, such as
    /// `.envrc`: they are named in the answer and the journal (`named`, the default), the user is
    /// asked (`ask`), or the call is denied (`refused`). A role can be stricter.
    pub executed: Executed,
    /// Files that are secret, by a name for the question: a call that has read one, or whose session
    /// has, asks the user before it sends anything to an origin that is not named here.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// Absolute directories with contracts of the user, in addition to the built-in ones. A later
    /// contract replaces an earlier one for the same agent.
    pub contracts: Vec<PathBuf>,
    /// Registries of plugins that use other origins for tokens or content, by name
    /// (`registry.example:5000`). Only the user's own settings count.
    pub registries: BTreeMap<String, RegistrySettings>,
    /// Lists of plugins that `cofferdam plugin search` looks in, by a name for them. Only the user's own
    /// settings count.
    pub catalogues: BTreeMap<String, CatalogueSettings>,
    /// Whose attestations of plugins are trusted. Only the user's own settings count.
    pub sigstore: SigstoreSettings,
    /// Limits of every call and envelope.
    pub limits: LimitSettings,
    /// How long commits are kept for undo.
    pub history: HistorySettings,
}

impl Settings {
    /// Parses the text of a `cofferdam.toml`.
    ///
    /// # Errors
    /// Returns the first error, with its line.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// One name or a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    /// A name without a list.
    One(String),
    /// Several names, or none.
    More(Vec<String>),
}

impl OneOrMore {
    /// The names as a slice.
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
    /// Absolute directories in which programs are searched before those of the system.
    pub path: Vec<PathBuf>,
    /// Absolute files and directories that programs can read, in addition to the system's own.
    pub readable: Vec<PathBuf>,
    /// The sandbox tier that programs must run in; by default the best one that works.
    pub tier: Option<SandboxTier>,
}

/// A sandbox tier; `cofferdam doctor` shows which of them work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SandboxTier {
    /// Namespaces, Landlock and seccomp.
    A,
    /// Only Landlock and seccomp.
    B,
}

/// The origins that a registry of plugins may redirect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// The origin that issues its tokens: it receives the user name and the password that `docker
    /// login` keeps for the registry.
    pub tokens: Option<Origin>,
    /// Origins with private addresses that it may redirect to for content.
    pub content: Vec<Origin>,
}

/// A signed list of plugins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogueSettings {
    /// Where it is: an absolute path, an `https://` address, or `oci://REGISTRY/REPOSITORY:catalogue`.
    pub source: String,
    /// The minisign key that signs it.
    pub key: String,
}

/// Whose attestations of plugins are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SigstoreSettings {
    /// A `trusted_root.json` with the authorities and logs that are trusted, instead of those of the public
    /// Sigstore at the time of the release. An absolute path.
    pub trusted_root: Option<PathBuf>,
}

/// What one plugin is granted. Omitted capabilities are not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantSettings {
    /// Access to the files of the workspace.
    pub files: Files,
    /// Reading trees in bulk; needs `files`.
    pub scan: bool,
    /// Programs that it may run, by name.
    pub process: BTreeSet<String>,
    /// The arguments that programs of `process` may get: `git = { allow = ["status", "diff **"] }`.
    /// A program without an entry may get any. What such a program starts itself is not compared.
    pub arguments: BTreeMap<String, ArgumentSettings>,
    /// The only programs that a program of `process` may start itself, by name:
    /// `bash = ["git", "npm", "node"]`. A program without an entry may start any that it can read.
    pub starts: BTreeMap<String, BTreeSet<String>>,
    /// Environment variables of the host that its programs get. A plugin never sees their values:
    /// they are redacted in the output of programs.
    pub environment: BTreeSet<String>,
    /// The kinds of backends that it may use.
    pub backends: BTreeSet<BackendKind>,
    /// Whether it may keep data between calls.
    pub cache: bool,
    /// Whether it may list, show and undo the commits of the session that calls it.
    pub history: bool,
    /// Whether it may commit to the git repository of the workspace.
    #[serde(rename = "git-commit")]
    pub git_commit: bool,
    /// Whether it may leave programs of `process` running after a call, until they are stopped or the
    /// session ends.
    pub background: bool,
    /// Whether it may call other tools: those of the role of its own call, each with what that tool's
    /// plugin is granted.
    pub tools: bool,
    /// Whether it may ask the user questions, and read the answers.
    pub questions: bool,
    /// Agents of these settings that it may give tasks to, by name; `"*"` for all of them. An agent
    /// is not sandboxed, so a caller of the plugin can do everything that the agent can be told to do.
    pub agents: BTreeSet<String>,
    /// Origins that it may access: `"https://context7.com"`, or a table with further settings.
    pub http: Vec<OriginSettings>,
    /// What its programs can reach, through a proxy of the host; without an entry, nothing.
    pub network: Vec<NetworkSettings>,
    /// Actions that it may take after it has asked for consent, by the class that its manifest declares:
    /// `drop = { allow = ["cache.db: *"], ask = ["*"] }`. What no pattern matches is refused.
    pub consent: BTreeMap<String, ConsentSettings>,
    /// What it reads as its configuration (`wasi:config/store`), by key. Each `${NAME}` in a value
    /// stands for that environment variable of the host; such values are redacted in answers,
    /// messages and the journal.
    pub config: BTreeMap<String, String>,
}

impl GrantSettings {
    /// Whether it has nothing but entries for the network of programs and about consent.
    pub fn is_only_rules(&self) -> bool {
        let rest = Self { network: Vec::new(), consent: BTreeMap::new(), ..self.clone() };
        let has_rules = !self.network.is_empty() || !self.consent.is_empty();
        has_rules && rest == Self::default()
    }

    /// Checks what the types of the fields don't.
    ///
    /// # Errors
    /// Returns the key of the first problem, and the problem.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        for (number, entry) in self.network.iter().enumerate() {
            entry.check().map_err(|why| (format!("network[{number}]"), why))?;
        }
        for (class, rules) in &self.consent {
            let key = || format!("consent.{}", cofferdam_text::shorten(class, 80));
            if !is_consent_class(class) {
                let why = "a class has lower-case letters, digits and '-', at most 64";
                return Err((key(), why.to_owned()));
            }
            rules.check().map_err(|why| (key(), why))?;
        }
        for (key, value) in &self.config {
            header_parts(value)
                .map_err(|why| (format!("config.{key}"), format!("its value {why}")))?;
        }
        self.program_rules().check_grant(&self.process)
    }

    /// The capabilities of the grant, without the host's settings for them.
    pub fn capabilities(&self) -> Capabilities {
        let Self {
            files,
            scan,
            process,
            arguments: _,
            starts: _,
            environment: _,
            backends,
            cache,
            history,
            git_commit,
            background,
            tools,
            questions,
            agents,
            http,
            network: _,
            consent,
            config: _,
        } = self;
        Capabilities {
            files: *files,
            scan: *scan,
            process: process.clone(),
            backends: backends.clone(),
            cache: *cache,
            history: *history,
            git_commit: *git_commit,
            background: *background,
            tools: *tools,
            agents: agents.clone(),
            http: http.iter().map(|granted| granted.origin.clone()).collect(),
            any_origin: false,
            consent: consent.keys().map(|class| (class.clone(), String::new())).collect(),
            questions: *questions,
        }
    }

    /// The rules about the programs of the grant.
    pub(super) fn program_rules(&self) -> ProgramRules {
        ProgramRules::new(&self.arguments, &self.starts)
    }
}

/// A role as written in the settings.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSettings {
    /// What the role is for.
    #[serde(default)]
    pub description: String,
    /// Its tools: `*`, `plugin.*` or `plugin.tool`.
    pub tools: Vec<String>,
    /// Whether it also includes the tools of all plugins that did not come with Cofferdam.
    #[serde(default)]
    pub installed: bool,
    /// Turns script mode on: clients list only `python.run_python` and `python.search_tools`, which the
    /// role then includes, and these of its tools (`plugin.*` or `plugin.tool`). Scripts call all of
    /// its tools.
    #[serde(default)]
    pub scripts: Option<Vec<String>>,
    /// Which tool a short name means: `read = "files.read"`.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The argument of a tool that may be a path relative to the workspace, although the tool
    /// requires absolute paths: `"files.read" = "file_path"`.
    #[serde(default)]
    pub paths: BTreeMap<String, String>,
    /// The files and directories that it may access, relative to the workspace; empty for all.
    #[serde(default)]
    pub scope: Vec<String>,
    /// The limits that it lowers.
    #[serde(default)]
    pub limits: LimitSettings,
    /// The contract of its agents' answers.
    #[serde(default)]
    pub contract: Option<String>,
    /// Whether the changes of all its calls are held until a user accepts them.
    #[serde(default)]
    pub hold: bool,
    /// What happens to its calls that write files which other programs execute by name, if that is
    /// stricter than `executed` of the settings: `named`, `ask` or `refused`.
    #[serde(default)]
    pub executed: Executed,
}

/// An agent that can be given tasks. It reads a prompt from its standard input and writes its
/// answer to its standard output. It is not sandboxed: it runs as a program of the user, in the
/// workspace, with the host's environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgentSettings {
    /// The program, by its name in `PATH` or its absolute path, and its arguments, which are passed
    /// without a shell.
    pub command: Vec<String>,
    /// The role for the agent's own calls.
    #[serde(default)]
    pub role: Option<String>,
    /// The contract of its answers; by default that of its role.
    #[serde(default)]
    pub contract: Option<String>,
    /// The largest number of turns. Only the agent can count them: it gets the number as
    /// `COFFERDAM_MAX_TURNS`.
    #[serde(default)]
    pub max_turns: Option<NonZeroU32>,
    /// The timeout of an answer in seconds; by default 600.
    #[serde(default)]
    pub timeout_s: Option<u32>,
}
