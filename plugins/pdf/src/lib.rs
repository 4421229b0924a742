//! The `pdf` plugin: reads the text of PDF documents.
//!
//! [`text`] interprets the content of a page. A plugin of its own, since the fonts of PDF take four times
//! as much code as the plugin `files`.

pub mod text;

use cofferdam_sdk::answer::item_bytes;
use cofferdam_sdk::{Context, ToolError, plugin};
use hayro_syntax::{LoadPdfError, Pdf as Document};
use serde::{Deserialize, Serialize};

/// The maximum size of the text of an answer, as JSON, in bytes.
const ANSWER_BYTES: usize = 30 << 10;

/// The arguments of `read_pdf`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to read.
    pub path: String,
    /// The first page to return, from 1; the default is 1.
    pub page: Option<usize>,
}

/// The result of `read_pdf`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The absolute path of the file.
    pub path: String,
    /// The text of the pages.
    pub content: String,
    /// The size of the file in bytes.
    pub size: usize,
    /// The number of the first page returned.
    pub page: usize,
    /// The number of returned pages.
    pub pages: usize,
    /// The number of pages in the document.
    pub total_pages: usize,
    /// The page to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
    /// Whether the page was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The plugin: its function is a tool.
pub struct Pdf;

impl Pdf {
    /// Reads the text of the pages that fit in an answer.
    ///
    /// # Errors
    /// Those of [`Context::resolve`] and [`Context::read`]; `EncryptedPdf` for a document with a
    /// password, `InvalidPdf` for one without pages, `InvalidPage` for a page after the last one,
    /// `PdfTooComplex` for a page that takes too long to read.
    fn read_pdf(args: Args, context: &Context) -> Result<Output, ToolError> {
        let path = context.resolve(&args.path)?;
        let bytes = context.read(&path)?;
        let size = bytes.len();
        announce_panics(path.to_string());
        let error = |code, why| Err(ToolError::invalid_args(code, format!("{path}: {why}")));
        if !bytes[..size.min(1024)].windows(MAGIC.len()).any(|window| window == MAGIC) {
            return error("InvalidPdf", "not a PDF document".to_owned());
        }
        let document = match Document::new(bytes) {
            Ok(document) if !document.pages().is_empty() => document,
            Err(LoadPdfError::Decryption(_)) => {
                return error(
                    "EncryptedPdf",
                    "needs a password; read a copy without one".to_owned(),
                );
            }
            _ => {
                return error("InvalidPdf", "a damaged PDF document: it has no pages".to_owned());
            }
        };
        let (page, total_pages) = (args.page.unwrap_or(1).max(1), document.pages().len());
        if page > total_pages {
            return error(
                "InvalidPage",
                format!("page {page} is beyond the end: {total_pages} pages"),
            );
        }
        let (content, pages, truncated) = content(&document, page)
            .map_err(|why| ToolError::limit("PdfTooComplex", format!("{path}: {why}")))?;
        let next = (page + pages <= total_pages).then_some(page + pages);
        let path = context.absolute(&path);
        Ok(Output { path, content, size, page, pages, total_pages, next, truncated })
    }
}

/// What is in the first KiB of a PDF document.
const MAGIC: &[u8] = b"%PDF-";

/// Returns the text from a page on, the number of pages, and whether the page was cut.
fn content(document: &Document, first: usize) -> Result<(String, usize, bool), String> {
    let total = document.pages().len();
    let mut reader = text::Reader::new();
    let (mut content, mut room, mut pages) = (String::new(), ANSWER_BYTES, 0);
    for (index, page) in document.pages().iter().enumerate().skip(first - 1) {
        let number = index + 1;
        let text = match reader.page(page) {
            Ok(text) => text,
            // The pages before it are an answer; the next call has the error.
            Err(_) if pages > 0 => break,
            Err(why) => return Err(format!("page {number} can't be read: {why}")),
        };
        let text = match text.trim() {
            "" => "[no text that can be read; perhaps a scanned image]",
            text => text,
        };
        let text = format!("--- Page {number} of {total} ---\n{text}\n");
        let size = item_bytes(&text);
        if size > room {
            if pages == 0 {
                // No character of it has more than twice its size as JSON.
                content.push_str(&text[..text.floor_char_boundary(ANSWER_BYTES / 2)]);
                return Ok((content, 1, true));
            }
            break;
        }
        room -= size;
        content.push_str(&text);
        pages += 1;
    }
    Ok((content, pages, false))
}

/// Makes a panic, which ends the instance, say what could not be read.
fn announce_panics(path: String) {
    std::panic::set_hook(Box::new(move |panic| {
        #[expect(clippy::print_stderr, reason = "the host adds it to the error of the call")]
        {
            eprintln!("{path}: a PDF document that can't be read: {panic}");
        }
    }));
}

