//! Hints about a text that a file does not have: the same text with other blanks, or the line that
//! is most similar.

use memchr::memmem;

/// The maximum length of a line in a hint, in characters.
const MAX_SHOWN_CHARS: usize = 100;

/// The maximum number of lines that are compared at each place.
const MAX_COMPARED_LINES: usize = 30;

/// Lines are similar if they share at least this part of their pairs of bytes, in percent.
const MIN_SIMILARITY_PERCENT: usize = 50;

/// Says where `wanted`, which is not in `text`, nearly is; `None` if nothing is similar.
pub(crate) fn hint(text: &str, wanted: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = wanted.lines().skip_while(|line| line.trim().is_empty()).collect();
    if let Some(line) = other_blanks(text, &wanted) {
        let shown = Shown(lines[line]);
        return Some(format!("only blanks differ at line {}: {shown}", line + 1));
    }
    if let Some(start) = most_equal_lines(&lines, &wanted) {
        let equal = |index: &usize| {
            lines.get(start + index).is_some_and(|line| line.trim() == wanted[*index].trim())
        };
        let index = (0..wanted.len()).find(|index| !equal(index))?;
        let missing = Shown(wanted[index]);
        return Some(match lines.get(start + index) {
            Some(line) => format!(
                "nearest at line {}, but line {} is {}, not {missing}",
                start + 1,
                start + index + 1,
                Shown(line)
            ),
            None => format!("nearest at line {}, but the file ends before {missing}", start + 1),
        });
    }
    let line = most_similar(&lines, wanted.first()?)?;
    Some(format!("nearest is line {}: {}", line + 1, Shown(lines[line])))
}

/// The first line, from 0, of a text that is `wanted` but for white space.
fn other_blanks(text: &str, wanted: &[&str]) -> Option<usize> {
    let is_solid = |byte: &u8| !byte.is_ascii_whitespace();
    let solid: Vec<u8> = text.bytes().filter(|byte| is_solid(byte)).collect();
    let wanted: Vec<u8> =
        wanted.iter().flat_map(|line| line.bytes()).filter(|byte| is_solid(byte)).collect();
    if wanted.is_empty() {
        return None;
    }
    let at = memmem::find(&solid, &wanted)?;
    let (start, _) = text.bytes().enumerate().filter(|(_, byte)| is_solid(byte)).nth(at)?;
    Some(text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count())
}

/// The place at which the most lines of several ones are equal, but for blanks around them.
fn most_equal_lines(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let wanted: Vec<&str> =
        wanted.iter().take(MAX_COMPARED_LINES).map(|line| line.trim()).collect();
    let mut best = (0, None);
    for start in 0..lines.len() {
        let pairs = lines[start..].iter().zip(&wanted);
        let equal = pairs.filter(|(line, wanted)| !wanted.is_empty() && line.trim() == **wanted);
        let count = equal.count();
        if count > best.0 {
            best = (count, Some(start));
        }
    }
    best.1
}

/// The line that shares the most pairs of bytes with `wanted`, by Dice's coefficient.
fn most_similar(lines: &[&str], wanted: &str) -> Option<usize> {
    let pairs =
        |line: &str| -> Vec<usize> { line.trim().as_bytes().windows(2).map(pair_index).collect() };
    let wanted = pairs(wanted);
    let mut counts = vec![0_u32; 1 << 16];
    for pair in &wanted {
        counts[*pair] += 1;
    }
    let mut best = (MIN_SIMILARITY_PERCENT - 1, None);
    for (index, line) in lines.iter().enumerate() {
        let pairs = pairs(line);
        let shared: Vec<usize> = pairs
            .iter()
            .copied()
            .filter(|pair| match counts[*pair] {
                0 => false,
                _ => {
                    counts[*pair] -= 1;
                    true
                }
            })
            .collect();
        for pair in &shared {
            counts[*pair] += 1;
        }
        let percent = 200 * shared.len() / (pairs.len() + wanted.len()).max(1);
        if percent > best.0 {
            best = (percent, Some(index));
        }
    }
    best.1
}

fn pair_index(pair: &[u8]) -> usize {
    usize::from(pair[0]) << 8 | usize::from(pair[1])
}

/// Displays a line quoted, escaped and shortened.
struct Shown<'a>(&'a str);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_text_is_shown() {
        let text = "def get(a):\n\treturn a\n\ndef put_files(a, b):\n    return b\n";
        for (wanted, hint_wanted) in [
            ("    return a", Some(r#"only blanks differ at line 2: "\treturn a""#)),
            ("def get( a ):", Some(r#"only blanks differ at line 1: "def get(a):""#)),
            (
                "def get(a):\n    return a\ndef put",
                Some(r#"only blanks differ at line 1: "def get(a):""#),
            ),
            ("return b\n\n\n", Some(r#"only blanks differ at line 5: "    return b""#)),
            ("def put_file(a, b):", Some(r#"nearest is line 4: "def put_files(a, b):""#)),
            (
                "def put_files(a, b):\n    return c\n",
                Some(r#"nearest at line 4, but line 5 is "    return b", not "    return c""#),
            ),
            (
                "def putfile(a, b):\n    return b\n",
                Some(
                    r#"nearest at line 4, but line 4 is "def put_files(a, b):", not "def putfile(a, b):""#,
                ),
            ),
            ("    return b\nend\n", Some(r#"nearest at line 5, but the file ends before "end""#)),
            ("something else", None),
            ("\n\n", None),
            ("", None),
        ] {
            assert_eq!(hint(text, wanted).as_deref(), hint_wanted, "{wanted:?}");
        }
        let long = "ä".repeat(200);
        let wanted = format!("nearest is line 1: \"{}\"...", "ä".repeat(100));
        assert_eq!(hint(&long, &"ä".repeat(210)), Some(wanted));
        assert_eq!(hint("", "x"), None);
    }
}
