//! The built-in plugin `web`: pages as text, from granted origins only.

use serde_json::{Value, json};

use cofferdam_core::outcome::Outcome;

use super::server::{Server, Step};
use crate::hostile::component::Packed;
use crate::install::web::{answer, path};
use crate::support::Place;
use crate::trial::Trial;

fn page(head: &str) -> Vec<Step> {
    let html = "content-type: text/html; charset=utf-8\r\n";
    match path(head) {
        "/guide" => {
            let sentence = "A lock is taken before the file is read, so that no other writer sees half of it. ";
            let body = format!(
                "<html><head><title>Locks</title></head><body><nav><a href='/buy'>Buy</a></nav>\
                 <article><h1>Locks</h1><p>{0}</p><p>{0}<a href='more'>More</a></p></article></body></html>",
                sentence.repeat(6)
            );
            answer("200 OK", html, body.as_bytes())
        }
        "/moved" => answer("301 Moved", "location: /guide\r\n", b""),
        "/away" => answer("302 Found", "location: https://elsewhere.example/\r\n", b""),
        "/image" => answer("200 OK", "content-type: image/png\r\n", b"\x89PNG\0"),
        _ => answer("404 Not Found", html, b"<title>Nothing</title><p>Nothing here"),
    }
}

/// A host whose operator grants the plugin one origin.
fn trial(server: &Server) -> Trial {
    let settings = format!(
        "[[grants.web.http]]\norigin = 'https://test.example'\naddress = '{}'\nca-file = '{}'\n",
        server.address(),
        server.authority().display()
    );
    Trial::with(Place::new(), vec![Packed::built_in("web")], &settings)
}

fn fetched(trial: &Trial, path: &str) -> Value {
    let url = format!("https://test.example{path}");
    match trial.call("web.fetch_url", json!({ "url": url })) {
        Outcome::Executed(output) => output,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_page_is_fetched_as_text() {
    let server = Server::new(page);
    let trial = trial(&server);
    let guide = fetched(&trial, "/moved");
    assert_eq!(
        (&guide["url"], &guide["status"]),
        (&json!("https://test.example/guide"), &json!(200))
    );
    assert_eq!((&guide["title"], &guide["type"]), (&json!("Locks"), &json!("text/html")));
    let content = guide["content"].as_str().unwrap();
    assert!(content.contains("[More](https://test.example/more)"), "{content}");
    assert!(content.contains("sees half of it") && !content.contains("Buy"), "{content}");
    let nothing = fetched(&trial, "/nothing");
    assert_eq!((&nothing["status"], &nothing["content"]), (&json!(404), &json!("Nothing here")));
}

#[test]
fn no_origin_is_reached_without_a_grant() {
    let server = Server::new(page);
    let trial = trial(&server);
    for (url, code, words) in [
        ("https://elsewhere.example/", "OriginNotGranted", "https://elsewhere.example"),
        // A granted origin redirects to one that is not.
        ("https://test.example/away", "OriginNotGranted", "https://elsewhere.example"),
        ("https://test.example@elsewhere.example/", "OriginNotGranted", "elsewhere.example"),
        ("http://test.example/guide", "OriginNotGranted", "http://test.example"),
        ("https://127.0.0.1/", "OriginNotGranted", "127.0.0.1"),
        ("file:///etc/passwd", "InvalidUrl", "only https://"),
        ("https://test.example/image", "NotText", "image/png"),
    ] {
        let Outcome::Failed(failure) = trial.call("web.fetch_url", json!({ "url": url })) else {
            panic!("{url} was fetched");
        };
        assert_eq!(failure.code.to_string(), code, "{url}: {failure:?}");
        assert!(failure.message.contains(words), "{url}: {}", failure.message);
    }
    // Without any grant, the call is refused before it runs.
    let none = Trial::with(Place::new(), vec![Packed::built_in("web")], "");
    let Outcome::Failed(failure) =
        none.call("web.fetch_url", json!({"url": "https://test.example/"}))
    else {
        panic!("it was fetched");
    };
    assert!(failure.message.contains("[grants.web]"), "{failure:?}");
}
