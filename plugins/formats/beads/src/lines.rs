//! The syntax of the files: one line for each field, then one line for each event of the history.
//!
//! ```yaml
//! title: "Fix authentication bug"
//! priority: 1
//! history:
//! - {"at":"2026-02-07T10:30:00Z","event":"closed"}
//! ```
//!
//! Each value is JSON on its own line, so that a file is also valid YAML and a change of one field
//! changes one line. Comments, empty lines and plain YAML text are errors.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The line before the history.
const HISTORY_LINE: &str = "history:";

/// The prefix of the lines of the history.
const EVENT_PREFIX: &str = "- ";

/// The prefixes of git's conflict markers.
const CONFLICT_MARKERS: [&str; 4] = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"];

/// A syntax error in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong and what is expected.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// Decodes the contents of a file as UTF-8.
pub(crate) fn text(contents: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(contents).map_err(|error| {
        let before = &contents[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Problem::new(line, "the file is not UTF-8 text")
    })
}

/// The lines of a file; values are not decoded yet.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    fields: Vec<(usize, &'a str, &'a str)>,
    history: Option<Vec<(usize, &'a str)>>,
    /// The number of the last line.
    end: usize,
}

impl<'a> Lines<'a> {
    /// Splits a file whose fields are called `names` into lines.
    pub fn read(text: &'a str, names: &[&str]) -> Result<Self, Problem> {
        let mut read = Self { fields: Vec::new(), history: None, end: 1 };
        for (at, line) in (1..).zip(text.lines()) {
            read.end = at;
            if CONFLICT_MARKERS.iter().any(|mark| line.starts_with(mark)) {
                let message = "a merge conflict: keep the history of both sides, choose one line \
                               of each field, and remove the marks";
                return Err(Problem::new(at, message));
            }
            match &mut read.history {
                None if line == HISTORY_LINE => read.history = Some(Vec::new()),
                None => read.add_field(at, line, names)?,
                Some(entries) => match line.strip_prefix(EVENT_PREFIX) {
                    Some(entry) => entries.push((at, entry)),
                    None => {
                        let message = format!(
                            "expected an event of the history, such as - \
                             {{\"at\":\"2026-02-07T10:30:00Z\",\"event\":\"closed\"}}, found {}",
                            shown(line)
                        );
                        return Err(Problem::new(at, message));
                    }
                },
            }
        }
        Ok(read)
    }

    fn add_field(&mut self, at: usize, line: &'a str, names: &[&str]) -> Result<(), Problem> {
        let Some((name, value)) = line.split_once(':') else {
            let message = format!("expected `name: value`, found {}", shown(line));
            return Err(Problem::new(at, message));
        };
        if !names.contains(&name) {
            let names = names.join(", ");
            let message = format!("expected one of the fields {names}, found {}", shown(name));
            return Err(Problem::new(at, message));
        }
        if let Some((first, ..)) = self.fields.iter().find(|(_, other, _)| *other == name) {
            let message = format!("{name} stands here and on line {first}: remove one of them");
            return Err(Problem::new(at, message));
        }
        self.fields.push((at, name, value.trim()));
        Ok(())
    }

    /// The value of a field; `None` if the field is missing.
    pub fn optional<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some((at, _, value)) = self.fields.iter().find(|(_, other, _)| *other == name) else {
            return Ok(None);
        };
        match serde_json::from_str(value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let why = without_place(&error);
                let hint = if error.is_data() { "" } else { "; text stands in double quotes" };
                Err(Problem::new(*at, format!("{name}: {why}, found {}{hint}", shown(value))))
            }
        }
    }

    /// The value of a field that is required.
    pub fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, Problem> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    /// The line number of a field; the last line if the field is missing.
    pub fn line(&self, name: &str) -> usize {
        let found = self.fields.iter().find(|(_, other, _)| *other == name);
        found.map_or(self.end, |(at, ..)| *at)
    }

    /// The events of the history, each with its line number.
    pub fn history<T: DeserializeOwned>(&self) -> Result<Vec<(usize, T)>, Problem> {
        let entries = self.history.as_ref().ok_or_else(|| self.missing("history"))?;
        let event = |&(at, entry): &(usize, &str)| {
            serde_json::from_str(entry)
                .map(|event| (at, event))
                .map_err(|error| Problem::new(at, format!("history: {}", without_place(&error))))
        };
        entries.iter().map(event).collect()
    }

    fn missing(&self, name: &str) -> Problem {
        Problem::new(self.end, format!("the file ends without the field {name}"))
    }
}

/// The line of a field, with its line end.
pub(crate) fn field(name: &str, value: impl Into<Value>) -> String {
    format!("{name}: {}\n", json(&value.into()))
}

