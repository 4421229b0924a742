//! Printing: JSON documents and text to standard output, problems to standard error.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::CliError;
use super::args::{Format, ReportFormat, Shown};
use cofferdam_text::escape_control;
use cofferdam_workspace::KeptOutput;

/// Prints a command's result in the chosen format.
#[derive(Clone, Copy)]
pub struct Output {
    format: Format,
}

impl Output {
    pub fn new(format: Format) -> Self {
        Self { format }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Prints one document, as JSON or as indented text.
    pub fn document(&self, document: &impl Serialize) -> Result<(), CliError> {
        let value = serde_json::to_value(document).map_err(CliError::host)?;
        match self.format {
            Format::Text => self.text(&to_text(&value)),
            Format::Json => self.json(&value),
        }
    }

    /// Prints one JSON document: indented on a terminal, on one line for programs and models.
    /// Characters that control a terminal are escaped, which JSON allows everywhere.
    pub fn json(&self, value: &Value) -> Result<(), CliError> {
        write_out(&to_json(value, io::stdout().is_terminal())?)
    }

    /// Prints text in which characters that control a terminal are escaped.
    pub fn text(&self, text: &str) -> Result<(), CliError> {
        let mut text = escape_control(text);
        if !text.ends_with('\n') && !text.is_empty() {
            text.push('\n');
        }
        write_out(text.as_bytes())
    }

    /// Prints content that others wrote (a unified diff, a program's output): unchanged if standard
    /// output is a file or pipe, escaped if it is a terminal.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), CliError> {
        if io::stdout().is_terminal() {
            self.text(&String::from_utf8_lossy(bytes))
        } else {
            write_out(bytes)
        }
    }

    /// Prints to standard error how to read the kept output of a result's programs.
    #[expect(clippy::print_stderr, reason = "not a part of the result")]
    pub fn kept_outputs(&self, outputs: &[KeptOutput]) {
        for KeptOutput { name, program, bytes } in outputs {
            eprintln!(
                "note: {} printed {bytes} bytes: cofferdam log --output {name} --format text",
                escape_control(program)
            );
        }
    }

    /// Prints a call's warnings to standard error.
    #[expect(clippy::print_stderr, reason = "not a part of the result")]
    pub fn warnings(&self, warnings: &[String]) {
        for warning in warnings {
            eprintln!("warning: {}", escape_control(warning));
        }
    }

    /// Prints generated text unchanged.
    pub fn verbatim(&self, text: &[u8]) -> Result<(), CliError> {
        write_out(text)
    }

    /// Prints a document as text, or writes it to a file. In the JSON format, that is `value`.
    pub fn report(
        &self,
        shown: &Shown,
        value: &impl Serialize,
        render: impl FnOnce(ReportFormat) -> String,
    ) -> Result<(), CliError> {
        let text = match shown.format {
            ReportFormat::Json => {
                let value = serde_json::to_value(value).map_err(CliError::host)?;
                to_json(&value, shown.output.is_some() || io::stdout().is_terminal())?
            }
            format => render(format).into_bytes(),
        };
        match &shown.output {
            None => write_out(&text),
            Some(file) => std::fs::write(file, &text)
                .map_err(|error| CliError::usage(error).at(file.display())),
        }
    }

    /// Prints the error to standard error. If an envelope was refused, the refusal is also printed
    /// as a JSON document, for the program that sent the envelope.
    #[expect(clippy::print_stderr, reason = "this is where errors are printed")]
    pub fn error(&self, error: &CliError) {
        if let (Some(refusal), Format::Json) = (error.refusal(), self.format) {
            // If standard output is closed, the exit status still reports the error.
            let _ = self.document(&serde_json::json!({ "refused": refusal }));
        } else {
            eprintln!("error: {}", escape_control(error.report().trim_end()));
        }
    }
}

/// Formats a document: indented for people, on one line for programs and models.
fn to_json(value: &Value, is_indented: bool) -> Result<Vec<u8>, CliError> {
    fn formatted(value: &Value, formatter: impl Formatter) -> serde_json::Result<Vec<u8>> {
        let mut json = Vec::new();
        let formatter = EscapingFormatter(formatter);
        value.serialize(&mut Serializer::with_formatter(&mut json, formatter))?;
        json.push(b'\n');
        Ok(json)
    }
    let json = match is_indented {
        true => formatted(value, PrettyFormatter::new()),
        false => formatted(value, CompactFormatter),
    };
    json.map_err(CliError::host)
}

/// Writes to standard output. A broken pipe is not an error: `cofferdam tools | head`.
fn write_out(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// A JSON formatter that escapes characters that control a terminal.
struct EscapingFormatter<F>(F);

/// Forwards a method to the wrapped formatter.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $arg: $type)*) -> io::Result<()> {
            self.0.$name(writer $(, $arg)*)
        })*
    };
}

impl<F: Formatter> Formatter for EscapingFormatter<F> {
    forward! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, character) in fragment.char_indices() {
            let length = character.len_utf8();
            if escape_control(&fragment[at..at + length]).len() != length {
                writer.write_all(&fragment.as_bytes()[plain..at])?;
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
                plain = at + length;
            }
        }
        writer.write_all(&fragment.as_bytes()[plain..])
    }
}

/// Formats a document as indented text: one line for each name and value, and long text as a block.
fn to_text(value: &Value) -> String {
    let mut text = String::new();
    write_text(&mut text, value, 0);
    text
}

fn write_text(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                text.push_str(&format!("{indent}{name}:"));
                write_value(text, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                text.push_str(&format!("{indent}-"));
                write_value(text, item, depth);
            }
        }
        value => text.push_str(&format!("{indent}{}\n", scalar(value))),
    }
}

fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if fields.is_empty() => text.push_str(" (nothing)\n"),
        Value::Array(items) if items.is_empty() => text.push_str(" (none)\n"),
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            write_text(text, value, depth + 1);
        }
        Value::String(block) if block.contains('\n') => {
            text.push('\n');
            for line in block.lines() {
                text.push_str(&format!("{}| {line}\n", "  ".repeat(depth + 1)));
            }
        }
        value => text.push_str(&format!(" {}\n", scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn printed_json_is_escaped_and_equivalent() {
        let value = json!({"a": "\u{1b}[31m \u{202e} \u{9b}2J \u{e0041} plain ß \" \\ \n\t"});
        for (is_indented, lines) in [(true, 3), (false, 1)] {
            let text = String::from_utf8(to_json(&value, is_indented).unwrap()).unwrap();
            for hostile in ['\u{1b}', '\u{202e}', '\u{9b}', '\u{e0041}'] {
                assert!(!text.contains(hostile), "{text}");
            }
            assert!(text.contains("plain ß"));
            assert_eq!(text.lines().count(), lines);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn text_shows_names_values_and_blocks() {
        let value = json!({"results": [{"status": "executed", "content": "a\nb", "list": []}]});
        assert_eq!(
            to_text(&value),
            "results:\n  -\n    status: executed\n    content:\n      | a\n      | b\n    list: (none)\n"
        );
    }
}
