//! Finds text that every match contains, in upper or lower case, faster than the pattern itself: two
//! neighbouring bytes are compared in whole vectors. WebAssembly has no other fast search for that.

use regex_syntax::hir::{Hir, HirKind};

/// The number of positions that are compared at once.
const BLOCK: usize = 64;

/// Letters from the most frequent one in source code and English to the rarest one.
const FREQUENT: &[u8] = b"etaoinrslhdcumfpgwybvkxjqz";

/// Text of ASCII that every match contains, in any case.
#[derive(Debug, PartialEq, Eq)]
pub struct Prefilter {
    /// In lower case, at least two bytes.
    text: Vec<u8>,
    /// The offset in `text` of the two bytes that are searched for: the rarest ones.
    pair: usize,
}

impl Prefilter {
    /// Returns a filter for matches of `pattern` in any case; `None` if it needs no text that can be
    /// searched for.
    pub fn of(pattern: &Hir) -> Option<Self> {
        let mut texts = Vec::new();
        collect(pattern, &mut texts);
        let rarest = |text: Vec<u8>| {
            let pairs = text.windows(2).map(|pair| rarity(pair[0]) + rarity(pair[1])).enumerate();
            let (pair, rarity) = pairs.max_by_key(|(_, rarity)| *rarity)?;
            Some((rarity, Self { text, pair }))
        };
        let filters = texts.into_iter().filter_map(rarest);
        filters.max_by_key(|(rarity, _)| *rarity).map(|(_, filter)| filter)
    }

    /// Returns the first offset of the text, in any case.
    pub fn find(&self, haystack: &[u8]) -> Option<usize> {
        let last = haystack.len().checked_sub(self.text.len())?;
        // The offsets at which the text can begin, moved to the two bytes.
        let firsts = &haystack[self.pair..=last + self.pair];
        let seconds = &haystack[self.pair + 1..=last + self.pair + 1];
        let fits = |at: usize| {
            let here = &haystack[at..at + self.text.len()];
            here.eq_ignore_ascii_case(&self.text)
        };
        let blocks = firsts.chunks(BLOCK).zip(seconds.chunks(BLOCK)).enumerate();
        let hits = blocks.filter(|(_, (firsts, seconds))| self.may_hit(firsts, seconds));
        hits.map(|(number, (firsts, _))| number * BLOCK..number * BLOCK + firsts.len())
            .find_map(|mut offsets| offsets.find(|at| fits(*at)))
    }

    /// Whether the two bytes stand at one of the positions.
    fn may_hit(&self, firsts: &[u8], seconds: &[u8]) -> bool {
        let wanted = [self.text[self.pair], self.text[self.pair + 1]];
        // With this bit, a letter is in lower case, and only it and its capital become it.
        let bit = wanted.map(|byte| if byte.is_ascii_lowercase() { 0x20 } else { 0 });
        let hit = |first: u8, second: u8| {
            u8::from(first | bit[0] == wanted[0]) & u8::from(second | bit[1] == wanted[1])
        };
        // The compiler makes vectors of a fixed number of bytes.
        if let (Ok(firsts), Ok(seconds)) =
            (<&[u8; BLOCK]>::try_from(firsts), <&[u8; BLOCK]>::try_from(seconds))
        {
            let mut hits = 0;
            for at in 0..BLOCK {
                hits |= hit(firsts[at], seconds[at]);
            }
            return hits != 0;
        }
        firsts.iter().zip(seconds).any(|(first, second)| hit(*first, *second) != 0)
    }
}

/// Adds the texts that every match contains.
fn collect(pattern: &Hir, texts: &mut Vec<Vec<u8>>) {
    match pattern.kind() {
        // The letters k and s are also matched by the Kelvin sign and the long s.
        HirKind::Literal(literal) => texts.extend(
            literal
                .0
                .split(|byte| !byte.is_ascii() || b"kKsS".contains(byte))
                .filter(|text| text.len() > 1)
                .map(<[u8]>::to_ascii_lowercase),
        ),
        HirKind::Capture(capture) => collect(&capture.sub, texts),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, texts)),
        HirKind::Repetition(repetition) if repetition.min > 0 => collect(&repetition.sub, texts),
        _ => {}
    }
}

/// Higher for bytes that are rarer in text.
fn rarity(byte: u8) -> usize {
    match byte {
        b' ' | b'\n' | b'\t' => 0,
        byte => FREQUENT.iter().position(|letter| *letter == byte).map_or(12, |at| at + 1),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn filter(pattern: &str) -> Option<String> {
        let filter = Prefilter::of(&regex_syntax::parse(pattern).unwrap())?;
        Some(String::from_utf8(filter.text).unwrap())
    }

    #[test]
    fn the_text_is_one_that_every_match_contains() {
        for (pattern, text) in [
            ("Quartz", Some("quartz")),
            (r"fn\s+(Quux)", Some("quux")),
            ("(?:ab)+c", Some("ab")),
            // Other characters become these two.
            ("task", Some("ta")),
            ("sketch", Some("etch")),
            ("ska", None),
            ("a|b", None),
            ("(?:ab)?", None),
            ("(?:ab)*", None),
            ("[ab]c", None),
            ("Stra\u{df}e", Some("tra")),
            ("", None),
        ] {
            assert_eq!(filter(pattern).as_deref(), text, "{pattern}");
        }
    }

    #[test]
    fn the_text_is_found_wherever_it_stands() {
        let filter = Prefilter::of(&regex_syntax::parse("Ne_edle").unwrap()).unwrap();
        for length in [0, 1, 5, 6, 7, 63, 64, 65, 127, 128, 129, 200, 300] {
            let mut haystack = vec![b'e'; length];
            assert_eq!(filter.find(&haystack), None);
            for at in 0..=length.saturating_sub(7) {
                haystack.fill(b'e');
                // What `| 0x20` makes of other bytes is no letter and no underscore.
                haystack.iter_mut().step_by(3).for_each(|byte| *byte = b'\x7f');
                if length >= 7 {
                    haystack[at..at + 7].copy_from_slice(b"nE_EdLe");
                    assert_eq!(filter.find(&haystack), Some(at), "{length}");
                }
            }
        }
        assert_eq!(filter.find(b"ne\x7fedle NE?EDLE"), None);
    }
}
