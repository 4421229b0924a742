//! Limits of a grant.

use super::{ended, entry, fetched, hello, runner};
use crate::http::server::{Server, answer};

#[test]
fn requests_are_limited() {
    let server = hello();
    let trial = runner(&ended(&server, "requests = 2"));
    let url = "https://test.example/";
    let lines = fetched(&trial, &[url, url, url, url]);
    assert_eq!(lines[..2], ["200 hello", "200 hello"]);
    assert!(lines[2..].iter().all(|line| line.starts_with("429 ")), "{lines:?}");
    assert_eq!(server.asked().len(), 2);
    // Each run has its own.
    assert_eq!(fetched(&trial, &[url]), ["200 hello"]);
}

#[test]
fn bytes_are_limited() {
    let server = Server::new(|_| answer(200, "", &[b'x'; 500_000]));
    let trial = runner(&ended(&server, "bytes = 100000"));
    let lines = fetched(&trial, &["https://test.example/", "https://test.example/"]);
    assert!(!lines[0].starts_with("200 ") || lines[0].len() < 100_100, "{}", &lines[0][..99]);
    assert!(lines[1].starts_with("429 "), "{lines:?}");
    let plain = Server::plain(|_| answer(200, "", &[b'x'; 500_000]));
    let origin = format!("http://localhost:{}", plain.address().port());
    let trial = runner(&entry(&plain, &origin, "", "bytes = 100000"));
    let lines = fetched(&trial, &[&format!("{origin}/")]);
    assert!(!lines[0].starts_with("200 "), "{}", &lines[0][..99.min(lines[0].len())]);
}
