//! A tool as a signature of Python, in one line for a model.

use cofferdam_sdk::tools::Tool;
use serde_json::Value;

use crate::types::{self, Field, Type, python_name};

/// The signature of a tool, and its description below.
pub fn of_tool(tool: &Tool) -> String {
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (plugin, name) = tool.name.split_once('.').unwrap_or(("", &tool.name));
    let (fields, _) = types::fields(&schema(&tool.input));
    let mut arguments: Vec<String> =
        fields.iter().filter(|it| it.is_required).map(argument).collect();
    arguments.extend(fields.iter().filter(|it| !it.is_required).map(argument));
    let result = shown(&types::of_schema(&schema(&tool.output)));
    let (plugin, name) = (python_name(plugin), python_name(name));
    format!("{plugin}.{name}({}) -> {result}\n    {}", arguments.join(", "), tool.description)
}

fn argument(field: &Field) -> String {
    let default = if field.is_required { "" } else { " = ..." };
    format!("{}: {}{default}", python_name(&field.name), shown(&field.value))
}

/// A type in one line. Keys that may be missing end with a question mark.
pub fn shown(value: &Type) -> String {
    match value {
        Type::Any => "Any".to_owned(),
        Type::Simple(name) => (*name).to_owned(),
        Type::Literal(constants) => constants.join(" | "),
        Type::List(items) => format!("list[{}]", shown(items)),
        Type::Dict(values) => format!("dict[str, {}]", shown(values)),
        Type::Union(types) => types.iter().map(shown).collect::<Vec<_>>().join(" | "),
        Type::Object(fields) => {
            let field = |field: &Field| {
                let mark = if field.is_required { "" } else { "?" };
                format!("{}{mark}: {}", field.name, shown(&field.value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::tools::Effects;

    use super::*;

    #[test]
    fn a_signature_has_required_arguments_first() {
        let tool = Tool {
            name: "files.move".to_owned(),
            description: "Moves a file.".to_owned(),
            effects: Effects::Write,
            input: r#"{"type": "object", "required": ["from"], "properties": {
                "-n": {"type": "integer"}, "from": {"type": "string"}, "mode": {"enum": ["a", "b"]}}}"#
                .to_owned(),
            output: r#"{"type": "object", "additionalProperties": false, "required": ["files"],
                "properties": {"files": {"type": "array", "items": {"type": "string"}},
                "n": {"type": ["integer", "null"]}}}"#
                .to_owned(),
        };
        assert_eq!(
            of_tool(&tool),
            "files.move(from_: str, n: int = ..., mode: \"a\" | \"b\" = ...) -> \
             {files: list[str], n?: int | None}\n    Moves a file."
        );
    }
}
