//! `cofferdam.toml`, as it is written. Unknown keys are errors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Capabilities, Files, HistorySettings, LimitSettings};

/// The settings of a workspace or of a user.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "cofferdam.toml")]
pub struct Settings {
    /// What plugins are granted, by plugin name. Plugins that came with the host need no entry;
    /// an entry replaces what they have.
    pub grants: BTreeMap<String, GrantSettings>,
    /// Roles, by name. One with the name of a built-in role replaces it.
    pub roles: BTreeMap<String, RoleSettings>,
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

/// What one plugin is granted. What is left out is not granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrantSettings {
    /// Access to the files of the workspace.
    pub files: Files,
    /// Reading trees in bulk; needs `files`.
    pub scan: bool,
}

impl GrantSettings {
    pub(super) fn capabilities(&self) -> Capabilities {
        Capabilities { files: self.files, scan: self.scan }
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
    /// The files and directories that it may touch, relative to the workspace; empty: all.
    #[serde(default)]
    pub scope: Vec<String>,
    /// Limits that it lowers.
    #[serde(default)]
    pub limits: LimitSettings,
}
