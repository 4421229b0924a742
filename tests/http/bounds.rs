//! Servers that are slow, large or broken, and plugins that wait without end: every call ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use cofferdam_core::outcome::{Outcome, Status};

use super::server::{Server, Step, answer};
use super::{caller, got, granted, misused, sent};
use crate::trial::assert_failed;

const URL: &str = "https://test.example/";

/// How much longer something may take on a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// Asserts that one of several attempts takes less than this many milliseconds, since others may be
/// delayed by the machine.
fn assert_ends_within(milliseconds: u64, mut attempt: impl FnMut()) {
    let mut took = || {
        let begun = Instant::now();
        attempt();
        begun.elapsed()
    };
    let times: Vec<_> = (0..5).map(|_| took()).collect();
    assert!(times.iter().any(|time| *time < Duration::from_millis(milliseconds)), "{times:?}");
}

fn endless(bytes: usize, pause: u64) -> Server {
    Server::new(move |_| {
        let pause = Duration::from_millis(pause);
        vec![
            Step::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
            Step::Repeat(vec![b'x'; bytes], pause),
        ]
    })
}

fn silent() -> Server {
    Server::new(|_| vec![Step::Wait(Duration::from_secs(20))])
}

#[test]
fn a_slow_server_is_a_timeout() {
    let (silent, dripping) = (silent(), endless(1, 30));
    for server in [&silent, &dripping] {
        for (more, args) in [
            ("timeout-ms = 300", json!({ "url": URL })),
            ("", json!({"url": URL, "timeout_ms": 300})),
        ] {
            let trial = caller(&granted(server, more));
            let begun = Instant::now();
            let output = sent(&trial, args);
            assert_eq!(output["error"], "timeout", "{more}: {output}");
            assert!(begun.elapsed() < Duration::from_millis(300) + SLACK, "{:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_call_that_waits_ends_at_its_deadline() {
    let (silent, dripping) = (silent(), endless(1, 30));
    for server in [&silent, &dripping] {
        let trial = caller(&format!("{}[limits]\ncall-ms = 400\n", granted(server, "")));
        // Loads the plugin.
        got(&trial, "https://no.example/");
        // The wait itself ends: the call's thread is not abandoned, which would take half a second
        // more.
        assert_ends_within(880, || match trial.call("caller.send", json!({ "url": URL })) {
            // The host's limit is at the same time, so the plugin may still report the timeout.
            Outcome::Executed(output) => assert_eq!(output["error"], "timeout", "{output}"),
            failed => assert_failed(failed, Status::Limit, "WallClockLimit", "400 ms"),
        });
    }
}

#[test]
fn a_body_that_is_not_read_does_not_block_a_thread() {
    let server = Server::new(|_| answer(200, "", b"fine"));
    let trial = caller(&format!("{}[limits]\ncall-ms = 400\n", granted(&server, "")));
    assert_eq!(got(&trial, URL)["body"], "fine");
    for how in ["unsent", "unsent poll"] {
        assert_ends_within(880, || {
            let outcome = trial.call("caller.misuse", json!({"how": how, "url": URL}));
            assert_failed(outcome, Status::Limit, "WallClockLimit", "400 ms");
        });
    }
    assert_eq!(got(&trial, URL)["body"], "fine");
}

#[test]
fn an_endless_response_has_a_maximum_size() {
    let server = endless(1 << 20, 0);
    let trial = caller(&granted(&server, ""));
    let got = misused(&trial, "drink");
    assert!(got.starts_with("6") && got.contains("body size"), "{got}");
    let output = sent(&trial, json!({"url": URL, "most": 100_000}));
    assert_eq!(output["error"], "too large", "{output}");
}

#[test]
fn an_endless_request_has_a_maximum_size() {
    let server = Server::new(|_| vec![Step::Drain]);
    let trial = caller(&granted(&server, ""));
    let mebibytes: usize = misused(&trial, "endless").parse().unwrap();
    assert!((15..=18).contains(&mebibytes), "{mebibytes}");
}

#[test]
fn the_number_of_concurrent_requests_is_limited() {
    let server = Server::new(|_| answer(200, "", b"fine"));
    let got = misused(&caller(&granted(&server, "")), "many");
    assert_eq!(got, "8 answered, 12 refused");
    assert_eq!(server.asked().len(), 8);
    // There may be more of them one after the other.
    let trial = caller(&granted(&server, ""));
    assert_eq!(sent(&trial, json!({"url": URL, "times": 20}))["status"], 200);
}

#[test]
fn an_invalid_response_is_an_error() {
    let many: String = (0..500).map(|n| format!("X-{n}: y\r\n")).collect();
    for (what, bytes) in [
        ("nothing", String::new()),
        ("no HTTP", "220 smtp.example ESMTP\r\n".to_owned()),
        ("another protocol", "\x15\x03\x01\0\x02\x02\x28".to_owned()),
        ("a large head", format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(200_000))),
        ("many headers", format!("HTTP/1.1 200 OK\r\n{many}\r\n")),
        ("half of it", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_owned()),
        ("a broken length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_owned()),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        ),
        (
            "a broken chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
        ),
        (
            "a huge chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n".to_owned(),
        ),
    ] {
        let server = Server::new(move |_| vec![Step::Send(bytes.clone().into_bytes())]);
        let trial = caller(&granted(&server, "timeout-ms = 5000"));
        let output = got(&trial, URL);
        let error = output["error"].as_str().unwrap_or_default();
        assert!(["failed", "too large"].contains(&error), "{what}: {output}");
    }
}

#[test]
fn an_error_status_is_a_response() {
    for status in [204, 301, 404, 429, 500] {
        let server = Server::new(move |_| answer(status, "", b""));
        let output = got(&caller(&granted(&server, "")), URL);
        assert_eq!(output["status"], status, "{output}");
    }
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    let server = Server::new(|_| answer(200, "", b"taken"));
    let trial = caller(&granted(&server, ""));
    let args = json!({"url": URL, "method": "POST", "body": "b".repeat(10_000)});
    let output: Value = sent(&trial, args);
    assert_eq!(output["status"], 200, "{output}");
    assert_eq!(server.lines(), ["POST / HTTP/1.1"]);
}
