//! Merging the changes of a proposal with those that were made in the workspace meanwhile. No I/O.

use std::ops::Range;
use std::time::Instant;

use crate::diff::{edits, lines};

/// What is taken of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick<'a> {
    /// The lines of the old file.
    Old,
    /// The lines of the new file.
    New,
    /// Other lines.
    Text(&'a [u8]),
}

/// Returns a text with some of its hunks. `hunks` are ranges of lines of `old` and `new`, in order;
/// the lines between them are the same in both.
pub(crate) fn splice<'a>(
    old: &[&[u8]],
    new: &[&[u8]],
    hunks: impl Iterator<Item = (Range<usize>, Range<usize>, Pick<'a>)>,
) -> Vec<u8> {
    let (mut text, mut at) = (Vec::new(), 0);
    for (of_old, of_new, pick) in hunks {
        text.extend(old[at..of_old.start].concat());
        at = of_old.end;
        match pick {
            Pick::Old => text.extend(old[of_old].concat()),
            Pick::New => text.extend(new[of_new].concat()),
            Pick::Text(other) => text.extend_from_slice(other),
        }
    }
    text.extend(old[at..].concat());
    text
}

/// Merges two texts that were made of `base`. Returns `None` if changes of both touch, unless they are
/// the same.
pub(crate) fn merge(base: &[u8], left: &[u8], right: &[u8], deadline: Instant) -> Option<Vec<u8>> {
    let (base, left, right) = (lines(base), lines(left), lines(right));
    let mut of_left = edits(&base, &left, deadline).into_iter().peekable();
    let mut of_right = edits(&base, &right, deadline).into_iter().peekable();
    let (mut text, mut at) = (Vec::new(), 0);
    loop {
        let (old, new) = match (of_left.peek(), of_right.peek()) {
            (None, None) => break,
            (Some(one), Some(other)) if touch(&one.0, &other.0) => {
                if one.0 != other.0 || left[one.1.clone()] != right[other.1.clone()] {
                    return None;
                }
                of_right.next();
                let (old, new) = of_left.next()?;
                (old, &left[new])
            }
            (Some(one), other) if other.is_none_or(|other| one.0.start < other.0.start) => {
                let (old, new) = of_left.next()?;
                (old, &left[new])
            }
            _ => {
                let (old, new) = of_right.next()?;
                (old, &right[new])
            }
        };
        // Touches an earlier one of the other side.
        if old.start < at {
            return None;
        }
        text.extend(base[at..old.start].concat());
        text.extend(new.concat());
        at = old.end;
    }
    text.extend(base[at..].concat());
    Some(text)
}

fn touch(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start <= other.end && other.start <= one.end
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use super::*;

    fn merged(base: &str, left: &str, right: &str) -> Option<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let merged = |one: &str, other: &str| {
            merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), deadline)
                .map(|text| String::from_utf8(text).unwrap())
        };
        let found = merged(left, right);
        assert_eq!(found, merged(right, left), "{base:?} {left:?} {right:?}");
        found
    }

    #[test]
    fn changes_in_different_places_are_merged() {
        let base = "1\n2\n3\n4\n5\n6\n";
        for (left, right, wanted) in [
            (base, "1\n2\nx\n4\n5\n6\n", "1\n2\nx\n4\n5\n6\n"),
            ("x\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\ny\n", "x\n2\n3\n4\n5\ny\n"),
            ("x\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\n5\n6\n"),
            ("x\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\n6\n", "x\n2\n3\n4\n6\n"),
            ("0\n1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3\n4\n5\n6\n7"),
        ] {
            assert_eq!(merged(base, left, right).as_deref(), Some(wanted), "{left:?} {right:?}");
        }
    }

    #[test]
    fn changes_that_touch_are_refused() {
        let base = "1\n2\n3\n4\n";
        for (left, right) in [
            ("1\nx\n3\n4\n", "1\ny\n3\n4\n"),
            ("1\nx\n3\n4\n", "1\n2\ny\n4\n"),
            ("1\n2\n3\n4\nx\n", "1\n2\n3\n4\ny\n"),
            ("", "1\n2\nx\n4\n"),
            ("1\n4\n", "1\n2\nx\n3\n4\n"),
        ] {
            assert_eq!(merged(base, left, right), None, "{left:?} {right:?}");
        }
    }
}
