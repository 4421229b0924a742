//! Outlines of Rust files, by rust-analyzer's parser. It recovers from syntax errors.

use ra_ap_parser::{Edition, LexedStr, StrStep, TopEntryPoint};
use ra_ap_syntax::ast::{self, HasModuleItem as _, HasName as _};
use ra_ap_syntax::{AstNode, RustLanguage, SyntaxKind, SyntaxNode, TextRange};
use rowan::{GreenNodeBuilder, Language as _};

use crate::outline::{Builder, Found, Kind, Outline, Problem, comment, one_line, shortened};

/// The maximum length of a constant's value in a signature, in characters.
const MAX_VALUE_CHARS: usize = 160;

/// The definitions in a file.
pub fn outline(text: &str) -> Outline {
    let (root, error) = parse(text);
    let mut walker = Walker { builder: Builder::new(text) };
    walker.builder.outline.problem =
        error.map(|(offset, message)| Problem { line: walker.builder.line(offset), message });
    walker.builder.outline.doc = inner_doc(&root);
    walker.items(root.children().filter_map(ast::Item::cast));
    walker.builder.finish()
}

/// Parses a text; returns the tree, and the first error with its byte offset.
///
/// Does not use `SourceFile::parse`, which drops its result on another thread: a component has no
/// threads.
fn parse(text: &str) -> (SyntaxNode, Option<(usize, String)>) {
    let lexed = LexedStr::new(Edition::CURRENT, text);
    let output = TopEntryPoint::SourceFile.parse(&lexed.to_input(Edition::CURRENT));
    let mut tree = GreenNodeBuilder::new();
    let lexical =
        lexed.errors().map(|(token, message)| (lexed.text_start(token), message.to_owned()));
    let mut errors: Vec<(usize, String)> = lexical.collect();
    lexed.intersperse_trivia(&output, &mut |step| match step {
        StrStep::Token { kind, text } => tree.token(RustLanguage::kind_to_raw(kind), text),
        StrStep::Enter { kind } => tree.start_node(RustLanguage::kind_to_raw(kind)),
        StrStep::Exit => tree.finish_node(),
        StrStep::Error { msg, pos } => errors.push((pos, msg.to_owned())),
    });
    errors.sort();
    (SyntaxNode::new_root(tree.finish()), errors.into_iter().next())
}

struct Walker<'t> {
    builder: Builder<'t>,
}

