//! `read`: returns a range of numbered lines of a text file.

use std::fmt::Write as _;

use cofferdam_sdk::answer::text_bytes;
use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::text::{self, Encoding, PAGE_BYTES};

/// The maximum length of a returned line, in characters.
const MAX_LINE_CHARS: usize = 2_000;

/// The arguments of `read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The absolute path of the file.
    pub file_path: String,
    /// The first line to return, from 1; the default is 1.
    pub offset: Option<u64>,
    /// The maximum number of lines; the default is all that fit in an answer.
    pub limit: Option<u64>,
}

/// The result of `read`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Output {
    /// `number<TAB>text` for each line, without a line end after the last.
    pub content: String,
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
    #[serde(skip_serializing_if = "is_zero")]
    pub truncated_lines: usize,
    /// The encoding of the file.
    #[serde(skip_serializing_if = "is_utf8")]
    pub encoding: Encoding,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn is_utf8(encoding: &Encoding) -> bool {
    *encoding == Encoding::Utf8
}

/// Reads a range of lines.
///
/// # Errors
/// `RelativePathError`; those of [`Context::resolve`] and [`text::read_detected`]; `InvalidOffset`
/// for an offset after the last line.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = context.resolve(&args.file_path)?;
    if !args.file_path.starts_with('/') {
        let absolute = context.absolute(&path);
        let message =
            format!("file_path must be absolute: '{}' would be '{absolute}'", args.file_path);
        return Err(ToolError::invalid_args("RelativePathError", message));
    }
    let (text, encoding) = text::read_detected(&path, context)?;
    let page = page(&text, args.offset.unwrap_or(1), args.limit)?;
    Ok(Output { encoding, ..page })
}

/// Returns the number of the first line of a page.
///
/// # Errors
/// `InvalidOffset` for an offset after the last line.
pub(crate) fn start(offset: u64, total_lines: usize) -> Result<usize, ToolError> {
    let start_line = usize::try_from(offset.max(1)).unwrap_or(usize::MAX);
    if start_line > total_lines.max(1) {
        let message =
            format!("offset {offset} is beyond the end: the file has {total_lines} lines");
        return Err(ToolError::invalid_args("InvalidOffset", message));
    }
    Ok(start_line)
}

/// Numbers up to `limit` lines, beginning at line `offset`; without a limit, those that fit in an
/// answer.
pub(crate) fn page(text: &str, offset: u64, limit: Option<u64>) -> Result<Output, ToolError> {
    let total_lines = text.lines().count();
    let start_line = start(offset, total_lines)?;
    let mut room = limit.map_or(PAGE_BYTES, |_| usize::MAX);
    let limit = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut output = Output { start_line, total_lines, ..Output::default() };
    for line in text.lines().skip(start_line - 1).take(limit) {
        let separator = if output.lines == 0 { "" } else { "\n" };
        let number = start_line + output.lines;
        let (shown, mark) = match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => (&line[..end], "..."),
            None => (line, ""),
        };
        let size = text_bytes(shown) + number.to_string().len() + mark.len() + "\\t\\n".len();
        if size > room && output.lines > 0 {
            break;
        }
        room = room.saturating_sub(size);
        output.truncated_lines += usize::from(!mark.is_empty());
        output.lines += 1;
        // Writing to a `String` never fails.
        let _ = write!(output.content, "{separator}{number}\t{shown}{mark}");
    }
    let after = start_line + output.lines;
    output.next = (after <= total_lines).then_some(after);
    Ok(output)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn lines_are_numbered_and_paged() {
        for (text, offset, limit, content, start_line, lines, total_lines) in [
            ("", 1, u64::MAX, "", 1, 0, 0),
            ("a", 1, u64::MAX, "1\ta", 1, 1, 1),
            ("a\n", 1, u64::MAX, "1\ta", 1, 1, 1),
            ("a\n\n", 1, u64::MAX, "1\ta\n2\t", 1, 2, 2),
            ("\n", 1, u64::MAX, "1\t", 1, 1, 1),
            ("a\r\nb\r\n", 1, u64::MAX, "1\ta\n2\tb", 1, 2, 2),
            ("a\nb\nc\nd", 2, 2, "2\tb\n3\tc", 2, 2, 4),
            ("a\nb\nc\nd", 4, 100, "4\td", 4, 1, 4),
        ] {
            let page = page(text, offset, Some(limit)).unwrap();
            assert_eq!(page.content, content, "{text:?}");
            assert_eq!(
                (page.start_line, page.lines, page.total_lines, page.truncated_lines),
                (start_line, lines, total_lines, 0),
                "{text:?}"
            );
        }
    }

    #[test]
    fn long_lines_are_cut_by_characters() {
        let line = "\u{e9}".repeat(2_000);
        let page = page(&format!("{line}\n{line}x\n{line}xy\n"), 1, Some(2)).unwrap();
        assert_eq!(page.content, format!("1\t{line}\n2\t{line}..."));
        assert_eq!(page.truncated_lines, 1);
    }

    #[test]
    fn without_a_limit_a_page_fits_in_an_answer() {
        let text: String = (0..20_000).map(|n| format!("\tsay(\"line {n}\")\n")).collect();
        let (mut offset, mut lines, mut pages) = (Some(1), 0, 0);
        while let Some(first) = offset {
            let page = page(&text, first as u64, None).unwrap();
            assert!(serde_json::to_string(&page).unwrap().len() <= 32 * 1024);
            assert_eq!((page.start_line, page.total_lines), (lines + 1, 20_000));
            (offset, lines, pages) = (page.next, lines + page.lines, pages + 1);
        }
        assert_eq!(lines, 20_000);
        assert!((10..40).contains(&pages), "{pages}");
        assert_eq!(page(&text, 1, Some(20_000)).unwrap().lines, 20_000);
    }

    #[test]
    fn an_offset_past_the_end_is_an_error_with_the_line_count() {
        for (text, offset) in [("", 2), ("a\nb\n", 3), ("a", u64::MAX)] {
            assert_eq!(page(text, offset, Some(1)).unwrap_err().code, "InvalidOffset");
        }
        assert!(page("a\nb\n", 3, Some(1)).unwrap_err().message.contains("has 2 lines"));
    }

    #[test]
    fn files_are_opened_by_absolute_path() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let root = directory.path().to_str().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("src/a"), b"\xff\xfeh\0i\0\n\0").unwrap();
        fs::write(directory.path().join("binary"), b"\0\x01").unwrap();
        symlink("src/a", directory.path().join("link")).unwrap();
        let read = |path: &str| {
            run(&Args { file_path: path.to_owned(), offset: None, limit: None }, &context)
        };
        for path in ["src/a", "link"] {
            let output = read(&format!("{root}/{path}")).unwrap();
            assert_eq!((output.content.as_str(), output.encoding), ("1\thi", Encoding::Utf16le));
        }
        for (path, code) in [
            (format!("{root}/none"), "FileNotFoundError"),
            (format!("{root}/src"), "IsADirectoryError"),
            (format!("{root}/binary"), "UnicodeDecodeError"),
            ("/etc/passwd".to_owned(), "PathNotAllowed"),
            ("src/a".to_owned(), "RelativePathError"),
        ] {
            assert_eq!(read(&path).unwrap_err().code, code, "{path}");
        }
        let error = read("./src/a").unwrap_err();
        assert!(error.message.ends_with(&format!("'{root}/src/a'")), "{error}");
    }
}
