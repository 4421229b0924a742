//! The paths that a call may touch, and those that none may change. Paths here are relative to
//! the workspace, resolved, `/` between names.

use serde::Serialize;

/// A set of files and directories; the empty set stands for the whole workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scope(Vec<String>);

/// A scope that can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Scopes are relative to the workspace.
    #[error("'{0}' is absolute; write it relative to the workspace")]
    Absolute(String),
    /// `..` has no place in a scope.
    #[error("'{0}' leaves the workspace")]
    Leaves(String),
}

impl Scope {
    /// A scope of files and directories, relative to the workspace.
    ///
    /// # Errors
    /// An absolute path, or one with `..`.
    pub fn new(paths: &[String]) -> Result<Self, ScopeError> {
        let paths = paths.iter().map(|path| {
            if path.starts_with('/') {
                return Err(ScopeError::Absolute(path.clone()));
            }
            let names: Vec<&str> =
                path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
            if names.contains(&"..") {
                return Err(ScopeError::Leaves(path.clone()));
            }
            Ok(names.join("/"))
        });
        Ok(Self(paths.collect::<Result<_, _>>()?))
    }

    /// Whether the whole workspace is in scope.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(String::is_empty)
    }

    /// Whether `path` is one of the scope's, or below one of them.
    pub fn allows(&self, path: &str) -> bool {
        self.is_everything()
            || self.0.iter().any(|allowed| {
                path.strip_prefix(allowed.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }

    /// The part of this scope that `paths` are; all of it where they are everything.
    ///
    /// # Errors
    /// The first of the paths that is not in this scope.
    pub fn narrowed(&self, paths: &Self) -> Result<Self, String> {
        if paths.is_everything() {
            return Ok(self.clone());
        }
        match paths.0.iter().find(|path| !self.allows(path)) {
            Some(path) => Err(path.clone()),
            None => Ok(paths.clone()),
        }
    }

    /// Whether `path` is above one of the scope's paths.
    pub fn leads_on_from(&self, path: &str) -> bool {
        self.0.iter().any(|allowed| {
            path.is_empty() || allowed.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The files and directories of the scope; empty: everything.
    pub fn paths(&self) -> &[String] {
        if self.is_everything() { &[] } else { &self.0 }
    }
}

/// The host's own directory in a workspace. No call sees it: it holds what other roles' calls and
/// other plugins have read and written. One in a directory below is that of a nested workspace.
pub const OWN: &str = ".cofferdam";

/// Whether `path` is the host's own, in this workspace or in a nested one, however it is spelled.
pub fn is_own(path: &str) -> bool {
    // Most names are not: only characters beyond ASCII go when a name is folded.
    let could_be = |name: &&str| name.starts_with(|c: char| c == '.' || !c.is_ascii());
    path.split('/').filter(could_be).any(|name| folded(name) == OWN)
}

/// Why no call may change `path`, if its name says so: it steers the host, or what git does later.
/// What git takes for a repository by its content is [`super::git`]'s to say.
///
/// Names are compared as file systems that fold case or drop invisible characters would
/// (CVE-2014-9390 lists the variants of `.git`).
pub fn protected(path: &str) -> Option<&'static str> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | ".")).map(folded);
    for (depth, name) in names.enumerate() {
        match name.as_str() {
            OWN if depth == 0 => return Some("the host's own records"),
            OWN => return Some("the host's own records of a nested workspace"),
            // Those of a nested workspace count only once a person has accepted them.
            "cofferdam.toml" | "cofferdam.lock" if depth == 0 => {
                return Some("the host's policy, which only a person changes");
            }
            ".git" | "git~1" => return Some("git's control files"),
            _ => {}
        }
    }
    None
}

/// A name without case, without characters that HFS+ ignores, and without the trailing dots,
/// spaces and stream names that NTFS ignores.
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
