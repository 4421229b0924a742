//! The server on standard input and output, with clients that behave like no official one: they do
//! not read, send invalid messages, or leave questions unanswered.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::server::message;
use super::sessions::CANCELLED;
use super::{TIMEOUT, TWICE, ends, plugin, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

pub struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    /// The lines that it prints to standard error.
    warned: Receiver<String>,
}

impl Session {
    pub fn new(place: &Place) -> Self {
        let mut command = place.command(&["serve"]);
        let mut child = command.args(plugin()).stdin(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, warned) = channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let stdout = Some(BufReader::new(child.stdout.take().unwrap()));
        Self { stdin: child.stdin.take(), stdout, child, warned }
    }

    /// Starts a session as clients did before revision 2026-07-28, with these capabilities.
    pub fn begun(place: &Place, capabilities: &Value) -> Self {
        let mut session = Self::new(place);
        session.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "tests", "version": "0"},
        }}));
        assert_eq!(session.next_message()["id"], 0);
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn write(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.write(message.to_string().as_bytes());
    }

    pub fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// Waits for the next message.
    pub fn next_message(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Waits for the answer to a request, or the question that comes before it.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next_message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Closes its input, and waits until it has ended.
    pub fn close(&mut self) {
        self.stdin = None;
        assert!(self.wait().success());
    }

    fn signal(&self, signal: Signal) {
        // The process may have exited already.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(begin.elapsed() < TIMEOUT, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that has requested more than a pipe holds, and does not read.
fn client_that_does_not_read(place: &Place) -> Session {
    configure(place, "");
    place.write("large.txt", "0123456789abcde\n".repeat(8 << 10));
    let mut session = Session::begun(place, &json!({}));
    for id in 1..=20 {
        session.call(id, "files__read_file", &json!({"path": "large.txt", "limit": 100_000}));
    }
    let begin = Instant::now();
    while ends(&place.workspace()).len() < 20 {
        assert!(begin.elapsed() < TIMEOUT, "the calls do not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    session
}

#[test]
fn a_client_that_does_not_read_does_not_keep_a_server_from_ending() {
    for signal in [Some(Signal::TERM), Some(Signal::INT), None] {
        let place = Place::new();
        let mut session = client_that_does_not_read(&place);
        match signal {
            Some(signal) => session.signal(signal),
            None => session.stdin = None,
        }
        assert!(session.wait().success(), "{signal:?}");
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let place = Place::new();
    let mut session = client_that_does_not_read(&place);
    session.signal(Signal::TERM);
    while !session.warned.recv_timeout(TIMEOUT).unwrap().contains("stopping") {}
    while session.ended().is_none() {
        session.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(session.wait().code(), Some(1));
}

/// A client that closes its end of standard output makes the server exit.
#[test]
fn a_server_with_a_broken_pipe_exits() {
    let place = Place::new();
    let mut session = Session::begun(&place, &json!({}));
    session.stdout = None;
    session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert!(session.wait().success());
}

#[test]
fn an_invalid_line_is_answered_with_an_error() {
    let place = Place::new();
    configure(&place, "[limits]\nenvelope-mb = 1\n");
    let mut session = Session::begun(&place, &json!({}));
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{"a":{deep}}}}}"#);
    let long = format!(r#"{{"jsonrpc":"2.0","id":6,"method":"{}"}}"#, "x".repeat(2 << 20));
    let cases: &[(&[u8], i64, Value, &str)] = &[
        (br#"{"jsonrpc":"2.0","id":1,"met"#, -32700, Value::Null, "not JSON: EOF"),
        (br#"{"jsonrpc":"2.0","id":2,"method":"\ud800"}"#, -32700, json!(2), "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xff\"}", -32700, json!(3), "not JSON"),
        (deep.as_bytes(), -32700, json!(5), "recursion limit"),
        (long.as_bytes(), -32700, Value::Null, "longer than 1048576 bytes (`envelope-mb`"),
        (br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, json!(7), "/jsonrpc"),
        (br#"{"jsonrpc":"2.0","id":8,"method":"ping","params":[]}"#, -32600, json!(8), "/params"),
        (
            br#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":"x"}}"#,
            -32600,
            json!("a"),
            "/params/_meta",
        ),
        (b"[]", -32600, Value::Null, "an object"),
        (TWICE.as_bytes(), -32600, json!(9), "the key 'path' stands here twice at line 1 column"),
    ];
    for (line, code, id, text) in cases {
        session.write(line);
        let answer = session.next_message();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(text), "{answer}");
    }
    // The server still answers.
    session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(session.next_message()["id"], 9);
}

#[test]
fn invalid_params_are_refused_with_the_problem() {
    let place = Place::new();
    let mut session = Session::begun(&place, &json!({}));
    for (method, params, problem) in [
        (
            "tools/call",
            json!({"name": "files__glob", "arguments": "x"}),
            "/arguments: expected an object, found \"x\"",
        ),
        ("tools/call", json!({"arguments": {}}), "/name: expected a string, found nothing"),
        ("resources/read", json!({"uri": 5}), "/uri: expected a string, found 5"),
    ] {
        session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let answer = session.next_message();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert_eq!(answer["error"]["message"], problem, "{answer}");
    }
    session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/made-up"}));
    assert_eq!(session.next_message()["error"]["code"], -32601);
}

#[test]
fn messages_before_the_first_request_are_ignored() {
    let place = Place::new();
    let mut session = Session::new(&place);
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    session.send(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    session.send(&message("prompts/list", json!({})));
    assert!(session.next_message()["result"]["prompts"].is_array());
    session.stdin = None;
    assert!(session.wait().success());
}

/// A client that waits for its user can make other calls.
#[test]
fn open_questions_do_not_block_other_calls() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    configure(&place, "ask = ['files.write_file']\n");
    let mut session = Session::begun(&place, &json!({"elicitation": {}}));
    let write = |session: &mut Session, id: u64| {
        let arguments = json!({"path": "new.txt", "content": id.to_string()});
        session.call(id, "files__write_file", &arguments);
    };
    let mut question = Value::Null;
    for id in 1..=64 {
        write(&mut session, id);
        question = session.next_message();
        assert_eq!(question["method"], "elicitation/create", "{question}");
    }
    write(&mut session, 65);
    let refused = session.answer(65);
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("TooManyQuestions: 64 questions wait"), "{refused}");
    session.call(66, "files__read_file", &json!({"path": "a.txt"}));
    let read = session.answer(66);
    assert_eq!(read["result"]["structuredContent"]["content"], "one\n", "{read}");
    // An approval is processed, which frees a place for another question.
    let yes = json!({"action": "accept", "content": {}});
    session.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
    let written = session.answer(64);
    assert_eq!(written["result"]["structuredContent"]["bytes_written"], 2, "{written}");
    write(&mut session, 67);
    assert_eq!(session.next_message()["method"], "elicitation/create");
}

/// A cancelled call has either changed nothing, or is answered as executed.
#[test]
fn cancelled_calls_are_answered_if_they_are_committed() {
    let place = Place::new();
    let mut session = Session::begun(&place, &json!({}));
    let calls = 2 * CANCELLED as u64;
    for id in 1..=calls {
        let arguments = json!({"path": format!("{id}.txt"), "content": "x"});
        session.call(id, "files__write_file", &arguments);
        std::thread::sleep(Duration::from_micros((id * 7919) % 3000));
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        session.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
    session.stdin = None;
    let mut answered = BTreeSet::new();
    for line in session.stdout.take().unwrap().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let id = message["id"].as_u64().unwrap();
        assert!(message["result"]["structuredContent"]["bytes_written"] == 1, "{message}");
        assert!(answered.insert(id), "{message}");
    }
    assert!(session.wait().success());
    let is_written = |id: &u64| place.workspace().join(format!("{id}.txt")).exists();
    assert_eq!((1..=calls).filter(is_written).collect::<BTreeSet<_>>(), answered);
    let is_commit = |end: &&Value| end["tool"].is_string() && end["commit"].is_string();
    assert_eq!(ends(&place.workspace()).iter().filter(is_commit).count(), answered.len());
}

/// Open questions can't be answered any more.
#[test]
fn open_questions_end_with_the_input() {
    let place = Place::new();
    configure(&place, "ask = ['files.write_file']\n");
    let mut session = Session::begun(&place, &json!({"elicitation": {"form": {}}}));
    session.call(1, "files__write_file", &json!({"path": "new.txt", "content": "x"}));
    assert_eq!(session.next_message()["method"], "elicitation/create");
    session.stdin = None;
    let answer = session.answer(1);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the client has closed the connection"), "{answer}");
    assert!(session.wait().success());
    wait_for_the_end(&place, "files.write_file", "ApprovalNeeded", 1);
}

/// A client that can only open URLs can't show a form.
#[test]
fn a_client_without_forms_is_not_asked() {
    let place = Place::new();
    configure(&place, "ask = ['files.write_file']\n");
    let mut session = Session::begun(&place, &json!({"elicitation": {"url": {}}}));
    session.call(1, "files__write_file", &json!({"path": "new.txt", "content": "x"}));
    let answer = session.next_message();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("ApprovalNeeded"), "{answer}");
}
