//! Outlines of Go files, by gosyn's parser.

use std::rc::Rc;

use gosyn::LexicalToken;
use gosyn::ast::{Comment, ConstSpec, Declaration, Expression, Field, FuncDecl, TypeSpec, VarSpec};
use gosyn::token::{Operator, Token};

use crate::outline::{Builder, Found, Kind, Outline, Problem, comment, one_line, shortened};

/// The maximum length of a variable's value in a signature, in characters.
const MAX_VALUE_CHARS: usize = 160;

/// The definitions in a file.
pub fn outline(text: &str) -> Outline {
    let file = match gosyn::parse_source(text) {
        Ok(file) => file,
        Err(error) => return broken(&error),
    };
    let tokens = match gosyn::tokenize_source(text) {
        Ok(tokens) => tokens,
        Err(error) => return broken(&error),
    };
    let mut walker =
        Walker { text, offsets: Offsets::new(text), tokens, builder: Builder::new(text) };
    walker.builder.outline.package = Some(file.pkg_name.name.clone());
    walker.builder.outline.doc = documentation(&file.docs);
    for declaration in &file.decl {
        walker.declaration(declaration);
    }
    walker.builder.finish()
}

/// An outline with only the parser's error.
fn broken(error: &anyhow::Error) -> Outline {
    // This version of the parser reports the previous line, except for line 1.
    let (line, message) = match error.downcast_ref() {
        Some(gosyn::Error::UnexpectedToken { location, expect, actual, .. }) => {
            let found = actual.as_ref().map_or("the end".to_owned(), |token| format!("{token:?}"));
            (location.0 + 1, format!("expected {expect:?}, found {found}"))
        }
        Some(gosyn::Error::Else { location, reason, .. }) => (location.0 + 1, reason.clone()),
        _ => (1, error.to_string()),
    };
    Outline { problem: Some(Problem { line, message: one_line(&message) }), ..Outline::default() }
}

/// Converts the parser's offsets, which are in characters, to bytes.
struct Offsets {
    /// The byte offset of each character; `None` for ASCII text.
    starts: Option<Vec<usize>>,
    length: usize,
}

impl Offsets {
    fn new(text: &str) -> Self {
        let starts = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { starts, length: text.len() }
    }

    fn byte(&self, character: usize) -> usize {
        match &self.starts {
            None => character.min(self.length),
            Some(starts) => starts.get(character).copied().unwrap_or(self.length),
        }
    }
}

struct Walker<'t> {
    text: &'t str,
    offsets: Offsets,
    tokens: Vec<LexicalToken>,
    builder: Builder<'t>,
}

