//! The names that a Python module binds at its top level. Parses statements only roughly: strings,
//! comments, brackets, indentation, and the names bound by `def`, `class`, `import`, `from` and
//! assignments.
//!
//! Source: The Python Language Reference, "Lexical analysis" and "Naming and binding".

use std::collections::BTreeSet;

/// The names that a module binds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Names bound by definitions and assignments.
    pub defined: BTreeSet<String>,
    /// Names bound by imports.
    pub imported: BTreeSet<String>,
    /// Whether it has an import of the form `from module import *`.
    pub imports_everything: bool,
}

/// A statement without comments and without the contents of its strings.
#[derive(Debug, Default)]
struct Statement {
    indent: usize,
    text: String,
}

/// Returns the names that a module binds at its top level, also within `if`, `try` and the like.
pub(super) fn names(text: &str) -> Names {
    let mut names = Names::default();
    // The indentation of the definition whose body is being skipped.
    let mut body: Option<usize> = None;
    for Statement { indent, text } in statements(text) {
        if body.is_some_and(|above| indent > above) {
            continue;
        }
        body = None;
        let plain = text.strip_prefix("async ").unwrap_or(&text).trim_start();
        let (word, rest) = plain.split_once(char::is_whitespace).unwrap_or((plain, ""));
        match word {
            "def" | "class" => {
                body = Some(indent);
                names.defined.extend(leading_name(rest));
            }
            "import" => names.imported.extend(rest.split(',').filter_map(|item| {
                let (module, alias) = renamed(item);
                leading_name(alias.unwrap_or(module))
            })),
            "from" => {
                let Some((_, items)) = rest.split_once("import") else { continue };
                for item in items.trim().trim_matches(['(', ')']).split(',') {
                    let (name, alias) = renamed(item);
                    names.imports_everything |= name == "*";
                    names.imported.extend(leading_name(alias.unwrap_or(name)));
                }
            }
            // A type alias. Without a name and `=`, `type` is an ordinary identifier.
            "type" if rest.contains('=') && leading_name(rest).is_some() => {
                names.defined.extend(leading_name(rest));
            }
            _ => names.defined.extend(targets(&text)),
        }
    }
    names
}

/// Splits `a as b`.
fn renamed(item: &str) -> (&str, Option<&str>) {
    let mut words = item.split_whitespace();
    let name = words.next().unwrap_or_default();
    (name, words.nth(1))
}

/// The identifier at the beginning of a text.
fn leading_name(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let is_name = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_name.then(|| text[..end].to_owned())
}

/// The names that a statement assigns to or annotates.
fn targets(text: &str) -> Vec<String> {
    const KEYWORDS: [&str; 5] = ["else", "except", "finally", "lambda", "try"];
    let mut sides = assigned(text);
    if sides.len() == 1 {
        // Matches `name: type`, and no statements such as `else:`.
        let Some((name, kind)) = text.split_once(':') else { return Vec::new() };
        let is_annotation = !kind.trim().is_empty() && !KEYWORDS.contains(&name.trim());
        return if is_annotation { whole_name(name).into_iter().collect() } else { Vec::new() };
    }
    sides.pop();
    let names = sides.iter().flat_map(|side| {
        let side = side.split_once(':').map_or(*side, |(name, _)| name);
        side.split(',').filter_map(whole_name)
    });
    names.collect()
}

/// Splits a statement at its assignment operators outside of brackets.
fn assigned(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let is_comparison = bytes.get(at + 1) == Some(&b'=')
            || before.is_some_and(|byte| b"=!<>:+-*/%&|^@".contains(&byte));
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'=' if depth == 0 && !is_comparison => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Returns the identifier if the text is one, ignoring brackets and a star.
fn whole_name(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "()[]*".contains(c));
    leading_name(text).filter(|name| name == text)
}

/// Splits a text into statements.
fn statements(text: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut now = Statement::default();
    let mut depth = 0_usize;
    let mut is_indent = true;
    let mut rest = text;
    let end = |now: &mut Statement, statements: &mut Vec<Statement>, indent| {
        let done = std::mem::replace(now, Statement { indent, text: String::new() });
        let text = done.text.trim().to_owned();
        if !text.is_empty() {
            statements.push(Statement { indent: done.indent, text });
        }
    };
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '\n' | '\r' if depth == 0 => {
                end(&mut now, &mut statements, 0);
                is_indent = true;
            }
            ' ' | '\t' if is_indent && depth == 0 => now.indent += 1,
            '#' => length = rest.find('\n').unwrap_or(rest.len()),
            '\\' => length += rest[1..].chars().next().map_or(0, char::len_utf8),
            '"' | '\'' => {
                length = string(rest);
                now.text.push_str("''");
                is_indent = false;
            }
            ';' if depth == 0 => {
                let indent = now.indent;
                end(&mut now, &mut statements, indent);
            }
            _ => {
                match first {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                now.text.push(if first.is_whitespace() { ' ' } else { first });
                is_indent = false;
            }
        }
        rest = &rest[length..];
    }
    end(&mut now, &mut statements, 0);
    statements
}

/// The length of the string literal at the beginning of a text; all of the text if it is not
/// closed.
fn string(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let (mark, is_long) =
        if text.starts_with(&triple) { (triple.as_str(), true) } else { (quote, false) };
    let mut at = mark.len();
    while let Some(next) = text[at..].chars().next() {
        match next {
            '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            '\n' if !is_long => return at,
            _ if text[at..].starts_with(mark) => return at + mark.len(),
            next => at += next.len_utf8(),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"
"""Docs.
def not_this(): pass
"""
from __future__ import annotations
import os, a.b as c, d.e
from .x import (one,  # first
    two as second,
)
from y import three; FOUR = 4
@decorator(name="x = 1")
def five(a=1, *, b: int = 2) -> None:
    inner = "def no(): pass"
    def nested(): pass
async def six(): pass
class Seven(Base, key=1):
    eight = 8
    def method(self): pass
NINE: int = 9
TEN: "str"
eleven = twelve = f(x=1)
(thirteen, *fourteen) = 1, 2
fifteen[0] = sixteen.x = 1
seventeen += 1
print(end="")
long = \
    18
if TYPE_CHECKING:
    from z import nineteen
else:
    nineteen = None
try:
    import twenty
except ImportError:
    def twentyone():
        no = 1
text = '# no' + "it's \" x = 1"
type Alias = int
assert a == b, c != d
match value:
    case 1: pass
"#;

    #[test]
    fn bound_names_are_found() {
        let found = names(MODULE);
        let words = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(&found.defined),
            "Alias FOUR NINE Seven TEN eleven five fourteen long nineteen six text thirteen twelve \
             twentyone"
        );
        assert_eq!(words(&found.imported), "annotations c d nineteen one os second three twenty");
        assert!(!found.imports_everything);
        assert!(names("from a import *").imports_everything);
    }

    #[test]
    fn malformed_text_ends() {
        for text in ["\"\"\"", "'\\", "(((", "\\", "x = '\n", "é = 'ß\\ß'", "\u{feff}a = 1", "a;;b"]
        {
            names(text);
        }
    }
}
