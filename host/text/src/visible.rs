//! Text of an agent with visible code points instead of active characters: it can't move a cursor,
//! reorder text or hide. It is not escaped for Markdown or HTML.

use std::fmt::Write as _;

use crate::is_active;

/// Returns text of several lines in which active characters are shown by their code points, such as
/// `⟨U+202E⟩`.
pub fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        push_visible(&mut shown, c, is_active(c));
    }
    shown
}

/// Returns text of one line: like [`lines`], and line feeds are shown by their code points as well.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        push_visible(&mut shown, c, c == '\n' || is_active(c));
    }
    shown
}

fn push_visible(shown: &mut String, c: char, active: bool) {
    if active {
        // Writing to a String does not fail.
        let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
    } else {
        shown.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_characters_are_shown_as_code_points() {
        for (text, wanted) in [
            ("a\x1b[31mred", "a⟨U+001B⟩[31mred"),
            ("\u{202e}cod.exe", "⟨U+202E⟩cod.exe"),
            ("a\u{200b}b\u{feff}", "a⟨U+200B⟩b⟨U+FEFF⟩"),
            ("\u{e0041}", "⟨U+E0041⟩"),
            ("\u{9b}0m\x7f\0\u{8}", "⟨U+009B⟩0m⟨U+007F⟩⟨U+0000⟩⟨U+0008⟩"),
            ("a\r\nb\n\tc\rd", "a\nb\n\tc⟨U+000D⟩d"),
            (
                "h\u{e9} \u{5e9} \u{1f468}\u{200d}\u{1f469}",
                "h\u{e9} \u{5e9} \u{1f468}\u{200d}\u{1f469}",
            ),
        ] {
            assert_eq!(lines(text), wanted, "{text:?}");
        }
        assert_eq!(line("a\r\nb\tc"), "a⟨U+000D⟩⟨U+000A⟩b\tc");
    }
}
