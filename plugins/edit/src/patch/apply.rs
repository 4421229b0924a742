//! Applies hunks to the content of a file.

use super::{Hunk, Line};

/// A hunk that does not apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch<'a> {
    /// The index of the hunk in the file's patch.
    pub(super) hunk: usize,
    /// The first line of the original file that differs, from 1.
    pub(super) line: usize,
    /// The line in the hunk; `None` after its end.
    pub(super) expected: Option<&'a [u8]>,
    /// The line in the file; `None` after its end.
    pub(super) found: Option<&'a [u8]>,
    /// What differs, in words.
    pub(super) reason: &'static str,
}

const DIFFERS: &str = "the line differs";
const LINE_END: &str = "only the line ends differ (CRLF and LF)";
const NO_NEWLINE: &str = "the file has no newline after its last line; the patch needs '\\ No newline at end of file' there";
const NEWLINE: &str = "the file has a newline after this line; the patch says it has none";
const PAST_END: &str = "the file ends before it";
const CONTINUES: &str = "the patch says that the file ends here without a newline, but it goes on";
const JOINS_LINES: &str = "the line before has no newline, so nothing can be added after it; the hunk must replace that line too";

/// The lines of a file, each with its line feed.
pub(super) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Applies hunks to the lines of a file, each exactly at its line number.
///
/// # Errors
/// Every hunk that does not fit.
pub(super) fn apply<'a>(
    file: &[&'a [u8]],
    hunks: &[Hunk<'a>],
) -> Result<Vec<u8>, Vec<Mismatch<'a>>> {
    let mismatches: Vec<Mismatch> =
        hunks.iter().enumerate().filter_map(|(index, hunk)| mismatch(file, index, hunk)).collect();
    if mismatches.is_empty() {
        assemble(file, hunks).map_err(|mismatch| vec![mismatch])
    } else {
        Err(mismatches)
    }
}

fn mismatch<'a>(file: &[&'a [u8]], index: usize, hunk: &Hunk<'a>) -> Option<Mismatch<'a>> {
    let at = |line: usize, expected, found, reason| {
        Some(Mismatch { hunk: index, line: line + 1, expected, found, reason })
    };
    if hunk.start > file.len() {
        let first = hunk.old_lines().next().map(|line| line.text);
        return at(hunk.start, first, None, PAST_END);
    }
    for (line, wanted) in (hunk.start..).zip(hunk.old_lines()) {
        match file.get(line) {
            None => return at(line, Some(wanted.text), None, PAST_END),
            Some(found) if split(found) == (wanted.text, wanted.newline) => {}
            Some(found) => {
                return at(
                    line,
                    Some(wanted.text),
                    Some(split(found).0),
                    difference(found, wanted),
                );
            }
        }
    }
    None
}

/// A line without its line feed, and whether it had one.
fn split(line: &[u8]) -> (&[u8], bool) {
    match line.strip_suffix(b"\n") {
        Some(text) => (text, true),
        None => (line, false),
    }
}

fn difference(found: &[u8], wanted: &Line) -> &'static str {
    let (text, newline) = split(found);
    let without_return = |text: &[u8]| text.strip_suffix(b"\r").unwrap_or(text).len();
    if text == wanted.text {
        if newline { NEWLINE } else { NO_NEWLINE }
    } else if text[..without_return(text)] == wanted.text[..without_return(wanted.text)] {
        LINE_END
    } else {
        DIFFERS
    }
}

/// Builds the changed file. A hunk that would join two lines is an error.
fn assemble<'a>(file: &[&[u8]], hunks: &[Hunk<'a>]) -> Result<Vec<u8>, Mismatch<'a>> {
    let mut result: Vec<u8> = Vec::with_capacity(file.iter().map(|line| line.len()).sum());
    let open = |result: &[u8]| !result.is_empty() && !result.ends_with(b"\n");
    let stop = |hunk: usize, line: usize, reason| {
        Err(Mismatch { hunk, line: line + 1, expected: None, found: None, reason })
    };
    let mut done = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        for line in &file[done..hunk.start] {
            if open(&result) {
                return stop(index - 1, done, CONTINUES);
            }
            result.extend_from_slice(line);
        }
        for line in hunk.new_lines() {
            if open(&result) {
                return stop(index, hunk.start, JOINS_LINES);
            }
            result.extend_from_slice(line.text);
            if line.newline {
                result.push(b'\n');
            }
        }
        done = hunk.start + hunk.old_count;
    }
    for line in &file[done..] {
        if open(&result) {
            return stop(hunks.len() - 1, done, CONTINUES);
        }
        result.extend_from_slice(line);
    }
    Ok(result)
}

