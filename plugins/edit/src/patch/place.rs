//! Finds the places in a file at which hunks apply.
//!
//! A hunk that fits at its line number applies there. From the first one that does not, line
//! numbers no longer count: each hunk has to fit at exactly one place after the hunk before it.
//! Lines are compared exactly, but for their line ends (LF or CRLF).

use super::{Hunk, Line, Position, Side};

/// A hunk that does not apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch<'a> {
    /// The index of the hunk in the file's patch.
    pub(super) hunk: usize,
    /// The first line of the original file that differs, from 1.
    pub(super) line: usize,
    /// The line in the hunk; `None` after its end.
    pub(super) expected: Option<&'a [u8]>,
    /// The line in the file; `None` after its end.
    pub(super) found: Option<&'a [u8]>,
    /// What differs, in words.
    pub(super) reason: String,
    /// The places at which the hunk fits, as numbers of lines before it.
    pub(super) fits: Vec<usize>,
}

pub(super) const DIFFERS: &str = "the line differs";
pub(super) const NO_NEWLINE: &str = "the file has no newline after its last line; the patch needs '\\ No newline at end of file' there";
pub(super) const NEWLINE: &str =
    "the file has a newline after this line; the patch says it has none";
pub(super) const PAST_END: &str = "the file ends before it";
const NO_CONTEXT: &str =
    "the hunk has no lines of the file, so its place is unknown; add lines around the change";
const NO_HEADING: &str = "the file has no such line as after '@@'";
const APPLIED: &str = "the lines that it adds are already there";

/// The maximum number of places that a message lists.
const MAX_LISTED_PLACES: usize = 10;

/// The maximum number of lines that are compared to find the place that fits best, for a message.
const MAX_COMPARED_LINES: usize = 50;

/// The start of each hunk: the number of lines of the file before it.
///
/// # Errors
/// Every hunk that fits nowhere; otherwise every hunk that fits at several places, or that is
/// applied already.
pub(super) fn locate<'a>(
    file: &[&'a [u8]],
    hunks: &[Hunk<'a>],
) -> Result<Vec<usize>, Vec<Mismatch<'a>>> {
    let mut starts = Vec::with_capacity(hunks.len());
    let mut mismatches = Vec::new();
    let mut end = 0;
    let mut moved = false;
    for (index, hunk) in hunks.iter().enumerate() {
        let start = match stated(file, hunk, end).filter(|_| !moved) {
            Some(start) => Some(start),
            None => {
                moved = true;
                places(file, hunk).into_iter().find(|start| *start >= end)
            }
        };
        match start {
            Some(start) => end = start + hunk.old_count,
            None => mismatches.push(mismatch(file, index, hunk)),
        }
        starts.extend(start);
    }
    if !mismatches.is_empty() {
        return Err(mismatches);
    }
    mismatches.extend(several(file, hunks, &starts));
    for (index, (hunk, start)) in hunks.iter().zip(&starts).enumerate() {
        if is_applied(file, hunk, *start) {
            mismatches.push(problem(index, *start, APPLIED.to_owned()));
        }
    }
    if mismatches.is_empty() { Ok(starts) } else { Err(mismatches) }
}

/// The hunks that fit at a later place than the first possible one too.
fn several<'a>(file: &[&[u8]], hunks: &[Hunk<'a>], starts: &[usize]) -> Vec<Mismatch<'a>> {
    let mut before = 0;
    let first = hunks.iter().zip(starts).position(|(hunk, start)| {
        let moved = stated(file, hunk, before) != Some(*start);
        before = start + hunk.old_count;
        moved
    });
    let mut found = Vec::new();
    let mut limit = file.len();
    for index in (first.unwrap_or(hunks.len())..hunks.len()).rev() {
        let (hunk, start) = (&hunks[index], starts[index]);
        let fits: Vec<usize> = places(file, hunk)
            .into_iter()
            .filter(|at| *at >= start && at + hunk.old_count <= limit)
            .collect();
        limit = fits.last().copied().unwrap_or(start);
        if fits.len() > 1 {
            let reason = format!("it fits at {}; add lines around the change", listed(&fits));
            found.push(Mismatch { fits, ..problem(index, start, reason) });
        }
    }
    found.reverse();
    found
}

