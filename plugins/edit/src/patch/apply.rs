//! Applies hunks to the content of a file.

use std::collections::VecDeque;

use super::place::{Mismatch, content, locate};
use super::{Hunk, Position, Side};

/// The content of a file after its hunks, and what is to be said of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) contents: Vec<u8>,
    /// The number of lines of the original file before each hunk.
    pub(super) starts: Vec<usize>,
    /// Whether patch and file have different line ends; those of the file are kept.
    pub(super) line_ends_differ: bool,
}

const CONTINUES: &str = "the patch says that the file ends here without a newline, but it goes on";
const JOINS_LINES: &str = "the line before has no newline, so nothing can be added after it; the hunk must replace that line too";

/// The lines of a file, each with its line feed.
pub(super) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// By how many lines the hunk is not at its line number.
pub(super) fn offset(hunk: &Hunk, start: usize) -> Option<isize> {
    match hunk.position {
        Position::After(stated) if stated != start => start.checked_signed_diff(stated),
        _ => None,
    }
}

/// Applies hunks to the lines of a file.
///
/// # Errors
/// Every hunk that does not fit, or not at one place only.
pub(super) fn apply<'a>(
    file: &[&'a [u8]],
    hunks: &[Hunk<'a>],
) -> Result<Applied, Vec<Mismatch<'a>>> {
    let starts = locate(file, hunks)?;
    let exact = hunks.iter().zip(&starts).all(|(hunk, start)| {
        let mut lines = file[*start..].iter().zip(hunk.old_lines());
        lines.all(|(found, line)| found.strip_suffix(b"\n").unwrap_or(found) == line.text)
    });
    // A line end of the patch counts only if all of its lines are the file's to the byte.
    let by_file = !exact || hunks.iter().any(|hunk| hunk.open_end);
    let contents = assemble(file, hunks, &starts, by_file).map_err(|mismatch| vec![mismatch])?;
    Ok(Applied { contents, starts, line_ends_differ: !exact })
}

/// Builds the changed file. A hunk that would join two lines is an error.
fn assemble<'a>(
    file: &[&[u8]],
    hunks: &[Hunk<'a>],
    starts: &[usize],
    by_file: bool,
) -> Result<Vec<u8>, Mismatch<'a>> {
    let mut result: Vec<u8> = Vec::with_capacity(file.iter().map(|line| line.len()).sum());
    let stop = |hunk: usize, line: usize, reason: &str| {
        let reason = reason.to_owned();
        Err(Mismatch {
            hunk,
            line: line + 1,
            expected: None,
            found: None,
            reason,
            fits: Vec::new(),
        })
    };
    let mut done = 0;
    for (index, (hunk, start)) in hunks.iter().zip(starts).enumerate() {
        for line in &file[done..*start] {
            if is_open(&result) {
                return stop(index - 1, done, CONTINUES);
            }
            result.extend_from_slice(line);
        }
        done = start + hunk.old_count;
        let lines = if by_file { with_ends_of(file, hunk, *start) } else { as_written(hunk) };
        for line in lines {
            match is_open(&result) {
                true if hunk.open_end => result.push(b'\n'),
                true => return stop(index, *start, JOINS_LINES),
                false => {}
            }
            result.extend_from_slice(&line);
        }
    }
    for line in &file[done..] {
        if is_open(&result) {
            return stop(hunks.len() - 1, done, CONTINUES);
        }
        result.extend_from_slice(line);
    }
    Ok(result)
}

/// Whether a text ends in the middle of a line.
fn is_open(text: &[u8]) -> bool {
    !text.is_empty() && !text.ends_with(b"\n")
}

/// The new lines of a hunk.
fn as_written(hunk: &Hunk) -> Vec<Vec<u8>> {
    let end = |newline| if newline { &b"\n"[..] } else { b"" };
    hunk.new_lines().map(|line| [line.text, end(line.newline)].concat()).collect()
}

/// The new lines of a hunk, with the line ends of the file: those of the line that is replaced, or
/// else of the line before. Kept lines are as they are.
fn with_ends_of(file: &[&[u8]], hunk: &Hunk, start: usize) -> Vec<Vec<u8>> {
    let end_of = |line: &[u8]| line[content(line).len()..].to_vec();
    let near = file[start.saturating_sub(1)..].iter().find(|line| line.ends_with(b"\n"));
    let mut last = near.map_or_else(|| b"\n".to_vec(), |line| end_of(line));
    let mut replaced: VecDeque<Vec<u8>> = VecDeque::new();
    let mut result: Vec<Vec<u8>> = Vec::new();
    let mut at = start;
    for line in &hunk.lines {
        if line.side == Side::New {
            let end = replaced.pop_front().filter(|end| end.ends_with(b"\n"));
            let end = if line.newline { end.as_ref().unwrap_or(&last) } else { &Vec::new() };
            result.push([content(line.text), end].concat());
            continue;
        }
        let end = end_of(file[at]);
        if end.ends_with(b"\n") {
            last.clone_from(&end);
        }
        if line.side == Side::Both {
            replaced.clear();
            result.push(file[at].to_vec());
        } else {
            replaced.push_back(end);
        }
        at += 1;
    }
    if hunk.open_end {
        close(&mut result, file.last().filter(|_| at == file.len()), &last);
    }
    result
}

