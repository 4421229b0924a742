//! Keeps the beginning and the end of a stream in bounded memory, and passes a long stream on.

use std::collections::VecDeque;
use std::io;

use crate::redact::Redactor;
use crate::{Captured, Spill};

/// The state of one output stream.
pub(crate) struct Capture {
    redactor: Redactor,
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    written: u64,
    limit: u64,
    /// The number of bytes so far, after redaction.
    seen: u64,
    spill: Option<Spill>,
    /// The number of bytes that were passed on; none while the stream is short.
    passed: Option<u64>,
}

/// Receives the bytes of a long stream.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

impl Capture {
    /// Keeps `kept` bytes in memory, of a stream that may have up to `limit` bytes.
    pub(crate) fn new(kept: usize, limit: u64, spill: Option<Spill>, redactor: Redactor) -> Self {
        Self {
            redactor,
            head: Vec::new(),
            head_limit: kept / 2,
            tail: VecDeque::new(),
            tail_limit: kept - kept / 2,
            written: 0,
            limit,
            seen: 0,
            spill,
            passed: None,
        }
    }

    /// Processes the next bytes.
    ///
    /// # Errors
    /// Returns the error of the sink.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: Sink<'_>) -> io::Result<()> {
        self.written += bytes.len() as u64;
        if self.redactor.is_idle() {
            return self.keep(bytes, sink);
        }
        let clean = self.redactor.push(bytes);
        self.keep(&clean, sink)
    }

    fn keep(&mut self, bytes: &[u8], sink: Sink<'_>) -> io::Result<()> {
        self.pass_on(bytes, sink)?;
        self.seen += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
        Ok(())
    }

    fn pass_on(&mut self, bytes: &[u8], sink: Sink<'_>) -> io::Result<()> {
        let Some(Spill { above, most }) = self.spill else { return Ok(()) };
        // Everything until now is in `head`.
        let above = above.min(self.head_limit) as u64;
        let parts = match self.passed {
            None if self.seen + bytes.len() as u64 <= above => return Ok(()),
            None => [&self.head, bytes],
            Some(_) => [&[], bytes],
        };
        let mut passed = self.passed.unwrap_or(0);
        for part in parts {
            let room = usize::try_from(most.saturating_sub(passed)).unwrap_or(usize::MAX);
            let part = &part[..part.len().min(room)];
            if !part.is_empty() {
                sink(part)?;
            }
            passed += part.len() as u64;
        }
        self.passed = Some(passed);
        Ok(())
    }

    /// Whether the program wrote more than the limit of the stream.
    pub(crate) fn is_over(&self) -> bool {
        self.written > self.limit
    }

    /// Returns what is kept. If a stream was too long to be passed on completely, the sink at last
    /// gets a line with the number of bytes that are missing.
    ///
    /// # Errors
    /// Returns the error of the sink.
    pub(crate) fn finish(mut self, sink: Sink<'_>) -> io::Result<Captured> {
        let rest = self.redactor.finish();
        self.keep(&rest, sink)?;
        if let Some(passed) = self.passed
            && passed < self.seen
        {
            sink(left_out(self.seen - passed).as_bytes())?;
        }
        let surplus = self.seen - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head;
        if surplus > 0 {
            bytes.extend_from_slice(left_out(surplus).as_bytes());
        }
        bytes.extend(self.tail);
        Ok(Captured { bytes, written: self.written, cut: surplus > 0 })
    }
}

fn left_out(bytes: u64) -> String {
    format!("\n[... {bytes} bytes left out ...]\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io;

    use super::Capture;
    use crate::redact::Redactor;
    use crate::{Captured, Spill};

    /// Returns what is kept and what is passed on of a stream in pieces.
    fn taken(mut capture: Capture, pieces: &[&[u8]]) -> (Captured, String) {
        let mut passed = Vec::new();
        let mut sink = |bytes: &[u8]| {
            passed.extend_from_slice(bytes);
            Ok(())
        };
        for piece in pieces {
            capture.push(piece, &mut sink).unwrap();
        }
        let captured = capture.finish(&mut sink).unwrap();
        (captured, String::from_utf8(passed).unwrap())
    }

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
                let capture = Capture::new(*kept, 100, None, Redactor::new(&[]));
                let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                let (captured, passed) = taken(capture, &pieces);
                assert_eq!(String::from_utf8_lossy(&captured.bytes), *expected, "pieces of {size}");
                assert_eq!(captured.written, stream.len() as u64);
                assert_eq!(captured.cut, stream.len() > *kept);
                assert_eq!(passed, "");
            }
        }
    }

    #[test]
    fn a_long_stream_is_passed_on_from_its_beginning() {
        for (above, most, stream, expected) in [
            (4, 100, "", ""),
            (4, 100, "0123", ""),
            (4, 100, "01234", "01234"),
            (0, 100, "0", "0"),
            (4, 100, "0123456789abcdefghij", "0123456789abcdefghij"),
            (4, 8, "01234567", "01234567"),
            (4, 8, "0123456789", "01234567\n[... 2 bytes left out ...]\n"),
            (4, 2, "0123456789", "01\n[... 8 bytes left out ...]\n"),
            (4, 0, "0123456789", "\n[... 10 bytes left out ...]\n"),
            // `above` is never more than what is in memory.
            (99, 100, "01234567", "01234567"),
        ] {
            for size in 1..=stream.len().max(1) {
                let spill = Some(Spill { above, most });
                let capture = Capture::new(10, 100, spill, Redactor::new(&[]));
                let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                assert_eq!(taken(capture, &pieces).1, expected, "{stream} in pieces of {size}");
            }
        }
    }

    #[test]
    fn hidden_values_are_redacted_everywhere() {
        let stream = "....s3cr3t....s3cr3t....s3cr3t....";
        let hidden = [("KEY".to_owned(), "s3cr3t".to_owned())];
        for size in 1..=stream.len() {
            for kept in 0..stream.len() {
                let spill = Some(Spill { above: 0, most: 20 });
                let capture = Capture::new(kept, 100, spill, Redactor::new(&hidden));
                let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                let (captured, passed) = taken(capture, &pieces);
                assert_eq!(captured.written, 34);
                let kept = String::from_utf8(captured.bytes).unwrap();
                for text in [&kept, &passed] {
                    assert!(!["s3", "cr", "3t"].iter().any(|part| text.contains(part)), "{text}");
                }
                assert_eq!(passed, "....[KEY]....[KEY]..\n[... 11 bytes left out ...]\n");
            }
        }
    }

    #[test]
    fn exceeded_limits_and_sink_errors_are_reported() {
        let spill = Some(Spill { above: 2, most: 100 });
        let mut capture = Capture::new(4, 5, spill, Redactor::new(&[]));
        let mut broken = |_: &[u8]| Err(io::ErrorKind::BrokenPipe.into());
        capture.push(b"01", &mut broken).unwrap();
        assert!(!capture.is_over());
        assert!(capture.push(b"2345", &mut broken).is_err());
        assert!(capture.is_over());
    }
}
