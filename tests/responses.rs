//! Text as models really write it: each `tests/responses/NAME.txt` is a response, and `NAME.json`
//! has the expected result.
//!
//! | in the expectation | means |
//! |---|---|
//! | `calls`, `notes`, `repairs` | an envelope: its calls as `{tool, ...args}` |
//! | `refused` | no envelope: all of the problem, in words |
//! | `agent` | the response is read by this agent's contract, as its first try in round 1 |
//! | `record`, `next`, `problems`, `repairs`, `extracted` | the result of reading it |
//!
//! `repairs`, `problems` and `extracted` can be omitted if they are empty.

use std::collections::BTreeSet;
use std::fs;

use cofferdam_core::contract::{Contracts, Turn};
use cofferdam_core::envelope::{Mode, decode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::support::project;

/// The expected result of a response.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Expected {
    Envelope(Calls),
    Refused(Refused),
    Contract(Record),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    calls: Vec<Value>,
    #[serde(default)]
    notes: Option<String>,
    #[serde(default)]
    repairs: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    refused: String,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    agent: String,
    record: Map<String, Value>,
    next: String,
    #[serde(default)]
    problems: Vec<String>,
    #[serde(default)]
    repairs: Vec<String>,
    #[serde(default)]
    extracted: Vec<String>,
}

fn envelope(response: &str) -> Expected {
    match decode(response, Mode::Lenient) {
        Ok(envelope) => Expected::Envelope(Calls {
            calls: envelope
                .calls
                .into_iter()
                .map(|call| {
                    let mut fields = Map::from_iter([("tool".to_owned(), call.tool.into())]);
                    fields.extend(call.args.as_object().unwrap().clone());
                    Value::Object(fields)
                })
                .collect(),
            notes: envelope.header.notes,
            repairs: envelope.header.repairs,
        }),
        Err(error) => Expected::Refused(Refused { refused: error.to_string() }),
    }
}

fn contract(agent: &str, response: &str) -> Expected {
    let contracts = Contracts::built_in().unwrap();
    let contract = contracts.get(agent).unwrap();
    let parsed = contract.parse(response);
    Expected::Contract(Record {
        agent: agent.to_owned(),
        next: contract.next(&parsed, Turn::default()).action.as_str().to_owned(),
        record: parsed.record,
        problems: parsed.problems.iter().map(ToString::to_string).collect(),
        repairs: parsed.repairs,
        extracted: parsed.extracted,
    })
}

#[test]
fn every_response_has_the_expected_result() {
    let folder = project().join("tests/responses");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_some_and(|kind| kind == "txt" || kind == "json"), "{path:?}");
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    assert!(names.len() >= 40, "only {} responses in {}", names.len(), folder.display());
    let mut failed = Vec::new();
    for name in names {
        let read = |kind: &str| {
            let path = folder.join(format!("{name}.{kind}"));
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let (response, expected) = (read("txt"), read("json"));
        let expected: Expected =
            serde_json::from_str(&expected).unwrap_or_else(|error| panic!("{name}.json: {error}"));
        let found = match &expected {
            Expected::Contract(record) => contract(&record.agent, &response),
            _ => envelope(&response),
        };
        if found != expected {
            failed.push(format!("{name}\nexpected {expected:#?}\nfound {found:#?}"));
        }
    }
    assert!(failed.is_empty(), "{} responses:\n\n{}", failed.len(), failed.join("\n\n"));
}