impl Walker<'_> {
    fn items(&mut self, items: impl Iterator<Item = ast::Item>) {
        for item in items {
            self.item(&item);
        }
    }

    fn item(&mut self, item: &ast::Item) {
        match item {
            ast::Item::Fn(function) => self.function(function, Kind::Function, is_public(function)),
            ast::Item::Const(constant) => {
                self.add(constant, Kind::Constant, None, is_public(constant));
            }
            ast::Item::Static(variable) => {
                self.add(variable, Kind::Variable, None, is_public(variable));
            }
            ast::Item::TypeAlias(alias) => {
                self.add(alias, Kind::Type, None, is_public(alias));
            }
            ast::Item::Struct(declared) => self.structure(declared),
            ast::Item::Union(declared) => {
                let body = declared.record_field_list().map(|list| list.syntax().clone());
                self.add(declared, Kind::Union, body, is_public(declared));
                self.fields(declared.name(), declared.record_field_list());
            }
            ast::Item::Enum(declared) => self.enumeration(declared),
            ast::Item::Trait(declared) => self.declared_trait(declared),
            ast::Item::Impl(implementation) => self.implementation(implementation),
            ast::Item::Module(module) => {
                let list = module.item_list();
                let body = list.as_ref().map(|list| list.syntax().clone());
                self.add(module, Kind::Module, body, is_public(module));
                if let (Some(name), Some(list)) = (module.name(), list) {
                    self.builder.enter(name.text(), false);
                    self.items(list.items());
                    self.builder.leave(false);
                }
            }
            ast::Item::MacroRules(declared) => {
                let public = outer_attributes(declared.syntax())
                    .iter()
                    .any(|attribute| attribute.starts_with("macro_export"));
                let body = declared.token_tree().map(|body| body.syntax().clone());
                self.add(declared, Kind::Macro, body, public);
            }
            ast::Item::MacroDef(declared) => {
                let body = declared.body().map(|body| body.syntax().clone());
                self.add(declared, Kind::Macro, body, is_public(declared));
            }
            ast::Item::ExternBlock(block) => {
                for item in
                    block.extern_item_list().into_iter().flat_map(|list| list.extern_items())
                {
                    self.extern_item(&item);
                }
            }
            ast::Item::AsmExpr(_)
            | ast::Item::ExternCrate(_)
            | ast::Item::MacroCall(_)
            | ast::Item::Use(_) => {}
        }
    }

    fn declared_trait(&mut self, declared: &ast::Trait) {
        let list = declared.assoc_item_list();
        let public = is_public(declared);
        let body = list.as_ref().map(|list| list.syntax().clone());
        self.add(declared, Kind::Trait, body, public);
        if let (Some(name), Some(list)) = (declared.name(), list) {
            self.members(name.text(), &list, Some(public));
        }
    }

    fn extern_item(&mut self, item: &ast::ExternItem) {
        match item {
            ast::ExternItem::Fn(function) => {
                self.function(function, Kind::Function, is_public(function));
            }
            ast::ExternItem::Static(variable) => {
                self.add(variable, Kind::Variable, None, is_public(variable));
            }
            ast::ExternItem::TypeAlias(alias) => {
                self.add(alias, Kind::Type, None, is_public(alias));
            }
            ast::ExternItem::MacroCall(_) => {}
        }
    }

    fn function(&mut self, function: &ast::Fn, kind: Kind, public: bool) {
        let body = function.body();
        self.add(function, kind, body.as_ref().map(|body| body.syntax().clone()), public);
        // Items that are nested in the function.
        if let (Some(name), Some(list)) = (function.name(), body.and_then(|body| body.stmt_list()))
        {
            self.builder.enter(name.text(), true);
            for statement in list.statements() {
                if let ast::Stmt::Item(item) = statement {
                    self.item(&item);
                }
            }
            self.builder.leave(true);
        }
    }

    fn structure(&mut self, declared: &ast::Struct) {
        let record = match declared.field_list() {
            Some(ast::FieldList::RecordFieldList(list)) => Some(list),
            _ => None,
        };
        let body = record.as_ref().map(|list| list.syntax().clone());
        self.add(declared, Kind::Struct, body, is_public(declared));
        self.fields(declared.name(), record);
    }

    fn fields(&mut self, name: Option<ast::Name>, list: Option<ast::RecordFieldList>) {
        let (Some(name), Some(list)) = (name, list) else {
            return;
        };
        self.builder.enter(name.text(), false);
        for field in list.fields() {
            self.add(&field, Kind::Field, None, is_public(&field));
        }
        self.builder.leave(false);
    }

    fn enumeration(&mut self, declared: &ast::Enum) {
        let list = declared.variant_list();
        let public = is_public(declared);
        let body = list.as_ref().map(|list| list.syntax().clone());
        self.add(declared, Kind::Enum, body, public);
        if let (Some(name), Some(list)) = (declared.name(), list) {
            self.builder.enter(name.text(), false);
            for variant in list.variants() {
                self.add(&variant, Kind::EnumMember, None, public);
            }
            self.builder.leave(false);
        }
    }

    /// The members of an implementation belong to the type. Members of a trait are as public as the
    /// trait.
    fn implementation(&mut self, implementation: &ast::Impl) {
        let (Some(of), Some(list)) = (implementation.self_ty(), implementation.assoc_item_list())
        else {
            return;
        };
        let written = of.syntax().text().to_string();
        let plain = written.trim_start_matches(['&', '*']).trim_start_matches("mut ");
        let plain = plain.trim_start_matches("dyn ");
        let plain = plain.split(['<', ' ', '(', '[']).next().unwrap_or_default();
        let name = plain.rsplit("::").next().unwrap_or_default();
        let name = if name.is_empty() { written.as_str() } else { name };
        let public = implementation.trait_().is_some().then_some(true);
        self.members(name, &list, public);
    }

    fn members(&mut self, name: &str, list: &ast::AssocItemList, public: Option<bool>) {
        self.builder.enter(name, false);
        for item in list.assoc_items() {
            match item {
                ast::AssocItem::Fn(function) => {
                    let public = public.unwrap_or_else(|| is_public(&function));
                    self.function(&function, Kind::Method, public);
                }
                ast::AssocItem::Const(constant) => {
                    let public = public.unwrap_or_else(|| is_public(&constant));
                    self.add(&constant, Kind::Constant, None, public);
                }
                ast::AssocItem::TypeAlias(alias) => {
                    let public = public.unwrap_or_else(|| is_public(&alias));
                    self.add(&alias, Kind::Type, None, public);
                }
                ast::AssocItem::MacroCall(_) => {}
            }
        }
        self.builder.leave(false);
    }

    /// Adds a definition if it has a name; its signature is the text up to `body`.
    fn add(
        &mut self,
        node: &impl ast::HasName,
        kind: Kind,
        body: Option<SyntaxNode>,
        public: bool,
    ) {
        let Some(name) = node.name() else {
            return;
        };
        let node = node.syntax();
        let range = node.text_range();
        let own = own_start(node);
        let text = node.text();
        let end = body.as_ref().map_or(range.end(), |body| body.text_range().start());
        let signature =
            text.slice(TextRange::new(own - range.start(), end - range.start())).to_string();
        let signature = signature.trim().trim_end_matches([';', ',']).trim_end();
        let signature = match body {
            None => shortened(&one_line(signature), MAX_VALUE_CHARS),
            Some(_) => signature.to_owned(),
        };
        self.builder.add(Found {
            name: name.text().trim_start_matches("r#"),
            kind,
            span: first_start(node).into()..range.end().into(),
            start: own.into(),
            signature,
            doc: outer_doc(node),
            decorators: outer_attributes(node),
            public,
        });
    }
}

