//! `glob`: finds files whose paths match a pattern, the newest first.
//!
//! The host lists the files that match a coarse form of the pattern; this module filters and sorts
//! them.

use std::cmp::Reverse;

use cofferdam_sdk::scan::{self, File, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// The maximum number of files in a result.
const MAX_RESULTS: usize = 10_000;

/// The arguments of `glob`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A glob, relative to `path` or absolute.
    pub pattern: String,
    /// The directory to search; the default is the workspace.
    pub path: Option<String>,
}

/// The result of `glob`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Absolute paths, the most recently modified first.
    pub files: Vec<String>,
    /// The number of files.
    pub total: usize,
}

/// A prepared search: the query for the host, and the filter.
#[derive(Debug)]
pub struct Search {
    args: Args,
    pattern: Pattern,
    /// The directory that the pattern's prefix leads to.
    root: WorkspacePath,
}

impl Search {
    /// Prepares a search from the arguments.
    ///
    /// # Errors
    /// Those of [`Context::resolve`] and [`Pattern::parse`]; `PathNotFound` if `path` is not a
    /// directory; `NoMatchesFound` if the directories of the pattern's prefix don't exist.
    pub fn new(args: Args, context: &Context) -> Result<Self, ToolError> {
        let base = context.resolve(args.path.as_deref().unwrap_or("."))?;
        if !context.local(&base).is_dir() {
            let message = format!("no such directory: {}", context.absolute(&base));
            return Err(ToolError::not_found("PathNotFound", message));
        }
        let base = context.absolute(&base);
        let pattern = Pattern::parse(relative(&args.pattern, &base)?)?;
        let root = context.resolve(&format!("{base}/{}", pattern.prefix()))?;
        let search = Self { args, pattern, root };
        if context.local(&search.root).is_dir() { Ok(search) } else { Err(search.no_matches()) }
    }

    /// The query for the host.
    pub fn query(&self) -> Query {
        Query {
            globs: self.pattern.coarse(),
            exclude_globs: self.pattern.excluded().map(|name| format!("**/{name}/**")).collect(),
            ignore_files: false,
            hidden: self.pattern.wants_hidden(),
            follow_links: true,
            ..scan::query(&self.root)
        }
    }

    /// Filters and sorts the files that the host found.
    ///
    /// # Errors
    /// `NoMatchesFound`; `TooManyResults` for more than 10,000 files.
    pub fn answer(
        &self,
        files: impl Iterator<Item = File>,
        context: &Context,
    ) -> Result<Output, ToolError> {
        let mut found: Vec<File> = files.filter(|file| self.matches(&file.path)).collect();
        if found.is_empty() {
            return Err(self.no_matches());
        }
        if found.len() > MAX_RESULTS {
            let message = format!(
                "'{}' matches {} files, more than {MAX_RESULTS}; narrow it with a subdirectory \
                 (`src/**/*.py` instead of `**/*.py`), an extension or `path`",
                self.args.pattern,
                found.len(),
            );
            return Err(ToolError::limit("TooManyResults", message));
        }
        found.sort_unstable_by(|a, b| {
            (Reverse(a.modified_ms), &a.path).cmp(&(Reverse(b.modified_ms), &b.path))
        });
        let files: Vec<String> = found
            .iter()
            .map(|file| Ok(context.absolute(&context.resolve(&file.path)?)))
            .collect::<Result<_, ToolError>>()?;
        Ok(Output { total: files.len(), files })
    }

    fn matches(&self, path: &str) -> bool {
        let root = self.root.as_str();
        let below = if root.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'))
        };
        below.is_some_and(|below| self.pattern.matches(below))
    }

    fn no_matches(&self) -> ToolError {
        let place = self.args.path.as_deref().unwrap_or("the workspace");
        let message = format!(
            "no file in {place} matches '{}'; `**/` looks at any depth, and names that start \
             with a dot need a dot in the pattern",
            self.args.pattern,
        );
        ToolError::not_found("NoMatchesFound", message)
    }
}

