//! The dialect `actions`: `{"actions": [{"type": "read_file", "path": "..."}], "notes": "..."}`.
//!
//! Source: the actions reference, "Action Envelope Format" and "Action Results".

use serde_json::{Map, Value, json};

use super::{Answer, Call, DecodeError, Dialect, Envelope, Header, kind, take_name};
use crate::outcome::{Failure, Outcome};
use crate::schema::{Problem, escape, nearest};

/// The field by which the dialect is recognised.
pub(super) const KEY: &str = "actions";

/// The messages for error codes in "Common Errors" of the actions reference.
const COMMON_ERRORS: &[(&str, &str)] = &[
    ("BeadCreatorNotConfigured", "bead creator not configured"),
    ("CommandExecutionFailed", "command execution failed"),
    ("FileNotFoundError", "file not found"),
    ("PatchFailed", "patch failed"),
    ("TestRunnerNotConfigured", "test runner not configured"),
];

pub(super) fn decode(mut object: Map<String, Value>) -> Result<Envelope, DecodeError> {
    let mut problems = Vec::new();
    let notes = match object.shift_remove("notes") {
        None | Some(Value::Null) => None,
        Some(Value::String(notes)) => Some(notes),
        Some(other) => {
            problems.push(wrong("/notes", "a string", kind(&other)));
            None
        }
    };
    let actions = match object.shift_remove(KEY) {
        Some(Value::Array(actions)) if !actions.is_empty() => actions,
        Some(Value::Array(_)) => {
            problems.push(wrong("/actions", "at least one action", "an empty array"));
            Vec::new()
        }
        other => {
            let found = other.as_ref().map_or("nothing", kind);
            problems.push(wrong("/actions", "an array of actions", found));
            Vec::new()
        }
    };
    let mut calls = Vec::with_capacity(actions.len());
    for (index, action) in actions.into_iter().enumerate() {
        let pointer = format!("/actions/{index}");
        let Value::Object(mut action) = action else {
            problems.push(wrong(&pointer, "an action, which is a JSON object", kind(&action)));
            continue;
        };
        match take_name(&mut action, "type", &pointer) {
            Ok(tool) => calls.push(Call { pointer, tool, args: Value::Object(action) }),
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(object.keys().map(|key| Problem {
        pointer: format!("/{}", escape(key)),
        expected: "the fields actions and notes only".to_owned(),
        found: Some(format!("the unknown field '{key}'")),
        did_you_mean: nearest(key, [KEY, "notes"].into_iter()),
    }));
    if problems.is_empty() {
        let header = Header { dialect: Dialect::Actions, notes, repairs: Vec::new() };
        Ok(Envelope { header, calls })
    } else {
        Err(DecodeError { problems })
    }
}

fn wrong(pointer: &str, expected: &str, found: &str) -> Problem {
    Problem {
        pointer: pointer.to_owned(),
        expected: expected.to_owned(),
        found: Some(found.to_owned()),
        did_you_mean: None,
    }
}

pub(super) fn results(answers: &[Answer]) -> Map<String, Value> {
    let results: Vec<Value> = answers.iter().map(result).collect();
    Map::from_iter([("results".to_owned(), Value::Array(results))])
}

pub(super) fn result(answer: &Answer) -> Value {
    let mut result = match &answer.outcome {
        Outcome::Executed(output) => json!({
            "action_type": answer.tool,
            "status": "executed",
            "message": answer.done,
            "metadata": output,
        }),
        Outcome::Failed(failure) => json!({
            "action_type": answer.tool,
            "status": "error",
            "message": message(failure),
            "metadata": metadata(failure),
        }),
    };
    if !answer.warnings.is_empty() {
        result["warnings"] = answer.warnings.clone().into();
    }
    result
}

fn message(failure: &Failure) -> &str {
    COMMON_ERRORS
        .iter()
        .find(|(code, _)| *code == failure.code.as_str())
        .map_or(&failure.message, |(_, message)| message)
}

fn metadata(failure: &Failure) -> Value {
    let mut metadata = json!({
        "outcome": failure.status,
        "code": failure.code,
        "reason": failure.message,
    });
    if let Some(detail) = &failure.detail {
        metadata["detail"] = detail.clone();
    }
    metadata
}
