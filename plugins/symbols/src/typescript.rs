//! Outlines of TypeScript and JavaScript files, by oxc's parser.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    BindingPattern, Class, ClassElement, Declaration, Decorator, ExportDefaultDeclarationKind,
    Expression, Function, MethodDefinition, MethodDefinitionKind, ModuleExportName, Program,
    PropertyDefinition, PropertyKey, Statement, TSAccessibility, TSEnumDeclaration,
    TSInterfaceDeclaration, TSNamespaceDeclaration, TSNamespaceDeclarationBody, TSSignature,
    VariableDeclaration, VariableDeclarationKind,
};
use oxc_parser::{Parser, ParserReturn};
use oxc_span::{GetSpan as _, SourceType, Span};

use crate::outline::{
    Builder, Found, Kind, Outline, Problem, Reexport, comment, one_line, shortened,
};

/// The maximum length of a variable's value in a signature, in characters.
const MAX_VALUE_CHARS: usize = 100;

/// The definitions in a file. Its path determines the variant of the language.
pub fn outline(path: &str, text: &str) -> Outline {
    let source_type = SourceType::from_path(path).unwrap_or_default();
    let allocator = Allocator::default();
    let mut parsed = Parser::new(&allocator, text, source_type).parse();
    // Many `.js` files contain JSX or types; some scripts are not valid as modules.
    if parsed.diagnostics.has_errors() && path.ends_with("js") {
        let script = source_type.with_script(true).with_jsx(true);
        let other = Parser::new(&allocator, text, script).parse();
        if !other.diagnostics.has_errors() {
            parsed = other;
        }
    }
    let ParserReturn { program, diagnostics, .. } = parsed;
    let mut walker = Walker { text, builder: Builder::new(text), docs: docs(&program) };
    walker.builder.outline.problem = diagnostics.errors().next().map(|error| Problem {
        line: error.labels.first().map_or(1, |label| walker.builder.line(label.offset() as usize)),
        message: error.message.to_string(),
    });
    let has_exports = program.body.iter().any(is_export);
    walker.statements(&program.body, !has_exports);
    walker.mark_exported(&program);
    walker.builder.finish()
}

/// The documentation comments, by the start of what follows them.
fn docs(program: &Program<'_>) -> Vec<(u32, Span)> {
    let blocks = program.comments.iter().filter(|comment| comment.is_jsdoc());
    blocks.map(|comment| (comment.attached_to, comment.span)).collect()
}

fn is_export(statement: &Statement<'_>) -> bool {
    matches!(
        statement,
        Statement::ExportAllDeclaration(_)
            | Statement::ExportDefaultDeclaration(_)
            | Statement::ExportDeclaration(_)
            | Statement::ExportNamedDeclaration(_)
            | Statement::ExportFromDeclaration(_)
            | Statement::TSExportAssignment(_)
    )
}

struct Walker<'t> {
    text: &'t str,
    builder: Builder<'t>,
    docs: Vec<(u32, Span)>,
}

impl<'t> Walker<'t> {
    fn slice(&self, start: u32, end: u32) -> &'t str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Adds a definition that starts at `span`, or before it with `export`; its signature is the
    /// text up to `body`.
    fn add(&mut self, name: &str, kind: Kind, place: Place<'_, '_>, signature: String) {
        let Place { whole, decorators, public } = place;
        let doc = self.docs.iter().rev().find(|(attached, _)| *attached == whole.start);
        let doc = doc.map(|(_, span)| *span);
        let after = decorators.last().map_or(whole.start, |last| last.span.end);
        let rest = self.slice(after, whole.end);
        let blank = rest.len() - rest.trim_start().len();
        let start =
            if after == whole.start { whole.start as usize } else { after as usize + blank };
        let first = doc.map_or(whole.start, |doc| doc.start) as usize;
        let decorators = decorators
            .iter()
            .map(|decorator| {
                let span = decorator.expression.span();
                one_line(self.slice(span.start, span.end))
            })
            .collect();
        let doc = doc.map(|doc| comment(self.slice(doc.start, doc.end)));
        let span = first..whole.end as usize;
        self.builder.add(Found { name, kind, span, start, signature, doc, decorators, public });
    }