impl Walker<'_> {
    fn declaration(&mut self, declaration: &Declaration) {
        match declaration {
            Declaration::Function(function) => self.function(function),
            Declaration::Type(types) => {
                let group = types.pos1.is_none().then_some(types.pos0);
                for spec in &types.specs {
                    let docs = if group.is_some() { &types.docs } else { &spec.docs };
                    self.type_spec(spec, group, docs);
                }
            }
            Declaration::Const(constants) => {
                let group = constants.pos1.is_none().then_some(constants.pos0);
                for ConstSpec { docs, name, .. } in &constants.specs {
                    let docs = if group.is_some() { &constants.docs } else { docs };
                    self.names(name, Kind::Constant, ("const", group), docs);
                }
            }
            Declaration::Variable(variables) => {
                let group = variables.pos1.is_none().then_some(variables.pos0);
                for VarSpec { docs, name, .. } in &variables.specs {
                    let docs = if group.is_some() { &variables.docs } else { docs };
                    self.names(name, Kind::Variable, ("var", group), docs);
                }
            }
        }
    }

    fn function(&mut self, function: &FuncDecl) {
        // The position of the type is that of the keyword `func` or, with a receiver, of the name.
        let name = function.name.pos;
        let start = self.keyword_before(name);
        let (end, head) = match &function.body {
            Some(body) => (body.pos.1 + 1, body.pos.0),
            None => {
                let end = self.statement_end(name);
                (end, end)
            }
        };
        let receiver = function.recv.as_ref().and_then(|list| list.list.first());
        let receiver = receiver.and_then(|field| type_name(&field.typ));
        let kind = if receiver.is_some() { Kind::Method } else { Kind::Function };
        let public =
            is_exported(&function.name.name) && receiver.as_deref().is_none_or(is_exported);
        if let Some(receiver) = &receiver {
            self.builder.enter(receiver, false);
        }
        let found = Definition { name: &function.name.name, kind, start, head, end, public };
        self.add(&found, "", &function.docs);
        if receiver.is_some() {
            self.builder.leave(false);
        }
    }

    fn type_spec(&mut self, spec: &TypeSpec, group: Option<usize>, docs: &[Rc<Comment>]) {
        let start = group.unwrap_or(spec.name.pos);
        let end = self.statement_end(spec.name.pos);
        let (kind, head) = match &spec.typ {
            Expression::TypeStruct(declared) => (Kind::Struct, declared.pos.0),
            Expression::TypeInterface(declared) => {
                (Kind::Interface, declared.methods.pos.map_or(end, |(open, _)| open))
            }
            _ => (Kind::Type, end),
        };
        let public = is_exported(&spec.name.name);
        let keyword = if group.is_some() { "" } else { "type " };
        let name = spec.name.name.as_str();
        self.add(&Definition { name, kind, start, head, end, public }, keyword, docs);
        let (fields, kind) = match &spec.typ {
            Expression::TypeStruct(declared) => (&declared.fields, Kind::Field),
            Expression::TypeInterface(declared) => (&declared.methods.list, Kind::Method),
            _ => return,
        };
        self.builder.enter(name, false);
        for Field { name: names, comments, .. } in fields {
            for name in names {
                let start = names[0].pos;
                let end = self.statement_end(name.pos);
                let public = public && is_exported(&name.name);
                let name = name.name.as_str();
                let found = Definition { name, kind, start, head: end, end, public };
                let before: Vec<Rc<Comment>> =
                    comments.iter().filter(|comment| comment.pos < start).cloned().collect();
                self.add(&found, "", &before);
            }
        }
        self.builder.leave(false);
    }

    fn names(
        &mut self,
        names: &[gosyn::ast::Ident],
        kind: Kind,
        (keyword, group): (&str, Option<usize>),
        docs: &[Rc<Comment>],
    ) {
        let Some(first) = names.first() else {
            return;
        };
        let start = group.unwrap_or(first.pos);
        let end = self.statement_end(first.pos);
        let keyword = if group.is_some() { String::new() } else { format!("{keyword} ") };
        for name in names {
            let public = is_exported(&name.name);
            let found = Definition { name: &name.name, kind, start, head: end, end, public };
            self.add(&found, &keyword, docs);
        }
    }

    fn add(&mut self, found: &Definition<'_>, keyword: &str, docs: &[Rc<Comment>]) {
        let start = self.offsets.byte(found.start);
        let (head, end) = (self.offsets.byte(found.head), self.offsets.byte(found.end));
        let signature = self.text.get(start..head).unwrap_or_default().trim();
        let signature = format!("{keyword}{}", signature.trim_end_matches('{').trim_end());
        let signature = if found.head == found.end {
            shortened(&one_line(&signature), MAX_VALUE_CHARS)
        } else {
            signature
        };
        let first = docs.first().map_or(start, |doc| self.offsets.byte(doc.pos).min(start));
        self.builder.add(Found {
            name: found.name,
            kind: found.kind,
            span: first..end,
            start,
            signature,
            doc: documentation(docs),
            decorators: Vec::new(),
            public: found.public,
        });
    }

    /// The offset of the keyword `func` before a function's name.
    fn keyword_before(&self, name: usize) -> usize {
        let before = self.tokens.partition_point(|token| token.start < name);
        let keyword = self.tokens[..before]
            .iter()
            .rev()
            .find(|token| matches!(&token.token, Token::Keyword(gosyn::token::Keyword::Func)));
        keyword.map_or(name, |keyword| keyword.start)
    }

    /// The end of the statement that contains `from`: at the end of a line without brackets opened
    /// since, before `;` or before a closing bracket.
    fn statement_end(&self, from: usize) -> usize {
        let first = self.tokens.partition_point(|token| token.start < from);
        let mut depth = 0_usize;
        let mut end = from;
        for token in &self.tokens[first..] {
            if matches!(token.token, Token::Comment(_)) {
                continue;
            }
            if depth == 0 && end > from && self.ends_line(end, token.start) {
                break;
            }
            match &token.token {
                Token::Operator(
                    Operator::ParenLeft | Operator::BraceLeft | Operator::BarackLeft,
                ) => {
                    depth += 1;
                }
                Token::Operator(
                    Operator::ParenRight | Operator::BraceRight | Operator::BarackRight,
                ) => {
                    if depth == 0 {
                        break;
                    }
                    depth -= 1;
                }
                Token::Operator(Operator::SemiColon) if depth == 0 => break,
                _ => {}
            }
            end = token.end;
        }
        end
    }

    /// Whether a statement ends between two tokens: at a line's end, unless the last token is an
    /// operator.
    fn ends_line(&self, end: usize, next: usize) -> bool {
        let (end, next) = (self.offsets.byte(end), self.offsets.byte(next));
        let between = self.text.get(end..next).unwrap_or_default();
        if !between.contains('\n') {
            return false;
        }
        let last = self.text[..end].chars().next_back();
        last.is_none_or(|last| {
            last.is_alphanumeric() || matches!(last, '_' | ')' | ']' | '}' | '"' | '\'' | '`')
        }) || self.text[..end].ends_with("++")
            || self.text[..end].ends_with("--")
    }
}

