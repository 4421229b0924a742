//! Reads cargo's output with `--message-format=json`.
//!
//! Source: The Cargo Book, "External tools"; the rustc book, "JSON Output".

use cofferdam_sdk::backend::building::Severity;
use serde::Deserialize;

use crate::text::{Columns, Found};

/// The messages in cargo's standard output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// The errors and warnings, in the order of the output.
    pub found: Vec<Found>,
    /// The output as text: rendered messages, and lines that are not JSON.
    pub stdout: String,
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Line {
    CompilerMessage {
        message: Message,
    },
    /// Artifacts, results of build scripts, the end of the build.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Message {
    rendered: Option<String>,
    level: String,
    message: String,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

impl Span {
    /// The place in the source file; for a macro, where it is used.
    fn written(&self) -> &Self {
        self.expansion.as_ref().map_or(self, |expansion| expansion.span.written())
    }
}

/// Extracts the messages from cargo's standard output.
pub fn parse(stdout: &str) -> Messages {
    let mut messages = Messages::default();
    for line in stdout.split_inclusive('\n') {
        match serde_json::from_str(line) {
            Ok(Line::CompilerMessage { message }) => {
                messages.stdout.push_str(message.rendered.as_deref().unwrap_or_default());
                messages.found.extend(found(&message));
            }
            Ok(Line::Other) => {}
            Err(_) => messages.stdout.push_str(line),
        }
    }
    messages
}

fn found(message: &Message) -> Option<Found> {
    let severity = match message.level.as_str() {
        "error" | "error: internal compiler error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let span = message.spans.iter().find(|span| span.is_primary).map(Span::written);
    // Messages without a place are sums: "2 warnings emitted", "aborting due to ...".
    let counts = [" emitted", "aborting due to "];
    if span.is_none() && counts.iter().any(|words| message.message.contains(words)) {
        return None;
    }
    Some(Found {
        path: span.map(|span| span.file_name.clone()).unwrap_or_default(),
        line: span.map_or(0, |span| span.line_start),
        column: span.map_or(0, |span| span.column_start),
        columns: Columns::Characters,
        message: message.message.clone(),
        severity: Some(severity),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_macros_are_where_they_are_used() {
        let line = r#"{"reason":"compiler-message","message":{"rendered":"r\n","level":"error","message":"m","code":null,"spans":[{"file_name":"/rustc/std/macros.rs","line_start":9,"column_start":8,"is_primary":true,"expansion":{"span":{"file_name":"src/a.rs","line_start":2,"column_start":3,"is_primary":false,"expansion":null}}}]}}"#;
        let parsed = parse(&format!("text\n{line}\n{{\"reason\":\"build-finished\"}}\n{{broken\n"));
        assert_eq!(parsed.stdout, "text\nr\n{broken\n");
        let found: Vec<_> =
            parsed.found.iter().map(|f| (f.path.as_str(), f.line, f.column)).collect();
        assert_eq!(found, [("src/a.rs", 2, 3)]);
    }

    #[test]
    fn counts_and_notes_are_not_messages() {
        for (level, message) in [
            ("failure-note", "For more information about this error, try `rustc --explain`."),
            ("warning", "2 warnings emitted"),
            ("error", "aborting due to 2 previous errors"),
            ("note", "x"),
        ] {
            let line = format!(
                r#"{{"reason":"compiler-message","message":{{"rendered":null,"level":"{level}","message":"{message}","spans":[]}}}}"#
            );
            assert_eq!(parse(&line).found, []);
        }
        let linker = r#"{"reason":"compiler-message","message":{"rendered":"r","level":"error","message":"linking with `cc` failed: exit status: 1","spans":[]}}"#;
        assert_eq!(parse(linker).found.len(), 1);
    }
}
