//! JSON Schema: compiles schemas, checks documents, and explains what is wrong with them.
//!
//! An explanation names the place (JSON Pointer), what was expected, what was found, and the most
//! similar valid name. Schemas come from manifests; nothing is downloaded.

mod compact;

use std::collections::HashMap;
use std::fmt;

pub use compact::{ALIASES, CONTENT, compact};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use cofferdam_text::shorten;

/// The number of problems of a document that are reported.
const MAX_PROBLEMS: usize = 20;

/// A compiled JSON Schema.
pub struct Schema {
    document: Value,
    validator: Validator,
}

/// The document is not a valid schema.
#[derive(Debug, thiserror::Error)]
#[error("no valid JSON Schema: at '{pointer}': {message}")]
pub struct SchemaError {
    /// JSON Pointer to the error in the schema.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

/// One problem of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// JSON Pointer (RFC 6901) to the place; empty: the whole document.
    pub pointer: String,
    /// What was expected there.
    pub expected: String,
    /// What was found instead, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The most similar valid name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", place(&self.pointer), self.expected)?;
        if let Some(found) = &self.found {
            write!(f, ", found {found}")?;
        }
        if let Some(name) = &self.did_you_mean {
            write!(f, "; did you mean '{name}'?")?;
        }
        Ok(())
    }
}

impl Schema {
    /// Compiles a JSON Schema (draft 2020-12 unless it names another).
    ///
    /// # Errors
    /// Returns an error if the document is not a valid schema, or refers to another document.
    pub fn compile(document: Value) -> Result<Self, SchemaError> {
        Expansion::check(&document)?;
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&document)
            .map_err(|error| SchemaError {
                pointer: error.instance_path().to_string(),
                message: shorten(&error.to_string(), 300),
            })?;
        Ok(Self { document, validator })
    }

    /// Returns everything that is wrong with `instance`, in document order, at most 20 problems.
    /// Pointers are prefixed with `at`.
    pub fn problems(&self, instance: &Value, at: &str) -> Vec<Problem> {
        if self.validator.is_valid(instance) {
            return Vec::new();
        }
        self.validator
            .iter_errors(instance)
            .flat_map(|error| self.explain(&error, at))
            .take(MAX_PROBLEMS)
            .collect()
    }

    fn explain(&self, error: &ValidationError<'_>, at: &str) -> Vec<Problem> {
        let pointer = format!("{at}{}", error.instance_path());
        let instance: &Value = error.instance();
        let problem = |expected: String| Problem {
            pointer: pointer.clone(),
            expected,
            found: Some(show(instance)),
            did_you_mean: None,
        };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let known = self.properties_beside(error);
                // A field that is there already is not what another one was meant to be.
                let free = known.iter().filter(|name| instance.get(name.as_str()).is_none());
                let free: Vec<&str> = free.map(String::as_str).collect();
                unexpected
                    .iter()
                    .take(MAX_PROBLEMS)
                    .map(|name| Problem {
                        pointer: format!("{pointer}/{}", escape(name)),
                        expected: match known.as_slice() {
                            [] => "no fields".to_owned(),
                            known => format!("one of the fields {}", known.join(", ")),
                        },
                        found: Some(format!("the unknown field '{}'", shorten(name, 60))),
                        did_you_mean: nearest_field(name, &free),
                    })
                    .collect()
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                vec![Problem {
                    pointer: format!("{pointer}/{}", escape(name)),
                    expected: format!("the required field '{name}'"),
                    found: Some("nothing".to_owned()),
                    did_you_mean: None,
                }]
            }
            ValidationErrorKind::Enum { options } => {
                let options: Vec<&Value> = options.as_array().into_iter().flatten().collect();
                let names = options.iter().filter_map(|option| option.as_str());
                vec![Problem {
                    did_you_mean: instance.as_str().and_then(|found| nearest(found, names)),
                    ..problem(format!("one of {}", list(&options)))
                }]
            }
            kind => {
                vec![problem(expectation(kind).unwrap_or_else(|| shorten(&error.to_string(), 200)))]
            }
        }
    }

    /// The property names of the object schema whose `additionalProperties` failed.
    fn properties_beside(&self, error: &ValidationError<'_>) -> Vec<String> {
        let path = error.schema_path().to_string();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.document
            .pointer(&format!("{parent}/properties"))
            .and_then(Value::as_object)
            .map(|properties| properties.keys().cloned().collect())
            .unwrap_or_default()
    }
}

/// The largest number of schemas when every reference is expanded.
const MAX_EXPANSION: u64 = 100_000;

/// The longest chain of references.
const MAX_CHAIN: usize = 200;