    fn statements(&mut self, statements: &[Statement<'_>], public: bool) {
        for statement in statements {
            self.statement(statement, public);
        }
    }

    fn statement(&mut self, statement: &Statement<'_>, public: bool) {
        if let Some(declaration) = statement.as_declaration() {
            return self.declaration(declaration, declaration.span(), public);
        }
        match statement {
            Statement::ExportDeclaration(export) => {
                self.declaration(&export.declaration, export.span, true);
            }
            Statement::ExportDefaultDeclaration(export) => {
                self.default_export(&export.declaration, export.span);
            }
            Statement::ExportFromDeclaration(export) => {
                for specifier in &export.specifiers {
                    let from = format!("{}:{}", export.source.value, specifier.local.name());
                    self.reexport(&specifier.exported, from, specifier.span);
                }
            }
            Statement::ExportAllDeclaration(export) => {
                let name =
                    export.exported.as_ref().map_or("*".into(), |name| name.name().to_string());
                let line = self.builder.line(export.span.start as usize);
                let from = export.source.value.to_string();
                self.builder.outline.reexports.push(Reexport { name, from, line });
            }
            Statement::BlockStatement(block) => self.statements(&block.body, public),
            Statement::IfStatement(branch) => {
                self.statement(&branch.consequent, public);
                if let Some(other) = &branch.alternate {
                    self.statement(other, public);
                }
            }
            Statement::TryStatement(attempt) => {
                self.statements(&attempt.block.body, public);
                if let Some(handler) = &attempt.handler {
                    self.statements(&handler.body.body, public);
                }
                if let Some(last) = &attempt.finalizer {
                    self.statements(&last.body, public);
                }
            }
            _ => {}
        }
    }

    fn reexport(&mut self, name: &ModuleExportName<'_>, from: String, span: Span) {
        let line = self.builder.line(span.start as usize);
        let name = name.name().to_string();
        self.builder.outline.reexports.push(Reexport { name, from, line });
    }

    fn declaration(&mut self, declaration: &Declaration<'_>, whole: Span, public: bool) {
        let place = Place { whole, decorators: &[], public };
        match declaration {
            Declaration::FunctionDeclaration(function) => {
                let name = function.id.as_ref().map_or("default", |id| id.name.as_str());
                self.function(name, function, place);
            }
            Declaration::ClassDeclaration(class) => {
                let name = class.id.as_ref().map_or("default", |id| id.name.as_str());
                self.class(name, class, place);
            }
            Declaration::VariableDeclaration(variables) => self.variables(variables, place),
            Declaration::TSTypeAliasDeclaration(alias) => {
                let signature =
                    shortened(&one_line(self.slice(alias.span.start, alias.span.end)), 200);
                self.add(alias.id.name.as_str(), Kind::Type, place, signature);
            }
            Declaration::TSInterfaceDeclaration(interface) => self.interface(interface, place),
            Declaration::TSEnumDeclaration(declared) => self.enumeration(declared, place),
            Declaration::TSNamespaceDeclaration(namespace) => self.namespace(namespace, place),
            Declaration::TSExternalModuleDeclaration(module) => {
                if let Some(body) = &module.body {
                    let name = module.id.value.to_string();
                    let signature = self.slice(whole.start, body.span.start).to_owned();
                    self.add(&name, Kind::Module, place, signature);
                    self.inside(&name, false, |walker| walker.statements(&body.body, true));
                }
            }
            Declaration::TSGlobalDeclaration(global) => self.statements(&global.body.body, true),
            Declaration::TSImportEqualsDeclaration(_) => {}
        }
    }

    fn default_export(&mut self, declaration: &ExportDefaultDeclarationKind<'_>, whole: Span) {
        let place = Place { whole, decorators: &[], public: true };
        match declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                let name = function.id.as_ref().map_or("default", |id| id.name.as_str());
                self.function(name, function, place);
            }
            ExportDefaultDeclarationKind::ClassDeclaration(class) => {
                let name = class.id.as_ref().map_or("default", |id| id.name.as_str());
                self.class(name, class, place);
            }
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(interface) => {
                self.interface(interface, place);
            }
            // `export default name` re-exports a name defined above.
            ExportDefaultDeclarationKind::Identifier(_) => {}
            other => {
                if let Some(value) = other.as_expression() {
                    let kind = Kind::Variable;
                    let bound = Bound { name: "default", kind, signature_start: whole.start };
                    self.value(bound, value, place);
                }
            }
        }
    }

    fn inside(&mut self, name: &str, is_function: bool, add: impl FnOnce(&mut Self)) {
        self.builder.enter(name, is_function);
        add(self);
        self.builder.leave(is_function);
    }

    fn function(&mut self, name: &str, function: &Function<'_>, place: Place<'_, '_>) {
        let end = function.body.as_ref().map_or(function.span.end, |body| body.span.start);
        let signature = self.slice(function.span.start, end).to_owned();
        self.add(name, Kind::Function, place, signature);
        if let Some(body) = &function.body {
            self.inside(name, true, |walker| walker.statements(&body.statements, false));
        }
    }

    fn class(&mut self, name: &str, class: &Class<'_>, place: Place<'_, '_>) {
        let after = class.decorators.last().map_or(class.span.start, |last| last.span.end);
        let signature = self.slice(after, class.body.span.start).to_owned();
        let mut whole = place.whole;
        whole.start =
            class.decorators.first().map_or(whole.start, |first| first.span.start.min(whole.start));
        let inner_public = place.public;
        self.add(
            name,
            Kind::Class,
            Place { whole, decorators: &class.decorators, ..place },
            signature,
        );
        self.inside(name, false, |walker| {
            for element in &class.body.body {
                walker.element(element, inner_public);
            }
        });
    }

    fn element(&mut self, element: &ClassElement<'_>, public: bool) {
        match element {
            ClassElement::MethodDefinition(method) => self.method(method, public),
            ClassElement::PropertyDefinition(property) => self.property(property, public),
            ClassElement::AccessorProperty(property) => {
                let Some(name) = key_name(&property.key) else {
                    return;
                };
                let public = public && is_visible(property.accessibility, &property.key);
                let signature = self.slice(property.span.start, property.span.end).to_owned();
                let place =
                    Place { whole: property.span, decorators: &property.decorators, public };
                self.add(&name, Kind::Property, place, shortened(&one_line(&signature), 200));
            }
            ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => {}
        }
    }

    fn method(&mut self, method: &MethodDefinition<'_>, public: bool) {
        let Some(name) = key_name(&method.key) else {
            return;
        };
        let kind = match method.kind {
            MethodDefinitionKind::Constructor => Kind::Constructor,
            MethodDefinitionKind::Method => Kind::Method,
            MethodDefinitionKind::Get | MethodDefinitionKind::Set => Kind::Property,
        };
        let body = method.value.body.as_ref();
        let after = method.decorators.last().map_or(method.span.start, |last| last.span.end);
        let end = body.map_or(method.span.end, |body| body.span.start);
        let signature = self.slice(after, end).trim_end_matches(';').to_owned();
        let public = public && is_visible(method.accessibility, &method.key);
        let place = Place { whole: method.span, decorators: &method.decorators, public };
        self.add(&name, kind, place, signature);
        if let Some(body) = body {
            self.inside(&name, true, |walker| walker.statements(&body.statements, false));
        }
    }

    fn property(&mut self, property: &PropertyDefinition<'_>, public: bool) {
        let Some(name) = key_name(&property.key) else {
            return;
        };
        let public = public && is_visible(property.accessibility, &property.key);
        let place = Place { whole: property.span, decorators: &property.decorators, public };
        let start = property.decorators.last().map_or(property.span.start, |last| last.span.end);
        match &property.value {
            Some(value) => {
                let bound = Bound { name: &name, kind: Kind::Field, signature_start: start };
                self.value(bound, value, place);
            }
            None => {
                let signature = self.slice(start, property.span.end);
                let signature = signature.trim_end_matches(';').to_owned();
                self.add(&name, Kind::Field, place, signature);
            }
        }
    }

    fn variables(&mut self, variables: &VariableDeclaration<'_>, place: Place<'_, '_>) {
        let is_constant = variables.kind == VariableDeclarationKind::Const;
        let alone = variables.declarations.len() == 1;
        for variable in &variables.declarations {
            let whole = if alone { place.whole } else { variable.span };
            let place = Place { whole, ..place };
            match &variable.id {
                BindingPattern::BindingIdentifier(name) => {
                    let name = name.name.as_str();
                    let kind = match is_constant && is_upper(name) {
                        true => Kind::Constant,
                        false => Kind::Variable,
                    };
                    match &variable.init {
                        Some(value) => {
                            let signature_start = variables.span.start.max(whole.start);
                            self.value(Bound { name, kind, signature_start }, value, place);
                        }
                        None => {
                            let signature = self.slice(variable.span.start, variable.span.end);
                            let signature = format!("{} {signature}", variables.kind.as_str());
                            self.add(name, kind, place, signature);
                        }
                    }
                }
                pattern => {
                    let signature = self.slice(variables.span.start, variable.span.end);
                    let signature = shortened(&one_line(signature), MAX_VALUE_CHARS);
                    for name in pattern.get_binding_identifiers() {
                        self.add(name.name.as_str(), Kind::Variable, place, signature.clone());
                    }
                }
            }
        }
    }

    /// Adds a name that is bound to a value: as a function or class if the value is one.
    fn value(&mut self, bound: Bound<'_>, value: &Expression<'_>, place: Place<'_, '_>) {
        let Bound { name, kind, signature_start: start } = bound;
        match value {
            Expression::ArrowFunctionExpression(arrow) => {
                let kind = if kind == Kind::Field { Kind::Method } else { Kind::Function };
                let end = arrow.body.span().start;
                let signature = self.slice(start, end).to_owned();
                self.add(name, kind, place, signature);
                if let Some(body) = arrow.body.as_function_body() {
                    self.inside(name, true, |walker| walker.statements(&body.statements, false));
                }
            }
            Expression::FunctionExpression(function) => {
                let kind = if kind == Kind::Field { Kind::Method } else { Kind::Function };
                let end = function.body.as_ref().map_or(function.span.end, |body| body.span.start);
                let signature = self.slice(start, end).to_owned();
                self.add(name, kind, place, signature);
                if let Some(body) = &function.body {
                    self.inside(name, true, |walker| walker.statements(&body.statements, false));
                }
            }
            Expression::ClassExpression(class) => self.class(name, class, place),
            Expression::ObjectExpression(object) => {
                let signature = format!("{}{{ ... }}", self.slice(start, object.span.start));
                self.add(name, kind, place, signature);
                let public = place.public;
                self.inside(name, false, |walker| {
                    for property in &object.properties {
                        let Some(property) = property.as_property() else {
                            continue;
                        };
                        let Some(key) = key_name(&property.key) else {
                            continue;
                        };
                        // Only values that can be called: others are data.
                        if matches!(
                            property.value,
                            Expression::ArrowFunctionExpression(_)
                                | Expression::FunctionExpression(_)
                        ) {
                            let place = Place { whole: property.span, decorators: &[], public };
                            let bound = Bound {
                                name: &key,
                                kind: Kind::Field,
                                signature_start: property.span.start,
                            };
                            walker.value(bound, &property.value, place);
                        }
                    }
                });
            }
            _ => {
                let span = value.span();
                let shown = shortened(&one_line(self.slice(span.start, span.end)), MAX_VALUE_CHARS);
                let signature = format!("{}{shown}", self.slice(start, span.start));
                self.add(name, kind, place, signature);
            }
        }
    }

    fn interface(&mut self, interface: &TSInterfaceDeclaration<'_>, place: Place<'_, '_>) {
        let name = interface.id.name.as_str();
        let signature = self.slice(interface.span.start, interface.body.span.start).to_owned();
        let public = place.public;
        self.add(name, Kind::Interface, place, signature);
        self.inside(name, false, |walker| {
            for member in &interface.body.body {
                let (key, kind) = match member {
                    TSSignature::TSPropertySignature(property) => (&property.key, Kind::Field),
                    TSSignature::TSMethodSignature(method) => (&method.key, Kind::Method),
                    _ => continue,
                };
                if let Some(name) = key_name(key) {
                    let span = member.span();
                    let signature = walker.slice(span.start, span.end);
                    let signature = signature.trim_end_matches([';', ',']).to_owned();
                    walker.add(
                        &name,
                        kind,
                        Place { whole: span, decorators: &[], public },
                        signature,
                    );
                }
            }
        });
    }

    fn enumeration(&mut self, declared: &TSEnumDeclaration<'_>, place: Place<'_, '_>) {
        let name = declared.id.name.as_str();
        let signature = self.slice(declared.span.start, declared.body.span.start).to_owned();
        let public = place.public;
        self.add(name, Kind::Enum, place, signature);
        self.inside(name, false, |walker| {
            for member in &declared.body.members {
                let span = member.span;
                let signature = walker.slice(span.start, span.end).to_owned();
                let place = Place { whole: span, decorators: &[], public };
                walker.add(member.id.static_name().as_str(), Kind::EnumMember, place, signature);
            }
        });
    }

    fn namespace(&mut self, namespace: &TSNamespaceDeclaration<'_>, place: Place<'_, '_>) {
        let name = namespace.id.name.as_str();
        let body = namespace.body.span();
        let signature = self.slice(namespace.span.start, body.start).to_owned();
        self.add(name, Kind::Module, place, signature);
        self.inside(name, false, |walker| match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                walker.namespace(inner, Place { whole: inner.span, ..place });
            }
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                let has_exports = block.body.iter().any(is_export);
                walker.statements(&block.body, !has_exports);
            }
        });
    }

    /// Handles `export { name }`, `export default name`, and assignments to CommonJS exports.
    fn mark_exported(&mut self, program: &Program<'_>) {
        let mut names: Vec<String> = Vec::new();
        for statement in &program.body {
            match statement {
                Statement::ExportNamedDeclaration(export) => {
                    names.extend(export.specifiers.iter().map(|one| one.local.name().to_string()));
                }
                Statement::ExportDefaultDeclaration(export) => {
                    if let ExportDefaultDeclarationKind::Identifier(name) = &export.declaration {
                        names.push(name.name.to_string());
                    }
                }
                _ => {}
            }
        }
        for symbol in &mut self.builder.outline.symbols {
            if symbol.path.first().is_some_and(|first| names.contains(first)) {
                symbol.public |= symbol.path.len() == 1 || !symbol.name().starts_with('#');
            }
        }
    }
}