/// The index nearest to the hunk's position at which its old lines occur. `None` for a hunk without
/// old lines, which would fit anywhere.
///
/// Uses the algorithm of Knuth, Morris and Pratt: the number of comparisons is linear.
pub(super) fn nearest(file: &[&[u8]], hunk: &Hunk) -> Option<usize> {
    let pattern: Vec<(&[u8], bool)> =
        hunk.old_lines().map(|line| (line.text, line.newline)).collect();
    // border[n]: the length of the longest proper prefix of the first n + 1 lines that is also
    // their suffix.
    let mut border = vec![0; pattern.len()];
    let mut length = 0;
    for index in 1..pattern.len() {
        while length > 0 && pattern[index] != pattern[length] {
            length = border[length - 1];
        }
        length += usize::from(pattern[index] == pattern[length]);
        border[index] = length;
    }
    let last = *border.last()?;
    let mut best: Option<usize> = None;
    let mut matched = 0;
    for (index, line) in file.iter().map(|line| split(line)).enumerate() {
        while matched > 0 && line != pattern[matched] {
            matched = border[matched - 1];
        }
        matched += usize::from(line == pattern[matched]);
        if matched == pattern.len() {
            let start = index + 1 - matched;
            if best.is_none_or(|best| start.abs_diff(hunk.start) < best.abs_diff(hunk.start)) {
                best = Some(start);
            }
            matched = last;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::patch::parse;

    #[test]
    fn hunks_apply_at_their_line_numbers() {
        for (file, hunks, wanted) in [
            ("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n"),
            ("a\nb\nc\n", "@@ -1,0 +2 @@\n+x\n@@ -3 +4,0 @@\n-c\n", "a\nx\nb\n"),
            ("a\nb\n", "@@ -0,0 +1 @@\n+x\n", "x\na\nb\n"),
            ("a\nb\n", "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\n"),
            ("", "@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n", "x\ny"),
            ("x\ny", "@@ -1,2 +0,0 @@\n-x\n-y\n\\ No newline at end of file\n", ""),
            ("a", "@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n", "a\nb\n"),
            ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", "A\nb"),
            ("a\r\nb\n", "@@ -1 +1 @@\n-a\r\n+A\r\n", "A\r\nb\n"),
            ("\n\n", "@@ -1,2 +1,3 @@\n\n+x\n\n", "\nx\n\n"),
            ("caf\u{e9}\n", "@@ -1 +1 @@\n-caf\u{e9}\n+x\n", "x\n"),
            // Counts that are too high: the line number is that of the hunk's first line.
            ("1\n2\n3\n", "@@ -2,7 +2,7 @@\n+x\n", "1\nx\n2\n3\n"),
        ] {
            let patch = parse(hunks.as_bytes()).unwrap();
            let result = apply(&lines(file.as_bytes()), &patch.files[0].hunks).unwrap();
            assert_eq!(String::from_utf8(result).unwrap(), wanted, "{file:?} {hunks:?}");
        }
    }

    #[test]
    fn mismatches_are_reported() {
        type Wanted<'a> = (usize, usize, Option<&'a str>, Option<&'a str>, &'a str, Option<usize>);
        let tests: &[(&str, &str, &[Wanted])] = &[
            // Fuzz and offsets are not supported, but the error has a hint.
            (
                "x\na\nb\n",
                "@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
                &[(0, 1, Some("a"), Some("x"), DIFFERS, Some(1))],
            ),
            (
                "a\na\nb\na\na\nb\n",
                "@@ -4,2 +4,2 @@\n a\n-b\n+c\n",
                &[(0, 5, Some("b"), Some("a"), DIFFERS, Some(4))],
            ),
            (
                "a\nb\nc\n",
                "@@ -1 +1 @@\n-x\n+y\n@@ -2 +2 @@\n-b\n+B\n@@ -3,2 +3 @@\n-c\n-d\n+e\n",
                &[
                    (0, 1, Some("x"), Some("a"), DIFFERS, None),
                    (2, 4, Some("d"), None, PAST_END, None),
                ],
            ),
            ("a\n", "@@ -9 +9 @@\n-a\n+b\n", &[(0, 9, Some("a"), None, PAST_END, Some(0))]),
            ("a\n", "@@ -2,0 +3 @@\n+b\n", &[(0, 3, None, None, PAST_END, None)]),
            ("a\r\n", "@@ -1 +1 @@\n-a\n+b\n", &[(0, 1, Some("a"), Some("a\r"), LINE_END, None)]),
            ("a", "@@ -1 +1 @@\n-a\n+b\n", &[(0, 1, Some("a"), Some("a"), NO_NEWLINE, None)]),
            (
                "a\n",
                "@@ -1 +1 @@\n-a\n\\ No newline\n+b\n",
                &[(0, 1, Some("a"), Some("a"), NEWLINE, None)],
            ),
            // Lines are never joined.
            ("a", "@@ -1,0 +2 @@\n+b\n", &[(0, 2, None, None, JOINS_LINES, None)]),
            (
                "a\nb\n",
                "@@ -1 +1 @@\n-a\n+A\n\\ No newline\n",
                &[(0, 2, None, None, CONTINUES, Some(0))],
            ),
            (
                "a\nb\nc\n",
                "@@ -1 +1 @@\n-a\n+A\n\\ No newline\n@@ -3 +3 @@\n-c\n+C\n",
                &[(0, 2, None, None, CONTINUES, Some(0))],
            ),
        ];
        for (file, hunks, wanted) in tests {
            let patch = parse(hunks.as_bytes()).unwrap();
            let hunks = &patch.files[0].hunks;
            let file = lines(file.as_bytes());
            let found = apply(&file, hunks).unwrap_err();
            let text = |bytes: Option<&[u8]>| {
                bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
            };
            assert_eq!(found.len(), wanted.len(), "{found:?}");
            for (found, &(hunk, line, expected, there, reason, near)) in found.iter().zip(*wanted) {
                assert_eq!((found.hunk, found.line, found.reason), (hunk, line, reason));
                assert_eq!(text(found.expected).as_deref(), expected);
                assert_eq!(text(found.found).as_deref(), there);
                assert_eq!(nearest(&file, &hunks[hunk]), near, "{found:?}");
            }
        }
    }
}
