//! The results of the tools.

use std::ops::Not;

use cofferdam_sdk::ToolError;
use serde::Serialize;

use crate::args::{GrepArgs, OutputMode};
use crate::search::{FileCount, Found, Match};

/// The result of `grep`. The totals count only what is listed; `truncated` says that there is more.
#[derive(Debug, Serialize)]
#[serde(tag = "output_mode", rename_all = "snake_case")]
pub enum GrepAnswer {
    /// The paths of the files that match.
    FilesWithMatches {
        /// The paths, in order.
        files: Vec<String>,
        /// The number of files listed.
        total_files: usize,
        /// Whether `head_limit` was exceeded, so that some are left out.
        #[serde(skip_serializing_if = "Not::not")]
        truncated: bool,
    },
    /// The number of matches in each file.
    Count {
        /// The files that match, with their counts.
        counts: Vec<FileCount>,
        /// The number of files listed.
        total_files: usize,
        /// The sum of the counts.
        total_matches: usize,
        /// Whether `head_limit` was exceeded, so that some are left out.
        #[serde(skip_serializing_if = "Not::not")]
        truncated: bool,
    },
    /// The lines that match.
    Content {
        /// The matches, by file and line.
        matches: Vec<Match>,
        /// The number of files with listed matches.
        total_files: usize,
        /// The number of matches listed.
        total_matches: usize,
        /// Whether `head_limit` was exceeded, so that some are left out.
        #[serde(skip_serializing_if = "Not::not")]
        truncated: bool,
    },
}

/// The result of `search_text`.
#[derive(Debug, Serialize)]
pub struct SearchTextAnswer {
    /// The lines that match; may be empty.
    pub matches: Vec<Match>,
    /// Whether `limit` was exceeded, so that some are left out.
    #[serde(skip_serializing_if = "Not::not")]
    pub truncated: bool,
}

impl GrepAnswer {
    /// Converts the result of a search to the requested output mode.
    ///
    /// # Errors
    /// `NoMatches`, with possible causes.
    pub fn new(args: &GrepArgs, found: Found) -> Result<Self, ToolError> {
        if found.files.is_empty() {
            return Err(no_matches(args, &found));
        }
        let total_files = found.files.len();
        let total_matches = found.files.iter().map(|file| file.matches).sum();
        let truncated = found.truncated;
        Ok(match args.output_mode {
            OutputMode::FilesWithMatches => Self::FilesWithMatches {
                files: found.files.into_iter().map(|file| file.file).collect(),
                total_files,
                truncated,
            },
            OutputMode::Count => {
                Self::Count { counts: found.files, total_files, total_matches, truncated }
            }
            OutputMode::Content => {
                Self::Content { matches: found.lines, total_files, total_matches, truncated }
            }
        })
    }
}

impl From<Found> for SearchTextAnswer {
    fn from(found: Found) -> Self {
        Self { matches: found.lines, truncated: found.truncated }
    }
}

