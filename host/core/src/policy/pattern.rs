//! Patterns that select tools in the settings.

use std::fmt;

use crate::name::ToolName;

/// A pattern: `*`, `plugin.*` or `plugin.tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    All,
    Plugin(String),
    Tool(ToolName),
}

impl Pattern {
    /// Parses the patterns of a list in the settings.
    ///
    /// # Errors
    /// The message for the first one that is invalid.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>, String> {
        let invalid = |text| format!("'{text}' is no tool; write '*', 'plugin.*' or 'plugin.tool'");
        texts.iter().map(|text| Self::parse(text).ok_or_else(|| invalid(text))).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        match text.strip_suffix(".*") {
            Some(plugin) if !plugin.is_empty() && !plugin.contains(['*', '.']) => {
                Some(Self::Plugin(plugin.to_owned()))
            }
            Some(_) => None,
            None => text.parse().ok().map(Self::Tool),
        }
    }

    pub(super) fn matches(&self, plugin: &str, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Plugin(name) => name == plugin,
            Self::Tool(name) => name.parts() == (plugin, tool),
        }
    }
}

/// The patterns that match none of `tools`, which are pairs of plugin and short name.
pub(super) fn without_tools(patterns: &[Pattern], tools: &[(&str, &str)]) -> Vec<String> {
    let fits_none =
        |pattern: &&Pattern| !tools.iter().any(|(plugin, tool)| pattern.matches(plugin, tool));
    patterns.iter().filter(fits_none).map(Pattern::to_string).collect()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "*"),
            Self::Plugin(plugin) => write!(f, "{plugin}.*"),
            Self::Tool(name) => write!(f, "{name}"),
        }
    }
}
