//! `read_file`: returns a text file unchanged: all of it, or a page of its lines, numbered if asked for.

use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::text::{PAGE_BYTES, beginning, json_size};
use crate::{read, text};

/// The arguments of `read_file`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to read.
    pub path: String,
    /// The first line to return, from 1; the default is 1.
    pub offset: Option<u64>,
    /// The maximum number of lines; the default is all that fit in an answer.
    pub limit: Option<u64>,
    /// Whether each line begins with its number and a tab.
    #[serde(default)]
    pub numbered: bool,
}

/// The result of `read_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The absolute path of the file.
    pub path: String,
    /// The text of the file, or of the page.
    pub content: String,
    /// The size of the file in bytes.
    pub size: usize,
    /// The page, if lines were chosen or numbered, or if not all of them fit in an answer.
    #[serde(flatten)]
    pub page: Option<Page>,
}

/// The lines that a result has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The number of the first line returned.
    pub start_line: usize,
    /// The number of returned lines.
    pub lines: usize,
    /// The number of lines in the file.
    pub total_lines: usize,
    /// The offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
    /// The number of returned lines that were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_lines: Option<usize>,
}

/// Reads a text file, or a page of it.
///
/// # Errors
/// Those of [`Context::resolve`] and [`text::read_exact`]; `InvalidOffset` for an offset after the
/// last line.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = context.resolve(&args.path)?;
    let text = text::read_exact(&path, context)?;
    let (path, size) = (context.absolute(&path), text.len());
    let is_whole = args.offset.is_none() && args.limit.is_none() && !args.numbered;
    if is_whole && json_size(&text) <= PAGE_BYTES {
        return Ok(Output { path, content: text, size, page: None });
    }
    let (content, page) = page(&text, args)?;
    Ok(Output { path, content, size, page: Some(page) })
}

/// Returns the lines that the arguments choose. Without numbers, they are unchanged, with their
/// ends.
fn page(text: &str, args: &Args) -> Result<(String, Page), ToolError> {
    let offset = args.offset.unwrap_or(1);
    if args.numbered {
        let read::Output { content, start_line, lines, total_lines, next, truncated_lines, .. } =
            read::page(text, offset, args.limit)?;
        let truncated_lines = (truncated_lines > 0).then_some(truncated_lines);
        return Ok((content, Page { start_line, lines, total_lines, next, truncated_lines }));
    }
    let total_lines = text.lines().count();
    let start_line = read::start(offset, total_lines)?;
    let mut room = args.limit.map_or(PAGE_BYTES, |_| usize::MAX);
    let limit = usize::try_from(args.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let (mut content, mut lines, mut truncated_lines) = (String::new(), 0, None);
    for line in text.split_inclusive('\n').skip(start_line - 1).take(limit) {
        let size = json_size(line);
        if size > room {
            // A line that is longer than an answer is cut.
            if lines == 0 {
                content.push_str(beginning(line, room));
                (lines, truncated_lines) = (1, Some(1));
            }
            break;
        }
        room -= size;
        content.push_str(line);
        lines += 1;
    }
    let after = start_line + lines;
    let next = (after <= total_lines).then_some(after);
    Ok((content, Page { start_line, lines, total_lines, next, truncated_lines }))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    fn whole(path: &str) -> Args {
        Args { path: path.to_owned(), ..Args::default() }
    }

    #[test]
    fn pages_are_the_whole_file_together() {
        let text = "a\r\n\nb\n\tc";
        let page_of = |offset, limit, numbered| {
            page(text, &Args { offset, limit, numbered, ..Args::default() })
        };
        let (mut whole, mut offset) = (String::new(), Some(1));
        while let Some(first) = offset {
            let (content, page) = page_of(Some(first as u64), Some(3), false).unwrap();
            assert_eq!((page.start_line, page.total_lines), (first, 4));
            whole += &content;
            offset = page.next;
        }
        assert_eq!(whole, text);
        let numbered = page_of(Some(3), None, true).unwrap();
        assert_eq!(numbered.0, "3\tb\n4\t\tc");
        assert_eq!((numbered.1.lines, numbered.1.next), (2, None));
        let first = page_of(None, Some(1), false).unwrap();
        assert_eq!((first.0.as_str(), first.1.next), ("a\r\n", Some(2)));
        assert_eq!(page_of(Some(5), None, false).unwrap_err().code, "InvalidOffset");
        let long = format!("{}\n", "x".repeat(2001));
        let cut = page(&long, &Args { numbered: true, ..Args::default() }).unwrap().1;
        assert_eq!(cut.truncated_lines, Some(1));
        let empty = page("", &Args { offset: Some(1), ..Args::default() }).unwrap();
        assert_eq!((empty.0.as_str(), empty.1.lines, empty.1.next), ("", 0, None));
    }

    #[test]
    fn a_large_file_is_returned_in_pages_that_fit_in_an_answer() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let text: String = (0..20_000).map(|n| format!("\tsay(\"line {n}\")\r\n")).collect();
        fs::write(directory.path().join("large"), &text).unwrap();
        let (mut read, mut args) = (String::new(), whole("large"));
        loop {
            let output = run(&args, &context).unwrap();
            assert!(serde_json::to_string(&output).unwrap().len() <= 32 * 1024);
            assert_eq!(output.size, text.len());
            read += &output.content;
            let Some(next) = output.page.unwrap().next else { break };
            args.offset = Some(next as u64);
        }
        assert_eq!(read, text);
        fs::write(directory.path().join("line"), "\u{e9}".repeat(100_000)).unwrap();
        let output = run(&whole("line"), &context).unwrap();
        let page = output.page.unwrap();
        assert_eq!((page.truncated_lines, page.next), (Some(1), None));
        assert_eq!(output.content.len(), PAGE_BYTES);
    }

    #[test]
    fn the_text_is_returned_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("src/a"), "\u{feff}h\u{e9}\r\n\tx").unwrap();
        let output = run(&whole("src/../src/a"), &context).unwrap();
        assert_eq!(
            output,
            Output {
                path: format!("{}/src/a", directory.path().display()),
                content: "\u{feff}h\u{e9}\r\n\tx".to_owned(),
                size: 10,
                page: None,
            }
        );
    }

    #[test]
    fn refusals_have_their_codes() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("binary"), b"\x7fELF\x02\x01\0").unwrap();
        for (path, code) in [
            ("none", "FileNotFoundError"),
            ("binary", "UnicodeDecodeError"),
            (".", "IsADirectoryError"),
            ("../x", "PathNotAllowed"),
            ("/etc/passwd", "PathNotAllowed"),
        ] {
            assert_eq!(run(&whole(path), &context).unwrap_err().code, code);
        }
        let error = run(&whole("none"), &context).unwrap_err();
        assert!(error.message.starts_with("file not found"), "{error}");
    }
}
