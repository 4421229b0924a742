//! Shows untrusted text safely. This crate has the only list of characters that can move a cursor,
//! reorder text or are invisible ([`is_active`], [`is_joiner`]), and the ways to show them: as
//! escapes for a terminal ([`escape_control`]), as escapes in JSON ([`json`]), as code points in
//! documents ([`visible`]). [`markdown`], [`page`] and [`chart`] build documents on it.
//!
//! It does no I/O and depends on no other crate of this project.

pub mod chart;
pub mod markdown;
pub mod page;
pub mod visible;

use std::fmt::Write as _;

/// Whether a character affects the text around it or is invisible: control characters except tab
/// and line feed, separators of lines and paragraphs, characters that control the direction of
/// writing (UAX #9), marks of annotations, and all that Unicode calls `Default_Ignorable_Code_Point`.
///
/// The joiners, with which emoji and several scripts are written, are not included ([`is_joiner`]).
/// A test compares both lists with Unicode's own data.
pub fn is_active(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control(),
    }
}

/// Whether a character only joins or separates its neighbours, or selects a variant of the one before
/// it. It is invisible, so it could hide something from a user who makes a decision by what they see.
/// The selectors above U+E0000, in which whole texts can be hidden, are active instead.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Returns equivalent JSON with `\u` escapes instead of active characters, for display.
pub fn json(json: &str) -> String {
    let mut inert = String::with_capacity(json.len());
    for c in json.chars() {
        if is_active(c) {
            // Outside of strings JSON is plain ASCII, so an active character is inside of a string.
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(inert, "\\u{unit:04x}");
            }
        } else {
            inert.push(c);
        }
    }
    inert
}

/// The bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Nothing is formatted for each byte: the trees of stores have many digests.
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Shortens `text` to at most `max` bytes, at a character boundary, and appends `...` if anything
/// was cut.
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Makes untrusted text safe for a terminal: active characters and joiners are shown as escapes.
pub fn escape_control(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_active(character) || is_joiner(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use icu_properties::CodePointSetData;
    use icu_properties::props::{
        BidiControl, DefaultIgnorableCodePoint, JoinControl, VariationSelector,
    };

    use super::*;

    /// A safety promise: no character that hides or drives something is missing, and none is listed
    /// that does neither.
    #[test]
    fn lists_are_complete_by_unicodes_data() {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let direction = CodePointSetData::new::<BidiControl>();
        let joining = CodePointSetData::new::<JoinControl>();
        let variants = CodePointSetData::new::<VariationSelector>();
        for c in '\0'..=char::MAX {
            let is_other = matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}');
            let is_control = c.is_control() && !matches!(c, '\t' | '\n');
            let is_listed =
                ignorable.contains(c) || direction.contains(c) || is_control || is_other;
            assert_eq!(is_active(c) || is_joiner(c), is_listed, "{c:?}");
            let joins = joining.contains(c) || variants.contains(c) && c < '\u{e0000}';
            assert_eq!(is_joiner(c), joins, "{c:?}");
            assert!(!(is_active(c) && is_joiner(c)), "{c:?}");
        }
    }

    #[test]
    fn control_and_invisible_characters_are_active() {
        for active in [
            '\0',
            '\r',
            '\u{8}',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{206f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{fffb}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
        ] {
            assert!(is_active(active) && !is_joiner(active), "{active:?}");
        }
        for plain in ['\t', '\n', ' ', 'a', 'ß', '漢', '\u{5e9}', '\u{1f468}', '\u{fffd}'] {
            assert!(!is_active(plain) && !is_joiner(plain), "{plain:?}");
        }
        for joiner in ['\u{200c}', '\u{200d}'] {
            assert!(!is_active(joiner) && is_joiner(joiner), "{joiner:?}");
        }
    }

    #[test]
    fn escaped_json_is_equivalent() {
        assert_eq!(
            json("{\n\t\"a\": \"\u{202e}b\u{e0041}\u{7f} 漢\"\n}"),
            "{\n\t\"a\": \"\\u202eb\\udb40\\udc41\\u007f 漢\"\n}"
        );
    }

    #[test]
    fn terminal_sequences_are_escaped() {
        for (hostile, harmless) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\rb", "a\\u{d}b"),
            ("a\u{200d}b\u{ad}c", "a\\u{200d}b\\u{ad}c"),
            ("naïve 漢字", "naïve 漢字"),
        ] {
            assert_eq!(escape_control(hostile), harmless, "{hostile:?}");
        }
    }

    #[test]
    fn shortening_keeps_characters_whole() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("aßc", 2), "a...");
    }
}
