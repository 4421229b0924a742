//! What a call may do: roles, scopes, grants and limits. Pure decisions without I/O; the command
//! line reads the settings.
//!
//! A plugin requests, the user grants, a role and a tool narrow; a call gets the intersection of all
//! of them. Nothing in an envelope influences a decision.

mod agents;
mod arguments;
mod backends;
mod call_pattern;
mod capabilities;
mod capability;
mod consent;
mod denial;
mod executed;
pub mod git;
mod limits;
mod network;
mod origin;
mod origin_settings;
mod pattern;
pub mod place;
mod role;
mod scope;
mod secret_files;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::name::RoleName;
use pattern::Pattern;

pub use agents::{
    AGENT_TIMEOUT, AGENT_VARIABLE, Agent, AgentCommand, AgentCommandError, ROLE_VARIABLE,
    is_name as is_agent_name,
};
pub use arguments::{
    ArgumentDenial, ArgumentPattern, ArgumentPatternError, ArgumentSettings, ProgramRules,
};
pub use backends::Choices;
pub use call_pattern::CallPattern;
pub use capabilities::{BackendKind, Capabilities, Files};
pub use capability::{Capability, CapabilityError};
pub use consent::{
    ConsentRule, ConsentSettings, MAX_CONSENT_KEY_BYTES, check_consent_classes, is_consent_class,
};
pub use denial::{Denial, GrantList};
pub use executed::{Executed, executed_by, may_lead_to_executed};
pub use limits::{HistorySettings, LimitKey, LimitSettings, Limits, Retention};
pub use network::{
    Bundle, BundleName, CredentialSettings, NetworkRefusal, NetworkRule, NetworkRules,
    NetworkSettings, Tunnel,
};
pub use origin::{Origin, OriginError, OriginHost};
pub use origin_settings::OriginSettings;
pub use origin_settings::{HeaderPart, header_parts, is_transport_header};
pub use place::Place;
pub use role::Role;
pub use scope::{OWN, Scope, ScopeError, folded, folded_place, is_own, protected};
pub use secret_files::{SecretFiles, SecretSettings};
pub use settings::{
    AgentSettings, CatalogueSettings, GrantSettings, OneOrMore, ProgramSettings, RegistrySettings,
    RoleSettings, SandboxTier, Settings, SigstoreSettings,
};

/// The user's settings, checked.
#[derive(Debug, Clone)]
pub struct Policy {
    grants: BTreeMap<String, GrantSettings>,
    roles: BTreeMap<RoleName, Role>,
    limits: Limits,
    retention: Retention,
    choices: Choices,
    programs: ProgramSettings,
    agents: BTreeMap<String, Agent>,
    ask: Vec<Pattern>,
    hold: Vec<Pattern>,
    tasks: Vec<Pattern>,
    executed: Executed,
    secrets: Arc<SecretFiles>,
}

/// A setting that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct PolicyError {
    /// The key, such as `roles.reviewer.scope`.
    pub place: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// The parts of a tool that a decision depends on.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The plugin's name.
    pub plugin: &'a str,
    /// Whether the plugin came with the host.
    pub built_in: bool,
    /// What the plugin's manifest requests.
    pub requests: &'a Capabilities,
    /// Whether the plugin works with fewer files and origins than it requests.
    pub as_granted: bool,
    /// The limits in the manifest.
    pub limits: LimitSettings,
    /// The tool's short name.
    pub tool: &'a str,
    /// The access to files that this tool needs, by its manifest.
    pub effects: Files,
    /// Whether this tool gives tasks to agents, by its manifest.
    pub asks_agents: bool,
}

/// What a call may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The capabilities that its instance is linked with.
    pub capabilities: Capabilities,
    /// The paths that it may access.
    pub scope: Scope,
    /// The limits at which it is stopped.
    pub limits: Limits,
    /// The argument that may be a path relative to the workspace; the host makes it absolute.
    pub path_argument: Option<String>,
    /// Whether the user has to approve this call first.
    pub ask: bool,
    /// Whether its changes are held until a user accepts them.
    pub hold: bool,
}

