//! What `send_message` changes in a workspace, and that its arguments and results fit the schemas.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use cofferdam_beads_format::message::{DIRECTORY, IGNORE, TEAM};
use cofferdam_beads_format::{Message, MessageId};
use cofferdam_sdk::Context;
use cofferdam_team::call;
use serde_json::{Value, json};
use tempfile::TempDir;

fn schema(side: &str) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas/tools");
    let file = root.join(format!("team.send_message.{side}.json"));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Sends a message; a failure is its code.
    fn send(&self, args: &Value) -> Result<MessageId, String> {
        let context = Context::for_directory(self.0.path());
        let answer = call("send_message", &args.to_string(), &context).map_err(|e| e.code)?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        jsonschema::validate(&schema("output"), &answer).unwrap_or_else(|e| panic!("{e}"));
        Ok(answer["message_id"].as_str().unwrap().parse().unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join(DIRECTORY)
    }

    fn message(&self, id: MessageId) -> Message {
        Message::parse(fs::read(self.directory().join(id.file_name())).unwrap()).unwrap()
    }
}

/// The example from the tool schemas.
fn example() -> Value {
    json!({
        "type": "message",
        "recipient": "team-lead",
        "content": "Phase 3 implementation complete with 37% token reduction",
        "summary": "Phase 3 complete, token reduction achieved",
    })
}

#[test]
fn every_example_is_accepted() {
    let input = schema("input");
    let examples = input["examples"].as_array().unwrap();
    assert_eq!(examples[0], example());
    let place = Place::new();
    for example in examples {
        jsonschema::validate(&input, example).unwrap_or_else(|e| panic!("{e}"));
        let message = place.message(place.send(example).unwrap());
        assert_eq!(json!(message.kind()), example["type"]);
        assert_eq!(message.recipient.as_deref(), example["recipient"].as_str());
        assert_eq!(message.content, example["content"]);
        assert_eq!(message.summary, example["summary"]);
        assert_eq!(message.call, "test");
    }
    let (name, text) = IGNORE;
    assert_eq!(fs::read_to_string(place.0.path().join(TEAM).join(name)).unwrap(), text);
}

#[test]
fn arguments_outside_the_tool_schemas_do_not_fit() {
    let input = schema("input");
    let without = |field: &str| {
        let mut args = example();
        args.as_object_mut().unwrap().remove(field);
        args
    };
    let with = |field: &str, value: Value| {
        let mut args = example();
        args[field] = value;
        args
    };
    for args in [
        without("type"),
        without("recipient"),
        without("content"),
        without("summary"),
        with("type", json!("memo")),
        with("recipient", json!("")),
        with("recipient", json!(["a", "b"])),
        with("content", json!(" ")),
        with("summary", json!("")),
        with("from", json!("me")),
    ] {
        assert!(!jsonschema::is_valid(&input, &args), "{args}");
    }
    let mut broadcast = without("recipient");
    broadcast["type"] = json!("broadcast");
    assert!(jsonschema::is_valid(&input, &broadcast));

    let place = Place::new();
    assert_eq!(place.send(&without("recipient")), Err("RecipientMissing".to_owned()));
    let for_one = with("type", json!("broadcast"));
    assert_eq!(place.send(&for_one), Err("RecipientOfBroadcast".to_owned()));
    assert!(!place.directory().exists());
}

#[test]
fn messages_are_added_in_order_and_never_replaced() {
    let place = Place::new();
    let ids: Vec<MessageId> = (0..50)
        .map(|number| {
            let mut args = example();
            args["content"] = json!(number.to_string());
            place.send(&args).unwrap()
        })
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(place.message(*id).content, number.to_string());
    }
    // A message from a machine whose clock was fast; other files are ignored.
    fs::write(place.directory().join("msg-29990101T000000.000Z.yaml"), "x").unwrap();
    fs::write(place.directory().join("msg-notes.yaml"), "x").unwrap();
    assert_eq!(place.send(&example()).unwrap().to_string(), "msg-29990101T000000.001Z");
}

#[test]
fn an_unusable_mailbox_is_an_error() {
    let place = Place::new();
    fs::write(place.0.path().join(TEAM), "a file").unwrap();
    assert!(place.send(&example()).is_err());
    assert_eq!(fs::read_to_string(place.0.path().join(TEAM)).unwrap(), "a file");
}
