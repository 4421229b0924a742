//! Checks how a script calls tools, before it runs: names of tools and keywords, missing keywords, and
//! literals of the wrong type. What follows values is left to the type checker ([`typed`]). Both find only
//! what is wrong in any case.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ExceptHandler, Expr, ExprAttribute, ExprCall, ExprContext, ExprName, ExprSubscript, Parameters,
    Pattern, Stmt, StmtClassDef, StmtFunctionDef,
};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use crate::calls::{Calls, nearest};
use crate::typed::{self, Argument};
use crate::types::Type;

/// The largest number of problems that are reported.
const MAX_PROBLEMS: usize = 10;

/// What is wrong with a script.
#[derive(Debug, Default)]
pub struct Checked {
    /// One line for each problem: `line 3, column 5: ...`.
    pub problems: Vec<String>,
    /// What the author should know about the check.
    pub note: Option<String>,
}

/// Checks a script that has these variables. A script that can't be parsed has no problems: the
/// interpreter reports why.
pub fn check(code: &str, variables: &[String], calls: &mut Calls<'_>) -> Checked {
    let Ok(parsed) = parse_module(code) else { return Checked::default() };
    let body = &parsed.syntax().body;
    let mut bound = bound(body);
    bound.extend(variables.iter().cloned());
    let mut look = Check { code, bound, ..Check::new(calls) };
    look.visit_body(body);
    let mut note = None;
    if !look.used.is_empty() {
        let (found, said) = typed::check(&mut look, variables);
        note = said;
        // One problem of a line is enough: the checker says the same in other words.
        let lines: BTreeSet<usize> = look
            .problems
            .iter()
            .take(MAX_PROBLEMS)
            .map(|(place, _)| line_of(code, *place))
            .collect();
        let is_new = |(place, _): &(TextSize, String)| !lines.contains(&line_of(code, *place));
        look.problems.extend(found.into_iter().take(MAX_PROBLEMS).filter(is_new));
    }
    let mut problems: Vec<String> = Vec::new();
    look.problems.sort_by_key(|(place, _)| *place);
    look.problems.dedup();
    for (place, problem) in look.problems.into_iter().take(MAX_PROBLEMS) {
        problems.push(shown(code, place, &problem));
    }
    Checked { problems, note }
}

/// The number of the line of a place.
fn line_of(code: &str, place: TextSize) -> usize {
    code[..place.to_usize()].matches('\n').count() + 1
}

/// A problem with its place.
fn shown(code: &str, place: TextSize, problem: &str) -> String {
    let before = &code[..place.to_usize()];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    format!("line {}, column {column}: {problem}", line_of(code, place))
}

/// The names that a script gives a value anywhere: they may not be modules of tools.
pub fn bound(body: &[Stmt]) -> BTreeSet<String> {
    let mut bound = Bound::default();
    bound.visit_body(body);
    bound.names
}

#[derive(Debug, Default)]
struct Bound {
    names: BTreeSet<String>,
}

impl<'a> Visitor<'a> for Bound {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(StmtFunctionDef { name, .. })
            | Stmt::ClassDef(StmtClassDef { name, .. }) => {
                self.names.insert(name.to_string());
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.names.insert(name.split('.').next().unwrap_or_default().to_owned());
                }
            }
            Stmt::ImportFrom(import) => {
                let names = import.names.iter();
                let names = names.map(|alias| alias.asname.as_ref().unwrap_or(&alias.name));
                self.names.extend(names.map(ToString::to_string));
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(one) = handler;
        self.names.extend(one.name.iter().map(ToString::to_string));
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(one) => one.name.as_ref(),
            Pattern::MatchStar(one) => one.name.as_ref(),
            Pattern::MatchMapping(one) => one.rest.as_ref(),
            _ => None,
        };
        self.names.extend(name.map(ToString::to_string));
        visitor::walk_pattern(self, pattern);
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        self.names.extend(parameters.iter().map(|parameter| parameter.name().to_string()));
        visitor::walk_parameters(self, parameters);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(ExprName { id, ctx: ExprContext::Store | ExprContext::Del, .. }) = expr {
            self.names.insert(id.to_string());
        }
        visitor::walk_expr(self, expr);
    }
}

