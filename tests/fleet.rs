//! Hosts of a fleet in separate processes: what users see, and a campaign in which they are killed.

mod campaign;
mod history;
mod nats;
pub mod network;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use nats::Nats;
use network::Node;

use crate::mcp::server::{Request, Server};
use crate::support::{Ended, Place, wait_until};
use crate::trial::configure;

/// A host of a fleet, which can be killed and started again.
pub struct Host<'a> {
    command: Box<dyn Fn() -> Command + Sync + 'a>,
    server: Mutex<Server>,
}

impl<'a> Host<'a> {
    /// Starts a host on the place's store.
    fn start(place: &'a Place, number: usize, more: &[&str]) -> Self {
        let more: Vec<String> = more.iter().map(|&option| option.to_owned()).collect();
        let store = place.home_file("store");
        Self::of(move || {
            let mut command = place.command(&["serve", "--http", "127.0.0.1:0", "--role", "main"]);
            command.arg("--store").arg(&store).args(&more);
            command.arg("--copies").arg(copies(place, number));
            command
        })
    }

    /// Starts a host by a command.
    fn of(command: impl Fn() -> Command + Sync + 'a) -> Self {
        let server = Mutex::new(Server::started(&mut command()));
        Self { command: Box::new(command), server }
    }

    fn address(&self) -> SocketAddr {
        self.server.lock().unwrap().address
    }

    /// Kills the process, and starts another one.
    fn kill(&self) {
        let mut server = self.server.lock().unwrap();
        server.kill();
        *server = Server::started(&mut (self.command)());
    }

    /// Stops the process as a whole, or lets it go on.
    fn freeze(&self, is_frozen: bool) {
        self.server.lock().unwrap().freeze(is_frozen);
    }

    /// Stops the process, and waits for its end.
    fn stop(self) {
        assert!(self.server.into_inner().unwrap().stop().success());
    }

    fn put(&self, workspace: &str, key: &str, envelope: &Value) -> (u16, Value) {
        let path = format!("/workspaces/{workspace}/calls/{key}");
        let request = Request::put(&path, &envelope.to_string());
        let (status, _, body) = ask(&request, self.address()).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = ask(&Request::get(path), self.address()).unwrap();
        (status, body)
    }
}

/// Sends a request; returns the status, the head and the body, without the sizes of its chunks. `None` if
/// the connection is closed without a whole answer.
fn ask(request: &Request, address: SocketAddr) -> Option<(u16, String, String)> {
    let (status, head, body) = request.try_ask(address)?;
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return Some((status, head, body));
    }
    let (mut rest, mut whole) = (body.as_str(), String::new());
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        match usize::from_str_radix(size, 16).ok()? {
            0 => return Some((status, head, whole)),
            size => whole.push_str(after.get(..size)?),
        }
        rest = after[usize::from_str_radix(size, 16).ok()?..].strip_prefix("\r\n")?;
    }
}

