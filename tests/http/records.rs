//! The journal's records of calls that send requests.

use serde_json::{Value, json};

use cofferdam_core::outcome::Status;

use super::server::{Server, Step, answer};
use super::{caller, granted, sent};
use crate::support::guest;
use crate::trial::{Trial, assert_failed};

pub fn journal(trial: &Trial) -> Vec<Value> {
    let text = trial.place.read(".cofferdam/journal.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_record_has_the_origins_and_purposes_of_requests() {
    let server = Server::new(|_| answer(200, "", b""));
    let trial = caller(&granted(&server, ""));
    sent(&trial, json!({"url": "https://test.example/a"}));
    sent(&trial, json!({"url": "https://elsewhere.example/"}));
    let records = journal(&trial);
    assert_eq!(records[0]["hosts"], json!(["https://test.example"]), "{records:?}");
    assert_eq!(records[0].get("refused_hosts"), None, "{records:?}");
    // A refused request is listed as such.
    assert_eq!(records[1].get("hosts"), None, "{records:?}");
    let refused = json!({"caller": ["https://elsewhere.example"]});
    assert_eq!(records[1]["refused_hosts"], refused, "{records:?}");
}

#[test]
fn refused_origins_are_named_with_the_grant() {
    let server = Server::new(|_| answer(200, "", b""));
    let trial = caller(&granted(&server, ""));
    let refused = json!({"url": "https://no.example/", "fail": true});
    for _ in 0..2 {
        let wanted = "no request was sent to https://no.example, which 'caller' is not granted; a \
                      person can grant it by http = [\"https://no.example\"] under [grants.caller]";
        let outcome = trial.call("caller.send", refused.clone());
        assert_failed(outcome, Status::Denied, "OriginNotGranted", wanted);
    }
    let file = guest("caller");
    let explained =
        trial.place.run(&["policy", "explain", "caller", "--plugin", file.to_str().unwrap()]);
    let origins = &explained.json()["refused_origins"];
    assert_eq!(origins.as_array().map(Vec::len), Some(1), "{explained:?}");
    assert_eq!(
        (&origins[0]["origin"], &origins[0]["calls"]),
        (&json!("https://no.example"), &json!(2))
    );
    assert_eq!(
        origins[0]["why"],
        "`cofferdam policy grant caller http=https://no.example` grants it"
    );
}

#[test]
fn a_failure_that_a_manifest_names_is_a_fallback() {
    let server = Server::new(|_| vec![Step::Wait(std::time::Duration::from_secs(5))]);
    let trial = caller(&granted(&server, "timeout-ms = 100"));
    let outcome = trial.call("caller.send", json!({"url": "https://test.example/", "fail": true}));
    assert_failed(outcome, Status::Error, "TimeoutError", "no answer in time");
    let outcome = trial.call("caller.send", json!({"url": "https://no.example/", "fail": true}));
    assert_failed(outcome, Status::Denied, "OriginNotGranted", "https://no.example");
    let records = journal(&trial);
    assert_eq!(records.len(), 3, "{records:?}");
    let event = &records[1];
    assert_eq!(event["event"], "fallback_activated");
    assert_eq!(event["reason"], "caller_timeout");
    assert_eq!((&event["tool"], &event["call"]), (&json!("caller.send"), &records[0]["call"]));
}

#[test]
fn repeated_requests_are_limited() {
    let server = Server::new(|_| answer(200, "", b""));
    let trial = caller(&granted(&server, ""));
    let ask = |question: &str| {
        trial.call("caller.send", json!({"url": "https://test.example/", "question": question}))
    };
    for question in ["a", "a", "b", "b"] {
        assert!(matches!(ask(question), cofferdam_core::outcome::Outcome::Executed(_)));
    }
    assert_failed(ask("a"), Status::Limit, "TooManyCalls", "2 times with the same 'question'");
    assert_eq!(server.asked().len(), 4);
    sent(&trial, json!({"url": "https://test.example/"}));
}

#[test]
fn a_stored_response_is_returned_if_it_may_be_old() {
    let server = Server::new(|head| match head.contains("/never") {
        true => answer(200, "Cache-Control: no-store\r\n", b"never"),
        false => answer(200, "X-Said: it\r\n", b"kept"),
    });
    let trial = caller(&granted(&server, ""));
    let ask = |url: &str, directive: &str| {
        sent(&trial, json!({"url": url, "headers": [["cache-control", directive]]}))
    };
    let url = "https://test.example/a";
    let first = ask(url, "max-stale=100");
    assert_eq!((&first["status"], &first["body"]), (&json!(200), &json!("kept")));
    let again = ask(url, "max-stale=100");
    assert_eq!(again["body"], "kept", "{again}");
    let headers = again["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["x-said", "it"])), "{again}");
    assert!(headers.iter().any(|header| header[0] == "age"), "{again}");
    assert_eq!(server.asked().len(), 1);
    for directive in ["no-cache", "max-stale=100, no-store", "max-age=100"] {
        ask(url, directive);
    }
    assert_eq!(server.asked().len(), 4);
    for _ in 0..2 {
        ask("https://test.example/never", "max-stale=100");
    }
    assert_eq!(server.asked().len(), 6);
}
