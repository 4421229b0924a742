//! Searches files one after the other, each as a whole.

use std::borrow::Cow;
use std::ops::Range;

use cofferdam_sdk::ToolError;
use cofferdam_sdk::answer::item_bytes;
use serde::Serialize;

use crate::blocks::{Block, Blocks};
use crate::deadline::Deadline;
use crate::pattern::Pattern;
use crate::text::{line_end, line_start, shown};

/// The maximum number of files or lines in a result, with context lines.
pub const MAX_ENTRIES: usize = 10_000;

/// The maximum size of the entries of a result whose caller gave no limit, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// The settings of a search.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The regular expression to search for.
    pub pattern: Cow<'a, str>,
    /// Whether case is ignored.
    pub ignore_case: bool,
    /// Whether a match can span lines.
    pub multiline: bool,
    /// The results to collect.
    pub collect: Collect,
    /// The number of files (or of matches, when lines are collected) to leave out at the start.
    pub offset: usize,
    /// The maximum number of files or matches.
    pub limit: Limit,
}

/// The maximum size of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// What the caller asked for; the search ends when it is exceeded.
    Entries(usize),
    /// At most this many, and [`PAGE_BYTES`]; the search goes on to count all matches.
    Page(usize),
}

/// The results that a search collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collect {
    /// The files that match.
    Files,
    /// The files that match, each with its number of matches.
    Counts,
    /// The matches, each with context lines.
    Lines {
        /// The number of lines before a match.
        before: usize,
        /// The number of lines after a match.
        after: usize,
    },
}

/// The results of a search, in the order of the files.
#[derive(Debug, Default)]
pub struct Found {
    /// The listed files that match. With [`Collect::Files`], counting ends at 1.
    pub files: Vec<FileCount>,
    /// The matches, with [`Collect::Lines`].
    pub lines: Vec<Match>,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// The number of files that match, listed or not, as far as the search went.
    pub total_files: usize,
    /// The number of matches in them; with [`Collect::Files`], of files.
    pub total_matches: usize,
    /// The number of files searched.
    pub searched: usize,
    /// The number of binary files that were skipped although they seemed to match.
    pub binary: usize,
    /// The number of collected lines, with context lines.
    kept: usize,
    /// The size of what was collected, as JSON, in bytes.
    bytes: usize,
}

/// A file with its number of matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCount {
    /// The path, as the caller wrote it.
    pub file: String,
    /// The number of matching lines or, in a multiline search, of blocks of lines.
    pub matches: usize,
}

/// A matching line or, in a multiline search, the lines that a match spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The path of the file.
    pub file: String,
    /// The number of the first line, from 1.
    pub line: u64,
    /// The whole line or lines, formatted by [`shown`].
    pub text: String,
    /// The lines before the match that are not in the result yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<ContextLine>,
    /// The lines after the match, up to the next match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<ContextLine>,
}

/// A line before or after a match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextLine {
    /// The line's number, from 1.
    pub line: u64,
    /// The line's text, formatted by [`shown`].
    pub text: String,
}

/// A search in progress.
pub struct Search {
    pattern: Pattern,
    collect: Collect,
    offset: usize,
    limit: Limit,
    deadline: Deadline,
    timed_out: bool,
    found: Found,
}

impl Search {
    /// Prepares a search that ends at `deadline`.
    ///
    /// # Errors
    /// `InvalidRegex`, with the position.
    pub fn new(settings: &Settings<'_>, deadline: Deadline) -> Result<Self, ToolError> {
        let Settings { ref pattern, ignore_case, multiline, collect, offset, limit } = *settings;
        let pattern = Pattern::compile(pattern, ignore_case, multiline)?;
        let found = Found::default();
        Ok(Self { pattern, collect, offset, limit, deadline, timed_out: false, found })
    }