fn problem<'a>(hunk: usize, start: usize, reason: String) -> Mismatch<'a> {
    Mismatch { hunk, line: start + 1, expected: None, found: None, reason, fits: Vec::new() }
}

/// `lines 1, 5 and 9`.
fn listed(fits: &[usize]) -> String {
    let shown: Vec<String> =
        fits.iter().take(MAX_LISTED_PLACES).map(|at| (at + 1).to_string()).collect();
    match fits.len() - shown.len() {
        0 => {
            format!("lines {} and {}", shown[..shown.len() - 1].join(", "), shown[shown.len() - 1])
        }
        more => format!("lines {} and {more} more", shown.join(", ")),
    }
}

/// The start that the hunk's line number states, if the hunk fits there.
fn stated(file: &[&[u8]], hunk: &Hunk, from: usize) -> Option<usize> {
    match hunk.position {
        Position::Empty => file.is_empty().then_some(0),
        Position::After(start) => (start >= from && fits(file, hunk, start)).then_some(start),
        Position::Unnumbered { .. } => None,
    }
}

fn fits(file: &[&[u8]], hunk: &Hunk, start: usize) -> bool {
    start.checked_add(hunk.old_count).is_some_and(|end| end <= file.len())
        && file[start..].iter().zip(hunk.old_lines()).all(|(found, line)| hunk.is_line(line, found))
}

/// All places at which the hunk fits, in order. A hunk without lines of the file fits nowhere, but
/// for a hunk without a number in an empty file or at the marked end of a file.
fn places(file: &[&[u8]], hunk: &Hunk) -> Vec<usize> {
    let (headings, at_end) = match &hunk.position {
        Position::Empty => return Vec::new(),
        Position::After(_) => (&[][..], false),
        Position::Unnumbered { headings, at_end } => (headings.as_slice(), *at_end),
    };
    if hunk.old_count == 0 {
        let numbered = matches!(hunk.position, Position::After(_));
        let known = !numbered && headings.is_empty() && (at_end || file.is_empty());
        return if known { vec![file.len()] } else { Vec::new() };
    }
    let mut found = occurrences(file, hunk);
    found.retain(|at| !at_end || at + hunk.old_count == file.len());
    if headings.is_empty() {
        return found;
    }
    // The first place after each occurrence of the headings.
    let is = |line: usize, heading: &[u8]| file[line].trim_ascii().starts_with(heading);
    let mut after: Vec<usize> = below_headings(file.len(), headings, is)
        .into_iter()
        .filter_map(|line| found.get(found.partition_point(|at| *at < line)).copied())
        .collect();
    after.dedup();
    after
}

/// The lines of the last heading, in order: for each line that is the first heading, the next lines
/// below that are the others. `is` compares a line with a heading, each pair once.
fn below_headings(
    lines: usize,
    headings: &[&[u8]],
    mut is: impl FnMut(usize, &[u8]) -> bool,
) -> Vec<usize> {
    // For each line, the line of the last heading if those seen so far begin there or below.
    let mut last: Vec<Option<usize>> = (0..lines).map(Some).collect();
    for (index, heading) in headings.iter().rev().enumerate() {
        let (mut below, mut begun_below) = (None, None);
        for line in (0..lines).rev() {
            let begun = std::mem::replace(&mut last[line], below);
            if is(line, heading) {
                last[line] = if index == 0 { begun } else { begun_below };
            }
            (below, begun_below) = (last[line], begun);
        }
    }
    last.dedup();
    last.into_iter().flatten().collect()
}

