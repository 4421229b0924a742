//! Finds the document in the text of a model: code fences, prose, reasoning.
//!
//! The last complete object with one of the wanted fields counts, since reasoning often contains
//! drafts before the answer. The object itself is not changed: a tag or a fence inside one of its
//! strings belongs to the string. A text with an incomplete or invalid object that has a wanted
//! field is refused: taking an earlier object, or a part of it, would run calls that the agent did
//! not intend.

use std::ops::Range;

use serde_json::Value;

use super::json::{self, NoDocument};
use super::{CONTRACT, DecodeError, Document, mistakes};
use crate::response::{Marker, Reasoning};

/// How much text may be scanned in the search for documents, in bytes: with unclosed brackets,
/// every attempt reads to the end. The limit for a text longer than an eighth of it is eight times
/// its length.
const MAX_EFFORT_BYTES: usize = 64 << 20;

/// The cost of each attempt besides the scanned text, in bytes.
const ATTEMPT_COST_BYTES: usize = 64;

/// The cost of parsing a text into a tree without success, as a multiple of scanning it.
const FAILED_PARSE_FACTOR: usize = 4;

/// The largest number of documents with a wanted field, complete or not.
const MAX_CANDIDATES: usize = 10_000;

/// How much of an invalid document, or of the line around a document, is examined, in bytes.
const NEAR_BYTES: usize = 400;

/// A document with a wanted field, complete or not.
struct Candidate {
    range: Range<usize>,
    /// Why it is not JSON.
    mistake: Option<NoDocument>,
}

/// Finds the last object of `text` with one of the fields `keys`; `otherwise` is the error if there
/// is none.
pub(super) fn find(
    text: &str,
    keys: &[&str],
    otherwise: DecodeError,
) -> Result<Document, DecodeError> {
    let (documents, ranges) = documents(text, keys)?;
    let reasoning = Reasoning::find(text, &ranges);
    let mut answers = Vec::new();
    let mut mistake: Option<(Range<usize>, NoDocument)> = None;
    let mut is_draft = false;
    for document in documents {
        if reasoning.hides(document.range.start) {
            is_draft = true;
            continue;
        }
        match document.mistake {
            // Text after a document that ends with its line is not a part of it.
            Some(error) if ends_with_its_line(&text[document.range.clone()]) => {
                mistake = Some((document.range, error));
            }
            Some(error) => return Err(mistakes::explain(text, document.range.start, &error)),
            None => {
                if mistake.as_ref().is_none_or(|(range, _)| range.end <= document.range.start) {
                    mistake = None;
                    answers.push(document.range);
                }
            }
        }
    }
    if let Some((range, error)) = mistake {
        return Err(mistakes::explain(text, range.start, &error));
    }
    let answer = answers.pop();
    let end = answer.as_ref().map_or(0, |range| range.end);
    if has_contract_block(&text[end..]) {
        return Err(DecodeError::one("an envelope", CONTRACT));
    }
    let Some(range) = answer else {
        return Err(match (is_draft, reasoning.is_cut_off) {
            (false, _) => otherwise,
            (true, false) => DecodeError::one(
                "one JSON document after the reasoning",
                "envelopes only within the reasoning",
            ),
            (true, true) => DecodeError::one(
                "one JSON document after the end of the reasoning",
                "reasoning without its closing tag, so every envelope may be a draft",
            ),
        });
    };
    if is_mentioned(text, &range, &reasoning) {
        return Err(DecodeError::one(
            "one JSON document, which stands by itself",
            "an envelope only as an example within a sentence",
        ));
    }
    // Trees of all candidates could be large, so the answer is parsed again.
    let value = json::parse_prefix(&text[range.start..])
        .map_err(|error| mistakes::explain(text, range.start, &error))?;
    let repairs = repairs(text, &range, &reasoning.parts, answers.len());
    Ok(Document { value: value.0, repairs })
}

/// Whether a contract's block begins in `text`.
pub(super) fn has_contract_block(text: &str) -> bool {
    text.lines().any(|line| Marker::of_line(line) == Some(Marker::Output))
}