/// Makes a pattern relative to the searched directory.
fn relative<'a>(pattern: &'a str, base: &str) -> Result<&'a str, ToolError> {
    if !pattern.starts_with('/') {
        return Ok(pattern);
    }
    pattern.strip_prefix(base).filter(|rest| rest.starts_with('/')).ok_or_else(|| {
        let message = format!("the absolute pattern '{pattern}' is outside of {base}");
        ToolError::denied("PathNotAllowed", message)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    fn project() -> (tempfile::TempDir, Context) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("src/models")).unwrap();
        fs::write(directory.path().join("README.md"), "").unwrap();
        let context = Context::for_directory(directory.path());
        (directory, context)
    }

    fn args(pattern: &str, path: Option<&str>) -> Args {
        Args { pattern: pattern.to_owned(), path: path.map(str::to_owned) }
    }

    fn files(list: &[(&str, u64)]) -> impl Iterator<Item = File> {
        list.iter().map(|&(path, modified_ms)| File { path: path.to_owned(), size: 0, modified_ms })
    }

    const TREE: [(&str, u64); 7] = [
        (".env", 7),
        ("README.md", 1),
        ("src/a.py", 5),
        ("src/b.py", 5),
        ("src/models/.cache/user.py", 9),
        ("src/models/user.py", 8),
        ("srcs/x.py", 6),
    ];

    #[test]
    fn files_come_newest_first_and_then_by_path() {
        let (directory, context) = project();
        let root = directory.path().to_str().unwrap().to_owned();
        let absolute = format!("{root}/src/*.py");
        for (pattern, path, wanted) in [
            ("src/**/*.py", None, &["src/models/user.py", "src/a.py", "src/b.py"][..]),
            ("*.py", Some("src"), &["src/a.py", "src/b.py"]),
            ("models/*", Some("src/"), &["src/models/user.py"]),
            ("**/.env*", Some(&*root), &[".env"]),
            (&absolute, None, &["src/a.py", "src/b.py"]),
            (&absolute, Some("src"), &["src/a.py", "src/b.py"]),
        ] {
            let search = Search::new(args(pattern, path), &context).unwrap();
            let wanted: Vec<String> = wanted.iter().map(|file| format!("{root}/{file}")).collect();
            let total = wanted.len();
            let output = search.answer(files(&TREE), &context).unwrap();
            assert_eq!(output, Output { files: wanted, total }, "{pattern}");
        }
    }

    #[test]
    fn the_query_for_the_host_is_narrow() {
        let (_directory, context) = project();
        let query = Search::new(args("src/**/?.py", None), &context).unwrap().query();
        assert_eq!((query.root.as_str(), query.hidden), ("src", false));
        assert_eq!(query.globs, ["**/*.py"]);
        assert_eq!(query.exclude_globs, ["**/.git/**", "**/.cofferdam/**"]);
        assert!(query.follow_links && !query.ignore_files);
        let query = Search::new(args("**/.git/*", Some("src")), &context).unwrap().query();
        assert_eq!((query.root.as_str(), query.hidden), ("src", true));
        assert_eq!(query.exclude_globs, ["**/.cofferdam/**"]);
    }

    #[test]
    fn refusals_have_their_codes() {
        let (_directory, context) = project();
        for (pattern, path, code) in [
            ("*", Some("none"), "PathNotFound"),
            ("*", Some("README.md"), "PathNotFound"),
            ("*", Some("../x"), "PathNotAllowed"),
            ("/etc/*", None, "PathNotAllowed"),
            ("src/[a", None, "InvalidPattern"),
            ("none/*.py", None, "NoMatchesFound"),
            ("README.md/*", None, "NoMatchesFound"),
        ] {
            let error = Search::new(args(pattern, path), &context).unwrap_err();
            assert_eq!(error.code, code, "{pattern} {path:?}");
        }
        let search = Search::new(args("*.rs", None), &context).unwrap();
        let error = search.answer(files(&TREE), &context).unwrap_err();
        assert_eq!(error.code, "NoMatchesFound");
    }

    #[test]
    fn too_many_files_are_refused() {
        let (_directory, context) = project();
        let search = Search::new(args("**", None), &context).unwrap();
        let many = |count: usize| {
            (0..count).map(|n| File { path: format!("{n}"), size: 0, modified_ms: 0 })
        };
        assert_eq!(search.answer(many(10_000), &context).unwrap().total, 10_000);
        let error = search.answer(many(10_001), &context).unwrap_err();
        assert_eq!(error.code, "TooManyResults");
        assert!(error.message.contains("narrow"), "{error}");
    }
}
