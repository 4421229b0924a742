//! Tools that misbehave while an MCP server runs them: the server still answers, and exits when it
//! is told to.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::component::{Component, Packed};
use super::engine::ANSWER;
use super::files::without_journal;
use crate::support::Place;
use crate::trial::{ALL, configure};
use crate::typed::bare;

/// A deadline longer than every test: a call that ends earlier did not end by its deadline.
const LIMITS: &str = "[limits]\ncall-ms = 300000\n";

/// How long something immediate may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server on standard input and output, and everything that it printed.
struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Value>,
    /// Answers that no caller has taken yet, by request id.
    waiting: HashMap<u64, Value>,
    next: u64,
}

impl Session {
    fn start(place: &Place, plugins: &[&Packed]) -> Self {
        let mut args = vec!["serve"];
        for plugin in plugins {
            args.extend(["--plugin", plugin.path.to_str().unwrap()]);
        }
        let mut child = place.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = say.send(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, said, waiting: HashMap::new(), next: 0 }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request of revision 2026-07-28, which has no sessions.
    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.send(&request);
        self.next
    }

    fn call(&mut self, tool: &str, args: Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": args}))
    }

    fn cancel(&mut self, request: u64) {
        let params = json!({"requestId": request});
        let method = "notifications/cancelled";
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits for the answer to a request.
    fn answer(&mut self, request: u64) -> Value {
        let started = Instant::now();
        loop {
            if let Some(answer) = self.waiting.remove(&request) {
                return answer;
            }
            let left = TIMEOUT.saturating_sub(started.elapsed());
            let message = self.said.recv_timeout(left).expect("no answer");
            if let Some(id) = message["id"].as_u64() {
                self.waiting.insert(id, message);
            }
        }
    }

    /// Whether the answer has arrived.
    fn has_answered(&mut self, request: u64) -> bool {
        while let Ok(message) = self.said.try_recv() {
            if let Some(id) = message["id"].as_u64() {
                self.waiting.insert(id, message);
            }
        }
        self.waiting.contains_key(&request)
    }

    /// The names of all tools.
    fn tools(&mut self) -> Vec<String> {
        let request = self.request("tools/list", json!({}));
        let answer = self.answer(request);
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < TIMEOUT, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server has exited, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first text of a result.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// A plugin that never answers if its arguments are empty, and a place with a role for it.
fn endless() -> (Place, Packed) {
    let place = Place::new();
    configure(&place, LIMITS);
    let call = format!(
        "(if (i32.eq (local.get $args_len) (i32.const 2)) (then (loop $for_ever (br $for_ever)))) \
         {ANSWER}"
    );
    (place, Component::new(&call).pack())
}

fn workers() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn endless_calls_on_every_worker_do_not_block_others_and_can_be_cancelled() {
    let (place, packed) = endless();
    place.write("file", "x");
    let mut session = Session::start(&place, &[&packed]);
    let listed = session.tools();
    let calls: Vec<u64> = (0..workers()).map(|_| session.call("attack__go", json!({}))).collect();
    for _ in 0..3 {
        assert_eq!(session.tools(), listed);
    }
    let read = session.request("prompts/list", json!({}));
    assert!(session.answer(read)["result"]["prompts"].is_array());
    let unknown = session.call("nobody__knows", json!({}));
    assert_eq!(session.answer(unknown)["error"]["code"], -32602);
    for call in &calls {
        assert!(!session.has_answered(*call));
        session.cancel(*call);
    }
    // A worker is free again.
    let honest = session.call("grep__grep", json!({"pattern": "x"}));
    assert_eq!(session.answer(honest)["result"]["isError"], false);
    // The protocol requires that a cancelled request is not answered.
    assert!(calls.iter().all(|call| !session.has_answered(*call)));
    session.stdin = None;
    assert!(session.wait().success());
}

/// They would wait for five minutes.
#[test]
fn asynchronous_functions_that_wait_can_be_cancelled() {
    let place = Place::new();
    configure(&place, LIMITS);
    let packed = Packed::from_bytes(&bare("concurrent"));
    let mut session = Session::start(&place, &[&packed]);
    let calls: Vec<u64> = ["wait", "spin", "yield"]
        .map(|how| session.call("attack__attack", json!({"how": how, "path": ""})))
        .into();
    let waits = session.call("attack__side-by-side", json!({"waits": 1, "ms": 1}));
    for call in &calls {
        assert!(!session.has_answered(*call));
        session.cancel(*call);
    }
    assert_eq!(session.answer(waits)["result"]["isError"], false);
    assert!(calls.iter().all(|call| !session.has_answered(*call)));
    session.stdin = None;
    assert!(session.wait().success());
}

#[test]
fn calls_beyond_the_queue_get_the_error_busy() {
    let (place, packed) = endless();
    let mut session = Session::start(&place, &[&packed]);
    let calls: Vec<u64> =
        (0..workers() + 65).map(|_| session.call("attack__go", json!({}))).collect();
    // The server may read requests that arrive at the same time in any order.
    let answer = session.said.recv_timeout(TIMEOUT).unwrap();
    assert!(text(&answer).starts_with("Busy: "), "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    // Most of these are only queued, and leave the queue at once.
    for call in &calls[workers() + 1..] {
        session.cancel(*call);
    }
    let started = Instant::now();
    loop {
        let request = session.call("nobody__knows", json!({}));
        let answer = session.answer(request);
        if answer["error"]["code"] == -32602 {
            break;
        }
        assert!(started.elapsed() < TIMEOUT, "{answer}");
    }
    session.terminate();
    assert!(session.wait().success());
}

#[test]
fn calls_that_are_cancelled_in_the_queue_use_no_thread() {
    let (place, packed) = endless();
    configure(&place, "[limits]\ncall-ms = 500\n");
    let mut session = Session::start(&place, &[&packed]);
    let threads = |session: &Session| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", session.child.id())).unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks
            .filter_map(|task| name(task.unwrap()).ok())
            .filter(|name| name == "cofferdam-call\n")
            .count()
    };
    let calls: Vec<u64> =
        (0..workers() + 30).map(|_| session.call("attack__go", json!({}))).collect();
    for call in calls {
        let answer = session.answer(call);
        assert!(text(&answer).starts_with("WallClockLimit: "), "{answer}");
    }
    assert_eq!(threads(&session), workers());
}

#[test]
fn a_gigabyte_is_refused_and_the_next_call_works() {
    let place = Place::new();
    place.write("file", "x");
    let grow = format!(
        "(if (i32.eq (memory.grow (i32.const 16384)) (i32.const -1)) (then unreachable)) {ANSWER}"
    );
    let greedy = Component::new(&grow).pack();
    let mut session = Session::start(&place, &[&greedy]);
    for _ in 0..3 {
        let call = session.call("attack__go", json!({}));
        let answer = session.answer(call);
        assert!(text(&answer).starts_with("MemoryLimit: "), "{answer}");
        let honest = session.call("grep__grep", json!({"pattern": "x"}));
        assert_eq!(session.answer(honest)["result"]["isError"], false);
    }
}

#[test]
fn every_fresh_start_lists_all_tools_in_the_first_answer() {
    let place = Place::new();
    let mut session = Session::start(&place, &[]);
    let all = session.tools();
    assert!(all.len() > 12, "{all:?}");
    for _ in 0..50 {
        assert_eq!(Session::start(&place, &[]).tools(), all);
    }
}

#[test]
fn a_server_that_exits_leaves_no_partial_edit() {
    let packed = Packed::guest("hostile");
    for how in ["standard input closes", "SIGTERM"] {
        let place = Place::new();
        configure(&place, &format!("{ALL}{LIMITS}"));
        place.write("a", "before");
        let before = without_journal(&place.workspace());
        let mut session = Session::start(&place, &[&packed]);
        let call = session.call("hostile__spoil", json!({"paths": ["a", "b"], "then": "loop"}));
        // What it writes is staged before it is committed.
        let stage = place.workspace().join(".cofferdam/staging");
        let started = Instant::now();
        while std::fs::read_dir(&stage).map_or(0, Iterator::count) == 0 {
            assert!(started.elapsed() < TIMEOUT, "{how}: nothing is staged");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!session.has_answered(call));
        if how == "SIGTERM" {
            session.terminate();
        } else {
            session.stdin = None;
        }
        assert!(session.wait().success(), "{how}");
        assert_eq!(without_journal(&place.workspace()), before, "{how}");
        assert_eq!(std::fs::read_dir(&stage).map_or(0, Iterator::count), 0, "{how}");
    }
}

/// Another process changes the file while the user looks at the proposed change.
#[test]
fn a_file_that_changed_during_the_question_is_not_overwritten() {
    let place = Place::new();
    configure(&place, "ask = ['files.write_file']\n");
    for (meanwhile, done) in [("before\n", true), ("something else\n", false)] {
        place.write("a", "before\n");
        let mut session = Session::start(&place, &[]);
        let begin = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}));
        session.answer(1);
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let params =
            json!({"name": "files__write_file", "arguments": {"path": "a", "content": "after\n"}});
        session.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
        let asked = session.said.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let question = asked["params"]["message"].as_str().unwrap();
        assert!(question.contains("-before\n+after\n"), "{question}");
        assert_eq!(place.read("a"), "before\n");
        place.write("a", meanwhile);
        let yes = json!({"action": "accept", "content": {}});
        session.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}));
        let answer = session.answer(2);
        if done {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            assert_eq!(place.read("a"), "after\n");
        } else {
            assert!(text(&answer).starts_with("ApprovalOutdated: "), "{answer}");
            assert_eq!(place.read("a"), meanwhile);
        }
    }
}