/// Returns all documents with a wanted field, complete or not, and lists of them, and the ranges of
/// all complete documents. Parts of a document are not included.
fn documents(
    text: &str,
    keys: &[&str],
) -> Result<(Vec<Candidate>, Vec<Range<usize>>), DecodeError> {
    let (mut documents, mut ranges) = (Vec::new(), Vec::new());
    let mut effort = MAX_EFFORT_BYTES.max(text.len().saturating_mul(8));
    let mut start = 0;
    while let Some(offset) = text[start..].find(['{', '[']) {
        let bracket = start + offset;
        let rest = &text[bracket..];
        start = bracket + 1;
        // Only lists of objects: prose is full of brackets.
        if rest.starts_with('[') && !rest[1..].trim_start().starts_with('{') {
            continue;
        }
        let (looked_at, found) = look(rest, keys);
        match found {
            Found::Beyond(error) => return Err(mistakes::explain(text, bracket, &error)),
            Found::Document(length, is_wanted) => {
                start = bracket + length;
                ranges.push(bracket..start);
                if is_wanted {
                    documents.push(Candidate { range: bracket..start, mistake: None });
                }
            }
            Found::Mistake(error) => {
                // Beyond that, the end of the line does not matter.
                let end = beginning(rest).find('\n').unwrap_or(rest.len());
                let range = bracket..bracket + end;
                documents.push(Candidate { range, mistake: Some(error) });
            }
            Found::Nothing => {}
        }
        // A later document would be the answer.
        effort = effort.checked_sub(looked_at + ATTEMPT_COST_BYTES).ok_or_else(too_much)?;
        if documents.len() > MAX_CANDIDATES {
            return Err(too_much());
        }
    }
    Ok((documents, ranges))
}

/// The result of parsing at a bracket.
enum Found {
    /// A document of this length, and whether it has a wanted field.
    Document(usize, bool),
    /// An invalid document with a wanted field.
    Mistake(NoDocument),
    /// A document that exceeds a limit.
    Beyond(NoDocument),
    Nothing,
}

/// Parses the text at a bracket; also returns the cost in bytes.
fn look(text: &str, keys: &[&str]) -> (usize, Found) {
    // Most brackets begin no document, which is cheap to find out without building a tree.
    let skipped = json::skip(text);
    let (Ok(looked_at) | Err(looked_at)) = skipped;
    if skipped.is_err() && !begins_as_wanted(text, keys) {
        return (looked_at, Found::Nothing);
    }
    let found = match json::parse_prefix(text) {
        Ok((value, length)) => {
            let is_wanted = is_wanted(&value, keys) || is_list(&value, keys);
            return (looked_at, Found::Document(length, is_wanted));
        }
        Err(error) if error.beyond => Found::Beyond(error),
        Err(error) if begins_as_wanted(text, keys) => Found::Mistake(error),
        Err(_) => Found::Nothing,
    };
    (looked_at.saturating_mul(FAILED_PARSE_FACTOR), found)
}

/// The error for a text that exceeds the limit of the search.
fn too_much() -> DecodeError {
    DecodeError::one(
        "one JSON document, with little around it",
        "a text with too many beginnings of documents to look at all of them",
    )
}

/// The beginning of a text, up to [`NEAR_BYTES`] bytes.
fn beginning(text: &str) -> &str {
    let end = (0..=NEAR_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// The text before `at` on its line, up to [`NEAR_BYTES`] bytes.
fn line_before(text: &str, at: usize) -> &str {
    let start = (at.saturating_sub(NEAR_BYTES)..=at).find(|&start| text.is_char_boundary(start));
    let near = &text[start.unwrap_or(at)..at];
    near.rsplit('\n').next().unwrap_or_default()
}

fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Whether it is an object with one of the fields `keys`.
pub(super) fn is_wanted(value: &Value, keys: &[&str]) -> bool {
    keys.iter().any(|key| value.get(key).is_some())
}

/// Whether it is a list with such an object.
pub(super) fn is_list(value: &Value, keys: &[&str]) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(|item| is_wanted(item, keys)))
}