struct Definition<'a> {
    name: &'a str,
    kind: Kind,
    /// Offsets in characters, as in the whole struct.
    start: usize,
    /// The offset of its body, or its end.
    head: usize,
    end: usize,
    public: bool,
}

/// The name of a receiver's type.
fn type_name(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Ident(name) => Some(name.name.clone()),
        Expression::TypePointer(pointer) => type_name(&pointer.typ),
        Expression::Star(pointer) => type_name(&pointer.right),
        Expression::Paren(inner) => type_name(&inner.expr),
        Expression::Index(generic) => type_name(&generic.left),
        Expression::IndexList(generic) => type_name(&generic.left),
        _ => None,
    }
}

fn is_exported(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

fn documentation(comments: &[Rc<Comment>]) -> Option<String> {
    let lines: Vec<String> = comments.iter().map(|one| comment(&one.text)).collect();
    let doc = lines.join("\n").trim().to_owned();
    (!doc.is_empty()).then_some(doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Go file with definitions of every kind.
    const GO: &str = r#"// Package files handles files.
package files

import "fmt"

// Load loads a file.
//
// In full.
func Load(name string, modes ...int) (map[string]int, error) {
	inner := func() {}
	inner()
	return nil, nil
}

// Größe ö.
const Limit = 3

const (
	// First is first.
	First Kind = iota
	second
)

var a, B = 1, `x
y`

type Kind int

type (
	Store struct {
		// Name is it.
		Name string `json:"name"`
		x, Y int
		fmt.Stringer
	}
	Reader interface {
		Read(p []byte) (int, error)
		fmt.Stringer
	}
)

func (s *Store) Get(key string) string { return s.Name }

func (p Pair[K, V]) First() K { return p.k }

type Pair[K comparable, V any] struct{ k K }

func Map[T, U any](in []T, f func(T) U) []U {
	return nil
}
"#;

    #[test]
    fn go_symbols_are_found() {
        let text = GO;
        let outline = outline(text);
        assert_eq!(outline.package.as_deref(), Some("files"));
        outline.has(&[
            ("Load", Kind::Function, 9, 13, true),
            ("Limit", Kind::Constant, 16, 16, true),
            ("First", Kind::Constant, 20, 20, true),
            ("second", Kind::Constant, 21, 21, false),
            ("a", Kind::Variable, 24, 25, false),
            ("B", Kind::Variable, 24, 25, true),
            ("Kind", Kind::Type, 27, 27, true),
            ("Store", Kind::Struct, 30, 35, true),
            ("Store.Name", Kind::Field, 32, 32, true),
            ("Store.x", Kind::Field, 33, 33, false),
            ("Store.Y", Kind::Field, 33, 33, true),
            ("Reader", Kind::Interface, 36, 39, true),
            ("Reader.Read", Kind::Method, 37, 37, true),
            ("Store.Get", Kind::Method, 42, 42, true),
            ("Pair.First", Kind::Method, 44, 44, true),
            ("Pair", Kind::Struct, 46, 46, true),
            ("Pair.k", Kind::Field, 46, 46, false),
            ("Map", Kind::Function, 48, 50, true),
        ]);

        let load = &outline.symbols[0];
        assert_eq!(load.doc.as_deref(), Some("Load loads a file.\n\nIn full."));
        assert_eq!(load.start_line, 6);
        for (name, signature) in [
            ("Load", "func Load(name string, modes ...int) (map[string]int, error)"),
            ("Limit", "const Limit = 3"),
            ("First", "const First Kind = iota"),
            ("Kind", "type Kind int"),
            ("Store", "type Store struct"),
            ("Store.Get", "func (s *Store) Get(key string) string"),
            ("Map", "func Map[T, U any](in []T, f func(T) U) []U"),
        ] {
            let symbol = outline.symbols.iter().find(|symbol| symbol.qualified() == name);
            assert_eq!(symbol.map(|symbol| symbol.signature.as_str()), Some(signature));
        }
    }

    #[test]
    fn syntax_errors_have_a_line() {
        let outline = outline("package a\n\nfunc good() {}\nfunc bad( {\n}\n");
        assert_eq!(outline.problem.as_ref().map(|problem| problem.line), Some(4), "{outline:?}");
    }
}
