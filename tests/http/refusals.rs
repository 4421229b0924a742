//! Requests that a plugin can't send.

use serde_json::json;

use cofferdam_core::outcome::Status;

use super::server::{Server, answer};
use super::{caller, got, granted, misused, sent};
use crate::trial::assert_failed;

fn hello() -> Server {
    Server::new(|_| answer(200, "X-Said: hello\r\n", b"hello"))
}

#[test]
fn without_a_grant_a_call_names_the_grant() {
    let trial = caller("");
    let outcome = trial.call("caller.send", json!({"url": "https://test.example/"}));
    let grant = "which needs the grant http = [\"https://HOST\", ...]; a person can grant it under \
                 [grants.caller] in cofferdam.toml";
    assert_failed(outcome, Status::Denied, "NotGranted", grant);
}

#[test]
fn a_granted_origin_answers() {
    let server = hello();
    let trial = caller(&granted(&server, ""));
    let output = got(&trial, "https://test.example/a/b?c=d#e");
    assert_eq!((&output["status"], &output["body"]), (&json!(200), &json!("hello")), "{output}");
    assert!(
        output["headers"].as_array().unwrap().contains(&json!(["x-said", "hello"])),
        "{output}"
    );
    let asked = server.asked();
    assert!(asked[0].starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].to_lowercase().contains("\r\nhost: test.example\r\n"), "{asked:?}");
}

