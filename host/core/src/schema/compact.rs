//! Shortens a schema for models, whose users pay for each token. It accepts and refuses exactly the
//! same documents; descriptions, defaults and limits are kept.
//!
//! | left out | reason |
//! |---|---|
//! | `$id`, `$comment`, `title`, `examples`, the usual `$schema` | they are not checked, and the tool has a name and a description |
//! | `x-aliases`, `x-content` | models need one name; the host sends content apart |
//! | descriptions that only repeat the property's name | they add nothing |
//! | `"default": false` of a boolean | it is the usual default of an optional one |
//! | keywords with their default value: `"minLength": 0`, `"required": []`, ... | JSON Schema's own defaults (2020-12, Validation, sections 6 and 9) |
//! | unused definitions, and references to those that are used once | the definition is inlined |

use serde_json::{Map, Value, json};

/// The default draft of a schema.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The keywords for definitions, in this draft and in older ones.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The keyword of a property with the other names under which the host accepts it.
pub const ALIASES: &str = "x-aliases";

/// The keyword of an object in an output schema that is content with a media type
/// ([`envelope::take_parts`](crate::envelope::take_parts)).
pub const CONTENT: &str = "x-content";

/// The keyword of an input schema with the arguments that scripts give by default.
const SCRIPTS: &str = "x-scripts";

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a map of schemas.
const NAMED_SCHEMAS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Returns an equivalent, shorter schema.
///
/// A schema with references to anything but definitions is not changed, since the targets must not
/// move.
pub fn compact(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let mut references = Vec::new();
    each(&schema, &mut |fields| {
        references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    if !references.iter().all(|reference| definition(reference).is_some()) {
        return schema;
    }
    let usual = schema.get("$schema").is_none_or(|draft| draft == DRAFT);
    if usual {
        drop_key(&mut schema, "$schema");
        inline(&mut schema);
    }
    shorten(&mut schema, None);
    schema
}

fn drop_key(schema: &mut Value, key: &str) {
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove(key);
    }
}

/// The definition that a reference names: the keyword and the name.
fn definition(reference: &str) -> Option<(&str, &str)> {
    let (keyword, name) = reference.strip_prefix("#/")?.split_once('/')?;
    let plain = !name.is_empty() && !name.contains(['/', '~', '%']);
    (plain && DEFINITIONS.contains(&keyword)).then_some((keyword, name))
}

/// Calls `show` with every schema in a schema, including itself.
fn each(schema: &Value, show: &mut impl FnMut(&Map<String, Value>)) {
    let Some(fields) = schema.as_object() else { return };
    show(fields);
    for (key, value) in fields {
        match value {
            Value::Object(named) if NAMED_SCHEMAS.contains(&key.as_str()) => {
                named.values().for_each(|schema| each(schema, show));
            }
            Value::Array(list) if SCHEMAS.contains(&key.as_str()) => {
                list.iter().for_each(|schema| each(schema, show));
            }
            Value::Object(_) if SCHEMAS.contains(&key.as_str()) => each(value, show),
            _ => {}
        }
    }
}

/// Calls `change` with every schema in a schema, nested ones first. `name` is the property that the
/// schema is for.
fn each_mut(
    schema: &mut Value,
    name: Option<&str>,
    change: &mut impl FnMut(&mut Value, Option<&str>),
) {
    if let Some(fields) = schema.as_object_mut() {
        for (key, value) in &mut *fields {
            let is_named = NAMED_SCHEMAS.contains(&key.as_str());
            let is_schema = SCHEMAS.contains(&key.as_str());
            match value {
                Value::Object(named) if is_named => {
                    for (property, schema) in named {
                        let name = (key == "properties").then_some(property.as_str());
                        each_mut(schema, name, change);
                    }
                }
                Value::Array(list) if is_schema => {
                    list.iter_mut().for_each(|schema| each_mut(schema, None, change));
                }
                Value::Object(_) if is_schema => each_mut(value, None, change),
                _ => {}
            }
        }
    }
    change(schema, name);
}

/// Inlines definitions that are used once, and removes those that are not used.
fn inline(schema: &mut Value) {
    for keyword in DEFINITIONS {
        let names: Vec<String> = schema
            .get(keyword)
            .and_then(Value::as_object)
            .map(|definitions| definitions.keys().cloned().collect())
            .unwrap_or_default();
        // A definition may have been used only by a removed one: so one pass for each.
        for _ in 0..names.len() {
            for name in &names {
                inline_one(schema, keyword, name);
            }
        }
        let empty = schema.get(keyword).is_some_and(|found| *found == json!({}));
        if empty {
            drop_key(schema, keyword);
        }
    }
}

fn inline_one(schema: &mut Value, keyword: &str, name: &str) {
    let reference = format!("#/{keyword}/{name}");
    let is_reference = |fields: &Map<String, Value>| {
        fields.get("$ref").and_then(Value::as_str) == Some(reference.as_str())
    };
    // Keywords beside a reference apply as well, so only annotations are allowed there.
    let only_words = |fields: &Map<String, Value>| {
        fields.keys().all(|key| matches!(key.as_str(), "$ref" | "description" | "default"))
    };
    let (mut uses, mut in_itself, mut fits) = (0, false, true);
    each(schema, &mut |fields| {
        uses += usize::from(is_reference(fields));
        fits &= !is_reference(fields) || only_words(fields);
    });
    let Some(found) = schema.pointer(&reference[1..]) else { return };
    each(found, &mut |fields| in_itself |= is_reference(fields));
    if in_itself || uses > 1 || (uses == 1 && !(fits && found.is_object())) {
        return;
    }
    let definitions = schema.get_mut(keyword).and_then(Value::as_object_mut);
    let Some(Value::Object(body)) = definitions.and_then(|all| all.shift_remove(name)) else {
        return;
    };
    each_mut(schema, None, &mut |schema, _| {
        if let Some(fields) = schema.as_object_mut()
            && is_reference(fields)
        {
            fields.shift_remove("$ref");
            let words = std::mem::replace(fields, body.clone());
            fields.extend(words);
        }
    });
}

/// Removes keywords without effect.
fn shorten(schema: &mut Value, name: Option<&str>) {
    each_mut(schema, name, &mut |schema, name| {
        let Some(fields) = schema.as_object_mut() else { return };
        let is_boolean = fields.get("type").is_some_and(|kind| kind == "boolean");
        fields.retain(|key, value| match key.as_str() {
            "$id" | "$comment" | "title" | "examples" | ALIASES | CONTENT | SCRIPTS => false,
            "description" => {
                let text = value.as_str().unwrap_or_default();
                !text.is_empty() && Some(letters(text)) != name.map(letters)
            }
            "default" => !(is_boolean && *value == json!(false)),
            "minLength" | "minItems" | "minProperties" => value.as_f64() != Some(0.0),
            "required" => *value != json!([]),
            "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => *value != json!(false),
            _ => true,
        });
    });
}

/// The letters and digits of a text, in lower case.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