/// The place of a definition, with its documentation.
#[derive(Clone, Copy)]
struct Place<'p, 'a> {
    whole: Span,
    decorators: &'p [Decorator<'a>],
    public: bool,
}

/// A name that is bound to a value.
#[derive(Clone, Copy)]
struct Bound<'n> {
    name: &'n str,
    /// Its kind if the value is neither a function nor a class.
    kind: Kind,
    /// The byte offset at which its signature starts.
    signature_start: u32,
}

/// Whether a member of a class can be used outside of it.
fn is_visible(accessibility: Option<TSAccessibility>, key: &PropertyKey<'_>) -> bool {
    !key.is_private_identifier()
        && !matches!(accessibility, Some(TSAccessibility::Private | TSAccessibility::Protected))
}

fn key_name(key: &PropertyKey<'_>) -> Option<String> {
    match key {
        PropertyKey::PrivateIdentifier(name) => Some(format!("#{}", name.name)),
        key => key.static_name().map(|name| name.to_string()),
    }
}

fn is_upper(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str, text: &str) -> Vec<(String, Kind, usize, usize, bool)> {
        let outline = outline(path, text);
        assert_eq!(outline.problem, None);
        outline.listed()
    }

    /// A TypeScript file with definitions of every kind.
    const TYPESCRIPT: &str = r#"import { a } from "./a";