fn is_public(node: &impl ast::HasVisibility) -> bool {
    node.visibility().is_some_and(|visibility| visibility.syntax().text() == "pub")
}

/// The start of an item with its documentation and attributes.
fn first_start(node: &SyntaxNode) -> ra_ap_syntax::TextSize {
    let elements = node.children_with_tokens();
    let first = elements.into_iter().find(|element| match element.kind() {
        SyntaxKind::WHITESPACE => false,
        SyntaxKind::COMMENT => element.as_token().is_some_and(|token| is_outer_doc(token.text())),
        _ => true,
    });
    first.map_or(node.text_range().start(), |first| first.text_range().start())
}

/// The start of the item itself, after comments and attributes.
fn own_start(node: &SyntaxNode) -> ra_ap_syntax::TextSize {
    let own = node.children_with_tokens().find(|element| {
        !matches!(element.kind(), SyntaxKind::WHITESPACE | SyntaxKind::COMMENT | SyntaxKind::ATTR)
    });
    own.map_or(node.text_range().start(), |own| own.text_range().start())
}

fn is_outer_doc(text: &str) -> bool {
    (text.starts_with("///") && !text.starts_with("////"))
        || (text.starts_with("/**") && !text.starts_with("/***") && text != "/**/")
}

fn outer_doc(node: &SyntaxNode) -> Option<String> {
    docs(node, is_outer_doc)
}

fn inner_doc(node: &SyntaxNode) -> Option<String> {
    docs(node, |text| text.starts_with("//!") || text.starts_with("/*!"))
}

