//! How deep the statements and expressions of a Python file may be nested. The parser and all that
//! follows are recursive, and an instance whose stack is exhausted ends with its call. The depth is
//! bounded by the tokens of a file, which are read without recursion.
//!
//! This module is part of the plugin `ty` as well.

use std::io;

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The deepest nesting that is accepted, in operators. An instance has stack for about 1,900 operators
/// or 500 brackets.
const MAX_DEPTH: usize = 1_200;

/// The depth of a bracket, a lambda or a block, in operators.
const BRACKET_DEPTH: usize = 3;

/// Returns the source of a Python file.
///
/// # Errors
/// An expression or a block of the file is nested too deeply.
pub fn checked(source: String) -> io::Result<String> {
    if is_too_deep(&source) {
        return Err(io::Error::other(format!(
            "it has more than {MAX_DEPTH} nested operators, or {} nested brackets, lambdas or blocks, which are \
             too many to be checked",
            MAX_DEPTH / BRACKET_DEPTH
        )));
    }
    Ok(source)
}

/// Whether the nesting may be too deep.
fn is_too_deep(source: &str) -> bool {
    let mut lexer = lexer::lex(source, Mode::Module);
    let mut depth = Depth::default();
    loop {
        let kind = lexer.next_token();
        if kind == TokenKind::EndOfFile {
            return false;
        }
        if depth.after(kind) > MAX_DEPTH {
            return true;
        }
    }
}

/// An upper bound of the depth at a token.
#[derive(Default)]
struct Depth {
    blocks: usize,
    /// The operators of the current expression in each open bracket, the outermost first.
    brackets: Vec<Operators>,
    /// Those outside of brackets.
    top: Operators,
    /// The sum of all of them, and of the brackets.
    sum: usize,
}

/// Operators that may be nested in each other.
#[derive(Default, Clone, Copy)]
struct Operators {
    others: usize,
    /// Those of lambdas: a comma may stand between their parameters.
    lambdas: usize,
}

impl Depth {
    /// The depth after a token.
    fn after(&mut self, kind: TokenKind) -> usize {
        match kind {
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => {
                // Calls and indices are nested in the ones that follow.
                self.add(1);
                self.brackets.push(Operators::default());
                self.sum += BRACKET_DEPTH - 1;
            }
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => {
                if let Some(Operators { others, lambdas }) = self.brackets.pop() {
                    self.sum -= others + lambdas + BRACKET_DEPTH - 1;
                }
            }
            TokenKind::Comma => {
                let others = std::mem::take(&mut self.current().others);
                self.sum -= others;
            }
            TokenKind::Newline | TokenKind::Semi => {
                let blocks = self.blocks;
                *self = Self { blocks, ..Self::default() };
            }
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Lambda => {
                self.current().lambdas += BRACKET_DEPTH;
                self.sum += BRACKET_DEPTH;
            }
            kind if nests(kind) => self.add(1),
            _ => {}
        }
        self.sum + self.blocks * BRACKET_DEPTH
    }

    fn add(&mut self, count: usize) {
        self.current().others += count;
        self.sum += count;
    }

    fn current(&mut self) -> &mut Operators {
        self.brackets.last_mut().unwrap_or(&mut self.top)
    }
}

/// Whether an operator of this kind can be nested in another one. `and`, `or` and comparisons are
/// lists.
fn nests(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::DoubleSlash
            | TokenKind::DoubleStar
            | TokenKind::Percent
            | TokenKind::At
            | TokenKind::Vbar
            | TokenKind::Amper
            | TokenKind::CircumFlex
            | TokenKind::Tilde
            | TokenKind::LeftShift
            | TokenKind::RightShift
            | TokenKind::Dot
            | TokenKind::Not
            | TokenKind::Await
            | TokenKind::If
            | TokenKind::For
            | TokenKind::FStringStart
            | TokenKind::TStringStart
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_stack_is_refused_and_ordinary_code_is_not() {
        let repeated = |text: &str, count: usize| text.repeat(count);
        let blocks = |count: usize| {
            let lines = (0..count).map(|depth| format!("{}if a:\n", " ".repeat(depth)));
            lines.collect::<String>() + &" ".repeat(count) + "pass\n"
        };
        for (source, is_refused) in [
            (format!("x = 1{}\n", repeated(" + 1", 5_000)), true),
            (format!("x = {}1{}\n", repeated("f(", 450), repeated(")", 450)), true),
            (format!("x = {}1{}\n", repeated("[", 450), repeated("]", 450)), true),
            (format!("x = f{}\n", repeated("()", 1_500)), true),
            (format!("x = {}1\n", repeated("not ", 1_500)), true),
            (format!("x = {}1\n", repeated("lambda a, b: ", 450)), true),
            (format!("x = {}1\n", repeated("1 if 2 else ", 1_500)), true),
            (format!("x = {}1{}\n", repeated("f\"{", 450), repeated("}\"", 450)), true),
            (blocks(450), true),
            (blocks(90), false),
            (format!("x = 1{}\n", repeated(" + 1", 1_000)), false),
            (format!("x = [{}]\n", repeated("f(a.b) + 1, ", 5_000)), false),
            (format!("x = {{{}}}\n", repeated("'a': [1, -2], ", 5_000)), false),
            (repeated("x = a.b(c)[d] + 1\n", 5_000), false),
            (format!("x = a{}\n", repeated(" and b == c", 5_000)), false),
            (format!("if a:\n    pass\n{}", repeated("elif b:\n    pass\n", 5_000)), false),
            (repeated("))]]}}", 500), false),
        ] {
            let start = &source[..30];
            assert_eq!(is_too_deep(&source), is_refused, "{start}");
        }
        let Err(error) = checked(format!("x = 1{}\n", repeated(" + 1", 5_000))) else {
            unreachable!()
        };
        assert!(error.to_string().starts_with("it has more than 1200 nested operators"), "{error}");
    }
}
