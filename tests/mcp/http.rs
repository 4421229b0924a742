//! Who can reach the server over HTTP, and how it ends, tested with arbitrary requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::client::{Client, Connection, Era, Sdk};
use super::server::{Request, Server, message};
use super::{TWICE, plugin, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

pub fn list(path: &str) -> Request {
    Request::post(path, "tools/list", &json!({}))
}

pub fn call(path: &str, tool: &str, arguments: &Value) -> Request {
    Request::post(path, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

#[test]
fn a_token_is_required_if_configured() {
    let place = Place::new();
    let file = place.home_file("token.txt");
    std::fs::write(&file, "a-long-secret\n").unwrap();
    let server = Server::new(&place, &["--token-file", file.to_str().unwrap()]);
    for path in ["/mcp", "/mcp/reader"] {
        let strangers = [
            list(path),
            list(path).with("Authorization", "Bearer another"),
            list(path).with("Authorization", "Bearer a-long-secret2"),
            list(path).with("Authorization", "Bearer "),
            list(path).with("Authorization", "Basic a-long-secret"),
            list(path).with("Authorization", "a-long-secret"),
        ];
        for request in strangers {
            let (status, head, body) = server.ask(&request);
            assert_eq!(status, 401, "{body}");
            assert!(head.contains("www-authenticate: bearer"), "{head}");
            assert!(!body.contains("files__"), "{body}");
        }
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let friend = list(path).with("Authorization", &format!("{scheme} a-long-secret"));
            assert_eq!(server.ask(&friend).0, 200, "{scheme}");
        }
    }
    assert_eq!(server.ask(&Request::get("/health")).0, 200);
    for sdk in [Sdk::Python, Sdk::TypeScript] {
        for (token, connects) in [("a-long-secret", true), ("another", false)] {
            let connection = Connection {
                sdk,
                era: Era::Stateless,
                elicitation: false,
                listens: false,
                tasks: false,
                options: &[],
                url: Some(server.url("/mcp")),
                token: Some(token.to_owned()),
            };
            let client = Client::connect(&place, &connection);
            assert_eq!(client.is_ok(), connects, "{sdk:?} {token}");
        }
    }
}

/// A page in a browser must not reach it (DNS rebinding, and cross-origin requests).
#[test]
fn requests_with_other_hosts_or_origins_are_refused() {
    let place = Place::new();
    let options =
        ["--allow-host", "tools.example.com", "--allow-origin", "https://app.example.com:443"];
    let server = Server::new(&place, &options);
    let port = server.address.port();
    for (host, status) in [
        ("localhost", 200),
        (&*format!("localhost:{port}"), 200),
        (&*format!("127.0.0.1:{port}"), 200),
        (&*format!("[::1]:{port}"), 200),
        ("tools.example.com", 200),
        ("evil.example.com", 403),
        ("localhost.example.com", 403),
        ("127.0.0.1.example.com", 403),
    ] {
        assert_eq!(server.ask(&list("/mcp").with("Host", host)).0, status, "{host}");
    }
    for (origin, status) in [
        (&*format!("http://localhost:{port}"), 200),
        (&*format!("http://127.0.0.1:{port}"), 200),
        ("https://app.example.com", 200),
        (&*format!("http://localhost:{}", port ^ 1), 403),
        (&*format!("https://localhost:{port}"), 403),
        ("http://app.example.com", 403),
        ("https://evil.example.com", 403),
        ("null", 403),
    ] {
        assert_eq!(server.ask(&list("/mcp").with("Origin", origin)).0, status, "{origin}");
    }
}

/// Requests that can be interpreted in two ways: a user before the host, two hosts, another host in
/// the address.
#[test]
fn ambiguous_request_targets_are_refused() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let port = server.address.port();
    let own = format!("localhost:{port}");
    let to = |host: &str| list("/mcp").with("Host", host);
    for (request, status) in [
        (to("evil@localhost"), 400),
        (to(&format!("evil@{own}")), 400),
        (to("localhost@evil.example.com"), 400),
        (to("localhost:"), 400),
        (to("localhost:80:80"), 400),
        (to("::1"), 400),
        (to("[localhost]"), 400),
        (to("localhost, evil.example.com"), 400),
        (to(""), 400),
        (to("localhost."), 403),
        (to("LOCALHOST"), 200),
        (list("/mcp").without("Host"), 400),
        (list("/mcp").and("Host", "evil.example.com"), 400),
        (to("evil.example.com").and("Host", "localhost"), 400),
        (list("/mcp").and("Host", "localhost"), 400),
        (list("/mcp").to("http://evil.example.com/mcp"), 400),
        (list("/mcp").to("http://evil@localhost/mcp"), 400),
        (list("/mcp").to("https://localhost/mcp"), 400),
        (list("/mcp").to("http://localhost/mcp"), 200),
        (to(&own).to(&format!("http://{own}/mcp")), 200),
        (to(&own).to("http://localhost/mcp"), 400),
        (to("evil.example.com").to("http://localhost/mcp"), 400),
        (to("evil.example.com").to("http://evil.example.com/mcp"), 403),
        (list("/mcp").to("*"), 400),
        (list("/mcp").and("Origin", &format!("http://evil@{own}")), 403),
        (list("/mcp").and("Origin", "null"), 403),
        (list("/mcp").and("Origin", &format!("http://{own}")), 200),
        (
            list("/mcp")
                .and("Origin", &format!("http://{own}"))
                .and("Origin", "http://evil.example.com"),
            400,
        ),
        (Request::get("/health").with("Host", "evil@localhost"), 400),
        (Request::get("/health").with("Host", "monitor.example.com"), 200),
    ] {
        let (found, _, body) = server.ask(&request);
        assert_eq!(found, status, "{request:?}: {body}");
    }
}

#[test]
fn an_invalid_origin_is_refused() {
    let place = Place::new();
    for origin in ["foo", "app.example.com", "https://app.example.com/page"] {
        let ended = place.run(&["serve", "--http", "127.0.0.1:0", "--allow-origin", origin]);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("is no origin of a page"), "{ended:?}");
    }
}

