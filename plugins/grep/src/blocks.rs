//! Finds the matching lines of a file in one pass, regardless of the number of matches in a line.

use std::ops::Range;

use grep_matcher::{LineMatchKind, Match};

use crate::pattern::{Pattern, Scope};
use crate::text::{MAX_TEXT_BYTES, line_end, line_start, without_line_end};

/// A matching line or, in a multiline search, the lines that matches span. Matches that share a
/// line are one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The byte range of the whole lines, with their line ends.
    pub lines: Range<usize>,
    /// The offset of the first match in the lines; 0 if the line is short enough to be shown whole.
    pub focus: usize,
}

/// An iterator over the blocks of one file.
pub struct Blocks<'a> {
    pattern: &'a Pattern,
    contents: &'a [u8],
    /// The offset at which the search continues.
    at: usize,
    /// A match found while looking for the end of the previous block.
    pending: Option<Match>,
}

impl<'a> Blocks<'a> {
    /// Iterates over the blocks of `contents` that match `pattern`.
    pub fn new(pattern: &'a Pattern, contents: &'a [u8]) -> Self {
        Self { pattern, contents, at: 0, pending: None }
    }

    fn next_line(&mut self) -> Option<Block> {
        while self.at < self.contents.len() {
            let candidate = self.pattern.candidate(&self.contents[self.at..])?;
            let (LineMatchKind::Candidate(offset) | LineMatchKind::Confirmed(offset)) = candidate;
            let offset = self.at + offset;
            let lines = line_start(self.contents, offset)..line_end(self.contents, offset);
            self.at = lines.end;
            let ends_with_return = self.pattern.scope == Scope::Lines;
            let line = without_line_end(&self.contents[lines.clone()], ends_with_return);
            let is_match =
                matches!(candidate, LineMatchKind::Confirmed(_)) || self.pattern.is_match(line);
            // An empty match may be after the last line end, where no line is.
            if is_match && !lines.is_empty() {
                let first =
                    if line.len() > MAX_TEXT_BYTES { self.pattern.find(line, 0) } else { None };
                return Some(Block { lines, focus: first.map_or(0, |first| first.start()) });
            }
        }
        None
    }

    fn next_span(&mut self) -> Option<Block> {
        let first = self.pending.take().or_else(|| self.next_match())?;
        let start = line_start(self.contents, first.start());
        let mut end = line_end(self.contents, last_byte(first));
        while let Some(next) = self.next_match() {
            if next.start() >= end {
                self.pending = Some(next);
                break;
            }
            if last_byte(next) >= end {
                end = line_end(self.contents, last_byte(next));
            }
        }
        // An empty match may be after the last line end, where no line is.
        (start < end).then(|| Block { lines: start..end, focus: first.start() - start })
    }

    fn next_match(&mut self) -> Option<Match> {
        let found = self.pattern.find(self.contents, self.at)?;
        self.at = found.end() + usize::from(found.is_empty());
        Some(found)
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        match self.pattern.scope {
            Scope::File => self.next_span(),
            Scope::Lines | Scope::LinesOfLineFeed | Scope::EachLine => self.next_line(),
        }
    }
}

/// The offset of a match's last byte; for an empty match, of the next byte.
fn last_byte(found: Match) -> usize {
    found.end().saturating_sub(1).max(found.start())
}