/// Gives each line a line end, but the last one none if the last line of the file had none.
fn close(result: &mut [Vec<u8>], last_of_file: Option<&&[u8]>, end: &[u8]) {
    for line in result.iter_mut().filter(|line| !line.ends_with(b"\n")) {
        line.extend_from_slice(end);
    }
    if let (Some(line), Some(last)) = (last_of_file, result.last_mut())
        && is_open(line)
    {
        last.truncate(content(last).len());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::patch::parse;
    use crate::patch::place::{DIFFERS, NEWLINE, NO_NEWLINE, PAST_END};

    #[test]
    fn hunks_apply_at_their_line_numbers() {
        for (file, hunks, wanted) in [
            ("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n"),
            ("a\nb\nc\n", "@@ -1,0 +2 @@\n+x\n@@ -3 +4,0 @@\n-c\n", "a\nx\nb\n"),
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
            let file = lines(file.as_bytes());
            let result = apply(&file, &patch.files[0].hunks).unwrap();
            assert_eq!(String::from_utf8(result.contents).unwrap(), wanted, "{file:?} {hunks:?}");
        }
    }

    /// Index, line and reason of each hunk that does not apply.
    type Refused = Vec<(usize, usize, String)>;

    /// Applies hunks; returns the changed file and the starts of the hunks.
    fn applied(file: &str, hunks: &str) -> Result<(String, Vec<usize>), Refused> {
        let patch = parse(hunks.as_bytes()).unwrap();
        let file = lines(file.as_bytes());
        match apply(&file, &patch.files[0].hunks) {
            Ok(found) => Ok((String::from_utf8(found.contents).unwrap(), found.starts)),
            Err(found) => Err(found
                .into_iter()
                .map(|mismatch| (mismatch.hunk, mismatch.line, mismatch.reason))
                .collect()),
        }
    }

    fn check_refused(file: &str, hunks: &str, wanted: &[(usize, usize, &str)]) {
        let wanted: Refused =
            wanted.iter().map(|(hunk, line, why)| (*hunk, *line, (*why).to_owned())).collect();
        assert_eq!(applied(file, hunks), Err(wanted), "{file:?} {hunks:?}");
    }

    const NO_PLACE: &str =
        "the hunk has no lines of the file, so its place is unknown; add lines around the change";

    #[test]
    fn hunks_with_wrong_line_numbers_apply_at_the_only_place() {
        for (file, hunks, wanted, starts) in [
            ("x\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "x\na\nc\n", &[1][..]),
            ("a\nb\n", "@@ -9 +9 @@\n-a\n+A\n", "A\nb\n", &[0]),
            ("a\nb\nc\nd\n", "@@ -3 +3 @@\n-a\n+A\n@@ -9 +9 @@\n-c\n+C\n", "A\nb\nC\nd\n", &[0, 2]),
            // The second hunk fits before the first one too.
            ("b\na\nb\n", "@@ -1 +1 @@\n-a\n+A\n@@ -2 +2 @@\n-b\n+B\n", "b\nA\nB\n", &[1, 2]),
            // Each fits twice, but both together only in one way.
            ("x\na\ny\na\n", "@@ -1 +1 @@\n-a\n+1\n@@ -3 +3 @@\n-a\n+2\n", "x\n1\ny\n2\n", &[1, 3]),
            // A hunk that fits where it says stays there, though it fits elsewhere too.
            ("a\na\nx\nb\n", "@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-b\n+B\n", "A\na\nx\nB\n", &[0, 3]),
            ("a\nb\na\nb\nc\n", "@@ -9,3 +9,2 @@\n a\n-b\n c\n", "a\nb\na\nc\n", &[2]),
        ] {
            let wanted = (wanted.to_owned(), starts.to_vec());
            assert_eq!(applied(file, hunks), Ok(wanted), "{file:?} {hunks:?}");
        }
    }

    #[test]
    fn hunks_that_fit_at_several_places_are_refused() {
        for (file, hunks, wanted) in [
            (
                "a\nx\na\nx\n",
                "@@ -2 +2 @@\n-a\n+A\n",
                (0, 1, "it fits at lines 1 and 3; add lines around the change"),
            ),
            (
                "a\na\na\nb\n",
                "@@ -4 +4 @@\n-a\n+A\n",
                (0, 1, "it fits at lines 1, 2 and 3; add lines around the change"),
            ),
            // After a hunk that is not at its line, the lines of others count no more.
            (
                "x\na\nb\nb\n",
                "@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-b\n+B\n",
                (1, 3, "it fits at lines 3 and 4; add lines around the change"),
            ),
            ("x\na\nb\n", "@@ -1 +1 @@\n-a\n+A\n@@ -3,0 +4 @@\n+c\n", (1, 1, NO_PLACE)),
            (
                "a\nb\n",
                "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n",
                (1, 1, "it fits only before the end of the hunk above; sort the hunks"),
            ),
        ] {
            check_refused(file, hunks, &[wanted]);
        }
        let reason = "it fits at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 10 more; add lines around the change";
        check_refused(&"a\n".repeat(20), "@@ -50 +50 @@\n-a\n+b\n", &[(0, 1, reason)]);
    }

    #[test]
    fn hunks_without_line_numbers_apply_at_the_only_place_below_their_heading() {
        let file = "class A:\n  def f():\n    x\n  def g():\n    x\nclass B:\n  def f():\n    x\n";
        for (hunks, changed) in [
            ("@@ def g():\n-    x\n+    y\n", 4),
            ("@@ class B @@\n-    x\n+    y\n", 7),
            ("@@ class A\n@@ def g\n-    x\n+    y\n", 4),
            ("@@\n   def g():\n-    x\n+    y\n", 4),
            ("@@ def g():\n   def g():\n-    x\n+    y\n", 4),
        ] {
            let mut wanted: Vec<&str> = file.lines().collect();
            wanted[changed] = "    y";
            let (found, _) = applied(file, hunks).unwrap();
            assert_eq!(found.lines().collect::<Vec<_>>(), wanted, "{hunks}");
        }
        for (hunks, wanted) in [
            (
                "@@\n-    x\n+    y\n",
                (0, 3, "it fits at lines 3, 5 and 8; add lines around the change"),
            ),
            (
                "@@ def f\n-    x\n+    y\n",
                (0, 3, "it fits at lines 3 and 8; add lines around the change"),
            ),
            ("@@ def h\n-    x\n+    y\n", (0, 1, "the file has no such line as after '@@'")),
            ("@@ class A\n+    y\n", (0, 1, NO_PLACE)),
            // The place that fits best.
            ("@@\n   def g():\n-    z\n", (0, 5, "the line differs")),
        ] {
            check_refused(file, hunks, &[wanted]);
        }
    }

    #[test]
    fn lines_are_not_added_twice() {
        for (file, hunk, changed) in [
            ("a\nb\n", "@@ -2 +2,2 @@\n b\n+c\n", "a\nb\nc\n"),
            ("a\nb\n", "@@ -2 +2,3 @@\n-b\n+b\n+c\n+d\n", "a\nb\nc\nd\n"),
            ("a\nb\n", "@@ -2,0 +3,2 @@\n+c\n+d\n", "a\nb\nc\nd\n"),
            ("a\nb\n", "@@ -1 +1,2 @@\n+x\n a\n", "x\na\nb\n"),
            ("a\r\nb\r\n", "@@ -2 +2,2 @@\n b\n+c\n", "a\r\nb\r\nc\r\n"),
            // In the middle of a file.
            ("a\nb\nz\n", "@@ -2 +2,2 @@\n b\n+c\n", "a\nb\nc\nz\n"),
        ] {
            let (found, _) = applied(file, hunk).unwrap();
            assert_eq!(found, changed, "{hunk}");
            let again = applied(&found, hunk).unwrap_err();
            assert_eq!(again[0].2, "the lines that it adds are already there", "{hunk}");
        }
        let (hunk, wanted) = (
            "@@ -2 +2 @@\n-b\n+c\n",
            "the line differs (the file has the hunk's new lines at line 2 already)",
        );
        check_refused("a\nc\n", hunk, &[(0, 2, wanted)]);
        // Lines that are equal to those next to them.
        for (file, hunk, changed) in [
            ("a\na\n", "@@ -2 +2,2 @@\n a\n+a\n", "a\na\na\n"),
            ("a\na\n", "@@ -1,2 +1,3 @@\n a\n+a\n a\n", "a\na\na\n"),
            ("a\n", "@@ -1,0 +2 @@\n+a\n", "a\na\n"),
        ] {
            assert_eq!(applied(file, hunk).unwrap().0, changed, "{hunk}");
        }
    }

    #[test]
    fn a_hunk_for_an_empty_file_is_refused_elsewhere() {
        let reason = "'-0,0' says that the file is empty, but it has 2 lines; to add lines to it, add a line next to them";
        for hunk in ["@@ -0,0 +1 @@\n+x\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"] {
            assert!(applied("", hunk).is_ok());
            check_refused("a\nb\n", hunk, &[(0, 1, reason)]);
        }
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        for (file, hunk, wanted) in [
            ("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n", "a\r\nB\r\nc\r\n"),
            ("a\nb\n", "@@ -1,2 +1,3 @@\n a\r\n-b\r\n+B\r\n+c\r\n", "a\nB\nc\n"),
            // Of each line, where they are mixed.
            (
                "a\r\nb\nc\r\nd\n",
                "@@ -1,4 +1,5 @@\n-a\n-b\n+A\n+B\n+x\n c\n-d\n+D\n",
                "A\r\nB\nx\nc\r\nD\n",
            ),
            ("a\r\nb\n", "@@ -1 +1,2 @@\n+x\n a\n", "x\r\na\r\nb\n"),
            ("a\r\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline\n+B\n\\ No newline\n", "a\r\nB"),
            ("a\r\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline\n+B\n", "a\r\nB\r\n"),
            // A patch that fits to the byte decides the line ends itself.
            ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n", "a\nb\r\n"),
            // Together with an offset.
            ("x\r\na\r\n", "@@ -1 +1 @@\n-a\n+b\n", "x\r\nb\r\n"),
        ] {
            assert_eq!(applied(file, hunk).unwrap().0, wanted, "{file:?} {hunk:?}");
        }
    }

    #[test]
    fn codex_hunks_keep_the_end_of_a_file() {
        let patch =
            |hunk: &str| format!("*** Begin Patch\n*** Update File: x\n{hunk}*** End Patch\n");
        for (file, hunk, wanted) in [
            ("a\nb", "@@\n-b\n+B\n+c\n", "a\nB\nc"),
            ("a\nb", "@@\n a\n-b\n", "a"),
            ("a\nb", "@@\n-a\n+A\n b\n", "A\nb"),
            ("a\r\nb", "@@\n b\n+c\n", "a\r\nb\r\nc"),
            ("a\nb\n", "@@\n-b\n+B\n", "a\nB\n"),
            ("a\nb", "+c\n*** End of File\n", "a\nb\nc"),
            ("a\nb\na\n", "@@\n-a\n+A\n*** End of File\n", "a\nb\nA\n"),
            ("", "+c\n", "c\n"),
        ] {
            assert_eq!(applied(file, &patch(hunk)).unwrap().0, wanted, "{file:?} {hunk:?}");
        }
        for (file, hunk, wanted) in [
            ("a\nc\n", "+c\n*** End of File\n", (0, 3, "the lines that it adds are already there")),
            (
                "a\nb\n",
                "@@\n-a\n+c\n*** End of File\n",
                (0, 2, "the hunk must end at the end of the file, which goes on"),
            ),
        ] {
            check_refused(file, &patch(hunk), &[wanted]);
        }
    }

    #[test]
    fn mismatches_are_reported() {
        type Wanted<'a> = (usize, usize, Option<&'a str>, Option<&'a str>, &'a str);
        let tests: &[(&str, &str, &[Wanted])] = &[
            // Fuzz is not supported.
            (
                "x\nA\nb\n",
                "@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
                &[(0, 1, Some("a"), Some("x"), DIFFERS)],
            ),
            (
                "a\nb\nc\n",
                "@@ -1 +1 @@\n-x\n+y\n@@ -2 +2 @@\n-b\n+B\n@@ -3,2 +3 @@\n-c\n-d\n+e\n",
                &[(0, 1, Some("x"), Some("a"), DIFFERS), (2, 4, Some("d"), None, PAST_END)],
            ),
            ("a\n", "@@ -2,0 +3 @@\n+b\n", &[(0, 3, None, None, PAST_END)]),
            ("a", "@@ -1 +1 @@\n-a\n+b\n", &[(0, 1, Some("a"), Some("a"), NO_NEWLINE)]),
            (
                "a\n",
                "@@ -1 +1 @@\n-a\n\\ No newline\n+b\n",
                &[(0, 1, Some("a"), Some("a"), NEWLINE)],
            ),
            // Lines are never joined.
            ("a", "@@ -1,0 +2 @@\n+b\n", &[(0, 2, None, None, JOINS_LINES)]),
            ("a\nb\n", "@@ -1 +1 @@\n-a\n+A\n\\ No newline\n", &[(0, 2, None, None, CONTINUES)]),
            (
                "a\nb\nc\n",
                "@@ -1 +1 @@\n-a\n+A\n\\ No newline\n@@ -3 +3 @@\n-c\n+C\n",
                &[(0, 2, None, None, CONTINUES)],
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
            for (found, &(hunk, line, expected, there, reason)) in found.iter().zip(*wanted) {
                assert_eq!((found.hunk, found.line, found.reason.as_str()), (hunk, line, reason));
                assert_eq!(text(found.expected).as_deref(), expected);
                assert_eq!(text(found.found).as_deref(), there);
            }
        }
    }
}
