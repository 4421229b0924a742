#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::schema::Schema;

/// The schemas of all built-in tools, by file name.
fn of_the_tools() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/tools");
    let mut schemas: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect();
    schemas.sort_by(|left, right| left.0.cmp(&right.0));
    schemas
}

/// Schemas with features that those of the tools do not use.
fn others() -> Vec<(String, Value)> {
    let line = json!({"type": "integer", "minimum": 1, "title": "Line"});
    [
        json!({"type": "object", "properties": {"title": {"type": "string", "description": "Title", "minLength": 0}, "examples": {"$ref": "#/$defs/line", "description": "one"}}, "$defs": {"line": line, "unused": {"$ref": "#/$defs/more"}, "more": true}}),
        json!({"type": "object", "required": [], "properties": {"a": {"$ref": "#/$defs/line"}, "b": {"$ref": "#/$defs/line"}}, "$defs": {"line": line}}),
        json!({"$ref": "#/$defs/whole", "$defs": {"whole": {"type": "object", "properties": {"at": {"$ref": "#/$defs/line"}}}, "line": line}}),
        json!({"properties": {"a": {"$ref": "#/$defs/line", "maximum": 3}}, "$defs": {"line": line}}),
        json!({"properties": {"a": line, "b": {"$ref": "#/properties/a"}}}),
        json!({"properties": {"a": {"enum": [{"title": "kept", "default": false}, []]}, "b": {"const": {"examples": 1}}}}),
        json!({"anyOf": [{"type": "array", "items": {"title": "T", "type": "boolean", "default": false}, "minItems": 0}, {"not": {"title": "x", "type": "object"}}], "$comment": "c"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/definitions/line", "maximum": 3}}, "definitions": {"line": line}}),
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 1}, "propertyNames": {"title": "n", "maxLength": 3}, "patternProperties": {"^title$": {"title": "t", "type": "null"}}, "unevaluatedProperties": {"type": "integer"}}),
        json!(true),
        json!(false),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, schema)| (format!("other {number}"), schema))
    .collect()
}

/// Documents for a schema: its examples, and documents derived from its keywords.
fn samples(schema: &Value, whole: &Value) -> Vec<Value> {
    let Some(fields) = schema.as_object() else { return vec![json!({"a": 1})] };
    let mut found: Vec<Value> = Vec::new();
    if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
        found.extend(
            whole.pointer(&target[1..]).map(|target| samples(target, whole)).into_iter().flatten(),
        );
    }
    for key in ["examples", "enum"] {
        found.extend(fields.get(key).and_then(Value::as_array).into_iter().flatten().cloned());
    }
    found.extend(fields.get("const").cloned());
    for key in ["anyOf", "oneOf", "allOf"] {
        for inner in fields.get(key).and_then(Value::as_array).into_iter().flatten() {
            found.extend(samples(inner, whole));
        }
    }
    if let Some(items) = fields.get("items") {
        let inner = samples(items, whole);
        found.push(json!([]));
        found.push(json!(inner));
        found.extend(inner.into_iter().map(|item| json!([item])));
    }
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        let of_each: Vec<(&String, Vec<Value>)> =
            properties.iter().map(|(name, inner)| (name, samples(inner, whole))).collect();
        let most = of_each.iter().map(|(_, values)| values.len()).max().unwrap_or(0).clamp(1, 6);
        for round in 0..most {
            let object: Map<String, Value> = of_each
                .iter()
                .filter(|(_, values)| !values.is_empty())
                .map(|(name, values)| ((*name).clone(), values[round % values.len()].clone()))
                .collect();
            found.push(Value::Object(object));
        }
    }
    match fields.get("type").and_then(Value::as_str) {
        Some("string") => found.extend([json!("x"), json!("2026-02-07T10:30:00Z")]),
        Some("integer" | "number") => {
            found.extend([json!(1), json!(1000)]);
            for bound in ["minimum", "maximum"] {
                found.extend(fields.get(bound).cloned());
            }
        }
        Some("boolean") => found.push(json!(true)),
        Some("null") => found.push(Value::Null),
        _ => {}
    }
    found.truncate(40);
    found
}

/// Values that fit some schemas and not others.
fn plain_values() -> Vec<Value> {
    [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1),
        json!(1.5),
        json!(2.0),
        json!(1001),
        json!(10_001),
        json!(600_001),
        json!(4_294_967_296_u64),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("z".repeat(201)),
        json!("y".repeat(4097)),
        json!("2026-13-40"),
        json!([]),
        json!([1]),
        json!(["a", "a"]),
        json!({}),
        json!({"title": "t", "examples": []}),
    ]
    .into()
}

