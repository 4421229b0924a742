//! The outline of a file: the symbols that it defines, in the order of their lines.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The kind of a symbol, with the names of the language server protocol where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Class,
    Constant,
    Constructor,
    Enum,
    EnumMember,
    Field,
    Function,
    Interface,
    Macro,
    Method,
    Module,
    Property,
    Struct,
    Trait,
    Type,
    Union,
    Variable,
}

/// The definition of a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The names that lead to it within its file, the outermost first; the last is its own.
    pub path: Vec<String>,
    /// The kind of the symbol.
    pub kind: Kind,
    /// The line, from 1, of the definition itself, after decorators.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The first line including decorators, attributes and documentation comments.
    pub start_line: usize,
    /// The last line of the definition.
    pub end_line: usize,
    /// The bytes of the symbol in the lines from `start_line` to `end_line`.
    pub span: Range<usize>,
    /// The definition without its body, on one line.
    pub signature: String,
    /// The documentation, without comment marks and common indentation.
    pub doc: Option<String>,
    /// Decorators or attributes, without their marks.
    pub decorators: Vec<String>,
    /// Whether it is public, by its language or convention.
    pub public: bool,
    /// Whether it is defined within a function.
    pub local: bool,
}

impl Symbol {
    /// The symbol's own name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The names joined with dots.
    pub fn qualified(&self) -> String {
        self.path.join(".")
    }

    /// The first paragraph of the documentation, on one line.
    pub fn summary(&self) -> Option<String> {
        summary(self.doc.as_deref()?)
    }
}

/// The first paragraph of a documentation, on one line.
pub fn summary(doc: &str) -> Option<String> {
    let lines = doc.trim().lines().take_while(|line| !line.trim().is_empty());
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| shortened(&text, 200))
}

/// A name that a module re-exports from another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reexport {
    /// The name in this module.
    pub name: String,
    /// Its origin, as written in the file.
    pub from: String,
    /// The line, from 1.
    pub line: usize,
}

/// A syntax error of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The message of the parser.
    pub message: String,
}

/// The outline of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The documentation of the module.
    pub doc: Option<String>,
    /// The definitions, ordered by where they start.
    pub symbols: Vec<Symbol>,
    /// The names that the module declares to export (`__all__`), if it does.
    pub exports: Option<Vec<String>>,
    /// The names that it re-exports.
    pub reexports: Vec<Reexport>,
    /// The first syntax error. The symbols include everything that could be parsed.
    pub problem: Option<Problem>,
    /// The package of a Go file.
    pub package: Option<String>,
}

#[cfg(test)]
impl Outline {
    /// The symbols in the short form of tests: name, kind, first and last line, and whether it is
    /// public.
    pub fn listed(&self) -> Vec<(String, Kind, usize, usize, bool)> {
        let one = |one: &Symbol| (one.qualified(), one.kind, one.line, one.end_line, one.public);
        self.symbols.iter().map(one).collect()
    }

    /// Asserts that there is no syntax error, and that the symbols are exactly these.
    #[track_caller]
    pub fn has(&self, wanted: &[(&str, Kind, usize, usize, bool)]) {
        let wanted: Vec<_> =
            wanted.iter().map(|&(name, kind, a, b, c)| (name.to_owned(), kind, a, b, c)).collect();
        assert_eq!(self.problem, None);
        assert_eq!(self.listed(), wanted);
    }
}

/// The lines of a text, which start after `\n`, `\r\n` or a single `\r`.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Indexes the lines of a text.
    pub fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            if bytes[at] == b'\n' || bytes.get(at + 1) != Some(&b'\n') {
                starts.push(at + 1);
            }
        }
        Self { text, starts }
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// The column, from 1 and in characters, of a byte offset.
    pub fn column(&self, offset: usize) -> usize {
        let start = self.starts[self.line(offset) - 1];
        self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1)
    }

    /// The offset of the line's start, if there is only white space between it and `offset`;
    /// otherwise `offset`.
    pub fn indentation_start(&self, offset: usize) -> usize {
        let start = self.starts[self.line(offset) - 1];
        let blank = self.text.get(start..offset).is_some_and(|text| text.trim().is_empty());
        if blank { start } else { offset }
    }
}

