//! Parses hunks: `@@ -OLD,COUNT +NEW,COUNT @@`, or `@@` without numbers, and the lines below it.
//!
//! The counts are used if the lines fit them. Otherwise, as is common in patches that were not made
//! by a program, the lines are counted, as `git apply --recount` does.

use super::cursor::Cursor;
use super::{Hunk, Line, PatchError, Position, Side};

/// The maximum line number; keeps sums of line numbers within 32 bits.
const MAX_LINE_NUMBER: usize = i32::MAX as usize;

/// The maximum number of headers in a row that narrow down the place of a hunk.
const MAX_HEADINGS: usize = 16;

/// Parses all hunks of one file.
pub(super) fn parse_all<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Hunk<'a>>, PatchError> {
    let mut hunks: Vec<Hunk> = Vec::new();
    loop {
        let end = cursor.number();
        cursor.skip_blank();
        if !cursor.at("@@") {
            cursor.back_to(end);
            return Ok(hunks);
        }
        hunks.push(parse(cursor, Start::Header)?);
    }
}

/// Whether a hunk has to begin with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It begins with `@@`.
    Header,
    /// It may begin with one of its lines.
    Line,
}

pub(super) fn parse<'a>(cursor: &mut Cursor<'a>, start: Start) -> Result<Hunk<'a>, PatchError> {
    let line = cursor.number();
    if cursor.at("@@@") {
        return Err(PatchError::Malformed {
            line,
            problem: "expected a hunk with two sides, found one of a combined diff (of a merge)"
                .to_owned(),
        });
    }
    let position = match unnumbered(cursor) {
        Some(position) => position,
        None if start == Start::Line && !cursor.at("@@") => {
            Position::Unnumbered { headings: Vec::new(), at_end: false }
        }
        None => return numbered(cursor),
    };
    if matches!(&position, Position::Unnumbered { headings, .. } if headings.len() > MAX_HEADINGS) {
        let problem = format!("expected at most {MAX_HEADINGS} lines with '@@' in a row");
        return Err(PatchError::Malformed { line, problem });
    }
    let body = recount(cursor)?;
    if body.lines.is_empty() {
        return Err(cursor.expected(EXPECTED_LINE));
    }
    let old_count = body.old_count;
    Ok(Hunk { line, position, old_count, recounted: false, open_end: false, lines: body.lines })
}

/// Reads headers without line numbers: `@@`, or `@@ ` and the beginning of a line above the hunk;
/// several ones in a row narrow it down. `None` if the header has numbers.
fn unnumbered<'a>(cursor: &mut Cursor<'a>) -> Option<Position<'a>> {
    let is_numbered =
        |text: &[u8]| matches!(text, [b' ', b'-', digit, ..] if digit.is_ascii_digit());
    cursor.after("@@").filter(|text| !is_numbered(text))?;
    let mut headings = Vec::new();
    while let Some(text) = cursor.after("@@").filter(|text| !is_numbered(text)) {
        let text = text.trim_ascii();
        let text = text.strip_suffix(b"@@").unwrap_or(text).trim_ascii();
        // Such as `@@ ... @@` and `@@ -X,Y +X,Y @@`.
        let is_placeholder = matches!(text, [] | [b'.', b'.', b'.'] | [b'-', ..]);
        headings.extend((!is_placeholder).then_some(text));
        cursor.advance();
    }
    Some(Position::Unnumbered { headings, at_end: false })
}

fn numbered<'a>(cursor: &mut Cursor<'a>) -> Result<Hunk<'a>, PatchError> {
    let line = cursor.number();
    let header = cursor
        .header()
        .and_then(Header::parse)
        .ok_or_else(|| cursor.expected("a hunk header such as '@@ -10,7 +10,8 @@'"))?;
    cursor.advance();
    let first = cursor.number();
    let (body, recounted) = match counted(cursor, &header) {
        Some(body) => (body, false),
        None => {
            cursor.back_to(first);
            (recount(cursor)?, true)
        }
    };
    if body.lines.is_empty() {
        cursor.back_to(first);
        return Err(cursor.expected(EXPECTED_LINE));
    }
    let position = match (header.old_start, header.old_count, body.old_count) {
        (0, _, 0) => Position::Empty,
        // Lines are only added: the number is that of the line before, ...
        (start, 0, 0) => Position::After(start),
        (0, _, _) => {
            let problem = "expected an old line number of at least 1: the hunk has lines of the original file";
            return Err(PatchError::Malformed { line, problem: problem.to_owned() });
        }
        // ... otherwise that of the first line.
        (start, _, _) => Position::After(start - 1),
    };
    let old_count = body.old_count;
    Ok(Hunk { line, position, old_count, recounted, open_end: false, lines: body.lines })
}

