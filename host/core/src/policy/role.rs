//! A role: the tools, paths and limits that an agent acts under. It can only restrict what is
//! granted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pattern::{Pattern, without_tools};
use super::{Executed, LimitSettings, PolicyError, RoleSettings, Scope};
use crate::name::{RoleName, ToolName, ToolNameError};

/// The built-in plugin whose tools run scripts, and find tools for them.
const SCRIPTS: &str = "python";

/// A named set of tools, paths and limits.
#[derive(Debug, Clone)]
pub struct Role {
    name: RoleName,
    description: String,
    tools: Vec<Pattern>,
    installed: bool,
    /// In script mode, the tools that are listed besides those for scripts.
    scripts: Option<Vec<Pattern>>,
    names: BTreeMap<String, ToolName>,
    paths: BTreeMap<ToolName, String>,
    parameters: BTreeMap<ToolName, Value>,
    scope: Scope,
    limits: LimitSettings,
    contract: Option<String>,
    executed: Executed,
    hold: bool,
}

impl Role {
    /// The role that the MCP server has by default.
    pub const CODER: &str = "coder";

    /// Creates a role from its settings.
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid, or if the scope leaves the workspace.
    pub fn new(name: &str, settings: &RoleSettings) -> Result<Self, PolicyError> {
        let wrong = |key: &str, message: String| PolicyError {
            place: format!("roles.{name}.{key}"),
            message,
        };
        let tools =
            Pattern::parse_all(&settings.tools).map_err(|message| wrong("tools", message))?;
        let scripts = settings.scripts.as_deref().map(Pattern::parse_all).transpose();
        let scripts = scripts.map_err(|message| wrong("scripts", message))?;
        let tool = |key: &str, name: &str| {
            name.parse().map_err(|error: ToolNameError| wrong(key, error.to_string()))
        };
        let names =
            settings.names.iter().map(|(word, name)| Ok((word.clone(), tool("names", name)?)));
        let names = names.collect::<Result<_, PolicyError>>()?;
        let paths =
            settings.paths.iter().map(|(name, path)| Ok((tool("paths", name)?, path.clone())));
        Ok(Self {
            name: name.into(),
            description: settings.description.clone(),
            tools,
            installed: settings.installed,
            scripts,
            names,
            paths: paths.collect::<Result<_, PolicyError>>()?,
            parameters: BTreeMap::new(),
            scope: Scope::new(&settings.scope)
                .map_err(|error| wrong("scope", error.to_string()))?,
            limits: settings.limits,
            contract: settings.contract.clone(),
            executed: settings.executed,
            hold: settings.hold,
        })
    }

    /// The name of the role.
    pub fn name(&self) -> &RoleName {
        &self.name
    }

    /// What the role is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The paths that the role may access.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The limits that the role lowers.
    pub fn limits(&self) -> &LimitSettings {
        &self.limits
    }

    /// The contract of its agents' answers.
    pub fn contract(&self) -> Option<&str> {
        self.contract.as_deref()
    }

    /// What happens to its calls that write files which other programs execute by name.
    pub fn executed(&self) -> Executed {
        self.executed
    }

    /// Whether the changes of its calls are held until a user accepts them.
    pub fn holds(&self) -> bool {
        self.hold
    }

    /// Whether it restricts nothing: it includes every tool, and its scope is the workspace.
    pub fn is_unrestricted(&self) -> bool {
        self.patterns().any(|pattern| pattern == "*") && self.scope.is_everything()
    }

    /// Whether the role includes a tool; `built_in` tells whether its plugin came with the host.
    pub fn allows(&self, plugin: &str, tool: &str, built_in: bool) -> bool {
        let is_installed = self.installed && !built_in;
        is_installed
            || self.tools.iter().any(|pattern| pattern.matches(plugin, tool))
            || (self.scripts.is_some() && built_in && plugin == SCRIPTS)
    }

    /// Whether clients list a tool that the role includes: in script mode, only those for scripts and
    /// the ones that the user named.
    pub fn lists(&self, plugin: &str, tool: &str) -> bool {
        let is_listed = |also: &Vec<Pattern>| {
            plugin == SCRIPTS || also.iter().any(|pattern| pattern.matches(plugin, tool))
        };
        self.scripts.as_ref().is_none_or(is_listed)
    }

    /// This role in script mode; `also` are tools that clients list besides those for scripts. A role
    /// that is in script mode by the settings stays as it is.
    ///
    /// # Errors
    /// The first text that is no pattern.
    pub fn in_script_mode(mut self, also: &[String]) -> Result<Self, String> {
        if self.scripts.is_none() {
            self.scripts = Some(Pattern::parse_all(also)?);
        }
        Ok(self)
    }

    /// The patterns of its tools: `*`, `plugin.*` or `plugin.tool`.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        self.tools.iter().map(Pattern::to_string)
    }

    /// Those of [`Self::patterns`] that match none of `tools`, which are pairs of plugin and short
    /// name.
    pub fn without_tools(&self, tools: &[(&str, &str)]) -> Vec<String> {
        without_tools(&self.tools, tools)
    }

    /// Its own names for tools, with the qualified names.
    pub fn names(&self) -> impl Iterator<Item = (&str, &ToolName)> {
        self.names.iter().map(|(word, name)| (word.as_str(), name))
    }

    /// The argument of a tool (qualified name) that may be a path relative to the workspace in this
    /// role, although the tool requires absolute paths.
    pub fn path_argument(&self, tool: &str) -> Option<&str> {
        self.paths.get(tool).map(String::as_str)
    }

    /// Sets the schemas that the arguments of tools must match in addition to the tools' own.
    #[must_use]
    pub fn with_parameters(self, parameters: BTreeMap<ToolName, Value>) -> Self {
        Self { parameters, ..self }
    }

    /// The schema that the arguments of a tool (qualified name) must match in addition to the
    /// tool's own.
    pub fn parameters(&self, tool: &str) -> Option<&Value> {
        self.parameters.get(tool)
    }

    /// The tool that this role's own name refers to.
    pub fn qualified(&self, short: &str) -> Option<&ToolName> {
        self.names.get(short)
    }
}

