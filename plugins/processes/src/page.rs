//! A part of the output of a program as text, of a bounded size in JSON.

use cofferdam_sdk::answer::text_bytes;

/// How much output is in one result, as bytes of the output and as bytes of JSON.
pub(crate) const MAX_BYTES: u32 = 14 << 10;

/// Returns the beginning of `bytes` as text, and how many bytes that is. Bytes that are not UTF-8 are
/// replaced; a character that is incomplete at the end is left for the next page, unless `is_end`.
pub(crate) fn page(bytes: &[u8], is_end: bool) -> (String, usize) {
    let (mut text, mut size, mut taken) = (String::new(), 0, 0);
    for chunk in bytes.utf8_chunks() {
        let invalid = chunk.invalid();
        let is_incomplete = || str::from_utf8(invalid).is_err_and(|it| it.error_len().is_none());
        let is_replaced = !invalid.is_empty() && (is_end || !is_incomplete());
        let replacement = is_replaced.then_some((char::REPLACEMENT_CHARACTER, invalid.len()));
        let valid = chunk.valid().chars().map(|char| (char, char.len_utf8()));
        for (char, length) in valid.chain(replacement) {
            size += text_bytes(char.encode_utf8(&mut [0; 4]));
            if size > MAX_BYTES as usize {
                return (text, taken);
            }
            text.push(char);
            taken += length;
        }
    }
    (text, taken)
}

/// Returns how many bytes to skip, so that the rest fits into a page and begins with a character.
pub(crate) fn skipped(bytes: &[u8]) -> usize {
    let mut start = 0;
    loop {
        let rest = &bytes[start..];
        let surplus = rest.len() - page(rest, true).1;
        if surplus == 0 {
            return start;
        }
        let is_middle = |byte: &&u8| **byte & 0xc0 == 0x80;
        start += surplus + rest[surplus..].iter().take(3).take_while(is_middle).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_between_characters() {
        for (bytes, is_end, wanted) in [
            (&b""[..], false, ("", 0)),
            (b"abc", false, ("abc", 3)),
            ("aé".as_bytes(), false, ("aé", 3)),
            (&"aé".as_bytes()[..2], false, ("a", 1)),
            (&"aé".as_bytes()[..2], true, ("a\u{fffd}", 2)),
            (b"a\xffb", false, ("a\u{fffd}b", 3)),
            (&"\u{1f600}".as_bytes()[1..], false, ("\u{fffd}\u{fffd}\u{fffd}", 3)),
        ] {
            let (text, taken) = page(bytes, is_end);
            assert_eq!((text.as_str(), taken), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn the_end_begins_with_a_character() {
        let most = MAX_BYTES as usize;
        assert_eq!(skipped(b""), 0);
        assert_eq!(skipped(&vec![b'a'; most]), 0);
        assert_eq!(skipped(&vec![b'a'; most + 3]), 3);
        assert_eq!(skipped(&vec![b'\n'; most]), most / 2);
        let text = "é".repeat(most / 2) + "a";
        assert_eq!(skipped(text.as_bytes()), 2);
        let bytes = &text.as_bytes()[2..];
        assert_eq!(page(bytes, true).1, bytes.len());
        assert_eq!(skipped(&vec![0xff; most]), most - most / 3);
    }

    #[test]
    fn pages_are_bounded_in_json() {
        let most = MAX_BYTES as usize;
        for (byte, wanted) in [(b'a', most), (b'\n', most / 2), (1, most / 6)] {
            let (text, taken) = page(&vec![byte; 2 * most], false);
            assert_eq!((text.len(), taken), (wanted, wanted));
        }
    }
}
