//! The arguments of the tools, and their conversion to search settings and queries.

use std::ops::Not;

use cofferdam_sdk::scan::{self, Query};
use cofferdam_sdk::{ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::search::{Collect, Limit, Settings};

/// The default maximum number of matches of `search_text`.
const DEFAULT_LIMIT: usize = 100;

/// The arguments of `grep`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrepArgs {
    /// The regular expression to search for.
    pub pattern: String,
    /// The file or directory to search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A file type, as ripgrep names it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub file_type: Option<String>,
    /// A glob for the files to search, or with a leading `!` for those to exclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// What to return for each match.
    #[serde(default)]
    pub output_mode: OutputMode,
    /// Whether case is ignored.
    #[serde(rename = "-i", default, skip_serializing_if = "Not::not")]
    pub ignore_case: bool,
    /// The number of lines to show after each match.
    #[serde(rename = "-A", skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// The number of lines to show before each match.
    #[serde(rename = "-B", skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The number of lines to show before and after each match.
    #[serde(rename = "-C", skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Whether a match can span lines.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub multiline: bool,
    /// The number of results to leave out at the start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// The maximum number of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_limit: Option<usize>,
}

/// The output mode of `grep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The lines that match.
    Content,
    /// Paths of files that match.
    #[default]
    FilesWithMatches,
    /// Numbers of matches per file.
    Count,
}

/// The arguments of `search_text`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTextArgs {
    /// The file or directory to search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The text to search for.
    pub query: String,
    /// Whether the query is a regular expression.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub regex: bool,
    /// The number of matches to leave out at the start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// The maximum number of matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl GrepArgs {
    /// The settings of the search.
    ///
    /// # Errors
    /// `InvalidArguments` for context lines in an output mode without lines.
    pub fn settings(&self) -> Result<Settings<'_>, ToolError> {
        let collect = match self.output_mode {
            OutputMode::Content => Collect::Lines {
                before: self.before.or(self.context).unwrap_or(0),
                after: self.after.or(self.context).unwrap_or(0),
            },
            _ if self.before.or(self.after).or(self.context).is_some() => {
                return Err(ToolError::invalid_args(
                    "InvalidArguments",
                    "-A, -B and -C need \"output_mode\": \"content\": the other modes show no lines",
                ));
            }
            OutputMode::FilesWithMatches => Collect::Files,
            OutputMode::Count => Collect::Counts,
        };
        Ok(Settings {
            pattern: self.pattern.as_str().into(),
            ignore_case: self.ignore_case,
            multiline: self.multiline,
            collect,
            offset: self.offset,
            limit: self.head_limit.map_or(Limit::Page(usize::MAX), Limit::Entries),
        })
    }

    /// The query for the files to search.
    pub fn files(&self, root: &WorkspacePath) -> Query {
        let mut query = scan::query(root);
        query.types.extend(self.file_type.clone());
        match self.glob.as_deref().map(|glob| (glob, glob.strip_prefix('!'))) {
            None => {}
            Some((glob, None)) => query.globs = vec![anchored(glob)],
            // A glob that excludes a directory also excludes its contents.
            Some((_, Some(glob))) => {
                let glob = anchored(glob);
                query.exclude_globs = vec![format!("{glob}/**"), glob];
            }
        }
        query
    }
}

/// Anchors a glob as in .gitignore: without a `/`, it matches names in any directory.
fn anchored(glob: &str) -> String {
    match glob.strip_prefix('/') {
        Some(glob) => glob.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    }
}

