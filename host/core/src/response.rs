//! The parts of a model's response around its answer: reasoning, and the markers of a contract's
//! block. Shared by [`crate::envelope`] and [`crate::contract`].

use std::ops::Range;

/// The names of the tags that models put around their reasoning.
const TAGS: [&str; 3] = ["think", "thinking", "reasoning"];

/// The parts of a response that are reasoning.
#[derive(Debug, Default)]
pub(crate) struct Reasoning {
    /// From an opening tag to its closing one, or from the beginning if there is no opening tag.
    pub(crate) parts: Vec<Range<usize>>,
    /// Whether an opening tag is never closed: the reasoning was cut off, so nothing in the text is
    /// known to be an answer.
    pub(crate) is_cut_off: bool,
}

impl Reasoning {
    /// Finds the reasoning in `text`. Tags within one of `answers` or quoted as code are ignored.
    pub(crate) fn find(text: &str, answers: &[Range<usize>]) -> Self {
        let mut reasoning = Self::default();
        let mut open: Option<usize> = None;
        for (range, closes) in tags(text) {
            let next = answers.partition_point(|answer| answer.end <= range.start);
            if answers.get(next).is_some_and(|answer| answer.start <= range.start) {
                continue;
            }
            if !closes {
                open.get_or_insert(range.start);
            } else if let Some(start) = open.take() {
                reasoning.parts.push(start..range.end);
            } else {
                // No opening tag since the last closing one: everything up to here is reasoning.
                reasoning.parts.clear();
                reasoning.parts.push(0..range.end);
            }
        }
        if let Some(start) = open {
            reasoning.parts.push(start..text.len());
            reasoning.is_cut_off = true;
        }
        reasoning
    }

    /// Whether an answer that begins at `start` may be a draft. If the reasoning was cut off, the
    /// model may have rejected everything before it.
    pub(crate) fn hides(&self, start: usize) -> bool {
        self.touches(&(start..start + 1))
    }

    /// Whether the line at `range` is reasoning, or may be.
    pub(crate) fn touches(&self, range: &Range<usize>) -> bool {
        let next = self.parts.partition_point(|part| part.end <= range.start);
        self.is_cut_off || self.parts.get(next).is_some_and(|part| part.start < range.end)
    }
}

/// The tags of `text`, and whether each is a closing one.
fn tags(text: &str) -> impl Iterator<Item = (Range<usize>, bool)> {
    text.match_indices('<').filter_map(|(start, _)| {
        if text[..start].ends_with('`') {
            return None;
        }
        let inside = &text[start + 1..];
        let (closes, name) = match inside.strip_prefix('/') {
            Some(name) => (true, name),
            None => (false, inside),
        };
        let tag = TAGS.iter().find(|tag| {
            let bytes = name.as_bytes();
            bytes.get(tag.len()) == Some(&b'>')
                && bytes[..tag.len()].eq_ignore_ascii_case(tag.as_bytes())
        })?;
        let length = 1 + usize::from(closes) + tag.len() + 1;
        Some((start..start + length, closes))
    })
}

/// A marker of a contract's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// The opening line `---OUTPUT---`.
    Output,
    /// The closing line `---END---`.
    End,
}

impl Marker {
    /// The marker as written in the output contracts.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Output => "---OUTPUT---",
            Self::End => "---END---",
        }
    }

    /// Recognises a marker that is the whole `line`, except for Markdown and typographic dashes.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        // A cheap check: most lines are not markers.
        if !line.contains(['O', 'o', 'E', 'e']) || line.len() > 100 {
            return None;
        }
        let line = line.trim_matches(|character: char| {
            character.is_whitespace() || "`*_>#\u{feff}".contains(character)
        });
        let word = line.trim_start_matches(is_dash);
        let opening = &line[..line.len() - word.len()];
        let rest = word.trim_end_matches(is_dash);
        let closing = &word[rest.len()..];
        // Typography turns two or three hyphens into an em dash.
        let is_rule = |dashes: &str| dashes.len() >= 2;
        if !is_rule(opening) || !is_rule(closing) {
            return None;
        }
        match rest.trim() {
            word if word.eq_ignore_ascii_case("OUTPUT") => Some(Self::Output),
            word if word.eq_ignore_ascii_case("END") => Some(Self::End),
            _ => None,
        }
    }
}

fn is_dash(character: char) -> bool {
    matches!(character, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2500}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_lines_of_their_own() {
        for (line, wanted) in [
            ("---OUTPUT---", Some(Marker::Output)),
            ("  ---END---\r", Some(Marker::End)),
            ("**---OUTPUT---**", Some(Marker::Output)),
            ("> ---END---", Some(Marker::End)),
            ("`---OUTPUT---`", Some(Marker::Output)),
            ("--- output ---", Some(Marker::Output)),
            ("\u{2014}OUTPUT\u{2014}", Some(Marker::Output)),
            ("\u{feff}---OUTPUT---", Some(Marker::Output)),
            ("OUTPUT", None),
            ("-OUTPUT-", None),
            ("---OUTPUT--- and then", None),
            ("I end with ---OUTPUT---", None),
            ("---", None),
            ("", None),
        ] {
            assert_eq!(Marker::of_line(line), wanted, "{line:?}");
        }
    }

    #[test]
    fn reasoning_ends_where_its_tag_closes() {
        for (text, wanted) in [
            ("no tags", None),
            ("<think>a</think>b", Some(0..16)),
            ("a</think>b", Some(0..9)),
            ("<THINK>a</Think>b", Some(0..16)),
            ("<thinking>a</thinking>b", Some(0..22)),
            ("<think>a", Some(0..8)),
            ("a <think>b", Some(2..10)),
            ("<thinker>a</thinker>", None),
            ("the tag `</think>` is removed", None),
            ("<", None),
        ] {
            let wanted: Vec<_> = wanted.into_iter().collect();
            assert_eq!(Reasoning::find(text, &[]).parts, wanted, "{text}");
        }
    }

    #[test]
    fn everything_may_be_a_draft_if_the_reasoning_was_cut_off() {
        for (text, wanted) in [
            ("a", false),
            ("a<think>b</think>", false),
            ("<think>b</think>a", true),
            ("a<think>b", true),
            ("<think>a", true),
            ("a<think>b</think><think>c", true),
            ("a `<think>` is a tag", false),
        ] {
            assert_eq!(Reasoning::find(text, &[]).hides(0), wanted, "{text}");
        }
    }
}
