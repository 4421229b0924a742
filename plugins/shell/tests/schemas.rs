//! The arguments and results of the tools fit their schemas.
#![expect(clippy::unwrap_used, reason = "tests")]

use cofferdam_sdk::Context;
use cofferdam_shell::{bash, call, run_command};
use cofferdam_testing::{examples, fits, parsed, takes_examples};
use serde_json::json;

macro_rules! schema {
    ($name:literal) => {
        parsed(include_str!(concat!("../../../schemas/tools/shell.", $name, ".json")))
    };
}

#[test]
fn input_examples_are_arguments() {
    takes_examples::<run_command::Args>(&schema!("run_command.input"));
    takes_examples::<bash::Args>(&schema!("bash.input"));
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
fn results_fit_the_schemas() {
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
            fits(&output, &parsed(&answer));
        }
        for command in ["false", "none-such", "kill -9 $$", "seq 100000; exit 1"] {
            let error = call(tool, &json!({"command": command}).to_string(), &context).unwrap_err();
            fits(&failure, &parsed(&error.detail.unwrap()));
        }
        let mut hasty = context.clone();
        hasty.deadline_ms = 200;
        let error = call(tool, r#"{"command": "sleep 5"}"#, &hasty).unwrap_err();
        assert_eq!(error.code, "TimeoutError");
        fits(&failure, &parsed(&error.detail.unwrap()));
    }
}