impl Policy {
    /// Merges layers of settings, later ones over earlier ones, over the built-in roles and limits.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn new(layers: &[Settings]) -> Result<Self, PolicyError> {
        let policy = Self::layered(layers)?;
        let roles = |agent: &&Agent| agent.role().is_some_and(|role| policy.role(role).is_none());
        if let Some(agent) = policy.agents().find(roles) {
            return Err(PolicyError {
                place: format!("agents.{}.role", agent.name()),
                message: format!("there is no role '{}'", agent.role().map_or("", |role| role)),
            });
        }
        Ok(policy)
    }

    /// Checks one layer by itself, except for roles that another layer may define.
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn check(layer: &Settings) -> Result<(), PolicyError> {
        Self::layered(std::slice::from_ref(layer)).map(drop)
    }

    fn layered(layers: &[Settings]) -> Result<Self, PolicyError> {
        let mut policy = Self {
            grants: BTreeMap::new(),
            roles: role::built_in()?,
            limits: Limits::DEFAULT,
            retention: Retention::DEFAULT,
            choices: Choices::default(),
            programs: ProgramSettings::default(),
            agents: BTreeMap::new(),
            ask: Vec::new(),
            hold: Vec::new(),
            tasks: Vec::new(),
            executed: Executed::default(),
            secrets: Arc::default(),
        };
        let mut secrets = SecretFiles::default();
        for layer in layers {
            for (plugin, grant) in &layer.grants {
                grant.check().map_err(|(key, message)| PolicyError {
                    place: format!("grants.{plugin}.{key}"),
                    message,
                })?;
                policy.grants.insert(plugin.clone(), grant.clone());
            }
            for (name, settings) in &layer.roles {
                policy.roles.insert(name.as_str().into(), Role::new(name, settings)?);
            }
            policy.ask.extend(
                Pattern::parse_all(&layer.ask)
                    .map_err(|message| PolicyError { place: "ask".to_owned(), message })?,
            );
            policy.hold.extend(
                Pattern::parse_all(&layer.hold)
                    .map_err(|message| PolicyError { place: "hold".to_owned(), message })?,
            );
            policy.tasks.extend(
                Pattern::parse_all(&layer.tasks)
                    .map_err(|message| PolicyError { place: "tasks".to_owned(), message })?,
            );
            policy.executed = policy.executed.max(layer.executed);
            policy.limits = policy.limits.with(&layer.limits)?;
            policy.retention = policy.retention.with(&layer.history);
            policy.choices = policy.choices.with(layer);
            policy.programs = backends::with_programs(policy.programs, &layer.programs)?;
            for (name, settings) in &layer.agents {
                policy.agents.insert(name.clone(), Agent::new(name, settings)?);
            }
            for (name, settings) in &layer.secrets {
                secrets.add(name, settings)?;
            }
        }
        policy.secrets = Arc::new(secrets);
        Ok(policy)
    }

    /// Adds a role, which replaces one of its name.
    #[must_use]
    pub fn with_role(mut self, role: Role) -> Self {
        self.roles.insert(role.name().clone(), role);
        self
    }

    /// Turns script mode on in all roles ([`Role::in_script_mode`]).
    ///
    /// # Errors
    /// A text of `also` that is no pattern.
    pub fn in_script_mode(mut self, also: &[String]) -> Result<Self, PolicyError> {
        let roles = std::mem::take(&mut self.roles).into_iter();
        let roles = roles.map(|(name, role)| Ok((name, role.in_script_mode(also)?)));
        self.roles = roles.collect::<Result<_, String>>().map_err(|message| PolicyError {
            place: "the tools that are listed beside scripts".to_owned(),
            message,
        })?;
        Ok(self)
    }

    /// The limits of all calls.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How long commits are kept.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Which backends the user prefers.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Where native programs are, and in which sandbox they run.
    pub fn programs(&self) -> &ProgramSettings {
        &self.programs
    }

    /// All agents that can be asked, by name.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// Returns the agent with this name, if the settings have one.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name)
    }

    /// The variables of the host's own environment that a plugin's programs get.
    pub fn environment(&self, plugin: &str) -> impl Iterator<Item = &str> {
        let granted = self.grants.get(plugin).map(|grant| &grant.environment);
        granted.into_iter().flat_map(BTreeSet::iter).map(String::as_str)
    }

    /// The rules about the programs that a plugin is granted.
    pub fn program_rules(&self, plugin: &str) -> ProgramRules {
        self.grants.get(plugin).map(GrantSettings::program_rules).unwrap_or_default()
    }

    /// The settings of the origins that a plugin is granted.
    pub fn origins(&self, plugin: &str) -> &[OriginSettings] {
        self.grants.get(plugin).map_or(&[], |grant| &grant.http)
    }

    /// What the programs of a plugin can reach through the proxy.
    pub fn network(&self, plugin: &str) -> &[NetworkSettings] {
        self.grants.get(plugin).map_or(&[], |grant| &grant.network)
    }

    /// The rules about actions that a plugin asks consent for, by class.
    pub fn consent(&self, plugin: &str) -> BTreeMap<String, ConsentSettings> {
        self.grants.get(plugin).map(|grant| grant.consent.clone()).unwrap_or_default()
    }

    /// What a plugin reads as its configuration.
    pub fn config(&self, plugin: &str) -> BTreeMap<String, String> {
        self.grants.get(plugin).map(|grant| grant.config.clone()).unwrap_or_default()
    }

    /// The tools whose calls each need the user's approval: `*`, `plugin.*` or `plugin.tool`.
    pub fn ask(&self) -> impl Iterator<Item = String> {
        self.ask.iter().map(Pattern::to_string)
    }

    /// What happens to calls under a role that write files which other programs execute by name: the
    /// stricter of the settings and the role.
    pub fn executed(&self, role: Option<&Role>) -> Executed {
        role.map_or(self.executed, |role| self.executed.max(role.executed()))
    }

    /// Those of [`Self::ask`] that match none of `tools`, which are pairs of plugin and short name.
    pub fn ask_without_tools(&self, tools: &[(&str, &str)]) -> Vec<String> {
        pattern::without_tools(&self.ask, tools)
    }

    /// Whether calls of any tool are tasks from their beginning.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether calls of a tool are tasks from their beginning.
    pub fn is_task(&self, plugin: &str, tool: &str) -> bool {
        self.tasks.iter().any(|pattern| pattern.matches(plugin, tool))
    }

    /// Those of the settings' `tasks` that match none of `tools`, which are pairs of plugin and short name.
    pub fn tasks_without_tools(&self, tools: &[(&str, &str)]) -> Vec<String> {
        pattern::without_tools(&self.tasks, tools)
    }

    /// The tools whose changes are held: `*`, `plugin.*` or `plugin.tool`.
    pub fn hold(&self) -> impl Iterator<Item = String> {
        self.hold.iter().map(Pattern::to_string)
    }

    /// Those of [`Self::hold`] that match none of `tools`, which are pairs of plugin and short name.
    pub fn hold_without_tools(&self, tools: &[(&str, &str)]) -> Vec<String> {
        pattern::without_tools(&self.hold, tools)
    }

    /// The files that are secret, and the origins that may receive what was read there.
    pub fn secrets(&self) -> &Arc<SecretFiles> {
        &self.secrets
    }

    /// All roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// Returns the role with this name, if the settings have one.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// The most that a plugin gets: what it requests and the user grants. Unless the settings say
    /// otherwise, a built-in plugin is granted what it requests except shells, agents and the network,
    /// and another plugin nothing. Settings with nothing but a network for its programs and rules about
    /// consent say nothing else.
    pub fn capabilities(
        &self,
        plugin: &str,
        built_in: bool,
        requests: &Capabilities,
    ) -> Capabilities {
        match self.grants.get(plugin) {
            Some(grant) if built_in && grant.is_only_rules() => {
                requests.unasked().join(&requests.meet(&grant.capabilities()))
            }
            Some(grant) => requests.meet(&grant.capabilities()),
            None if built_in => requests.unasked(),
            None => Capabilities::NONE,
        }
    }

    /// Decides what one call may do.
    ///
    /// # Errors
    /// [`Denial::NotInRole`] if the role does not include the tool; [`Denial::Files`],
    /// [`Denial::List`] and [`Denial::Switch`] if the plugin is not granted what the tool needs. Which
    /// tools of a plugin that did not come with the host need programs, backends, origins or switches is
    /// not known: without the grant, the call that uses the import ends there.
    pub fn decide(&self, subject: &Subject<'_>, role: Option<&Role>) -> Result<Grant, Denial> {
        let (plugin, tool) = (subject.plugin.to_owned(), subject.tool.to_owned());
        if let Some(role) = role.filter(|role| !role.allows(&plugin, &tool, subject.built_in)) {
            return Err(Denial::NotInRole { role: role.name().clone(), plugin, tool });
        }
        let granted = self.capabilities(&plugin, subject.built_in, subject.requests);
        let wanted = subject.wanted(&granted);
        if granted.files < wanted.files {
            let (needed, granted) = (wanted.files, granted.files);
            return Err(Denial::Files { plugin, tool, needed, granted });
        }
        let capabilities = granted.meet(&wanted);
        let is_missing = |list: &GrantList| {
            let is_checked = subject.built_in || *list == GrantList::Agents;
            is_checked && list.is_empty(&capabilities) && !list.is_empty(&wanted)
        };
        if let Some(list) = GrantList::ALL.into_iter().find(is_missing) {
            let wanted = Capabilities { agents: self.named(&wanted.agents), ..wanted };
            let enough = Box::new(list.replaced(granted, wanted));
            return Err(Denial::List { plugin, tool, list, enough });
        }
        let is_missing = |switch: &Capability| {
            subject.built_in && wanted.holds(switch) && !capabilities.holds(switch)
        };
        let switches = [
            Capability::History,
            Capability::GitCommit,
            Capability::Background,
            Capability::Tools,
            Capability::Questions,
        ];
        if let Some(switch) = switches.into_iter().find(is_missing) {
            let Capabilities { history, git_commit, background, tools, questions, .. } = wanted;
            let enough =
                Capabilities { history, git_commit, background, tools, questions, ..capabilities };
            let enough = Box::new(enough);
            return Err(Denial::Switch { plugin, tool, switch, enough });
        }
        Ok(Grant {
            scope: role.map(|role| role.scope().clone()).unwrap_or_default(),
            limits: self.limits_of(subject, role, capabilities.runs_programs()),
            path_argument: role
                .and_then(|role| role.path_argument(&format!("{plugin}.{tool}")))
                .map(str::to_owned),
            ask: self.ask.iter().any(|pattern| pattern.matches(&plugin, &tool)),
            hold: role.is_some_and(Role::holds)
                || self.hold.iter().any(|pattern| pattern.matches(&plugin, &tool)),
            capabilities,
        })
    }

    /// The limits of a call: the settings', lowered by the manifest and the role.
    fn limits_of(&self, subject: &Subject<'_>, role: Option<&Role>, runs_programs: bool) -> Limits {
        let mut most = self.limits.clone();
        if runs_programs {
            most.call = most.program_call;
        }
        let limits = most.lowered(&subject.limits);
        role.map(|role| limits.lowered(role.limits())).unwrap_or(limits)
    }

    /// `agents`, with `*` replaced by the names in the settings if there are any.
    fn named(&self, agents: &BTreeSet<String>) -> BTreeSet<String> {
        if agents.contains("*") && !self.agents.is_empty() {
            return self.agents.keys().cloned().collect();
        }
        agents.clone()
    }
}

