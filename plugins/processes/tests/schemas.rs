//! The arguments and results of the tools fit their schemas.

use cofferdam_processes::{ListArgs, ReadArgs, StartArgs, StopArgs};
use cofferdam_testing::{examples, parsed, takes_examples};
use serde_json::json;

macro_rules! schema {
    ($name:literal) => {
        parsed(include_str!(concat!("../../../schemas/tools/processes.", $name, ".json")))
    };
}

#[test]
fn input_examples_are_arguments() {
    takes_examples::<StartArgs>(&schema!("start_process.input"));
    takes_examples::<ReadArgs>(&schema!("read_output.input"));
    takes_examples::<StopArgs>(&schema!("stop_process.input"));
    takes_examples::<ListArgs>(&schema!("list_processes.input"));
}

#[test]
fn other_arguments_are_refused() {
    let input = schema!("start_process.input");
    for (field, value) in [
        ("command", json!("")),
        ("timeout_s", json!(0)),
        ("timeout_s", json!(43_201)),
        ("wait_ms", json!(30_001)),
        ("stdin", json!("x")),
    ] {
        let mut args = json!({"command": "true"});
        args[field] = value;
        assert!(!jsonschema::is_valid(&input, &args), "{args}");
    }
    let input = schema!("read_output.input");
    for args in [json!({}), json!({"process_id": ""}), json!({"process_id": "a", "offset": -1})] {
        assert!(!jsonschema::is_valid(&input, &args), "{args}");
    }
}

#[test]
fn output_examples_fit() {
    for output in [
        schema!("start_process.output"),
        schema!("read_output.output"),
        schema!("stop_process.output"),
        schema!("list_processes.output"),
    ] {
        examples(&output);
    }
}
