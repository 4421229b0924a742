//! What is looked at in a script, and changed, before it runs.
//!
//! Monty has no classes of exceptions of a script's own, and none with other attributes. So `ToolError`
//! becomes the name of the exception that stands for it, and `e.code`, `e.message` and `e.detail` of an
//! exception that a handler names become calls of functions, all on the same line. Calls of tools are
//! awaited in a script that has `await` or `async` anywhere, and not in others.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ExceptHandler, Expr, ExprAttribute, ExprContext, ModModule, Stmt, StmtFunctionDef,
};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged as _, TextRange};

/// The attributes of a failure, and the functions that read them.
pub const ATTRIBUTES: [(&str, &str); 3] =
    [("code", "__tool_code__"), ("message", "__tool_message__"), ("detail", "__tool_detail__")];

/// The name of the exception for failures of tools, and what stands for it.
const TOOL_ERROR: (&str, &str) = ("ToolError", "RuntimeError");

/// A script that is ready to run.
#[derive(Debug, Default)]
pub struct Source {
    /// The text for the interpreter, which has the lines of the original.
    pub code: String,
    /// Whether calls of tools are awaited.
    pub is_async: bool,
    /// Whether the last statement is an expression, which has a value.
    pub has_value: bool,
}

impl Source {
    /// Looks at a script. One that can't be parsed stays as it is: the interpreter reports why.
    pub fn new(code: String) -> Self {
        let Ok(parsed) = parse_module(&code) else {
            return Self { code, is_async: false, has_value: true };
        };
        let module: &ModModule = parsed.syntax();
        let has_value = matches!(module.body.last(), Some(Stmt::Expr(_)));
        let mut look = Look::default();
        look.visit_body(&module.body);
        let Look { is_async, mut changes, .. } = look;
        changes.sort_by_key(|(range, _)| range.start());
        let mut changed = code;
        for (range, text) in changes.into_iter().rev() {
            changed.replace_range(range.start().to_usize()..range.end().to_usize(), &text);
        }
        Self { code: changed, is_async, has_value }
    }
}

#[derive(Debug, Default)]
struct Look {
    is_async: bool,
    /// The names of the exceptions that are handled around a place.
    caught: Vec<String>,
    /// What is replaced, and by what.
    changes: Vec<(TextRange, String)>,
}

impl<'a> Visitor<'a> for Look {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::FunctionDef(StmtFunctionDef { is_async: true, .. }) = stmt {
            self.is_async = true;
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        let name = inner.name.as_ref().map(ToString::to_string);
        let is_named = name.is_some();
        self.caught.extend(name);
        visitor::walk_except_handler(self, handler);
        if is_named {
            self.caught.pop();
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Await(_) = expr {
            self.is_async = true;
        }
        if let Expr::Attribute(ExprAttribute { value, attr, ctx: ExprContext::Load, .. }) = expr
            && let Expr::Name(name) = &**value
            && self.caught.iter().any(|caught| *caught == *name.id)
            && let Some((_, function)) = ATTRIBUTES.iter().find(|(own, _)| *own == attr.as_str())
        {
            self.changes.push((expr.range(), format!("{function}({})", name.id)));
            return;
        }
        if let Expr::Name(name) = expr
            && name.id == TOOL_ERROR.0
            && name.ctx == ExprContext::Load
        {
            self.changes.push((expr.range(), TOOL_ERROR.1.to_owned()));
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_handled_exceptions_become_calls() {
        for (code, wanted) in [
            ("x.code", "x.code"),
            (
                "try:\n  a()\nexcept ToolError as e:\n  print(e.code, f'{e.message}', x.code)\n",
                "try:\n  a()\nexcept RuntimeError as e:\n  print(__tool_code__(e), \
                 f'{__tool_message__(e)}', x.code)\n",
            ),
            (
                "try: a()\nexcept A as e:\n e.detail['x'].code\ne.code",
                "try: a()\nexcept A as e:\n __tool_detail__(e)['x'].code\ne.code",
            ),
            ("try: a()\nexcept A as e:\n e.code = 1", "try: a()\nexcept A as e:\n e.code = 1"),
            ("def (", "def ("),
        ] {
            assert_eq!(Source::new(code.to_owned()).code, wanted);
        }
    }

    #[test]
    fn a_script_with_await_awaits_all_calls() {
        for (code, is_async, has_value) in [
            ("1", false, true),
            ("await a()", true, true),
            ("async def f(): pass", true, false),
            ("x = 'await'", false, false),
            ("x = [await a() for a in b]", true, false),
        ] {
            let source = Source::new(code.to_owned());
            assert_eq!((source.is_async, source.has_value), (is_async, has_value), "{code}");
        }
    }
}
