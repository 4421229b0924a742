//! Sessions over HTTP, as clients have them that speak the revisions before 2026-07-28.

use std::time::Instant;

use serde_json::{Value, json};

use super::http::{document, wait_for_progress};
use super::server::{Request, Server};
use super::{PATIENCE, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

/// How many a server has at most.
const SESSIONS: usize = 1024;

fn post(body: &Value) -> Request {
    Request::post("/mcp", "", &json!({}))
        .without("Mcp-Method")
        .with("MCP-Protocol-Version", "2025-06-18")
        .with_body(&body.to_string())
}

fn begin(server: &Server) -> (u16, String, String) {
    let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "0"},
    }});
    server.ask(&post(&request))
}

/// A session: its name.
fn session(server: &Server) -> String {
    let (status, head, body) = begin(server);
    assert_eq!(status, 200, "{body}");
    let name = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    name.unwrap_or_else(|| panic!("{head}")).to_owned()
}

fn end(server: &Server, session: &str) {
    let end = post(&json!({})).with("Mcp-Session-Id", session).by("DELETE");
    let (status, _, body) = server.ask(&end);
    assert_eq!(status, 202, "{body}");
}

/// A call that would not end by itself ends with its session.
#[test]
fn the_end_of_a_session_ends_its_calls() {
    let place = Place::new();
    configure(&place, "[limits]\ncall-ms = 600000\n");
    let server = Server::new(&place, &[]);
    let name = session(&server);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "conformance__wait",
        "arguments": {"how": "sleep"},
        "_meta": {"progressToken": "token"},
    }});
    let mut answers = server.send(&post(&call).with("Mcp-Session-Id", &name));
    wait_for_progress(&mut answers);
    end(&server, &name);
    wait_for_the_end(&place, "conformance.wait", "Cancelled", 1);
}

#[test]
fn there_are_not_any_number_of_sessions() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let name = session(&server);
    for _ in 1..SESSIONS {
        session(&server);
    }
    let (status, head, body) = begin(&server);
    assert_eq!(status, 503, "{body}");
    assert!(head.contains("retry-after: ") && body.contains("1024 sessions"), "{head} {body}");
    // Those that there are go on, and what needs none.
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let (_, _, body) = server.ask(&post(&ping).with("Mcp-Session-Id", &name));
    assert_eq!(document(&body)["id"], 2, "{body}");
    assert_eq!(server.ask(&super::http::list("/mcp")).0, 200);
    end(&server, &name);
    let began = Instant::now();
    while begin(&server).0 != 200 {
        assert!(began.elapsed() < PATIENCE, "a session that has ended keeps its place");
    }
}