/// Counts the schemas after expanding every reference, and refuses schemas that would keep a
/// validator busy: sixty schemas that each refer to the next one twice, or a recursive one, whose
/// cost can double with each level of the instance (the checklist of the tool schemas forbids
/// recursion, too). References are JSON Pointers into the document, so all of them can be resolved
/// here.
struct Expansion<'a> {
    document: &'a Value,
    /// The count of each reference; `None` while it is being computed.
    known: HashMap<&'a str, Option<u64>>,
    chain: usize,
}

impl<'a> Expansion<'a> {
    fn check(document: &'a Value) -> Result<(), SchemaError> {
        let mut expansion = Self { document, known: HashMap::new(), chain: 0 };
        let count = expansion.count(document, true)?;
        if count > MAX_EXPANSION {
            return Err(invalid("its references expand to too many schemas"));
        }
        Ok(())
    }

    fn count(&mut self, schema: &'a Value, is_document: bool) -> Result<u64, SchemaError> {
        let mut sum = 1_u64;
        match schema {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let more = match (name.as_str(), value) {
                        ("$ref", Value::String(reference)) => self.follow(reference)?,
                        ("$id", Value::String(_)) if !is_document => {
                            return Err(invalid("only the whole document may have an $id"));
                        }
                        (
                            "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef",
                            Value::String(_),
                        ) => return Err(invalid("references are written as \"$ref\": \"#/...\"")),
                        _ => self.count(value, false)?,
                    };
                    sum = sum.saturating_add(more);
                }
            }
            Value::Array(items) => {
                for item in items {
                    sum = sum.saturating_add(self.count(item, false)?);
                }
            }
            _ => {}
        }
        Ok(sum)
    }

    fn follow(&mut self, reference: &'a str) -> Result<u64, SchemaError> {
        match self.known.get(reference) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => {
                return Err(invalid(&format!("the reference {reference} leads back to itself")));
            }
            None => {}
        }
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| self.document.pointer(pointer))
            .ok_or_else(|| {
                invalid(&format!("the reference {reference} leads to nothing in the document"))
            })?;
        if self.chain == MAX_CHAIN {
            return Err(invalid("its references form a chain that is too long"));
        }
        self.known.insert(reference, None);
        self.chain += 1;
        let count = self.count(target, false)?;
        self.chain -= 1;
        self.known.insert(reference, Some(count));
        Ok(count)
    }
}

fn invalid(message: &str) -> SchemaError {
    SchemaError { pointer: String::new(), message: shorten(message, 300) }
}

/// Describes what a failed keyword expected.
fn expectation(kind: &ValidationErrorKind) -> Option<String> {
    Some(match kind {
        ValidationErrorKind::Type { kind } => match kind {
            TypeKind::Single(kind) => article(&kind.to_string()),
            TypeKind::Multiple(kinds) => {
                kinds.iter().map(|kind| article(&kind.to_string())).collect::<Vec<_>>().join(" or ")
            }
        },
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        ValidationErrorKind::MinLength { limit: 1 } => "a string that is not empty".to_owned(),
        ValidationErrorKind::MinLength { limit } => format!("at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("at most {limit} characters"),
        ValidationErrorKind::MinItems { limit: 1 } => "at least one item".to_owned(),
        ValidationErrorKind::MinItems { limit } => format!("at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("at most {limit} items"),
        ValidationErrorKind::UniqueItems => "items that differ".to_owned(),
        ValidationErrorKind::Pattern { pattern } => format!("a string that matches {pattern}"),
        ValidationErrorKind::Format { format } => format!("a string in the format '{format}'"),
        _ => return None,
    })
}

fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

fn list(options: &[&Value]) -> String {
    options.iter().map(|option| option.to_string()).collect::<Vec<_>>().join(", ")
}

/// A value in a message: as JSON if that is short.
pub fn show(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(fields) => format!("an object of {} fields", fields.len()),
        value => shorten(&value.to_string(), 80),
    }
}

/// Shows a JSON Pointer in a message, since the empty one is invisible.
pub fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "(root)" } else { pointer }
}

/// Escapes a name for a JSON Pointer (RFC 6901, section 3).
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The most similar field, or else the longest one whose name is a part of `name` or the reverse, as
/// `path` is of `file_path` and of `filePath`.
fn nearest_field(name: &str, fields: &[&str]) -> Option<String> {
    let letters = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    nearest(name, fields.iter().copied()).or_else(|| {
        let wanted = letters(&shorten(name, 64));
        let is_part = |field: &&&str| {
            let field = letters(field);
            field.len().min(wanted.len()) >= 4
                && (wanted.contains(&field) || field.contains(&wanted))
        };
        fields.iter().filter(is_part).max_by_key(|field| field.len()).map(|&field| field.to_owned())
    })
}