/// A look at a script: its problems, and what the type checker needs to know.
pub struct Check<'a, 'b> {
    /// The script.
    pub code: &'a str,
    /// The tools.
    pub calls: &'a mut Calls<'b>,
    bound: BTreeSet<String>,
    /// The tools that the script names, by module and function.
    pub used: BTreeMap<String, BTreeMap<String, String>>,
    /// The arguments of calls of tools, of nested calls after those around them.
    pub arguments: Vec<Argument>,
    /// Where the calls of tools are.
    pub tool_calls: Vec<TextRange>,
    /// Texts that may be keys which the script itself stores: all but those that it only reads by.
    pub stored: BTreeSet<String>,
    /// The bodies of `try` whose handlers catch wrong uses of values.
    pub handled: Vec<TextRange>,
    /// Whether functions give values to names outside of them, which the type checker does not follow.
    pub rebinds: bool,
    /// Whether the script awaits calls.
    pub is_async: bool,
    problems: Vec<(TextSize, String)>,
}

impl<'a> Visitor<'a> for Check<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(StmtFunctionDef { is_async, .. }) => self.is_async |= *is_async,
            Stmt::Global(_) | Stmt::Nonlocal(_) => self.rebinds = true,
            Stmt::Try(one) if one.handlers.iter().any(catches_wrong_values) => {
                if let (Some(first), Some(last)) = (one.body.first(), one.body.last()) {
                    self.handled.push(TextRange::new(first.start(), last.end()));
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Subscript(ExprSubscript { value, slice, ctx: ExprContext::Load, .. }) = expr
            && slice.is_string_literal_expr()
        {
            return self.visit_expr(value);
        }
        self.note(expr);
        if let Expr::Call(call) = expr
            && let Expr::Attribute(function) = &*call.func
            && let Some(tool) = self.tool(function)
        {
            if let Some(tool) = tool {
                self.tool_calls.push(call.range());
                self.arguments(&tool, call);
            }
            visitor::walk_arguments(self, &call.arguments);
            return;
        }
        if let Expr::Attribute(function) = expr
            && self.tool(function).is_some()
        {
            return;
        }
        visitor::walk_expr(self, expr);
    }
}

impl<'a, 'b> Check<'a, 'b> {
    fn new(calls: &'a mut Calls<'b>) -> Self {
        Self {
            code: "",
            calls,
            bound: BTreeSet::new(),
            used: BTreeMap::new(),
            arguments: Vec::new(),
            tool_calls: Vec::new(),
            handled: Vec::new(),
            rebinds: false,
            stored: BTreeSet::new(),
            is_async: false,
            problems: Vec::new(),
        }
    }

    /// Notes what the type checker needs to know.
    fn note(&mut self, expr: &Expr) {
        match expr {
            Expr::Await(_) => self.is_async = true,
            Expr::StringLiteral(text) => {
                self.stored.insert(text.value.to_str().to_owned());
            }
            Expr::Call(ExprCall { func, arguments, .. }) => {
                if let Expr::Attribute(method) = &**func
                    && method.attr.as_str() == "update"
                {
                    let names =
                        arguments.keywords.iter().filter_map(|keyword| keyword.arg.as_ref());
                    self.stored.extend(names.map(ToString::to_string));
                }
            }
            _ => {}
        }
    }

    /// The tool that an attribute of a module stands for; `Some(None)` if there is no such tool, which
    /// is a problem, and `None` if it is no attribute of a module.
    fn tool(&mut self, attribute: &ExprAttribute) -> Option<Option<String>> {
        let Expr::Name(module) = &*attribute.value else { return None };
        let module = module.id.as_str();
        if self.bound.contains(module) || !self.calls.modules().contains_key(module) {
            return None;
        }
        match self.calls.function(module, attribute.attr.as_str()) {
            Ok(tool) => {
                let functions = self.used.entry(module.to_owned()).or_default();
                functions.insert(attribute.attr.to_string(), tool.clone());
                Some(Some(tool))
            }
            Err(problem) => {
                self.problems.push((attribute.attr.start(), problem));
                Some(None)
            }
        }
    }