impl SearchTextArgs {
    /// The settings of the search. As for grep, each line of a literal query is a text to search
    /// for.
    pub fn settings(&self) -> Settings<'_> {
        let pattern = if self.regex {
            self.query.as_str().into()
        } else {
            let lines: Vec<String> = self.query.lines().map(regex_syntax::escape).collect();
            lines.join("|").into()
        };
        Settings {
            pattern,
            ignore_case: false,
            multiline: false,
            collect: Collect::Lines { before: 0, after: 0 },
            offset: self.offset,
            limit: self.limit.map_or(Limit::Page(DEFAULT_LIMIT), Limit::Entries),
        }
    }

    /// The arguments with the query as a regular expression, if that means something else.
    pub fn as_regex(&self) -> Option<Self> {
        let differs = !self.regex && regex_syntax::escape(&self.query) != self.query;
        differs.then(|| Self { regex: true, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use cofferdam_sdk::Context;
    use serde_json::{Value, json};

    use super::*;
    use crate::pattern::Pattern;

    const GREP: &str = include_str!("../../../schemas/tools/grep.grep.input.json");
    const SEARCH_TEXT: &str = include_str!("../../../schemas/tools/grep.search_text.input.json");

    fn grep(args: Value) -> GrepArgs {
        serde_json::from_value(args).unwrap()
    }

    #[test]
    fn every_example_fits_its_schema_and_compiles() {
        for (schema, key) in [(GREP, "pattern"), (SEARCH_TEXT, "query")] {
            let schema: Value = serde_json::from_str(schema).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let examples = schema["examples"].as_array().unwrap();
            assert!(!examples.is_empty());
            for example in examples {
                validator.validate(example).unwrap();
                if key == "pattern" {
                    grep(example.clone()).settings().unwrap();
                } else {
                    serde_json::from_value::<SearchTextArgs>(example.clone()).unwrap();
                }
                Pattern::compile(example[key].as_str().unwrap(), false, false).unwrap();
            }
        }
    }

    #[test]
    fn the_schema_refuses_what_is_out_of_range() {
        let grep = jsonschema::validator_for(&serde_json::from_str(GREP).unwrap()).unwrap();
        for (field, value) in [
            ("pattern", json!("")),
            ("path", json!("")),
            ("type", json!(1)),
            ("glob", json!("")),
            ("output_mode", json!("lines")),
            ("-i", json!("yes")),
            ("-A", json!(1001)),
            ("-B", json!(-1)),
            ("-C", json!(1.5)),
            ("head_limit", json!(0)),
            ("head_limit", json!(10_001)),
            ("-n", json!(true)),
        ] {
            let mut args = json!({"pattern": "x"});
            args[field] = value;
            assert!(!grep.is_valid(&args), "{args}");
        }
        let search =
            jsonschema::validator_for(&serde_json::from_str(SEARCH_TEXT).unwrap()).unwrap();
        for args in [
            json!({}),
            json!({"query": ""}),
            json!({"query": "x", "limit": 0}),
            json!({"query": "x", "pattern": "x"}),
        ] {
            assert!(!search.is_valid(&args), "{args}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(serde_json::from_value::<GrepArgs>(json!({"pattern": "x", "-n": true})).is_err());
        assert!(
            serde_json::from_value::<SearchTextArgs>(json!({"query": "x", "type": "py"})).is_err()
        );
    }

    #[test]
    fn context_lines_are_for_content_only() {
        for (args, lines) in [
            (json!({}), Ok(Collect::Files)),
            (json!({"output_mode": "count"}), Ok(Collect::Counts)),
            (json!({"output_mode": "content"}), Ok(Collect::Lines { before: 0, after: 0 })),
            (
                json!({"output_mode": "content", "-C": 2}),
                Ok(Collect::Lines { before: 2, after: 2 }),
            ),
            (
                json!({"output_mode": "content", "-C": 2, "-A": 0}),
                Ok(Collect::Lines { before: 2, after: 0 }),
            ),
            (
                json!({"output_mode": "content", "-B": 1}),
                Ok(Collect::Lines { before: 1, after: 0 }),
            ),
            (json!({"-C": 1}), Err("InvalidArguments")),
            (json!({"output_mode": "count", "-A": 1}), Err("InvalidArguments")),
            (json!({"output_mode": "files_with_matches", "-B": 1}), Err("InvalidArguments")),
        ] {
            let mut args = args;
            args["pattern"] = json!("x");
            let shown = args.to_string();
            let args = grep(args);
            let collect = args.settings().map(|settings| settings.collect);
            assert_eq!(
                collect.as_ref().map_err(|error| error.code.as_str()),
                lines.as_ref().map_err(|code| *code),
                "{shown}"
            );
        }
    }

    #[test]
    fn globs_follow_the_usual_rules() {
        let root = Context::for_directory(Path::new("/w")).resolve("src").unwrap();
        for (glob, globs, exclude_globs) in [
            ("*.rs", vec!["**/*.rs"], vec![]),
            ("*.{ts,tsx}", vec!["**/*.{ts,tsx}"], vec![]),
            ("api/*.rs", vec!["api/*.rs"], vec![]),
            ("/*.rs", vec!["*.rs"], vec![]),
            ("!vendor", vec![], vec!["**/vendor/**", "**/vendor"]),
        ] {
            let query = grep(json!({"pattern": "x", "glob": glob, "type": "rust"})).files(&root);
            assert_eq!(
                (query.globs, query.exclude_globs),
                (
                    globs.into_iter().map(str::to_owned).collect(),
                    exclude_globs.into_iter().map(str::to_owned).collect(),
                ),
                "{glob}"
            );
            assert_eq!((query.root.as_str(), query.types), ("src", vec!["rust".to_owned()]));
        }
    }

    #[test]
    fn search_text_has_a_limit_of_its_own() {
        for (args, limit) in [
            (json!({"query": "x"}), Limit::Page(100)),
            (json!({"query": "x", "limit": 50}), Limit::Entries(50)),
        ] {
            let args: SearchTextArgs = serde_json::from_value(args).unwrap();
            assert_eq!(args.settings().limit, limit);
        }
    }
}
