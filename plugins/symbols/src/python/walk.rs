//! Collects the facts about names from a syntax tree.

use std::collections::HashSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Alias, Decorator, Expr, ExprCall, ParameterWithDefault, Stmt, StmtClassDef, StmtFunctionDef,
};
use ruff_text_size::{Ranged, TextRange};

use super::facts::{
    Argument, Binding, Call, Definition, Dependency, Import, Invocation, Model, Provider, Receiver,
    Scope, Step, Steps,
};
use super::signature;
use crate::outline::{Kind, Lines, Reexport, Symbol};

/// The names of the classes of applications and routers.
const ROUTERS: [&str; 6] = ["FastAPI", "APIRouter", "Flask", "Blueprint", "Quart", "APIFlask"];

/// The methods that register routes and routers.
const REGISTRATIONS: [&str; 7] = [
    "include_router",
    "register_blueprint",
    "mount",
    "add_api_route",
    "add_api_websocket_route",
    "add_url_rule",
    "add_route",
];

/// The maximum depth of strings in an annotation within a string.
const MAX_QUOTED: usize = 3;

/// Walks the statements of a module.
pub fn walk<'a>(text: &'a str, lines: &'a Lines<'a>, body: &'a [Stmt]) -> Model {
    let mut walker =
        Walker { text, lines, model: Model::default(), around: Vec::new(), fields: HashSet::new() };
    walker.model.outline.doc = documentation(body);
    for statement in body {
        walker.visit_stmt(statement);
    }
    walker.model
}

/// The parts that the definitions of functions and of classes have in common.
struct Declaration<'a> {
    name: &'a str,
    kind: Kind,
    /// The bytes of the definition, with its decorators.
    range: TextRange,
    decorators: &'a [Decorator],
    /// The definition without its body.
    signature: String,
    body: &'a [Stmt],
}

/// An assignment, without its target.
#[derive(Clone, Copy)]
struct Assignment<'a> {
    /// The value that the target is bound to; `None` if there is none, or only a part is bound.
    value: Option<&'a Expr>,
    annotation: Option<&'a Expr>,
    statement: &'a Stmt,
}

impl<'a> Assignment<'a> {
    /// The assignment of an unknown part of the value.
    fn part(self) -> Self {
        Self { value: None, annotation: None, ..self }
    }

    fn binding(self) -> Option<Binding> {
        let annotation = self.annotation.and_then(|annotation| annotated(annotation, 0));
        let instance = annotation.map(Binding::Instance);
        instance.or_else(|| self.value.and_then(steps).map(Binding::Value))
    }
}

struct Walker<'a> {
    text: &'a str,
    lines: &'a Lines<'a>,
    model: Model,
    /// The enclosing definitions, the outermost first.
    around: Vec<usize>,
    /// The fields that have a symbol already, by class.
    fields: HashSet<(usize, String)>,
}

impl<'a> Visitor<'a> for Walker<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(alias);
                }
            }
            Stmt::For(each) => {
                self.shadow(&each.target);
                walk_stmt(self, statement);
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                for alias in &import.names {
                    self.import_from(module, import.level, alias);
                }
            }
            _ => {
                self.assignment(statement);
                walk_stmt(self, statement);
            }
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => self.call(call),
            Expr::Named(named) => {
                if let Expr::Name(name) = &*named.target
                    && let Some(steps) = steps(&named.value)
                {
                    self.bind(name.id.as_str(), Binding::Value(steps));
                }
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_with_item(&mut self, item: &'a ruff_python_ast::WithItem) {
        if let Some(Expr::Name(name)) = item.optional_vars.as_deref()
            && let Some(steps) = steps(&item.context_expr)
        {
            self.bind(name.id.as_str(), Binding::Value(steps));
        }
        ruff_python_ast::visitor::walk_with_item(self, item);
    }
}

impl<'a> Walker<'a> {
    fn scope(&mut self) -> &mut Scope {
        match self.around.last() {
            Some(&definition) => &mut self.model.definitions[definition].scope,
            None => &mut self.model.scope,
        }
    }

    fn in_class(&self) -> bool {
        self.around.last().is_some_and(|&around| self.model.definitions[around].is_class)
    }

