//! Unified diffs as tables: line numbers, inline or side by side, with the colours of their language.
//! Control and invisible characters are shown as escapes.

use maud::{Markup, html};

use crate::layout::text;
use crate::syntax::{self, Language, Part};

/// How many lines of one diff are shown.
pub const MAX_LINES: usize = 2_000;

/// How much of a line is shown, in bytes.
const MAX_LINE_BYTES: usize = 2 << 10;

/// About how much markup a line has, in bytes.
const MARKUP_BYTES: usize = 160;

/// How a diff is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Old and new lines below each other.
    Inline,
    /// Old lines on the left, new ones on the right.
    Side,
}

impl View {
    /// The view that an address names; inline if it names none.
    pub fn named(name: &str) -> Self {
        if name == Self::Side.name() { Self::Side } else { Self::Inline }
    }

    /// Its name in an address.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Side => "side",
        }
    }

    /// The other view, and its name for the user.
    pub fn other(self) -> (Self, &'static str) {
        match self {
            Self::Inline => (Self::Side, "Side by side"),
            Self::Side => (Self::Inline, "Inline"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Removed,
    Added,
    /// What stands before the lines: `diff --git`, `@@`, permissions.
    Head,
    /// About the line before it: `\ No newline at end of file`.
    Note,
}

/// A line of a diff, with its numbers in the old and the new file.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    kind: Kind,
    old: Option<usize>,
    new: Option<usize>,
    text: &'a str,
    /// How many bytes are not shown.
    left_out: usize,
    /// The text by its colours; joined, they are what is shown of it.
    parts: Vec<(Option<Part>, &'a str)>,
}

impl<'a> Line<'a> {
    fn new(kind: Kind, old: Option<usize>, new: Option<usize>, text: &'a str) -> Self {
        let shown = &text[..text.floor_char_boundary(MAX_LINE_BYTES)];
        Self {
            kind,
            old,
            new,
            text,
            left_out: text.len() - shown.len(),
            parts: vec![(None, shown)],
        }
    }
}

/// Where a diff is: the next line numbers, and how many lines are left of the hunk.
#[derive(Default)]
struct Place {
    old: usize,
    new: usize,
    old_left: usize,
    new_left: usize,
}

impl Place {
    /// Reads `@@ -1,2 +3,4 @@`.
    fn of(header: &str) -> Option<Self> {
        let (old, rest) = header.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let range = |text: &str| -> Option<(usize, usize)> {
            let (start, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((start.parse().ok()?, count.parse().ok()?))
        };
        let ((old, old_left), (new, new_left)) = (range(old)?, range(new)?);
        Some(Self { old, new, old_left, new_left })
    }

    fn take_old(&mut self) -> Option<usize> {
        self.old_left = self.old_left.checked_sub(1)?;
        self.old += 1;
        Some(self.old - 1)
    }

    fn take_new(&mut self) -> Option<usize> {
        self.new_left = self.new_left.checked_sub(1)?;
        self.new += 1;
        Some(self.new - 1)
    }

    /// Places a line. Only within the lines that a header has announced are marks what they seem.
    fn line<'a>(&mut self, line: &'a str) -> Line<'a> {
        let is_inside = self.old_left > 0 || self.new_left > 0;
        let marked = |kind, old, new| Line::new(kind, old, new, line.get(1..).unwrap_or(""));
        match line.as_bytes().first() {
            Some(b' ') if is_inside => marked(Kind::Same, self.take_old(), self.take_new()),
            Some(b'-') if is_inside => marked(Kind::Removed, self.take_old(), None),
            Some(b'+') if is_inside => marked(Kind::Added, None, self.take_new()),
            Some(b'\\') => Line::new(Kind::Note, None, None, line),
            _ => {
                if let Some(place) = Self::of(line) {
                    *self = place;
                }
                Line::new(Kind::Head, None, None, line)
            }
        }
    }
}

/// Splits a diff into lines. `path` names the file of a hunk without names.
fn lines<'a>(diff: &'a str, path: &str) -> Vec<Line<'a>> {
    let mut place = Place::default();
    let mut colours = Colours { language: syntax::language(path), ..Colours::default() };
    let lines = diff.split_inclusive('\n').take(MAX_LINES);
    let placed = lines.map(|line| {
        let mut line = place.line(line.strip_suffix('\n').unwrap_or(line));
        colours.put(&mut line);
        line
    });
    placed.collect()
}

