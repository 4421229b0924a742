//! `read_file`: returns a text file unchanged: all of it, or a page of its lines, numbered if asked for. It
//! shows images, and returns the text of notebooks in the same pages.

use cofferdam_sdk::answer::{beginning, text_bytes};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::text::PAGE_BYTES;
use crate::{image, notebook, read, text};

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
    /// Whether a file is only returned if it is text, and as it is.
    #[serde(default)]
    pub raw: bool,
}

/// The result of `read_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The absolute path of the file.
    pub path: String,
    /// The text of the file, or of the page; of an image its description.
    pub content: String,
    /// The size of the file in bytes.
    pub size: usize,
    /// The image, if the file is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<image::Image>,
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

/// What a file has for a model.
enum Found {
    Text(String),
    Image(String, image::Image),
}

/// Reads a text file or what is text in a file, or a page of it; or an image.
///
/// # Errors
/// Those of [`Context::resolve`], [`text::exact`] and [`image::read`]; `InvalidOffset` for an offset after
/// the last line.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = context.resolve(&args.path)?;
    let bytes = context.read(&path)?;
    let (size, absolute) = (bytes.len(), context.absolute(&path));
    let text = match found(&path, bytes, args.raw)? {
        Found::Text(text) => text,
        Found::Image(content, image) => {
            return Ok(Output { path: absolute, content, size, image: Some(image), page: None });
        }
    };
    let (path, image) = (absolute, None);
    let is_whole = args.offset.is_none() && args.limit.is_none() && !args.numbered;
    if is_whole && text_bytes(&text) <= PAGE_BYTES {
        return Ok(Output { path, content: text, size, image, page: None });
    }
    let (content, page) = page(&text, args)?;
    Ok(Output { path, content, size, image, page: Some(page) })
}

/// Finds out what a file is by its content; notebooks, which are JSON, have a name of their own.
fn found(path: &WorkspacePath, bytes: Vec<u8>, is_raw: bool) -> Result<Found, ToolError> {
    match text::exact(bytes, path) {
        Ok(text) if !is_raw && path.as_str().ends_with(".ipynb") => {
            Ok(Found::Text(notebook::text(&text).unwrap_or(text)))
        }
        Ok(text) => Ok(Found::Text(text)),
        Err((error, _)) if is_raw => Err(error),
        Err((error, bytes)) if bytes.starts_with(b"%PDF-") => {
            let message = format!("{path}: a PDF document; read_pdf returns its text");
            Err(ToolError::invalid_args(&error.code, message))
        }
        Err((error, bytes)) => {
            let format = image::format(&bytes).ok_or(error)?;
            let (description, image) = image::read(path, &bytes, format)?;
            Ok(Found::Image(description, image))
        }
    }
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
        let size = text_bytes(line);
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
                image: None,
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

    #[test]
    fn images_and_notebooks_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let write =
            |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
        let notebook = notebook::tests::notebook().to_string();
        // The name does not matter.
        write("a.txt", &image::tests::plain(3, 2, ::image::ImageFormat::Png));
        write("a.ipynb", notebook.as_bytes());
        write("broken.ipynb", b"{\"nbformat\": 4");
        write("a.json", notebook.as_bytes());
        write("ascii.pdf", b"%PDF-1.0 is text");
        write("a.pdf", b"%PDF-1.7\n%\xe2\xe3");
        let answer = run(&whole("a.txt"), &context).unwrap();
        assert_eq!(answer.content, "A PNG image of 3 x 2 pixels.");
        assert_eq!(answer.image.unwrap().width, 3);
        let answer = run(&whole("a.ipynb"), &context).unwrap();
        assert!(answer.content.contains("\n--- Cell 1, markdown ---\n# Title\n"), "{answer:?}");
        assert_eq!((answer.size, answer.page), (notebook.len(), None));
        // Lines are those of the cells.
        let line = Args { offset: Some(3), limit: Some(1), numbered: true, ..whole("a.ipynb") };
        assert_eq!(run(&line, &context).unwrap().content, "3\t# Title");
        let raw = |path| run(&Args { raw: true, ..whole(path) }, &context);
        assert_eq!(raw("a.ipynb").unwrap().content, notebook);
        assert_eq!(raw("a.txt").unwrap_err().code, "UnicodeDecodeError");
        for (path, text) in [
            ("broken.ipynb", "{\"nbformat\": 4"),
            ("a.json", &notebook),
            ("ascii.pdf", "%PDF-1.0 is text"),
        ] {
            assert_eq!(run(&whole(path), &context).unwrap().content, text, "{path}");
        }
        let error = run(&whole("a.pdf"), &context).unwrap_err();
        assert_eq!(error.code, "UnicodeDecodeError");
        assert_eq!(error.message, "a.pdf: a PDF document; read_pdf returns its text");
    }
}
