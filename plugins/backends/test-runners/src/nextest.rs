//! Parses the events of nextest with `--message-format libtest-json-plus`: libtest's unstable JSON,
//! one event on each line. <https://nexte.st/docs/machine-readable/libtest-json/>

use std::collections::HashMap;

use cofferdam_sdk::backend::testing::{Status, Test};
use serde::Deserialize;

use crate::libtest;
use crate::output::{self, UNFINISHED, json_lines, short_message, short_stack};

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    /// The name: `package::binary$path::of::test`, with `#2` for the second attempt.
    #[serde(default)]
    name: String,
    exec_time: Option<f64>,
    #[serde(default)]
    stdout: String,
    reason: Option<String>,
}

/// The tests of a run, in the order in which they started. The last attempt of a test counts.
///
/// An ignored test that does not match the pattern has a start event only. So tests without an end
/// are reported only if the run was stopped.
pub fn read(events: &str, stopped: bool) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for event in json_lines::<Event>(events).filter(|event| event.kind == "test") {
        let name = without_try(&event.name);
        let place = *places.entry(name.to_owned()).or_insert_with(|| {
            let (suite, name) = name.split_once('$').unwrap_or(("", name));
            tests.push(output::error(&suite_name(suite), name, UNFINISHED));
            tests.len() - 1
        });
        if let Some(test) = tests.get_mut(place) {
            end(test, &event);
        }
    }
    tests.retain(|test| stopped || !matches!(test.status, Status::Error));
    tests
}

fn end(test: &mut Test, event: &Event) {
    test.status = match event.event.as_str() {
        "started" => return,
        "ok" => Status::Pass,
        "ignored" => Status::Skip,
        _ => Status::Fail,
    };
    test.duration = event.exec_time;
    (test.message, test.stack) = (None, None);
    if let Status::Fail = test.status {
        let message = libtest::message(&event.stdout).or(event.reason.clone());
        test.message = message.as_deref().and_then(short_message);
        test.stack = short_stack(&event.stdout);
    }
}

fn without_try(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}

/// The package, and the binary if it is not the package's own.
fn suite_name(id: &str) -> String {
    match id.split_once("::") {
        Some((package, binary)) if package.replace('-', "_") == binary => package.to_owned(),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::shown;

    const EVENTS: &str = include_str!("../tests/data/nextest.jsonl");

    #[test]
    fn recorded_results() {
        let tests = read(EVENTS, false);
        assert_eq!(
            shown(&tests),
            [
                "demo-crate tests::does_not_panic fail: note: test did not panic as expected at \
                 src/lib.rs:24:8",
                "demo-crate tests::adds pass",
                "demo-crate tests::errs fail: Error: \"an error value\"",
                "demo-crate tests::later skip",
                "demo-crate tests::fails fail: assertion `left == right` failed: sum is wrong\n  \
                 left: 3\n right: 4",
                "demo-crate tests::panics pass",
                "demo-crate::outside adds_outside pass",
            ]
        );
        assert!(tests[1].duration.is_some_and(|seconds| seconds < 1.0));
        let stack = tests[4].stack.as_ref().unwrap();
        assert!(stack.starts_with("seen\nalso seen\n") && stack.contains("stack backtrace:"));
    }

    #[test]
    fn the_last_attempt_counts_and_unfinished_tests_are_errors() {
        let events = r#"
            {"type":"test","event":"started","name":"a::a$x"}
            {"type":"test","event":"failed","name":"a::a$x","exec_time":1.5,"reason":"time limit exceeded"}
            {"type":"test","event":"started","name":"a::a$x#2"}
            {"type":"test","event":"ok","name":"a::a$x#2","exec_time":0.5}
            {"type":"test","event":"started","name":"a::b$y"}
            {"type":"test","event":"failed","name":"a::b$z","reason":"time limit exceeded"}
            {"type":"test","ev"#;
        let tests = read(events, true);
        assert_eq!(
            shown(&tests),
            [
                "a x pass",
                "a::b y error: still running when the run ended",
                "a::b z fail: time limit exceeded",
            ]
        );
        assert_eq!(tests[0].duration, Some(0.5));
        assert_eq!(shown(&read(events, false)), ["a x pass", "a::b z fail: time limit exceeded"]);
    }
}
