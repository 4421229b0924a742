//! File names in patches: `a/` and `b/`, C quotes, time stamps.

use std::borrow::Cow;

/// The name on a `---` or `+++` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// `/dev/null`: the file does not exist on this side.
    Absent,
    /// A name.
    Name {
        /// The name with its prefix.
        name: String,
        /// Whether the time stamp is 1970-01-01 00:00:00 UTC: the file does not exist on this side.
        is_epoch: bool,
    },
}

/// Parses the text after `--- ` or `+++ `.
///
/// # Errors
/// A message about the malformed name.
pub(super) fn mark(text: &[u8]) -> Result<Mark, String> {
    let (name, stamp) = if text.starts_with(b"\"") {
        unquote(text)?
    } else {
        // A time stamp follows, after a tab or blanks; otherwise a tab ends the name.
        let tab = text.iter().position(|byte| *byte == b'\t').unwrap_or(text.len());
        let end = before_time_stamp(text).unwrap_or(tab);
        (text[..end].to_vec(), &text[end..])
    };
    let name = utf8(name)?;
    let is_epoch = is_epoch(stamp.trim_ascii());
    Ok(if name == "/dev/null" { Mark::Absent } else { Mark::Name { name, is_epoch } })
}

/// The end of the name in a text that ends in a time stamp such as `2024-05-06 07:08:09 +0200`.
fn before_time_stamp(text: &[u8]) -> Option<usize> {
    let mut rest = text.trim_ascii_end();
    for shape in [&b"+0000"[..], b"00:00:00", b"0000-00-00"] {
        let start = rest.iter().rposition(u8::is_ascii_whitespace)? + 1;
        // Zones may have a colon, and times fractions of a second.
        let part: Vec<u8> = rest[start..]
            .iter()
            .filter(|byte| shape[0] != b'+' || **byte != b':')
            .take_while(|byte| **byte != b'.')
            .map(|byte| match byte {
                b'0'..=b'9' => b'0',
                b'-' if shape[0] == b'+' => b'+',
                byte => *byte,
            })
            .collect();
        if part != shape {
            return None;
        }
        rest = rest[..start].trim_ascii_end();
    }
    Some(rest.len())
}

/// Whether a time stamp such as `1970-01-01 01:00:00.000000000 +0100` is the epoch.
fn is_epoch(stamp: &[u8]) -> bool {
    let parse = || {
        let mut parts = std::str::from_utf8(stamp).ok()?.split_ascii_whitespace();
        let (date, time, zone) = (parts.next()?, parts.next()?, parts.next()?);
        let day = match date {
            "1969-12-31" => -24 * 60,
            "1970-01-01" => 0,
            _ => return None,
        };
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let minutes = minutes(time.strip_suffix(":00")?)?;
        let zone = minutes_of_zone(zone)?;
        Some(day + minutes == zone && fraction.bytes().all(|digit| digit == b'0'))
    };
    parse().unwrap_or(false)
}

/// The minutes of `+0100` or `-01:00`.
fn minutes_of_zone(zone: &str) -> Option<i32> {
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, zone),
        ("-", zone) => (-1, zone),
        _ => return None,
    };
    Some(sign * minutes(zone)?)
}

/// The minutes of `01:00` or `0100`.
fn minutes(text: &str) -> Option<i32> {
    let (hours, minutes) = text.split_at_checked(2)?;
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    if minutes.len() != 2 {
        return None;
    }
    Some(hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?)
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
        let at_blank = |at: usize| (text[..at].into(), text[at + 1..].into());
        if text.len().is_multiple_of(2) || text[middle] != b' ' {
            // Two prefixes of different lengths: only for names without blanks.
            let mut blanks = (0..text.len()).filter(|at| text[*at] == b' ');
            let (only, None) = (blanks.next()?, blanks.next()) else { return None };
            at_blank(only)
        } else {
            at_blank(middle)
        }
    };
    let (old, new) = (std::str::from_utf8(&old).ok()?, std::str::from_utf8(&new).ok()?);
    common(old, new).map(str::to_owned)
}

/// The file name of two sides: they are equal, or equal after two different first directories
/// (`a/` and `b/`, `old/` and `new/`), but for an ending of one of them such as `.orig` or `~`.
pub(super) fn common<'a>(old: &'a str, new: &'a str) -> Option<&'a str> {
    without_ending(old, new).or_else(|| {
        let ((_, old), (_, new)) = (old.split_once('/')?, new.split_once('/')?);
        without_ending(old, new)
    })
}

/// The shorter one of two names if the longer one only has an ending more.
fn without_ending<'a>(old: &'a str, new: &'a str) -> Option<&'a str> {
    let (short, long) = if old.len() < new.len() { (old, new) } else { (new, old) };
    let ending = long.strip_prefix(short)?;
    let is_ending = ending.is_empty()
        || (ending.starts_with(['.', '~', '+', '-', '_']) && !ending.contains('/'));
    (is_ending && !short.is_empty() && !short.ends_with('/')).then_some(short)
}