    fn is_local(&self) -> bool {
        self.around.iter().any(|&around| !self.model.definitions[around].is_class)
    }

    fn bind(&mut self, name: &str, binding: Binding) {
        self.scope().bindings.entry(name.to_owned()).or_insert(binding);
    }

    /// Binds the names of a loop to unknown values.
    fn shadow(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), Binding::Value(Vec::new())),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| self.shadow(target)),
            _ => {}
        }
    }

    /// Adds a symbol and returns its index.
    fn symbol(&mut self, name: &str, kind: Kind, range: TextRange, signature: String) -> usize {
        let mut path = match self.around.last() {
            Some(&around) => {
                self.model.outline.symbols[self.model.definitions[around].symbol].path.clone()
            }
            None => Vec::new(),
        };
        path.push(name.to_owned());
        let (start, end) = (range.start().to_usize(), range.end().to_usize());
        let line = self.lines.line(start);
        self.model.outline.symbols.push(Symbol {
            path,
            kind,
            line,
            column: self.lines.column(start),
            start_line: line,
            end_line: self.lines.line(end.saturating_sub(1).max(start)),
            span: self.lines.indentation_start(start)..end,
            signature,
            doc: None,
            decorators: Vec::new(),
            public: is_public(name),
            local: self.is_local(),
        });
        self.model.outline.symbols.len() - 1
    }

    /// Adds the symbol and the definition of a function or a class; the walk continues inside it.
    fn define(&mut self, declaration: Declaration<'a>) -> usize {
        let Declaration { name, kind, range, decorators, signature, body } = declaration;
        // The range starts with the first decorator; the definition itself is after the last one.
        let own = match decorators.last() {
            None => range,
            Some(last) => TextRange::new(self.after_decorators(last.range()), range.end()),
        };
        let index = self.symbol(name, kind, own, signature);
        let symbol = &mut self.model.outline.symbols[index];
        let start = range.start().to_usize();
        symbol.start_line = self.lines.line(start);
        symbol.span.start = self.lines.indentation_start(start);
        symbol.doc = documentation(body);
        symbol.decorators = decorators
            .iter()
            .map(|decorator| signature::written(self.text, decorator.expression.range()))
            .collect();
        let decorators =
            decorators.iter().map(|decorator| self.invocation(&decorator.expression)).collect();
        let definition = self.model.definitions.len();
        let parent = self.around.last().copied();
        self.model.definitions.push(Definition {
            symbol: index,
            parent,
            decorators,
            ..Definition::default()
        });
        self.scope().definitions.insert(name.to_owned(), definition);
        definition
    }

    /// The start of the definition itself: after decorators, comments and white space.
    fn after_decorators(&self, last: TextRange) -> ruff_text_size::TextSize {
        let mut at = last.end().to_usize();
        let rest = self.text.get(at..).unwrap_or_default();
        for line in rest.split_inclusive(['\n', '\r']) {
            let plain = line.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
            if !plain.is_empty() && !plain.starts_with('#') {
                at += line.len() - plain.len();
                break;
            }
            at += line.len();
        }
        ruff_text_size::TextSize::try_from(at).unwrap_or(last.end())
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        let in_class = self.in_class();
        let names: Vec<&str> = function
            .decorator_list
            .iter()
            .filter_map(|decorator| last_name(&decorator.expression))
            .collect();
        let is_property = names.iter().any(|name| {
            matches!(*name, "property" | "cached_property" | "setter" | "getter" | "deleter")
        });
        let kind = match in_class {
            false => Kind::Function,
            true if is_property => Kind::Property,
            true => Kind::Method,
        };
        let signature = signature::function(self.text, function);
        let index = self.define(Declaration {
            name: function.name.as_str(),
            kind,
            range: function.range,
            decorators: &function.decorator_list,
            signature,
            body: &function.body,
        });
        let parameters = &function.parameters;
        let mut definition = std::mem::take(&mut self.model.definitions[index]);
        definition.returns = function.returns.as_deref().and_then(|expr| annotated(expr, 0));
        let first = parameters.posonlyargs.iter().chain(&parameters.args).next();
        if in_class && !names.contains(&"staticmethod") {
            definition.receiver = first.map(|first| Receiver {
                name: first.parameter.name.to_string(),
                is_class: names.contains(&"classmethod")
                    || matches!(
                        function.name.as_str(),
                        "__new__" | "__init_subclass__" | "__class_getitem__"
                    ),
            });
        }
        let all =
            parameters.posonlyargs.iter().chain(&parameters.args).chain(&parameters.kwonlyargs);
        for parameter in all {
            Self::parameter(parameter, &mut definition);
        }
        self.model.definitions[index] = definition;
        // Decorators and defaults are evaluated in the enclosing scope.
        for decorator in &function.decorator_list {
            self.visit_decorator(decorator);
        }
        self.visit_parameters(parameters);
        self.within(index, &function.body);
    }

    fn parameter(parameter: &ParameterWithDefault, definition: &mut Definition) {
        let name = parameter.parameter.name.to_string();
        let annotation = parameter.parameter.annotation.as_deref();
        let of_type = annotation.and_then(|annotation| annotated(annotation, 0));
        let default = parameter.default.as_deref();
        let mut add = |provider| {
            definition.dependencies.push(Dependency { parameter: name.clone(), provider });
        };
        let mut provided = None;
        for call in default.into_iter().chain(annotation.map(metadata).unwrap_or_default()) {
            match (dependency(call), &of_type) {
                (Some(Some(provider)), _) => {
                    provided.get_or_insert_with(|| provider.clone());
                    add(Provider::Callable(provider));
                }
                // `Depends()` means the type of the parameter.
                (Some(None), Some(class)) => add(Provider::Callable(class.clone())),
                _ => {}
            }
        }
        if let Some(Expr::Name(_) | Expr::Attribute(_)) = annotation
            && let Some(alias) = &of_type
        {
            add(Provider::Alias(alias.clone()));
        }
        let binding = match (of_type, provided) {
            (Some(class), _) => Binding::Instance(class),
            (None, Some(mut provider)) => {
                provider.push(Step::Call);
                Binding::Value(provider)
            }
            (None, None) => Binding::Value(Vec::new()),
        };
        definition.scope.bindings.entry(name).or_insert(binding);
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        let signature = signature::class(self.text, class);
        let index = self.define(Declaration {
            name: class.name.as_str(),
            kind: Kind::Class,
            range: class.range,
            decorators: &class.decorator_list,
            signature,
            body: &class.body,
        });
        let definition = &mut self.model.definitions[index];
        definition.is_class = true;
        if let Some(arguments) = class.arguments.as_deref() {
            definition.bases = arguments.args.iter().filter_map(steps).collect();
        }
        for decorator in &class.decorator_list {
            self.visit_decorator(decorator);
        }
        if let Some(arguments) = class.arguments.as_deref() {
            self.visit_arguments(arguments);
        }
        self.within(index, &class.body);
    }

    fn within(&mut self, definition: usize, body: &'a [Stmt]) {
        self.around.push(definition);
        for statement in body {
            self.visit_stmt(statement);
        }
        self.around.pop();
    }

    fn call(&mut self, call: &'a ExprCall) {
        let Some(callee) = steps(&call.func) else {
            return;
        };
        let line = self.lines.line(call.range().start().to_usize());
        if let Some(Step::Attribute(name)) = callee.last()
            && REGISTRATIONS.contains(&name.as_str())
        {
            let invocation = self.invocation_of(call);
            let around = self.around.last().copied();
            self.model.registrations.push((around, invocation));
        }
        if let Some(&around) = self.around.last()
            && !self.in_class()
        {
            // The line of the chain's last name is more useful than that of its start.
            let line = match &*call.func {
                Expr::Attribute(attribute) => {
                    self.lines.line(attribute.attr.range().start().to_usize())
                }
                _ => line,
            };
            self.model.definitions[around].calls.push(Call { callee, line });
        }
    }

    fn assignment(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(assign) => {
                let value = Some(&*assign.value);
                for target in &assign.targets {
                    self.assigned(target, Assignment { value, annotation: None, statement });
                }
            }
            Stmt::AnnAssign(assign) => {
                let (value, annotation) = (assign.value.as_deref(), Some(&*assign.annotation));
                self.assigned(&assign.target, Assignment { value, annotation, statement });
            }
            Stmt::AugAssign(assign) => {
                if let (Expr::Name(name), Some(names)) = (&*assign.target, texts(&assign.value))
                    && name.id == "__all__"
                    && self.around.is_empty()
                    && let Some(exports) = &mut self.model.outline.exports
                {
                    exports.extend(names);
                }
            }
            Stmt::TypeAlias(alias) => {
                let value = Some(&*alias.value);
                self.assigned(&alias.name, Assignment { value, annotation: None, statement });
            }
            _ => {}
        }
    }

    fn assigned(&mut self, target: &'a Expr, assignment: Assignment<'a>) {
        match target {
            Expr::Name(name) => {
                let name = name.id.as_str();
                if self.around.is_empty() && name == "__all__" {
                    self.model.outline.exports = assignment.value.and_then(texts);
                }
                self.remember(name, assignment);
                if let Some(&class) = self.around.last().filter(|_| self.in_class()) {
                    self.fields.insert((class, name.to_owned()));
                }
                if self.around.is_empty() || self.in_class() {
                    let statement = assignment.statement;
                    let is_type = matches!(statement, Stmt::TypeAlias(_));
                    let kind = match (is_type, self.in_class()) {
                        (true, _) => Kind::Type,
                        _ if is_constant(name) => Kind::Constant,
                        (_, true) => Kind::Field,
                        (_, false) => Kind::Variable,
                    };
                    let signature = signature::variable(self.text, name, statement);
                    self.symbol(name, kind, statement.range(), signature);
                }
            }
            Expr::Tuple(tuple) => {
                for target in &tuple.elts {
                    self.assigned(target, assignment.part());
                }
            }
            Expr::List(list) => {
                for target in &list.elts {
                    self.assigned(target, assignment.part());
                }
            }
            Expr::Starred(starred) => self.assigned(&starred.value, assignment.part()),
            Expr::Attribute(attribute) => {
                if let Expr::Name(receiver) = &*attribute.value {
                    let name = attribute.attr.as_str();
                    self.attribute(receiver.id.as_str(), name, assignment);
                }
            }
            _ => {}
        }
    }

    /// Stores what a name is bound to, as far as calls and routes need it.
    fn remember(&mut self, name: &str, assignment: Assignment<'a>) {
        let value = assignment.value;
        if let Some(binding) = assignment.binding() {
            self.bind(name, binding);
        }
        if let Some(Expr::StringLiteral(text)) = value {
            let text = text.value.to_str().to_owned();
            self.scope().strings.entry(name.to_owned()).or_insert(text);
        }
        let brought: Vec<Steps> = value
            .map(metadata)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|call| dependency(call).flatten())
            .collect();
        if !brought.is_empty() {
            self.scope().dependencies.insert(name.to_owned(), brought);
        }
        self.router(name, value);
    }

    fn router(&mut self, name: &str, value: Option<&'a Expr>) {
        if let Some(Expr::Call(call)) = value
            && last_name(&call.func).is_some_and(|name| ROUTERS.contains(&name))
        {
            let invocation = self.invocation_of(call);
            self.scope().routers.insert(name.to_owned(), invocation);
        }
    }

    /// Handles `self.name = value` in a method.
    fn attribute(&mut self, receiver: &str, name: &str, assignment: Assignment<'a>) {
        let Some(&method) = self.around.last() else {
            return;
        };
        let definition = &self.model.definitions[method];
        let Some(class) = definition.parent else {
            return;
        };
        if definition.receiver.as_ref().is_none_or(|first| first.name != receiver) {
            return;
        }
        if let Some(binding) = assignment.binding() {
            self.model.definitions[method].attributes.entry(name.to_owned()).or_insert(binding);
        }
        let around = std::mem::replace(&mut self.around, vec![class]);
        self.router(name, assignment.value);
        let known = !self.fields.insert((class, name.to_owned()));
        if !known {
            let statement = assignment.statement;
            let signature =
                signature::variable(self.text, &format!("{receiver}.{name}"), statement);
            self.symbol(name, Kind::Field, statement.range(), signature);
        }
        self.around = around;
    }

    fn import(&mut self, alias: &Alias) {
        let line = self.lines.line(alias.range.start().to_usize());
        let module: Vec<String> = alias.name.as_str().split('.').map(str::to_owned).collect();
        let (bound, module) = match &alias.asname {
            Some(name) => (name.to_string(), module),
            // `import a.b` binds the name `a`.
            None => (module[0].clone(), module[..1].to_vec()),
        };
        let import = Import { level: 0, module, name: None, line };
        self.scope().imports.entry(bound).or_insert(import);
    }

    fn import_from(&mut self, module: &str, level: u32, alias: &Alias) {
        let line = self.lines.line(alias.range.start().to_usize());
        let names = module.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut import = Import { level, module: names, name: None, line };
        if alias.name.as_str() == "*" {
            self.scope().stars.push(import);
            return;
        }
        import.name = Some(alias.name.to_string());
        let bound = alias.asname.as_ref().unwrap_or(&alias.name).to_string();
        if self.around.is_empty() {
            let dots = ".".repeat(level as usize);
            let separator = if module.is_empty() { "" } else { "." };
            self.model.outline.reexports.push(Reexport {
                name: bound.clone(),
                from: format!("{dots}{module}{separator}{}", alias.name),
                line,
            });
        }
        self.scope().imports.entry(bound).or_insert(import);
    }

    /// Converts a decorator: a call, or only a chain.
    fn invocation(&self, expression: &Expr) -> Invocation {
        match expression {
            Expr::Call(call) => self.invocation_of(call),
            _ => Invocation {
                callee: steps(expression).unwrap_or_default(),
                line: self.lines.line(expression.range().start().to_usize()),
                ..Invocation::default()
            },
        }
    }

    fn invocation_of(&self, call: &ExprCall) -> Invocation {
        let named = call.arguments.keywords.iter().filter_map(|keyword| {
            Some((keyword.arg.as_ref()?.to_string(), self.argument(&keyword.value)))
        });
        Invocation {
            callee: steps(&call.func).unwrap_or_default(),
            arguments: call.arguments.args.iter().map(|argument| self.argument(argument)).collect(),
            keywords: named.collect(),
            line: self.lines.line(call.range().start().to_usize()),
        }
    }

    fn argument(&self, expression: &Expr) -> Argument {
        let items = match expression {
            Expr::List(list) => &list.elts[..],
            Expr::Tuple(tuple) => &tuple.elts[..],
            Expr::Set(set) => &set.elts[..],
            _ => &[],
        };
        Argument {
            text: signature::written(self.text, expression.range()),
            steps: steps(expression),
            string: match expression {
                Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
                _ => None,
            },
            items: items.iter().map(|item| self.argument(item)).collect(),
            call: match expression {
                Expr::Call(call) => Some(Box::new(self.invocation_of(call))),
                _ => None,
            },
        }
    }
}