/// Creates a directory with one file.
fn origin(place: &Place, name: &str) -> PathBuf {
    let directory = place.home_file(&format!("origin-{name}"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("a.txt"), "a\n").unwrap();
    directory
}

/// Writes a file with the tenant `web`, whose token is `secret`.
pub fn tenants(place: &Place, quota: &str) -> PathBuf {
    let file = place.home_file("tenants.toml");
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let text = format!(
        "[tenants.web]\ntoken-sha256 = \"{digest}\"\nworkspaces = [\"web-*\"]\nroles = [\"main\"]\n\
         {quota}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

/// Pushes a directory with one file as a workspace.
pub fn push(place: &Place, name: &str) {
    let store = place.home_file("store").join(name);
    let mut command = place.command(&["workspace", "push", store.to_str().unwrap()]);
    let ended = Ended::of(command.current_dir(origin(place, name)));
    assert_eq!(ended.status, 0, "{ended:?}");
}

/// The directory of a host's copies.
fn copies(place: &Place, host: usize) -> PathBuf {
    place.home_file(&format!("copies-{host}"))
}

fn copy(place: &Place, host: usize, file: &str) -> Option<Vec<u8>> {
    fs::read(copies(place, host).join(file)).ok()
}

fn write(path: &str, content: &str) -> Value {
    json!({"tool": "write_file", "path": path, "content": content})
}

#[test]
fn an_envelope_with_a_key_is_run_once_by_any_host() {
    let place = Place::new();
    push(&place, "shop");
    let (one, two) = (Host::start(&place, 1, &[]), Host::start(&place, 2, &[]));
    let (status, first) = one.put("shop", "k1", &write("a.txt", "by k1\n"));
    assert_eq!((status, &first["status"]), (200, &json!("success")), "{first}");
    // Another envelope under the same key is not run.
    let (status, again) = two.put("shop", "k1", &write("a.txt", "again\n"));
    assert_eq!((status, &again), (200, &first));
    let (status, read) = two.put("shop", "k2", &json!({"tool": "read_file", "path": "a.txt"}));
    assert_eq!((status, &read["result"]["content"]), (200, &json!("by k1\n")), "{read}");
    // A failure and a refusal are results as well.
    let (_, failed) = two.put("shop", "k3", &json!({"tool": "delete_path", "path": "none"}));
    assert_eq!(failed["error"]["code"], "FileNotFoundError");
    assert_eq!(one.put("shop", "k3", &write("none", "")).1, failed);
    let (_, refused) = one.put("shop", "k4", &json!({"tool": "no_such_tool"}));
    assert_eq!(refused["refused"]["problems"][0]["code"], "UnknownTool");
    assert_eq!(two.put("shop", "k4", &write("x", "")).1, refused);
    // Several calls are one transaction.
    let actions = json!({"actions": [
        {"type": "write_file", "path": "b.txt", "content": "b"},
        {"type": "delete_path", "path": "none"},
    ]});
    let (_, rolled_back) = one.put("shop", "k5", &actions);
    assert_eq!(rolled_back["results"][0]["metadata"]["code"], "RolledBack", "{rolled_back}");
    let (status, body) = two.get("/workspaces/shop/calls/k5");
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, rolled_back));
    assert_eq!(two.get("/workspaces/shop/calls/k6").0, 404);
    assert!(copy(&place, 1, "shop/b.txt").is_none());
    assert_eq!(copy(&place, 2, "shop/a.txt").unwrap(), b"by k1\n");
    one.stop();
    two.stop();
    // What was stopped is opened again.
    let one = Host::start(&place, 1, &[]);
    assert_eq!(one.put("shop", "k1", &write("a.txt", "again\n")).1, first);
}

#[test]
fn envelopes_are_submitted_to_a_host_or_to_the_queue() {
    let place = Place::new();
    push(&place, "shop");
    let nats = Nats::start(&place, &Node::local());
    let queue = nats.options();
    let queue = queue.each_ref().map(String::as_str);
    let (one, two) = (Host::start(&place, 1, &queue), Host::start(&place, 2, &queue));
    let envelope = place.home_file("envelope.json");
    let submit = |envelope_is: &Value, args: &[&str]| {
        fs::write(&envelope, envelope_is.to_string()).unwrap();
        place.run(&[&["submit", "shop", envelope.to_str().unwrap()], args].concat())
    };
    let by_queue = |key| [&queue[..], &["--key", key]].concat();
    let first = submit(&write("a.txt", "by the queue"), &by_queue("k1"));
    assert_eq!((first.status, &first.json()["status"]), (0, &json!("success")), "{first:?}");
    let url = format!("http://{}", one.address());
    let again = submit(&write("a.txt", "again"), &["--url", &url, "--key", "k1"]);
    assert_eq!((again.status, again.json()), (0, first.json()));
    assert_eq!(two.put("shop", "k1", &write("a.txt", "again")), (200, first.json()));
    // The exit status is that of the calls.
    let failed = submit(&json!({"tool": "delete_path", "path": "none"}), &["--url", &url]);
    assert_eq!((failed.status, &failed.json()["status"]), (1, &json!("error")), "{failed:?}");
    let refused = submit(&json!({"tool": "none"}), &by_queue("k2"));
    assert_eq!(refused.status, 2, "{refused:?}");
    let unknown = place.run(&["submit", "none", envelope.to_str().unwrap(), "--url", &url]);
    assert_eq!(unknown.status, 1, "{unknown:?}");
    assert!(unknown.stderr.contains("there is no workspace 'none'"), "{unknown:?}");
    let unknown =
        place.run(&[&["submit", "none", envelope.to_str().unwrap()], &queue[..]].concat());
    assert!(unknown.stdout.contains("there is no workspace 'none'"), "{unknown:?}");
    // A host adds what it is asked to.
    let path = "/workspaces/shop/calls/k3";
    let request = Request::put(path, &write("b.txt", "b").to_string());
    let (status, ..) = ask(&request.with("Prefer", "respond-async"), one.address()).unwrap();
    assert_eq!(status, 202);
    wait_until(|| two.get(path).0 == 200);
    // What was submitted while no host lived is made later.
    one.stop();
    two.stop();
    let waits = submit(&write("c.txt", "c"), &[&by_queue("k4")[..], &["--wait", "1"]].concat());
    assert_eq!(waits.status, 1, "{waits:?}");
    assert!(waits.stderr.contains("--key k4"), "{waits:?}");
    let one = Host::start(&place, 1, &queue);
    wait_until(|| one.get("/workspaces/shop/calls/k4").0 == 200);
    assert_eq!(copy(&place, 1, "shop/c.txt").unwrap(), b"c");
    assert_eq!(one.get("/ready"), (200, "ok\n".to_owned()));
    nats.stop();
    wait_until(|| one.get("/ready").0 == 503);
    // Without the queue, everything else works, also on a host that has never seen it.
    let two = Host::start(&place, 2, &queue);
    assert_eq!(one.put("shop", "k5", &write("a.txt", "x")).0, 200);
    assert_eq!(two.put("shop", "k5", &write("a.txt", "y")).0, 200);
    let request = Request::put("/workspaces/shop/calls/k6", &write("d.txt", "d").to_string());
    let request = request.with("Prefer", "respond-async");
    assert_eq!(ask(&request, two.address()).unwrap().0, 503);
    nats.restart(&Node::local());
    wait_until(|| two.get("/ready").0 == 200);
    assert_eq!(ask(&request, two.address()).unwrap().0, 202);
    wait_until(|| one.get("/workspaces/shop/calls/k6").0 == 200);
}

#[test]
fn a_queue_without_jetstream_is_waited_for() {
    let place = Place::new();
    push(&place, "shop");
    let nats = Nats::start(&place, &Node::local());
    let queue = nats.options();
    let queue = queue.each_ref().map(String::as_str);
    nats.restart_without_jetstream(&Node::local());
    let host = Host::start(&place, 1, &queue);
    // On a slow machine, the host's first attempt may end before the server responds.
    wait_until(|| {
        let (status, why) = host.get("/ready");
        assert_eq!(status, 503, "{why}");
        why.contains("no JetStream, or has not started it yet")
    });
    // Everything else works.
    assert_eq!(host.put("shop", "k1", &write("a.txt", "x")).0, 200);
    let request = Request::put("/workspaces/shop/calls/k2", &write("b.txt", "b").to_string());
    let request = request.with("Prefer", "respond-async");
    assert_eq!(ask(&request, host.address()).unwrap().0, 503);
    nats.restart(&Node::local());
    wait_until(|| host.get("/ready").0 == 200);
    assert_eq!(ask(&request, host.address()).unwrap().0, 202);
    wait_until(|| host.get("/workspaces/shop/calls/k2").0 == 200);
    host.stop();
}

#[test]
fn mcp_clients_work_on_any_workspace_of_the_store() {
    let place = Place::new();
    push(&place, "shop");
    push(&place, "docs");
    let (one, two) = (Host::start(&place, 1, &[]), Host::start(&place, 2, &[]));
    let call = |host: &Host<'_>, workspace: &str, tool: &str, arguments: Value| {
        let path = format!("/workspaces/{workspace}/mcp");
        let params = json!({"name": tool, "arguments": arguments});
        let (status, _, body) = Request::post(&path, "tools/call", &params).ask(host.address());
        assert_eq!(status, 200, "{body}");
        body
    };
    call(&one, "shop", "write_file", json!({"path": "new.txt", "content": "by one"}));
    call(&one, "docs", "write_file", json!({"path": "new.txt", "content": "other"}));
    // Each call is a session of its own, on any host.
    for host in [&one, &two] {
        let undone = call(host, "shop", "undo", json!({}));
        assert!(undone.contains("one call over HTTP since MCP 2026-07-28"), "{undone}");
    }
    let seen = call(&two, "shop", "read_file", json!({"path": "new.txt"}));
    assert!(seen.contains("by one"), "{seen}");
    let (status, body) = one.get("/workspaces/none/mcp");
    assert_eq!(status, 404);
    assert!(body.contains("there is no workspace 'none'"), "{body}");
    for name in ["..", "%2e%2e", "a%2fb", ".hidden", &"n".repeat(101)] {
        let (status, body) = one.get(&format!("/workspaces/{name}/mcp"));
        assert!(matches!(status, 400 | 404), "{name}: {status} {body}");
    }
    assert!(!place.home_file("copies-1").join("none").exists());
    assert_eq!(one.get("/mcp").0, 404);
}

