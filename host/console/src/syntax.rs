//! Colours of source text: comments, strings, keywords and numbers, from a table of languages. A hunk begins
//! in the middle of a file, so this is a guess: in a comment or string that began before the hunk, the
//! colours are wrong. The text is always whole.

/// What a part of a line is; its name is the class of its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Comment,
    Text,
    Keyword,
    Number,
}

impl Part {
    /// The class of its element.
    pub fn class(self) -> &'static str {
        match self {
            Self::Comment => "c",
            Self::Text => "s",
            Self::Keyword => "k",
            Self::Number => "m",
        }
    }
}

/// Something with a beginning and an end: a comment or a string.
#[derive(Debug, PartialEq, Eq)]
pub struct Span {
    part: Part,
    begin: &'static str,
    end: &'static str,
    /// Whether it goes on in the next line.
    is_long: bool,
}

const fn span(part: Part, begin: &'static str, end: &'static str, is_long: bool) -> Span {
    Span { part, begin, end, is_long }
}

const SLASHES: Span = span(Part::Comment, "//", "\n", false);
const HASH: Span = span(Part::Comment, "#", "\n", false);
const DASHES: Span = span(Part::Comment, "--", "\n", false);
const C_COMMENT: Span = span(Part::Comment, "/*", "*/", true);
const DOUBLE: Span = span(Part::Text, "\"", "\"", false);
const SINGLE: Span = span(Part::Text, "'", "'", false);
const BACKTICK: Span = span(Part::Text, "`", "`", true);

/// A language.
#[derive(Debug)]
pub struct Language {
    extensions: &'static [&'static str],
    /// The first one that fits counts.
    spans: &'static [Span],
    /// Separated by spaces.
    keywords: &'static str,
}

/// The languages, by the ends of names of their files.
static LANGUAGES: [Language; 10] = [
    Language {
        extensions: &["rs"],
        spans: &[SLASHES, C_COMMENT, span(Part::Text, "r#\"", "\"#", true), DOUBLE],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if \
                   impl in let loop match mod move mut pub ref return self Self static struct super \
                   trait true type unsafe use where while",
    },
    Language {
        extensions: &["py", "pyi"],
        spans: &[
            HASH,
            span(Part::Text, "\"\"\"", "\"\"\"", true),
            span(Part::Text, "'''", "'''", true),
            DOUBLE,
            SINGLE,
        ],
        keywords: "and as assert async await break class continue def del elif else except False \
                   finally for from global if import in is lambda None nonlocal not or pass raise \
                   return True try while with yield",
    },
    Language {
        extensions: &["js", "mjs", "cjs", "jsx", "ts", "tsx"],
        spans: &[SLASHES, C_COMMENT, DOUBLE, SINGLE, BACKTICK],
        keywords: "as async await break case catch class const continue default delete do else enum \
                   export extends false finally for from function if implements import in instanceof \
                   interface let new null of return static super switch this throw true try type \
                   typeof undefined var void while yield",
    },
    Language {
        extensions: &["go"],
        spans: &[SLASHES, C_COMMENT, DOUBLE, SINGLE, BACKTICK],
        keywords: "break case chan const continue default defer else false for func go goto if import \
                   interface map nil package range return select struct switch true type var",
    },
    Language {
        extensions: &["c", "h", "cc", "cpp", "cxx", "hpp"],
        spans: &[SLASHES, C_COMMENT, DOUBLE, SINGLE],
        keywords: "auto bool break case char class const continue default delete do double else enum \
                   extern false float for goto if inline int long namespace new nullptr private \
                   protected public return short signed sizeof static struct switch template this \
                   true typedef typename union unsigned using virtual void volatile while",
    },
    Language {
        extensions: &["java", "kt", "kts", "cs", "scala", "swift"],
        spans: &[SLASHES, C_COMMENT, span(Part::Text, "\"\"\"", "\"\"\"", true), DOUBLE, SINGLE],
        keywords: "abstract boolean break case catch class const continue default do else enum \
                   extends false final finally for fun func if implements import in int interface is \
                   let long namespace new null override package private protected public return \
                   static super switch this throw throws true try using val var void when while",
    },
    Language {
        extensions: &["sh", "bash", "zsh"],
        spans: &[HASH, DOUBLE, SINGLE],
        keywords: "case do done elif else esac exit export fi for function if in local return set \
                   shift then until while",
    },
    Language {
        extensions: &["toml", "yaml", "yml", "ini", "cfg", "conf", "envrc"],
        spans: &[HASH, DOUBLE, SINGLE],
        keywords: "export false null true",
    },
    Language {
        extensions: &["json", "jsonc"],
        spans: &[SLASHES, DOUBLE],
        keywords: "false null true",
    },
    Language {
        extensions: &["sql"],
        spans: &[DASHES, C_COMMENT, SINGLE, DOUBLE],
        keywords: "AND AS BY CREATE DELETE DROP FROM GROUP INSERT INTO JOIN LEFT NOT NULL ON OR ORDER \
                   SELECT SET TABLE UPDATE VALUES WHERE",
    },
];

