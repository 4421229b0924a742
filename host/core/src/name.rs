//! The names of tools and roles, as types of their own.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::Serialize;

/// The qualified name of a tool, `plugin.tool`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(String);

/// The name of a role, which can be any text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RoleName(String);

/// The text is not the qualified name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no tool; write 'plugin.tool'")]
pub struct ToolNameError(String);

impl ToolName {
    /// Creates the name of a plugin's tool. Neither part contains a dot.
    pub fn new(plugin: &str, tool: &str) -> Self {
        Self(format!("{plugin}.{tool}"))
    }

    /// The names of the plugin and, within it, of the tool.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('.').unwrap_or((&self.0, ""))
    }
}

impl FromStr for ToolName {
    type Err = ToolNameError;

    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['*', '.']);
        match text.split_once('.') {
            Some((plugin, tool)) if is_name(plugin) && is_name(tool) => Ok(Self(text.to_owned())),
            _ => Err(ToolNameError(text.to_owned())),
        }
    }
}

impl From<&str> for RoleName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

macro_rules! as_text {
    ($($name:ident)*) => {
        $(
            impl Deref for $name {
                type Target = str;

                fn deref(&self) -> &str {
                    &self.0
                }
            }

            impl Borrow<str> for $name {
                fn borrow(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl From<$name> for String {
                fn from(name: $name) -> Self {
                    name.0
                }
            }
        )*
    };
}

as_text!(ToolName RoleName);

#[cfg(test)]
mod tests {
    use super::ToolName;

    #[test]
    fn tool_names_have_two_parts() {
        assert_eq!("a.b".parse(), Ok(ToolName::new("a", "b")));
        assert_eq!(ToolName::new("a", "b").parts(), ("a", "b"));
        for text in ["", "a", ".b", "a.", "*", "a.*", "a.b.c"] {
            let error = text.parse::<ToolName>().err().map(|error| error.to_string());
            assert_eq!(error, Some(format!("'{text}' is no tool; write 'plugin.tool'")));
        }
    }
}