/** Loads a file.
 *
 * In full.
 */
export async function load<T>(name: string, deep = { x: 1 }): Promise<T> {
  function inner() { return 1; }
  return inner() as T;
}
const helper = (x: number): number => x + 1;
export const LIMIT: number = 3, other = 4;
@Injectable()
export class Service extends Base implements Other {
  private count = 0;
  #secret = 1;
  constructor(private readonly db: Db) { super(); }
  @Get("/x")
  find = async (id: string) => { return id; };
  get size(): number { return 1; }
  static of(): Service { return new Service(null!); }
}
export interface Shape { area(): number; name: string }
export type Pair<T> = [T, T];
export enum Color { Red, Green = "g" }
declare namespace Inner { export function deep(): void; }
const { one, two: [three] } = a;
export { helper };
export { x as y } from "./x";
export * from "./all";
export default class { run() {} }
"#;

    #[test]
    fn typescript_symbols_are_found() {
        let text = TYPESCRIPT;
        let outline = outline("a.ts", text);
        outline.has(&[
            ("load", Kind::Function, 6, 9, true),
            ("load.inner", Kind::Function, 7, 7, false),
            ("helper", Kind::Function, 10, 10, true),
            ("LIMIT", Kind::Constant, 11, 11, true),
            ("other", Kind::Variable, 11, 11, true),
            ("Service", Kind::Class, 13, 21, true),
            ("Service.count", Kind::Field, 14, 14, false),
            ("Service.#secret", Kind::Field, 15, 15, false),
            ("Service.constructor", Kind::Constructor, 16, 16, true),
            ("Service.find", Kind::Method, 18, 18, true),
            ("Service.size", Kind::Property, 19, 19, true),
            ("Service.of", Kind::Method, 20, 20, true),
            ("Shape", Kind::Interface, 22, 22, true),
            ("Shape.area", Kind::Method, 22, 22, true),
            ("Shape.name", Kind::Field, 22, 22, true),
            ("Pair", Kind::Type, 23, 23, true),
            ("Color", Kind::Enum, 24, 24, true),
            ("Color.Red", Kind::EnumMember, 24, 24, true),
            ("Color.Green", Kind::EnumMember, 24, 24, true),
            ("Inner", Kind::Module, 25, 25, false),
            ("Inner.deep", Kind::Function, 25, 25, true),
            ("one", Kind::Variable, 26, 26, false),
            ("three", Kind::Variable, 26, 26, false),
            ("default", Kind::Class, 30, 30, true),
            ("default.run", Kind::Method, 30, 30, true),
        ]);

        let load = &outline.symbols[0];
        assert_eq!(load.doc.as_deref(), Some("Loads a file.\n\nIn full."));
        assert_eq!((load.start_line, load.line), (2, 6));
        for (index, signature) in [
            (0, "export async function load<T>(name: string, deep = { x: 1 }): Promise<T>"),
            (2, "const helper = (x: number): number =>"),
            (5, "export class Service extends Base implements Other"),
            (9, "find = async (id: string) =>"),
            (15, "export type Pair<T> = [T, T];"),
        ] {
            let symbol = &outline.symbols[index];
            assert!(
                symbol.signature == signature
                    || symbol.signature == signature.trim_start_matches("export "),
                "{}",
                symbol.signature
            );
        }
        let names: Vec<&str> = outline.reexports.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["y", "*"]);
    }

    #[test]
    fn javascript_symbols_are_found() {
        let text = "'use strict';\nfunction a() {}\nvar b = function () { class Deep {} };\n\
                    module.exports = { a };\nconst api = { get() {}, url: 1, put: () => 1 };\n";
        let names: Vec<String> = listed("a.js", text).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["a", "b", "b.Deep", "api", "api.get", "api.put"]);
        assert!(listed("a.js", text).iter().filter(|one| !one.0.contains("Deep")).all(|one| one.4));
        for (path, text) in [
            ("a.jsx", "export const A = () => <div>don't</div>;"),
            ("a.js", "const A = () => <b/>;"),
            ("a.mjs", "export default async function main() {}"),
            ("a.cjs", "exports.a = 1; with (a) { b }"),
            ("a.js", "#!/usr/bin/env node\nreturn_ = 1; var yield_ = 010;"),
            ("a.d.ts", "export declare function f(a: string): void;"),
        ] {
            listed(path, text);
        }
    }

    #[test]
    fn syntax_errors_have_a_line() {
        let outline = outline("a.ts", "export function a() {}\nfunction (\n");
        assert_eq!(outline.problem.as_ref().map(|problem| problem.line), Some(2));
    }
}