/// What the colours of the next line depend on.
#[derive(Default)]
struct Colours {
    language: Option<&'static Language>,
    /// The comment or string that is open in the old file, and in the new one.
    old: syntax::Open,
    new: syntax::Open,
}

impl Colours {
    fn put(&mut self, line: &mut Line<'_>) {
        let Some((_, shown)) = line.parts.first().copied() else { return };
        let name = ["--- ", "+++ "].iter().find_map(|mark| shown.strip_prefix(mark));
        match (line.kind, self.language) {
            (Kind::Head, _) => {
                let language = self.language;
                *self = Self { language, ..Self::default() };
                if let Some(name) = name.filter(|name| *name != "/dev/null") {
                    self.language = syntax::language(name.trim_end_matches('"'));
                }
            }
            (Kind::Removed, Some(of)) => line.parts = syntax::parts(of, shown, &mut self.old),
            (Kind::Added, Some(of)) => line.parts = syntax::parts(of, shown, &mut self.new),
            (Kind::Same, Some(of)) => {
                syntax::parts(of, shown, &mut self.old);
                line.parts = syntax::parts(of, shown, &mut self.new);
            }
            _ => {}
        }
    }
}

/// Returns about how much [`table`] makes of a diff, in bytes.
pub fn size(diff: &[u8]) -> usize {
    let lines = diff.split_inclusive(|byte| *byte == b'\n').take(MAX_LINES);
    lines.map(|line| MARKUP_BYTES + line.len().min(MAX_LINE_BYTES)).sum()
}

/// Shows a diff. `whole` says how all of it can be seen, if it is too long; `path` names the file of a hunk
/// without names.
pub fn table(caption: &str, diff: &[u8], path: &str, view: View, whole: &str) -> Markup {
    let diff = String::from_utf8_lossy(diff);
    let lines = lines(&diff, path);
    let left_out = diff.split_inclusive('\n').skip(MAX_LINES).count();
    html! {
        // A page has a thousand of these: their time is that of their elements.
        table class=(format!("diff {}", view.name())) aria-label=(caption) {
            // In the other view, the first row has the widths of the columns.
            @if view == View::Side { colgroup { col class="n"; col; col class="n"; col; } }
            thead class="hidden" { tr { @match view {
                View::Inline => {
                    th scope="col" { "Old line" } th scope="col" { "New line" } th scope="col" { "Text" }
                }
                View::Side => {
                    th scope="col" { "Old line" } th scope="col" { "Old text" }
                    th scope="col" { "New line" } th scope="col" { "New text" }
                }
            } } }
            tbody { @match view {
                View::Inline => { @for line in &lines { (inline(line)) } }
                View::Side => { @for (left, right) in sides(&lines) { (side(left, right)) } }
            } }
        }
        @if left_out > 0 {
            p class="cut" { (left_out) " more lines are not shown here. All of them: " code { (whole) } }
        }
    }
}

fn inline(line: &Line<'_>) -> Markup {
    let (class, mark) = look(line.kind);
    html! { tr class=(class) {
        @match line.kind {
            Kind::Head | Kind::Note => { td {} td {} }
            _ => { td { (number(line.old)) } td { (number(line.new)) } }
        }
        td { (mark) (shown(line)) }
    } }
}

/// Puts lines side by side: a run of removed lines beside the added ones after it.
fn sides<'a, 'b>(lines: &'a [Line<'b>]) -> Vec<(Option<&'a Line<'b>>, Option<&'a Line<'b>>)> {
    let mut pairs = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let count = |lines: &[Line<'_>], kind: Kind| {
            lines.iter().take_while(|line| line.kind == kind).count()
        };
        let (removed, after) = rest.split_at(count(rest, Kind::Removed));
        let (added, after) = after.split_at(count(after, Kind::Added));
        if removed.is_empty() && added.is_empty() {
            pairs.push((Some(first), Some(first)));
            rest = &rest[1..];
        } else {
            let most = removed.len().max(added.len());
            pairs.extend((0..most).map(|at| (removed.get(at), added.get(at))));
            rest = after;
        }
    }
    pairs
}

