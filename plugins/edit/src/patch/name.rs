//! File names in patches: `a/` and `b/`, C quotes, time stamps.

use std::borrow::Cow;

/// The name on a `---` or `+++` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// `/dev/null`: the file does not exist on this side.
    Absent,
    /// A name, with its prefix.
    Name(String),
}

/// Parses the text after `--- ` or `+++ `.
///
/// # Errors
/// A message about the malformed name.
pub(super) fn mark(text: &[u8]) -> Result<Mark, String> {
    let name = if text.starts_with(b"\"") {
        unquote(text)?.0
    } else {
        // A time stamp follows after a tab; a tab in a name is quoted.
        let end = text.iter().position(|byte| *byte == b'\t').unwrap_or(text.len());
        text[..end].to_vec()
    };
    let name = utf8(name)?;
    Ok(if name == "/dev/null" { Mark::Absent } else { Mark::Name(name) })
}

/// Parses the name in a line such as `rename from NAME`: quoted or not, without a prefix.
///
/// # Errors
/// A message about the malformed name.
pub(super) fn whole(text: &[u8]) -> Result<String, String> {
    let name = if text.starts_with(b"\"") { unquote(text)?.0 } else { text.to_vec() };
    utf8(name)
}

/// The common name of both sides of `diff --git a/NAME b/NAME`, without prefixes. `None` if the
/// names differ, as in a rename, or can't be separated.
pub(super) fn common_in_git_line(text: &[u8]) -> Option<String> {
    let (old, new): (Cow<[u8]>, Cow<[u8]>) = if text.starts_with(b"\"") {
        let (old, rest) = unquote(text).ok()?;
        let (new, _) = unquote(rest.strip_prefix(b" ")?).ok()?;
        (old.into(), new.into())
    } else {
        // Names may contain blanks, but equal names have equal lengths.
        let middle = text.len() / 2;
        if text.len().is_multiple_of(2) || text[middle] != b' ' {
            return None;
        }
        (text[..middle].into(), text[middle + 1..].into())
    };
    let (old, new) = (std::str::from_utf8(&old).ok()?, std::str::from_utf8(&new).ok()?);
    common(old, new).map(str::to_owned)
}

/// The file name of two sides: they are equal, or equal after two different prefixes of one
/// character (`a/` and `b/`, or `i/` and `w/` with git's `diff.mnemonicPrefix`).
pub(super) fn common<'a>(old: &'a str, new: &str) -> Option<&'a str> {
    if old == new {
        return Some(old);
    }
    let (old_rest, new_rest) = (without_prefix(old)?, without_prefix(new)?);
    (old_rest == new_rest).then_some(old_rest)
}

/// Whether `name`, with or without a prefix, is `wanted`.
pub(super) fn is(name: &str, wanted: &str) -> bool {
    name == wanted || without_prefix(name) == Some(wanted)
}

fn without_prefix(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_once('/')?;
    (prefix.chars().count() == 1).then_some(rest)
}

fn utf8(name: Vec<u8>) -> Result<String, String> {
    if name.is_empty() {
        return Err("the file name is empty".to_owned());
    }
    String::from_utf8(name)
        .map_err(|error| format!("the file name {} is not UTF-8", super::Shown(error.as_bytes())))
}

/// Parses a name in double quotes as git writes it: C escapes, bytes as three octal digits. Returns
/// the name and the text after the closing quote.
fn unquote(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let unfinished = || format!("the file name {} has no closing quote", super::Shown(text));
    let mut name = Vec::new();
    let mut rest = text.strip_prefix(b"\"").ok_or_else(unfinished)?;
    loop {
        match rest {
            [b'"', after @ ..] => return Ok((name, after)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                name.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            [b'\\', escape, after @ ..] => {
                name.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'"' | b'\\' => *escape,
                    _ => {
                        return Err(format!(
                            "the file name {} has an unknown escape",
                            super::Shown(text)
                        ));
                    }
                });
                rest = after;
            }
            [byte, after @ ..] => {
                name.push(*byte);
                rest = after;
            }
            [] => return Err(unfinished()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks() {
        for (text, wanted) in [
            ("a/src/main.rs", Ok("a/src/main.rs")),
            ("a/with blank\t2024-01-01 00:00:00.0 +0100", Ok("a/with blank")),
            ("a/with blank\t", Ok("a/with blank")),
            (r#""a/tab\there""#, Ok("a/tab\there")),
            (r#""a/\303\244 \"q\" \\"	stamp"#, Ok("a/ä \"q\" \\")),
            (r#""a/open"#, Err(r#"the file name "\"a/open" has no closing quote"#)),
            (r#""a/\q""#, Err(r#"the file name "\"a/\\q\"" has an unknown escape"#)),
            (r#""a/\777""#, Err(r#"the file name "\"a/\\777\"" has an unknown escape"#)),
            (r#""a/\377""#, Err("the file name \"a/\u{fffd}\" is not UTF-8")),
            ("", Err("the file name is empty")),
            ("\tstamp", Err("the file name is empty")),
        ] {
            let wanted =
                wanted.map(|name: &str| Mark::Name(name.to_owned())).map_err(str::to_owned);
            assert_eq!(mark(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(mark(b"/dev/null"), Ok(Mark::Absent));
        assert_eq!(mark(b"/dev/null\t1970-01-01"), Ok(Mark::Absent));
    }

    #[test]
    fn names_in_git_lines() {
        for (text, wanted) in [
            ("a/x b/x", Some("x")),
            ("i/x w/x", Some("x")),
            ("x x", Some("x")),
            ("a/x a/x", Some("a/x")),
            ("a/with blank b/with blank", Some("with blank")),
            ("a/x b/x b/x b/x", Some("x b/x")),
            (r#""a/\303\244" "b/\303\244""#, Some("ä")),
            ("a/x b/y", None),
            ("a/x b/longer", None),
            (r#""a/x" b/x"#, None),
            ("src/x dst/x", None),
            ("", None),
            ("\"", None),
        ] {
            assert_eq!(common_in_git_line(text.as_bytes()).as_deref(), wanted, "{text}");
        }
    }
}