/// Incomplete requests do not keep connections open, nor the server running.
#[test]
fn an_incomplete_request_is_a_timeout() {
    let place = Place::new();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";
    let body = format!(
        "{head}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: 1000\r\n\r\n{{"
    );
    let halves = ["", head, &*body];
    let server = Server::new(&place, &[]);
    let mut open: Vec<_> = halves.iter().map(|half| server.says_half(half)).collect();
    let answers = open.iter_mut().map(|stream| {
        let mut answer = String::new();
        // If the server does not close the connection, the test's own timeout does.
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answers: Vec<String> = answers.collect();
    assert!(answers[2].starts_with("HTTP/1.1 408"), "{answers:?}");
    assert_eq!(server.ask(&list("/mcp")).0, 200);
    let open: Vec<_> = halves.iter().map(|half| server.says_half(half)).collect();
    // The answer comes after the incomplete requests were read.
    assert_eq!(server.ask(&list("/mcp")).0, 200);
    assert!(server.stop().success());
    drop(open);
}

#[test]
fn an_invalid_message_is_answered_with_an_error() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    for (body, code, id) in [
        ("{\"jsonrpc\":\"2.0\",", -32700, Value::Null),
        ("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"tools/list\"}", -32600, json!(7)),
        ("{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"a\",\"params\":[]}", -32600, json!(8)),
        (TWICE, -32600, json!(9)),
    ] {
        let (status, head, answer) = server.ask(&list("/mcp").with_body(body));
        assert_eq!(status, 400, "{answer}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let answer = document(&answer);
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
    }
    let other = list("/mcp").with("Content-Type", "text/plain").with_body("x");
    assert_eq!(server.ask(&other).0, 415);
}

#[test]
fn params_of_another_type_are_refused() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let params = json!({"name": "files__glob", "arguments": "x"});
    let (status, _, body) = server.ask(&Request::post("/mcp", "tools/call", &params));
    assert_ne!(status, 404, "{body}");
    let error = &document(&body)["error"];
    assert_eq!(error["code"], -32602, "{body}");
    assert_eq!(error["message"], "/arguments: expected an object, found \"x\"", "{body}");
}

#[test]
fn every_role_has_its_own_address() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    configure(&place, "[roles.lister]\ntools = ['files.glob']\n");
    let server = Server::new(&place, &[]);
    let names = |path: &str| -> Vec<String> {
        let (status, _, body) = server.ask(&list(path));
        assert_eq!(status, 200, "{body}");
        let tools = result(&body)["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    // The default role has each job once; an installed plugin's tools are there.
    let coder = names("/mcp");
    let has = |name: &str| coder.iter().any(|own| own == name);
    assert!(has("write_file") && has("test_simple_text"), "{coder:?}");
    for other in ["read", "read_code", "search_text", "edit_code", "create_bead", "bash"] {
        assert!(!has(other), "{other}: {coder:?}");
    }
    assert!(names("/mcp/main").contains(&"search_text".to_owned()));
    assert_eq!(names("/mcp/lister"), ["glob"]);
    let reader = names("/mcp/reader");
    assert!(reader.len() > 1 && !reader.iter().any(|name| name.contains("write")), "{reader:?}");
    assert_eq!(server.ask(&list("/mcp/nobody")).0, 404);
    // A tool that the role does not include is not found, under any of its names.
    for tool in ["read_file", "files__read_file", "files.read_file"] {
        let (_, _, body) = server.ask(&call("/mcp/lister", tool, &json!({"path": "a.txt"})));
        assert!(!body.contains("one\\n"), "{body}");
    }
}

#[test]
fn without_a_token_the_server_is_local_only() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ended = place.run(&["serve", "--http", address]);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("give a token that callers have to bring"), "{ended:?}");
    }
    let empty = place.home_file("empty.txt");
    std::fs::write(&empty, "\n").unwrap();
    let ended =
        place.run(&["serve", "--http", "0.0.0.0:0", "--token-file", empty.to_str().unwrap()]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("the file of the token is empty"), "{ended:?}");
}

