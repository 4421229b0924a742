//! The results of the tools.

use std::ops::Not;

use cofferdam_sdk::answer::{Notice, call_text};
use serde::Serialize;

use crate::args::{GrepArgs, OutputMode, SearchTextArgs};
use crate::search::{FileCount, Found, Limit, MAX_ENTRIES, Match};

/// The result of `grep`, with the fields of its output mode.
#[derive(Debug, Serialize)]
pub struct GrepAnswer {
    /// The output mode.
    pub output_mode: OutputMode,
    /// The paths of the files that match, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The files that match, with their counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<FileCount>>,
    /// The lines that match, by file and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<Match>>,
    /// The number of files that match; with `head_limit`, of those listed.
    pub total_files: usize,
    /// The number of matches in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_matches: Option<usize>,
    /// Whether some are left out.
    #[serde(skip_serializing_if = "Not::not")]
    pub truncated: bool,
    /// What was left out, and the call for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Nothing was found, or too much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

/// The result of `search_text`.
#[derive(Debug, Serialize)]
pub struct SearchTextAnswer {
    /// The lines that match; may be empty.
    pub matches: Vec<Match>,
    /// Whether some are left out.
    #[serde(skip_serializing_if = "Not::not")]
    pub truncated: bool,
    /// What was left out, and the call for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

impl GrepAnswer {
    /// Converts the result of a search to the requested output mode.
    pub fn new(args: &GrepArgs, found: Found) -> Self {
        let notice = notice(args, &found);
        let (what, listed, all) = match args.output_mode {
            OutputMode::Content => ("matches", found.lines.len(), found.total_matches),
            _ => ("files", found.files.len(), found.total_files),
        };
        let is_page = args.head_limit.is_none();
        let next = GrepArgs { offset: args.offset + listed, ..args.clone() };
        let left_out =
            found.truncated.then(|| left_out("grep", what, listed, is_page.then_some(all), &next));
        let (total_files, total_matches) = if is_page {
            (found.total_files, found.total_matches)
        } else {
            (found.files.len(), found.files.iter().map(|file| file.matches).sum())
        };
        let mut answer = Self {
            output_mode: args.output_mode,
            files: None,
            counts: None,
            matches: None,
            total_files,
            total_matches: Some(total_matches),
            truncated: found.truncated,
            left_out,
            notice,
        };
        match args.output_mode {
            OutputMode::FilesWithMatches => {
                answer.total_matches = None;
                answer.files = Some(found.files.into_iter().map(|file| file.file).collect());
            }
            OutputMode::Count => answer.counts = Some(found.files),
            OutputMode::Content => answer.matches = Some(found.lines),
        }
        answer
    }
}

impl SearchTextAnswer {
    /// Converts the result of a search. `as_regex` is the result of searching for the query as a
    /// regular expression, if it was not found literally.
    pub fn new(args: &SearchTextArgs, found: Found, as_regex: Option<&Found>) -> Self {
        let listed = found.lines.len();
        let is_page = matches!(args.settings().limit, Limit::Page(_));
        let next = SearchTextArgs { offset: args.offset + listed, ..args.clone() };
        let all = is_page.then_some(found.total_matches);
        let left_out =
            found.truncated.then(|| left_out("search_text", "matches", listed, all, &next));
        let notice = (found.total_matches == 0).then(|| no_text(args, &found, as_regex));
        Self { matches: found.lines, truncated: found.truncated, left_out, notice }
    }
}

/// The text about what was left out: how much, and the call for the next page.
fn left_out(
    tool: &str,
    what: &str,
    listed: usize,
    all: Option<usize>,
    next: &impl Serialize,
) -> String {
    let count = match all {
        Some(all) => format!("{listed} of {all} {what} are listed"),
        None => format!("there are more than these {listed} {what}"),
    };
    format!("{count}; the next: {}", call_text(tool, next))
}

fn no_text(args: &SearchTextArgs, found: &Found, as_regex: Option<&Found>) -> Notice {
    let place = args.path.as_deref().unwrap_or(".");
    let mut message =
        format!("no match for '{}' in {} file(s) below '{place}'", args.query, found.searched);
    if let (Some(other), Some(args)) =
        (as_regex.filter(|other| other.total_matches > 0), args.as_regex())
    {
        message += &format!(
            " as plain text; as a regular expression it matches {} line(s) in {} file(s): \
             {}",
            other.total_matches,
            other.total_files,
            call_text("search_text", &args)
        );
    }
    Notice { code: "NoMatches", message }
}

fn notice(args: &GrepArgs, found: &Found) -> Option<Notice> {
    let is_content = args.output_mode == OutputMode::Content;
    let all = if is_content { found.total_matches } else { found.total_files };
    if all == 0 {
        return Some(Notice { code: "NoMatches", message: no_matches(args, found) });
    }
    let what = if is_content { "lines to show" } else { "files match" };
    (all > MAX_ENTRIES && args.head_limit.is_none()).then(|| Notice {
        code: "TooManyMatches",
        message: format!(
            "more than {MAX_ENTRIES} {what}. Narrow the search with a more specific pattern, \
             `path`, `type` or `glob`, or set `head_limit`"
        ),
    })
}

fn no_matches(args: &GrepArgs, found: &Found) -> String {
    let mut place = format!("below '{}'", args.path.as_deref().unwrap_or("."));
    if let Some(file_type) = &args.file_type {
        place += &format!(" of type {file_type}");
    }
    if let Some(glob) = &args.glob {
        place += &format!(" selected by '{glob}'");
    }
    if found.searched == 0 {
        return format!(
            "there is no file to search {place}. Hidden and ignored files are left out"
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
    message
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;
    use crate::args::SearchTextArgs;
    use crate::deadline::Deadline;
    use crate::pattern::Pattern;
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

    fn grep(args: Value) -> Value {
        let args: GrepArgs = serde_json::from_value(args).unwrap();
        let found = search(&args.settings().unwrap());
        let answer = serde_json::to_value(GrepAnswer::new(&args, found)).unwrap();
        assert_valid(include_str!("../../../schemas/tools/grep.grep.output.json"), &answer);
        answer
    }

    fn search_text(args: Value) -> Value {
        let args: SearchTextArgs = serde_json::from_value(args).unwrap();
        let found = search(&args.settings());
        let other =
            args.as_regex().filter(|args| Pattern::compile(&args.query, false, false).is_ok());
        let other = other.map(|args| search(&args.settings()));
        let answer = SearchTextAnswer::new(&args, found, other.as_ref());
        let answer = serde_json::to_value(answer).unwrap();
        assert_valid(include_str!("../../../schemas/tools/grep.search_text.output.json"), &answer);
        answer
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
                json!({
                    "output_mode": "files_with_matches", "files": ["a.py"], "total_files": 1,
                    "truncated": true,
                    "left_out": "there are more than these 1 files; the next: grep \
                                 {\"pattern\":\"foo\",\"output_mode\":\"files_with_matches\",\"offset\":1,\"head_limit\":1}"
                }),
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
                    "truncated": true,
                    "left_out": "there are more than these 1 matches; the next: grep \
                                 {\"pattern\":\"foo\",\"output_mode\":\"content\",\"-A\":1,\"-B\":1,\"offset\":1,\"head_limit\":1}"
                }),
            ),
            (
                json!({"pattern": "foo", "offset": 1}),
                json!({"output_mode": "files_with_matches", "files": ["c.py"], "total_files": 2}),
            ),
        ] {
            assert_eq!(grep(args), answer);
        }
    }