/// The language of a file, by its name.
pub fn language(path: &str) -> Option<&'static Language> {
    let (_, extension) = path.rsplit_once('.')?;
    LANGUAGES.iter().find(|language| language.extensions.contains(&extension))
}

/// The comment or string that goes on in the next line.
pub type Open = Option<&'static Span>;

/// Splits a line into its parts; joined, they are the line. `open` is what goes on from the line before, and
/// then what goes on in the next one.
pub fn parts<'a>(
    language: &'static Language,
    line: &'a str,
    open: &mut Open,
) -> Vec<(Option<Part>, &'a str)> {
    let is_keyword = |word: &str| language.keywords.split(' ').any(|keyword| keyword == word);
    let mut parts = Vec::new();
    let mut at = 0;
    if let Some(span) = open.take() {
        at = end_of(span, line, 0, open);
        parts.extend((at > 0).then(|| (Some(span.part), &line[..at])));
    }
    let mut plain = at;
    while let Some(first) = line[at..].chars().next() {
        let word = word_at(&line[at..]);
        let (part, end) = match language.spans.iter().find(|span| begins(span, line, at)) {
            Some(span) => (Some(span.part), end_of(span, line, at + span.begin.len(), open)),
            None if word == 0 => (None, at + first.len_utf8()),
            None if first.is_ascii_digit() => (Some(Part::Number), at + word),
            None if is_keyword(&line[at..at + word]) => (Some(Part::Keyword), at + word),
            None => (None, at + word),
        };
        if part.is_some() {
            parts.extend((plain < at).then(|| (None, &line[plain..at])));
            parts.push((part, &line[at..end]));
            plain = end;
        }
        at = end;
    }
    parts.extend((plain < line.len()).then(|| (None, &line[plain..])));
    parts
}

/// The length of the word or number at the beginning of a text, in bytes.
fn word_at(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}

/// Whether a comment or string begins here. `#` and `--` begin a comment only after a space: `$#`, `i--`.
fn begins(span: &Span, line: &str, at: usize) -> bool {
    let is_apart = matches!(span.begin, "#" | "--");
    line[at..].starts_with(span.begin)
        && (!is_apart || line[..at].ends_with([' ', '\t']) || at == 0)
}

/// Where a comment or string ends whose text begins at `at`. Sets `open` if that is not in this line.
fn end_of(span: &'static Span, line: &str, mut at: usize, open: &mut Open) -> usize {
    while let Some(next) = line[at..].chars().next() {
        if line[at..].starts_with(span.end) {
            return at + span.end.len();
        }
        at += next.len_utf8();
        if next == '\\' && span.part == Part::Text {
            at += line[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    *open = span.is_long.then_some(span);
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of lines, each with its class before it.
    fn shown(path: &str, lines: &[&str]) -> Vec<String> {
        let mut open = None;
        let Some(language) = language(path) else { return Vec::new() };
        let show = |line: &&str| {
            let parts = parts(language, line, &mut open);
            assert_eq!(parts.iter().map(|(_, text)| *text).collect::<String>(), **line);
            let class = |part: &Option<Part>| part.map_or("", Part::class);
            parts.iter().map(|(part, text)| format!("{}[{text}]", class(part))).collect()
        };
        lines.iter().map(show).collect()
    }

    #[test]
    fn comments_strings_keywords_and_numbers_are_found() {
        for (path, lines, wanted) in [
            (
                "a.rs",
                &["pub fn é(a: u8) { \"\\\"//\" } // 1"][..],
                &["k[pub][ ]k[fn][ é(a: u8) { ]s[\"\\\"//\"][ } ]c[// 1]"][..],
            ),
            (
                "a.rs",
                &["/* a", "fn */ fn", "x1 + 0x1f"],
                &["c[/* a]", "c[fn */][ ]k[fn]", "[x1 + ]m[0x1f]"],
            ),
            (
                "a.py",
                &["x = '''a", "b''' # c", "'é\\"],
                &["[x = ]s['''a]", "s[b'''][ ]c[# c]", "s['é\\]"],
            ),
            ("x/a.sh", &["a$# 'b' # c", "#!/bin/sh"], &["[a$# ]s['b'][ ]c[# c]", "c[#!/bin/sh]"]),
            ("a.js", &["`a", "${b}` + \"c", "d\""], &["s[`a]", "s[${b}`][ + ]s[\"c]", "[d]s[\"]"]),
            ("a.sql", &["SELECT i--1 -- x"], &["k[SELECT][ i--]m[1][ ]c[-- x]"]),
            ("a.json", &["{\"a\": null}", ""], &["[{]s[\"a\"][: ]k[null][}]", ""]),
        ] {
            assert_eq!(shown(path, lines), wanted, "{path}");
        }
        for path in ["", "a", "a.unknown", "rs", "a.rs/b"] {
            assert!(language(path).is_none(), "{path}");
        }
    }
}
