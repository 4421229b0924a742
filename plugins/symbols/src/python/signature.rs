//! Formats a definition without its body, on one line.

use ruff_python_ast::{Expr, Parameter, ParameterWithDefault, Stmt, StmtClassDef, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use crate::outline::{one_line, shortened};

/// The maximum length of a variable's value, in characters.
const MAX_VALUE_CHARS: usize = 100;

/// The source text of a node, on one line.
pub fn written(text: &str, range: TextRange) -> String {
    one_line(text.get(range.start().to_usize()..range.end().to_usize()).unwrap_or_default())
}

/// Formats a function: `async def name[T](a: int, *, b=1) -> str`.
pub fn function(text: &str, function: &StmtFunctionDef) -> String {
    let parameters = &function.parameters;
    let mut parts = Vec::new();
    let with_default = |parameter: &ParameterWithDefault| {
        let shown = plain(text, &parameter.parameter);
        match &parameter.default {
            None => shown,
            Some(value) if parameter.parameter.annotation.is_some() => {
                format!("{shown} = {}", written(text, value.range()))
            }
            Some(value) => format!("{shown}={}", written(text, value.range())),
        }
    };
    parts.extend(parameters.posonlyargs.iter().map(with_default));
    if !parameters.posonlyargs.is_empty() {
        parts.push("/".to_owned());
    }
    parts.extend(parameters.args.iter().map(with_default));
    match &parameters.vararg {
        Some(rest) => parts.push(format!("*{}", plain(text, rest))),
        None if !parameters.kwonlyargs.is_empty() => parts.push("*".to_owned()),
        None => {}
    }
    parts.extend(parameters.kwonlyargs.iter().map(with_default));
    if let Some(rest) = &parameters.kwarg {
        parts.push(format!("**{}", plain(text, rest)));
    }
    let start = if function.is_async { "async def" } else { "def" };
    let types = function.type_params.as_deref().map(|types| written(text, types.range()));
    let returns = function
        .returns
        .as_deref()
        .map(|returns| format!(" -> {}", written(text, returns.range())));
    format!(
        "{start} {}{}({}){}",
        function.name,
        types.unwrap_or_default(),
        parts.join(", "),
        returns.unwrap_or_default()
    )
}

fn plain(text: &str, parameter: &Parameter) -> String {
    match &parameter.annotation {
        Some(annotation) => format!("{}: {}", parameter.name, written(text, annotation.range())),
        None => parameter.name.to_string(),
    }
}

/// Formats a class: `class Name[T](Base, metaclass=Meta)`.
pub fn class(text: &str, class: &StmtClassDef) -> String {
    let types = class.type_params.as_deref().map(|types| written(text, types.range()));
    let bases = class.arguments.as_deref().map(|bases| written(text, bases.range()));
    format!("class {}{}{}", class.name, types.unwrap_or_default(), bases.unwrap_or_default())
}

/// Formats a variable: `NAME: int = 3`; a long value is cut.
pub fn variable(text: &str, name: &str, statement: &Stmt) -> String {
    let value = |value: &Expr| shortened(&written(text, value.range()), MAX_VALUE_CHARS);
    match statement {
        Stmt::AnnAssign(assign) => {
            let annotation = written(text, assign.annotation.range());
            match &assign.value {
                Some(bound) => format!("{name}: {annotation} = {}", value(bound)),
                None => format!("{name}: {annotation}"),
            }
        }
        Stmt::Assign(assign) => format!("{name} = {}", value(&assign.value)),
        Stmt::TypeAlias(alias) => {
            let types = alias.type_params.as_deref().map(|types| written(text, types.range()));
            format!("type {name}{} = {}", types.unwrap_or_default(), value(&alias.value))
        }
        _ => name.to_owned(),
    }
}
