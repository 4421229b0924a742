//! Compiles the pattern that a caller wrote, and explains errors in it.

use cofferdam_sdk::ToolError;
use grep_matcher::{LineMatchKind, Match, Matcher, NoError};
use grep_regex::{Error, ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ast;

use crate::prefilter::Prefilter;
use crate::text::line_start;

/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// The maximum size of the states built while matching, in bytes.
const MAX_STATES_BYTES: usize = 32 << 20;

/// A compiled regular expression.
pub struct Pattern {
    matcher: RegexMatcher,
    /// For a search that ignores case.
    prefilter: Option<Prefilter>,
    /// What the pattern is matched against.
    pub scope: Scope,
}

/// What a pattern is matched against.
///
/// `\r\n` is a line end like `\n`, so that `$` matches before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The lines of a file.
    Lines,
    /// The lines of a file, where only `\n` ends a line: the pattern contains `\r`.
    LinesOfLineFeed,
    /// Each line alone, where only `\n` ends a line: the pattern contains `\A` or `\z`, which match
    /// the ends of the line.
    EachLine,
    /// A whole file; a match can span lines.
    File,
}

impl Pattern {
    /// Compiles `pattern`. Without `multiline`, a match can't span lines.
    ///
    /// # Errors
    /// `InvalidRegex`, with the position and a hint.
    pub fn compile(
        pattern: &str,
        case_insensitive: bool,
        multiline: bool,
    ) -> Result<Self, ToolError> {
        // The matcher's own parser sees the pattern inside a group, which would shift positions and
        // accept `a)(b`.
        let parsed = regex_syntax::ParserBuilder::new()
            .utf8(false)
            .build()
            .parse(pattern)
            .map_err(|error| explain_syntax(pattern, &error))?;
        let prefilter = case_insensitive.then(|| Prefilter::of(&parsed)).flatten();
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .case_insensitive(case_insensitive)
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_STATES_BYTES)
            .crlf(true);
        if multiline {
            builder.line_terminator(None);
        }
        let (matcher, scope) = match builder.build(pattern) {
            Ok(matcher) if multiline => (matcher, Scope::File),
            Ok(matcher) if matcher.line_terminator().is_some() => (matcher, Scope::Lines),
            Err(error) if !names_carriage_return(&error) => return Err(explain_build(&error)),
            _ => {
                builder.crlf(false).line_terminator(Some(b'\n'));
                let matcher = builder.build(pattern).map_err(|error| explain_build(&error))?;
                let by_lines = matcher.line_terminator().is_some();
                (matcher, if by_lines { Scope::LinesOfLineFeed } else { Scope::EachLine })
            }
        };
        Ok(Self { matcher, prefilter, scope })
    }

    /// The offset in `text` of the next line that matches or may match. `text` starts with a line.
    /// With [`Scope::File`], only whether there is a match.
    pub fn candidate(&self, text: &[u8]) -> Option<LineMatchKind> {
        let start = match (&self.prefilter, self.scope) {
            (Some(prefilter), Scope::Lines | Scope::LinesOfLineFeed) => {
                line_start(text, prefilter.find(text)?)
            }
            (Some(prefilter), Scope::File) => {
                prefilter.find(text)?;
                0
            }
            (_, Scope::EachLine) => return Some(LineMatchKind::Candidate(0)),
            (None, _) => 0,
        };
        let found = self.matcher.find_candidate_line(&text[start..]).unwrap_or_else(never)?;
        Some(match found {
            LineMatchKind::Confirmed(at) => LineMatchKind::Confirmed(start + at),
            LineMatchKind::Candidate(at) => LineMatchKind::Candidate(start + at),
        })
    }

    /// Whether a line, given without its line end, matches.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.matcher.is_match(line).unwrap_or_else(never)
    }

    /// The first match in `text` at or after the offset `at`.
    pub fn find(&self, text: &[u8], at: usize) -> Option<Match> {
        if at > text.len() {
            return None;
        }
        self.matcher.find_at(text, at).unwrap_or_else(never)
    }
}

/// Handles the error of a matcher whose error type shows that it never fails.
fn never<T: Default>(_: NoError) -> T {
    T::default()
}

fn names_carriage_return(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotAllowed(literal) if literal == "\r")
}

fn invalid(message: String) -> ToolError {
    ToolError::invalid_args("InvalidRegex", message)
}

fn explain_build(error: &Error) -> ToolError {
    match error.kind() {
        ErrorKind::NotAllowed(_) => invalid(
            "invalid regex: the pattern holds a line end, so it can only match across lines. \
             Set `multiline` to true for that"
                .to_owned(),
        ),
        _ => invalid(format!("invalid regex: {error}")),
    }
}

fn explain_syntax(pattern: &str, error: &regex_syntax::Error) -> ToolError {
    let (span, what, hint) = match error {
        regex_syntax::Error::Parse(error) => {
            (error.span(), error.kind().to_string(), hint(pattern, error))
        }
        regex_syntax::Error::Translate(error) => (error.span(), error.kind().to_string(), None),
        error => return invalid(format!("invalid regex: {error}")),
    };
    let character =
        pattern.get(..span.start.offset).map_or(span.start.offset, |before| before.chars().count());
    let rest: String = pattern.chars().skip(character).take(20).collect();
    let place = if rest.is_empty() { "at its end".to_owned() } else { format!("at '{rest}'") };
    let hint = hint.map(|hint| format!(". {hint}")).unwrap_or_default();
    invalid(format!("invalid regex, character {} ({place}): {what}{hint}", character + 1))
}

