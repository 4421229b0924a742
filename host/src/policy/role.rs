//! A role: the tools, paths and limits that an agent acts under. It narrows, never widens.

use std::collections::BTreeMap;

use super::{LimitSettings, PolicyError, RoleSettings, Scope};

/// A named set of tools, paths and limits.
#[derive(Debug, Clone)]
pub struct Role {
    name: String,
    description: String,
    tools: Vec<Pattern>,
    names: BTreeMap<String, String>,
    scope: Scope,
    limits: LimitSettings,
}

/// Which tools: `*`, `plugin.*` or `plugin.tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    All,
    Plugin(String),
    Tool(String, String),
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let (plugin, tool) = text.split_once('.')?;
        if plugin.is_empty() || tool.is_empty() || tool.contains('.') {
            return None;
        }
        Some(match tool {
            "*" => Self::Plugin(plugin.to_owned()),
            tool => Self::Tool(plugin.to_owned(), tool.to_owned()),
        })
    }

    fn matches(&self, plugin: &str, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Plugin(name) => name == plugin,
            Self::Tool(name, short) => name == plugin && short == tool,
        }
    }
}

impl Role {
    /// A role from its settings.
    ///
    /// # Errors
    /// A pattern that names no tool, or a scope that leaves the workspace.
    pub fn new(name: &str, settings: &RoleSettings) -> Result<Self, PolicyError> {
        let wrong = |key: &str, message: String| PolicyError {
            place: format!("roles.{name}.{key}"),
            message,
        };
        let no_tool = |key: &str, text: &str| {
            wrong(key, format!("'{text}' is no tool; write '*', 'plugin.*' or 'plugin.tool'"))
        };
        let tools = settings
            .tools
            .iter()
            .map(|text| Pattern::parse(text).ok_or_else(|| no_tool("tools", text)))
            .collect::<Result<_, _>>()?;
        for target in settings.names.values() {
            if !matches!(Pattern::parse(target), Some(Pattern::Tool(..))) {
                return Err(no_tool("names", target));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            description: settings.description.clone(),
            tools,
            names: settings.names.clone(),
            scope: Scope::new(&settings.scope)
                .map_err(|error| wrong("scope", error.to_string()))?,
            limits: settings.limits,
        })
    }

    /// The role's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the role is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The paths that the role may touch.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The limits that the role lowers.
    pub fn limits(&self) -> &LimitSettings {
        &self.limits
    }

    /// Whether the role includes a tool.
    pub fn allows(&self, plugin: &str, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(plugin, tool))
    }

    /// The qualified name that this role means by a short one.
    pub fn qualified(&self, short: &str) -> Option<&str> {
        self.names.get(short).map(String::as_str)
    }
}

/// The roles that exist without any settings.
pub(super) fn built_in() -> BTreeMap<String, Role> {
    let role = |name: &str, description: &str, tools: &[&str]| Role {
        name: name.to_owned(),
        description: description.to_owned(),
        tools: tools.iter().filter_map(|text| Pattern::parse(text)).collect(),
        names: BTreeMap::new(),
        scope: Scope::default(),
        limits: LimitSettings::default(),
    };
    let lint = Role {
        names: [("submit_result".to_owned(), "lint_agent.submit".to_owned())].into(),
        ..role("lint", "S2's lint agent: lints and mends one file", &["lint_agent.*"])
    };
    [
        lint,
        role("main", "Every tool that is granted", &["*"]),
        role(
            "designer",
            "S0's designer: edits by exact text and by line",
            &["edit.atomic_replace", "edit.move_text"],
        ),
        role(
            "reader",
            "Looks at the workspace and changes nothing",
            &[
                "files.read_file",
                "files.read_code",
                "files.read_tree",
                "files.read",
                "files.glob",
                "grep.*",
            ],
        ),
    ]
    .into_iter()
    .map(|role| (role.name.clone(), role))
    .collect()
}