/// Documents one step away from `value`, at any place in it.
fn mutations(value: &Value) -> Vec<Value> {
    let mut found = plain_values();
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let mut without = fields.clone();
                without.shift_remove(name);
                found.push(without.into());
                for changed in mutations(inner) {
                    let mut with = fields.clone();
                    with.insert(name.clone(), changed);
                    found.push(with.into());
                }
            }
            for name in ["surprise", "title", "a"] {
                let mut more = fields.clone();
                more.insert(name.to_owned(), json!(1));
                found.push(more.into());
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate().take(2) {
                for changed in mutations(inner) {
                    let mut with = items.clone();
                    with[index] = changed;
                    found.push(with.into());
                }
            }
            found.push([items.as_slice(), items.as_slice()].concat().into());
            found.push(items.iter().skip(1).cloned().collect());
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            found.extend([json!(number - 1.0), json!(number + 1.0), json!(-number)]);
        }
        Value::String(text) => {
            found.extend([json!(text.to_uppercase()), json!(format!("{text}x"))])
        }
        _ => {}
    }
    found
}

#[test]
fn compact_schemas_are_equivalent() {
    let (mut accepted, mut refused) = (0_usize, 0_usize);
    for (name, full) in of_the_tools().into_iter().chain(others()) {
        let short = compact(&full);
        let seeds = samples(&full, &full);
        let schemas = [full, short].map(|schema| Schema::compile(schema).unwrap());
        for seed in seeds {
            for document in [seed.clone()].into_iter().chain(mutations(&seed)) {
                let [full, short] = &schemas;
                let verdict = full.problems(&document, "").is_empty();
                assert_eq!(short.problems(&document, "").is_empty(), verdict, "{name}: {document}");
                *(if verdict { &mut accepted } else { &mut refused }) += 1;
            }
        }
    }
    assert!(accepted > 1_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn compacting_is_idempotent() {
    for (name, full) in of_the_tools().into_iter().chain(others()) {
        let short = compact(&full);
        assert_eq!(compact(&short), short, "{name}");
        assert!(short.to_string().len() <= full.to_string().len(), "{name}");
        let words = |schema: &Value| {
            let mut found = BTreeSet::new();
            each(schema, &mut |fields| {
                found.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
            });
            found
        };
        if name.ends_with(".json") {
            assert_eq!(words(&short), words(&full), "{name} has a description that says nothing");
        }
    }
}

#[test]
fn keywords_without_effect_are_removed() {
    let line = json!({"type": "integer", "minimum": 1});
    for (full, short) in [
        (
            json!({"$schema": DRAFT, "$id": "x", "title": "t", "$comment": "c", "type": "object", "required": [], "properties": {"title": {"title": "T", "type": "string", "minLength": 0, "description": "title"}}, "examples": [{}]}),
            json!({"type": "object", "properties": {"title": {"type": "string"}}}),
        ),
        (
            json!({"properties": {"all": {"type": "boolean", "default": false}, "n": {"type": "integer", "default": 0}, "on": {"type": "boolean", "default": true}}}),
            json!({"properties": {"all": {"type": "boolean"}, "n": {"type": "integer", "default": 0}, "on": {"type": "boolean", "default": true}}}),
        ),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/line", "description": "here"}}, "$defs": {"line": {"type": "integer", "minimum": 1, "description": "there"}}}),
            json!({"properties": {"a": {"type": "integer", "minimum": 1, "description": "here"}}}),
        ),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"items": {"$ref": "#/$defs/line"}}, "line": line}}),
            json!({"properties": {"a": {"items": line}}}),
        ),
        // Used twice, with a constraint beside it, or in a cycle: it is kept.
        (
            json!({"properties": {"a": {"$ref": "#/$defs/l"}, "b": {"$ref": "#/$defs/l"}}, "$defs": {"l": line}}),
            json!({"properties": {"a": {"$ref": "#/$defs/l"}, "b": {"$ref": "#/$defs/l"}}, "$defs": {"l": line}}),
        ),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/l", "maximum": 3}}, "$defs": {"l": line}}),
            json!({"properties": {"a": {"$ref": "#/$defs/l", "maximum": 3}}, "$defs": {"l": line}}),
        ),
        (
            json!({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
            json!({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
        ),
        // Data is not a schema, and the target of a reference must not move.
        (
            json!({"const": {"title": "t", "$ref": "#/$defs/x"}, "default": {"examples": []}}),
            json!({"const": {"title": "t", "$ref": "#/$defs/x"}, "default": {"examples": []}}),
        ),
        (
            json!({"title": "t", "properties": {"a": {"$ref": "#/properties/b"}}}),
            json!({"title": "t", "properties": {"a": {"$ref": "#/properties/b"}}}),
        ),
        // In draft 7, keywords beside a reference are ignored, so nothing is moved.
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": "t", "items": {"$ref": "#/definitions/l"}, "definitions": {"l": line}}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": {"$ref": "#/definitions/l"}, "definitions": {"l": line}}),
        ),
    ] {
        assert_eq!(compact(&full), short, "{full}");
    }
}
