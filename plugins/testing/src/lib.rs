//! Helpers for the tests of plugins: checks against schemas, and fake backends. A failed check
//! panics.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what only tests call, fails as tests do")]

mod backends;

use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use backends::Fixed;

/// Parses JSON, such as a schema or a result.
#[track_caller]
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asserts that a value fits a schema.
#[track_caller]
pub fn fits(schema: &Value, value: &Value) {
    if let Err(error) = validator(schema).validate(value) {
        panic!("{error}: {value}");
    }
}

/// The examples of a schema; asserts that there is at least one and that each fits.
#[track_caller]
pub fn examples(schema: &Value) -> Vec<Value> {
    let examples = schema["examples"].as_array().unwrap().clone();
    assert!(!examples.is_empty());
    examples.iter().for_each(|example| fits(schema, example));
    examples
}

/// Asserts that a tool accepts each example of its input schema as `Args`, and that neither the
/// tool nor the schema accepts an unknown field.
#[track_caller]
pub fn takes_examples<Args: DeserializeOwned>(input: &Value) {
    for example in examples(input) {
        let mut more = example.clone();
        if let Err(error) = serde_json::from_value::<Args>(example) {
            panic!("{error}: {more}");
        }
        more["surprise"] = Value::Null;
        assert!(!validator(input).is_valid(&more), "{more}");
        assert!(serde_json::from_value::<Args>(more).is_err());
    }
}

#[track_caller]
fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only taken")]
    struct Strict {
        path: String,
    }

    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only taken")]
    struct Lax {
        path: String,
    }

    fn schema(examples: &Value, takes_more: bool) -> Value {
        json!({
            "required": ["path"],
            "properties": {"path": {}},
            "additionalProperties": takes_more,
            "examples": examples
        })
    }

    fn fails(check: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(check).is_err()
    }

    #[test]
    fn disagreements_are_detected() {
        let good = schema(&json!([{"path": "a"}]), false);
        takes_examples::<Strict>(&good);
        assert!(fails(|| takes_examples::<Lax>(&good)));
        for (examples, takes_more) in [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{"path": 1}]), false),
            (json!([{"path": "a"}]), true),
        ] {
            let wrong = schema(&examples, takes_more);
            assert!(fails(|| takes_examples::<Strict>(&wrong)), "{wrong}");
        }
    }
}