    #[test]
    fn search_text_takes_its_query_literally() {
        let line = |line: u64, text: &str| json!({"file": "a.py", "line": line, "text": text});
        for (args, matches) in [
            (json!({"query": "FOO"}), json!([])),
            (json!({"query": "ba."}), json!([])),
            (json!({"query": "foo("}), json!([])),
            (json!({"query": "ba.", "regex": true}), json!([line(3, "bar")])),
            (json!({"query": "import os\nbar\n"}), json!([line(1, "import os"), line(3, "bar")])),
            (json!({"query": "foo", "limit": 1}), json!([line(2, "foo")])),
            (json!({"query": "foo", "offset": 1, "limit": 1}), json!([line(4, "foo")])),
        ] {
            assert_eq!(search_text(args.clone())["matches"], matches, "{args}");
        }
        let limited = search_text(json!({"query": "foo", "limit": 1}));
        assert_eq!(
            limited["left_out"],
            "there are more than these 1 matches; the next: search_text \
             {\"query\":\"foo\",\"offset\":1,\"limit\":1}"
        );
    }

    #[test]
    fn a_query_that_would_match_as_a_pattern_is_explained() {
        let notice = search_text(json!({"query": "ba."}))["notice"].clone();
        assert_eq!(notice["code"], "NoMatches");
        assert_eq!(
            notice["message"],
            "no match for 'ba.' in 4 file(s) below '.' as plain text; as a regular expression it \
             matches 1 line(s) in 1 file(s): search_text {\"query\":\"ba.\",\"regex\":true}"
        );
        let plain = search_text(json!({"query": "xyz"}))["notice"]["message"].clone();
        assert_eq!(plain, "no match for 'xyz' in 4 file(s) below '.'");
    }