fn no_matches(args: &GrepArgs, found: &Found) -> ToolError {
    let mut place = format!("below '{}'", args.path.as_deref().unwrap_or("."));
    if let Some(file_type) = &args.file_type {
        place += &format!(" of type {file_type}");
    }
    if let Some(glob) = &args.glob {
        place += &format!(" selected by '{glob}'");
    }
    if found.searched == 0 {
        return ToolError::not_found(
            "NoMatches",
            format!("there is no file to search {place}. Hidden and ignored files are left out"),
        );
    }
    let mut message =
        format!("no match for '{}' in {} file(s) {place}", args.pattern, found.searched);
    if found.binary > 0 {
        message += &format!("; {} binary file(s) that may match were left out", found.binary);
    }
    message += if args.pattern.contains(r"\|") {
        r". Here `\|` is a literal '|'; alternatives are written with a plain `|`"
    } else {
        ". Try a broader pattern, or other files"
    };
    ToolError::not_found("NoMatches", message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;
    use crate::args::SearchTextArgs;
    use crate::deadline::Deadline;
    use crate::search::{Search, Settings};

    const FILES: [(&str, &[u8]); 4] = [
        ("a.py", b"import os\nfoo\nbar\nfoo\n"),
        ("b.py", b"nothing\n"),
        ("c.py", b"foo"),
        ("d.bin", b"only here\0"),
    ];

    fn search(settings: &Settings<'_>) -> Found {
        let mut search = Search::new(settings, Deadline::new(60_000)).unwrap();
        let _stopped_early =
            FILES.iter().all(|(path, contents)| search.look(|| (*path).to_owned(), contents));
        search.finish().unwrap()
    }

    fn grep(args: Value) -> Result<Value, ToolError> {
        let args: GrepArgs = serde_json::from_value(args).unwrap();
        let found = search(&args.settings().unwrap());
        GrepAnswer::new(&args, found).map(|answer| serde_json::to_value(answer).unwrap())
    }

    fn assert_valid(schema: &str, answer: &Value) {
        let schema = serde_json::from_str(schema).unwrap();
        jsonschema::validator_for(&schema).unwrap().validate(answer).unwrap();
    }

    #[test]
    fn each_output_mode_has_its_form() {
        for (args, answer) in [
            (
                json!({"pattern": "foo"}),
                json!({"output_mode": "files_with_matches", "files": ["a.py", "c.py"], "total_files": 2}),
            ),
            (
                json!({"pattern": "foo", "head_limit": 1}),
                json!({"output_mode": "files_with_matches", "files": ["a.py"], "total_files": 1, "truncated": true}),
            ),
            (
                json!({"pattern": "foo", "output_mode": "count"}),
                json!({
                    "output_mode": "count",
                    "counts": [{"file": "a.py", "matches": 2}, {"file": "c.py", "matches": 1}],
                    "total_files": 2,
                    "total_matches": 3
                }),
            ),
            (
                json!({"pattern": "foo", "output_mode": "content", "-B": 1, "-A": 1, "head_limit": 1}),
                json!({
                    "output_mode": "content",
                    "matches": [{
                        "file": "a.py",
                        "line": 2,
                        "text": "foo",
                        "before": [{"line": 1, "text": "import os"}],
                        "after": [{"line": 3, "text": "bar"}]
                    }],
                    "total_files": 1,
                    "total_matches": 1,
                    "truncated": true
                }),
            ),
        ] {
            let found = grep(args).unwrap();
            assert_eq!(found, answer);
            assert_valid(include_str!("../../../schemas/tools/grep.grep.output.json"), &found);
        }
    }

    #[test]
    fn search_text_may_find_nothing() {
        for (args, answer) in [
            (json!({"query": "FOO"}), json!({"matches": []})),
            (
                json!({"query": "ba."}),
                json!({"matches": [{"file": "a.py", "line": 3, "text": "bar"}]}),
            ),
            (
                json!({"query": "foo", "limit": 1}),
                json!({"matches": [{"file": "a.py", "line": 2, "text": "foo"}], "truncated": true}),
            ),
        ] {
            let args: SearchTextArgs = serde_json::from_value(args).unwrap();
            let found = SearchTextAnswer::from(search(&args.settings()));
            let found = serde_json::to_value(found).unwrap();
            assert_eq!(found, answer);
            assert_valid(
                include_str!("../../../schemas/tools/grep.search_text.output.json"),
                &found,
            );
        }
    }

    #[test]
    fn the_error_without_matches_names_possible_causes() {
        for (args, part) in [
            (json!({"pattern": "FOO"}), "no match for 'FOO' in 4 file(s) below '.'."),
            (
                json!({"pattern": "FOO", "path": "src", "type": "py", "glob": "a*"}),
                "below 'src' of type py selected by 'a*'.",
            ),
            (json!({"pattern": r"foo\|bar"}), r"`\|` is a literal '|'"),
            (json!({"pattern": "here"}), "1 binary file(s)"),
        ] {
            let error = grep(args).unwrap_err();
            assert_eq!(error.code, "NoMatches");
            assert!(error.message.contains(part), "{}", error.message);
        }
        let args: GrepArgs = serde_json::from_value(json!({"pattern": "x", "type": "go"})).unwrap();
        let error = GrepAnswer::new(&args, Found::default()).unwrap_err();
        assert!(
            error.message.contains("no file to search below '.' of type go"),
            "{}",
            error.message
        );
    }
}
