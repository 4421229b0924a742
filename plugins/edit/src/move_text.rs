//! `move_text`: moves whole lines within a file or to another file.
//!
//! A line ends at a line feed; text after the last line feed is a line too. Each file keeps its
//! byte order mark, and whether it has a newline at its end. Lines moved to another file get that
//! file's line ends.

use std::ops::Range;

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::paths::editable;
use crate::validation;

/// The arguments of the tool. Lines are numbered from 1, as before the move.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file that the lines are in.
    pub file_path: String,
    /// The first line to move.
    pub source_start: u64,
    /// The last line to move.
    pub source_end: u64,
    /// The line before which the lines are inserted; the number of lines plus one: the end.
    pub target_line: u64,
    /// The target file; `None`: the same file.
    pub target_file: Option<String>,
}

/// The result of the tool.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Output {
    /// A move within a file.
    Within {
        /// The file, relative to the workspace.
        path: String,
        /// What was moved where.
        #[serde(flatten)]
        moved: Moved,
    },
    /// A move from one file to another.
    Across {
        /// The file that the lines were in, relative to the workspace.
        source_file: String,
        /// The target file, relative to the workspace.
        target_file: String,
        /// What was moved where.
        #[serde(flatten)]
        moved: Moved,
    },
}

/// The fields of the result of both kinds of move.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Whether a file was changed.
    pub changed: bool,
    /// The number of moved lines.
    pub lines_moved: u64,
    /// The range from the arguments.
    pub source_range: SourceRange,
    /// The target line from the arguments.
    pub target_line: u64,
}

/// A range of lines, both ends included.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SourceRange {
    /// The first line's number.
    pub start: u64,
    /// The last line's number.
    pub end: u64,
}

/// Checks the move, then writes the file or the two files.
///
/// # Errors
/// `ValidationFailed` with every problem; the errors of reading and writing the files.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let source_path = editable(context, &args.file_path)?;
    let target_path = match &args.target_file {
        Some(name) => Some(editable(context, name)?).filter(|path| *path != source_path),
        None => None,
    };
    let source = context.read(&source_path)?;
    match target_path {
        None => within(args, context, &source_path, &source),
        Some(target_path) => {
            let target = match context.read(&target_path) {
                Ok(target) => Some(target),
                Err(error) if error.code == "FileNotFoundError" => None,
                Err(error) => return Err(error),
            };
            across(args, context, (&source_path, &source), (&target_path, target.as_deref()))
        }
    }
}

fn within(
    args: &Args,
    context: &Context,
    path: &WorkspacePath,
    original: &[u8],
) -> Result<Output, ToolError> {
    let mut text = Text::parse(original);
    let mut errors = check_source(args, path, original, &text);
    errors.extend(check_target(args, path, &text));
    if errors.is_empty() && (args.source_start + 1..=args.source_end).contains(&args.target_line) {
        errors.push(format!(
            "target_line {} is inside of the moved lines {} to {}",
            args.target_line, args.source_start, args.source_end
        ));
    }
    if !errors.is_empty() {
        return Err(validation::failed(path, &errors));
    }
    let Range { start, end } = args.lines();
    let target = index(args.target_line);
    if target <= start {
        text.lines[target..end].rotate_right(end - start);
    } else {
        text.lines[start..target].rotate_left(end - start);
    }
    let result = text.assemble(text.line_end().unwrap_or(LF));
    let changed = result != original;
    if changed {
        context.write(path, &result)?;
    }
    Ok(Output::Within { path: path.as_str().to_owned(), moved: args.moved(changed) })
}