impl Subject<'_> {
    /// What the tool needs of what its plugin requests.
    fn wanted(&self, granted: &Capabilities) -> Capabilities {
        let most = if self.as_granted { granted.files } else { Files::Write };
        let agents = if self.asks_agents { self.requests.agents.clone() } else { BTreeSet::new() };
        Capabilities { files: self.effects.min(most), agents, ..self.requests.clone() }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::outcome::DenialCode;

    fn policy(toml: &str) -> Result<Policy, String> {
        let settings = Settings::parse(toml).map_err(|error| error.to_string())?;
        Policy::new(&[settings]).map_err(|error| error.to_string())
    }

    static REQUESTS: std::sync::OnceLock<Capabilities> = std::sync::OnceLock::new();

    fn subject(plugin: &'static str, effects: Files) -> Subject<'static> {
        Subject {
            plugin,
            built_in: plugin != "stranger",
            requests: REQUESTS.get_or_init(|| Capabilities {
                files: Files::Write,
                scan: true,
                ..Capabilities::NONE
            }),
            as_granted: false,
            limits: LimitSettings { memory_mb: Some(64), ..LimitSettings::default() },
            tool: "tool",
            asks_agents: false,
            effects,
        }
    }

    #[test]
    fn a_tool_is_denied_without_a_capability_that_its_plugin_needs() {
        let requests = Capabilities {
            files: Files::Write,
            git_commit: true,
            history: true,
            ..Capabilities::NONE
        };
        let decide = |toml: &str| {
            let subject = Subject { requests: &requests, ..subject("commits", Files::Read) };
            policy(toml).unwrap().decide(&subject, None)
        };
        // What is never granted unasked.
        let denial = decide("").unwrap_err();
        assert_eq!(denial.code(), DenialCode::NotGranted);
        let message = denial.to_string();
        assert!(message.contains("needs git-commit"), "{message}");
        assert!(
            message
                .contains("[grants.commits]\nfiles = \"read\"\nhistory = true\ngit-commit = true")
        );
        let denial = decide("[grants.commits]\nfiles = 'write'\ngit-commit = true").unwrap_err();
        assert!(denial.to_string().contains("needs history"), "{denial}");
        decide("[grants.commits]\nfiles = 'read'\ngit-commit = true\nhistory = true").unwrap();
    }

    #[test]
    fn a_call_gets_the_meet_of_request_grant_role_and_tool() {
        for (toml, plugin, role, effects, wanted) in [
            ("", "files", None, Files::Write, Ok((Files::Write, true))),
            ("", "files", None, Files::Read, Ok((Files::Read, true))),
            ("", "stranger", None, Files::None, Ok((Files::None, false))),
            ("", "stranger", None, Files::Read, Err("NotGranted")),
            (
                "[grants.stranger]\nfiles = 'read'",
                "stranger",
                None,
                Files::Read,
                Ok((Files::Read, false)),
            ),
            (
                "[grants.stranger]\nfiles = 'read'",
                "stranger",
                None,
                Files::Write,
                Err("NotGranted"),
            ),
            ("[grants.files]\nfiles = 'read'", "files", None, Files::Write, Err("NotGranted")),
            ("[grants.files]", "files", None, Files::Read, Err("NotGranted")),
            (
                "[roles.r]\ntools = ['files.*']",
                "files",
                Some("r"),
                Files::Read,
                Ok((Files::Read, true)),
            ),
            (
                "[roles.r]\ntools = ['files.tool']",
                "files",
                Some("r"),
                Files::Read,
                Ok((Files::Read, true)),
            ),
            (
                "[roles.r]\ntools = ['files.other', 'grep.*']",
                "files",
                Some("r"),
                Files::Read,
                Err("ToolNotInRole"),
            ),
            ("[roles.r]\ntools = []", "files", Some("r"), Files::Read, Err("ToolNotInRole")),
            // A role never widens what the operator granted.
            ("[roles.r]\ntools = ['*']", "stranger", Some("r"), Files::Read, Err("NotGranted")),
        ] {
            let policy = policy(toml).unwrap();
            let role = role.map(|name| policy.role(name).unwrap());
            let decision = policy.decide(&subject(plugin, effects), role);
            let found = decision
                .map(|grant| (grant.capabilities.files, grant.capabilities.scan))
                .map_err(|denial| denial.code().as_str());
            assert_eq!(found, wanted, "{toml} {plugin}");
        }
    }

    #[test]
    fn only_tools_that_ask_agents_need_them() {
        let requests =
            Capabilities { agents: BTreeSet::from(["*".to_owned()]), ..Capabilities::NONE };
        let asking = |asks_agents| Subject {
            requests: &requests,
            asks_agents,
            ..subject("team", Files::None)
        };
        let agents = "[agents.qa]\ncommand = ['a']\n[agents.writer]\ncommand = ['b']\n";
        let none = policy(agents).unwrap();
        let denial = none.decide(&asking(true), None).unwrap_err();
        assert_eq!(denial.code(), DenialCode::NotGranted);
        let lines = "[grants.team]\nagents = [\"qa\", \"writer\"]";
        assert!(denial.to_string().ends_with(lines), "{denial}");
        assert!(none.decide(&asking(false), None).is_ok());
        let one = policy(&format!("{agents}[grants.team]\nagents = ['qa']")).unwrap();
        let grant = one.decide(&asking(true), None).unwrap();
        assert!(grant.capabilities.allows_agent("qa"));
        assert!(!grant.capabilities.allows_agent("writer"));
        assert_eq!(grant.limits.call, one.limits().program_call);
        assert_eq!(one.decide(&asking(false), None).unwrap().capabilities, Capabilities::NONE);
    }

    #[test]
    fn a_denial_has_the_lines_that_would_be_a_grant() {
        let requests = Capabilities {
            files: Files::Read,
            http: "https://context7.com".parse().into_iter().collect(),
            ..Capabilities::NONE
        };
        let subject = Subject { requests: &requests, ..subject("docs", Files::None) };
        for (toml, lines) in [
            ("", "[grants.docs]\nfiles = \"read\"\nhttp = [\"https://context7.com\"]"),
            ("[grants.docs]", "[grants.docs]\nhttp = [\"https://context7.com\"]"),
            ("[grants.docs]\nhttp = ['https://a.example']", "http = [\"https://context7.com\"]"),
        ] {
            let denial = policy(toml).unwrap().decide(&subject, None).unwrap_err();
            assert_eq!(denial.code(), DenialCode::NotGranted);
            assert!(denial.to_string().ends_with(lines), "{toml}: {denial}");
        }
        let granted = policy("[grants.docs]\nhttp = ['https://context7.com']").unwrap();
        assert_eq!(granted.decide(&subject, None).unwrap().capabilities.http, requests.http);
    }

    #[test]
    fn a_plugin_that_works_with_less_gets_what_is_granted_and_no_more() {
        let requests = Capabilities { files: Files::Write, any_origin: true, ..Capabilities::NONE };
        let subject =
            Subject { requests: &requests, as_granted: true, ..subject("stranger", Files::Write) };
        for (toml, files, origins) in [
            ("", Files::None, 0),
            ("[grants.stranger]\nfiles = 'read'", Files::Read, 0),
            ("[grants.stranger]\nfiles = 'write'", Files::Write, 0),
            ("[grants.stranger]\nhttp = ['https://a.example']", Files::None, 1),
            ("[grants.other]\nfiles = 'write'\nhttp = ['https://a.example']", Files::None, 0),
        ] {
            let granted = policy(toml).unwrap().decide(&subject, None).unwrap().capabilities;
            assert_eq!((granted.files, granted.http.len()), (files, origins), "{toml}");
            assert!(!granted.any_origin);
        }
        let demanding = Subject { as_granted: false, ..subject };
        let denial = policy("").unwrap().decide(&demanding, None).unwrap_err();
        assert_eq!(denial.code(), DenialCode::NotGranted);
    }

    /// Which of its tools need the rest is only known when they use it.
    #[test]
    fn tools_of_an_installed_plugin_are_called_with_less_than_it_requests() {
        let requests = Capabilities {
            files: Files::Read,
            process: BTreeSet::from(["git".to_owned()]),
            backends: BTreeSet::from([BackendKind::Linter]),
            agents: BTreeSet::from(["qa".to_owned()]),
            http: "https://a.example".parse().into_iter().collect(),
            history: true,
            background: true,
            git_commit: true,
            tools: true,
            ..Capabilities::NONE
        };
        let policy = policy("[grants.stranger]\nfiles = 'read'").unwrap();
        let subject = Subject { requests: &requests, ..subject("stranger", Files::Read) };
        let grant = policy.decide(&subject, None).unwrap();
        let files = Capabilities { files: Files::Read, ..Capabilities::NONE };
        assert_eq!(grant.capabilities, files);
        let asking = Subject { asks_agents: true, ..subject.clone() };
        let denial = policy.decide(&asking, None).unwrap_err();
        assert!(denial.to_string().contains("needs agents = [\"qa\"]"), "{denial}");
        let built_in = Subject { built_in: true, ..subject };
        let denial = policy.decide(&built_in, None).unwrap_err();
        assert!(denial.to_string().contains("needs process = [\"git\"]"), "{denial}");
    }

    #[test]
    fn limits_only_go_down_below_the_operators() {
        let policy = policy("[limits]\nmemory-mb = 100\n[roles.r]\ntools = ['*']\nlimits = {memory-mb = 32, call-ms = 3600000}").unwrap();
        let decide = |role| policy.decide(&subject("files", Files::Read), role).unwrap().limits;
        assert_eq!(decide(None).memory, 64 << 20);
        assert_eq!(decide(policy.role("r")).memory, 32 << 20);
        assert_eq!(decide(policy.role("r")).call, Limits::DEFAULT.call);
    }

    /// `"$schema"` is for editors. A comment (`#:schema`) needs nothing.
    #[test]
    fn settings_can_name_their_schema() {
        let text = "#:schema ./settings.json\n'$schema' = './settings.json'\nask = ['a.b']\n";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.schema.as_deref(), Some("./settings.json"));
        assert_eq!(policy(text).unwrap().ask_without_tools(&[]), ["a.b"]);
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (toml, wanted) in [
            ("[grants.x]\nfile = 'read'", "unknown field `file`"),
            ("[grants.x]\nfiles = 'everything'", "unknown variant `everything`"),
            ("[role.x]", "unknown field `role`"),
            ("[roles.x]\ntools = ['a.b.c']", "roles.x.tools: 'a.b.c' is no tool"),
            (
                "[roles.x]\ntools = ['*']\nscope = ['../y']",
                "roles.x.scope: '../y' leaves the workspace",
            ),
            ("[roles.x]\ntools = ['*']\nscope = ['/etc']", "roles.x.scope: '/etc' is absolute"),
            ("[roles.x]\ntools = ['*']\nnames = {read = 'no'}", "roles.x.names: 'no' is no tool"),
            ("[roles.x]\ntools = ['*']\npaths = {'a.*' = 'p'}", "roles.x.paths: 'a.*' is no tool"),
            ("[roles.x]\nscope = []", "missing field `tools`"),
            ("[limits]\ncall-ms = 0", "limits.call-ms: 0 is too little"),
            ("[limits]\nmemory-mb = 100000", "limits.memory-mb: 100000 is more than the most"),
        ] {
            let error = policy(toml).unwrap_err();
            assert!(error.contains(wanted), "{toml}: {error}");
        }
    }
}
