//! Parses lists of the output contracts: `[one, two]`.
//!
//! The output contracts split at every comma that is followed by a space. Here a comma within
//! brackets or quotes belongs to its item, and one without a space separates as well, except
//! between two digits.

use std::ops::Range;

/// The longest quoted item in characters.
const MAX_QUOTED_CHARS: usize = 500;

/// The items of a parsed list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) items: Vec<String>,
    /// The deviation from the rules of the output contracts.
    pub(super) repair: Option<&'static str>,
}

/// The quotes that may surround an item.
const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('`', '`'), ('\u{201c}', '\u{201d}')];

/// Parses a list. Returns `None` if the text is not a list in brackets.
pub(super) fn split(text: &str) -> Option<List> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    // `[a], [b]` begins and ends like a list, but is two lists.
    let pairs = pairs(text);
    let closes = |at: usize| pairs.iter().find(|pair| pair.start == at).map(|pair| pair.end);
    let opens = |at: usize| pairs.iter().find(|pair| pair.end == at).map(|pair| pair.start);
    let last = text.len() - 1;
    if closes(0).is_some_and(|end| end != last) && opens(last).is_some() {
        return None;
    }
    let (mut items, mut is_empty, mut is_quoted, mut is_tight) = (Vec::new(), false, false, false);
    if !inside.trim().is_empty() {
        let (parts, tight) = parts(inside);
        is_tight = tight;
        for part in parts {
            let part = part.trim();
            let item = unquoted(part);
            is_quoted |= item.is_some();
            let item = item.unwrap_or_else(|| part.to_owned());
            if item.is_empty() {
                is_empty = true;
            } else {
                items.push(item);
            }
        }
    }
    let repair = match (is_empty, is_quoted, is_tight) {
        (true, ..) => Some("left out empty items"),
        (_, true, _) => Some("removed the quotes around items"),
        (.., true) => Some("separated items at commas without a space"),
        _ => None,
    };
    Some(List { items, repair })
}

/// The text between separating commas, and whether one of them has no space after it.
fn parts(text: &str) -> (Vec<&str>, bool) {
    let pairs = pairs(text);
    let bytes = text.as_bytes();
    let is_digit =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let (mut parts, mut start, mut at, mut is_tight) = (Vec::new(), 0, 0, false);
    let (mut is_beginning, mut next_pair) = (true, 0);
    while at < text.len() {
        if is_beginning && !bytes[at].is_ascii_whitespace() {
            is_beginning = false;
            if let Some(length) = quoted(&text[at..]) {
                at += length;
                continue;
            }
        }
        while pairs.get(next_pair).is_some_and(|pair| pair.start < at) {
            next_pair += 1;
        }
        if let Some(pair) = pairs.get(next_pair).filter(|pair| pair.start == at) {
            at = pair.end + 1;
            continue;
        }
        let is_number = is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
        if bytes[at] == b',' && !is_number {
            is_tight |= bytes.get(at + 1).is_some_and(|byte| !byte.is_ascii_whitespace());
            parts.push(&text[start..at]);
            start = at + 1;
            is_beginning = true;
        }
        at += 1;
    }
    parts.push(&text[start..]);
    (parts, is_tight)
}

/// The length of the quotation at the beginning of `text`, if it is a whole item.
fn quoted(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let (open, close) = QUOTES.into_iter().find(|(open, _)| *open == first)?;
    let mut characters = text[open.len_utf8()..].chars().take(MAX_QUOTED_CHARS);
    let mut length = open.len_utf8();
    while let Some(character) = characters.next() {
        length += character.len_utf8();
        if character == '\\' {
            length += characters.next().map_or(0, char::len_utf8);
        } else if character == close {
            let rest = text[length..].trim_start_matches([' ', '\t']);
            return (rest.is_empty() || rest.starts_with(',')).then_some(length);
        }
    }
    None
}

/// The text between the quotes, if they surround the whole item.
fn unquoted(item: &str) -> Option<String> {
    if quoted(item)? != item.len() {
        return None;
    }
    let close = item.chars().next_back()?;
    let open = item.chars().next()?;
    let inside = &item[open.len_utf8()..item.len() - close.len_utf8()];
    // Only escapes of quotes and backslashes are resolved.
    let (mut text, mut characters) =
        (String::with_capacity(inside.len()), inside.chars().peekable());
    while let Some(character) = characters.next() {
        let escaped =
            characters.next_if(|next| character == '\\' && (*next == close || *next == '\\'));
        text.push(escaped.unwrap_or(character));
    }
    Some(text)
}

/// The outermost pairs of brackets, from the opening to the closing one, in order. A bracket
/// without a partner is an ordinary character.
fn pairs(text: &str) -> Vec<Range<usize>> {
    let (mut open, mut pairs) = (Vec::<(usize, usize)>::new(), Vec::<Range<usize>>::new());
    let mut waiting = [0_usize; 3];
    for (at, byte) in text.bytes().enumerate() {
        if let Some(kind) = b"([{".iter().position(|bracket| *bracket == byte) {
            waiting[kind] += 1;
            open.push((kind, at));
        }
        let Some(kind) = b")]}".iter().position(|bracket| *bracket == byte) else { continue };
        if waiting[kind] == 0 {
            continue;
        }
        // Brackets that were opened since then have no partner.
        while let Some((opened, start)) = open.pop() {
            waiting[opened] -= 1;
            if opened == kind {
                while pairs.last().is_some_and(|inner| inner.start > start) {
                    pairs.pop();
                }
                pairs.push(start..at);
                break;
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn items_are_split_at_separating_commas() {
        for (text, wanted) in [
            ("[]", &[][..]),
            ("[ ]", &[]),
            ("[a]", &["a"]),
            ("[a, b]", &["a", "b"]),
            ("[a,b]", &["a", "b"]),
            ("[ a ,  b ]", &["a", "b"]),
            ("[a, b,]", &["a", "b"]),
            ("[1,000 rows, 2]", &["1,000 rows", "2"]),
            ("[call f(a, b), use m[k, v], {x, y}]", &["call f(a, b)", "use m[k, v]", "{x, y}"]),
            ("[f(g(a, b), c), d]", &["f(g(a, b), c)", "d"]),
            (r#"["a, b", c]"#, &["a, b", "c"]),
            (r#"['a, b', `c, d`, “e, f”]"#, &["a, b", "c, d", "e, f"]),
            (r#"["say \"no, no\"", "b\\c"]"#, &[r#"say "no, no""#, r"b\c"]),
            ("[don't do it, it's wrong]", &["don't do it", "it's wrong"]),
            (r#"["a" is wrong, "b" is not]"#, &[r#""a" is wrong"#, r#""b" is not"#]),
            ("[a) first, b) second]", &["a) first", "b) second"]),
            ("[a sad :( face, b]", &["a sad :( face", "b"]),
            ("[a happy :] face, b]", &["a happy :] face", "b"]),
            ("[\"open, b]", &["\"open", "b"]),
            ("[naïve, 漢字]", &["naïve", "漢字"]),
        ] {
            assert_eq!(split(text).unwrap().items, wanted, "{text}");
        }
    }

    #[test]
    fn other_text_is_not_a_list() {
        for text in ["", "[", "]", "a, b", "[a], [b]", "[a", "a]", "[a] b"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn many_brackets_are_parsed_fast() {
        for text in ["[".repeat(1 << 16), "[(".repeat(1 << 15), "[\"".repeat(1 << 15)] {
            split(&format!("[{text}]"));
        }
    }
}
