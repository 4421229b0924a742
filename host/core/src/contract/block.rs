//! Finds the output block of a contract in a response.
//!
//! The output contracts take the text between the first `---OUTPUT---` and the first `---END---`,
//! anywhere. This parser is stricter and more lenient: a marker is a line of its own, so that prose
//! can mention it; the last block counts, since earlier ones are drafts or copies of the prompt;
//! blocks within reasoning do not count; and the end of the text ends a block as well.

use std::ops::Range;

use crate::response::{Marker, Reasoning};

/// A line of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line number, counted from 1.
    pub(super) number: usize,
    /// The text without the end of the line.
    pub(super) text: &'a str,
    /// The offset of the line in the response.
    start: usize,
}

/// The lines between the markers.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) lines: Vec<Line<'a>>,
    pub(super) repairs: Vec<String>,
}

/// The lines, blocks and reasoning of a response.
pub(super) struct Response<'a> {
    lines: Vec<Line<'a>>,
    /// The lines of the blocks: from the one after the opening marker to the closing one.
    blocks: Vec<Range<usize>>,
    reasoning: Reasoning,
}

impl<'a> Response<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let lines = lines(text);
        let mut blocks = blocks(&lines, |line| Marker::of_line(line) == Some(Marker::Output));
        if blocks.is_empty() {
            blocks = blocks_after_prose(&lines);
        }
        let place = |block: &Range<usize>| -> Range<usize> {
            let start =
                lines.get(block.start.saturating_sub(1)).map_or(text.len(), |line| line.start);
            let end = lines.get(block.end).map_or(text.len(), |line| line.start + line.text.len());
            start..end.max(start)
        };
        // Tags within a value belong to the value.
        let places: Vec<Range<usize>> = blocks.iter().map(place).collect();
        let reasoning = Reasoning::find(text, &places);
        let mut place = places.iter();
        blocks.retain(|_| place.next().is_some_and(|place| !reasoning.hides(place.start)));
        Self { lines, blocks, reasoning }
    }

    /// The last block that has a field, or else the last one.
    pub(super) fn last_block(&self) -> Option<Block<'a>> {
        let has_fields = |block: &&Range<usize>| {
            self.lines[(*block).clone()].iter().any(|line| line.text.contains([':', '\u{ff1a}']))
        };
        let block = self.blocks.iter().rev().find(has_fields).or(self.blocks.last())?;
        let mut lines = self.lines[block.clone()].to_vec();
        let mut repairs = Vec::new();
        let opening = self.lines.get(block.start.wrapping_sub(1)).map_or("", |line| line.text);
        if opening.trim() != Marker::Output.as_str() {
            repairs.push(format!("read '{}' as ---OUTPUT---", opening.trim()));
        }
        let earlier = self.blocks.iter().filter(|other| other.start < block.start).count();
        if earlier > 0 {
            let blocks = if earlier == 1 { "block" } else { "blocks" };
            repairs.push(format!("left out {earlier} earlier {blocks}"));
        }
        match self.lines.get(block.end) {
            Some(end) if end.text.trim() == Marker::End.as_str() => {}
            Some(end) if Marker::of_line(end.text) == Some(Marker::End) => {
                repairs.push(format!("read '{}' as ---END---", end.text.trim()));
            }
            _ => match lines.last_mut() {
                Some(line) if line.text.trim_end().ends_with(Marker::End.as_str()) => {
                    line.text = line.text.trim_end().trim_end_matches(Marker::End.as_str());
                    repairs.push("separated ---END--- from the last field".to_owned());
                }
                _ => repairs.push("took the end of the text for ---END---".to_owned()),
            },
        }
        Some(Block { lines, repairs })
    }

    /// All lines outside of the reasoning.
    pub(super) fn answer(&self) -> impl Iterator<Item = Line<'a>> {
        self.lines
            .iter()
            .copied()
            .filter(|line| !self.reasoning.touches(&(line.start..line.start + line.text.len())))
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let text = line.strip_suffix('\r').unwrap_or(line);
        lines.push(Line { number: index + 1, text, start });
        start += line.len() + 1;
    }
    lines
}

/// The blocks that begin after a line for which `opens` is true.
fn blocks(lines: &[Line<'_>], opens: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut open = None;
    for (index, line) in lines.iter().enumerate() {
        if opens(line.text) {
            blocks.extend(open.replace(index + 1).map(|start: usize| start..index));
        } else if Marker::of_line(line.text) == Some(Marker::End) {
            blocks.extend(open.take().map(|start| start..index));
        } else if line.text.trim_end().ends_with(Marker::End.as_str()) {
            blocks.extend(open.take().map(|start| start..index + 1));
        }
    }
    blocks.extend(open.map(|start| start..lines.len()));
    blocks
}

/// The blocks whose opening marker is at the end of a line of prose. Used only if no marker is a
/// line of its own, and a field must follow.
fn blocks_after_prose(lines: &[Line<'_>]) -> Vec<Range<usize>> {
    let marker = Marker::Output.as_str();
    let mut blocks = blocks(lines, |line| line.trim_end().ends_with(marker));
    blocks.retain(|block| lines.get(block.start).is_some_and(|line| line.text.contains(": ")));
    blocks
}
