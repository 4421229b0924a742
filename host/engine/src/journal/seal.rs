//! The seal of a line: its last field, a tag over everything before it. Who rotates files or copies
//! lines elsewhere need not know of it.
//!
//! Each line has its own, so that hosts can append side by side. A line that was removed, or that
//! stands there twice, is not noticed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use cofferdam_workspace::Key;

/// What tags are made for.
const DOMAIN: &str = "journal";

/// What comes before the tag.
const BEFORE: &[u8] = b",\"seal\":\"";

/// What comes after it.
const AFTER: &[u8] = b"\"}";

/// Adds the field to an object with other fields.
pub(super) fn add(key: &Key, line: &mut Vec<u8>) {
    if line.pop_if(|last| *last == b'}').is_some() {
        let tag = URL_SAFE_NO_PAD.encode(key.seal(DOMAIN, "", line));
        line.extend_from_slice(&[BEFORE, tag.as_bytes(), AFTER].concat());
    }
}

/// Whether a line is as it was written.
pub(super) fn is_valid(key: &Key, line: &[u8]) -> bool {
    let tag = || {
        let sealed = line.strip_suffix(AFTER)?;
        let at = memchr::memmem::rfind(sealed, BEFORE)?;
        let tag = URL_SAFE_NO_PAD.decode(&sealed[at + BEFORE.len()..]).ok()?;
        Some(key.verify(DOMAIN, "", &sealed[..at], &tag))
    };
    tag().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::journal::Entry;

    #[test]
    fn a_line_is_valid_as_it_was_written_and_can_be_read_as_ever() {
        let key = Key::of(&[7; 32], b"here");
        let event =
            br#"{"timestamp":"2026-02-08T10:30:10Z","event":"e","reason":",\"seal\":\"x\"}"}"#;
        let mut line = event.to_vec();
        add(&key, &mut line);
        assert!(is_valid(&key, &line));
        assert_eq!(Entry::parse(&line), Entry::parse(event));
        assert!(Entry::parse(event).is_ok());
        for other in [Key::of(&[8; 32], b"here"), Key::of(&[7; 32], b"there")] {
            assert!(!is_valid(&other, &line));
        }
        assert!(!is_valid(&key, event) && !is_valid(&key, b"") && !is_valid(&key, b"{}"));
        for index in 0..line.len() {
            let mut changed = line.clone();
            changed[index] ^= 1;
            assert!(!is_valid(&key, &changed), "{index}");
        }
        for cut in 0..line.len() {
            assert!(!is_valid(&key, &line[..cut]), "{cut}");
        }
        let second = [&line[..line.len() - 1], br#","seal":"x"}"#].concat();
        assert!(!is_valid(&key, &second));
        let text = std::str::from_utf8(&line).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(text).unwrap()["event"], "e");
    }
}
