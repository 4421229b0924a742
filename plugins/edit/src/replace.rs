//! `atomic_replace`: makes several exact replacements in one file, or none of them.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use cofferdam_sdk::{Context, ToolError};
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use crate::paths::editable;
use crate::{nearest, validation};

/// The maximum length of an `old_string` in messages and results, in characters.
const MAX_PREVIEW_CHARS: usize = 40;

/// The maximum number of lines that a message lists.
const MAX_LISTED_LINES: usize = 20;

/// The maximum number of hints at texts that are nearly the one that was not found.
const MAX_HINTS: usize = 10;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to change.
    pub path: String,
    /// The replacements to make.
    pub replacements: Vec<Replacement>,
}

/// The replacement of one text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// Text that occurs exactly once in the file, with any line ends.
    pub old_string: String,
    /// The text that replaces it.
    pub new_string: String,
    /// Whether every occurrence is replaced.
    #[serde(default)]
    pub replace_all: bool,
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
    /// The number of replaced occurrences, with `replace_all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrences: Option<usize>,
}

/// Checks the replacements, then writes the file if its content changes.
///
/// # Errors
/// `ValidationFailed` with every problem; the errors of reading and writing the file.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = editable(context, &args.path)?;
    let text = String::from_utf8(context.read(&path)?).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        validation::failed(
            &path,
            &[format!("File is not valid UTF-8 (first bad byte at offset {offset})")],
        )
    })?;
    let (replaced, counts) =
        replace(&text, &args.replacements).map_err(|errors| validation::failed(&path, &errors))?;
    if let Some(replaced) = &replaced {
        context.write(&path, replaced.as_bytes())?;
    }
    let details = args
        .replacements
        .iter()
        .zip(counts)
        .map(|(replacement, count)| Detail {
            old_string_preview: preview(&replacement.old_string),
            status: "applied",
            occurrences: replacement.replace_all.then_some(count),
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
/// if the text does not change. The numbers are those of the replaced occurrences.
///
/// # Errors
/// Every problem, in the order of the replacements.
pub fn replace(
    text: &str,
    replacements: &[Replacement],
) -> Result<(Option<String>, Vec<usize>), Vec<String>> {
    if replacements.is_empty() {
        return Err(vec!["No replacements given".to_owned()]);
    }
    let file = Text::new(text);
    let mut spans: Vec<Span> = Vec::with_capacity(replacements.len());
    let mut counts = Vec::with_capacity(replacements.len());
    let mut errors: Vec<(usize, String)> = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        match file.find(replacement) {
            Ok(found) => {
                counts.push(found.len());
                spans.extend(found.into_iter().map(|(range, new)| Span { range, index, new }));
            }
            Err(problem) => errors.push((index, problem)),
        }
    }
    spans.sort_by_key(|span| (span.range.start, span.index));
    errors.append(&mut overlaps(&spans, replacements));
    if !errors.is_empty() {
        errors.sort_by_key(|(index, _)| *index);
        errors.dedup();
        return Err(errors
            .into_iter()
            .map(|(index, problem)| format!("Replacement {index}: {problem}"))
            .collect());
    }

    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for span in &spans {
        result.push_str(&text[done..span.range.start]);
        result.push_str(&span.new);
        done = span.range.end;
    }
    // The text before the first and after the last replacement stays as it is.
    let first = spans.first().map_or(0, |span| span.range.start);
    if result[first..] == text[first..done] {
        return Ok((None, counts));
    }
    result.push_str(&text[done..]);
    Ok((Some(result), counts))
}

/// An occurrence of an `old_string`.
struct Span<'a> {
    range: Range<usize>,
    /// The index of the replacement.
    index: usize,
    new: Cow<'a, str>,
}

/// The problems of spans that overlap, with the indices of their replacements.
fn overlaps(spans: &[Span], replacements: &[Replacement]) -> Vec<(usize, String)> {
    let mut errors = Vec::new();
    let mut furthest: Option<&Span> = None;
    for span in spans {
        if let Some(before) = furthest
            && span.range.start < before.range.end
        {
            let (first, second) = (span.index.min(before.index), span.index.max(before.index));
            let old = &replacements[second].old_string;
            errors.push((second, format!("overlaps replacement {first}{}", shown(old))));
        }
        if furthest.is_none_or(|before| span.range.end > before.range.end) {
            furthest = Some(span);
        }
    }
    errors
}

