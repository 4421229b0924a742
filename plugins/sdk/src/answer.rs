//! What the answers of many tools have in common: nothing was found, or a list that goes on.

use serde::Serialize;

/// That a search found nothing, or too much. In the dialect `tool`, the host reports it as the error
/// that the tool schemas name.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The name of the error.
    pub code: &'static str,
    /// What was searched, and what to try.
    pub message: String,
}

/// Returns a call as text for a model: the tool's name and its arguments as JSON.
pub fn call_text(tool: &str, args: &impl Serialize) -> String {
    format!("{tool} {}", serde_json::to_string(args).unwrap_or_default())
}

/// Returns the size of an item in a JSON list, with its comma, in bytes.
pub fn item_bytes(item: &impl Serialize) -> usize {
    serde_json::to_string(item).map_or(usize::MAX, |json| json.len() + 1)
}

/// Returns the size of a text in JSON without its quotes, in bytes.
pub fn text_bytes(text: &str) -> usize {
    let more = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        byte if byte < 0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(more).sum::<usize>()
}

/// Returns the longest beginning of a text whose size in JSON is at most `most` bytes.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut size = 0;
    let end = text.char_indices().find(|(at, c)| {
        size += text_bytes(&text[*at..at + c.len_utf8()]);
        size > most
    });
    end.map_or(text, |(at, _)| &text[..at])
}
