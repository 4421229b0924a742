//! A cursor over the lines of a patch.

use super::{PatchError, Shown};

/// A position in a patch.
pub(super) struct Cursor<'a> {
    /// The lines of the patch, without line feeds.
    lines: Vec<&'a [u8]>,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(patch: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = patch.split(|byte| *byte == b'\n').collect();
        // The text after the last line feed is a line only if it is not empty.
        lines.pop_if(|line| line.is_empty());
        Self { lines, next: 0 }
    }

    /// The number of the next line, from 1.
    pub(super) fn number(&self) -> usize {
        self.next + 1
    }

    /// The next line without a carriage return at its end, as in headers.
    pub(super) fn header(&self) -> Option<&'a [u8]> {
        self.header_at(0)
    }

    fn header_at(&self, ahead: usize) -> Option<&'a [u8]> {
        self.raw_at(ahead).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next line unchanged.
    pub(super) fn raw(&self) -> Option<&'a [u8]> {
        self.raw_at(0)
    }

    fn raw_at(&self, ahead: usize) -> Option<&'a [u8]> {
        self.lines.get(self.next.checked_add(ahead)?).copied()
    }

    /// Moves to the next line.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Moves back to a line, given by its number.
    pub(super) fn back_to(&mut self, number: usize) {
        self.next = number.saturating_sub(1);
    }

    /// The rest of the next line after `prefix`, if it begins with that.
    pub(super) fn after(&self, prefix: &str) -> Option<&'a [u8]> {
        self.header()?.strip_prefix(prefix.as_bytes())
    }

    pub(super) fn at(&self, prefix: &str) -> bool {
        self.after(prefix).is_some()
    }

    fn begins(&self, ahead: usize, prefix: &str) -> bool {
        self.header_at(ahead).is_some_and(|line| line.starts_with(prefix.as_bytes()))
    }

    /// Whether the next lines are the `---` and `+++` lines of a file.
    pub(super) fn at_marks(&self) -> bool {
        self.at("--- ") && self.begins(1, "+++ ")
    }

    /// As [`Cursor::at_marks`], for positions where a hunk's lines are possible too: requires that
    /// a hunk follows.
    pub(super) fn at_marks_and_hunk(&self) -> bool {
        self.at_marks() && self.begins(2, "@@")
    }

    /// Whether the next line is the signature separator of a mail: `-- ` (or `--`, if blanks at
    /// line ends were lost), followed by a line that can't be part of a hunk.
    pub(super) fn at_signature(&self) -> bool {
        matches!(self.header(), Some(b"-- " | b"--"))
            && self
                .header_at(1)
                .and_then(|line| line.first())
                .is_some_and(|byte| !b" +-\\@".contains(byte))
    }

    /// Whether the next line is empty.
    pub(super) fn at_blank(&self) -> bool {
        self.header().is_some_and(<[u8]>::is_empty)
    }

    /// Moves to the next line that is not empty.
    pub(super) fn skip_blank(&mut self) {
        while self.at_blank() {
            self.advance();
        }
    }

    /// An error at the next line, which is not what was expected.
    pub(super) fn expected(&self, wanted: impl std::fmt::Display) -> PatchError {
        let problem = match self.header() {
            Some(line) => format!("expected {wanted}, found {}", Shown(line)),
            None => format!("expected {wanted}, but the patch ends"),
        };
        PatchError::Malformed { line: self.number(), problem }
    }
}
