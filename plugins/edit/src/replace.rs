//! `atomic_replace`: makes several exact replacements in one file, or none of them.

use std::ops::Range;

use cofferdam_sdk::{Context, ToolError};
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use crate::paths::editable;
use crate::validation;

/// The maximum length of an `old_string` in messages and results, in characters.
const MAX_PREVIEW_CHARS: usize = 40;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to change.
    pub file_path: String,
    /// The replacements to make.
    pub replacements: Vec<Replacement>,
}

/// The replacement of one text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// Text that occurs exactly once in the file.
    pub old_string: String,
    /// The text that replaces it.
    pub new_string: String,
}

/// The result of the tool.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The file, relative to the workspace.
    pub path: String,
    /// Whether the file was changed.
    pub changed: bool,
    /// The number of replacements: always all of them.
    pub replacements_applied: usize,
    /// One entry for each replacement, in the order of the arguments.
    pub details: Vec<Detail>,
}

/// The result of one replacement.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The beginning of the replaced text.
    pub old_string_preview: String,
    /// Always `applied`: a replacement that can't be made fails the call.
    pub status: &'static str,
}

/// Checks the replacements, then writes the file if its content changes.
///
/// # Errors
/// `ValidationFailed` with every problem; the errors of reading and writing the file.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = editable(context, &args.file_path)?;
    let text = String::from_utf8(context.read(&path)?).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        validation::failed(
            &path,
            &[format!("File is not valid UTF-8 (first bad byte at offset {offset})")],
        )
    })?;
    let replaced =
        replace(&text, &args.replacements).map_err(|errors| validation::failed(&path, &errors))?;
    if let Some(replaced) = &replaced {
        context.write(&path, replaced.as_bytes())?;
    }
    let details = args
        .replacements
        .iter()
        .map(|replacement| Detail {
            old_string_preview: preview(&replacement.old_string),
            status: "applied",
        })
        .collect();
    Ok(Output {
        path: path.as_str().to_owned(),
        changed: replaced.is_some(),
        replacements_applied: args.replacements.len(),
        details,
    })
}

/// Replaces each `old_string` in `text`; a replacement does not see the results of others. `None`
/// if the text does not change.
///
/// # Errors
/// Every problem, in the order of the replacements.
pub fn replace(text: &str, replacements: &[Replacement]) -> Result<Option<String>, Vec<String>> {
    if replacements.is_empty() {
        return Err(vec!["No replacements given".to_owned()]);
    }
    let mut spans: Vec<(Range<usize>, usize)> = Vec::with_capacity(replacements.len());
    let mut errors: Vec<(usize, String)> = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        match find(text, replacement) {
            Ok(span) => spans.push((span, index)),
            Err(problem) => {
                errors.push((index, format!("{problem}{}", shown(&replacement.old_string))))
            }
        }
    }
    spans.sort_by_key(|(span, index)| (span.start, *index));
    let mut furthest: Option<&(Range<usize>, usize)> = None;
    for entry in &spans {
        let (span, index) = entry;
        if let Some((before, other)) = furthest
            && span.start < before.end
        {
            let (first, second) = (index.min(other), index.max(other));
            let old = &replacements[*second].old_string;
            errors.push((*second, format!("overlaps replacement {first}{}", shown(old))));
        }
        if furthest.is_none_or(|(before, _)| span.end > before.end) {
            furthest = Some(entry);
        }
    }
    if !errors.is_empty() {
        errors.sort_by_key(|(index, _)| *index);
        return Err(errors
            .into_iter()
            .map(|(index, problem)| format!("Replacement {index}: {problem}"))
            .collect());
    }

    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for (span, index) in &spans {
        result.push_str(&text[done..span.start]);
        result.push_str(&replacements[*index].new_string);
        done = span.end;
    }
    // The text before the first and after the last replacement stays as it is.
    let first = spans.first().map_or(0, |(span, _)| span.start);
    if result[first..] == text[first..done] {
        return Ok(None);
    }
    result.push_str(&text[done..]);
    Ok(Some(result))
}

