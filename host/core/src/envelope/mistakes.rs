//! Explains why a text is not JSON to its author: where, what was found, and what is expected.
//! Common mistakes of models have messages of their own.

use super::DecodeError;
use super::json::{NoDocument, TOO_DEEP};
use cofferdam_text::shorten;

/// Explains why there is no document at `start` of `text`.
pub(super) fn explain(text: &str, start: usize, error: &NoDocument) -> DecodeError {
    let end = start + error.looked_at;
    // The start of the last character that was read.
    let fault = (start..end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(start);
    // The comma is the mistake, not the bracket after it.
    let comma = text[start..fault].trim_end().strip_suffix(',').map(|before| start + before.len());
    let fault = comma.filter(|_| error.message == "trailing comma").unwrap_or(fault);
    let rest = &text[fault..];
    let (line, column) = place(text, fault);
    let (expected, found) = if error.message.starts_with("EOF") {
        let (line, _) = place(text, start);
        (
            "one JSON document to its end",
            format!("the end of the text within the document that begins in line {line}"),
        )
    } else {
        match mistake(&error.message, rest) {
            Some((expected, found)) => {
                (expected, format!("{found} at line {line} column {column}"))
            }
            None => {
                ("one JSON document", format!("{} at line {line} column {column}", error.message))
            }
        }
    };
    DecodeError::one(expected, shorten(&found, 300))
}

/// What is expected and what was found, for a common mistake.
fn mistake(message: &str, rest: &str) -> Option<(&'static str, &'static str)> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| rest.starts_with(begin));
    let is_name = rest.starts_with(|first: char| first.is_alphabetic() || first == '_');
    Some(if message.starts_with(TOO_DEEP) {
        ("at most 127 levels of arrays and objects", "another one")
    } else if message == "trailing comma" {
        ("no comma before a closing bracket", "a trailing comma")
    } else if message.starts_with("control character") {
        (r"line breaks and tabs within strings as \n and \t", "one as it is")
    } else if message.starts_with("invalid escape") {
        (r"a backslash within a string as \\", "one by itself")
    } else if begins(&["//", "/*", "#"]) {
        ("JSON without comments", "a comment")
    } else if begins(&["...", "\u{2026}"]) {
        ("everything written out", "an ellipsis")
    } else if begins(&["'"]) {
        ("double quotes around names and strings", "a single quote")
    } else if begins(&["\u{2018}", "\u{2019}", "\u{201c}", "\u{201d}", "\u{ab}"]) {
        ("straight double quotes around names and strings", "a typographic quote")
    } else if begins(&["\\\"", "\\n"]) {
        ("the document itself, not one that is escaped into a string", "a backslash")
    } else if begins(&["True", "False", "None", "NaN", "undefined"]) {
        ("true, false, null or a number", "a word that JSON does not have")
    } else if message == "key must be a string" && is_name {
        ("double quotes around names", "a name without quotes")
    } else {
        return None;
    })
}

/// The line and the column of a byte, in characters, counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::json::parse_prefix;
    use super::*;

    /// Invalid documents, and how the mistake is explained.
    const MISTAKES: &[(&str, &str)] = &[
        (
            "{\"a\": [1,\n2,]}",
            "expected no comma before a closing bracket, found a trailing comma at line 2 column 2",
        ),
        (
            "{\"a\": 1,}",
            "expected no comma before a closing bracket, found a trailing comma at line 1 column 8",
        ),
        (
            "{\"a\": 1, // one\n}",
            "expected JSON without comments, found a comment at line 1 column 10",
        ),
        (
            "{ # one\n\"a\": 1}",
            "expected JSON without comments, found a comment at line 1 column 3",
        ),
        (
            "{/* one */ \"a\": 1}",
            "expected JSON without comments, found a comment at line 1 column 2",
        ),
        (
            "{'a': 1}",
            "expected double quotes around names and strings, found a single quote at line 1 column 2",
        ),
        (
            "{\"a\": 'x'}",
            "expected double quotes around names and strings, found a single quote at line 1 column 7",
        ),
        (
            "{“a”: 1}",
            "expected straight double quotes around names and strings, found a typographic quote at line 1 column 2",
        ),
        (
            "{a: 1}",
            "expected double quotes around names, found a name without quotes at line 1 column 2",
        ),
        (
            "{\"a\": True}",
            "expected true, false, null or a number, found a word that JSON does not have at line 1 column 7",
        ),
        (
            "{\"a\": None}",
            "expected true, false, null or a number, found a word that JSON does not have at line 1 column 7",
        ),
        ("{\"a\": [...]}", "expected everything written out, found an ellipsis at line 1 column 8"),
        (
            "{\\\"a\\\": 1}",
            "expected the document itself, not one that is escaped into a string, found a backslash at line 1 column 2",
        ),
        (
            "{\"a\": \"x\ny\"}",
            r"expected line breaks and tabs within strings as \n and \t, found one as it is at line 1 column 9",
        ),
        (
            "{\"a\": \"C:\\dir\"}",
            r"expected a backslash within a string as \\, found one by itself at line 1 column 11",
        ),
        (
            "\n\n{\"a\": [1",
            "expected one JSON document to its end, found the end of the text within the document that begins in line 3",
        ),
        (
            "{\"a\": 1, \"a\": 2}",
            "expected one JSON document, found the key 'a' stands here twice at line 1 column 12",
        ),
        (
            "{\"ä\": 1 \"b\": 2}",
            "expected one JSON document, found expected `,` or `}` at line 1 column 9",
        ),
    ];

    #[test]
    fn common_mistakes_are_explained_with_their_place() {
        for &(text, wanted) in MISTAKES {
            let start = text.find('{').unwrap();
            let error = parse_prefix(&text[start..]).err().unwrap();
            assert_eq!(
                explain(text, start, &error).to_string(),
                format!("(root): {wanted}"),
                "{text}"
            );
        }
    }
}