plugin!(Pdf { read_pdf });

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fmt::Write as _;

    use cofferdam_testing::{fits, parsed, takes_examples};

    use super::*;

    const INPUT: &str = include_str!("../../../schemas/tools/pdf.read_pdf.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/pdf.read_pdf.output.json");

    /// Returns a document with objects from number 10 on, and a page for each content.
    fn document(contents: &[&str], objects: &[&str], trailer: &str) -> Vec<u8> {
        let (mut pdf, mut table) = ("%PDF-1.7\n".to_owned(), String::new());
        let mut add = |number: usize, object: &str| {
            let _ = write!(table, "{number} 1\n{:010} 00000 n \n", pdf.len());
            let _ = writeln!(pdf, "{number} 0 obj {object} endobj");
        };
        add(1, "<</Type /Catalog /Pages 2 0 R>>");
        add(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>");
        for (index, object) in objects.iter().enumerate() {
            add(10 + index, object);
        }
        let mut kids = String::new();
        for (index, content) in contents.iter().enumerate() {
            let number = 100 + 2 * index;
            add(number, &stream("", content));
            add(number + 1, &format!("<</Type /Page /Parent 2 0 R /Contents {number} 0 R>>"));
            let _ = write!(kids, "{} 0 R ", number + 1);
        }
        let resources = "/Resources <</Font <</F 3 0 R>> /XObject <</X 10 0 R>>>>";
        let count = contents.len();
        add(2, &format!("<</Type /Pages /Kids [{kids}] /Count {count} {resources}>>"));
        let start = pdf.len();
        let _ = write!(
            pdf,
            "xref\n{table}trailer <</Size 999 /Root 1 0 R {trailer}>>\nstartxref\n{start}\n%%EOF\n"
        );
        pdf.into_bytes()
    }

    fn stream(entries: &str, content: &str) -> String {
        format!("<<{entries} /Length {}>> stream\n{content}\nendstream", content.len())
    }

    fn read(bytes: &[u8], page: Option<usize>) -> Result<Output, ToolError> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.pdf"), bytes).unwrap();
        let context = Context::for_directory(directory.path());
        let answer = Pdf::read_pdf(Args { path: "a.pdf".to_owned(), page }, &context)?;
        fits(&parsed(OUTPUT), &serde_json::to_value(&answer).unwrap());
        assert!(serde_json::to_string(&answer).unwrap().len() <= 32 << 10);
        Ok(answer)
    }

    #[test]
    fn schemas_and_types_agree() {
        takes_examples::<Args>(&parsed(INPUT));
        jsonschema::draft202012::new(&parsed(OUTPUT)).unwrap();
    }

    #[test]
    fn words_and_lines_are_where_the_text_is() {
        for (content, text) in [
            ("BT /F 12 Tf 50 700 Td (Hello, world) Tj ET", "Hello, world"),
            ("BT /F 12 Tf 0 0 Td (a) Tj 0 -14 Td (b) Tj 0 -40 Td (c) Tj ET", "a\nb\n\nc"),
            ("BT /F 12 Tf 14 TL (a) Tj (b) ' 1 2 (c) \" T* (d) Tj ET", "a\nb\nc\nd"),
            ("BT /F 12 Tf [(W) 80 (ord) -400 (next)] TJ ET", "Word next"),
            ("BT /F 12 Tf (caf\\351 \\256) Tj ET", "caf\u{e9} \u{ae}"),
            // A table: columns by positions.
            (
                "BT /F 9 Tf 1 0 0 1 0 50 Tm (a) Tj 1 0 0 1 90 50 Tm (b) Tj 1 0 0 1 0 30 Tm (c) Tj ET",
                "a b\n\nc",
            ),
            // Rotated by 90 degrees.
            ("0 1 -1 0 0 0 cm BT /F 12 Tf (up) Tj 40 0 Td (on) Tj ET", "up on"),
            ("q BT /F 12 Tf (a) Tj ET Q BT 9 0 Td (no font) Tj ET", "a"),
            ("BT /F 12 Tf 200 Tz 0 Tc (wide) Tj ET (", "wide"),
            (
                "q q Q Q Q /None Do /Y gs 1 0 0 rg",
                "[no text that can be read; perhaps a scanned image]",
            ),
        ] {
            let answer = read(&document(&[content], &[], ""), None).unwrap();
            assert_eq!(answer.content, format!("--- Page 1 of 1 ---\n{text}\n"), "{content}");
        }
    }

    #[test]
    fn forms_are_read_where_they_are_drawn() {
        let form = stream("/Subtype /Form /Matrix [1 0 0 1 0 -50]", "BT /F 9 Tf (in) Tj ET");
        let page = "BT /F 9 Tf (a) Tj ET /X Do BT /F 9 Tf 0 -90 Td (b) Tj ET";
        let answer = read(&document(&[page], &[&form], ""), None).unwrap();
        assert_eq!(answer.content, "--- Page 1 of 1 ---\na\n\nin\n\nb\n");
        let image = stream("/Subtype /Image", "BT /F 9 Tf (in) Tj ET");
        let answer = read(&document(&[page], &[&image], ""), None).unwrap();
        assert_eq!(answer.content, "--- Page 1 of 1 ---\na\n\nb\n");
    }

    #[test]
    fn pages_fit_in_answers_and_go_on() {
        let line = |word: &str| format!("({}) ' ", word.repeat(20));
        let pages: Vec<String> = (0..20)
            .map(|n| format!("BT /F 9 Tf 12 TL {} ET", line(&format!("say \"{n}\", ")).repeat(30)))
            .collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let pdf = document(&pages, &[], "");
        let (mut next, mut read_pages, mut answers) = (Some(1), 0, 0);
        while let Some(page) = next {
            let answer = read(&pdf, Some(page)).unwrap();
            assert_eq!((answer.page, answer.total_pages, answer.truncated), (page, 20, false));
            assert_eq!(answer.content.matches("--- Page").count(), answer.pages);
            (next, read_pages, answers) = (answer.next, read_pages + answer.pages, answers + 1);
        }
        assert_eq!(read_pages, 20);
        assert!((2..20).contains(&answers), "{answers}");
        assert_eq!(read(&pdf, Some(21)).unwrap_err().code, "InvalidPage");
        let long = format!("BT /F 9 Tf 12 TL {} ET", line("\\\"x").repeat(2000));
        let answer = read(&document(&[&long, pages[0]], &[], ""), None).unwrap();
        assert_eq!((answer.pages, answer.truncated, answer.next), (1, true, Some(2)));
    }

    #[test]
    fn loops_end() {
        let page = "BT /F 9 Tf (a) Tj ET /X Do";
        let own = "/Subtype /Form /Resources <</XObject <</X 10 0 R>>>>";
        let answer = read(&document(&[page], &[&stream(own, "/X Do")], ""), None).unwrap();
        assert_eq!(answer.content, "--- Page 1 of 1 ---\na\n");
        // Each form draws the next one ten times.
        let forms: Vec<String> = (11..=21)
            .map(|next| format!("/Subtype /Form /Resources <</XObject <</X {next} 0 R>>>>"))
            .map(|entries| stream(&entries, &"/X Do ".repeat(10)))
            .collect();
        let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
        let error = read(&document(&[page], &forms, ""), None).unwrap_err();
        assert_eq!(error.code, "PdfTooComplex");
        assert!(error.message.starts_with("a.pdf: page 1 can't be read"), "{error}");
        // The pages before it are read.
        let pages = document(&["BT /F 9 Tf (b) Tj ET", page], &forms, "");
        assert_eq!(read(&pages, None).unwrap().next, Some(2));
        let kids = "%PDF-1.7\n1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj\n\
                    2 0 obj <</Type /Pages /Kids [2 0 R 2 0 R] /Count 2>> endobj\n\
                    trailer <</Root 1 0 R /Prev 9>>\nstartxref\n9\n%%EOF";
        assert_eq!(read(kids.as_bytes(), None).unwrap_err().code, "InvalidPdf");
    }

    #[test]
    fn damaged_documents_are_errors_or_text() {
        let pdf =
            document(&["BT /F 9 Tf [(a) 3 (b)] TJ ET"], &[&stream("/Subtype /Form", "q")], "");
        for end in 0..pdf.len() {
            if let Err(error) = read(&pdf[..end], None) {
                assert_eq!(error.code, "InvalidPdf", "{end}: {error}");
            }
        }
        for index in 0..pdf.len() {
            for byte in [0, b'<', b'9', 0xff] {
                let mut damaged = pdf.clone();
                damaged[index] = byte;
                // An answer or an error, but no panic.
                let _ = read(&damaged, None);
            }
        }
        let deep = document(&[&"[".repeat(200_000), &"<<".repeat(200_000)], &[], "");
        assert_eq!(read(&deep, None).unwrap().pages, 2);
    }

    #[test]
    fn other_files_and_passwords_are_named() {
        let encrypted = document(&["BT ET"], &["<</Filter /Other /V 9>>"], "/Encrypt 10 0 R");
        for (bytes, code) in [
            (&b"%PDF"[..], "InvalidPdf"),
            (b"text", "InvalidPdf"),
            (b"%PDF-1.7 and nothing else", "InvalidPdf"),
            (&encrypted, "EncryptedPdf"),
        ] {
            assert_eq!(read(bytes, None).unwrap_err().code, code);
        }
    }
}
