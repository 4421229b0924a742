//! Which tools a setting means.

use std::fmt;

/// `*`, `plugin.*` or `plugin.tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    All,
    Plugin(String),
    Tool(String, String),
}

impl Pattern {
    /// `None`: it is no tool.
    pub(super) fn parse(text: &str) -> Option<Self> {
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

    pub(super) fn matches(&self, plugin: &str, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Plugin(name) => name == plugin,
            Self::Tool(name, short) => name == plugin && short == tool,
        }
    }

    /// What is wrong with a text that is none.
    pub(super) fn complaint(text: &str) -> String {
        format!("'{text}' is no tool; write '*', 'plugin.*' or 'plugin.tool'")
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "*"),
            Self::Plugin(plugin) => write!(f, "{plugin}.*"),
            Self::Tool(plugin, tool) => write!(f, "{plugin}.{tool}"),
        }
    }
}