fn across(
    args: &Args,
    context: &Context,
    (source_path, source): (&WorkspacePath, &[u8]),
    (target_path, target): (&WorkspacePath, Option<&[u8]>),
) -> Result<Output, ToolError> {
    let mut from = Text::parse(source);
    let mut errors = check_source(args, source_path, source, &from);
    let Some(target) = target else {
        errors.push(format!("Target file not found: {target_path}"));
        return Err(validation::failed(source_path, &errors));
    };
    let mut to = Text::parse(target);
    errors.extend(check_text(target_path, target));
    errors.extend(check_target(args, target_path, &to));
    if !errors.is_empty() {
        return Err(validation::failed(source_path, &errors));
    }
    let (source_end, target_end) = (from.line_end().unwrap_or(LF), to.line_end());
    let mut moved: Vec<Line> = from.lines.drain(args.lines()).collect();
    for line in &mut moved {
        line.end = target_end.unwrap_or(line.end);
    }
    let at = index(args.target_line);
    to.lines.splice(at..at, moved);
    context.write(source_path, &from.assemble(source_end))?;
    if context.read(target_path)? != target {
        // Writing the target would restore the lines in the source.
        let problem = format!("{target_path} is another name of {source_path}");
        return Err(validation::failed(source_path, &[problem]));
    }
    context.write(target_path, &to.assemble(target_end.unwrap_or(source_end)))?;
    Ok(Output::Across {
        source_file: source_path.as_str().to_owned(),
        target_file: target_path.as_str().to_owned(),
        moved: args.moved(true),
    })
}

impl Args {
    /// The moved lines as indices, after the range was checked against the file.
    fn lines(&self) -> Range<usize> {
        index(self.source_start)..index(self.source_end) + 1
    }

    fn moved(&self, changed: bool) -> Moved {
        Moved {
            changed,
            lines_moved: self.source_end - self.source_start + 1,
            source_range: SourceRange { start: self.source_start, end: self.source_end },
            target_line: self.target_line,
        }
    }
}

/// The index of a line whose number was checked to be in the file or just after it.
fn index(line: u64) -> usize {
    usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX)
}

fn check_source(args: &Args, path: &WorkspacePath, original: &[u8], text: &Text) -> Vec<String> {
    let Args { source_start, source_end, .. } = *args;
    let count = text.count();
    let mut errors: Vec<String> = check_text(path, original).into_iter().collect();
    if source_start < 1 {
        errors.push("source_start must be at least 1".to_owned());
    }
    if source_end < source_start {
        errors.push(format!("source_end {source_end} is before source_start {source_start}"));
    }
    for (name, line) in [("source_start", source_start), ("source_end", source_end)] {
        if line > count {
            errors.push(format!("{name} {line} is past the end of {path} ({count} lines)"));
        }
    }
    errors
}

fn check_target(args: &Args, path: &WorkspacePath, text: &Text) -> Option<String> {
    let last = text.count() + 1;
    let line = args.target_line;
    (!(1..=last).contains(&line))
        .then(|| format!("target_line {line} is not within 1 to {last} of {path}"))
}

fn check_text(path: &WorkspacePath, original: &[u8]) -> Option<String> {
    original.contains(&0).then(|| {
        format!("{path} holds NUL bytes: it is binary or UTF-16, and has no lines to move")
    })
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const LF: &[u8] = b"\n";
const CRLF: &[u8] = b"\r\n";

/// The lines of a file.
struct Text<'a> {
    byte_order_mark: &'a [u8],
    lines: Vec<Line<'a>>,
    final_newline: bool,
}

/// A line without and with its end; the end is empty for a last line without one.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a [u8],
    end: &'a [u8],
}

