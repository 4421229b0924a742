//! Checks how a script calls tools, before it runs: names of tools and keywords, missing keywords, and
//! literals of the wrong type. It follows no values, so it finds only what is wrong in any case.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprCall, ExprContext, ExprName, Parameters, Stmt, StmtClassDef,
    StmtFunctionDef,
};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged as _, TextSize};

use crate::calls::{Calls, nearest};
use crate::types::Type;

/// The largest number of problems that are reported.
const MAX_PROBLEMS: usize = 10;

/// Checks a script. Returns one line for each problem: `line 3, column 5: ...`. A script that can't be
/// parsed has none: the interpreter reports why.
pub fn check(code: &str, calls: &mut Calls<'_>) -> Vec<String> {
    let Ok(parsed) = parse_module(code) else { return Vec::new() };
    let body = &parsed.syntax().body;
    let mut check = Check { code, calls, bound: bound(body), problems: Vec::new() };
    check.visit_body(body);
    check.problems.truncate(MAX_PROBLEMS);
    check.problems
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

struct Check<'a, 'b> {
    code: &'a str,
    calls: &'a mut Calls<'b>,
    bound: BTreeSet<String>,
    problems: Vec<String>,
}

impl<'a> Visitor<'a> for Check<'_, '_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
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

impl Check<'_, '_> {
    /// The tool that an attribute of a module stands for; `Some(None)` if there is no such tool, which
    /// is a problem, and `None` if it is no attribute of a module.
    fn tool(&mut self, attribute: &ExprAttribute) -> Option<Option<String>> {
        let Expr::Name(module) = &*attribute.value else { return None };
        let module = module.id.as_str();
        if self.bound.contains(module) || !self.calls.modules().contains_key(module) {
            return None;
        }
        match self.calls.function(module, attribute.attr.as_str()) {
            Ok(tool) => Some(Some(tool)),
            Err(problem) => {
                self.add(attribute.attr.start(), &problem);
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
                    let advice = match near {
                        Some(near) => format!("did you mean {near}?"),
                        None => format!("it takes {}", signature.keywords()),
                    };
                    problems
                        .push((name.start(), format!("{tool} has no keyword '{name}'; {advice}")));
                }
                continue;
            };
            given.insert(signature.aliases.get(name.as_str()).unwrap_or(&field.name).as_str());
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
        for (place, problem) in problems {
            self.add(place, &problem);
        }
    }

    fn add(&mut self, place: TextSize, problem: &str) {
        let before = &self.code[..place.to_usize()];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        let line = format!("line {line}, column {column}: {problem}");
        if !self.problems.contains(&line) {
            self.problems.push(line);
        }
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
