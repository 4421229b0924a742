//! Positions in text files.
//!
//! Programs count columns in bytes, in UTF-16 code units or in characters, from 0 or from 1, with
//! or without a byte order mark. Tools and backends all use lines from 1, columns in Unicode scalar
//! values from 1, and edits in bytes of the file on disk. [`Text`] converts.
//!
//! A byte order mark belongs to no line and has no column, but byte offsets include it. Lines end
//! with LF, CRLF or a single CR; U+2028 and U+2029, which end lines in JavaScript, are not
//! supported. Bytes that are not UTF-8 count as the replacement characters of lossy decoding.

/// The unit in which a program counts columns and offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8 text.
    Byte,
    /// UTF-16 code units, as JavaScript and the language server protocol count.
    Utf16,
    /// Unicode scalar values, called characters here.
    Scalar,
}

impl Unit {
    /// The size in units of a character that takes `bytes` bytes in the file.
    fn size(self, character: char, bytes: usize) -> usize {
        match self {
            Self::Byte => bytes,
            Self::Utf16 => character.len_utf16(),
            Self::Scalar => 1,
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The contents of a file, with an index of its lines.
#[derive(Debug, Clone)]
pub struct Text {
    bytes: Vec<u8>,
    /// Byte offset of each line; there is at least one line.
    starts: Vec<usize>,
}

impl Text {
    /// Indexes the lines of a file's contents.
    pub fn new(bytes: Vec<u8>) -> Self {
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let is_end = |at: &usize| bytes[*at] == b'\n' || bytes.get(at + 1) != Some(&b'\n');
        let ends = memchr::memchr2_iter(b'\n', b'\r', &bytes[start..]).map(|at| start + at);
        let mut starts = vec![start];
        ends.filter(is_end).for_each(|end| starts.push(end + 1));
        Self { starts, bytes }
    }

    /// The contents that the text was made from.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of lines. The text after the last line end counts as a line, even if it is empty.
    pub fn lines(&self) -> usize {
        self.starts.len()
    }

    /// A line without its end, counted from 1; `None` if there are fewer lines.
    pub fn line(&self, line: u32) -> Option<&[u8]> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.bytes.len());
        let line = &self.bytes[start..end];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The column, counted from 1, of the character with `before` units before it in its line.
    /// Columns past the end of the line, or in a line that does not exist, count one character for
    /// each unit.
    pub fn column(&self, line: u32, before: u32, unit: Unit) -> u32 {
        let mut column = 1;
        let mut left = before as usize;
        for (character, bytes) in characters(self.line(line).unwrap_or_default()) {
            let size = unit.size(character, bytes);
            if left < size {
                return column;
            }
            left -= size;
            column += 1;
        }
        column.saturating_add(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// The byte offset of a line and a column, both counted from 1; `None` if there is no such
    /// position. The position after the last character of a line is valid.
    pub fn offset(&self, line: u32, column: u32) -> Option<usize> {
        let contents = self.line(line)?;
        let start = self.starts[line as usize - 1];
        Some(start + skip(contents, column.checked_sub(1)? as usize, Unit::Scalar)?)
    }

    /// The byte offset of the position with `before` units of text before it, without the byte
    /// order mark; `None` past the end and inside a character.
    pub fn offset_of(&self, before: usize, unit: Unit) -> Option<usize> {
        let start = self.starts[0];
        Some(start + skip(&self.bytes[start..], before, unit)?)
    }

    /// The line and the column of a byte offset; an offset past the end is treated as the end.
    pub fn position(&self, offset: usize) -> (u32, u32) {
        let index = self.starts.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = self.starts[index];
        let end = offset.clamp(start, self.bytes.len().max(start));
        let column = characters(&self.bytes[start..end]).count() + 1;
        let from = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (from(index + 1), from(column))
    }
}

/// The characters of a text, each with its size in bytes.
fn characters(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let invalid = chunk.invalid().len();
        let replaced = (invalid > 0).then_some((char::REPLACEMENT_CHARACTER, invalid));
        chunk.valid().chars().map(|character| (character, character.len_utf8())).chain(replaced)
    })
}

/// The number of bytes in the first `units` units of a text.
fn skip(bytes: &[u8], units: usize, unit: Unit) -> Option<usize> {
    let (mut offset, mut left) = (0, units);
    for (character, size) in characters(bytes) {
        if left == 0 {
            break;
        }
        left = left.checked_sub(unit.size(character, size))?;
        offset += size;
    }
    (left == 0).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text with a byte order mark, characters of two and four bytes, CRLF, and no line end at the
    /// end.
    const MIXED: &str = "\u{feff}a é 😀 b\r\nc\n\nd";

    fn text(contents: impl AsRef<[u8]>) -> Text {
        Text::new(contents.as_ref().to_vec())
    }

    #[test]
    fn lines_end_in_three_ways() {
        for (contents, lines) in [
            ("", vec![""]),
            ("a", vec!["a"]),
            ("a\n", vec!["a", ""]),
            ("a\r\nb\rc\n\nd", vec!["a", "b", "c", "", "d"]),
            ("\u{feff}", vec![""]),
            (MIXED, vec!["a é 😀 b", "c", "", "d"]),
        ] {
            let text = text(contents);
            assert_eq!(text.lines(), lines.len(), "{contents:?}");
            for (line, wanted) in (1..).zip(&lines) {
                assert_eq!(text.line(line), Some(wanted.as_bytes()), "{contents:?}:{line}");
            }
            assert_eq!(text.line(0), None);
            assert_eq!(text.line(text.lines() as u32 + 1), None);
        }
    }

    #[test]
    fn columns_are_characters() {
        let text = text(MIXED);
        for (unit, before, column) in [
            (Unit::Byte, 0, 1),
            (Unit::Byte, 4, 4),
            (Unit::Byte, 5, 5),
            (Unit::Byte, 10, 7),
            // In the middle of a character: the position of that character.
            (Unit::Byte, 3, 3),
            (Unit::Utf16, 7, 7),
            (Unit::Utf16, 6, 6),
            (Unit::Utf16, 5, 5),
            (Unit::Scalar, 6, 7),
            (Unit::Scalar, 7, 8),
            (Unit::Scalar, 9, 10),
        ] {
            assert_eq!(text.column(1, before, unit), column, "{unit:?} {before}");
        }
        assert_eq!(text.column(9, 3, Unit::Byte), 4, "no such line");
    }

    #[test]
    fn offsets_count_the_byte_order_mark_and_line_ends() {
        let text = text(MIXED);
        for (line, column, offset) in [
            (1, 1, Some(3)),
            (1, 4, Some(7)),
            (1, 6, Some(12)),
            (1, 7, Some(13)),
            (1, 8, Some(14)),
            (1, 9, None),
            (2, 1, Some(16)),
            (4, 2, Some(MIXED.len())),
            (5, 1, None),
            (1, 0, None),
            (0, 1, None),
        ] {
            assert_eq!(text.offset(line, column), offset, "{line}:{column}");
        }
        for (before, unit, offset) in [
            (0, Unit::Utf16, Some(3)),
            (4, Unit::Utf16, Some(8)),
            // Inside a surrogate pair.
            (5, Unit::Utf16, None),
            (6, Unit::Utf16, Some(12)),
            (8, Unit::Utf16, Some(14)),
            (10, Unit::Utf16, Some(16)),
            (14, Unit::Utf16, Some(MIXED.len())),
            (15, Unit::Utf16, None),
            (4, Unit::Byte, Some(7)),
            (5, Unit::Scalar, Some(12)),
        ] {
            assert_eq!(text.offset_of(before, unit), offset, "{unit:?} {before}");
        }
    }

    #[test]
    fn offsets_and_positions_convert_both_ways() {
        let text = text(MIXED);
        for (offset, position) in
            [(0, (1, 1)), (3, (1, 1)), (13, (1, 7)), (16, (2, 1)), (19, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(text.position(offset), position, "{offset}");
        }
    }

    #[test]
    fn invalid_utf8_counts_as_replacement_characters() {
        let text = text(b"a\xff\xe2\x82b\n");
        assert_eq!(text.column(1, 4, Unit::Byte), 4);
        assert_eq!(text.column(1, 3, Unit::Utf16), 4);
        assert_eq!(text.offset(1, 4), Some(4));
        assert_eq!(text.offset_of(3, Unit::Utf16), Some(4));
    }
}