/// Whether an invalid document has one of the fields `keys` near its beginning, in any kind of
/// quotes.
fn begins_as_wanted(text: &str, keys: &[&str]) -> bool {
    let text = beginning(text);
    let is_quote = |character: char| "\"'\\\u{2018}\u{2019}\u{201c}\u{201d}".contains(character);
    // Most brackets are not followed by a name or a comment.
    let first = text.strip_prefix('[').unwrap_or(text).trim_start();
    let first = first.strip_prefix('{').unwrap_or(first).trim_start();
    let is_name = |first: char| is_quote(first) || first.is_alphabetic() || "/#".contains(first);
    if !first.starts_with(is_name) {
        return false;
    }
    let is_key_at = |start: usize, key: &str| {
        let before = text[..start].trim_end_matches(is_quote).trim_end();
        let is_quoted = text[..start].ends_with(is_quote);
        // After a comment a key is on a line of its own.
        let is_key = before.ends_with(['{', ',']) || (is_quoted && text[..start].contains('\n'));
        let after = text[start + key.len()..].trim_start_matches(is_quote).trim_start();
        is_key && after.starts_with(':')
    };
    keys.iter().any(|key| text.match_indices(key).any(|(start, _)| is_key_at(start, key)))
}

/// Whether an invalid document, up to the end of its line, seems to end there: its brackets and
/// strings are closed.
fn ends_with_its_line(line: &str) -> bool {
    let count = |characters: [char; 2]| line.matches(characters).count();
    line.len() <= NEAR_BYTES && count(['{', '[']) == count(['}', ']']) && count(['"', '"']) % 2 == 0
}

/// Whether the document at `range` is part of a sentence: words precede it on its line, and the
/// sentence continues after it.
fn is_mentioned(text: &str, range: &Range<usize>, reasoning: &Reasoning) -> bool {
    let line = range.start - line_before(text, range.start).len();
    let thought = reasoning.parts.iter().map(|part| part.end).filter(|end| *end <= range.start);
    let before = text[thought.max().map_or(line, |end| end.max(line))..range.start].trim_end();
    let after = &text[range.end..];
    let after = after[..line_end(after)].trim_start_matches('`').trim_start();
    let has_words = before.contains(char::is_alphanumeric)
        && !before.starts_with("```")
        && !before.ends_with([':', '>', ']', '}']);
    has_words && after.starts_with(char::is_lowercase)
}

/// Describes what was removed around the document at `range`.
fn repairs(
    text: &str,
    range: &Range<usize>,
    reasoning: &[Range<usize>],
    earlier: usize,
) -> Vec<String> {
    let mut repairs = Vec::new();
    let without_mark = text.strip_prefix('\u{feff}');
    if without_mark.is_some() {
        repairs.push("removed a byte order mark".to_owned());
    }
    if !reasoning.is_empty() {
        repairs.push("removed reasoning".to_owned());
    }
    if earlier > 0 {
        let documents = if earlier == 1 { "document" } else { "documents" };
        repairs.push(format!("left out {earlier} earlier {documents}"));
        return repairs;
    }
    let rest = |part: Range<usize>| -> String {
        let mut rest = String::new();
        let mut start = part.start;
        for cut in reasoning.iter().filter(|cut| cut.start < part.end && cut.end > part.start) {
            rest.push_str(&text[start..cut.start.max(start)]);
            start = cut.end.min(part.end);
        }
        rest.push_str(&text[start..part.end]);
        rest.trim_matches(|character: char| character.is_whitespace() || character == '\u{feff}')
            .to_owned()
    };
    let (before, after) = (rest(0..range.start), rest(range.end..text.len()));
    let opening = before.rsplit('\n').next().unwrap_or_default().trim();
    let mut before = before.as_str();
    let mut after = after.as_str();
    if opening.starts_with("```") && after.starts_with("```") {
        repairs.push("removed a code fence".to_owned());
        before = before.rsplit_once('\n').map_or("", |(before, _)| before);
        after = after.trim_start_matches('`').trim();
    }
    if !before.is_empty() {
        repairs.push("removed text before the document".to_owned());
    }
    if !after.is_empty() {
        repairs.push("removed text after the document".to_owned());
    }
    repairs
}