#[test]
fn a_workspace_that_is_idle_is_closed_for_another_one() {
    let place = Place::new();
    ["one", "two", "three"].iter().for_each(|name| push(&place, name));
    let host = Host::start(&place, 1, &["--max-open", "2"]);
    let read = json!({"tool": "read_file", "path": "a.txt"});
    let put = |name: &str, key: &str, envelope: &Value| host.put(name, key, envelope).0;
    assert_eq!(put("one", "k1", &write("a.txt", "1")), 200);
    assert_eq!(put("two", "k1", &read), 200);
    // Both were in use a moment ago.
    let (status, body) = host.put("three", "k1", &read);
    assert_eq!(status, 503, "{body}");
    assert!(body.as_str().unwrap().contains("--max-open"), "{body}");
    // A session keeps a workspace open.
    let initialize = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}"#;
    let request = Request::post("/workspaces/two/mcp", "initialize", &json!({}));
    let request = request.without("MCP-Protocol-Version").with_body(initialize);
    let (status, head, _) = request.ask(host.address());
    assert!(status == 200 && head.contains("mcp-session-id"), "{head}");
    wait_until(|| put("three", "k1", &read) == 200);
    // So the first one was closed; it is opened again, with what it had.
    wait_until(|| put("one", "k2", &read) == 200);
    let (_, found) = host.put("one", "k3", &read);
    assert_eq!(found["result"]["content"], "1", "{found}");
    host.stop();
}

