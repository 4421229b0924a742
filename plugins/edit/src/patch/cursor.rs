//! The lines of a patch, read one after the other.

use super::{PatchError, Shown};

/// A place in a patch.
pub(super) struct Cursor<'a> {
    /// Without their line feeds.
    lines: Vec<&'a [u8]>,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(patch: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = patch.split(|byte| *byte == b'\n').collect();
        // What follows the last line feed is a line only where it is more than nothing.
        lines.pop_if(|line| line.is_empty());
        Self { lines, next: 0 }
    }

    /// The number of the next line, from 1.
    pub(super) fn number(&self) -> usize {
        self.next + 1
    }

    /// The next line as a line of a header: a carriage return at its end is none of it.
    pub(super) fn header(&self) -> Option<&'a [u8]> {
        self.header_at(0)
    }

    fn header_at(&self, ahead: usize) -> Option<&'a [u8]> {
        self.raw_at(ahead).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next line as it is.
    pub(super) fn raw(&self) -> Option<&'a [u8]> {
        self.raw_at(0)
    }

    fn raw_at(&self, ahead: usize) -> Option<&'a [u8]> {
        self.lines.get(self.next.checked_add(ahead)?).copied()
    }

    /// Goes to the next line.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Goes back to a line by its number.
    pub(super) fn back_to(&mut self, number: usize) {
        self.next = number.saturating_sub(1);
    }

    /// The rest of the next line if it begins with `prefix`.
    pub(super) fn after(&self, prefix: &str) -> Option<&'a [u8]> {
        self.header()?.strip_prefix(prefix.as_bytes())
    }

    pub(super) fn at(&self, prefix: &str) -> bool {
        self.after(prefix).is_some()
    }

    fn begins(&self, ahead: usize, prefix: &str) -> bool {
        self.header_at(ahead).is_some_and(|line| line.starts_with(prefix.as_bytes()))
    }

    /// Whether the `---` and `+++` lines of a file come next.
    pub(super) fn at_marks(&self) -> bool {
        self.at("--- ") && self.begins(1, "+++ ")
    }

    /// The same where lines of a hunk can come too: only with a hunk after them.
    pub(super) fn at_marks_and_hunk(&self) -> bool {
        self.at_marks() && self.begins(2, "@@")
    }

    /// Whether the signature of a mail comes next: a line with `-- ` (or `--`, where blanks
    /// at line ends were lost) and then something that is no line of a hunk.
    pub(super) fn at_signature(&self) -> bool {
        matches!(self.header(), Some(b"-- " | b"--"))
            && self
                .header_at(1)
                .and_then(|line| line.first())
                .is_some_and(|byte| !b" +-\\@".contains(byte))
    }

    /// Whether the next line is blank.
    pub(super) fn at_blank(&self) -> bool {
        self.header().is_some_and(<[u8]>::is_empty)
    }

    /// Goes to the next line that is not blank.
    pub(super) fn skip_blank(&mut self) {
        while self.at_blank() {
            self.advance();
        }
    }

    /// An error about the next line.
    pub(super) fn expected(&self, wanted: impl std::fmt::Display) -> PatchError {
        let problem = match self.header() {
            Some(line) => format!("expected {wanted}, found {}", Shown(line)),
            None => format!("expected {wanted}, but the patch ends"),
        };
        PatchError::Malformed { line: self.number(), problem }
    }
}
