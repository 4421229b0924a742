//! Shortens the output of programs for results.

use std::borrow::Cow;

/// Returns text of at most `most` bytes unchanged; of longer text, the beginning and the end, with
/// a mark between them that says how much is missing. Cuts at line ends where one is near.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (most / 2, text.len() - most / 2);
    let (head, tail) = (text.floor_char_boundary(head), text.ceil_char_boundary(tail));
    let near = most / 8;
    let head = match text[..head].rfind('\n') {
        Some(line_end) if head - line_end <= near => line_end + 1,
        _ => head,
    };
    let tail = match text[tail..].find('\n') {
        Some(line_end) if line_end < near => tail + line_end + 1,
        _ => tail,
    };
    let (before, after) = (&text[..head], &text[tail..]);
    let newline = if before.ends_with('\n') { "" } else { "\n" };
    Cow::Owned(format!("{before}{newline}[... {} bytes left out ...]\n{after}", tail - head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("", 0), "");
        assert_eq!(shorten("abcdefghij", 4), "ab\n[... 6 bytes left out ...]\nij");
        assert_eq!(shorten("ééééé", 6), "é\n[... 6 bytes left out ...]\né");
        let lines: String = (0..100).map(|line| format!("line {line:02}\n")).collect();
        let cut = shorten(&lines, 200);
        assert!(cut.starts_with("line 00\n") && cut.ends_with("line 99\n"));
        assert!(cut.lines().all(|line| line.len() == 7 || line.starts_with("[...")), "{cut}");
        assert!(cut.len() <= 240);
    }
}