/// The line before the history, with its line end.
pub(crate) fn history() -> String {
    format!("{HISTORY_LINE}\n")
}

/// The line of an event, with its line end.
pub(crate) fn entry(event: &Value) -> String {
    format!("{EVENT_PREFIX}{}\n", json(event))
}

/// Writes JSON on one line. Characters that end a line in YAML, control a terminal or are invisible
/// are escaped.
fn json(value: &Value) -> String {
    cofferdam_text::json(&value.to_string())
}

/// An error's message without its position, which is relative to the value.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}

/// Text for a message, or a placeholder if it is too long.
fn shown(text: &str) -> Cow<'_, str> {
    const MAX_SHOWN_CHARS: usize = 60;
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None if text.is_empty() => "nothing".into(),
        None => format!("'{text}'").into(),
        Some((end, _)) => format!("'{}...'", &text[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    const NAMES: [&str; 3] = ["title", "priority", "tags"];

    #[test]
    fn files_are_parsed_as_they_are_written() {
        for title in [
            "plain",
            "",
            "two\nlines\r\n",
            "\"quoted\": \\ # no comment",
            "<<<<<<< HEAD",
            "\u{1b}[31m \u{85}\u{2028}\u{2029}\u{202e}\u{feff}\u{e0041}",
            "naïve 漢字 \u{1f468}\u{200d}\u{1f469}",
        ] {
            let text = field("title", title) + &history() + &entry(&json!({ "title": title }));
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(!text.chars().any(|c| c == '\t' || cofferdam_text::is_active(c)), "{text}");
            let lines = Lines::read(&text, &NAMES).unwrap();
            assert_eq!(lines.required::<String>("title").unwrap(), title);
            assert_eq!(lines.history::<Value>().unwrap(), [(3, json!({ "title": title }))]);
        }
    }

    #[test]
    fn crlf_line_ends_are_accepted() {
        let lines = Lines::read("title: \"a\"\r\npriority: 2\r\nhistory:\r\n- 1\r\n", &NAMES);
        let lines = lines.unwrap();
        assert_eq!(lines.required::<String>("title").unwrap(), "a");
        assert_eq!(lines.required::<u8>("priority").unwrap(), 2);
        assert_eq!(lines.history::<u8>().unwrap(), [(4, 1)]);
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        for (text, line, wanted) in [
            ("title \"a\"", 1, "expected `name: value`, found 'title \"a\"'"),
            ("title: \"a\"\n\n", 2, "expected `name: value`, found nothing"),
            ("# a comment\n", 1, "expected `name: value`, found '# a comment'"),
            ("titel: \"a\"", 1, "expected one of the fields title, priority, tags, found 'titel'"),
            ("title: \"a\"\npriority: 1\ntitle: \"b\"", 3, "title stands here and on line 1"),
            ("title: \"a\"\n<<<<<<< HEAD\n", 2, "a merge conflict"),
            ("history:\n- 1\n=======\n- 2\n>>>>>>> other\n", 3, "a merge conflict"),
            ("history:\ntitle: \"a\"\n", 2, "expected an event of the history"),
            ("history:\n- 1\nhistory:\n", 3, "expected an event of the history"),
        ] {
            let problem = Lines::read(text, &NAMES).unwrap_err();
            assert_eq!(problem.line, line, "{text}: {problem}");
            assert!(problem.message.contains(wanted), "{text}: {problem}");
        }
    }

    #[test]
    fn an_invalid_value_has_its_line() {
        for (text, line, wanted) in [
            (
                "priority: 1\ntitle: Fix it\n",
                2,
                "title: expected value, found 'Fix it'; text stands",
            ),
            ("title: 5\n", 1, "title: invalid type: integer `5`, expected a string, found '5'"),
            ("title:\n", 1, "found nothing; text stands in double quotes"),
            ("title: \"a\" \"b\"\n", 1, "title: trailing characters"),
            ("priority: 1\ntags: []\n", 2, "the file ends without the field title"),
            ("", 1, "the file ends without the field title"),
        ] {
            let lines = Lines::read(text, &NAMES).unwrap();
            let problem = lines.required::<String>("title").unwrap_err();
            assert_eq!(problem.line, line, "{text}: {problem}");
            assert!(problem.message.contains(wanted), "{text}: {problem}");
        }
        let lines = Lines::read("title: \"a\"\nhistory:\n- 1\n- x\n", &NAMES).unwrap();
        assert_eq!(
            lines.history::<u8>().unwrap_err().to_string(),
            "line 4: history: expected value"
        );
        let lines = Lines::read("title: \"a\"\n", &NAMES).unwrap();
        assert!(lines.history::<u8>().unwrap_err().message.contains("without the field history"));
    }
}
