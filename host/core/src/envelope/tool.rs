//! The dialect `tool`: `{"tool": "grep", "pattern": "..."}`, one call with its arguments beside
//! the name.
//!
//! Source: the examples in the tool schemas; `status` as in their "Log Format".

use serde_json::{Map, Value, json};

use super::{Answer, Call, DecodeError, Dialect, Envelope, Header, take_name};
use crate::outcome::{Failure, Outcome, Status};

/// The field by which the dialect is recognised.
pub(super) const KEY: &str = "tool";

pub(super) fn decode(mut object: Map<String, Value>) -> Result<Envelope, DecodeError> {
    let tool = take_name(&mut object, KEY, "")
        .map_err(|problem| DecodeError { problems: vec![problem] })?;
    let call = Call { pointer: String::new(), tool, args: Value::Object(object) };
    let header = Header { dialect: Dialect::Tool, notes: None, repairs: Vec::new() };
    Ok(Envelope { header, calls: vec![call] })
}

pub(super) fn results(answers: &[Answer]) -> Map<String, Value> {
    answers.first().map(result).unwrap_or_default()
}

/// The errors of searches: those in the tables "Common Failure Modes" of the tool schemas, and that of
/// `locate_symbol`. Elsewhere, a search that found nothing or too much has a result, with a `notice` of
/// this code.
const NOTICES: [(&str, Status); 5] = [
    ("NoMatches", Status::Error),
    ("NoMatchesFound", Status::Error),
    ("SymbolNotFound", Status::Error),
    ("TooManyMatches", Status::Limit),
    ("TooManyResults", Status::Limit),
];

/// Makes the outcome of this dialect: a notice of a search is a failure.
pub(super) fn adapted(outcome: Outcome) -> Outcome {
    let Outcome::Executed(output) = &outcome else { return outcome };
    let text = |name: &str| output.get("notice")?.get(name)?.as_str();
    let (Some(code), Some(message)) = (text("code"), text("message")) else { return outcome };
    match NOTICES.iter().find(|(known, _)| *known == code) {
        Some((_, status)) => Outcome::Failed(Failure::of_tool(*status, code, message)),
        None => outcome,
    }
}

fn result(answer: &Answer) -> Map<String, Value> {
    let (status, key, value) = match &answer.outcome {
        Outcome::Executed(output) => ("success", "result", output.clone()),
        Outcome::Failed(failure) => ("error", "error", error(failure)),
    };
    let mut result = Map::from_iter([
        (KEY.to_owned(), answer.tool.clone().into()),
        ("status".to_owned(), status.into()),
        (key.to_owned(), value),
    ]);
    if !answer.warnings.is_empty() {
        result.insert("warnings".to_owned(), answer.warnings.clone().into());
    }
    result
}

fn error(failure: &Failure) -> Value {
    let mut error = json!({
        "outcome": failure.status,
        "code": failure.code,
        "message": failure.message,
    });
    if let Some(detail) = &failure.detail {
        error["detail"] = detail.clone();
    }
    error
}
