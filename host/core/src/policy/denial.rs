//! Why a call is not allowed, with the data for a message that says what the user can change.

use std::collections::BTreeSet;

use super::{Capabilities, Capability, Files, Place};
use crate::name::RoleName;
use crate::outcome::DenialCode;

/// Why a call is not allowed, and which rule says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The role does not include the tool.
    #[error("the role '{role}' does not include the tool '{plugin}.{tool}'")]
    NotInRole {
        /// The role's name.
        role: RoleName,
        /// The plugin's name.
        plugin: String,
        /// The tool's short name.
        tool: String,
    },
    /// The tool needs more access to files than its plugin is granted.
    #[error(
        "'{plugin}.{tool}' needs files = \"{needed}\", and the plugin '{plugin}' is granted {}; \
         a person can grant it under [grants.{plugin}] in cofferdam.toml",
        access(*.granted)
    )]
    Files {
        /// The plugin's name.
        plugin: String,
        /// The tool's short name.
        tool: String,
        /// What the tool does to files.
        needed: Files,
        /// What its plugin is granted.
        granted: Files,
    },
    /// The tool needs one of the names in a list, and its plugin is granted none of them.
    #[error(
        "'{plugin}.{tool}' needs {} = [{}], and the plugin '{plugin}' is granted none of that; a \
         person can grant it by these lines in cofferdam.toml:\n{}",
        list.key(), list.names(enough), lines(plugin, enough)
    )]
    List {
        /// The plugin's name.
        plugin: String,
        /// The tool's short name.
        tool: String,
        /// The list that the tool needs and that the grant leaves empty.
        list: GrantList,
        /// What the plugin is granted, with the list that the tool needs.
        enough: Box<Capabilities>,
    },
    /// The tool needs a capability without names that its plugin is not granted.
    #[error(
        "'{plugin}.{tool}' needs {switch}, which the plugin '{plugin}' is not granted; a person can \
         grant it by these lines in cofferdam.toml:\n{}",
        lines(plugin, enough)
    )]
    Switch {
        /// The plugin's name.
        plugin: String,
        /// The tool's short name.
        tool: String,
        /// What is not granted.
        switch: Capability,
        /// What the plugin is granted, with everything that it needs.
        enough: Box<Capabilities>,
    },
    /// The run is narrowed to a path that the role does not reach.
    #[error(
        "'{path}', to which this run is narrowed, is outside of the role's scope: {}",
        scope.join(", ")
    )]
    OutOfScope {
        /// The path that is outside of the role's scope.
        path: String,
        /// The paths of the role's scope.
        scope: Vec<Place>,
    },
}

impl Denial {
    /// The code of the denial, for programs.
    pub fn code(&self) -> DenialCode {
        match self {
            Self::NotInRole { .. } => DenialCode::ToolNotInRole,
            Self::Files { .. } | Self::List { .. } | Self::Switch { .. } => DenialCode::NotGranted,
            Self::OutOfScope { .. } => DenialCode::OutOfScope,
        }
    }
}

/// A list of names in a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantList {
    /// Native programs.
    Process,
    /// Kinds of backends.
    Backends,
    /// Agents.
    Agents,
    /// Origins.
    Http,
}

impl GrantList {
    /// All of them, in the order in which they are checked and written.
    pub(super) const ALL: [Self; 4] = [Self::Process, Self::Backends, Self::Agents, Self::Http];

    /// The key in the settings.
    fn key(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Backends => "backends",
            Self::Agents => "agents",
            Self::Http => "http",
        }
    }

    /// Whether the list of a set of capabilities is empty.
    pub(super) fn is_empty(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Process => capabilities.process.is_empty(),
            Self::Backends => capabilities.backends.is_empty(),
            Self::Agents => capabilities.agents.is_empty(),
            Self::Http => capabilities.http.is_empty(),
        }
    }

    /// `granted` with this list of `wanted`.
    pub(super) fn replaced(self, granted: Capabilities, wanted: Capabilities) -> Capabilities {
        match self {
            Self::Process => Capabilities { process: wanted.process, ..granted },
            Self::Backends => Capabilities { backends: wanted.backends, ..granted },
            Self::Agents => Capabilities { agents: wanted.agents, ..granted },
            Self::Http => Capabilities { http: wanted.http, ..granted },
        }
    }

    /// The names in the list of a set of capabilities, as TOML without brackets.
    fn names(self, capabilities: &Capabilities) -> String {
        match self {
            Self::Process => quoted(&capabilities.process),
            Self::Backends => quoted(&capabilities.backends),
            Self::Agents => quoted(&capabilities.agents),
            Self::Http => quoted(&capabilities.http),
        }
    }
}

/// Access to files, as the message has it.
fn access(files: Files) -> String {
    match files {
        Files::None => "no access to files".to_owned(),
        files => format!("files = \"{files}\""),
    }
}

/// A grant as it is written in `cofferdam.toml`.
fn lines(plugin: &str, granted: &Capabilities) -> String {
    let mut lines = vec![format!("[grants.{plugin}]")];
    if granted.files > Files::None {
        lines.push(access(granted.files));
    }
    let switches = [
        ("scan", granted.scan),
        ("cache", granted.cache),
        ("history", granted.history),
        ("git-commit", granted.git_commit),
        ("background", granted.background),
        ("tools", granted.tools),
        ("questions", granted.questions),
    ];
    for (key, is_granted) in switches {
        if is_granted {
            lines.push(format!("{key} = true"));
        }
    }
    for list in GrantList::ALL.into_iter().filter(|list| !list.is_empty(granted)) {
        lines.push(format!("{} = [{}]", list.key(), list.names(granted)));
    }
    lines.join("\n")
}

/// Names as a list in TOML, without its brackets.
fn quoted<T: ToString>(names: &BTreeSet<T>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.to_string())).collect();
    names.join(", ")
}