#[test]
fn a_request_that_is_too_large_is_refused() {
    let place = Place::new();
    configure(&place, "[limits]\nenvelope-mb = 1\n");
    let server = Server::new(&place, &[]);
    let (status, _, body) =
        server.ask(&call("/mcp", "files__glob", &json!({"pattern": "x".repeat(2 << 20)})));
    assert_eq!(status, 413, "{body}");
    assert_eq!(server.ask(&list("/mcp")).0, 200);
}

/// Addresses of resources that do not exist.
#[test]
fn an_unknown_resource_is_refused() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    for uri in ["file:///%ff", "file:///etc/passwd", "file://elsewhere/a", "http://a", "a", ""] {
        let request = Request::post("/mcp", "resources/read", &json!({"uri": uri}));
        let (_, _, body) = server.ask(&request.with("Mcp-Name", uri));
        assert_eq!(document(&body)["error"]["data"]["uri"], uri, "{body}");
    }
}

/// Since revision 2026-07-28 this is a protocol error with a required HTTP status.
#[test]
fn a_client_that_can_not_ask_gets_the_missing_capability() {
    let place = Place::new();
    configure(&place, "ask = ['files.write_file']\n");
    let server = Server::new(&place, &[]);
    let write = call("/mcp", "files__write_file", &json!({"path": "a.txt", "content": "x"}));
    let (status, _, body) = server.ask(&write);
    assert_eq!(status, 400, "{body}");
    let error = &document(&body)["error"];
    assert_eq!(error["code"], -32021, "{body}");
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {}}), "{body}");
    assert!(!place.workspace().join("a.txt").exists());
}

/// A call that never ends does not keep a server from stopping.
#[test]
fn a_server_that_is_stopped_ends_its_calls() {
    let place = Place::new();
    configure(&place, "[limits]\ncall-ms = 600000\n");
    let server = Server::new(&place, &[]);
    let request = call("/mcp", "conformance__wait", &json!({"how": "compute"}));
    let mut stream = server.send(&request);
    wait_for_progress(&mut stream);
    assert!(server.stop().success());
    // The client gets an error.
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    let text = result(&rest)["content"][0]["text"].take();
    assert!(text.as_str().unwrap().starts_with("Cancelled"), "{rest}");
    wait_for_the_end(&place, "conformance.wait", "Cancelled", 1);
}

/// The end of standard input stops the server as well.
#[test]
fn the_end_of_standard_input_ends_calls_too() {
    let place = Place::new();
    configure(&place, "[limits]\ncall-ms = 600000\n");
    let mut command = place.command(&["serve"]);
    let mut child = command.args(plugin()).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let wait = json!({"name": "conformance__wait", "arguments": {"how": "sleep"}});
    writeln!(stdin, "{}", message("tools/call", wait)).unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    wait_for_progress(&mut answers);
    drop(stdin);
    let errors = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success(), "{errors}");
    wait_for_the_end(&place, "conformance.wait", "Cancelled", 1);
}

pub fn wait_for_progress(answers: &mut impl std::io::BufRead) {
    let mut lines = answers.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("notifications/progress")), "no progress");
}

/// The JSON-RPC message in an answer: the document, or the last event of a stream.
pub fn document(body: &str) -> Value {
    let line = body.lines().rfind(|line| line.contains("\"jsonrpc\""));
    let line = line.unwrap_or_else(|| panic!("{body}"));
    serde_json::from_str(line.strip_prefix("data:").unwrap_or(line)).unwrap()
}

pub fn result(body: &str) -> Value {
    document(body)["result"].take()
}
