//! The paths that a call may touch, and those that no call may change. Paths here are normalised
//! (see [`Place`]).

use serde::Serialize;

use super::place::{Place, PlaceError, is_within, names};

/// A set of files and directories. The empty set stands for the whole workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scope(Vec<Place>);

/// Why paths are not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// A path is absolute.
    #[error("'{0}' is absolute; write it relative to the workspace")]
    Absolute(String),
    /// A path contains `..`.
    #[error("'{0}' leaves the workspace")]
    Leaves(String),
}

impl Scope {
    /// Creates a scope of files and directories, relative to the workspace.
    ///
    /// # Errors
    /// [`ScopeError::Absolute`] and [`ScopeError::Leaves`].
    pub fn new(paths: &[String]) -> Result<Self, ScopeError> {
        let place = |path: &String| {
            Place::new(path).map_err(|error| match error {
                PlaceError::Absolute => ScopeError::Absolute(path.clone()),
                PlaceError::Parent => ScopeError::Leaves(path.clone()),
            })
        };
        Ok(Self(paths.iter().map(place).collect::<Result<_, _>>()?))
    }

    /// Whether the whole workspace is in scope.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(|place| place.is_empty())
    }

    /// Whether `path` is one of the scope's places, or beneath one of them.
    pub fn allows(&self, path: &str) -> bool {
        self.is_everything() || self.0.iter().any(|allowed| is_within(path, allowed))
    }

    /// Returns `paths` if all of them are in this scope, and this scope if they are everything.
    ///
    /// # Errors
    /// The first of the paths that is not in this scope.
    pub fn narrowed(&self, paths: &Self) -> Result<Self, String> {
        if paths.is_everything() {
            return Ok(self.clone());
        }
        match paths.0.iter().find(|path| !self.allows(path)) {
            Some(path) => Err(path.to_string()),
            None => Ok(paths.clone()),
        }
    }

    /// Whether one of the scope's places is beneath `path`.
    pub fn leads_on_from(&self, path: &str) -> bool {
        self.0.iter().any(|allowed| {
            path.is_empty() || allowed.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The files and directories of the scope. Empty for the whole workspace.
    pub fn paths(&self) -> &[Place] {
        if self.is_everything() { &[] } else { &self.0 }
    }
}

/// The name of the host's own directory in a workspace. No call sees it: it contains what calls of
/// other roles and other plugins have read and written. One in a subdirectory belongs to a nested
/// workspace.
pub const OWN: &str = ".cofferdam";

/// Whether `path` is in the host's own directory of this workspace or a nested one, in any spelling.
pub fn is_own(path: &str) -> bool {
    // Folding removes only characters beyond ASCII, so most names can be skipped.
    let could_be = |name: &&str| name.starts_with(|c: char| c == '.' || !c.is_ascii());
    names(path).filter(could_be).any(|name| folded(name) == OWN)
}

/// Returns why no call may change `path`, if its name protects it: it configures the host, or
/// controls what git executes. [`super::git`] decides which directories are repositories by their
/// content.
///
/// Names are compared as on file systems that fold case or ignore invisible characters
/// (CVE-2014-9390 lists the variants of `.git`).
pub fn protected(path: &str) -> Option<&'static str> {
    for (depth, name) in names(path).map(folded).enumerate() {
        match name.as_str() {
            OWN if depth == 0 => return Some("the host's own records"),
            OWN => return Some("the host's own records of a nested workspace"),
            // The policy of a nested workspace applies only after the user has accepted it.
            "cofferdam.toml" | "cofferdam.lock" if depth == 0 => {
                return Some("the host's policy, which only a person changes");
            }
            ".git" | "git~1" => return Some("git's control files"),
            _ => {}
        }
    }
    None
}

/// Returns a name in lower case, without characters that HFS+ ignores, and without the trailing
/// dots, spaces and stream names that NTFS ignores.
pub fn folded(name: &str) -> String {
    let name = name.split(':').next().unwrap_or_default();
    name.chars()
        .filter(|character| {
            !matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
        })
        .collect::<String>()
        .trim_end_matches(['.', ' '])
        .to_lowercase()
}

/// Returns a place with each of its names [`folded`].
pub fn folded_place(place: &str) -> String {
    place.split('/').map(folded).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_scope_holds_its_paths_and_what_is_below() {
        let scope = Scope::new(&["src/".to_owned(), "./docs/a.md".to_owned()]).unwrap();
        for (path, wanted) in [
            ("src", true),
            ("src/main.rs", true),
            ("docs/a.md", true),
            ("srcs/main.rs", false),
            ("docs/b.md", false),
            ("docs", false),
            ("", false),
        ] {
            assert_eq!(scope.allows(path), wanted, "{path}");
        }
        for (path, wanted) in
            [("", true), ("docs", true), ("doc", false), ("src/main", false), ("docs/a.md", false)]
        {
            assert_eq!(scope.leads_on_from(path), wanted, "{path}");
        }
        assert!(Scope::default().allows("anything"));
        assert!(Scope::new(&[".".to_owned()]).unwrap().allows("anything"));
    }

    #[test]
    fn a_scope_is_narrowed_never_widened() {
        let scope = |paths: &[&str]| {
            Scope::new(&paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>()).unwrap()
        };
        for (wide, narrow, wanted) in [
            (scope(&[]), scope(&["a"]), Ok(scope(&["a"]))),
            (scope(&["src"]), scope(&["src/a.rs"]), Ok(scope(&["src/a.rs"]))),
            (scope(&["src"]), scope(&[]), Ok(scope(&["src"]))),
            (scope(&["src"]), scope(&["."]), Ok(scope(&["src"]))),
            (scope(&["src"]), scope(&["src/a", "docs"]), Err("docs".to_owned())),
            (scope(&["src/a"]), scope(&["src"]), Err("src".to_owned())),
        ] {
            assert_eq!(wide.narrowed(&narrow), wanted);
        }
    }

    #[test]
    fn places_are_folded_name_by_name() {
        for (place, wanted) in
            [("", ""), ("A/b", "a/b"), ("a:x/B.", "a/b"), ("a. /b::$DATA", "a/b"), ("É", "é")]
        {
            assert_eq!(folded_place(place), wanted);
        }
    }

    #[test]
    fn control_files_are_protected_in_every_spelling() {
        for path in [
            ".git",
            ".git/config",
            "sub/.git/hooks/post-commit",
            ".GIT/config",
            ".g\u{200c}it/config",
            "GIT~1/config",
            ".git./config",
            ".git /config",
            ".git::$INDEX_ALLOCATION/config",
            ".cofferdam/journal",
            ".Cofferdam",
            "cofferdam.toml",
            "COFFERDAM.TOML",
            "cofferdam.lock",
            "./.cofferdam/x",
            "sub/.cofferdam",
            "sub/deep/.Cofferdam/kept/x",
            ".//cofferdam.toml",
        ] {
            assert!(protected(path).is_some(), "{path}");
            assert_eq!(is_own(path), path.to_lowercase().contains(".cofferdam"), "{path}");
        }
        for path in [
            ".gitignore",
            ".github/workflows/ci.yml",
            "src/git",
            "sub/cofferdam.toml",
            "a.git/x",
            "git",
        ] {
            assert!(protected(path).is_none() && !is_own(path), "{path}");
        }
    }
}