const EXPECTED_LINE: &str = "a line that begins with ' ', '+', '-' or '\\'";

/// The numbers in a hunk header. The new start line is not needed.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    old_start: usize,
    old_count: usize,
    new_count: usize,
}

impl Header {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_prefix(b"@@ -")?;
        let (old_start, old_count, line) = range(line)?;
        let (_, new_count, line) = range(line.strip_prefix(b" +")?)?;
        line.starts_with(b" @@").then_some(Self { old_start, old_count, new_count })
    }
}

/// Parses `START,COUNT`, or `START` for one line.
fn range(text: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (start, text) = number(text)?;
    match text.strip_prefix(b",") {
        Some(text) => number(text).map(|(count, text)| (start, count, text)),
        None => Some((start, 1, text)),
    }
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number <= MAX_LINE_NUMBER).then_some((number, rest))
}

/// The lines of a hunk that were read so far.
#[derive(Default)]
struct Body<'a> {
    lines: Vec<Line<'a>>,
    old_count: usize,
    new_count: usize,
    /// The old side has ended with a line without a newline.
    old_ended: bool,
    new_ended: bool,
}

impl<'a> Body<'a> {
    /// Adds the next line of the patch.
    ///
    /// # Errors
    /// What was expected instead of this line.
    fn push(&mut self, line: &'a [u8]) -> Result<(), &'static str> {
        let (side, text) = match line {
            [b' ', text @ ..] => (Side::Both, text),
            [b'-', text @ ..] => (Side::Old, text),
            [b'+', text @ ..] => (Side::New, text),
            // An empty context line whose blank was lost.
            [] | [b'\r'] => (Side::Both, line),
            // `\ No newline at end of file`, in any language.
            [b'\\', b' ', ..] => return self.end_without_newline(),
            _ => return Err(EXPECTED_LINE),
        };
        let (old, new) = (side != Side::New, side != Side::Old);
        if (old && self.old_ended) || (new && self.new_ended) {
            return Err("no more lines of a side that ended without a newline");
        }
        self.old_count += usize::from(old);
        self.new_count += usize::from(new);
        self.lines.push(Line { side, text, newline: true });
        Ok(())
    }

    fn end_without_newline(&mut self) -> Result<(), &'static str> {
        match self.lines.last_mut() {
            Some(line) if line.newline => {
                line.newline = false;
                self.old_ended |= line.side != Side::New;
                self.new_ended |= line.side != Side::Old;
                Ok(())
            }
            _ => Err("a line before the mark that it has no newline"),
        }
    }
}

/// Reads as many lines as the header says; `None` if the counts do not fit.
fn counted<'a>(cursor: &mut Cursor<'a>, header: &Header) -> Option<Body<'a>> {
    let mut body = Body::default();
    while body.old_count < header.old_count || body.new_count < header.new_count {
        body.push(cursor.raw()?).ok()?;
        cursor.advance();
    }
    if cursor.at("\\ ") {
        body.push(cursor.raw()?).ok()?;
        cursor.advance();
    }
    if body.old_count != header.old_count || body.new_count != header.new_count {
        return None;
    }
    // If more lines of a hunk follow, the counts were too low.
    let end = cursor.number();
    cursor.skip_blank();
    let more = [" ", "+", "-", "\\"].iter().any(|prefix| cursor.at(prefix));
    if more && !cursor.at_marks_and_hunk() && !cursor.at_signature() {
        return None;
    }
    cursor.back_to(end);
    Some(body)
}