    #[test]
    fn no_match_is_an_answer_that_names_possible_causes() {
        for (args, part) in [
            (json!({"pattern": "FOO"}), "no match for 'FOO' in 4 file(s) below '.'."),
            (
                json!({"pattern": "FOO", "path": "src", "type": "py", "glob": "a*"}),
                "below 'src' of type py selected by 'a*'.",
            ),
            (json!({"pattern": r"foo\|bar"}), r"`\|` is a literal '|'"),
            (json!({"pattern": "here"}), "1 binary file(s)"),
        ] {
            let answer = grep(args);
            assert_eq!(answer["total_files"], 0);
            assert_eq!(answer["notice"]["code"], "NoMatches");
            let message = answer["notice"]["message"].as_str().unwrap();
            assert!(message.contains(part), "{message}");
        }
        let args: GrepArgs = serde_json::from_value(json!({"pattern": "x", "type": "go"})).unwrap();
        let notice = GrepAnswer::new(&args, Found::default()).notice.unwrap();
        assert!(notice.message.contains("no file to search below '.' of type go"));
    }

    #[test]
    fn a_default_answer_is_bounded_and_its_totals_are_exact() {
        let many: Vec<(String, Vec<u8>)> = (0..20_000)
            .map(|n| (format!("src/module_{n}/file.py"), b"foo\nfoo\n".to_vec()))
            .collect();
        let answer = |args: Value| {
            let args: GrepArgs = serde_json::from_value(args).unwrap();
            let mut search =
                Search::new(&args.settings().unwrap(), Deadline::new(600_000)).unwrap();
            for (path, contents) in &many {
                assert!(search.look(|| path.clone(), contents));
            }
            let answer = GrepAnswer::new(&args, search.finish().unwrap());
            serde_json::to_value(answer).unwrap()
        };
        for (mode, list) in
            [("files_with_matches", "files"), ("count", "counts"), ("content", "matches")]
        {
            let first = answer(json!({"pattern": "foo", "output_mode": mode}));
            assert!(first.to_string().len() <= 32 * 1024, "{mode}");
            assert_eq!(first["total_files"], 20_000);
            assert_eq!(first["notice"]["code"], "TooManyMatches");
            if mode != "files_with_matches" {
                assert_eq!(first["total_matches"], 40_000);
            }
            let listed = first[list].as_array().unwrap().len();
            let call = first["left_out"].as_str().unwrap().split_once("grep ").unwrap().1;
            let next: Value = serde_json::from_str(call).unwrap();
            assert_eq!(next["offset"], listed, "{call}");
            let second = answer(next);
            assert_ne!(second[list][0], first[list][listed - 1]);
            assert!(!second[list].as_array().unwrap().is_empty());
        }
    }
}
