//! The ports of programs that stay: what reaches them, and what does not.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use serde_json::json;

use super::{Client, Piped, Scene};

/// A port that nothing on this machine listens on.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A command that prints what a server answers.
fn get(host: &str, port: u16, path: &str) -> String {
    format!(
        "python3 -c \"import urllib.request as u; \
         print(u.urlopen('http://{host}:{port}/{path}', timeout=20).read().decode())\""
    )
}

fn assert_unreachable(client: &Client<'_>, port: u16) {
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let error = client.fails("bash", json!({"command": get(host, port, "")}));
        assert!(error.contains("refused") || error.contains("Cannot assign"), "{error}");
    }
}

/// Checks that a server is reached by the calls of its own session and by nothing else.
fn check(scene: &Scene) {
    scene.place.write("page.txt", "the page");
    let server = scene.serve();
    let (own, other) = (Client::new(&server), Client::new(&server));
    let port = free_port();
    let started = own.call(
        "start_process",
        json!({"command": format!("exec python3 -m http.server {port}"), "wait_ms": 30_000}),
    );
    assert_eq!(started["ports"], json!([port]), "{started}");
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        assert_eq!(own.bash(&get(host, port, "page.txt")), "the page\n");
    }
    // It sees what the session has changed meanwhile.
    own.call("write_file", json!({"path": "later.txt", "content": "later"}));
    assert_eq!(own.bash(&get("127.0.0.1", port, "later.txt")), "later\n");
    assert_unreachable(&other, port);
    let outside = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    assert!(outside.is_err(), "{outside:?}");
    let mut piped = Piped::new(scene);
    let command = format!("{} || echo refused", get("127.0.0.1", port, ""));
    assert_eq!(piped.call("bash", &json!({"command": command}))["stdout"], "refused\n");
    let id = started["process_id"].as_str().unwrap();
    for tool in ["read_output", "stop_process"] {
        let error = other.fails(tool, json!({"process_id": id}));
        assert!(error.starts_with("ProcessNotFoundError: "), "{error}");
    }
    assert_eq!(other.call("list_processes", json!({}))["processes"], json!([]));
    assert_eq!(own.call("stop_process", json!({"process_id": id}))["state"], "stopped");
    assert_unreachable(&own, port);
}

#[test]
fn a_server_is_reached_by_its_own_session_only() {
    check(&Scene::new("A", ""));
}

#[test]
fn a_server_is_reached_by_its_own_session_only_for_an_ordinary_user() {
    if rustix::process::geteuid().is_root() {
        check(&Scene::new("A", "").of_ordinary_user());
    }
}

#[test]
fn programs_of_a_session_reach_each_other() {
    let scene = Scene::new("A", "");
    scene.place.write("page.txt", "the page");
    let server = scene.serve();
    let client = Client::new(&server);
    let (front, back) = (free_port(), free_port());
    client.start(&format!("exec python3 -m http.server {back} --bind 127.0.0.1"));
    let poll = format!("until {} 2>/dev/null; do sleep 0.1; done", get("::1", back, "page.txt"));
    let poll = client.start(&poll.replace("::1", "localhost"));
    client.prints(&poll, "the page");
    // A program that listens by IPv6 only, and later than the command starts.
    let script = format!(
        "import http.server as h, socket, time\n\
         class S(h.ThreadingHTTPServer):\n    address_family = socket.AF_INET6\n\
         time.sleep(1)\n\
         S(('::1', {front}), h.SimpleHTTPRequestHandler).serve_forever()"
    );
    client.call("write_file", json!({"path": "serve.py", "content": script}));
    client.start("exec python3 serve.py");
    let waits =
        format!("until {} 2>/dev/null; do sleep 0.1; done", get("127.0.0.1", front, "page.txt"));
    assert_eq!(client.bash(&waits), "the page\n");
    // Many connections at a time, and much in each of them.
    client.call("write_file", json!({"path": "large.txt", "content": "x".repeat(3 << 20)}));
    let many = format!(
        "import concurrent.futures as c, urllib.request as u\n\
         get = lambda _: len(u.urlopen('http://127.0.0.1:{back}/large.txt', timeout=60).read())\n\
         print(sum(c.ThreadPoolExecutor(20).map(get, range(40))) // (3 << 20))"
    );
    client.call("write_file", json!({"path": "many.py", "content": many}));
    assert_eq!(client.bash("python3 many.py"), "40\n");
}

/// A command may listen on the ports of programs that have ended, and on all others.
#[test]
fn ports_are_free_after_a_program_has_ended() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let port = free_port();
    let listen =
        format!("python3 -c \"import socket as s; s.create_server(('127.0.0.1', {port}))\"");
    let serve = format!("exec python3 -m http.server {port}");
    let started = client.call("start_process", json!({"command": serve, "wait_ms": 30_000}));
    assert_eq!(started["ports"], json!([port]));
    let error = client.fails("bash", json!({"command": listen}));
    assert!(error.contains("already in use"), "{error}");
    client.call("stop_process", json!({"process_id": started["process_id"]}));
    client.bash(&listen);
    // A second one on the same port, which is the first one's own by now.
    let again = client.call("start_process", json!({"command": serve, "wait_ms": 30_000}));
    assert_eq!((&again["state"], &again["ports"]), (&json!("running"), &json!([port])), "{again}");
}

#[test]
fn programs_have_no_ports_in_tier_b() {
    let scene = Scene::new("B", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let started =
        client.call("start_process", json!({"command": "exec python3 -m http.server 8000"}));
    assert!(started["note"].as_str().unwrap().contains("no ports"), "{started}");
    let id = started["process_id"].as_str().unwrap().to_owned();
    let ended = client.ended(&id);
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(1)));
    let output = ended["output"].as_str().unwrap();
    assert!(output.contains("not permitted"), "{output}");
    assert!(output.contains("no network in tier B"), "{output}");
}