    fn arguments(&mut self, tool: &str, call: &ExprCall) {
        let signature = self.calls.signature(tool);
        let mut problems: Vec<(TextSize, String)> = Vec::new();
        if let Some(first) = call.arguments.args.first() {
            let keywords = signature.keywords();
            problems.push((first.start(), format!("keywords only: {tool}({keywords})")));
        }
        let mut is_complete = true;
        let mut given = BTreeSet::new();
        for keyword in &call.arguments.keywords {
            let Some(name) = &keyword.arg else {
                is_complete = false;
                continue;
            };
            let Some(field) = signature.fields.get(name.as_str()) else {
                if !signature.is_open {
                    let near = nearest(name, signature.fields.keys().map(String::as_str));
                    // It is meant, so it is not missing.
                    given.extend(near.and_then(|near| signature.own_name(near)));
                    let advice = match near {
                        Some(near) => format!("did you mean {near}?"),
                        None => format!("it takes {}", signature.keywords()),
                    };
                    problems
                        .push((name.start(), format!("{tool} has no keyword '{name}'; {advice}")));
                }
                continue;
            };
            self.arguments.push(Argument {
                range: keyword.range(),
                value: keyword.value.start(),
                name: format!("{tool}: {name}"),
                wanted: crate::signature::shown(&field.value),
            });
            given.extend(signature.own_name(name));
            if let Some(found) = found(&keyword.value)
                && !fits(&field.value, found)
            {
                let wanted = crate::signature::shown(&field.value);
                let problem = format!("{tool}: {name} is {wanted}, and not {found}");
                problems.push((keyword.value.start(), problem));
            }
        }
        let missing = signature.fields.iter().filter(|(_, field)| field.is_required);
        let missing: Vec<&str> = missing
            .filter(|(_, field)| !given.contains(field.name.as_str()))
            .map(|(name, _)| name.as_str())
            .collect();
        if is_complete && !missing.is_empty() && !signature.is_open {
            problems.push((call.start(), format!("{tool} needs {}=...", missing.join("=..., "))));
        }
        self.problems.append(&mut problems);
    }
}

/// Whether a handler catches what a wrong use of a value raises.
fn catches_wrong_values(handler: &ExceptHandler) -> bool {
    const CAUGHT: [&str; 8] = [
        "AttributeError",
        "BaseException",
        "Exception",
        "IndexError",
        "KeyError",
        "LookupError",
        "TypeError",
        "ValueError",
    ];
    let ExceptHandler::ExceptHandler(handler) = handler;
    let is_caught = |kind: &Expr| match kind {
        Expr::Name(name) => CAUGHT.contains(&name.id.as_str()),
        _ => true,
    };
    match handler.type_.as_deref() {
        None => true,
        Some(Expr::Tuple(kinds)) => kinds.iter().any(is_caught),
        Some(kind) => is_caught(kind),
    }
}

/// The type of a literal.
fn found(value: &Expr) -> Option<&'static str> {
    Some(match value {
        Expr::StringLiteral(_) | Expr::FString(_) => "str",
        Expr::BooleanLiteral(_) => "bool",
        Expr::NoneLiteral(_) => "None",
        Expr::NumberLiteral(number) if number.value.is_int() => "int",
        Expr::NumberLiteral(number) if number.value.is_float() => "float",
        Expr::List(_) | Expr::ListComp(_) => "list",
        Expr::Dict(_) | Expr::DictComp(_) => "dict",
        _ => return None,
    })
}

/// Whether a value of this type can be of another one. The host takes None for what may be left out.
fn fits(wanted: &Type, found: &str) -> bool {
    match wanted {
        Type::Any => true,
        Type::Simple(name) => {
            let are_numbers = ["int", "float"].contains(name) && ["int", "float"].contains(&found);
            *name == found || found == "None" || are_numbers
        }
        Type::Literal(_) => !matches!(found, "list" | "dict"),
        Type::List(_) => matches!(found, "list" | "None"),
        Type::Dict(_) | Type::Object(_) => matches!(found, "dict" | "None"),
        Type::Union(types) => types.iter().any(|one| fits(one, found)),
    }
}
