//! Finds line ends, and formats lines for a result.

/// The maximum number of a file's bytes in one text of a result.
pub const MAX_TEXT_BYTES: usize = 2000;

/// Marks the place where something was cut off.
const CUT_MARK: &str = "...";

/// Formats `lines` for a result: without the last line end, and with replacement characters for
/// invalid UTF-8. Of more than [`MAX_TEXT_BYTES`] bytes, returns a window around the offset
/// `focus`, with `...` where it was cut.
pub fn shown(lines: &[u8], focus: usize) -> String {
    let lines = without_line_end(lines, true);
    if lines.len() <= MAX_TEXT_BYTES {
        return String::from_utf8_lossy(lines).into_owned();
    }
    // The text before the match is shown whole if it leaves half of the window to the match.
    let start = if focus <= MAX_TEXT_BYTES / 2 { 0 } else { focus - MAX_TEXT_BYTES / 4 };
    let start = char_boundary(lines, start.min(lines.len() - MAX_TEXT_BYTES));
    let end = char_boundary(lines, start + MAX_TEXT_BYTES);
    let before = if start > 0 { CUT_MARK } else { "" };
    let after = if end < lines.len() { CUT_MARK } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&lines[start..end]))
}

/// The offset at which the line of the byte at `offset` starts.
pub fn line_start(text: &[u8], offset: usize) -> usize {
    text[..offset].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

/// The offset at which the line of the byte at `offset` ends, with its line end.
pub fn line_end(text: &[u8], offset: usize) -> usize {
    text[offset..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |at| offset + at + 1)
}

/// A line without `\n` or, if `carriage_return`, `\r\n` at its end.
pub fn without_line_end(line: &[u8], carriage_return: bool) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) if carriage_return => line.strip_suffix(b"\r").unwrap_or(line),
        Some(line) => line,
        None => line,
    }
}

/// `offset`, or the start of the character that it would split.
fn char_boundary(text: &[u8], offset: usize) -> usize {
    let inside = |&at: &usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (offset.saturating_sub(3)..=offset.min(text.len()))
        .rev()
        .find(|at| !inside(at))
        .unwrap_or(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_bad_bytes_are_not_shown() {
        for (line, text) in [
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a", "a"),
            ("\n", ""),
            ("a\r\nb\r\n", "a\r\nb"),
            ("a\n\n", "a\n"),
        ] {
            assert_eq!(shown(line.as_bytes(), 0), text, "{line:?}");
        }
        assert_eq!(shown(b"caf\xe9\n", 0), "caf\u{fffd}");
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let exact = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(shown(format!("{exact}\r\n").as_bytes(), 0), exact);

        let mut line = "x".repeat(10_000);
        assert_eq!(shown(line.as_bytes(), 0), format!("{exact}..."));
        for at in [0, 900, 1_100, 5_000, 9_990] {
            line.replace_range(at..at + 3, "hit");
            let text = shown(line.as_bytes(), at);
            assert!(text.contains("hit"), "{at}");
            assert_eq!(
                text.matches("...").count(),
                if (1_001..9_000).contains(&at) { 2 } else { 1 }
            );
            assert_eq!(text.replace("...", "").len(), MAX_TEXT_BYTES, "{at}");
            line.replace_range(at..at + 3, "xxx");
        }
    }

    #[test]
    fn cuts_do_not_split_characters() {
        for prefix in ["", "a", "ab", "abc"] {
            for focus in [0, 4_001, 20_000] {
                let line = format!("{prefix}{}", "🦀".repeat(5_000));
                let text = shown(line.as_bytes(), focus);
                assert!(
                    !text.contains('\u{fffd}') && text.len() <= MAX_TEXT_BYTES + 9,
                    "{prefix} {focus}"
                );
            }
        }
        assert_eq!(
            shown(&[0x80; 3_000], 0).chars().filter(|&c| c == '\u{fffd}').count(),
            MAX_TEXT_BYTES
        );
    }
}
