//! What an instance can be linked with, and the meet of two sets of it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access to the files of the workspace.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Files {
    /// No directory at all.
    #[default]
    None,
    /// Reading only.
    Read,
    /// Reading and changing.
    Write,
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// A set of capabilities: requested by a manifest, granted by the operator, or given to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Capabilities {
    /// Access to the files of the workspace.
    #[serde(default)]
    pub files: Files,
    /// Reading trees in bulk through `cofferdam:host/scan`.
    #[serde(default)]
    pub scan: bool,
}

impl Capabilities {
    /// Nothing but what every plugin has: messages and progress.
    pub const NONE: Self = Self { files: Files::None, scan: false };

    /// What both sets hold.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        let files = self.files.min(other.files);
        Self { files, scan: self.scan && other.scan && files >= Files::Read }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "files={}", self.files)?;
        if self.scan { f.write_str(" scan") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meet_is_the_lesser_of_each() {
        let set = |files, scan| Capabilities { files, scan };
        for (left, right, wanted) in [
            (set(Files::Write, true), set(Files::Write, true), set(Files::Write, true)),
            (set(Files::Write, true), set(Files::Read, true), set(Files::Read, true)),
            (set(Files::Read, true), set(Files::Read, false), set(Files::Read, false)),
            // Scanning is reading: without files there is nothing to scan.
            (set(Files::Read, true), set(Files::None, true), set(Files::None, false)),
            (Capabilities::NONE, set(Files::Write, true), Capabilities::NONE),
        ] {
            assert_eq!(left.meet(right), wanted);
            assert_eq!(right.meet(left), wanted);
        }
    }
}