/// Names that the store does not have close no workspace, and are refused also by a host that can open no
/// more.
#[test]
fn names_that_do_not_exist_close_no_workspace() {
    let place = Place::new();
    ["one", "two"].iter().for_each(|name| push(&place, name));
    let host = Host::start(&place, 1, &["--max-open", "1"]);
    let read = json!({"tool": "read_file", "path": "a.txt"});
    assert_eq!(host.put("one", "k1", &read).0, 200);
    let state = copies(&place, 1).join("one/.cofferdam/store.state");
    let written = || fs::metadata(&state).unwrap().modified().unwrap();
    let opened = written();
    let ask_for_others = || {
        for number in 0..20 {
            let name = format!("none-{number}");
            let (status, body) = host.put(&name, "k1", &read);
            assert_eq!(status, 404, "{body}");
            assert_eq!(host.get(&format!("/workspaces/{name}/mcp")).0, 404);
            assert!(!copies(&place, 1).join(&name).exists());
        }
    };
    // In use a moment ago, and then idle for long enough to be closed.
    ask_for_others();
    thread::sleep(Duration::from_millis(1200));
    ask_for_others();
    // The state is written when a workspace is closed.
    assert_eq!(written(), opened);
    wait_until(|| host.put("two", "k1", &read).0 == 200);
    assert_ne!(written(), opened);
    host.stop();
}

