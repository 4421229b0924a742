//! The end of what a program has printed, in bounded memory.

use std::collections::VecDeque;

/// How much is kept, in bytes.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// Standard output and standard error of a program, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: VecDeque<u8>,
    written: u64,
}

impl Output {
    /// Adds bytes; the oldest are dropped if there are too many.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(MAX_KEPT_BYTES)..];
        let surplus = (self.kept.len() + bytes.len()).saturating_sub(MAX_KEPT_BYTES);
        self.kept.drain(..surplus);
        self.kept.extend(bytes);
    }

    /// How many bytes were added.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns at most `max` bytes from `offset` on, or from the first one that is kept, with the offset
    /// of the first. An offset beyond the end is the end.
    pub(super) fn read(&self, offset: u64, max: usize) -> (u64, Vec<u8>) {
        let first = self.written - self.kept.len() as u64;
        let offset = offset.clamp(first, self.written);
        let skipped = usize::try_from(offset - first).unwrap_or(usize::MAX);
        (offset, self.kept.iter().skip(skipped).take(max).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_found_by_its_offset() {
        let mut output = Output::default();
        output.push(b"0123456789");
        for (offset, max, wanted) in [
            (0, 4, (0, "0123")),
            (4, 100, (4, "456789")),
            (10, 4, (10, "")),
            (u64::MAX, 4, (10, "")),
            (3, 0, (3, "")),
        ] {
            let (first, bytes) = output.read(offset, max);
            assert_eq!((first, str::from_utf8(&bytes)), (wanted.0, Ok(wanted.1)));
        }
        output.push(&vec![b'x'; MAX_KEPT_BYTES - 5]);
        assert_eq!(output.read(0, 6), (5, b"56789x".to_vec()));
        output.push(&vec![b'y'; 3 * MAX_KEPT_BYTES]);
        assert_eq!(output.kept.len(), MAX_KEPT_BYTES);
        assert_eq!(output.written(), 5 + 4 * MAX_KEPT_BYTES as u64);
        let (first, bytes) = output.read(7, 2);
        assert_eq!((first, &bytes[..]), (output.written() - MAX_KEPT_BYTES as u64, &b"yy"[..]));
    }
}