/// The names that are similar to `name`, the most similar first.
pub fn similar<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name = shorten(name, 64).to_lowercase();
    let mut similar: Vec<(f64, &str)> = candidates
        .map(|candidate| (strsim::jaro_winkler(&name, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity >= 0.7)
        .collect();
    similar.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    similar.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The most similar candidate, if one is similar enough to be what `name` was meant to be.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    // Long names are not typing errors, and comparing them takes quadratic time.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_lowercase();
    candidates
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity >= 0.8)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "minLength": 1},
                "output_mode": {"enum": ["content", "files_with_matches", "count"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 10},
                "a/b": {"type": ["string", "null"]},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 2}
            },
            "$defs": {"line": {"type": "object", "additionalProperties": false, "properties": {"number": {"type": "integer"}}}}
        }))
        .unwrap()
    }

    #[test]
    fn problems_have_place_expectation_and_value() {
        for (instance, wanted) in [
            (json!({"pattern": "x"}), vec![]),
            (json!({}), vec!["@/pattern: expected the required field 'pattern', found nothing"]),
            (
                json!({"patern": 1, "limit": 1}),
                vec![
                    "@/patern: expected one of the fields pattern, output_mode, limit, a/b, lines, found the unknown field 'patern'; did you mean 'pattern'?",
                    "@/pattern: expected the required field 'pattern', found nothing",
                ],
            ),
            // The field that is meant is there already.
            (
                json!({"pattern": "x", "patterns": "y"}),
                vec![
                    "@/patterns: expected one of the fields pattern, output_mode, limit, a/b, lines, found the unknown field 'patterns'",
                ],
            ),
            (
                json!({"pattern": "x", "output_mode": "file_with_matches"}),
                vec![
                    "@/output_mode: expected one of \"content\", \"files_with_matches\", \"count\", found \"file_with_matches\"; did you mean 'files_with_matches'?",
                ],
            ),
            (
                json!({"pattern": ""}),
                vec!["@/pattern: expected a string that is not empty, found \"\""],
            ),
            (
                json!({"pattern": 1, "limit": 11}),
                vec![
                    "@/pattern: expected a string, found 1",
                    "@/limit: expected at most 10, found 11",
                ],
            ),
            (json!({"pattern": "x", "a/b": 1}), vec!["@/a~1b: expected null or a string, found 1"]),
            (
                json!({"pattern": "x", "lines": [{"numbr": 1}]}),
                vec![
                    "@/lines/0/numbr: expected one of the fields number, found the unknown field 'numbr'; did you mean 'number'?",
                ],
            ),
            (json!([]), vec!["@: expected an object, found an array of 0"]),
        ] {
            let found: Vec<String> =
                schema().problems(&instance, "@").iter().map(Problem::to_string).collect();
            assert_eq!(found, wanted, "{instance}");
        }
    }

    #[test]
    fn bad_schemas_are_refused() {
        assert!(Schema::compile(json!({"type": "strin"})).is_err());
        assert!(Schema::compile(json!({"$ref": "https://example.com/other.json"})).is_err());
        assert!(Schema::compile(json!({"pattern": "("})).is_err());
        for circular in [
            json!({"properties": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "items": {"$ref": "#a"}}}}),
            json!({"$defs": {"a": {"$id": "x", "items": {"$ref": "#"}}}}),
        ] {
            assert!(Schema::compile(circular.clone()).is_err(), "{circular}");
        }
    }

    #[test]
    fn a_field_is_suggested_for_a_longer_or_shorter_name() {
        let fields = ["path", "pattern", "output_mode", "-i"];
        for (name, wanted) in [
            ("file_path", Some("path")),
            ("filePath", Some("path")),
            ("filepath", Some("path")),
            ("paths", Some("path")),
            ("mode", Some("output_mode")),
            ("i", None),
            ("query", None),
        ] {
            assert_eq!(nearest_field(name, &fields).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn similar_names_are_sorted() {
        let names = ["grep", "read_tree", "read_file", "build_project"];
        assert_eq!(similar("read", names.into_iter()), ["read_tree", "read_file"]);
        assert_eq!(similar("raed_file", names.into_iter()), ["read_file", "read_tree"]);
        assert!(similar("bash", names.into_iter()).is_empty());
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["read_file", "write_file", "grep"];
        assert_eq!(nearest("readfile", names.into_iter()).as_deref(), Some("read_file"));
        assert_eq!(nearest("zzz", names.into_iter()), None);
        assert_eq!(nearest(&"read_file".repeat(100), names.into_iter()), None);
    }
}