/// The range of the replacement's `old_string`, or a message about the problem.
fn find(text: &str, replacement: &Replacement) -> Result<Range<usize>, String> {
    let old = replacement.old_string.as_str();
    let Some(first) = old.chars().next() else {
        return Err("old_string is empty".to_owned());
    };
    if *old == replacement.new_string {
        return Err("old_string and new_string are identical".to_owned());
    }
    // Vectorised, unlike the standard library's search in WebAssembly.
    let finder = Finder::new(old);
    let Some(start) = finder.find(text.as_bytes()) else {
        return Err(match other_line_ends(text, old) {
            Some(hint) => format!("not found ({hint})"),
            None => "not found".to_owned(),
        });
    };
    // Overlapping occurrences are ambiguous too, ...
    if finder.find(&text.as_bytes()[start + first.len_utf8()..]).is_some() {
        // ... but are counted as editors do, without overlaps.
        let occurrences = text.matches(old).count().max(2);
        return Err(format!("ambiguous ({occurrences} occurrences)"));
    }
    Ok(start..start + old.len())
}

/// A hint if `old` would be found with other line ends.
fn other_line_ends(text: &str, old: &str) -> Option<&'static str> {
    let plain = |text: &str| text.replace("\r\n", "\n");
    let differs = old.contains('\n') && (old.contains("\r\n") || text.contains("\r\n"));
    if !differs || !plain(text).contains(&plain(old)) {
        return None;
    }
    Some(if old.contains("\r\n") {
        "it is there with other line ends: write them as \\n"
    } else {
        "it is there with other line ends: write them as \\r\\n"
    })
}

/// `: ` and the preview; empty for an empty text.
fn shown(old: &str) -> String {
    if old.is_empty() { String::new() } else { format!(": {}", preview(old)) }
}

/// The first line of a text, shortened with `...`. Text of white space only is escaped.
fn preview(text: &str) -> String {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return cut(&text.escape_debug().to_string(), false);
    }
    let line = trimmed.lines().next().unwrap_or_default();
    cut(line, line.len() < trimmed.len())
}