/// The documentation string of a body, without the common indentation of its lines, as by
/// `inspect.cleandoc`.
fn documentation(body: &[Stmt]) -> Option<String> {
    let Some(Stmt::Expr(first)) = body.first() else {
        return None;
    };
    let Expr::StringLiteral(text) = &*first.value else {
        return None;
    };
    let mut lines = text.value.to_str().lines();
    let first = lines.next().unwrap_or_default().trim();
    let rest: Vec<&str> = lines.collect();
    let indentation = rest
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let rest = rest.iter().map(|line| line.get(indentation..).unwrap_or_default().trim_end());
    let doc = std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n");
    Some(doc.trim().to_owned())
}

/// Names with a leading underscore are private, except those with a meaning in the language.
fn is_public(name: &str) -> bool {
    !name.starts_with('_') || (name.len() > 4 && name.starts_with("__") && name.ends_with("__"))
}

fn is_constant(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// The strings in a list or tuple that contains only string literals.
fn texts(expression: &Expr) -> Option<Vec<String>> {
    let items = match expression {
        Expr::List(list) => &list.elts[..],
        Expr::Tuple(tuple) => &tuple.elts[..],
        Expr::BinOp(sum) => {
            let mut both = texts(&sum.left)?;
            both.extend(texts(&sum.right)?);
            return Some(both);
        }
        _ => return None,
    };
    items
        .iter()
        .map(|item| match item {
            Expr::StringLiteral(text) => Some(text.value.to_str().to_owned()),
            _ => None,
        })
        .collect()
}

/// Converts an expression to a chain; `None` if it is not one.
fn steps(expression: &Expr) -> Option<Steps> {
    let literal = |name| Some(vec![Step::Literal(name)]);
    let mut end = Vec::new();
    let mut at = expression;
    loop {
        at = match at {
            Expr::Name(name) => {
                end.push(Step::Name(name.id.to_string()));
                end.reverse();
                return Some(end);
            }
            Expr::Attribute(attribute) => {
                end.push(Step::Attribute(attribute.attr.to_string()));
                &attribute.value
            }
            Expr::Call(call) => {
                end.push(Step::Call);
                &call.func
            }
            Expr::Subscript(subscript) => {
                end.push(Step::Index);
                &subscript.value
            }
            Expr::Await(awaited) => &awaited.value,
            _ => break,
        };
    }
    let mut start = match at {
        Expr::StringLiteral(_) | Expr::FString(_) => literal("str"),
        Expr::BytesLiteral(_) => literal("bytes"),
        Expr::List(_) | Expr::ListComp(_) => literal("list"),
        Expr::Dict(_) | Expr::DictComp(_) => literal("dict"),
        Expr::Set(_) | Expr::SetComp(_) => literal("set"),
        Expr::Tuple(_) => literal("tuple"),
        _ => None,
    }?;
    end.reverse();
    start.extend(end);
    Some(start)
}

/// The class that an annotation names, without wrappers such as `Optional`.
fn annotated(expression: &Expr, quoted: usize) -> Option<Steps> {
    match expression {
        Expr::Name(_) | Expr::Attribute(_) => steps(expression),
        Expr::Subscript(subscript) => {
            let wraps = matches!(
                last_name(&subscript.value)?,
                "Optional"
                    | "Annotated"
                    | "Union"
                    | "Final"
                    | "ClassVar"
                    | "Required"
                    | "NotRequired"
            );
            if !wraps {
                return steps(&subscript.value);
            }
            match &*subscript.slice {
                Expr::Tuple(tuple) => tuple
                    .elts
                    .iter()
                    .find(|item| !item.is_none_literal_expr())
                    .and_then(|item| annotated(item, quoted)),
                one => annotated(one, quoted),
            }
        }
        Expr::BinOp(union) => {
            let side = if union.left.is_none_literal_expr() { &union.right } else { &union.left };
            annotated(side, quoted)
        }
        Expr::StringLiteral(text) if quoted < MAX_QUOTED && text.value.len() < 300 => {
            let parsed = ruff_python_parser::parse_expression(text.value.to_str()).ok()?;
            annotated(parsed.expr(), quoted + 1)
        }
        _ => None,
    }
}

/// The metadata in `Annotated[type, ...]`.
fn metadata(annotation: &Expr) -> Vec<&Expr> {
    if let Expr::Subscript(subscript) = annotation
        && last_name(&subscript.value) == Some("Annotated")
        && let Expr::Tuple(tuple) = &*subscript.slice
    {
        return tuple.elts.iter().skip(1).collect();
    }
    Vec::new()
}

/// The argument of `Depends(this)`; the inner option is `None` for `Depends()`.
fn dependency(expression: &Expr) -> Option<Option<Steps>> {
    let Expr::Call(call) = expression else {
        return None;
    };
    if !matches!(last_name(&call.func)?, "Depends" | "Security") {
        return None;
    }
    let keyword = call
        .arguments
        .keywords
        .iter()
        .find(|keyword| keyword.arg.as_ref().is_some_and(|name| name.as_str() == "dependency"));
    let provider = call.arguments.args.first().or_else(|| keyword.map(|keyword| &keyword.value));
    Some(provider.and_then(steps))
}

fn last_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        Expr::Call(call) => last_name(&call.func),
        _ => None,
    }
}
