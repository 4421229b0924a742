//! What is looked at in a script, and changed, before it runs.
//!
//! Monty has no classes of exceptions of a script's own, and none with other attributes. So `ToolError`
//! becomes the name of the exception that stands for it, and `e.code`, `e.message` and `e.detail` of an
//! exception that a handler names become calls of functions, all on the same line. Calls of tools are
//! awaited in a script that has `await` or `async` anywhere, and not in others.
//!
//! If a call fails in a coroutine of a group, Monty ends the coroutine without its handlers. So a call that is
//! awaited inside of a `try` is made at once, and `await` is taken out.

use std::collections::BTreeSet;
use std::mem;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ExceptHandler, Expr, ExprAttribute, ExprAwait, ExprContext, ModModule, Stmt, StmtFunctionDef,
    StmtTry,
};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged as _, TextRange};

use crate::calls::Calls;
use crate::check::bound;

/// The attributes of a failure, and the functions that read them.
pub const ATTRIBUTES: [(&str, &str); 3] =
    [("code", "__tool_code__"), ("message", "__tool_message__"), ("detail", "__tool_detail__")];

/// The name of the exception for failures of tools, and what stands for it.
const TOOL_ERROR: (&str, &str) = ("ToolError", "RuntimeError");

/// What is added to the name of a tool that is called at once in a script that awaits calls.
pub const AT_ONCE: &str = "__at_once";

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
    pub fn new(code: String, calls: &mut Calls<'_>) -> Self {
        let Ok(parsed) = parse_module(&code) else {
            return Self { code, is_async: false, has_value: true };
        };
        let module: &ModModule = parsed.syntax();
        let has_value = matches!(module.body.last(), Some(Stmt::Expr(_)));
        let (bound, caught, changes) = (bound(&module.body), Vec::new(), Vec::new());
        let mut look =
            Look { code: &code, calls, bound, caught, changes, is_async: false, is_tried: false };
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

struct Look<'a, 'b> {
    code: &'a str,
    calls: &'a mut Calls<'b>,
    bound: BTreeSet<String>,
    is_async: bool,
    /// Whether a place is in a `try` of its function.
    is_tried: bool,
    /// The names of the exceptions that are handled around a place.
    caught: Vec<String>,
    /// What is replaced, and by what.
    changes: Vec<(TextRange, String)>,
}

impl Look<'_, '_> {
    /// Makes a call that is awaited at once, if it is one of a tool.
    fn at_once(&mut self, awaited: &ExprAwait) {
        let Expr::Call(call) = &*awaited.value else { return };
        let Expr::Attribute(function) = &*call.func else { return };
        let Expr::Name(module) = &*function.value else { return };
        let before = TextRange::new(awaited.start(), call.start());
        let is_plain =
            self.code[before.start().to_usize()..before.end().to_usize()].trim() == "await";
        let name = module.id.as_str();
        if is_plain && !self.bound.contains(name) && self.calls.modules().contains_key(name) {
            self.changes.push((before, String::new()));
            self.changes.push((TextRange::empty(function.end()), AT_ONCE.to_owned()));
        }
    }
}

impl<'a> Visitor<'a> for Look<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(StmtFunctionDef { is_async, .. }) => {
                self.is_async |= *is_async;
                let is_tried = mem::take(&mut self.is_tried);
                visitor::walk_stmt(self, stmt);
                self.is_tried = is_tried;
            }
            Stmt::Try(StmtTry { body, handlers, orelse, finalbody, .. }) => {
                let is_tried = mem::replace(&mut self.is_tried, true);
                self.visit_body(body);
                self.is_tried = is_tried;
                handlers.iter().for_each(|handler| self.visit_except_handler(handler));
                self.visit_body(orelse);
                self.visit_body(finalbody);
            }
            _ => visitor::walk_stmt(self, stmt),
        }
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
        if let Expr::Await(awaited) = expr {
            self.is_async = true;
            if self.is_tried {
                self.at_once(awaited);
            }
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
            (
                "try: x = await files.read_file(path=await y())\nexcept A: pass\nawait files.read_file()",
                "try: x = files.read_file__at_once(path=await y())\nexcept A: pass\nawait files.read_file()",
            ),
            (
                "try:\n  async def f(): await files.read_file()\n  await (files.read_file())\nfinally: x",
                "try:\n  async def f(): await files.read_file()\n  await (files.read_file())\nfinally: x",
            ),
            ("def (", "def ("),
        ] {
            assert_eq!(
                Source::new(code.to_owned(), &mut Calls::new(&crate::tests::Fake::default())).code,
                wanted
            );
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
            let source =
                Source::new(code.to_owned(), &mut Calls::new(&crate::tests::Fake::default()));
            assert_eq!((source.is_async, source.has_value), (is_async, has_value), "{code}");
        }
    }
}
