//! Converts byte offsets to lines and columns.

/// A text with an index of its lines.
pub struct Text<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Text<'a> {
    /// Indexes the lines of a text.
    pub fn new(text: &'a str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts =
            std::iter::once(0).chain(after_breaks.map(|(index, _)| index + 1)).collect();
        Self { text, line_starts }
    }

    /// Line and column of the character at an offset, both from 1; for an offset after the text,
    /// the position after its last character.
    pub fn position(&self, offset: usize) -> (u32, u32) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1];
        let before = &self.text.as_bytes()[start..offset.clamp(start, self.text.len())];
        // All bytes of a character except the first are continuation bytes.
        let characters = before.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
        (number(line), number(characters + 1))
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = Text::new("aé😀b\r\nc\n");
        for (offset, wanted) in [
            (0, (1, 1)),
            (1, (1, 2)),
            (3, (1, 3)),
            (7, (1, 4)),
            (8, (1, 5)),
            (10, (2, 1)),
            (11, (2, 2)),
            (12, (3, 1)),
            (99, (3, 1)),
        ] {
            assert_eq!(text.position(offset), wanted, "{offset}");
        }
        assert_eq!(Text::new("").position(0), (1, 1));
    }
}
