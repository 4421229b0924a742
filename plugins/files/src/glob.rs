//! `glob`: finds files whose paths match a pattern, the newest first.
//!
//! The host lists the files that match a coarse form of the pattern; this module filters and sorts
//! them.

use std::cmp::Reverse;

use cofferdam_sdk::answer::{Notice, call_text, text_bytes};
use cofferdam_sdk::scan::{self, File, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// The number of files from which on a pattern is too broad, as the tool schemas say.
const MAX_RESULTS: usize = 10_000;

/// The maximum size of the paths in a result, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// The arguments of `glob`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A glob, relative to `path` or absolute.
    pub pattern: String,
    /// The directory to search; the default is the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The number of files to leave out at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// The result of `glob`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Absolute paths, the most recently modified first.
    pub files: Vec<String>,
    /// The number of files that match, listed or not.
    pub total: usize,
    /// How many are left out, and the call for the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Nothing was found, or too much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

/// A prepared search: the query for the host, and the filter.
#[derive(Debug)]
pub struct Search {
    args: Args,
    pattern: Pattern,
    /// The directory that the pattern's prefix leads to.
    root: WorkspacePath,
    /// Whether that directory exists.
    exists: bool,
}

impl Search {
    /// Prepares a search from the arguments.
    ///
    /// # Errors
    /// Those of [`Context::resolve`] and [`Pattern::parse`]; `PathNotFound` if `path` is not a
    /// directory.
    pub fn new(args: Args, context: &Context) -> Result<Self, ToolError> {
        let base = context.resolve(args.path.as_deref().unwrap_or("."))?;
        if !context.local(&base).is_dir() {
            let message = format!("no such directory: {}", context.absolute(&base));
            return Err(ToolError::not_found("PathNotFound", message));
        }
        let base = context.absolute(&base);
        let pattern = Pattern::parse(relative(&args.pattern, &base)?)?;
        let root = context.resolve(&format!("{base}/{}", pattern.prefix()))?;
        let exists = context.local(&root).is_dir();
        Ok(Self { args, pattern, root, exists })
    }

    /// The query for the host; `None` if the directories of the pattern's prefix don't exist.
    pub fn query(&self) -> Option<Query> {
        let query = || Query {
            globs: self.pattern.coarse(),
            exclude_globs: self.pattern.excluded().map(|name| format!("**/{name}/**")).collect(),
            ignore_files: false,
            hidden: self.pattern.wants_hidden(),
            follow_links: true,
            ..scan::query(&self.root)
        };
        self.exists.then(query)
    }

    /// Filters and sorts the files that the host found.
    ///
    /// # Errors
    /// Those of [`Context::resolve`].
    pub fn answer(
        &self,
        files: impl Iterator<Item = File>,
        context: &Context,
    ) -> Result<Output, ToolError> {
        let mut found: Vec<File> = files.filter(|file| self.matches(&file.path)).collect();
        found.sort_unstable_by(|a, b| {
            (Reverse(a.modified_ms), &a.path).cmp(&(Reverse(b.modified_ms), &b.path))
        });
        let total = found.len();
        let offset = self.args.offset.unwrap_or(0).min(total);
        let mut left = PAGE_BYTES;
        let mut files = Vec::new();
        for file in &found[offset..] {
            let path = context.absolute(&context.resolve(&file.path)?);
            match left.checked_sub(text_bytes(&path) + "\"\",".len()) {
                Some(rest) => left = rest,
                None => break,
            }
            files.push(path);
        }
        let end = offset + files.len();
        let left_out = (end < total).then(|| {
            let next = Args { offset: Some(end), ..self.args.clone() };
            let next = call_text("glob", &next);
            format!("{} of {total} files are listed; the next: {next}", files.len())
        });
        Ok(Output { files, total, left_out, notice: self.notice(total) })
    }

    fn notice(&self, total: usize) -> Option<Notice> {
        if total == 0 {
            return Some(Notice { code: "NoMatchesFound", message: self.no_matches() });
        }
        (total > MAX_RESULTS).then(|| Notice {
            code: "TooManyResults",
            message: format!(
                "'{}' matches {total} files, more than {MAX_RESULTS}; narrow it with a \
                 subdirectory (`src/**/*.py` instead of `**/*.py`), an extension or `path`",
                self.args.pattern,
            ),
        })
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

    fn no_matches(&self) -> String {
        let place = self.args.path.as_deref().unwrap_or("the workspace");
        format!(
            "no file in {place} matches '{}'; `**/` looks at any depth, and names that start \
             with a dot need a dot in the pattern",
            self.args.pattern,
        )
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
        Args { pattern: pattern.to_owned(), path: path.map(str::to_owned), offset: None }
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
            assert_eq!(
                output,
                Output { files: wanted, total, left_out: None, notice: None },
                "{pattern}"
            );
        }
    }

    #[test]
    fn the_query_for_the_host_is_narrow() {
        let (_directory, context) = project();
        let query = Search::new(args("src/**/?.py", None), &context).unwrap().query().unwrap();
        assert_eq!((query.root.as_str(), query.hidden), ("src", false));
        assert_eq!(query.globs, ["**/*.py"]);
        assert_eq!(query.exclude_globs, ["**/.git/**", "**/.cofferdam/**"]);
        assert!(query.follow_links && !query.ignore_files);
        let query = Search::new(args("**/.git/*", Some("src")), &context).unwrap().query().unwrap();
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
        ] {
            let error = Search::new(args(pattern, path), &context).unwrap_err();
            assert_eq!(error.code, code, "{pattern} {path:?}");
        }
    }

    #[test]
    fn no_match_is_an_answer() {
        let (_directory, context) = project();
        for (pattern, exists) in [("*.rs", true), ("none/*.py", false), ("README.md/*", false)] {
            let search = Search::new(args(pattern, None), &context).unwrap();
            assert_eq!(search.query().is_some(), exists, "{pattern}");
            let output = search.answer(files(&TREE), &context).unwrap();
            assert_eq!((output.total, output.files.len()), (0, 0), "{pattern}");
            let notice = output.notice.unwrap();
            assert_eq!(notice.code, "NoMatchesFound");
            assert!(notice.message.contains(&format!("matches '{pattern}'")), "{notice:?}");
        }
    }

    #[test]
    fn many_files_are_paged_and_counted() {
        let (_directory, context) = project();
        let answer = |args: Args, count: usize| {
            let many = (0..count).map(|n| File {
                path: format!("src/module_{n:05}.py"),
                size: 0,
                modified_ms: 0,
            });
            let search = Search::new(args, &context).unwrap();
            let output = search.answer(many, &context).unwrap();
            assert!(serde_json::to_string(&output).unwrap().len() <= 32 * 1024);
            assert_eq!(output.total, count);
            output
        };
        let (mut next, mut seen) = (args("**/*.py", None), Vec::new());
        loop {
            let output = answer(next.clone(), 10_000);
            assert_eq!(output.notice, None);
            seen.extend(output.files);
            let Some(left_out) = output.left_out else { break };
            next = serde_json::from_str(left_out.split_once("glob ").unwrap().1).unwrap();
            assert_eq!(next.offset, Some(seen.len()));
        }
        assert_eq!(seen.len(), 10_000);
        assert!(seen[9_999].ends_with("src/module_09999.py"));
        let notice = answer(args("**", None), 10_001).notice.unwrap();
        assert_eq!(notice.code, "TooManyResults");
        assert!(notice.message.contains("10000; narrow"), "{notice:?}");
    }
}