/// All places at which the old lines of the hunk occur; it has at least one.
///
/// Uses the algorithm of Knuth, Morris and Pratt: the number of comparisons is linear.
fn occurrences(file: &[&[u8]], hunk: &Hunk) -> Vec<usize> {
    let pattern: Vec<&Line> = hunk.old_lines().collect();
    let same = |a: &Line, b: &Line| content(a.text) == content(b.text) && a.newline == b.newline;
    // border[n]: the length of the longest proper prefix of the first n + 1 lines that is also
    // their suffix.
    let mut border = vec![0; pattern.len()];
    let mut length = 0;
    for index in 1..pattern.len() {
        while length > 0 && !same(pattern[index], pattern[length]) {
            length = border[length - 1];
        }
        length += usize::from(same(pattern[index], pattern[length]));
        border[index] = length;
    }
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, line) in file.iter().enumerate() {
        while matched > 0 && !hunk.is_line(pattern[matched], line) {
            matched = border[matched - 1];
        }
        matched += usize::from(hunk.is_line(pattern[matched], line));
        if matched == pattern.len() {
            found.push(index + 1 - matched);
            matched = border[matched - 1];
        }
    }
    found
}

/// Whether a hunk that adds lines next to lines that it keeps was applied already: the lines are
/// there. A hunk with kept lines on both sides does not fit a second time.
fn is_applied(file: &[&[u8]], hunk: &Hunk, start: usize) -> bool {
    let old: Vec<&[u8]> = hunk.old_lines().map(|line| content(line.text)).collect();
    let new: Vec<&[u8]> = hunk.new_lines().map(|line| content(line.text)).collect();
    if new.len() <= old.len() {
        return false;
    }
    let has = |from: usize| {
        let lines = file.get(from..from + new.len());
        lines.is_some_and(|lines| lines.iter().zip(&new).all(|(line, new)| content(line) == *new))
    };
    let kept = |line: Option<&Line>| line.is_some_and(|line| line.side == Side::Both);
    let end = start + old.len();
    if old.is_empty() {
        let marked_end = matches!(hunk.position, Position::Unnumbered { at_end: true, .. });
        let from = if marked_end { file.len().checked_sub(new.len()) } else { Some(start) };
        return from.is_some_and(|from| file.len() - from == new.len() && has(from));
    }
    (!kept(hunk.lines.last()) && new.starts_with(&old) && has(start))
        || (!kept(hunk.lines.first())
            && new.ends_with(&old)
            && end.checked_sub(new.len()).is_some_and(has))
}

/// A line without its line end.
pub(super) fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Describes a hunk that fits nowhere.
fn mismatch<'a>(file: &[&'a [u8]], index: usize, hunk: &Hunk<'a>) -> Mismatch<'a> {
    let first = hunk.old_lines().next().map(|line| line.text);
    let fits = places(file, hunk);
    if !fits.is_empty() {
        let reason = "it fits only before the end of the hunk above; sort the hunks".to_owned();
        return Mismatch { fits: fits.clone(), ..problem(index, fits[0], reason) };
    }
    let start = match &hunk.position {
        Position::Empty => {
            let reason = format!(
                "'-0,0' says that the file is empty, but it has {} lines; to add lines to it, add a line next to them",
                file.len()
            );
            return problem(index, 0, reason);
        }
        Position::After(start) if *start > file.len() => {
            return Mismatch { expected: first, ..problem(index, *start, PAST_END.to_owned()) };
        }
        _ if hunk.old_count == 0 => return problem(index, 0, NO_CONTEXT.to_owned()),
        Position::After(start) => *start,
        Position::Unnumbered { headings, .. } => {
            let missing = headings
                .iter()
                .find(|heading| !file.iter().any(|line| line.trim_ascii().starts_with(heading)));
            if let Some(heading) = missing {
                let expected = Some(*heading);
                return Mismatch { expected, ..problem(index, 0, NO_HEADING.to_owned()) };
            }
            best(file, hunk)
        }
    };
    let length = fitting_lines(file, hunk, start, usize::MAX);
    let line = start + length;
    let wanted = hunk.old_lines().nth(length);
    let reason = match (file.get(line), wanted) {
        (None, _) => PAST_END,
        (Some(found), Some(wanted)) => difference(found, wanted),
        (Some(_), None) => "the hunk must end at the end of the file, which goes on",
    };
    let reason = match new_lines_at(file, hunk) {
        Some(at) => {
            format!("{reason} (the file has the hunk's new lines at line {} already)", at + 1)
        }
        None => reason.to_owned(),
    };
    Mismatch {
        expected: wanted.map(|line| line.text),
        found: file.get(line).map(|line| line.strip_suffix(b"\n").unwrap_or(line)),
        ..problem(index, line, reason)
    }
}

