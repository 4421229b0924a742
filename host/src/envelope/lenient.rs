//! Finds the document in what a model wrote around it: code fences, prose, reasoning.
//!
//! The last complete object that is wanted counts, since reasoning often holds drafts
//! before the answer. Nothing within the object is touched: a tag or a fence inside one of its
//! strings is its own content.

use std::ops::Range;

use serde_json::Value;

use super::{Document, json};

/// How much text may be parsed, as a multiple of its length, while looking for the beginning
/// of a document. Unclosed brackets make every attempt run to the end.
const EFFORT: usize = 64;

/// The last object of `text` that `is_wanted`.
pub(super) fn find(text: &str, is_wanted: impl Fn(&Value) -> bool) -> Option<Document> {
    let objects = objects(text);
    let reasoning = reasoning(text, &objects);
    let mut wanted = objects.into_iter().filter(|(value, range)| {
        is_wanted(value) && !reasoning.iter().any(|part| part.contains(&range.start))
    });
    let mut earlier = 0;
    let (mut value, mut range) = wanted.next()?;
    for later in wanted {
        (value, range) = later;
        earlier += 1;
    }
    Some(Document { value, repairs: repairs(text, &range, &reasoning, earlier) })
}

/// All complete objects that are not part of another, with their places.
fn objects(text: &str) -> Vec<(Value, Range<usize>)> {
    let mut objects = Vec::new();
    let mut effort = text.len().saturating_mul(EFFORT);
    let mut start = 0;
    while let Some(offset) = text[start..].find('{') {
        let brace = start + offset;
        let looked_at = match json::parse_prefix(&text[brace..]) {
            Ok((value, length)) => {
                start = brace + length;
                objects.push((value, brace..start));
                length
            }
            Err(looked_at) => {
                start = brace + 1;
                looked_at
            }
        };
        match effort.checked_sub(looked_at) {
            Some(rest) => effort = rest,
            None => break,
        }
    }
    objects
}

/// The parts of `text` that are a model's reasoning: from `<think>` to `</think>`, or from the
/// beginning where the opening is missing. An opening that is never closed says nothing about
/// where the reasoning ends, so only the tag itself counts. Tags within an object are content.
fn reasoning(text: &str, objects: &[(Value, Range<usize>)]) -> Vec<Range<usize>> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let outside = |position: usize| {
        let next = objects.partition_point(|(_, range)| range.end <= position);
        objects.get(next).is_none_or(|(_, range)| position < range.start)
    };
    let mut tags: Vec<(usize, &str)> = [OPEN, CLOSE]
        .into_iter()
        .flat_map(|tag| text.match_indices(tag))
        .filter(|(position, _)| outside(*position))
        .collect();
    tags.sort_unstable();

    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut open: Option<usize> = None;
    for (position, tag) in tags {
        let end = position + tag.len();
        if tag == OPEN {
            open.get_or_insert(position);
        } else if let Some(start) = open.take() {
            parts.push(start..end);
        } else {
            // No opening since the last closing: everything up to here is reasoning.
            parts.clear();
            parts.push(0..end);
        }
    }
    parts.extend(open.map(|start| start..start + OPEN.len()));
    parts
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
