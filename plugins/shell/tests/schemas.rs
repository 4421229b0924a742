//! The schemas say what the tools take and give.
#![expect(clippy::unwrap_used, reason = "tests")]

use cofferdam_sdk::Context;
use cofferdam_shell::{bash, call, run_command};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

macro_rules! schema {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!(
            "../../../schemas/tools/shell.",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

/// The examples of a schema, each of which it allows.
fn examples(schema: &Value) -> Vec<Value> {
    let examples = schema["examples"].as_array().unwrap().clone();
    assert!(!examples.is_empty());
    for example in &examples {
        jsonschema::validate(schema, example).unwrap();
    }
    examples
}

fn check_input<Args: DeserializeOwned>(schema: &Value) {
    for example in examples(schema) {
        let mut unknown = example.clone();
        assert!(serde_json::from_value::<Args>(example).is_ok());
        unknown["unknown"] = Value::Null;
        assert!(!jsonschema::is_valid(schema, &unknown));
        assert!(serde_json::from_value::<Args>(unknown).is_err());
    }
}

#[test]
fn input_examples_are_arguments() {
    check_input::<run_command::Args>(&schema!("run_command.input"));
    check_input::<bash::Args>(&schema!("bash.input"));
}

#[test]
fn other_arguments_are_refused() {
    let input = schema!("bash.input");
    for (field, value) in [
        ("timeout_ms", json!(999)),
        ("timeout_ms", json!(600_001)),
        ("timeout_ms", json!("30000")),
        ("description", json!("x".repeat(201))),
        ("command", json!("")),
        ("command", json!(["true"])),
    ] {
        let mut args = json!({"command": "true"});
        args[field] = value;
        assert!(!jsonschema::is_valid(&input, &args), "{args}");
    }
    assert!(!jsonschema::is_valid(&schema!("run_command.input"), &json!({"command": ""})));
}

#[test]
fn answers_fit_the_schemas() {
    let directory = tempfile::tempdir().unwrap();
    let context = Context::for_directory(directory.path());
    for (tool, output, failure) in [
        ("run_command", schema!("run_command.output"), schema!("run_command.failure")),
        ("bash", schema!("bash.output"), schema!("bash.failure")),
    ] {
        examples(&output);
        examples(&failure);
        for command in ["true", "echo x >&2", "seq 100000"] {
            let answer = call(tool, &json!({"command": command}).to_string(), &context).unwrap();
            jsonschema::validate(&output, &serde_json::from_str(&answer).unwrap()).unwrap();
        }
        for command in ["false", "none-such", "kill -9 $$", "seq 100000; exit 1"] {
            let error = call(tool, &json!({"command": command}).to_string(), &context).unwrap_err();
            let detail = serde_json::from_str(&error.detail.unwrap()).unwrap();
            jsonschema::validate(&failure, &detail).unwrap();
        }
        let mut hasty = context.clone();
        hasty.deadline_ms = 200;
        let error = call(tool, r#"{"command": "sleep 5"}"#, &hasty).unwrap_err();
        assert_eq!(error.code, "TimeoutError");
        jsonschema::validate(&failure, &serde_json::from_str(&error.detail.unwrap()).unwrap())
            .unwrap();
    }
}