fn side(left: Option<&Line<'_>>, right: Option<&Line<'_>>) -> Markup {
    if let Some(line) = left.filter(|line| matches!(line.kind, Kind::Head | Kind::Note)) {
        return html! { tr class=(look(line.kind).0) { td {} td colspan="3" { (shown(line)) } } };
    }
    let half = |line: Option<&Line<'_>>, of: fn(&Line<'_>) -> Option<usize>| {
        html! {
            @match line {
                None => { td class="none" {} td class="none" {} }
                Some(line) => {
                    @let (class, mark) = look(line.kind);
                    td class=(class) { (number(of(line))) }
                    td class=(class) { (mark) (shown(line)) }
                }
            }
        }
    };
    html! { tr { (half(left, |line| line.old)) (half(right, |line| line.new)) } }
}

/// The class of a line, and its mark.
fn look(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Same => ("same", " "),
        Kind::Removed => ("del", "-"),
        Kind::Added => ("add", "+"),
        Kind::Head => ("head", ""),
        Kind::Note => ("note", ""),
    }
}

fn number(number: Option<usize>) -> Markup {
    html! { @if let Some(number) = number { (number) } }
}

fn shown(line: &Line<'_>) -> Markup {
    html! {
        @for (part, shown) in &line.parts {
            @match part {
                Some(part) => span class=(part.class()) { (text(shown)) },
                None => (text(shown)),
            }
        }
        @if line.left_out > 0 { " … " (line.left_out) " more bytes" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "--- a/x\n+++ b/x\n@@ -3,3 +3,2 @@\n a\n--- b\n-c\n+++ d\n\\ No newline at end of file\n";

    #[test]
    fn lines_are_numbered_and_marks_count_only_within_hunks() {
        let lines = lines(DIFF, "");
        let found: Vec<(Kind, Option<usize>, Option<usize>, &str)> =
            lines.iter().map(|line| (line.kind, line.old, line.new, line.text)).collect();
        assert_eq!(
            found,
            [
                (Kind::Head, None, None, "--- a/x"),
                (Kind::Head, None, None, "+++ b/x"),
                (Kind::Head, None, None, "@@ -3,3 +3,2 @@"),
                (Kind::Same, Some(3), Some(3), "a"),
                (Kind::Removed, Some(4), None, "-- b"),
                (Kind::Removed, Some(5), None, "c"),
                (Kind::Added, None, Some(4), "++ d"),
                (Kind::Note, None, None, "\\ No newline at end of file"),
            ]
        );
        let sides = sides(&lines);
        assert_eq!(sides.len(), 7);
        let numbers =
            |at: usize| (sides[at].0.and_then(|l| l.old), sides[at].1.and_then(|l| l.new));
        assert_eq!(
            (numbers(3), numbers(4), numbers(5)),
            ((Some(3), Some(3)), (Some(4), Some(4)), (Some(5), None))
        );
    }

    #[test]
    fn lines_have_the_colours_of_their_file() {
        let of = |diff: &str, path: &str| {
            table("x", diff.as_bytes(), path, View::Inline, "").into_string()
        };
        let hunk = "@@ -1,2 +1,2 @@\n-/* fn\n+/* fn */\n fn\n";
        let page = of(hunk, "x.rs");
        assert!(page.contains("<span class=\"c\">/* fn */</span>"), "{page}");
        // The comment of the old file is not that of the new one.
        assert!(page.contains("<span class=\"k\">fn</span>"), "{page}");
        assert!(!of(hunk, "x").contains("<span"));
        let names = format!("--- a/x\n+++ \"b/x\\\".rs\"\n{hunk}");
        assert!(of(&names, "").contains("<span class=\"k\">fn</span>"), "{names}");
    }

    #[test]
    fn hostile_lines_are_inert_and_long_ones_are_cut() {
        for view in [View::Inline, View::Side] {
            let diff = "@@ -0,0 +1,2 @@\n+<script>\u{202e}\u{1b}\r\n+é\n";
            let table = table("x", diff.as_bytes(), "x.rs", view, "all").into_string();
            assert!(table.contains("&lt;script&gt;\\u{202e}\\u{1b}\\u{d}"), "{table}");
            assert!(!table.contains("<script") && !table.contains('\u{1b}'), "{table}");
        }
        let long = format!("@@ -0,0 +1,{0} @@\n{1}", 3000, "+é\n".repeat(3000));
        let page = table("x", long.as_bytes(), "", View::Inline, "git diff").into_string();
        assert!(page.contains("1001 more lines") && page.contains("git diff"), "{}", page.len());
        let cut = Line::new(Kind::Same, None, None, &"é".repeat(2000)).left_out;
        assert_eq!(cut, 1952);
    }
}
