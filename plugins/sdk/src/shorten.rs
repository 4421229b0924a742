//! Shortens the output of programs for results.

use std::borrow::Cow;

/// Returns text of at most `most` bytes unchanged; of longer text, the beginning and the end, with
/// a mark between them that says how much is missing. Cuts at line ends where one is near.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    shorten_captured(text, most, text.len() as u64)
}

/// As [`shorten`], for text of which the host kept only the beginning and the end: the mark says how
/// much is missing of `total` bytes.
pub fn shorten_captured(text: &str, most: usize, total: u64) -> Cow<'_, str> {
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
    let missing = total.saturating_sub((before.len() + after.len()) as u64);
    Cow::Owned(format!("{before}{newline}[... {missing} bytes left out ...]\n{after}"))
}

/// The maximum size of [`telling`], in bytes.
const MAX_TELLING_BYTES: usize = 2 << 10;

/// The maximum size of one of its lines, in bytes.
const MAX_TELLING_LINE_BYTES: usize = 400;

/// Returns the telling part of an error output, in at most 2 KiB: each line once and shortened, and
/// from long output first the lines that say what failed.
pub fn telling(output: &str) -> String {
    let mut seen = std::collections::HashSet::new();
    let lines = output.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.filter(|line| seen.insert(*line)).collect();
    let short = |line: &&str| shorten(line, MAX_TELLING_LINE_BYTES).replace('\n', " ");
    let size = |lines: &[&str]| lines.iter().map(|line| short(line).len() + 1).sum::<usize>();
    let is_error = |line: &&&str| {
        let line = line.to_ascii_lowercase();
        ["fatal", "error", "panicked"].iter().any(|word| line.contains(word))
    };
    let errors: Vec<&str> = lines.iter().filter(is_error).copied().collect();
    let chosen =
        if size(&lines) <= MAX_TELLING_BYTES || errors.is_empty() { &lines } else { &errors };
    let mut told = String::new();
    for line in chosen {
        let line = short(line);
        if told.len() + line.len() >= MAX_TELLING_BYTES {
            break;
        }
        told.push_str(if told.is_empty() { "" } else { "\n" });
        told.push_str(&line);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_part_of_an_error_is_short() {
        assert_eq!(telling(""), "");
        assert_eq!(telling("warning: a\nwarning: a\nfatal: b\n"), "warning: a\nfatal: b");
        // One line of 63 kB.
        let line = telling(&format!("fatal: {}\n", "x".repeat(63_000)));
        assert!(line.starts_with("fatal: x") && line.len() < 500 && !line.contains('\n'), "{line}");
        let noise: String = (0..2000).map(|at| format!("warning: file {at}\n")).collect();
        assert_eq!(telling(&format!("{noise}fatal: bad object HEAD\n")), "fatal: bad object HEAD");
        let errors: String = (0..2000).map(|at| format!("error: unable to read {at}\n")).collect();
        let told = telling(&errors);
        assert!(told.starts_with("error: unable to read 0\n") && told.len() <= MAX_TELLING_BYTES);
        assert!(telling(&"no line says why\n".repeat(10_000)).len() < 20);
        assert!(telling(&noise).starts_with("warning: file 0\n"));
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("", 0), "");
        assert_eq!(shorten("abcdefghij", 4), "ab\n[... 6 bytes left out ...]\nij");
        let captured = shorten_captured("abcdefghij", 4, 100);
        assert_eq!(captured, "ab\n[... 96 bytes left out ...]\nij");
        assert_eq!(shorten("ééééé", 6), "é\n[... 6 bytes left out ...]\né");
        let lines: String = (0..100).map(|line| format!("line {line:02}\n")).collect();
        let cut = shorten(&lines, 200);
        assert!(cut.starts_with("line 00\n") && cut.ends_with("line 99\n"));
        assert!(cut.lines().all(|line| line.len() == 7 || line.starts_with("[...")), "{cut}");
        assert!(cut.len() <= 240);
    }
}
