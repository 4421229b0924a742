//! The name of a session, by which its calls and its held changes are found.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
const MAX_BYTES: usize = 64;

/// A name of 1 to 64 letters, digits, `-` and `_` (ASCII). It can be part of a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionName(String);

/// A text that is no name of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a session has 1 to {MAX_BYTES} letters, digits, '-' or '_' (ASCII)")]
pub struct InvalidSessionName;

impl SessionName {
    /// Creates a name that no other session has.
    pub fn unique() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

impl Default for SessionName {
    fn default() -> Self {
        Self::unique()
    }
}

impl FromStr for SessionName {
    type Err = InvalidSessionName;

    fn from_str(text: &str) -> Result<Self, InvalidSessionName> {
        let is_valid = (1..=MAX_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidSessionName) }
    }
}

impl TryFrom<String> for SessionName {
    type Error = InvalidSessionName;

    fn try_from(text: String) -> Result<Self, InvalidSessionName> {
        text.parse()
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.0
    }
}

impl Deref for SessionName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_part_of_a_file_name() {
        for name in ["a", "Task-7_b", &"x".repeat(MAX_BYTES), &SessionName::unique()] {
            assert_eq!(name.parse::<SessionName>().as_deref(), Ok(name));
        }
        for name in ["", ".", "a.b", "../x", "a/b", "ä", "a b", "a\n", &"x".repeat(MAX_BYTES + 1)]
        {
            assert_eq!(name.parse::<SessionName>(), Err(InvalidSessionName), "{name:?}");
        }
    }
}