/// The first place of the lines that the hunk leaves, if it adds some.
fn new_lines_at(file: &[&[u8]], hunk: &Hunk) -> Option<usize> {
    if hunk.count(Side::New) == 0 {
        return None;
    }
    let lines: Vec<Line> =
        hunk.new_lines().map(|line| Line { side: Side::Both, ..*line }).collect();
    occurrences(file, &Hunk { lines, ..hunk.clone() }).first().copied()
}

/// The number of the hunk's first lines that the file has at `start`, at most `limit`.
fn fitting_lines(file: &[&[u8]], hunk: &Hunk, start: usize, limit: usize) -> usize {
    let lines = file[start.min(file.len())..].iter().zip(hunk.old_lines());
    lines.take(limit).take_while(|(found, line)| hunk.is_line(line, found)).count()
}

/// The place at which the most of the hunk's first lines fit.
fn best(file: &[&[u8]], hunk: &Hunk) -> usize {
    let score = |start: &usize| fitting_lines(file, hunk, *start, MAX_COMPARED_LINES);
    (0..file.len()).rev().max_by_key(score).unwrap_or(0)
}

fn difference(found: &[u8], wanted: &Line) -> &'static str {
    if content(found) != content(wanted.text) {
        DIFFERS
    } else if found.ends_with(b"\n") {
        NEWLINE
    } else {
        NO_NEWLINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the last heading, and how often a line was compared with a heading.
    fn lines_below(text: &[&str], headings: &[&str]) -> (Vec<usize>, usize) {
        let headings: Vec<&[u8]> = headings.iter().map(|heading| heading.as_bytes()).collect();
        let mut comparisons = 0;
        let lines = below_headings(text.len(), &headings, |line, heading| {
            comparisons += 1;
            text[line].as_bytes() == heading
        });
        (lines, comparisons)
    }

    #[test]
    fn headings_are_found_in_their_order() {
        let text = ["B", "A", "x", "B", "A", "B", "B", "A"];
        for (headings, wanted) in [
            (&["A"][..], &[1, 4, 7][..]),
            (&["A", "B"], &[3, 5]),
            (&["A", "B", "B"], &[5, 6]),
            (&["A", "A"], &[4, 7]),
            (&["B", "x"], &[2]),
            (&["x", "x"], &[]),
            (&["none"], &[]),
        ] {
            assert_eq!(lines_below(&text, headings).0, wanted, "{headings:?}");
        }
        assert!(lines_below(&[], &["A"]).0.is_empty());
    }

    #[test]
    fn repeated_headings_are_compared_once_with_each_line() {
        const LINES: usize = 100_000;
        // Each `A` is the beginning, and no line is the end.
        for headings in [&["A", "none"][..], &["A", "A", "none"], &["A"; 16]] {
            let (lines, comparisons) = lines_below(&["A"; LINES], headings);
            assert_eq!(comparisons, LINES * headings.len());
            let ends = headings.last() == Some(&"A");
            assert_eq!(lines.len(), if ends { LINES - (headings.len() - 1) } else { 0 });
        }
    }
}