/// A definition as a parser finds it.
#[derive(Debug)]
pub struct Found<'a> {
    /// The name of the symbol.
    pub name: &'a str,
    /// The kind of the symbol.
    pub kind: Kind,
    /// The bytes of the definition, with decorators and comments before it.
    pub span: Range<usize>,
    /// The offset of the definition itself.
    pub start: usize,
    /// The definition without its body.
    pub signature: String,
    /// The documentation of the symbol.
    pub doc: Option<String>,
    /// Decorators or attributes, as written.
    pub decorators: Vec<String>,
    /// Whether the symbol is public.
    pub public: bool,
}

/// Builds an outline from the outside to the inside.
#[derive(Debug)]
pub struct Builder<'a> {
    lines: Lines<'a>,
    /// The outline built so far.
    pub outline: Outline,
    around: Vec<String>,
    functions: usize,
}

impl<'a> Builder<'a> {
    /// Makes an empty outline of a text.
    pub fn new(text: &'a str) -> Self {
        Self {
            lines: Lines::new(text),
            outline: Outline::default(),
            around: Vec::new(),
            functions: 0,
        }
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.lines.line(offset)
    }

    /// Adds a definition in the current scope.
    pub fn add(&mut self, found: Found<'_>) {
        let mut path = self.around.clone();
        path.push(found.name.to_owned());
        let end = found.span.end;
        self.outline.symbols.push(Symbol {
            path,
            kind: found.kind,
            line: self.lines.line(found.start),
            column: self.lines.column(found.start),
            start_line: self.lines.line(found.span.start),
            end_line: self.lines.line(end.saturating_sub(1).max(found.start)),
            span: self.lines.indentation_start(found.span.start)..end,
            signature: one_line(&found.signature),
            doc: found.doc.filter(|doc| !doc.is_empty()),
            decorators: found.decorators,
            public: found.public,
            local: self.functions > 0,
        });
    }

    /// Enters the scope of a definition with this name.
    pub fn enter(&mut self, name: &str, is_function: bool) {
        self.around.push(name.to_owned());
        self.functions += usize::from(is_function);
    }

    /// Leaves the current scope.
    pub fn leave(&mut self, is_function: bool) {
        self.functions -= usize::from(is_function);
        self.around.pop();
    }

    /// Returns the outline, ordered by the start of the definitions.
    pub fn finish(mut self) -> Outline {
        self.outline.symbols.sort_by_key(|symbol| (symbol.span.start, symbol.path.len()));
        self.outline
    }
}

/// The text of a documentation comment, without its marks.
pub fn comment(text: &str) -> String {
    let Some(block) = text.strip_prefix("/*") else {
        let lines = text.lines().map(|line| {
            let line = line.trim_start().trim_start_matches('/').trim_start_matches('!');
            line.strip_prefix(' ').unwrap_or(line).trim_end()
        });
        return lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    };
    let block = block.strip_suffix("*/").unwrap_or(block).trim_start_matches(['*', '!']);
    let lines = block.lines().map(|line| {
        let line = line.trim();
        let line = line.strip_prefix('*').unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Joins a text to one line, with single spaces between words. Longer text is cut, with `...`.
pub fn one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), 400)
}

/// Shortens a text to `most` characters, with `...` as the last three if it was cut.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 3).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_three_ways() {
        let text = "a\nb\r\nc\rd\r\r\né x";
        let lines = Lines::new(text);
        for (part, line, column) in
            [("a", 1, 1), ("b", 2, 1), ("c", 3, 1), ("d", 4, 1), ("x", 6, 3)]
        {
            let offset = text.find(part).unwrap_or_default();
            assert_eq!((lines.line(offset), lines.column(offset)), (line, column), "{part}");
        }
        assert_eq!(lines.line(text.len()), 6);
        assert_eq!(Lines::new("").line(0), 1);
    }

    #[test]
    fn texts_are_shortened() {
        assert_eq!(one_line("a\n  b\t c"), "a b c");
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("äbcdefg", 6), "äbc...");
        assert_eq!(summary("\nOne\n two.\n\nThree"), Some("One two.".to_owned()));
        assert_eq!(summary("  \n"), None);
    }
}
