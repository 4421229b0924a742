//! Turns the JSON Schema of an object into rows of a Markdown table: one row for each field,
//! including those of nested objects (`bead.title`, `findings[].file`).
//!
//! Handles only the keywords that the project's own schemas use.

use serde_json::Value;

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name, with those of the objects that it is nested in.
    pub path: String,
    /// Type, allowed values and bounds, in words.
    pub kind: String,
    /// Whether the field is required.
    pub required: bool,
    /// The default value as JSON, unless it is empty.
    pub default: Option<String>,
    /// The description in the schema.
    pub description: String,
}

/// All fields of the object that `schema` describes, nested ones after the field that holds them.
/// References are looked up in `root`.
pub fn fields(root: &Value, schema: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(root, schema, "", &mut found);
    found
}

fn collect(root: &Value, schema: &Value, prefix: &str, found: &mut Vec<Field>) {
    let schema = resolve(root, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let inner = resolve(root, field);
        let description = [field, inner].iter().find_map(|schema| schema["description"].as_str());
        found.push(Field {
            kind: kind(root, field),
            required: required(schema, name),
            default: default(field),
            description: one_line(description.unwrap_or_default()),
            path: path.clone(),
        });
        if inner["properties"].is_object() {
            collect(root, inner, &format!("{path}."), found);
        } else if resolve(root, &inner["items"])["properties"].is_object() {
            collect(root, &inner["items"], &format!("{path}[]."), found);
        }
    }
}

/// Whether the object that `schema` describes must have the field `name`.
fn required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name))
}

/// The schema that a reference within `root` names, or the schema itself. `T | null` is `T`.
pub fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(pointer) = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
        return root.pointer(pointer).map_or(schema, |schema| resolve(root, schema));
    }
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([value, null]) if null["type"] == "null" => resolve(root, value),
        _ => schema,
    }
}

/// The type of a value in words, with the values or bounds that the schema gives.
fn kind(root: &Value, schema: &Value) -> String {
    let schema = resolve(root, schema);
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[key].as_array() {
            let mut kinds: Vec<String> = choices.iter().map(|choice| kind(root, choice)).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let shown = values.iter().filter(|value| !value.is_null());
        return shown.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
    }
    let name = schema["type"].as_str().or_else(|| {
        let names = schema["type"].as_array()?;
        names.iter().filter_map(Value::as_str).find(|name| *name != "null")
    });
    match name {
        Some("array") => format!("list of {}", plural(&kind(root, &schema["items"]))),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("table of {}", plural(&kind(root, &schema["additionalProperties"])))
        }
        Some("object") => "object".to_owned(),
        Some(name @ ("integer" | "number")) => match bounds(schema, "minimum", "maximum") {
            Some(bounds) => format!("{name}, {bounds}"),
            None => name.to_owned(),
        },
        Some("string") => match bounds(schema, "minLength", "maxLength").as_deref() {
            Some("at least 1") => "string, not empty".to_owned(),
            Some(bounds) => format!("string, {bounds} characters"),
            None => "string".to_owned(),
        },
        Some(name) => name.to_owned(),
        None => "any value".to_owned(),
    }
}

/// The plural of a kind; a bound after a comma is not changed.
fn plural(kind: &str) -> String {
    let (words, bound) =
        kind.split_once(',').map_or((kind, ""), |(words, _)| (words, &kind[words.len()..]));
    let plurals = words.split(" or ").map(|word| match word {
        "string" | "integer" | "number" | "boolean" | "object" => format!("{word}s"),
        word => match word.strip_prefix("list of ") {
            Some(items) => format!("lists of {items}"),
            None => word.to_owned(),
        },
    });
    plurals.collect::<Vec<_>>().join(" or ") + bound
}

fn bounds(schema: &Value, least: &str, most: &str) -> Option<String> {
    match (schema.get(least), schema.get(most)) {
        // Every unsigned number starts at 0, so that is not shown.
        (Some(least), None) if *least == 0 => None,
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

/// The default value, unless it is empty (null, false, 0, "" or an empty list or object).
fn default(schema: &Value) -> Option<String> {
    let value = schema.get("default")?;
    let nothing = match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    (!nothing).then(|| value.to_string())
}

/// Escapes text for a cell of a table, on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A row of a table for a field: name, type, default, description.
pub fn row(field: &Field) -> String {
    let mut kind = field.kind.replace('|', "\\|");
    if field.required {
        kind.push_str(", required");
    }
    let default = field.default.as_ref().map(|value| format!("`{value}`")).unwrap_or_default();
    format!("| `{}` | {kind} | {default} | {} |\n", field.path, field.description)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_words() {
        let root = json!({"$defs": {
            "One": {"oneOf": [{"const": "a"}, {"const": "b"}]},
            "Table": {"type": "object", "properties": {}}
        }});
        for (schema, wanted) in [
            (json!({"type": "string"}), "string"),
            (json!({"type": ["string", "null"], "minLength": 1}), "string, not empty"),
            (json!({"type": "string", "maxLength": 9}), "string, at most 9 characters"),
            (json!({"type": "integer", "minimum": 0}), "integer"),
            (json!({"type": "integer", "minimum": 0, "maximum": 4}), "integer, 0 to 4"),
            (json!({"enum": ["x", 1, null]}), "`\"x\"` or `1`"),
            (json!({"type": "array", "items": {"type": "string"}}), "list of strings"),
            (
                json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
                "list of strings, not empty",
            ),
            (json!({"$ref": "#/$defs/One"}), "`\"a\"` or `\"b\"`"),
            (json!({"anyOf": [{"$ref": "#/$defs/One"}, {"type": "null"}]}), "`\"a\"` or `\"b\"`"),
            (json!({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Table"}]}), "string or object"),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                "table of strings",
            ),
            (
                json!({"type": "array", "items": {"anyOf": [
                    {"type": "string"}, {"type": "array", "items": {"type": "integer"}}
                ]}}),
                "list of strings or lists of integers",
            ),
            (json!({}), "any value"),
        ] {
            assert_eq!(kind(&root, &schema), wanted, "{schema}");
        }
    }

    #[test]
    fn nested_fields_follow_the_field_that_holds_them() {
        let inner = json!({
            "type": "object", "required": ["id"],
            "properties": {"id": {"type": "string", "description": "One\nline | cell."}}
        });
        let schema = json!({"type": "object", "properties": {
            "one": inner, "many": {"type": "array", "items": inner},
            "flag": {"type": "boolean", "default": false}, "empty": {"type": "array", "default": []}
        }});
        let shown: Vec<String> = fields(&schema, &schema).iter().map(row).collect();
        assert_eq!(
            shown,
            [
                "| `one` | object |  |  |\n",
                "| `one.id` | string, required |  | One line \\| cell. |\n",
                "| `many` | list of objects |  |  |\n",
                "| `many[].id` | string, required |  | One line \\| cell. |\n",
                "| `flag` | boolean | `false` |  |\n",
                "| `empty` | list of any value |  |  |\n",
            ]
        );
    }
}
