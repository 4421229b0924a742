//! Python: the outline of a file, and the facts needed to follow calls.
//!
//! The parser is ruff's. It recovers from syntax errors, so that a file that is being edited still
//! has its symbols.

pub mod facts;
pub mod resolve;
pub mod routes;
mod signature;
mod walk;

use crate::outline::{Lines, Outline, Problem};
use facts::Model;

/// The definitions in a file.
pub fn outline(text: &str) -> Outline {
    model(text).outline
}

/// The definitions in a file, and the facts needed to follow calls.
pub fn model(text: &str) -> Model {
    let options = ruff_python_parser::ParseOptions::from(ruff_python_parser::Mode::Module);
    let parsed = ruff_python_parser::parse_unchecked(text, options);
    let lines = Lines::new(text);
    let problem = parsed.errors().first().map(|error| Problem {
        line: lines.line(error.location.start().to_usize()),
        message: error.error.to_string(),
    });
    let body = match parsed.syntax() {
        ruff_python_ast::Mod::Module(module) => &module.body[..],
        ruff_python_ast::Mod::Expression(_) => &[],
    };
    let mut model = walk::walk(text, &lines, body);
    model.outline.problem = problem;
    model
}

#[cfg(test)]
mod tests;
