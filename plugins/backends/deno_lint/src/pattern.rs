//! Matches files against the lists in `deno.json`: paths and globs relative to its directory, where
//! `!` marks exceptions.

use cofferdam_sdk::Context;
use globset::{GlobBuilder, GlobMatcher};

/// A list of paths and globs.
#[derive(Debug)]
pub struct Patterns(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    is_negated: bool,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file or a directory with everything in it; empty: the workspace.
    Path(String),
    Glob(Box<GlobMatcher>),
}

impl Patterns {
    /// Parses the patterns of a configuration in `directory`.
    ///
    /// # Errors
    /// A message about the first pattern that is invalid.
    pub fn new(patterns: &[String], directory: &str, context: &Context) -> Result<Self, String> {
        let read = |pattern: &String| {
            Pattern::new(pattern, directory, context)
                .map_err(|error| format!("'{pattern}': {error}"))
        };
        patterns.iter().map(read).collect::<Result<_, String>>().map(Self)
    }

    /// Whether the last pattern that matches the file, or a directory above it, is not negated.
    pub fn matches(&self, file: &str) -> bool {
        let fitting = self.0.iter().rev().find(|pattern| pattern.place.holds(file));
        fitting.is_some_and(|pattern| !pattern.is_negated)
    }
}

impl Pattern {
    fn new(pattern: &str, directory: &str, context: &Context) -> Result<Self, String> {
        let (is_negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        let place = if pattern.contains(['*', '?', '[', '{']) {
            let relative = pattern.trim_start_matches("./").trim_end_matches('/');
            let glob = match directory {
                "" => relative.to_owned(),
                directory => format!("{}/{relative}", globset::escape(directory)),
            };
            let glob = GlobBuilder::new(&glob).literal_separator(true).build();
            Place::Glob(Box::new(glob.map_err(|error| error.to_string())?.compile_matcher()))
        } else {
            let path = if pattern.starts_with('/') || directory.is_empty() {
                pattern.to_owned()
            } else {
                format!("{directory}/{pattern}")
            };
            let path = context.resolve(&path).map_err(|error| error.message)?;
            Place::Path(path.as_str().to_owned())
        };
        Ok(Self { is_negated, place })
    }
}

impl Place {
    fn holds(&self, file: &str) -> bool {
        match self {
            Self::Path(path) => {
                path.is_empty()
                    || file
                        .strip_prefix(path.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Glob(glob) => {
                let directories = file.match_indices('/').map(|(end, _)| &file[..end]);
                glob.is_match(file) || directories.into_iter().any(|path| glob.is_match(path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_and_globs_are_relative_to_the_configuration() {
        let context = Context::for_directory(Path::new("/w"));
        let matches = |patterns: &[&str], directory: &str, file: &str| {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.into()).collect();
            Patterns::new(&patterns, directory, &context).unwrap().matches(file)
        };
        for (patterns, directory, file, wanted) in [
            (&["src"][..], "", "src/a.ts", true),
            (&["./src/"], "", "src/deep/a.ts", true),
            (&["src"], "", "src2/a.ts", false),
            (&["src"], "web", "web/src/a.ts", true),
            (&["src"], "web", "src/a.ts", false),
            (&["."], "web", "web/src/a.ts", true),
            (&["."], "", "a.ts", true),
            (&["../lib"], "web", "lib/a.ts", true),
            (&["*.ts"], "", "a.ts", true),
            (&["*.ts"], "", "src/a.ts", false),
            (&["**/*.ts"], "", "src/a.ts", true),
            (&["**/gen"], "", "src/gen/a.ts", true),
            (&["**/*.ts", "!**/*_test.ts"], "", "src/a_test.ts", false),
            (&["src", "!src/keep.ts"], "", "src/keep.ts", false),
            (&["*.ts"], "w[1]", "w[1]/a.ts", true),
            (&[], "", "a.ts", false),
        ] {
            assert_eq!(
                matches(patterns, directory, file),
                wanted,
                "{patterns:?} {directory} {file}"
            );
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        let context = Context::for_directory(Path::new("/w"));
        for (pattern, wanted) in
            [("a[", "'a['"), ("../x", "leaves the workspace"), ("", "the path is empty")]
        {
            let error = Patterns::new(&[pattern.to_owned()], "", &context).unwrap_err();
            assert!(error.contains(wanted), "{pattern}: {error}");
        }
    }
}