/// Ranges of a text, each with the text that replaces it.
type Found<'a> = Vec<(Range<usize>, Cow<'a, str>)>;

/// The text of a file.
struct Text<'a> {
    text: &'a str,
    /// The text with LF line ends only, if it has others, and the positions of the line feeds in
    /// it that follow a carriage return in the file.
    plain: Option<(String, Vec<usize>)>,
    /// The number of hints that are still given.
    hints: Cell<usize>,
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Self {
        let plain = Finder::new("\r\n").find(text.as_bytes()).map(|_| {
            let mut plain = String::with_capacity(text.len());
            let mut line_feeds = Vec::new();
            for line in text.split_inclusive('\n') {
                match line.strip_suffix("\r\n") {
                    Some(line) => {
                        plain.push_str(line);
                        line_feeds.push(plain.len());
                        plain.push('\n');
                    }
                    None => plain.push_str(line),
                }
            }
            (plain, line_feeds)
        });
        Self { text, plain, hints: Cell::new(MAX_HINTS) }
    }

    /// The ranges of the replacement's `old_string`, each with its new text.
    ///
    /// # Errors
    /// A message about the problem.
    fn find<'b>(&self, replacement: &'b Replacement) -> Result<Found<'b>, String> {
        let Replacement { old_string: old, new_string: new, replace_all } = replacement;
        let problem = |problem: &str| Err(format!("{problem}{}", shown(old)));
        let Some(first) = old.chars().next() else { return problem("old_string is empty") };
        if old == new {
            return problem("old_string and new_string are identical");
        }
        let (mut ranges, exact) = self.ranges(old, *replace_all);
        if ranges.is_empty() {
            let hint = self.hint(old).map(|hint| format!("; {hint}"));
            return Err(format!("not found{}{}", shown(old), hint.unwrap_or_default()));
        }
        if let [only] = ranges.as_slice()
            && exact
            && !replace_all
        {
            // An overlapping occurrence is ambiguous too.
            let next = starts(self.text, old, only.start + first.len_utf8());
            ranges.extend(next.first().map(|start| *start..start + old.len()));
        }
        if ranges.len() > 1 && !replace_all {
            return Err(format!(
                "ambiguous ({} occurrences){}; {}",
                ranges.len(),
                shown(old),
                self.lines_of(&ranges)
            ));
        }
        let with_new = |range: Range<usize>| {
            let as_given = exact && old.contains('\n');
            let new = if as_given { Cow::Borrowed(new.as_str()) } else { self.fit(new, &range) };
            (range, new)
        };
        Ok(ranges.into_iter().map(with_new).collect())
    }

    /// What is nearest to a text that is not found; only for the first ones, since it takes time.
    fn hint(&self, old: &str) -> Option<String> {
        self.hints.set(self.hints.get().checked_sub(1)?);
        nearest::hint(self.text, old)
    }

    /// The ranges of `old` without overlaps, and whether it was found as it is; otherwise with any
    /// line ends. With all occurrences, those with other line ends count too.
    fn ranges(&self, old: &str, all: bool) -> (Vec<Range<usize>>, bool) {
        let exact: Vec<Range<usize>> =
            starts(self.text, old, 0).into_iter().map(|start| start..start + old.len()).collect();
        let only_exact =
            !old.contains('\n') || (!exact.is_empty() && (!all || self.plain.is_none()));
        if only_exact { (exact, true) } else { (self.with_any_line_ends(old), false) }
    }

    /// The ranges of `old`, with any line ends.
    fn with_any_line_ends(&self, old: &str) -> Vec<Range<usize>> {
        let old = old.replace("\r\n", "\n");
        let (plain, line_feeds) = match &self.plain {
            Some((plain, line_feeds)) => (plain.as_str(), line_feeds.as_slice()),
            None => (self.text, &[][..]),
        };
        let position = |at: usize| at + line_feeds.partition_point(|line_feed| *line_feed < at);
        let ranges = starts(plain, &old, 0).into_iter();
        ranges.map(|start| position(start)..position(start + old.len())).collect()
    }

    /// `new` with the line ends of the lines that it replaces; the last one of them also for more
    /// lines.
    fn fit<'b>(&self, new: &'b str, range: &Range<usize>) -> Cow<'b, str> {
        if !new.contains('\n') {
            return Cow::Borrowed(new);
        }
        let old = &self.text[range.clone()];
        let line_end = |line: &str| line.ends_with('\n').then(|| line.ends_with("\r\n"));
        let mut ends: Vec<bool> = old.split_inclusive('\n').filter_map(line_end).collect();
        if ends.is_empty() {
            // That of the line itself, or else of the line before.
            let rest = self.text[range.end..].split_inclusive('\n').next().and_then(line_end);
            let before =
                self.text[..range.start].rsplit_once('\n').map(|(line, _)| line.ends_with('\r'));
            ends.extend(rest.or(before));
        }
        let Some(last) = ends.last().copied() else { return Cow::Borrowed(new) };
        let mut result = String::with_capacity(new.len());
        let mut ends = ends.into_iter();
        for line in new.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    result.push_str(line.strip_suffix('\r').unwrap_or(line));
                    let carriage_return = ends.next().unwrap_or(last);
                    result.push_str(if carriage_return { "\r\n" } else { "\n" });
                }
                None => result.push_str(line),
            }
        }
        Cow::Owned(result)
    }

    /// `lines 1, 5, 9` for ranges of the text.
    fn lines_of(&self, ranges: &[Range<usize>]) -> String {
        let (mut line, mut done) = (1, 0);
        let mut lines: Vec<usize> = Vec::new();
        for range in ranges {
            line += self.text[done..range.start].matches('\n').count();
            done = range.start;
            lines.push(line);
        }
        lines.dedup();
        let shown: Vec<String> =
            lines.iter().take(MAX_LISTED_LINES).map(usize::to_string).collect();
        let more = match lines.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let word = if lines.len() == 1 { "line" } else { "lines" };
        format!("{word} {}{more}", shown.join(", "))
    }
}