/// Reads all lines up to one that can't be part of a hunk.
fn recount<'a>(cursor: &mut Cursor<'a>) -> Result<Body<'a>, PatchError> {
    let mut body = Body::default();
    while let Some(line) = cursor.raw() {
        let ended =
            ["@@", "diff ", "Index: ", "From ", "*** "].iter().any(|prefix| cursor.at(prefix));
        if ended || cursor.at_marks_and_hunk() || cursor.at_signature() {
            break;
        }
        body.push(line).map_err(|wanted| cursor.expected(wanted))?;
        cursor.advance();
    }
    // Blank lines at the end separate the hunk from what follows.
    while body
        .lines
        .pop_if(|line| line.side == Side::Both && line.newline && matches!(line.text, [] | [b'\r']))
        .is_some()
    {
        body.old_count -= 1;
        body.new_count -= 1;
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The parsed hunks as `start: lines`, and the line after them.
    fn read(text: &str) -> Result<(Vec<String>, Option<String>), PatchError> {
        let mut cursor = Cursor::new(text.as_bytes());
        let hunks = parse_all(&mut cursor)?;
        let shown = |hunk: &Hunk| {
            let lines: String = hunk
                .lines
                .iter()
                .map(|line| {
                    let side = match line.side {
                        Side::Old => '-',
                        Side::New => '+',
                        Side::Both => '=',
                    };
                    format!(
                        "{side}{}{}",
                        std::str::from_utf8(line.text).unwrap(),
                        if line.newline { "" } else { "\\" }
                    )
                })
                .collect();
            let position = match &hunk.position {
                Position::Empty => "empty".to_owned(),
                Position::After(start) => start.to_string(),
                Position::Unnumbered { headings, .. } => {
                    let headings: Vec<_> =
                        headings.iter().map(|line| String::from_utf8_lossy(line)).collect();
                    format!("?{}", headings.join("|"))
                }
            };
            format!("{position}{}: {lines}", if hunk.recounted { " recounted" } else { "" })
        };
        let rest = cursor.header().map(|line| String::from_utf8(line.to_vec()).unwrap());
        Ok((hunks.iter().map(shown).collect(), rest))
    }

    #[test]
    fn correct_counts_are_used() {
        for (text, hunks, rest) in [
            ("@@ -1 +1 @@\n-a\n+b\n", &["0: -a+b"][..], None),
            (
                "@@ -3,2 +3,3 @@ fn x() {\n a\n+b\n c\ndiff --git",
                &["2: =a+b=c"],
                Some("diff --git"),
            ),
            ("@@ -5,0 +6 @@\n+b\n", &["5: +b"], None),
            ("@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n", &["empty: +b\\"], None),
            ("@@ -1 +1 @@\n-a\n\\ No newline\n+a\n", &["0: -a\\+a"], None),
            ("@@ -1,2 +1,2 @@\n-a\n\n+b\n", &["0: -a=+b"], None),
            // Lines that look like a file header are changed lines, because the counts include
            // them.
            ("@@ -1 +1 @@\n--- a\n+++ b\n@@ -9 +9 @@\n-c\n+d", &["0: --- a+++ b", "8: -c+d"], None),
            ("@@ -1 +1 @@\n-a\n+b\n--- x\n+++ x\n@@ -1 +1 @@\n", &["0: -a+b"], Some("--- x")),
            ("@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n", &["0: -a+b"], Some("-- ")),
            ("@@ -1 +0,0 @@\n-- \n", &["0: -- "], None),
            ("@@ -1 +1 @@\r\n-a\r\n+b\r\n", &["0: -a\r+b\r"], None),
            (
                "@@ -1 +1 @@\n-a\n+b\n\n\n@@ -4 +4 @@\n-c\n+d\n\nbye",
                &["0: -a+b", "3: -c+d"],
                Some(""),
            ),
        ] {
            let hunks: Vec<String> = hunks.iter().map(|hunk| (*hunk).to_owned()).collect();
            assert_eq!(read(text).unwrap(), (hunks, rest.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn wrong_counts_are_replaced() {
        for (text, hunks, rest) in [
            (
                "@@ -10,7 +10,7 @@\n-\told code\n+\tnew code",
                &["9 recounted: -\told code+\tnew code"][..],
                None,
            ),
            (
                "@@ -10,7 +10,9 @@\n+a\n@@ -20,3 +20,3 @@\n b\n",
                &["9 recounted: +a", "19 recounted: =b"],
                None,
            ),
            ("@@ -1,9 +1,9 @@\n a\n+b\n\n\ndiff --git", &["0 recounted: =a+b"], Some("diff --git")),
            (
                "@@ -1,9 +1,9 @@\n-a\n--- x\n+++ x\n@@ -1 +1 @@\n",
                &["0 recounted: -a"],
                Some("--- x"),
            ),
            ("@@ -1,9 +1,9 @@\n-a\n-- \n2.39.5\n", &["0 recounted: -a"], Some("-- ")),
            // Counts that are too low.
            ("@@ -1,1 +1,1 @@\n-a\n+b\n-c\n+d\n", &["0 recounted: -a+b-c+d"], None),
            ("@@ -1 +1 @@\n-a\n+b\n\n c\n", &["0 recounted: -a+b==c"], None),
            ("@@ -0,9 +1,9 @@\n+a\n", &["empty recounted: +a"], None),
        ] {
            let hunks: Vec<String> = hunks.iter().map(|hunk| (*hunk).to_owned()).collect();
            assert_eq!(read(text).unwrap(), (hunks, rest.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn headers_need_no_numbers() {
        for (text, hunks, rest) in [
            ("@@\n-a\n+b\n", &["?: -a+b"][..], None),
            ("@@ ... @@\n-a\n+b\n\n@@\n c\n", &["?: -a+b", "?: =c"], None),
            ("@@ -X,Y +X,Y @@\n-a\n", &["?: -a"], None),
            ("@@ def f():\n-a\n", &["?def f():: -a"], None),
            ("@@ class A @@\r\n@@   def f():\r\n-a\r\n", &["?class A|def f():: -a\r"], None),
            (
                "@@ -1 +1 @@\n-a\n+b\n@@\n-c\n--- x\n+++ x\n@@\n",
                &["0: -a+b", "?: -c"],
                Some("--- x"),
            ),
        ] {
            let hunks: Vec<String> = hunks.iter().map(|hunk| (*hunk).to_owned()).collect();
            assert_eq!(read(text).unwrap(), (hunks, rest.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn more_headings_than_any_code_has_are_refused() {
        let text = |headings| format!("{}-a\n+b\n", "@@ f\n".repeat(headings));
        assert!(read(&text(MAX_HEADINGS)).is_ok());
        let problem = "expected at most 16 lines with '@@' in a row";
        assert_malformed(&text(MAX_HEADINGS + 1), 1, problem);
    }

    fn assert_malformed(text: &str, line: usize, problem: &str) {
        let wanted = PatchError::Malformed { line, problem: problem.to_owned() };
        assert_eq!(read(text).unwrap_err(), wanted, "{text}");
    }

    #[test]
    fn malformed_hunk_headers_are_reported() {
        for (text, line, problem) in [
            (
                "@@ -1 +1\n a",
                1,
                "expected a hunk header such as '@@ -10,7 +10,8 @@', found \"@@ -1 +1\"",
            ),
            (
                "@@ -99999999999 +1 @@\n",
                1,
                "expected a hunk header such as '@@ -10,7 +10,8 @@', found \"@@ -99999999999 +1 @@\"",
            ),
            (
                "@@@ -1 -1 +1 @@@\n",
                1,
                "expected a hunk with two sides, found one of a combined diff (of a merge)",
            ),
            (
                "@@ -0,1 +1 @@\n-a\n+b\n",
                1,
                "expected an old line number of at least 1: the hunk has lines of the original file",
            ),
        ] {
            assert_malformed(text, line, problem);
        }
    }

    #[test]
    fn malformed_hunk_lines_are_reported() {
        for (text, line, problem) in [
            (
                "@@ -1 +1 @@\n",
                2,
                "expected a line that begins with ' ', '+', '-' or '\\', but the patch ends",
            ),
            (
                "@@ -0,0 +0,0 @@\nx",
                2,
                "expected a line that begins with ' ', '+', '-' or '\\', found \"x\"",
            ),
            (
                "@@ -1,2 +1,2 @@\n-a\nb\n",
                3,
                "expected a line that begins with ' ', '+', '-' or '\\', found \"b\"",
            ),
            (
                "@@ -1 +1 @@\n\\ No newline\n",
                2,
                "expected a line before the mark that it has no newline, found \"\\\\ No newline\"",
            ),
            (
                "@@ -1,2 +0,0 @@\n-a\n\\ No newline\n-b\n",
                4,
                "expected no more lines of a side that ended without a newline, found \"-b\"",
            ),
        ] {
            assert_malformed(text, line, problem);
        }
    }
}
