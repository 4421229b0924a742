//! Sessions over HTTP, for clients of the revisions before 2026-07-28.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::wait_for_progress;
use super::server::{Request, Server};
use super::{TIMEOUT, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

/// The maximum number of sessions of a server.
const SESSIONS: usize = 1024;

/// How many calls are cancelled at different moments.
pub const CANCELLED: usize = 200;

pub fn post(body: &Value) -> Request {
    Request::post("/mcp", "", &json!({}))
        .without("Mcp-Method")
        .with("MCP-Protocol-Version", "2025-06-18")
        .with_body(&body.to_string())
}

/// The request that starts a session.
pub fn beginning() -> Request {
    let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "0"},
    }});
    post(&request)
}

/// Starts a session and returns its id.
pub fn session(server: &Server) -> String {
    session_from(server, Ipv4Addr::LOCALHOST)
}

/// Starts a session from a loopback address and returns its id.
pub fn session_from(server: &Server, address: Ipv4Addr) -> String {
    let (status, head, body) = server.ask(&beginning().from(address));
    assert_eq!(status, 200, "{body}");
    let name = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    name.unwrap_or_else(|| panic!("{head}")).to_owned()
}

fn end(server: &Server, session: &str) {
    let end = post(&json!({})).with("Mcp-Session-Id", session).by("DELETE");
    let (status, _, body) = server.ask(&end);
    // The Python client reports anything but 200 and 204.
    assert_eq!((status, body.as_str()), (204, ""));
}

/// A call that would not end by itself ends with its session.
#[test]
fn closing_a_session_ends_its_calls() {
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

/// Sends a request in a session; returns the status, the head and the body.
fn ask(server: &Server, session: &str, message: &Value) -> (u16, String, String) {
    server.ask(&post(message).with("Mcp-Session-Id", session))
}

/// The number of sessions is bounded, but one client can't take all of them: idle sessions are
/// closed first, starting with those that never had a request.
#[test]
fn idle_sessions_make_room_for_others() {
    let place = Place::new();
    configure(&place, "[limits]\ncall-ms = 600000\n");
    let server = Server::new(&place, &[]);
    let used = session(&server);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(ask(&server, &used, &ping).0, 200);
    let busy = session(&server);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "conformance__wait",
        "arguments": {"how": "sleep"},
        "_meta": {"progressToken": "token"},
    }});
    let mut answers = server.send(&post(&call).with("Mcp-Session-Id", &busy));
    wait_for_progress(&mut answers);
    let unused = session(&server);
    let began = Instant::now();
    for _ in 0..SESSIONS + 100 {
        session(&server);
        assert!(began.elapsed() < TIMEOUT);
    }
    for (session, status) in [(&used, 200), (&busy, 200), (&unused, 404)] {
        let (found, _, body) = ask(&server, session, &ping);
        assert_eq!(found, status, "{body}");
    }
    end(&server, &busy);
    wait_for_the_end(&place, "conformance.wait", "Cancelled", 1);
}

/// A cancelled call has either changed nothing, or is answered as executed.
#[test]
fn cancelled_calls_are_answered_if_they_are_committed() {
    let place = Place::new();
    let server = Arc::new(Server::new(&place, &[]));
    let name = session(&server);
    let begin = |id: usize| {
        let (server, name) = (Arc::clone(&server), name.clone());
        std::thread::spawn(move || {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "files__write_file",
                "arguments": {"path": format!("{id}.txt"), "content": "x"},
            }});
            // The request ends in any case.
            ask(&server, &name, &call).2
        })
    };
    for id in 0..CANCELLED {
        let call = begin(id);
        std::thread::sleep(Duration::from_micros((id as u64 * 7919) % 3000));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
            "requestId": id,
        }});
        assert_eq!(ask(&server, &name, &cancel).0, 202);
        let body = call.join().unwrap();
        let is_answered = body.contains("bytes_written");
        assert_eq!(place.workspace().join(format!("{id}.txt")).exists(), is_answered, "{body}");
    }
}
