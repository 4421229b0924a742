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
    /// `None` if the text is not a valid pattern.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let (plugin, tool) = text.split_once('.')?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(['*', '.']);
        if !is_name(plugin) || !(is_name(tool) || tool == "*") {
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

    /// What is wrong with a text that is not a valid pattern.
    pub(super) fn invalid_message(text: &str) -> String {
        format!("'{text}' is no tool; write '*', 'plugin.*' or 'plugin.tool'")
    }
}

/// Which of the patterns fit none of `tools`, which are plugins and short names.
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
            Self::Tool(plugin, tool) => write!(f, "{plugin}.{tool}"),
        }
    }
}