fn cut(line: &str, more: bool) -> String {
    match line.char_indices().nth(MAX_PREVIEW_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if more => format!("{line}..."),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use cofferdam_sdk::ErrorKind;
    use serde_json::json;

    use super::*;

    fn replacements(pairs: &[(&str, &str)]) -> Vec<Replacement> {
        let one = |(old, new): &(&str, &str)| Replacement {
            old_string: (*old).to_owned(),
            new_string: (*new).to_owned(),
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn replacements_apply_to_the_original() {
        for (text, pairs, wanted) in [
            ("one two three", &[("two", "2")][..], "one 2 three"),
            ("one two three", &[("three", "one"), ("one", "three")], "three two one"),
            ("ab", &[("a", "b"), ("b", "a")], "ba"),
            ("touching", &[("touch", "T"), ("ing", "I")], "TI"),
            ("a\r\nb\r\n", &[("a\r\nb", "c")], "c\r\n"),
            ("\u{feff}x = 1", &[("x", "y")], "\u{feff}y = 1"),
            ("héllo wörld", &[("ö", "o"), ("é", "e")], "hello world"),
            ("gone", &[("gone", "")], ""),
        ] {
            let replaced = replace(text, &replacements(pairs)).unwrap();
            assert_eq!(replaced.as_deref(), Some(wanted), "{text:?}");
        }
    }

    #[test]
    fn replacements_without_effect_do_not_write_the_file() {
        for (text, pairs) in [
            ("aab", &[("aa", "a"), ("b", "ab")][..]),
            ("- aab -", &[("b", "ab"), ("aa", "a")]),
            ("xy", &[("x", "xy"), ("y", "")]),
        ] {
            assert_eq!(replace(text, &replacements(pairs)).unwrap(), None, "{text:?}");
        }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let long = "x".repeat(50);
        for (text, pairs, wanted) in [
            ("text", &[][..], &["No replacements given"][..]),
            (
                "def get(a): pass\ndef get(b): pass",
                &[("def get(", "def got("), ("", "x"), ("same", "same"), ("none\nof this", "x")],
                &[
                    "Replacement 0: ambiguous (2 occurrences): def get(",
                    "Replacement 1: old_string is empty",
                    "Replacement 2: old_string and new_string are identical: same",
                    "Replacement 3: not found: none...",
                ],
            ),
            ("aaa", &[("aa", "b")], &["Replacement 0: ambiguous (2 occurrences): aa"]),
            ("ééé", &[("é", "e")], &["Replacement 0: ambiguous (3 occurrences): é"]),
            (
                "abcdef",
                &[("def", "3"), ("abcd", "1"), ("bc", "2")],
                &[
                    "Replacement 1: overlaps replacement 0: abcd",
                    "Replacement 2: overlaps replacement 1: bc",
                ],
            ),
            ("abc", &[("b", "1"), ("b", "2")], &["Replacement 1: overlaps replacement 0: b"]),
            (
                "a\r\nb",
                &[("a\nb", "c"), ("\n\n", "d")],
                &[
                    "Replacement 0: not found (it is there with other line ends: write them as \\r\\n): a...",
                    "Replacement 1: not found: \\n\\n",
                ],
            ),
            (
                "a\nb",
                &[("a\r\nb", "c")],
                &[
                    "Replacement 0: not found (it is there with other line ends: write them as \\n): a...",
                ],
            ),
            ("y", &[(&long, "z")], &[&format!("Replacement 0: not found: {}...", "x".repeat(40))]),
        ] {
            assert_eq!(replace(text, &replacements(pairs)).unwrap_err(), wanted, "{text:?}");
        }
    }

    #[test]
    fn results_have_the_documented_form() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("a.py"), "def get_file(path):\n    return path\n").unwrap();
        fs::write(directory.path().join("latin1"), b"caf\xe9").unwrap();
        let call = |file: &str, pairs: &[(&str, &str)]| {
            run(&Args { file_path: file.to_owned(), replacements: replacements(pairs) }, &context)
        };
        let text = || fs::read_to_string(directory.path().join("a.py")).unwrap();

        let done = call(
            "./a.py",
            &[("def get_file(path):\n", "def get(path):\n"), ("return path", "return 1")],
        )
        .unwrap();
        assert_eq!(text(), "def get(path):\n    return 1\n");
        assert_eq!(
            serde_json::to_string(&done).unwrap(),
            r#"{"path":"a.py","changed":true,"replacements_applied":2,"details":[{"old_string_preview":"def get_file(path):","status":"applied"},{"old_string_preview":"return path","status":"applied"}]}"#
        );

        let same = call("a.py", &[("get", "ge"), ("(path)", "t(path)")]).unwrap();
        assert_eq!((same.changed, same.replacements_applied), (false, 2));

        let failed = call("a.py", &[("return", "r"), ("e", "p")]).unwrap_err();
        assert_eq!(text(), "def get(path):\n    return 1\n");
        assert_eq!((failed.kind, failed.code.as_str()), (ErrorKind::Conflict, "ValidationFailed"));
        assert_eq!(
            *failed.detail.unwrap(),
            json!({
                "path": "a.py",
                "error": "Validation failed - no changes made",
                "validation_errors": ["Replacement 1: ambiguous (3 occurrences): e"],
                "changed": false,
            })
        );

        let failed = call("latin1", &[("a", "b")]).unwrap_err();
        assert_eq!(
            failed.detail.unwrap()["validation_errors"],
            json!(["File is not valid UTF-8 (first bad byte at offset 3)"])
        );
        assert_eq!(call("none", &[("a", "b")]).unwrap_err().code, "FileNotFoundError");
        assert_eq!(call("../a.py", &[("a", "b")]).unwrap_err().code, "PathNotAllowed");
        assert_eq!(call(".", &[("a", "b")]).unwrap_err().code, "IsADirectoryError");
    }
}
