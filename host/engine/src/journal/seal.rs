//! The seal of a line: its last field, an authentication tag of everything before it. Programs that
//! rotate files or copy lines need not know of it.
//!
//! Each line has a seal of its own, so that several hosts can append. Removed and repeated lines
//! are not detected.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use cofferdam_workspace::Key;

/// The purpose of the tags, for domain separation.
const SEAL_DOMAIN: &str = "journal";

/// The bytes before the tag.
const TAG_PREFIX: &[u8] = b",\"seal\":\"";

/// The bytes after the tag.
const TAG_SUFFIX: &[u8] = b"\"}";

/// Adds the seal to a JSON object that has other fields.
pub(super) fn add(key: &Key, line: &mut Vec<u8>) {
    if line.pop_if(|last| *last == b'}').is_some() {
        let tag = URL_SAFE_NO_PAD.encode(key.seal(SEAL_DOMAIN, "", line));
        line.extend_from_slice(&[TAG_PREFIX, tag.as_bytes(), TAG_SUFFIX].concat());
    }
}

/// Whether the seal of a line is valid.
pub(super) fn is_valid(key: &Key, line: &[u8]) -> bool {
    let tag = || {
        let sealed = line.strip_suffix(TAG_SUFFIX)?;
        let at = memchr::memmem::rfind(sealed, TAG_PREFIX)?;
        let tag = URL_SAFE_NO_PAD.decode(&sealed[at + TAG_PREFIX.len()..]).ok()?;
        Some(key.verify(SEAL_DOMAIN, "", &sealed[..at], &tag))
    };
    tag().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::journal::Entry;

    #[test]
    fn sealed_lines_are_valid_json_and_detect_changes() {
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