/// The built-in roles, by name.
///
/// # Errors
/// Returns an error for the first invalid role; a test checks them all.
pub(super) fn built_in() -> Result<BTreeMap<RoleName, Role>, PolicyError> {
    let settings: BTreeMap<String, RoleSettings> =
        toml::from_str(include_str!("roles.toml")).map_err(|error: toml::de::Error| {
            PolicyError { place: "the built-in roles".to_owned(), message: error.to_string() }
        })?;
    let role = |(name, settings): (String, RoleSettings)| {
        Role::new(&name, &settings).map(|role| (role.name().clone(), role))
    };
    settings.into_iter().map(role).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The allow-lists of the pipeline commands and the "Agent-Specific Tool Usage" of the tool
    /// schemas, tool by tool.
    #[test]
    fn built_in_roles_match_their_sources() {
        let roles = built_in().unwrap();
        let context7 = "docs.context7_query_docs docs.context7_resolve_library_id";
        let detector = format!("grep.grep files.read report.save_agent_report {context7}");
        let enforcer = "grep.grep files.read shell.bash report.save_agent_report";
        let reviewer = "files.read shell.bash report.save_agent_report";
        let coder = "files.read_file files.read_tree files.glob files.write_file grep.grep \
                     files.move_path files.copy_path files.delete_path \
                     edit.atomic_replace edit.apply_patch symbols.locate_symbol \
                     symbols.get_source symbols.discover_api symbols.trace_calls lint.run_linter \
                     tests.run_tests build.build_project git.git_status git.git_diff \
                     history.history history.undo";
        for (name, wanted) in [
            ("main", "*"),
            (Role::CODER, coder),
            ("designer", "edit.atomic_replace edit.move_text"),
            ("qa", "symbols.locate_symbol symbols.get_source symbols.discover_api"),
            ("lint", "lint_agent.*"),
            (
                "reader",
                "files.read_file files.read_code files.read_tree files.read files.glob grep.* pdf.*",
            ),
            ("best-practices-enforcer", enforcer),
            ("security-auditor", enforcer),
            ("hallucination-detector", &detector),
            ("code-reviewer", reviewer),
            ("test-generator", reviewer),
        ] {
            let mut found: Vec<String> = roles[name].patterns().collect();
            let mut wanted: Vec<&str> = wanted.split(' ').collect();
            found.sort();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{name}");
            assert!(!roles[name].description().is_empty(), "{name}");
        }
        assert_eq!(roles.len(), 11);
    }

    #[test]
    fn only_a_role_of_all_tools_and_files_is_unrestricted() {
        let roles = built_in().unwrap();
        let unrestricted = roles.values().filter(|role| role.is_unrestricted());
        assert_eq!(unrestricted.map(|role| role.name().to_string()).collect::<Vec<_>>(), ["main"]);
        let narrow = toml::from_str("tools = ['*']\nscope = ['src']").unwrap();
        assert!(!Role::new("main", &narrow).unwrap().is_unrestricted());
    }

    #[test]
    fn in_script_mode_only_tools_for_scripts_and_named_ones_are_listed() {
        let roles = built_in().unwrap();
        let coder = &roles[Role::CODER];
        assert!(coder.lists("files", "read_file") && !coder.allows("python", "run_python", true));
        let also = ["files.read_file".to_owned()];
        let scripts = coder.clone().in_script_mode(&also).unwrap();
        let seen = |plugin, tool| (scripts.allows(plugin, tool, true), scripts.lists(plugin, tool));
        assert_eq!(seen("python", "run_python"), (true, true));
        assert_eq!(seen("files", "read_file"), (true, true));
        assert_eq!(seen("files", "write_file"), (true, false));
        assert_eq!(seen("shell", "bash"), (false, false));
        // A plugin of a stranger does not get in by this name.
        assert!(!roles["reader"].clone().in_script_mode(&[]).unwrap().allows("python", "x", false));
        assert!(coder.clone().in_script_mode(&["read file".to_owned()]).is_err());
        let own = toml::from_str("tools = ['*']\nscripts = ['grep.*']").unwrap();
        let own = Role::new("own", &own).unwrap().in_script_mode(&also).unwrap();
        assert!(own.lists("grep", "grep") && !own.lists("files", "read_file"));
        let wrong = toml::from_str("tools = []\nscripts = ['a b']").unwrap();
        assert_eq!(Role::new("own", &wrong).unwrap_err().place, "roles.own.scripts");
    }

    #[test]
    fn patterns_without_tools_are_reported() {
        let tools = [("files", "read"), ("grep", "grep")];
        let roles = built_in().unwrap();
        let missing = |role: &str| roles[role].without_tools(&tools).len();
        assert_eq!((missing("main"), missing("qa"), missing("reader")), (0, 3, 5));
        assert!(!roles["qa"].allows("symbols", "trace_calls", true));
        // What the user has installed is there by default.
        let coder = &roles[Role::CODER];
        assert!(coder.allows("lines", "count", false) && !coder.allows("shell", "bash", true));
        assert!(!roles["reader"].allows("lines", "count", false));
        assert_eq!(roles["code-reviewer"].path_argument("files.read"), Some("file_path"));
        assert_eq!(roles["reader"].path_argument("files.read"), None);
    }
}