/// A hint about what the caller probably meant.
fn hint(pattern: &str, error: &ast::Error) -> Option<&'static str> {
    use ast::ErrorKind as Kind;
    const BRACES: &str = r"Literal braces need escaping: \{ and \}";
    const PARENTHESES: &str = r"Literal parentheses need escaping: \( and \)";
    const BRACKETS: &str = r"Literal brackets need escaping: \[ and \]";
    let at = pattern.get(error.span().start.offset..).unwrap_or_default();
    match error.kind() {
        Kind::RepetitionCountDecimalEmpty
        | Kind::RepetitionCountUnclosed
        | Kind::RepetitionCountInvalid
        | Kind::DecimalEmpty
        | Kind::DecimalInvalid => Some(BRACES),
        Kind::RepetitionMissing if at.starts_with('{') => Some(BRACES),
        Kind::RepetitionMissing => Some(r"Literal *, + and ? need escaping: \*, \+ and \?"),
        Kind::GroupUnclosed | Kind::GroupUnopened => Some(PARENTHESES),
        Kind::ClassUnclosed => Some(BRACKETS),
        Kind::EscapeUnexpectedEof => Some(r"A literal backslash needs escaping: \\"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::blocks::Blocks;

    fn refusal(pattern: &str, multiline: bool) -> String {
        let error = Pattern::compile(pattern, false, multiline).err().unwrap();
        assert_eq!(error.code, "InvalidRegex");
        error.message
    }

    #[test]
    fn errors_have_a_position_and_a_hint() {
        for (pattern, place, hint) in [
            ("foo{", "character 4 (at '{')", r"\{"),
            ("{foo}", "character 1 (at '{foo}')", r"\{"),
            ("interface{}", "character 11 (at '}')", r"\{"),
            ("fn {name}", "character 5 (at 'name}')", r"\{"),
            ("x{3", "character 2 (at '{3')", r"\{"),
            ("x{3,1}", "character 2 (at '{3,1}')", r"\{"),
            ("print(", "character 6 (at '(')", r"\("),
            ("a)|(b", "character 2 (at ')|(b')", r"\("),
            ("list[str", "character 5 (at '[str')", r"\["),
            ("*.py", "character 1 (at '*.py')", r"\*"),
            ("ü(é", "character 2 (at '(é')", r"\("),
            ("a\\", "character 2 (at '\\')", r"\\"),
            ("foo(?!bar)", "character 4 (at '(?!bar)')", "not supported"),
            (r"(a)\1", "character 4 (at '\\1')", "not supported"),
            (r"\p{Nonsense}", "character 1 (at '\\p{Nonsense}')", "Unicode property not found"),
            (r"\w{4000}{40}", "invalid regex", "size limit"),
        ] {
            let message = refusal(pattern, false);
            assert!(message.contains(place) && message.contains(hint), "{pattern}: {message}");
        }
    }

    #[test]
    fn line_ends_need_multiline() {
        for pattern in [r"a\nb", r"a\r\nb", "a\nb", r"[\n]"] {
            assert!(refusal(pattern, false).contains("`multiline`"), "{pattern}");
            assert!(Pattern::compile(pattern, false, true).is_ok(), "{pattern}");
        }
        assert!(Pattern::compile(r"a\r", false, false).is_ok());
    }

    #[test]
    fn the_prefilter_changes_no_result() {
        let texts = [
            "one\nTASK\ntask\r\nTas\u{212a}\nta\u{17f}k\nnone\n",
            "ab\nABC\nabab c\nAbAbC\n\nx_y\nX_Y\nx?y\nx\u{7f}y",
            "\u{e9}t\u{c9}\nstra\u{df}e\nSTRASSE\n",
            "quartz quartz\nQ\nQUARTZ",
            "",
        ];
        let patterns = [
            "task",
            "^task$",
            "t.*k",
            "(?:ab)+c",
            "ab|x_y",
            "x_y",
            "x_y$",
            "(?-i:AB)",
            "\u{e9}t\u{e9}",
            "tra(\u{df}|s)e",
            "quartz",
            r"\bq",
            r"\Aone",
            r"k\r",
            "a?b{2,}",
            "one(?s:.)task",
        ];
        for (pattern, text) in patterns.iter().flat_map(|p| texts.iter().map(move |t| (p, t))) {
            for multiline in [false, true] {
                let mut compiled = Pattern::compile(pattern, true, multiline).unwrap();
                let lines = |pattern: &Pattern| -> Vec<_> {
                    Blocks::new(pattern, text.as_bytes()).map(|block| block.lines).collect()
                };
                let (is_candidate, found) =
                    (compiled.candidate(text.as_bytes()).is_some(), lines(&compiled));
                compiled.prefilter = None;
                assert_eq!(found, lines(&compiled), "{pattern} in {text:?}");
                assert!(is_candidate || found.is_empty(), "{pattern} in {text:?}");
            }
        }
    }

    #[test]
    fn searching_whole_files_finds_every_match() {
        for (pattern, contents, may_match) in [
            ("b$", "a\r\nb\r\nc", true),
            ("^b", "a\nb\n", true),
            (r"\Ab", "a\nb\n", true),
            (r"a\z", "a\nb\n", true),
            (r"a\sb", "a\nb\n", false),
            ("a.b", "a\nb\n", false),
            ("a[^c]b", "a\nb\n", false),
            ("c", "a\nb\n", false),
        ] {
            let pattern = Pattern::compile(pattern, false, false).unwrap();
            assert_eq!(pattern.candidate(contents.as_bytes()).is_some(), may_match, "{contents:?}");
        }
    }
}