#[test]
fn a_tenant_has_its_workspaces_and_its_quota() {
    let place = Place::new();
    push(&place, "web-shop");
    push(&place, "docs");
    let token = |of: &str| format!("Bearer {of}");
    let tenants = tenants(&place, "calls-per-minute = 2");
    let host = Host::start(&place, 1, &["--tenants", tenants.to_str().unwrap()]);
    let put = |workspace: &str, key: &str, bearer: Option<String>| {
        let path = format!("/workspaces/{workspace}/calls/{key}");
        let mut request = Request::put(&path, &write("x", key).to_string());
        if let Some(bearer) = bearer {
            request = request.with("Authorization", &bearer);
        }
        ask(&request, host.address()).unwrap()
    };
    assert_eq!(put("web-shop", "1", None).0, 401);
    assert_eq!(put("web-shop", "1", Some(token("Secret"))).0, 401);
    assert_eq!(put("web-shop", "1", Some(token("secret"))).0, 200);
    assert_eq!(put("docs", "1", Some(token("secret"))).0, 403);
    let (status, head, body) = put("web-shop", "2", Some(token("secret")));
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("calls in a minute") && head.to_lowercase().contains("retry-after"));
    assert!(copy(&place, 1, "docs/x").is_none());
}

/// How long it takes until calls that wait for a program have ended: two in each of 16 workspaces, which go
/// to the hosts in turns.
fn waiting_calls(hosts: &[Host<'_>], round: &str) -> Duration {
    let call = json!({"tool": "run_command", "command": "sleep 1"});
    let put = |workspace: usize, number: usize| {
        let key = format!("{round}-{number}");
        let host = &hosts[workspace % hosts.len()];
        let (status, result) = host.put(&format!("w{workspace}"), &key, &call);
        assert_eq!((status, &result["status"]), (200, &json!("success")), "{result}");
    };
    // Opening the workspaces is not measured.
    (0..16).for_each(|workspace| {
        let read = json!({"tool": "read_file", "path": "a.txt"});
        let host = &hosts[workspace % hosts.len()];
        assert_eq!(host.put(&format!("w{workspace}"), &format!("{round}-open"), &read).0, 200);
    });
    let begun = Instant::now();
    thread::scope(|scope| {
        for workspace in 0..16 {
            scope.spawn(move || (0..2).for_each(|number| put(workspace, number)));
        }
    });
    begun.elapsed()
}

#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "what was measured")]
fn four_hosts_end_waiting_calls_at_least_three_times_as_fast_as_one() {
    let place = Place::new();
    configure(&place, "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n");
    (0..16).for_each(|number| push(&place, &format!("w{number}")));
    let hosts = [0, 1, 2, 3].map(|number| Host::start(&place, number, &[]));
    for round in 0..3 {
        let one = waiting_calls(&hosts[..1], &format!("one-{round}"));
        let four = waiting_calls(&hosts, &format!("four-{round}"));
        let ratio = one.as_secs_f64() / four.as_secs_f64();
        eprintln!("one host: {one:?}, four: {four:?}, ratio {ratio:.2}");
        assert!(ratio >= 3.0);
    }
}

#[test]
fn a_store_that_is_unusable_is_named_and_nothing_is_changed() {
    let place = Place::new();
    push(&place, "shop");
    let host = Host::start(&place, 1, &[]);
    host.put("shop", "k1", &write("a.txt", "1"));
    let store = place.home_file("store/shop");
    let damaged = |file: &Path, content: &[u8]| {
        let before = fs::read(file).unwrap_or_default();
        fs::write(file, content).unwrap();
        let (status, body) = host.put("shop", "k2", &write("a.txt", "2"));
        assert_eq!(status, 503, "{body}");
        if before.is_empty() {
            fs::remove_file(file).unwrap();
        } else {
            fs::write(file, before).unwrap();
        }
        body.to_string()
    };
    let next = store.join(format!("commits/{:020}", 3));
    assert!(damaged(&next, b"{").contains("the commit 3 in the store is not valid"));
    let second = fs::read(store.join(format!("commits/{:020}", 2))).unwrap();
    assert!(damaged(&next, &second).contains("the commit 3"));
    assert_eq!(copy(&place, 1, "shop/a.txt").unwrap(), b"1");
    assert_eq!(host.put("shop", "k2", &write("a.txt", "2")).0, 200);
    assert_eq!(copy(&place, 1, "shop/a.txt").unwrap(), b"2");
}