/// The positions of `old` in `text` from `from`, without overlaps.
fn starts(text: &str, old: &str, from: usize) -> Vec<usize> {
    // Vectorised, unlike the standard library's search in WebAssembly.
    let finder = Finder::new(old);
    finder.find_iter(&text.as_bytes()[from..]).map(|start| from + start).collect()
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
            replace_all: false,
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
            let (replaced, _) = replace(text, &replacements(pairs)).unwrap();
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
            assert_eq!(replace(text, &replacements(pairs)).unwrap().0, None, "{text:?}");
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
                    "Replacement 0: ambiguous (2 occurrences): def get(; lines 1, 2",
                    "Replacement 1: old_string is empty",
                    "Replacement 2: old_string and new_string are identical: same",
                    "Replacement 3: not found: none...",
                ],
            ),
            ("aaa", &[("aa", "b")], &["Replacement 0: ambiguous (2 occurrences): aa; line 1"]),
            ("ééé", &[("é", "e")], &["Replacement 0: ambiguous (3 occurrences): é; line 1"]),
            (
                "abcdef",
                &[("def", "3"), ("abcd", "1"), ("bc", "2")],
                &[
                    "Replacement 1: overlaps replacement 0: abcd",
                    "Replacement 2: overlaps replacement 1: bc",
                ],
            ),
            ("abc", &[("b", "1"), ("b", "2")], &["Replacement 1: overlaps replacement 0: b"]),
            ("a\r\nb", &[("\n\n", "d")], &["Replacement 0: not found: \\n\\n"]),
            ("y", &[(&long, "z")], &[&format!("Replacement 0: not found: {}...", "x".repeat(40))]),
        ] {
            assert_eq!(replace(text, &replacements(pairs)).unwrap_err(), wanted, "{text:?}");
        }
    }

    #[test]
    fn every_occurrence_is_replaced_if_asked_for() {
        for (text, old, new, wanted, count) in [
            ("a b a b a", "a", "x", "x b x b x", 3),
            ("aaaa", "aa", "a", "aa", 2),
            ("a", "a", "b", "b", 1),
            // With any line ends, which stay.
            ("a\nb\r\na\r\nb\r\n", "a\nb", "A\nB\nC", "A\nB\nC\r\nA\r\nB\r\nC\r\n", 2),
        ] {
            let mut all = replacements(&[(old, new)]);
            all[0].replace_all = true;
            let done = (Some(wanted.to_owned()), vec![count]);
            assert_eq!(replace(text, &all), Ok(done), "{text:?}");
        }
        let mut all = replacements(&[("a", "x"), ("c a", "y")]);
        all[0].replace_all = true;
        assert_eq!(
            replace("a a c a", &all).unwrap_err(),
            ["Replacement 1: overlaps replacement 0: c a"]
        );
        all[0].old_string = "none".to_owned();
        assert_eq!(replace("c a", &all).unwrap_err(), ["Replacement 0: not found: none"]);
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        for (text, old, new, wanted) in [
            ("a\r\nb\r\nc\r\n", "a\nb\n", "A\nB\nx\n", "A\r\nB\r\nx\r\nc\r\n"),
            ("a\nb\nc\n", "a\r\nb\r\n", "A\r\nB\r\nx\r\n", "A\nB\nx\nc\n"),
            ("a\r\nb\nc\r\n", "a\nb\nc", "A\nB\nC\nD", "A\r\nB\nC\nD\r\n"),
            // The replaced text has no line end.
            ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
            ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
            ("a\nb\n", "a", "a\r\nx", "a\nx\nb\n"),
            ("a", "a", "b\r\nc", "b\r\nc"),
            // Text that is found as it is decides itself.
            ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
            ("\r\n\r\na", "\n\n", "\n", "\r\na"),
        ] {
            let (found, _) = replace(text, &replacements(&[(old, new)])).unwrap();
            assert_eq!(found.as_deref(), Some(wanted), "{text:?} {old:?}");
        }
        let twice = "a\r\nb\r\na\r\nb\r\n";
        assert_eq!(
            replace(twice, &replacements(&[("a\nb", "c")])).unwrap_err(),
            ["Replacement 0: ambiguous (2 occurrences): a...; lines 1, 3"]
        );
        let many = "a\n".repeat(30);
        let errors = replace(&many, &replacements(&[("a\n", "b\n")])).unwrap_err();
        assert!(errors[0].ends_with(" 19, 20 and 10 more"), "{errors:?}");
    }

    #[test]
    fn the_nearest_text_is_shown() {
        for (old, wanted) in [
            ("def put_file():", r#"; nearest is line 3: "def put_files():""#),
            ("    return 1", r#"; only blanks differ at line 2: "\treturn 1""#),
        ] {
            let text = "def get():\r\n\treturn 1\r\ndef put_files():\r\n";
            let errors = replace(text, &replacements(&[(old, "x")])).unwrap_err();
            assert_eq!(errors, [format!("Replacement 0: not found: {}{wanted}", old.trim())]);
        }
        let many = replacements(&[("return  1", "x"); 12]);
        let errors = replace("return 1\n", &many).unwrap_err();
        let hints = errors.iter().filter(|error| error.contains("; only blanks differ"));
        assert_eq!((errors.len(), hints.count()), (12, MAX_HINTS));
    }

    #[test]
    fn results_have_the_documented_form() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("a.py"), "def get_file(path):\n    return path\n").unwrap();
        fs::write(directory.path().join("latin1"), b"caf\xe9").unwrap();
        let call = |file: &str, pairs: &[(&str, &str)]| {
            run(&Args { path: file.to_owned(), replacements: replacements(pairs) }, &context)
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
                "validation_errors": ["Replacement 1: ambiguous (3 occurrences): e; lines 1, 2"],
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
