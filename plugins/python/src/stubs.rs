//! The tools that a script uses as stubs of Python, for the type checker.
//!
//! A result has exactly the type of its schema, or `Any`. An argument takes everything that could be
//! right: any list for a list of objects, a float for an integer, None for what may be left out. So what
//! the checker refuses fails in any case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::calls::Signature;
use crate::types::{self, Field, Type, python_name};

/// The beginning of all stubs.
const HEAD: &str = "from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict
class ToolError(Exception):
    code: str
    message: str
    detail: Any
";

/// Stubs, and what their names stand for.
#[derive(Debug, Default)]
pub struct Stubs {
    classes: String,
    modules: String,
    /// The types of results, by their names in the stubs.
    pub dicts: BTreeMap<String, Dict>,
}

/// A dict in the result of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Dict {
    /// The qualified name of the tool.
    pub tool: String,
    /// All keys.
    pub keys: Vec<String>,
}

impl Stubs {
    /// Adds the functions of a module, each with the signature of its tool.
    pub fn add_module(
        &mut self,
        module: &str,
        functions: &BTreeMap<String, String>,
        is_async: bool,
        mut signature: impl FnMut(&str) -> Signature,
    ) {
        let mut class = format!("class _{module}:\n");
        for (function, tool) in functions {
            let signature = signature(tool);
            let output = serde_json::from_str::<Value>(&signature.output).unwrap_or_default();
            let name = camel(&format!("{module}_{function}"));
            let result = self.result(&types::of_schema(&output), &name, tool);
            let word = if is_async { "async def" } else { "def" };
            let arguments = arguments(&signature);
            // Writing to a `String` never fails.
            let _ = writeln!(
                class,
                "    @staticmethod\n    {word} {function}({arguments}) -> {result}: ..."
            );
        }
        // Other functions of the module are looked at elsewhere.
        class.push_str("    def __getattr__(self, name: str) -> Any: ...\n");
        let _ = writeln!(self.modules, "{class}{module}: _{module}");
    }

    /// The text of the stubs, with variables of any type.
    pub fn text<'a>(&self, variables: impl Iterator<Item = &'a String>) -> String {
        let is_name = |name: &&String| python_name(name) == **name;
        let variables: String =
            variables.filter(is_name).map(|name| format!("{name}: Any\n")).collect();
        format!("{HEAD}{variables}{}{}", self.classes, self.modules)
    }

    fn result(&mut self, value: &Type, name: &str, tool: &str) -> String {
        match value {
            Type::Any => "Any".to_owned(),
            Type::Simple(simple) => (*simple).to_owned(),
            Type::Literal(constants) => format!("Literal[{}]", constants.join(", ")),
            Type::List(items) => format!("list[{}]", self.result(items, name, tool)),
            Type::Dict(values) => format!("dict[str, {}]", self.result(values, name, tool)),
            Type::Union(types) => {
                let types: Vec<String> =
                    types.iter().map(|one| self.result(one, name, tool)).collect();
                types.join(" | ")
            }
            Type::Object(fields) => self.class(fields, name, tool),
        }
    }

    fn class(&mut self, fields: &[Field], name: &str, tool: &str) -> String {
        if fields.iter().any(|field| python_name(&field.name) != field.name) {
            return "dict[str, Any]".to_owned();
        }
        let mut unique = name.to_owned();
        while self.dicts.contains_key(&unique) {
            unique.push('_');
        }
        let name = unique.as_str();
        self.dicts.insert(name.to_owned(), Dict { tool: tool.to_owned(), keys: Vec::new() });
        let mut class = format!("class {name}(TypedDict):\n");
        for Field { name: key, value, is_required } in fields {
            let own = self.result(value, &format!("{name}{}", camel(key)), tool);
            let own = if *is_required { own } else { format!("NotRequired[{own}]") };
            let _ = writeln!(class, "    {key}: {own}");
        }
        self.classes.push_str(&class);
        let keys = fields.iter().map(|field| field.name.clone()).collect();
        self.dicts.insert(name.to_owned(), Dict { tool: tool.to_owned(), keys });
        name.to_owned()
    }
}

fn arguments(signature: &Signature) -> String {
    let mut all: Vec<String> = Vec::new();
    for (name, field) in &signature.fields {
        let has_other_names = signature.aliases.values().any(|own| *own == field.name);
        let value = argument(&field.value);
        all.push(match field.is_required && !has_other_names {
            true => format!("{name}: {value}"),
            false => format!("{name}: {value} | None = ..."),
        });
    }
    if !all.is_empty() {
        all.insert(0, "*".to_owned());
    }
    if signature.is_open {
        all.push("**others: Any".to_owned());
    }
    all.join(", ")
}

/// The type of what can be right for an argument.
fn argument(value: &Type) -> String {
    match value {
        Type::Any => "Any".to_owned(),
        // A float can be a whole number.
        Type::Simple("int") => "float".to_owned(),
        Type::Simple(simple) => (*simple).to_owned(),
        Type::Literal(constants) => format!("Literal[{}]", constants.join(", ")),
        Type::List(items) => {
            let item = if **items == Type::Simple("str") { "str" } else { "Any" };
            format!("list[{item}] | tuple[{item}, ...] | set[{item}] | frozenset[{item}]")
        }
        Type::Dict(_) | Type::Object(_) => "Mapping[Any, Any]".to_owned(),
        Type::Union(types) => types.iter().map(argument).collect::<Vec<_>>().join(" | "),
    }
}

/// `read_file` as `ReadFile`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_exact_and_arguments_take_what_could_be_right() {
        let signature = |_: &str| {
            let input = json!({"additionalProperties": false, "required": ["path"], "properties": {
                "path": {"type": "string"}, "n": {"type": "integer"}, "-i": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["a", "b"]}, "edits": {"type": "array", "items": {"type": "object"}}}});
            let output = json!({"type": "object", "additionalProperties": false, "required": ["content"],
                "properties": {"content": {"type": "string"}, "lines": {"type": "array", "items":
                {"type": "object", "additionalProperties": false, "properties": {"n": {"type": "integer"}}}},
                "other": {"type": "object", "additionalProperties": false, "properties": {"from": {}}}}});
            Signature::new(&input, output.to_string())
        };
        let mut stubs = Stubs::default();
        let functions = BTreeMap::from([("read_file".to_owned(), "files.read_file".to_owned())]);
        stubs.add_module("files", &functions, false, signature);
        let names = ["x".to_owned(), "no name".to_owned()];
        let text = stubs.text(names.iter());
        let wanted = "x: Any
class FilesReadFileLines(TypedDict):
    n: NotRequired[int]
class FilesReadFile(TypedDict):
    content: str
    lines: NotRequired[list[FilesReadFileLines]]
    other: NotRequired[dict[str, Any]]
class _files:
    @staticmethod
    def read_file(*, edits: list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any] | None = ..., \
i: bool | None = ..., mode: Literal[\"a\", \"b\"] | None = ..., n: float | None = ..., \
names: list[str] | tuple[str, ...] | set[str] | frozenset[str] | None = ..., path: str) -> FilesReadFile: ...
    def __getattr__(self, name: str) -> Any: ...
files: _files
";
        assert_eq!(text.strip_prefix(HEAD), Some(wanted), "{text}");
        assert_eq!(stubs.dicts["FilesReadFile"].keys, ["content", "lines", "other"]);
    }
}
