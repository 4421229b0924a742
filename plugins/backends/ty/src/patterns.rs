//! Patterns of files, as in the options `src` and `overrides`: like those of .gitignore, but all of
//! them start at the directory of the project.

use anyhow::{Context as _, Result, bail};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// The directories that are never checked unless the configuration includes them again with `!`.
pub const EXCLUDED_DIRECTORIES: [&str; 20] = [
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "venv",
];

/// Which files a pair of options `include` and `exclude` selects.
#[derive(Debug, Default)]
pub struct Filter {
    /// `None`: all files.
    include: Option<GlobSet>,
    exclude: Exclusions,
}

impl Filter {
    /// A filter by the patterns of two options.
    ///
    /// # Errors
    /// A pattern is invalid.
    pub fn new(include: Option<&[String]>, exclude: &[String]) -> Result<Self> {
        let include = include.map(inclusions).transpose()?;
        let mut rules = Vec::new();
        for pattern in exclude {
            rules.push(Exclusion::parse(pattern)?);
        }
        Ok(Self { include, exclude: Exclusions::new(rules)? })
    }

    /// A filter that leaves out [`EXCLUDED_DIRECTORIES`] as well.
    ///
    /// # Errors
    /// A pattern is invalid.
    pub fn of_sources(include: Option<&[String]>, exclude: &[String]) -> Result<Self> {
        let defaults = EXCLUDED_DIRECTORIES.map(|name| format!("**/{name}/"));
        Self::new(include, &[defaults.as_slice(), exclude].concat())
    }

    /// Whether a file is selected, by its path relative to the project.
    pub fn selects(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(path))
            && !self.exclude.holds(path)
    }

    /// Whether no pattern includes again what another one excludes.
    pub fn only_excludes(&self) -> bool {
        self.exclude.rules.iter().all(|rule| !rule.is_allowed)
    }
}

/// Patterns that include files: a path matches if it, or a directory above it, fits a pattern.
fn inclusions(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let (path, is_directory) = anchored(pattern)?;
        if !path.ends_with("**") {
            set.add(glob(&format!("{path}/**"))?);
        }
        if !is_directory {
            set.add(glob(path)?);
        }
    }
    Ok(set.build()?)
}

/// Patterns that exclude files. The last one that matches a path decides.
#[derive(Debug, Default)]
struct Exclusions {
    set: GlobSet,
    rules: Vec<Exclusion>,
}

/// One pattern of `exclude`.
#[derive(Debug)]
struct Exclusion {
    pattern: String,
    is_directory: bool,
    /// Whether it begins with `!`.
    is_allowed: bool,
}

impl Exclusion {
    fn parse(pattern: &str) -> Result<Self> {
        let (rest, is_allowed) = match pattern.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let (path, is_directory) = anchored(rest)?;
        // Everything in a directory, but not the directory itself.
        let end = if path.ends_with("/**") { "/*" } else { "" };
        Ok(Self { pattern: format!("{path}{end}"), is_directory, is_allowed })
    }
}

impl Exclusions {
    fn new(rules: Vec<Exclusion>) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        for rule in &rules {
            set.add(glob(&rule.pattern)?);
        }
        Ok(Self { set: set.build()?, rules })
    }

    /// Whether a file, or a directory above it, is excluded.
    fn holds(&self, path: &str) -> bool {
        let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
        self.matches(path, false) || above.any(|directory| self.matches(directory, true))
    }

    fn matches(&self, path: &str, is_directory: bool) -> bool {
        let mut matched = self.set.matches(path).into_iter().rev().map(|index| &self.rules[index]);
        let decides = |rule: &&Exclusion| is_directory || !rule.is_directory;
        matched.find(decides).is_some_and(|rule| !rule.is_allowed)
    }
}

/// A pattern without `./` and the slash at its end, and whether it had one there.
fn anchored(pattern: &str) -> Result<(&str, bool)> {
    let path = pattern.strip_prefix("./").unwrap_or(pattern);
    if path.starts_with('/') || path.split('/').any(|name| name == "..") {
        bail!("the pattern '{pattern}' has to be relative to the project");
    }
    let (path, is_directory) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path, false),
    };
    // The project itself.
    Ok((if matches!(path, "" | ".") { "**" } else { path }, is_directory))
}

fn glob(pattern: &str) -> Result<globset::Glob> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .with_context(|| format!("the pattern '{pattern}'"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn patterns_select_files() {
        for (include, exclude, selected, others) in [
            (None, vec![], vec!["a.py", "b/dist.py"], vec!["dist/a.py", "b/.venv/c/d.py"]),
            (Some(vec!["src"]), vec![], vec!["src/a.py", "src/b/c.py"], vec!["a.py", "b/src/a.py"]),
            (Some(vec!["./src/"]), vec![], vec!["src/a.py"], vec!["src"]),
            (Some(vec!["src/**"]), vec![], vec!["src/a.py"], vec!["src", "a.py"]),
            (Some(vec!["**/t_*.py"]), vec![], vec!["t_a.py", "b/t_a.py"], vec!["b/a.py"]),
            (Some(vec!["."]), vec![], vec!["a.py", "b/a.py"], vec![]),
            (Some(vec!["./"]), vec![], vec!["a.py", "b/a.py"], vec![]),
            (Some(vec!["*.py"]), vec![], vec!["a.py"], vec!["b/a.py"]),
            (Some(vec![]), vec![], vec![], vec!["a.py"]),
            (None, vec!["gen"], vec!["b/gen/a.py"], vec!["gen/a.py", "gen"]),
            (None, vec!["gen/"], vec!["gen"], vec!["gen/a.py"]),
            (None, vec!["gen/**", "!gen/keep.py"], vec!["gen/keep.py"], vec!["gen/a.py"]),
            (None, vec!["!**/dist/"], vec!["dist/a.py"], vec!["venv/a.py"]),
            (Some(vec!["src"]), vec!["src/a.py"], vec!["src/b.py"], vec!["src/a.py"]),
        ] {
            let strings = |patterns: &[&str]| -> Vec<String> {
                patterns.iter().map(|&pattern| pattern.to_owned()).collect()
            };
            let owned = include.as_deref().map(strings);
            let filter = Filter::of_sources(owned.as_deref(), &strings(&exclude)).unwrap();
            for path in selected {
                assert!(filter.selects(path), "{path} by {include:?} {exclude:?}");
            }
            for path in others {
                assert!(!filter.selects(path), "{path} by {include:?} {exclude:?}");
            }
            let has_allowed = exclude.iter().any(|pattern| pattern.starts_with('!'));
            assert_eq!(filter.only_excludes(), !has_allowed);
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["/abs", "../x", "a/../b", "[", "{a"] {
            let patterns = [pattern.to_owned()];
            assert!(Filter::new(Some(&patterns), &[]).is_err(), "{pattern}");
            assert!(Filter::new(None, &patterns).is_err(), "{pattern}");
        }
    }
}
