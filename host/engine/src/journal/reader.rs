//! Reads the lines of a log, of which only one at a time is in memory.

use std::io::{self, BufRead};

use super::{Entry, seal};
use cofferdam_workspace::Key;

/// The maximum length of a line, in bytes. The host's own lines are far shorter.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The byte order mark that some editors write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line and its contents.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// The line number, counted from 1.
    pub number: u64,
    /// The parsed entry, or the reason why it can't be parsed.
    pub entry: Result<Entry, String>,
}

/// An iterator over the lines of a log. Skips blank lines.
pub struct Lines<R> {
    source: R,
    number: u64,
    line: Vec<u8>,
    /// The key that lines must be sealed with; `None`: lines need no seal.
    key: Option<Key>,
}

/// How a line ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    LineFeed,
    File,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines from `source`.
    pub fn new(source: R) -> Self {
        Self { source, number: 0, line: Vec::new(), key: None }
    }

    /// Reads lines from `source`. Lines without a valid seal are errors.
    pub(super) fn sealed(source: R, key: Key) -> Self {
        Self { key: Some(key), ..Self::new(source) }
    }

    /// Reads one line, or the beginning of one that is too long. Returns `None` at the end of the
    /// file.
    fn fill(&mut self) -> io::Result<Option<End>> {
        self.line.clear();
        let mut any = false;
        loop {
            let bytes = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return Ok(any.then_some(End::File));
            }
            any = true;
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            // One byte more than allowed shows that the line is too long.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.source.consume(used);
            if end.is_some() {
                return Ok(Some(End::LineFeed));
            }
        }
    }

    fn parse(&self, end: End) -> Option<Result<Entry, String>> {
        let mut line = &self.line[..];
        if self.number == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if self.line.len() > MAX_LINE_BYTES {
            return Some(Err(format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        let is_sealed = self.key.as_ref().is_none_or(|key| seal::is_valid(key, line));
        let entry = if is_sealed {
            Entry::parse(line)
        } else {
            Err("not written by this user's host in this workspace (its seal is missing or wrong)"
                .to_owned())
        };
        Some(entry.map_err(|problem| match end {
            End::LineFeed => problem,
            End::File => format!("cut off at the end of the file: {problem}"),
        }))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let end = match self.fill() {
                Ok(end) => end?,
                Err(error) => return Some(Err(error)),
            };
            self.number += 1;
            if let Some(entry) = self.parse(end) {
                return Some(Ok(Line { number: self.number, entry }));
            }
        }
    }
}

/// The files of a log that was rotated, the oldest first: of `names`, those of the form `NAME.2`
/// and `NAME.1`, and `NAME` itself.
pub fn rotated<'a>(file: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let age = |name: &str| match name.strip_prefix(file)? {
        "" => Some(0),
        rest => {
            let number = rest.strip_prefix('.')?;
            number.parse::<u32>().ok().filter(|age| *age > 0 && age.to_string() == number)
        }
    };
    let mut aged: Vec<(u32, &str)> = names.filter_map(|name| Some((age(name)?, name))).collect();
    aged.sort_by(|a, b| b.cmp(a));
    aged.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const EVENT: &str = r#"{"timestamp":"2026-02-08T10:30:10Z","event":"e"}"#;

    /// The line numbers, and the error of each line or an empty text.
    fn read(text: &[u8]) -> Vec<(u64, String)> {
        // A small buffer, so that lines are longer than one read.
        let lines = Lines::new(io::BufReader::with_capacity(7, text));
        let lines = lines.map(|line| line.unwrap());
        lines.map(|line| (line.number, line.entry.err().unwrap_or_default())).collect()
    }

    #[test]
    fn lines_are_split_and_numbered() {
        let text = format!("\u{feff}{EVENT}\r\n\n  \nnonsense\n{EVENT}\n");
        let lines = read(text.as_bytes());
        assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), [1, 4, 5]);
        assert!(lines[0].1.is_empty() && lines[2].1.is_empty(), "{lines:?}");
        assert!(lines[1].1.starts_with("expected"), "{lines:?}");
    }

    #[test]
    fn the_last_line_needs_no_line_feed() {
        assert_eq!(read(EVENT.as_bytes()), [(1, String::new())]);
        for cut in 1..EVENT.len() {
            let lines = read(format!("{EVENT}\n{}", &EVENT[..cut]).as_bytes());
            assert!(lines[1].1.starts_with("cut off at the end of the file: "), "{cut}: {lines:?}");
            assert_eq!(lines[0].1, "");
        }
        assert_eq!(read(b""), []);
    }

    #[test]
    fn long_and_binary_lines_are_errors() {
        let mut text = vec![b'x'; MAX_LINE_BYTES * 3];
        text.extend(format!("\n{EVENT}\n").bytes());
        text.extend(b"\xff\xfe\0\n");
        text.extend(EVENT.bytes());
        let lines = read(&text);
        assert_eq!(lines[0], (1, "longer than 1048576 bytes".to_owned()));
        assert_eq!((lines[1].1.as_str(), lines[3].1.as_str()), ("", ""));
        assert!(!lines[2].1.is_empty());
    }

    #[test]
    fn rotated_files_come_oldest_first() {
        let names = [
            "a.jsonl",
            "a.jsonl.2",
            "b.jsonl",
            "a.jsonl.10",
            "a.jsonl.1",
            "a.jsonl.01",
            "a.jsonl.gz",
            "a.jsonl.0",
        ];
        assert_eq!(
            rotated("a.jsonl", names.into_iter()),
            ["a.jsonl.10", "a.jsonl.2", "a.jsonl.1", "a.jsonl"]
        );
        assert_eq!(rotated("a", [].into_iter()), [""; 0]);
    }
}