fn docs(node: &SyntaxNode, is_doc: impl Fn(&str) -> bool) -> Option<String> {
    let tokens = node.children_with_tokens().filter_map(|element| element.into_token());
    let comments =
        tokens.filter(|token| token.kind() == SyntaxKind::COMMENT && is_doc(token.text()));
    let lines: Vec<String> = comments.map(|token| comment(token.text())).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn outer_attributes(node: &SyntaxNode) -> Vec<String> {
    let attributes = node.children().filter(|child| child.kind() == SyntaxKind::ATTR);
    attributes
        .map(|attribute| {
            let text = attribute.text().to_string();
            one_line(text.trim_start_matches("#").trim_start_matches('[').trim_end_matches(']'))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Rust file with definitions of every kind.
    const RUST: &str = r##"//! About the module.
use std::fmt;

/// Loads it.
///
/// In full.
#[must_use]
#[inline]
pub async fn load<T: Into<String>>(name: T, r#type: u8) -> Result<(), Error>
where
    T: Clone,
{
    fn inner() {}
    struct Local { a: u8 }
    Ok(())
}
pub(crate) const LIMIT: usize = 3;
static mut COUNT: u8 = 0;
#[derive(Debug)]
pub struct Point<T> { pub x: T, y: T }
struct Unit;
pub struct Pair(u8, u8);
union Either { a: u8, b: u16 }
pub enum Color { Red, Green(u8), Blue { deep: u8 } }
impl<T> Point<T> {
    pub const ZERO: u8 = 0;
    pub fn new() -> Self { todo!() }
    fn private(&self) {}
}
impl<T> fmt::Display for Point<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { Ok(()) }
}
pub trait Shape: Sized { type Out; fn area(&self) -> f64 { 0.0 } }
type Alias = Vec<u8>;
mod inner { pub fn deep() {} }
#[macro_export]
macro_rules! say { () => {} }
extern "C" { fn external(a: u8); }
fn r#match() {}
"##;

    #[test]
    fn rust_symbols_are_found() {
        let text = RUST;
        let outline = outline(text);
        assert_eq!(outline.doc.as_deref(), Some("About the module."));
        outline.has(&[
            ("load", Kind::Function, 9, 16, true),
            ("load.inner", Kind::Function, 13, 13, false),
            ("load.Local", Kind::Struct, 14, 14, false),
            ("load.Local.a", Kind::Field, 14, 14, false),
            ("LIMIT", Kind::Constant, 17, 17, false),
            ("COUNT", Kind::Variable, 18, 18, false),
            ("Point", Kind::Struct, 20, 20, true),
            ("Point.x", Kind::Field, 20, 20, true),
            ("Point.y", Kind::Field, 20, 20, false),
            ("Unit", Kind::Struct, 21, 21, false),
            ("Pair", Kind::Struct, 22, 22, true),
            ("Either", Kind::Union, 23, 23, false),
            ("Either.a", Kind::Field, 23, 23, false),
            ("Either.b", Kind::Field, 23, 23, false),
            ("Color", Kind::Enum, 24, 24, true),
            ("Color.Red", Kind::EnumMember, 24, 24, true),
            ("Color.Green", Kind::EnumMember, 24, 24, true),
            ("Color.Blue", Kind::EnumMember, 24, 24, true),
            ("Point.ZERO", Kind::Constant, 26, 26, true),
            ("Point.new", Kind::Method, 27, 27, true),
            ("Point.private", Kind::Method, 28, 28, false),
            ("Point.fmt", Kind::Method, 31, 31, true),
            ("Shape", Kind::Trait, 33, 33, true),
            ("Shape.Out", Kind::Type, 33, 33, true),
            ("Shape.area", Kind::Method, 33, 33, true),
            ("Alias", Kind::Type, 34, 34, false),
            ("inner", Kind::Module, 35, 35, false),
            ("inner.deep", Kind::Function, 35, 35, true),
            ("say", Kind::Macro, 37, 37, true),
            ("external", Kind::Function, 38, 38, false),
            ("match", Kind::Function, 39, 39, false),
        ]);

        let load = &outline.symbols[0];
        assert_eq!(load.start_line, 4);
        assert_eq!(load.doc.as_deref(), Some("Loads it.\n\nIn full."));
        assert_eq!(load.decorators, ["must_use", "inline"]);
        assert_eq!(
            load.signature,
            "pub async fn load<T: Into<String>>(name: T, r#type: u8) -> Result<(), Error> where T: Clone"
        );
        assert_eq!(outline.symbols[4].signature, "pub(crate) const LIMIT: usize = 3");
        assert_eq!(outline.symbols[6].signature, "pub struct Point<T>");
    }

    #[test]
    fn files_with_syntax_errors_keep_their_symbols() {
        let outline = outline("fn good() {}\nfn bad( {\n}\nfn after() {}\n");
        assert!(outline.problem.is_some_and(|problem| problem.line >= 2));
        assert_eq!(outline.symbols[0].qualified(), "good");
        assert!(outline.symbols.iter().any(|symbol| symbol.name() == "after"));
    }
}
