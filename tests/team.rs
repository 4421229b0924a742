//! Messages: from `send_message` to `cofferdam inbox`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Place};

impl Place {
    /// Sends a message and returns its id.
    fn send(&self, recipient: Option<&str>, content: &str) -> String {
        let mut envelope = json!({
            "tool": "send_message",
            "type": if recipient.is_some() { "message" } else { "broadcast" },
            "content": content,
            "summary": format!("about {content}"),
        });
        if let Some(recipient) = recipient {
            envelope["recipient"] = recipient.into();
        }
        let ended = self.run_with(&["run"], &envelope.to_string());
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()["result"]["message_id"].as_str().unwrap().to_owned()
    }

    fn inbox(&self, options: &[&str]) -> Ended {
        self.run(&[&["inbox"], options].concat())
    }

    /// The contents of the messages that are shown with these options.
    fn contents(&self, options: &[&str]) -> Vec<String> {
        let ended = self.inbox(options);
        assert_eq!(ended.status, 0, "{ended:?}");
        let content = |message: &Value| message["content"].as_str().unwrap().to_owned();
        ended.json()["messages"].as_array().unwrap().iter().map(content).collect()
    }
}

#[test]
fn the_sources_example_is_delivered() {
    let place = Place::new();
    let ended = place.run_with(
        &["run"],
        r#"{
          "tool": "send_message",
          "type": "message",
          "recipient": "team-lead",
          "content": "Phase 3 implementation complete with 37% token reduction",
          "summary": "Phase 3 complete, token reduction achieved"
        }"#,
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let sent = ended.json();
    assert_eq!((&sent["tool"], &sent["status"]), (&json!("send_message"), &json!("success")));
    let id = sent["result"]["message_id"].as_str().unwrap();
    let inbox = place.inbox(&["--for", "team-lead"]).json();
    assert_eq!(inbox["problems"], json!([]));
    let [message] = inbox["messages"].as_array().unwrap().as_slice() else { panic!("{inbox:#}") };
    for (field, wanted) in [
        ("id", id),
        ("type", "message"),
        ("recipient", "team-lead"),
        ("content", "Phase 3 implementation complete with 37% token reduction"),
        ("summary", "Phase 3 complete, token reduction achieved"),
    ] {
        assert_eq!(message[field], wanted, "{field}");
    }
    // The journal has the sender's role.
    let log = place.run(&["log", "--tool", "team.send_message"]).json();
    assert_eq!(log["records"][0]["call"], message["call"], "{log:#}");
    // Messages are not committed to git.
    assert_eq!(place.read(".team/.gitignore"), "*\n");
}

#[test]
fn an_inbox_has_personal_messages_and_broadcasts() {
    let place = Place::new();
    assert_eq!(place.contents(&[]), [""; 0]);
    assert_eq!(fs::read_dir(place.workspace()).unwrap().count(), 0);
    let first = place.send(Some("team-lead"), "one");
    let second = place.send(None, "two");
    let third = place.send(Some("tester"), "three\nlines\u{1b}[31m");
    assert!(first < second && second < third);
    let three = "three\nlines\u{1b}[31m";
    for (options, wanted) in [
        (&[][..], &["one", "two", three][..]),
        (&["--for", "team-lead"], &["one", "two"]),
        (&["--for", "tester"], &["two", three]),
        (&["--for", "nobody"], &["two"]),
        (&["--after", &first], &["two", three]),
        (&["--for", "team-lead", "--after", &first], &["two"]),
        (&["--after", &third], &[]),
        (&["--after", "msg-20200101T000000.000Z"], &["one", "two", three]),
    ] {
        assert_eq!(place.contents(options), wanted, "{options:?}");
    }
    let text = place.inbox(&["--format", "text"]).stdout;
    let wanted = format!(
        "{first}  to team-lead: about one\n  | one\n{second}  to everybody: about two\n  | two\n\
         {third}  to tester: about three lines\\u{{1b}}[31m\n  | three\n  | lines\\u{{1b}}[31m\n"
    );
    assert_eq!(text, wanted);
    let ended = place.inbox(&["--after", "yesterday"]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("'yesterday' is no id of a message"), "{ended:?}");
}

#[test]
fn invalid_messages_are_reported_and_the_others_listed() {
    let place = Place::new();
    place.send(None, "good");
    place
        .write(".team/messages/msg-20200101T000000.000Z.yaml", "type: \"broadcast\"\nsummary: x\n");
    place.write(".team/messages/msg-1.yaml", "");
    place.write(".team/messages/notes.txt", "none of ours");
    let ended = place.inbox(&[]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let inbox = ended.json();
    assert_eq!(inbox["messages"].as_array().unwrap().len(), 1);
    assert_eq!(inbox["problems"][0]["path"], ".team/messages/msg-1.yaml");
    assert_eq!(inbox["problems"][1]["line"], 2);
}

#[test]
fn processes_that_send_at_once_lose_no_message() {
    let place = Place::new();
    let sending: Vec<_> = (0..12)
        .map(|number| {
            let content = number.to_string();
            let args = json!({"type": "broadcast", "content": content, "summary": "x"});
            let mut command = place.command(&["call", "send_message", &args.to_string()]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in sending {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let found: BTreeSet<String> = place.contents(&[]).into_iter().collect();
    assert_eq!(found, (0..12).map(|number| number.to_string()).collect());
}
