//! Finds the document in what a model wrote around it: code fences, prose, reasoning.
//!
//! The last complete object that is wanted counts, since reasoning often holds drafts before the
//! answer. Nothing within the object is touched: a tag or a fence inside one of its strings is its
//! own content. A text in which a wanted one was begun that is not JSON is refused: to take an
//! earlier one, or a part of it, would run what nobody meant.

use std::ops::Range;

use serde_json::Value;

use super::json::{self, NoDocument};
use super::{CONTRACT, DecodeError, Document, mistakes};
use crate::response::{Marker, Reasoning};

/// How much text may be looked at in the search for documents, in bytes: unclosed brackets make
/// every attempt run to the end. A text that is longer than an eighth of it gets eight times its own
/// length.
const MAX_EFFORT_BYTES: usize = 64 << 20;

/// What each attempt counts besides the text that it looks at, in bytes.
const ATTEMPT_COST_BYTES: usize = 64;

/// What reading a text into a tree in vain counts, as a multiple of looking at it.
const FAILED_PARSE_FACTOR: usize = 4;

/// How many documents there may be that are wanted, or were begun as wanted ones.
const MAX_CANDIDATES: usize = 10_000;

/// How much of a document that is not JSON, or of the line around a document, is looked at, in
/// bytes.
const NEAR_BYTES: usize = 400;

/// A document that is wanted, or was begun as one.
struct Candidate {
    range: Range<usize>,
    /// What keeps it from being JSON.
    mistake: Option<NoDocument>,
}

/// The last object of `text` with one of the fields `keys`; `otherwise` is the error where nothing
/// looks like one.
pub(super) fn find(
    text: &str,
    keys: &[&str],
    otherwise: DecodeError,
) -> Result<Document, DecodeError> {
    let (documents, ranges) = documents(text, keys)?;
    let reasoning = Reasoning::find(text, &ranges);
    let mut answers = Vec::new();
    let mut mistake: Option<(Range<usize>, NoDocument)> = None;
    let (mut is_draft, mut earlier) = (false, 0);
    for document in documents {
        if reasoning.hides(&document.range) {
            is_draft = true;
            // What follows an opening that is never closed may as well be an answer.
            earlier += usize::from(!reasoning.contains(document.range.start));
            continue;
        }
        match document.mistake {
            // What comes after one that ends with its line is no part of it.
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
    earlier += answers.len();
    let end = answer.as_ref().map_or(0, |range| range.end);
    if has_contract_block(&text[end..]) {
        return Err(DecodeError::one("an envelope", CONTRACT));
    }
    let Some(range) = answer else {
        return Err(if is_draft {
            DecodeError::one(
                "one JSON document after the reasoning",
                "envelopes only within the reasoning",
            )
        } else {
            otherwise
        });
    };
    if is_mentioned(text, &range, &reasoning) {
        return Err(DecodeError::one(
            "one JSON document, which stands by itself",
            "an envelope only as an example within a sentence",
        ));
    }
    // All candidates at once as trees could be large, so that of the answer is made again.
    let value = json::parse_prefix(&text[range.start..])
        .map_err(|error| mistakes::explain(text, range.start, &error))?;
    let repairs = repairs(text, &range, &reasoning.parts, earlier);
    Ok(Document { value: value.0, repairs })
}

/// Whether a contract's block begins in `text`.
pub(super) fn has_contract_block(text: &str) -> bool {
    text.lines().any(|line| Marker::of_line(line) == Some(Marker::Output))
}

/// All documents that are, or were begun as, wanted ones or lists of them, and the places of all
/// complete documents. A part of a document is not one.
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
        // Of lists only those of objects: prose is full of brackets.
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
                // Further than that it does not matter where its line ends.
                let end = beginning(rest).find('\n').unwrap_or(rest.len());
                let range = bracket..bracket + end;
                documents.push(Candidate { range, mistake: Some(error) });
            }
            Found::Nothing => {}
        }
        // A document that comes later would be the answer.
        effort = effort.checked_sub(looked_at + ATTEMPT_COST_BYTES).ok_or_else(too_much)?;
        if documents.len() > MAX_CANDIDATES {
            return Err(too_much());
        }
    }
    Ok((documents, ranges))
}

/// What stands at a bracket.
enum Found {
    /// A document of this length; whether it is wanted.
    Document(usize, bool),
    /// What was begun as one that is wanted.
    Mistake(NoDocument),
    /// What is more than a document may be.
    Beyond(NoDocument),
    Nothing,
}

/// What stands at the bracket that a text begins with, and how much it cost to see that.
fn look(text: &str, keys: &[&str]) -> (usize, Found) {
    // Most brackets begin nothing, which costs little to see where no tree is made.
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

/// A text whose documents are not looked for to its end.
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

/// What stands before `at` on its line, up to [`NEAR_BYTES`] bytes.
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

/// Whether it is a list in which one that is wanted stands.
pub(super) fn is_list(value: &Value, keys: &[&str]) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(|item| is_wanted(item, keys)))
}

/// Whether what is not JSON was begun as a document that is wanted: one of the fields `keys` stands
/// near its beginning, in whatever quotes.
fn begins_as_wanted(text: &str, keys: &[&str]) -> bool {
    let text = beginning(text);
    let is_quote = |character: char| "\"'\\\u{2018}\u{2019}\u{201c}\u{201d}".contains(character);
    // Most brackets are not even followed by a name or a comment.
    let first = text.strip_prefix('[').unwrap_or(text).trim_start();
    let first = first.strip_prefix('{').unwrap_or(first).trim_start();
    let is_name = |first: char| is_quote(first) || first.is_alphabetic() || "/#".contains(first);
    if !first.starts_with(is_name) {
        return false;
    }
    let is_key_at = |start: usize, key: &str| {
        let before = text[..start].trim_end_matches(is_quote).trim_end();
        let is_quoted = text[..start].ends_with(is_quote);
        // After a comment a key stands on a line of its own.
        let is_key = before.ends_with(['{', ',']) || (is_quoted && text[..start].contains('\n'));
        let after = text[start + key.len()..].trim_start_matches(is_quote).trim_start();
        is_key && after.starts_with(':')
    };
    keys.iter().any(|key| text.match_indices(key).any(|(start, _)| is_key_at(start, key)))
}

/// Whether a document that is not JSON, given up to the end of its line, seems to end there: its
/// brackets are closed, and so are its strings.
fn ends_with_its_line(line: &str) -> bool {
    let count = |characters: [char; 2]| line.matches(characters).count();
    line.len() <= NEAR_BYTES && count(['{', '[']) == count(['}', ']']) && count(['"', '"']) % 2 == 0
}

/// Whether the document at `range` is a word of a sentence: words stand before it on its line,
/// and the sentence goes on after it.
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

/// What was removed around the document at `range`, in words.
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