    /// Searches one file; returns whether to continue. `path` is called only if the file matches.
    ///
    /// Skips binary files: those with a NUL byte or in UTF-16.
    pub fn look(&mut self, path: impl Fn() -> String, contents: &[u8]) -> bool {
        if self.deadline.passed(contents.len()) {
            self.timed_out = true;
            return false;
        }
        self.found.searched += 1;
        let contents = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents);
        if self.pattern.candidate(contents).is_none() {
            return true;
        }
        if is_binary(contents) {
            self.found.binary += 1;
            return true;
        }
        let mut blocks = Blocks::new(&self.pattern, contents);
        match self.collect {
            Collect::Files => self.keep_count(path, usize::from(blocks.next().is_some())),
            Collect::Counts => self.keep_count(path, blocks.count()),
            Collect::Lines { before, after } => self.keep_lines(path, contents, before, after),
        }
        !self.found.truncated || matches!(self.limit, Limit::Page(_))
    }

    fn keep_count(&mut self, path: impl Fn() -> String, matches: usize) {
        if matches == 0 {
            return;
        }
        self.found.total_files += 1;
        self.found.total_matches += matches;
        if self.found.total_files <= self.offset || self.found.truncated {
            return;
        }
        let file = FileCount { file: path(), matches };
        if self.found.has_room(self.limit, self.found.files.len(), 1, &file) {
            self.found.files.push(file);
        }
    }

    /// Collects the matches of one file, with the context lines that were not collected yet.
    fn keep_lines(
        &mut self,
        path: impl Fn() -> String,
        contents: &[u8],
        before: usize,
        after: usize,
    ) {
        let found = &mut self.found;
        let earlier = found.lines.len();
        let mut file = None;
        let mut numbers = LineNumbers { contents, line: 1, counted: 0 };
        let mut kept_to = 0;
        let mut counted = 0;
        let mut blocks = Blocks::new(&self.pattern, contents).peekable();
        while let Some(Block { lines, focus }) = blocks.next() {
            counted += 1;
            if found.total_matches + counted <= self.offset || found.truncated {
                continue;
            }
            let next = blocks.peek().map_or(contents.len(), |next| next.lines.start);
            let before = numbers.show(last_lines(contents, kept_to..lines.start, before));
            let line = numbers.at(lines.start);
            let after = first_lines(contents, lines.end..next, after);
            kept_to = after.end;
            let after = numbers.show(after);
            let size = 1 + before.len() + after.len();
            let file = file.get_or_insert_with(&path).clone();
            let text = shown(&contents[lines], focus);
            let entry = Match { file, line, text, before, after };
            if found.has_room(self.limit, found.lines.len(), size, &entry) {
                found.lines.push(entry);
            } else if matches!(self.limit, Limit::Entries(_)) {
                break;
            }
        }
        found.total_matches += counted;
        found.total_files += usize::from(counted > 0);
        let listed = found.lines.len() - earlier;
        if let Some(file) = file.filter(|_| listed > 0) {
            found.files.push(FileCount { file, matches: listed });
        }
    }

    /// Ends the search and returns its results.
    ///
    /// # Errors
    /// `TimeoutError`.
    pub fn finish(self) -> Result<Found, ToolError> {
        if self.timed_out { Err(self.timeout()) } else { Ok(self.found) }
    }

    fn timeout(&self) -> ToolError {
        ToolError::limit(
            "TimeoutError",
            format!(
                "the search was not done after {} ms and {} files. Narrow it with `path`, or \
                 simplify the pattern",
                self.deadline.allowed().as_millis(),
                self.found.searched
            ),
        )
    }
}

impl Found {
    /// Counts an entry of `lines` lines after `listed` other entries, if the limit allows it;
    /// otherwise sets `truncated`.
    fn has_room(
        &mut self,
        limit: Limit,
        listed: usize,
        lines: usize,
        entry: &impl Serialize,
    ) -> bool {
        let (Limit::Entries(most) | Limit::Page(most)) = limit;
        let bytes = match limit {
            Limit::Entries(_) => 0,
            Limit::Page(_) => item_bytes(entry),
        };
        // One entry is always listed: a line has at most 2,000 bytes, but context may be long.
        let fits = listed < most
            && (listed == 0 || self.bytes + bytes <= PAGE_BYTES)
            && self.kept + lines <= MAX_ENTRIES;
        if fits {
            self.kept += lines;
            self.bytes += bytes;
        } else {
            self.truncated = true;
        }
        fits
    }
}

fn is_binary(contents: &[u8]) -> bool {
    contents.starts_with(b"\xff\xfe") || contents.starts_with(b"\xfe\xff") || contents.contains(&0)
}

/// The last lines of a range of whole lines, at most `most` of them.
fn last_lines(contents: &[u8], range: Range<usize>, most: usize) -> Range<usize> {
    let mut start = range.end;
    for _ in 0..most {
        if start <= range.start {
            break;
        }
        start = line_start(contents, start - 1);
    }
    start..range.end
}

/// The first lines of a range of whole lines, at most `most` of them.
fn first_lines(contents: &[u8], range: Range<usize>, most: usize) -> Range<usize> {
    let mut end = range.start;
    for _ in 0..most {
        if end >= range.end {
            break;
        }
        end = line_end(contents, end);
    }
    range.start..end
}

/// Computes line numbers of a file in one pass.
struct LineNumbers<'a> {
    contents: &'a [u8],
    line: u64,
    counted: usize,
}

impl LineNumbers<'_> {
    /// The number, from 1, of the line that starts at `offset`. Offsets must not decrease between
    /// calls.
    fn at(&mut self, offset: usize) -> u64 {
        let passed = &self.contents[self.counted..offset];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.counted = offset;
        self.line
    }

    /// The lines of a range with their numbers.
    fn show(&mut self, range: Range<usize>) -> Vec<ContextLine> {
        let first = self.at(range.start);
        let lines = self.contents[range].split_inclusive(|&byte| byte == b'\n');
        (first..)
            .zip(lines)
            .map(|(line, text)| ContextLine { line, text: shown(text, 0) })
            .collect()
    }
}

#[cfg(test)]
mod tests;
