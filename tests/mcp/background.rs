//! Programs that stay for a session (the plugin `processes`), through a server: what reaches their
//! ports, what they see and change, how they end, and their limits.

mod ends;
mod hostile;
mod limits;
mod output;
mod ports;
mod refusals;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::result;
use super::server::{SERVE, Server};
use super::sessions::{post, session};
use super::{TIMEOUT, ends as journal};
use crate::support::{ORDINARY_UID, Place};
use crate::trial::configure;

/// Grants programs that stay, and the shell whose commands use them.
const GRANTS: &str = "[grants.processes]\nfiles = 'read'\nprocess = ['bash']\nbackground = true\n\
                      [grants.shell]\nfiles = 'write'\nprocess = ['bash']\n";

/// The kinds of sandbox, as settings.
const TIERS: [&str; 2] = ["A", "B"];

/// A place whose programs run in one kind of sandbox, for one user.
struct Scene {
    place: Place,
    user: Option<u32>,
}

impl Scene {
    fn new(tier: &str, settings: &str) -> Self {
        let place = Place::new();
        configure(&place, &format!("{GRANTS}{settings}\n[programs]\ntier = '{tier}'\n"));
        Self { place, user: None }
    }

    /// A scene for each kind of sandbox and, if the tests run as root, also as an ordinary user.
    fn all() -> Vec<Self> {
        let mut all: Vec<Self> = TIERS.map(|tier| Self::new(tier, "")).into();
        if rustix::process::geteuid().is_root() {
            all.extend(TIERS.map(|tier| Self::new(tier, "").of_ordinary_user()));
        }
        all
    }

    fn of_ordinary_user(self) -> Self {
        let above = self.place.workspace().parent().unwrap().to_owned();
        fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
        Self { user: Some(ORDINARY_UID), ..self }
    }

    /// Gives all files to the user.
    fn change_owner(&self) {
        let Some(user) = self.user else { return };
        let mut waiting = vec![self.place.workspace(), self.place.home()];
        while let Some(path) = waiting.pop() {
            chown(&path, Some(user), Some(user)).unwrap();
            if path.is_dir() && !path.is_symlink() {
                waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// Starts a server over HTTP.
    fn serve(&self) -> Server {
        self.change_owner();
        let mut command = self.place.command(SERVE);
        command.args(["--role", "main"]).env("STAY_TOKEN", "a-value-of-some");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        Server::started(&mut command)
    }

    /// The events of a kind in the journal.
    fn events(&self, kind: &str) -> Vec<Value> {
        let all = journal(&self.place.workspace());
        all.into_iter().filter(|event| event["event"] == kind).collect()
    }
}

/// A session over HTTP.
struct Client<'a> {
    server: &'a Server,
    id: String,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, id: session(server) }
    }

    /// Makes a call; returns its whole result.
    fn ask(&self, tool: &str, arguments: &Value) -> Value {
        let (status, _, body) =
            self.server.ask(&post(&call(1, tool, arguments)).with("Mcp-Session-Id", &self.id));
        assert_eq!(status, 200, "{body}");
        result(&body)
    }

    /// Makes a call that has to succeed.
    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> Value {
        answer(&self.ask(tool, &arguments))
    }

    /// Makes a call that has to fail; returns the message.
    #[track_caller]
    fn fails(&self, tool: &str, arguments: Value) -> String {
        let result = self.ask(tool, &arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Starts a program; returns its id.
    #[track_caller]
    fn start(&self, command: &str) -> String {
        let started = self.call("start_process", json!({"command": command, "wait_ms": 0}));
        started["process_id"].as_str().unwrap().to_owned()
    }

    /// Runs a command of the shell; returns its standard output.
    #[track_caller]
    fn bash(&self, command: &str) -> String {
        self.call("bash", json!({"command": command}))["stdout"].as_str().unwrap().to_owned()
    }

    /// Waits until the output of a program, from its beginning on, contains a text; returns the output.
    #[track_caller]
    fn prints(&self, process: &str, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let read = self.call("read_output", json!({"process_id": process, "offset": 0}));
            let output = read["output"].as_str().unwrap();
            if output.contains(text) {
                return output.to_owned();
            }
            assert!(begin.elapsed() < TIMEOUT, "{text:?}: {read}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a program has ended; returns its state.
    #[track_caller]
    fn ended(&self, process: &str) -> Value {
        let begin = Instant::now();
        loop {
            let wait = json!({"process_id": process, "wait_ms": 0});
            let read = self.call("read_output", wait);
            if read["state"] != "running" {
                return read;
            }
            assert!(begin.elapsed() < TIMEOUT, "{read}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the session.
    fn end(self) {
        let end = post(&json!({})).with("Mcp-Session-Id", &self.id).by("DELETE");
        assert_eq!(self.server.ask(&end).0, 204);
    }
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// The answer in the result of a call that has succeeded.
#[track_caller]
fn answer(result: &Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    match &result["structuredContent"] {
        Value::Null => {
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
        }
        answer => answer.clone(),
    }
}

/// A server on standard input and output, with its only client.
struct Piped {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Piped {
    fn new(scene: &Scene) -> Self {
        scene.change_owner();
        let mut command = scene.place.command(&["serve", "--role", "main", "--quiet"]);
        if let Some(user) = scene.user {
            command.uid(user).gid(user);
        }
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut piped = Self { stdin: child.stdin.take(), stdout, child };
        piped.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "0"},
        }}));
        piped
    }

    /// Sends a request with the id 1; returns its result.
    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            let mut message: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            if message["id"] == 1 && message.get("result").is_some() {
                return message["result"].take();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        answer(&self.ask(&call(1, tool, arguments)))
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