#[test]
fn origins_that_are_not_requested_or_granted_are_refused() {
    let server = hello();
    let settings = format!(
        "{}[[grants.caller.http]]\norigin = 'https://unrequested.example'\naddress = '{}'\n",
        granted(&server, ""),
        server.address()
    );
    let trial = caller(&settings);
    for url in [
        "https://other.example/",
        "https://unrequested.example/",
        "https://test.example:8443/",
        "http://test.example/",
        "https://sub.test.example/",
        "https://127.0.0.1/",
        "https://localhost:1/",
        "http://localhost:18080/",
        "http://169.254.169.254/latest/meta-data/",
    ] {
        let output = got(&trial, url);
        assert_eq!(output["error"], "denied", "{url}: {output}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn ambiguous_hosts_are_refused() {
    let server = hello();
    let got = misused(&caller(&granted(&server, "")), "hosts");
    for attempt in got.split("; ") {
        // The one that is another notation of the origin is unambiguous.
        assert!(!attempt.ends_with(": 200"), "{got}");
    }
    assert_eq!(server.asked(), Vec::<String>::new(), "{got}");
}

#[test]
fn connection_headers_and_header_injection_are_refused() {
    assert_eq!(misused(&caller(&granted(&hello(), "")), "headers"), "");
}

#[test]
fn a_path_can_not_change_the_origin() {
    let server = hello();
    let got = misused(&caller(&granted(&server, "")), "paths");
    assert_eq!((got.as_str(), server.asked().len()), ("", 0));
}

#[test]
fn connect_and_trace_are_refused() {
    let server = hello();
    let trial = caller(&granted(&server, ""));
    for method in ["CONNECT", "TRACE"] {
        let output = sent(&trial, json!({"url": "https://test.example/", "method": method}));
        assert_eq!(output["error"], "invalid", "{output}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn redirects_are_not_followed() {
    let server = Server::new(|_| answer(302, "Location: https://other.example/\r\n", b""));
    let trial = caller(&granted(&server, ""));
    let output = got(&trial, "https://test.example/");
    assert_eq!(output["status"], 302, "{output}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn certificates_must_be_trusted_and_valid_for_the_name() {
    let (server, other) = (hello(), hello());
    // The authority is unknown; it is another one; the certificate has other names.
    let unknown = format!(
        "[[grants.caller.http]]\norigin = 'https://test.example'\naddress = '{}'\n",
        server.address()
    );
    let wrong = format!("{unknown}ca-file = '{}'\n", other.authority().display());
    let misnamed = format!("{unknown}ca-file = '{}'\n", server.authority().display())
        .replace("https://test.example", "https://mixed.example:8443");
    for (settings, url) in [
        (unknown, "https://test.example/"),
        (wrong, "https://test.example/"),
        (misnamed, "https://mixed.example:8443/"),
    ] {
        let output = got(&caller(&settings), url);
        let message = output["message"].as_str().unwrap_or_default();
        assert!(message.contains("is not trusted"), "{settings}{output}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn plain_http_is_only_for_this_machine() {
    let server = Server::plain(|_| answer(200, "", b"plain"));
    let settings = format!(
        "[[grants.caller.http]]\norigin = 'http://localhost:18080'\naddress = '{}'\n",
        server.address()
    );
    let output = got(&caller(&settings), "http://localhost:18080/");
    assert_eq!(output["body"], "plain", "{output}");
    let refused =
        cofferdam_core::policy::Settings::parse("[grants.caller]\nhttp = ['http://test.example']");
    assert!(refused.unwrap_err().to_string().contains("reached by https://"));
}

#[test]
fn a_server_without_tls_gets_no_request_for_https() {
    let server = Server::plain(|_| answer(200, "", b"plain"));
    let settings = format!(
        "[[grants.caller.http]]\norigin = 'https://test.example'\naddress = '{}'\ntimeout-ms = 2000\n",
        server.address()
    );
    let output = got(&caller(&settings), "https://test.example/");
    assert_ne!(output["error"], json!(null), "{output}");
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn an_unreachable_server_is_reported() {
    let trial = caller("[grants.caller]\nhttp = ['https://localhost:1']\n");
    assert_eq!(got(&trial, "https://localhost:1/")["error"], "unreachable");
    // Names that the system can't resolve, within the plugin's own time limit.
    let trial = caller("[grants.caller]\nhttp = ['https://other.example']\n");
    let output = sent(&trial, json!({"url": "https://other.example/", "timeout_ms": 3000}));
    let error = output["error"].as_str().unwrap_or_default();
    assert!(["unreachable", "timeout"].contains(&error), "{output}");
}

#[test]
fn a_secret_is_sent_only_to_its_origin() {
    let (server, other) = (hello(), hello());
    let settings = format!(
        "{}[[grants.caller.http]]\norigin = 'https://other.example'\naddress = '{}'\nca-file = '{}'\n",
        granted(&server, "headers = { Authorization = 'Bearer ${GRANTED_TOKEN}' }"),
        other.address(),
        other.authority().display()
    );
    let trial = caller(&settings);
    let mine = json!([["authorization", "Bearer mine"], ["x-mine", "kept"]]);
    for url in ["https://test.example/", "https://other.example/"] {
        let output = sent(&trial, json!({"url": url, "headers": mine}));
        assert_eq!(output["status"], 200, "{output}");
        assert!(!output.to_string().contains("a-token-of-some"), "{output}");
    }
    let asked = server.asked()[0].to_lowercase();
    assert!(asked.contains("\r\nauthorization: bearer a-token-of-some\r\n"), "{asked}");
    assert!(asked.contains("\r\nx-mine: kept\r\n") && !asked.contains("bearer mine"), "{asked}");
    assert!(other.asked()[0].contains("Bearer mine"), "{:?}", other.asked());
    assert!(!trial.place.read(".cofferdam/journal.jsonl").contains("a-token"), "the journal");

    let trial = caller(&granted(&server, "headers = { Authorization = '${NOT_SET}' }"));
    assert_eq!(got(&trial, "https://test.example/")["error"], "setup");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_proxy_of_the_environment_is_not_used() {
    let server = hello();
    let trial = caller("");
    let place = &trial.place;
    let settings = place.home().join(".config/cofferdam/cofferdam.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, granted(&server, "")).unwrap();
    let plugin = crate::support::guest("caller");
    let args = [
        "--plugin",
        plugin.to_str().unwrap(),
        "call",
        "caller.send",
        r#"{"url": "https://test.example/"}"#,
    ];
    let mut command = place.command(&args);
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    {
        command.env(name, "http://127.0.0.1:1");
    }
    // Nor are certificates, or settings of the resolver.
    command.env("SSL_CERT_FILE", "/dev/null").env("LOCALDOMAIN", "evil.example");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"hello\""), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