impl<'a> Text<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let (byte_order_mark, body) = match bytes.strip_prefix(BYTE_ORDER_MARK) {
            Some(body) => (BYTE_ORDER_MARK, body),
            None => (&[][..], bytes),
        };
        let line = |line: &'a [u8]| {
            let end = [CRLF, LF].into_iter().find(|end| line.ends_with(end)).unwrap_or_default();
            Line { text: &line[..line.len() - end.len()], end }
        };
        Self {
            byte_order_mark,
            lines: body.split_inclusive(|byte| *byte == b'\n').map(line).collect(),
            // An empty file gets a newline at its end.
            final_newline: body.is_empty() || body.ends_with(LF),
        }
    }

    fn count(&self) -> u64 {
        self.lines.len() as u64
    }

    /// The most frequent line end; `None` if no line has one.
    fn line_end(&self) -> Option<&'static [u8]> {
        let crlf = self.lines.iter().filter(|line| line.end == CRLF).count();
        let lf = self.lines.iter().filter(|line| line.end == LF).count();
        if crlf + lf == 0 { None } else { Some(if crlf > lf { CRLF } else { LF }) }
    }

    /// Joins the lines; `line_end` is added to a line that had none and is no longer the last.
    fn assemble(&self, line_end: &[u8]) -> Vec<u8> {
        let mut bytes = self.byte_order_mark.to_vec();
        for (position, line) in self.lines.iter().enumerate() {
            bytes.extend_from_slice(line.text);
            if self.final_newline || position + 1 < self.lines.len() {
                bytes.extend_from_slice(if line.end.is_empty() { line_end } else { line.end });
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Moves lines in a workspace with the files `a` and optionally `b`. Returns the contents
    /// afterwards, and the result.
    fn call(
        a: &str,
        b: Option<&str>,
        (source_start, source_end, target_line): (u64, u64, u64),
    ) -> (Vec<String>, Result<Output, ToolError>) {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<(&str, &str)> = [("a", Some(a)), ("b", b)]
            .into_iter()
            .filter_map(|(n, text)| Some((n, text?)))
            .collect();
        for (name, text) in &files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let args = Args {
            file_path: "a".to_owned(),
            source_start,
            source_end,
            target_line,
            target_file: b.map(|_| "b".to_owned()),
        };
        let answer = run(&args, &Context::for_directory(directory.path()));
        let read = |(name, _): &(&str, &str)| fs::read_to_string(directory.path().join(name));
        (files.iter().map(|file| read(file).unwrap()).collect(), answer)
    }

    #[test]
    fn lines_move_within_a_file() {
        for (original, lines, wanted) in [
            ("1\n2\n3\n4\n", (1, 1, 3), "2\n1\n3\n4\n"),
            ("1\n2\n3\n4\n", (3, 4, 1), "3\n4\n1\n2\n"),
            ("1\n2\n3\n4\n", (1, 2, 5), "3\n4\n1\n2\n"),
            // No newline at the end, before or after.
            ("1\n2\n3", (3, 3, 1), "3\n1\n2"),
            ("1\n2\n3", (1, 1, 4), "2\n3\n1"),
            ("1\r\n2\r\n3", (3, 3, 2), "1\r\n3\r\n2"),
            // Mixed line ends stay with their lines.
            ("1\r\n2\n3\n", (1, 1, 4), "2\n3\n1\r\n"),
            // The byte order mark stays at the beginning.
            ("\u{feff}1\n2\n", (1, 1, 3), "\u{feff}2\n1\n"),
            ("\n\nx\n", (3, 3, 1), "x\n\n\n"),
        ] {
            let (files, answer) = call(original, None, lines);
            assert_eq!(files, [wanted], "{original:?} {lines:?}");
            answer.unwrap();
        }
    }

    #[test]
    fn a_move_to_the_same_place_changes_nothing() {
        for (original, lines) in
            [("1\n2\n3\n", (2, 3, 2)), ("1\n2\n3\n", (2, 3, 4)), ("1\n2\n2\n", (2, 2, 4))]
        {
            let (files, answer) = call(original, None, lines);
            assert_eq!(files, [original], "{lines:?}");
            let Output::Within { moved, .. } = answer.unwrap() else { unreachable!() };
            assert!(!moved.changed);
        }
    }

    #[test]
    fn lines_move_to_another_file() {
        for (a, b, lines, wanted) in [
            ("1\n2\n3\n", "x\ny\n", (2, 3, 2), ["1\n", "x\n2\n3\ny\n"]),
            ("1\n2\n3\n", "x\ny", (1, 1, 3), ["2\n3\n", "x\ny\n1"]),
            ("1\n2", "x\n", (2, 2, 1), ["1", "2\nx\n"]),
            ("1\r\n2\r\n", "x\ny\n", (1, 1, 3), ["2\r\n", "x\ny\n1\n"]),
            ("1\n2\n", "x\r\n", (1, 1, 1), ["2\n", "1\r\nx\r\n"]),
            ("1\r\n2", "", (1, 2, 1), ["", "1\r\n2\r\n"]),
            ("1\r\n2\r\n", "x", (1, 1, 2), ["2\r\n", "x\r\n1"]),
            ("\u{feff}1\n2\n", "\u{feff}x\n", (1, 1, 1), ["\u{feff}2\n", "\u{feff}1\nx\n"]),
        ] {
            let (files, answer) = call(a, Some(b), lines);
            assert_eq!(files, wanted, "{a:?} {b:?} {lines:?}");
            answer.unwrap();
        }
    }

    #[test]
    fn refusals_list_all_problems() {
        for (a, b, lines, wanted) in [
            (
                "1\n2\n",
                None,
                (0, 5, 9),
                &[
                    "source_start must be at least 1",
                    "source_end 5 is past the end of a (2 lines)",
                    "target_line 9 is not within 1 to 3 of a",
                ][..],
            ),
            ("1\n2\n", None, (2, 1, 1), &["source_end 1 is before source_start 2"]),
            ("1\n2\n", None, (1, 2, 0), &["target_line 0 is not within 1 to 3 of a"]),
            ("1\n2\n3\n", None, (1, 3, 2), &["target_line 2 is inside of the moved lines 1 to 3"]),
            (
                "1\n2\n",
                None,
                (1, u64::MAX, 1),
                &["source_end 18446744073709551615 is past the end of a (2 lines)"],
            ),
            (
                "",
                None,
                (1, 1, 1),
                &[
                    "source_start 1 is past the end of a (0 lines)",
                    "source_end 1 is past the end of a (0 lines)",
                ],
            ),
            ("1\n", Some("x\n"), (1, 1, 3), &["target_line 3 is not within 1 to 2 of b"]),
            (
                "1\n",
                Some("x\0\n"),
                (1, 1, 1),
                &["b holds NUL bytes: it is binary or UTF-16, and has no lines to move"],
            ),
        ] {
            let (files, answer) = call(a, b, lines);
            assert_eq!(files, [Some(a), b].into_iter().flatten().collect::<Vec<_>>());
            let error = answer.unwrap_err();
            assert_eq!(error.code, "ValidationFailed");
            assert_eq!(
                *error.detail.unwrap(),
                json!({
                    "path": "a",
                    "error": "Validation failed - no changes made",
                    "validation_errors": wanted,
                    "changed": false,
                })
            );
        }
    }

    #[test]
    fn the_target_must_exist_and_may_be_the_source() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("a"), "1\n2\n").unwrap();
        let mut args = Args {
            file_path: "a".to_owned(),
            source_start: 1,
            source_end: 3,
            target_line: 3,
            target_file: Some("none".to_owned()),
        };
        assert_eq!(
            run(&args, &context).unwrap_err().detail.unwrap()["validation_errors"],
            json!(["source_end 3 is past the end of a (2 lines)", "Target file not found: none"])
        );
        args.source_end = 1;
        args.target_file = Some("./a".to_owned());
        run(&args, &context).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "2\n1\n");
        std::os::unix::fs::symlink("a", directory.path().join("link")).unwrap();
        args.target_file = Some("link".to_owned());
        assert_eq!(
            run(&args, &context).unwrap_err().message,
            "Validation failed - no changes made: link is another name of a"
        );
        args.target_file = Some(".git/x".to_owned());
        assert_eq!(run(&args, &context).unwrap_err().code, "PathNotAllowed");
        args.target_file = None;
        args.file_path = "none".to_owned();
        assert_eq!(run(&args, &context).unwrap_err().code, "FileNotFoundError");
    }

    #[test]
    fn results_have_the_documented_form() {
        let text = |(_, answer): (Vec<String>, Result<Output, ToolError>)| {
            serde_json::to_string(&answer.unwrap()).unwrap()
        };
        assert_eq!(
            text(call("1\n2\n3\n", None, (1, 2, 4))),
            r#"{"path":"a","changed":true,"lines_moved":2,"source_range":{"start":1,"end":2},"target_line":4}"#
        );
        assert_eq!(
            text(call("1\n2\n3\n", Some("x\n"), (1, 2, 1))),
            r#"{"source_file":"a","target_file":"b","changed":true,"lines_moved":2,"source_range":{"start":1,"end":2},"target_line":1}"#
        );
    }
}
