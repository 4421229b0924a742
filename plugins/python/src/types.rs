//! JSON Schemas as types of Python. A schema that has no exact type is [`Type::Any`], never a wrong one.

use serde_json::{Map, Value};

/// The deepest nesting of types that is followed.
const MAX_DEPTH: usize = 8;

/// As how many levels a reference counts: the types of schemas that refer to themselves stay small.
const REFERENCE_DEPTH: usize = MAX_DEPTH / 2;

/// The largest number of alternatives of a union.
const MAX_ALTERNATIVES: usize = 8;

/// Words that can't be names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// A type of Python.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Any value.
    Any,
    /// One of the simple types: `str`, `int`, `float`, `bool` or `None`.
    Simple(&'static str),
    /// One of some constants, as Python writes them.
    Literal(Vec<String>),
    /// A list of one type.
    List(Box<Self>),
    /// A dict with values of one type.
    Dict(Box<Self>),
    /// A dict with these keys and no others.
    Object(Vec<Field>),
    /// One of several types.
    Union(Vec<Self>),
}

/// A key of a dict, or an argument.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name in JSON.
    pub name: String,
    /// The type of its value.
    pub value: Type,
    /// Whether it is always there.
    pub is_required: bool,
}

/// A name of JSON as one of Python: `-i` is `i`, and `from` is `from_`.
pub fn python_name(name: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let trimmed = name.trim_start_matches(|c| !is_part(c));
    let mut own: String = trimmed.chars().map(|c| if is_part(c) { c } else { '_' }).collect();
    if own.is_empty() || own.starts_with(|c: char| c.is_ascii_digit()) {
        own.insert(0, '_');
    }
    if KEYWORDS.contains(&own.as_str()) {
        own.push('_');
    }
    own
}

/// The fields of a schema of an object, and whether it may have others.
pub fn fields(schema: &Value) -> (Vec<Field>, bool) {
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|own| own == name));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields = properties.map(|(name, property)| Field {
        name: name.clone(),
        value: of(property, schema, 0),
        is_required: is_required(name),
    });
    (fields.collect(), schema["additionalProperties"] != Value::Bool(false))
}

/// The type of a schema; `root` has its definitions.
pub fn of_schema(schema: &Value) -> Type {
    of(schema, schema, 0)
}

fn of(schema: &Value, root: &Value, depth: usize) -> Type {
    let Some(fields) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return Type::Any };
    if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Type::Any, |target| of(target, root, depth + REFERENCE_DEPTH));
    }
    if ["allOf", "not", "if"].iter().any(|key| fields.contains_key(*key)) {
        return Type::Any;
    }
    if let Some(constants) = fields.get("enum").and_then(Value::as_array) {
        return literal(constants);
    }
    if let Some(constant) = fields.get("const") {
        return literal(std::slice::from_ref(constant));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(alternatives) = fields.get(key).and_then(Value::as_array) {
            // With properties beside it, it only says which of them go together.
            return match fields.contains_key("type") {
                true => plain(fields, root, depth),
                false => union(alternatives.iter().map(|one| of(one, root, depth + 1))),
            };
        }
    }
    plain(fields, root, depth)
}

/// The type by the keyword `type`.
fn plain(fields: &Map<String, Value>, root: &Value, depth: usize) -> Type {
    let one = |name: &str| match name {
        "string" => Type::Simple("str"),
        "integer" => Type::Simple("int"),
        "number" => Type::Simple("float"),
        "boolean" => Type::Simple("bool"),
        "null" => Type::Simple("None"),
        "array" => {
            let items = fields.get("items").map_or(Type::Any, |items| of(items, root, depth + 1));
            Type::List(Box::new(items))
        }
        "object" => object(fields, root, depth),
        _ => Type::Any,
    };
    match fields.get("type") {
        Some(Value::String(name)) => one(name),
        Some(Value::Array(names)) => union(names.iter().filter_map(Value::as_str).map(one)),
        _ => Type::Any,
    }
}

fn object(schema: &Map<String, Value>, root: &Value, depth: usize) -> Type {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|own| own == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    match properties.filter(|properties| !properties.is_empty()) {
        Some(properties) if others == Some(&Value::Bool(false)) => {
            let field = |(name, property): (&String, &Value)| Field {
                name: name.clone(),
                value: of(property, root, depth + 1),
                is_required: is_required(name),
            };
            Type::Object(properties.iter().map(field).collect())
        }
        Some(_) => Type::Dict(Box::new(Type::Any)),
        None => {
            let values = others.filter(|others| others.is_object());
            Type::Dict(Box::new(values.map_or(Type::Any, |values| of(values, root, depth + 1))))
        }
    }
}

fn union(types: impl Iterator<Item = Type>) -> Type {
    let mut alternatives: Vec<Type> = Vec::new();
    for one in types {
        match one {
            Type::Any => return Type::Any,
            Type::Union(inner) => alternatives.extend(inner),
            one if alternatives.contains(&one) => {}
            one => alternatives.push(one),
        }
    }
    let objects = alternatives.iter().filter(|one| matches!(one, Type::Object(_))).count();
    match alternatives.len() {
        1 => alternatives.swap_remove(0),
        // A checker would refuse keys that only one of several dicts has.
        2..=MAX_ALTERNATIVES if objects < 2 => Type::Union(alternatives),
        _ => Type::Any,
    }
}

fn literal(constants: &[Value]) -> Type {
    let written = |constant: &Value| match constant {
        // As JSON, except for escapes that Python does not know.
        Value::String(text) if text.chars().all(|c| !c.is_control()) => {
            Some(Value::from(text.as_str()).to_string())
        }
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        Value::Null => Some("None".to_owned()),
        Value::Number(number) if number.is_i64() => Some(number.to_string()),
        _ => None,
    };
    let all: Option<Vec<String>> = constants.iter().map(written).collect();
    all.filter(|all| !all.is_empty()).map_or(Type::Any, Type::Literal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_have_exact_types_or_any() {
        let text = Type::Simple("str");
        for (schema, wanted) in [
            (json!({"type": "string"}), text.clone()),
            (json!({}), Type::Any),
            (json!(true), Type::Any),
            (
                json!({"enum": ["a", 1, null]}),
                Type::Literal(vec!["\"a\"".into(), "1".into(), "None".into()]),
            ),
            (json!({"enum": [1.5]}), Type::Any),
            (
                json!({"type": ["string", "null"]}),
                Type::Union(vec![text.clone(), Type::Simple("None")]),
            ),
            (
                json!({"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}}),
                Type::List(Box::new(text.clone())),
            ),
            (json!({"$ref": "#"}), Type::Any),
            (json!({"$ref": "https://a.example"}), Type::Any),
            (json!({"allOf": [{"type": "string"}]}), Type::Any),
            (json!({"type": "object"}), Type::Dict(Box::new(Type::Any))),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                Type::Dict(Box::new(text.clone())),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                Type::Dict(Box::new(Type::Any)),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
                Type::Object(vec![Field { name: "a".into(), value: text, is_required: true }]),
            ),
        ] {
            assert_eq!(of_schema(&schema), wanted, "{schema}");
        }
    }

    #[test]
    fn names_are_names_of_python() {
        for (name, wanted) in [
            ("path", "path"),
            ("-i", "i"),
            ("from", "from_"),
            ("a-b", "a_b"),
            ("9", "_9"),
            ("", "_"),
            ("é", "_"),
        ] {
            assert_eq!(python_name(name), wanted);
        }
    }
}
