//! Texts about a component from files beside it: `NAME.wit`, whose comments describe its functions and
//! types, and `NAME.toml`, in which the operator describes its tools. Beside an installed component of ACT
//! there is the list of its tools as well (`NAME.tools.json`), which the host wrote.
#![expect(
    clippy::disallowed_methods,
    reason = "they are beside a component that is named by its path"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wit_parser::{SourceMap, TypeDefKind, UnresolvedPackage, WorldItem, WorldKey};

use super::MAX_DESCRIPTION_BYTES;
use super::docs::Docs;
use crate::manifest::Tool;
use cofferdam_text::shorten;
use cofferdam_workspace::bounded_text;

/// The endings of the names of the files.
pub const ENDINGS: [&str; 3] = ["wit", "toml", "tools.json"];

/// The contents of the files beside a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// Of `NAME.wit`.
    pub wit: Option<String>,
    /// Of `NAME.toml`.
    pub texts: Option<String>,
    /// Of `NAME.tools.json`: the pinned list of the tools of a component of ACT.
    pub list: Option<String>,
    /// Which of them can't be read, and why.
    pub unread: Vec<String>,
}

/// What the operator says of a component.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    /// What it is for.
    pub(super) description: Option<String>,
    /// What its tools are for, by their names.
    #[serde(default)]
    pub(super) tools: BTreeMap<String, String>,
}

impl Texts {
    /// Describes tools by these texts. Adds what fits none of them to `unread`.
    pub(super) fn describe(&self, tools: &mut [Tool], unread: &mut Vec<String>) {
        for (name, text) in &self.tools {
            match tools.iter_mut().find(|tool| tool.name == *name) {
                Some(tool) => tool.description = shorten(text.trim(), MAX_DESCRIPTION_BYTES),
                None => unread.push(format!("the texts beside it: there is no tool '{name}'")),
            }
        }
    }
}

impl Beside {
    /// Reads the files beside the component at `path`.
    pub fn read(path: &Path) -> Self {
        let mut beside = Self::default();
        let [wit, texts, list] = ENDINGS.map(|ending| {
            let file = path.with_extension(ending);
            match text(&file) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    beside.unread.push(format!("{}: {error}", file.display()));
                    None
                }
            }
        });
        Self { wit, texts, list, ..beside }
    }

    /// The comments of the WIT.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn docs(&self) -> Option<Result<Docs, String>> {
        self.wit.as_deref().map(docs)
    }

    /// The operator's texts.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn texts(&self) -> Result<Texts, String> {
        let text = self.texts.as_deref().unwrap_or_default();
        // Without the line of the file that the whole error shows.
        toml::from_str(text).map_err(|error| format!("the texts beside it: {}", error.message()))
    }
}

/// Reads a regular file, whose type is checked first: opening a FIFO would block, and a link may lead
/// to any file of the operator.
fn text(file: &Path) -> io::Result<String> {
    if !fs::symlink_metadata(file)?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    bounded_text::read(file)
}

/// The comments in a WIT file, as those of the section `package-docs`.
fn docs(wit: &str) -> Result<Docs, String> {
    let wrong = |why: String| format!("the WIT beside it: {why}");
    let mut files = SourceMap::new();
    files.push_str("component.wit", wit);
    let group = files.parse().map_err(|(_, error)| wrong(error.to_string()))?;
    let package = [&group.main].into_iter().chain(&group.nested);
    let mut all = json!({ "worlds": {}, "interfaces": {} });
    for package in package {
        for (_, interface) in package.interfaces.iter() {
            if let Some(name) = &interface.name {
                all["interfaces"][name] = interface_docs(package, interface);
            }
        }
        for (_, world) in package.worlds.iter() {
            all["worlds"][&world.name] = world_docs(package, world);
        }
    }
    serde_json::from_value(all).map_err(|error| wrong(error.to_string()))
}

fn function_docs(function: &wit_parser::Function) -> Value {
    json!({ "docs": function.docs.contents })
}

fn interface_docs(package: &UnresolvedPackage, interface: &wit_parser::Interface) -> Value {
    let functions = interface.functions.iter();
    let functions: Map<String, Value> =
        functions.map(|(name, function)| (name.clone(), function_docs(function))).collect();
    let types = interface.types.iter();
    let types: Map<String, Value> =
        types.map(|(name, id)| (name.clone(), type_docs(&package.types[*id]))).collect();
    json!({ "docs": interface.docs.contents, "funcs": functions, "types": types })
}

fn world_docs(package: &UnresolvedPackage, world: &wit_parser::World) -> Value {
    let mut all = json!({
        "docs": world.docs.contents,
        "func_exports": {}, "interface_exports": {}, "types": {},
    });
    for (key, item) in world.imports.iter().chain(&world.exports) {
        let WorldKey::Name(name) = key else { continue };
        match item {
            WorldItem::Function(function) => all["func_exports"][name] = function_docs(function),
            WorldItem::Interface { id, .. } => {
                let docs = interface_docs(package, &package.interfaces[*id]);
                all["interface_exports"][name] = docs;
            }
            WorldItem::Type { id, .. } => all["types"][name] = type_docs(&package.types[*id]),
        }
    }
    all
}

fn type_docs(ty: &wit_parser::TypeDef) -> Value {
    let of = |name: &String, docs: &wit_parser::Docs| {
        docs.contents.clone().map(|text| (name.clone(), Value::from(text)))
    };
    let items: Map<String, Value> = match &ty.kind {
        TypeDefKind::Record(record) => {
            record.fields.iter().filter_map(|field| of(&field.name, &field.docs)).collect()
        }
        TypeDefKind::Variant(variant) => {
            variant.cases.iter().filter_map(|case| of(&case.name, &case.docs)).collect()
        }
        TypeDefKind::Enum(cases) => {
            cases.cases.iter().filter_map(|case| of(&case.name, &case.docs)).collect()
        }
        TypeDefKind::Flags(flags) => {
            flags.flags.iter().filter_map(|flag| of(&flag.name, &flag.docs)).collect()
        }
        _ => Map::new(),
    };
    json!({ "docs": ty.docs.contents, "items": items })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_errors_do_not_show_them() {
        let directory = tempfile::tempdir().unwrap();
        let [component, secret] = ["adder.wasm", ".env"].map(|name| directory.path().join(name));
        fs::write(&secret, "TOKEN = s3cr3t\n").unwrap();
        for ending in ENDINGS {
            std::os::unix::fs::symlink(&secret, component.with_extension(ending)).unwrap();
        }
        let Beside { wit, texts, list, unread } = Beside::read(&component);
        assert_eq!((wit, texts, list), (None, None, None));
        assert_eq!(unread.len(), 3, "{unread:?}");
        assert!(unread.iter().all(|why| why.ends_with("no regular file")), "{unread:?}");

        let text = fs::read_to_string(&secret).unwrap();
        let beside = Beside { texts: Some(text.clone()), wit: Some(text), ..Beside::default() };
        let wrong = beside.texts().unwrap_err();
        assert!(wrong.starts_with("the texts beside it: ") && !wrong.contains("s3cr3t"), "{wrong}");
        let wrong = beside.docs().unwrap().unwrap_err();
        assert!(!wrong.contains("s3cr3t"), "{wrong}");
    }
}