/// Whether `path` may be the file that a header names: equal, or one of both lacks directories at
/// the beginning.
pub(super) fn may_be(name: &str, path: &str) -> bool {
    let is_below = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let name = name.strip_suffix(".orig").or_else(|| name.strip_suffix('~')).unwrap_or(name);
    is_below(name, path) || is_below(path, name)
}

/// Whether `name`, with or without a prefix, is `wanted`.
pub(super) fn is(name: &str, wanted: &str) -> bool {
    name == wanted || name.split_once('/').is_some_and(|(_, rest)| rest == wanted)
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
            ("a/tab\there\t2024-01-01 00:00:00.0 +0100", Ok("a/tab\there")),
            ("a/x    2010-08-18 20:13:31.48 -05:00", Ok("a/x")),
            ("a/x 2010-08-18", Ok("a/x 2010-08-18")),
            ("a/x 2010-08-18 20:13:31 EST", Ok("a/x 2010-08-18 20:13:31 EST")),
            ("a/x\tSun Jan  1 00:00:00 2024", Ok("a/x")),
            (r#""a/tab\there""#, Ok("a/tab\there")),
            (r#""a/\303\244 \"q\" \\"	stamp"#, Ok("a/ä \"q\" \\")),
            (r#""a/open"#, Err(r#"the file name "\"a/open" has no closing quote"#)),
            (r#""a/\q""#, Err(r#"the file name "\"a/\\q\"" has an unknown escape"#)),
            (r#""a/\777""#, Err(r#"the file name "\"a/\\777\"" has an unknown escape"#)),
            (r#""a/\377""#, Err("the file name \"a/\u{fffd}\" is not UTF-8")),
            ("", Err("the file name is empty")),
            ("\tstamp", Err("the file name is empty")),
        ] {
            let named = |name: &str| Mark::Name { name: name.to_owned(), is_epoch: false };
            let wanted = wanted.map(named).map_err(str::to_owned);
            assert_eq!(mark(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(mark(b"/dev/null"), Ok(Mark::Absent));
        assert_eq!(mark(b"/dev/null\t1970-01-01"), Ok(Mark::Absent));
    }

    #[test]
    fn the_epoch_in_any_time_zone_is_a_missing_file() {
        for (stamp, wanted) in [
            ("1970-01-01 00:00:00.000000000 +0000", true),
            ("1970-01-01 00:00:00 +0000", true),
            ("1970-01-01 01:00:00.000000000 +0100", true),
            ("1969-12-31 19:00:00.000000000 -0500", true),
            ("1970-01-01 05:45:00 +05:45", true),
            ("1970-01-01 00:00:01.000000000 +0000", false),
            ("1970-01-01 00:00:00.000000001 +0000", false),
            ("1970-01-01 00:00:00 +0100", false),
            ("1970-01-01 00:00:00", false),
            ("1969-12-31 19:00:00 +0500", false),
            ("2024-01-01 00:00:00 +0000", false),
            ("1970-01-01 99:2147483647:00 +0000", false),
            ("1970-01-01 ä0:00:00 +0000", false),
            ("", false),
        ] {
            let found = mark(format!("a/x\t{stamp}").as_bytes());
            let wanted = Mark::Name { name: "a/x".to_owned(), is_epoch: wanted };
            assert_eq!(found, Ok(wanted), "{stamp}");
        }
    }

    #[test]
    fn two_names_of_one_file() {
        for (old, new, wanted) in [
            ("x", "x", Some("x")),
            ("a/x", "b/x", Some("x")),
            ("old/d/x", "new/d/x", Some("d/x")),
            ("package-1.0/x", "package-1.1/x", Some("x")),
            ("x.orig", "x", Some("x")),
            ("d/x~", "d/x", Some("d/x")),
            ("a/x.orig", "b/x", Some("x")),
            ("x.orig", "x.orig", Some("x.orig")),
            ("old/x", "new/y", None),
            ("x", "x.new", Some("x")),
            ("a/x", "b/x+", Some("x")),
            ("x", "xy", None),
            ("a/.orig", "b/x", None),
            ("a/", "b/", None),
        ] {
            assert_eq!(common(old, new), wanted, "{old} {new}");
        }
        for (name, path, wanted) in [
            ("x", "src/x", true),
            ("package-1.0/src/x.orig", "src/x", true),
            ("x", "src/ax", false),
            ("src/x", "lib/x", false),
        ] {
            assert_eq!(may_be(name, path), wanted, "{name} {path}");
        }
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
            ("src/x dst/x", Some("x")),
            ("original/x new/x", Some("x")),
            ("original/with blank new/with blank", None),
            ("", None),
            ("\"", None),
        ] {
            assert_eq!(common_in_git_line(text.as_bytes()).as_deref(), wanted, "{text}");
        }
    }
}
