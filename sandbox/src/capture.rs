//! Keeps the beginning and the end of a stream, in bounded memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};

use crate::Captured;

/// A stream as it comes in.
pub(crate) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    written: u64,
    limit: u64,
    file: Option<File>,
}

impl Capture {
    /// Keeps `kept` bytes in memory; `file` gets everything up to `limit`.
    pub(crate) fn new(kept: usize, limit: u64, file: Option<File>) -> Self {
        Self {
            head: Vec::new(),
            head_limit: kept / 2,
            tail: VecDeque::new(),
            tail_limit: kept - kept / 2,
            written: 0,
            limit,
            file,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let room = usize::try_from(self.limit.saturating_sub(self.written));
            file.write_all(&bytes[..room.map_or(bytes.len(), |room| room.min(bytes.len()))])?;
        }
        self.written += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
        Ok(())
    }

    /// Whether more came than the stream may carry.
    pub(crate) fn is_over(&self) -> bool {
        self.written > self.limit
    }

    /// What is kept.
    pub(crate) fn finish(self) -> Captured {
        let left_out = self.written - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head;
        if left_out > 0 {
            bytes.extend_from_slice(format!("\n[... {left_out} bytes left out ...]\n").as_bytes());
        }
        bytes.extend(self.tail);
        Captured { bytes, written: self.written, cut: left_out > 0 }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::Capture;

    #[test]
    fn beginning_and_end_are_kept_however_the_stream_is_split() {
        let table: &[(usize, &str, &str)] = &[
            (10, "", ""),
            (10, "0123456789", "0123456789"),
            (10, "0123456789a", "01234\n[... 1 bytes left out ...]\n6789a"),
            (3, "0123456789", "0\n[... 7 bytes left out ...]\n89"),
            (0, "0123", "\n[... 4 bytes left out ...]\n"),
        ];
        for (kept, stream, expected) in table {
            for size in 1..=stream.len().max(1) {
                let mut capture = Capture::new(*kept, 100, None);
                for piece in stream.as_bytes().chunks(size) {
                    capture.push(piece).unwrap();
                }
                let captured = capture.finish();
                assert_eq!(String::from_utf8_lossy(&captured.bytes), *expected, "pieces of {size}");
                assert_eq!(captured.written, stream.len() as u64);
                assert_eq!(captured.cut, stream.len() > *kept);
            }
        }
    }

    #[test]
    fn more_than_the_limit_is_over_it_and_stays_out_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut capture = Capture::new(2, 5, Some(file.reopen().unwrap()));
        capture.push(b"0123").unwrap();
        assert!(!capture.is_over());
        capture.push(b"4567").unwrap();
        assert!(capture.is_over());
        capture.push(b"89").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"01234");
    }
}
