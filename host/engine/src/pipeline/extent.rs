//! The files that a lint covers, to compare it with another one.

use std::fmt;

use super::work_order::Lint;
use cofferdam_core::policy::Place;

/// The default path of `lint_backend`. Source: the pipeline commands, "lint_backend".
const DEFAULT_PATH: &str = "nomarr";

/// The files that a lint covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The normalized path of the directory or file; empty: the workspace.
    path: String,
    check_all: bool,
}

impl Extent {
    /// The extent of a lint. A missing path means `nomarr/`, even if this directory does not exist.
    pub fn of(lint: &Lint) -> Self {
        let path = lint.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH);
        // The tool refuses a path that leads out of the workspace; here it covers only itself.
        let path = Place::new(path).map_or_else(|_| path.to_owned(), String::from);
        Self { path, check_all: lint.check_all }
    }

    /// Whether it covers all files that `other` covers.
    pub fn covers(&self, other: &Self) -> bool {
        let rest = other.path.strip_prefix(&self.path);
        let is_above = self.path.is_empty()
            || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_above && self.check_all >= other.check_all
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { &self.path };
        write!(f, "path '{path}' with check_all {}", self.check_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_lint_covers_a_narrower_one() {
        let extent = |path: Option<&str>, check_all| {
            Extent::of(&Lint { path: path.map(str::to_owned), check_all })
        };
        for (wide, narrow, wanted) in [
            ((Some("a"), false), (Some("a"), false), true),
            ((Some("a/"), false), (Some("./a/b.py"), false), true),
            ((Some("a"), true), (Some("a/b"), false), true),
            ((Some("a"), false), (Some("a"), true), false),
            ((Some("a/b"), true), (Some("a"), false), false),
            ((Some("ab"), false), (Some("a"), false), false),
            ((Some("a"), false), (Some("ab"), false), false),
            ((Some("."), false), (Some("a"), false), true),
            ((Some("."), false), (None, false), true),
            ((None, false), (None, false), true),
            ((None, false), (Some(""), false), true),
            ((None, false), (Some("nomarr/helpers"), false), true),
            ((Some("nomarr/helpers"), true), (None, false), false),
            ((None, true), (Some("src"), false), false),
            ((Some("../x"), false), (Some("../x"), false), true),
            ((Some("../x"), false), (Some("a"), false), false),
        ] {
            let (wide, narrow) = (extent(wide.0, wide.1), extent(narrow.0, narrow.1));
            assert_eq!(wide.covers(&narrow), wanted, "{wide} over {narrow}");
        }
    }
}
