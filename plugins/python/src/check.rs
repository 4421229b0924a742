//! Checks how a script calls tools, before it runs: names of tools and keywords, missing keywords, and
//! literals of the wrong type. What follows values is left to the type checker ([`typed`]). Both find only
//! what is wrong in any case.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprCall, ExprContext, ExprName, ExprSubscript, Parameters, Stmt,
    StmtClassDef, StmtFunctionDef,
};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged as _, TextSize};

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
        let lines: BTreeSet<usize> =
            look.problems.iter().map(|(place, _)| line_of(code, *place)).collect();
        let is_new = |(place, _): &(TextSize, String)| !lines.contains(&line_of(code, *place));
        look.problems.extend(found.into_iter().filter(is_new));
    }
    let mut problems: Vec<String> = Vec::new();
    look.problems.sort_by_key(|(place, _)| *place);
    for (place, problem) in look.problems {
        let line = shown(code, place, &problem);
        if !problems.contains(&line) && problems.len() < MAX_PROBLEMS {
            problems.push(line);
        }
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
    /// The keys that the script itself stores anywhere.
    pub stored: BTreeSet<String>,
    /// Whether the script awaits calls.
    pub is_async: bool,
    problems: Vec<(TextSize, String)>,
}

impl<'a> Visitor<'a> for Check<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::FunctionDef(StmtFunctionDef { is_async, .. }) = stmt {
            self.is_async |= *is_async;
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.note(expr);
        if let Expr::Call(call) = expr
            && let Expr::Attribute(function) = &*call.func
            && let Some(tool) = self.tool(function)
        {
            if let Some(tool) = tool {
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
            stored: BTreeSet::new(),
            is_async: false,
            problems: Vec::new(),
        }
    }

    /// Notes what the type checker needs to know.
    fn note(&mut self, expr: &Expr) {
        let key = match expr {
            Expr::Await(_) => {
                self.is_async = true;
                None
            }
            Expr::Subscript(ExprSubscript { slice, ctx: ExprContext::Store, .. }) => Some(&**slice),
            Expr::Call(ExprCall { func, arguments, .. }) => match &**func {
                Expr::Attribute(method) if method.attr.as_str() == "setdefault" => {
                    arguments.args.first()
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(Expr::StringLiteral(key)) = key {
            self.stored.insert(key.value.to_str().to_owned());
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
            *name == found || found == "None" || (*name == "float" && found == "int")
        }
        Type::Literal(_) => !matches!(found, "list" | "dict"),
        Type::List(_) => matches!(found, "list" | "None"),
        Type::Dict(_) | Type::Object(_) => matches!(found, "dict" | "None"),
        Type::Union(types) => types.iter().any(|one| fits(one, found)),
    }
}
