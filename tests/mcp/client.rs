//! The official clients, each in a separate process that gets one line for each request.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use super::{TIMEOUT, installed, node, plugin, python, script};
use crate::support::{Place, built};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    Python,
    TypeScript,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Revisions with sessions, which start with `initialize`.
    Sessions,
    /// Revision 2026-07-28 and later.
    Stateless,
}

/// How a client connects.
pub struct Connection {
    pub sdk: Sdk,
    pub era: Era,
    /// Whether it can ask the user.
    pub elicitation: bool,
    /// Whether it subscribes to changes of the list of tools.
    pub listens: bool,
    /// Whether it knows tasks.
    pub tasks: bool,
    /// The options of the server that the client starts itself.
    pub options: &'static [&'static str],
    /// The server's address; `None` if the client starts a server itself.
    pub url: Option<String>,
    pub token: Option<String>,
}

/// A result of the client's SDK, or its error: `{code, message}`.
pub type Answer = Result<Value, Value>;

pub struct Client {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
}

impl Client {
    /// Connects; returns the negotiated revision and the server's info as well.
    #[expect(clippy::disallowed_methods, reason = "clients are not a part of the host")]
    pub fn connect(place: &Place, connection: &Connection) -> Result<(Self, Value), Value> {
        let Connection { sdk, era, elicitation, listens, tasks, options, url, token } = connection;
        let mut wanted = json!({
            "era": if *era == Era::Sessions { "legacy" } else { "modern" },
            "elicitation": elicitation,
            "listens": listens,
            "tasks": tasks,
            "token": token,
            "modules": installed("npm/package.json"),
        });
        match url {
            Some(url) => wanted["url"] = json!(url),
            None => {
                let mut command = vec![built().join("cofferdam").to_str().unwrap().to_owned()];
                command.extend(["serve".to_owned(), "--quiet".to_owned()]);
                command.extend(options.iter().map(|option| (*option).to_owned()));
                command.extend(plugin());
                wanted["command"] = json!(command);
                wanted["directory"] = json!(place.workspace());
                wanted["environment"] = json!({"HOME": place.home()});
            }
        }
        let (program, script) = match sdk {
            Sdk::Python => (python(), script("client.py")),
            Sdk::TypeScript => (node(), script("client.mjs")),
        };
        let mut command = Command::new(program);
        command.arg(script).arg(wanted.to_string()).current_dir(place.workspace()).env_clear();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        let client = Self { child, requests, answers };
        let connected = client.answer()?;
        Ok((client, connected))
    }

    /// Sends a request and returns its result.
    pub fn ask(&mut self, request: &Value) -> Answer {
        writeln!(self.requests, "{request}").unwrap();
        self.answer()
    }

    /// Sends a request that has to succeed.
    #[track_caller]
    pub fn get(&mut self, request: Value) -> Value {
        self.ask(&request).unwrap_or_else(|error| panic!("{request}: {error}"))
    }

    /// Calls a tool and returns its result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.get(json!({"do": "call", "tool": tool, "arguments": arguments}))["result"].take()
    }

    fn answer(&self) -> Answer {
        let mut answer = self.answers.recv_timeout(TIMEOUT).expect("the client says nothing");
        match answer.get_mut("ok").map(Value::take) {
            Some(value) => Ok(value),
            None => Err(answer["error"].take()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
