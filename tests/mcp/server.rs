//! A server over HTTP, in a separate process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, mpsc};

use rustix::net::{self, AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{TIMEOUT, plugin};
use crate::support::Place;

/// The arguments that start a server over HTTP.
pub const SERVE: &[&str] = &["serve", "--http", "127.0.0.1:0"];

pub struct Server {
    child: Child,
    said: Mutex<mpsc::Receiver<String>>,
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server with the guest, and waits until it listens.
    pub fn new(place: &Place, options: &[&str]) -> Self {
        Self::started(place.command(SERVE).args(plugin()).args(options))
    }

    /// Starts a server by a command that begins with [`SERVE`].
    pub fn started(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            // Reads to the end, since a full pipe would block the server.
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let said = Mutex::new(said);
        let mut server = Self { child, said, address: ([127, 0, 0, 1], 0).into() };
        let line = server.says("serving http://");
        let (_, address) = line.split_once("serving http://").unwrap();
        server.address = address.split('/').next().unwrap().parse().unwrap();
        server
    }

    /// Waits until the server prints a line with these words to standard error, and returns the
    /// line.
    pub fn says(&self, words: &str) -> String {
        let mut others = Vec::new();
        loop {
            let line = self.said.lock().unwrap().recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|why| {
                panic!("the server does not say {words:?} ({why}), but {others:?}")
            });
            if line.contains(words) {
                return line;
            }
            others.push(line);
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends SIGTERM, and waits until the server has exited.
    pub fn stop(self) -> ExitStatus {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::TERM).unwrap();
        self.ended()
    }

    /// Waits until the server has exited.
    pub fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Its peak memory, in MiB.
    pub fn peak_memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        crate::trial::peak_memory(status.as_ref()).unwrap()
    }

    /// Sends a request, and returns the stream of the answer.
    pub fn send(&self, request: &Request) -> BufReader<TcpStream> {
        self.try_send(request).unwrap()
    }

    /// Sends a request; returns `None` if the server has exited.
    pub fn try_send(&self, request: &Request) -> Option<BufReader<TcpStream>> {
        request.try_send(self.address)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, even if it is shared.
    pub fn kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
    }

    /// Stops the process as a whole, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends only the beginning of a request.
    pub fn says_half(&self, half: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(half.as_bytes()).unwrap();
        stream
    }

    /// Sends a request; returns the status, the head and the body.
    pub fn ask(&self, request: &Request) -> (u16, String, String) {
        request.ask(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request of revision 2026-07-28.
#[derive(Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// The loopback address that the client connects from.
    from: Ipv4Addr,
}

impl Request {
    pub fn get(path: &str) -> Self {
        let path = path.to_owned();
        let headers = vec![("Host".into(), "localhost".into())];
        Self { method: "GET", path, headers, body: None, from: Ipv4Addr::LOCALHOST }
    }

    pub fn post(path: &str, method: &str, params: &Value) -> Self {
        let body = message(method, params.clone()).to_string();
        let mut headers = vec![
            ("Host", "localhost"),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        if let Some(name) = params["name"].as_str() {
            headers.push(("Mcp-Name", name));
        }
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into()));
        let (path, headers) = (path.to_owned(), headers.collect());
        Self { method: "POST", path, headers, body: Some(body), from: Ipv4Addr::LOCALHOST }
    }

    pub fn put(path: &str, body: &str) -> Self {
        Self { method: "PUT", body: Some(body.to_owned()), ..Self::get(path) }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes one of the headers.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// Replaces the body.
    pub fn with_body(mut self, body: &str) -> Self {
        self.body = Some(body.to_owned());
        self
    }

    /// Removes the body and sets another method.
    pub fn by(mut self, method: &'static str) -> Self {
        self.body = None;
        self.method = method;
        self
    }

    /// Adds a field to the metadata in the body.
    pub fn with_meta(mut self, name: &str, value: &Value) -> Self {
        let body = self.body.as_mut().unwrap();
        let mut message: Value = serde_json::from_str(body).unwrap();
        message["params"]["_meta"][name] = value.clone();
        *body = message.to_string();
        self
    }

    /// Adds a header, even if the request has one of that name.
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Connects from another loopback address.
    pub fn from(mut self, address: Ipv4Addr) -> Self {
        self.from = address;
        self
    }

    /// Sets the request's target.
    pub fn to(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    fn try_send(&self, address: SocketAddr) -> Option<BufReader<TcpStream>> {
        let client = net::socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        net::bind(&client, &SocketAddr::from((self.from, 0))).ok()?;
        net::connect(&client, &address).ok()?;
        let mut stream = TcpStream::from(client);
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        // A server may close the connection before it has read everything.
        let _ = stream.write_all(self.text().as_bytes());
        Some(BufReader::new(stream))
    }

    /// Sends the request to an address, like [`Server::ask`].
    pub fn ask(&self, address: SocketAddr) -> (u16, String, String) {
        self.try_ask(address).unwrap_or_else(|| panic!("no answer to {}", self.path))
    }

    /// Like `ask`; returns `None` if the connection is closed without an answer.
    pub fn try_ask(&self, address: SocketAddr) -> Option<(u16, String, String)> {
        let mut stream = self.try_send(address)?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok())?;
        Some((status, head.to_ascii_lowercase(), body.to_owned()))
    }

    fn text(&self) -> String {
        let Self { method, path, headers, body, .. } = self;
        let body = body.as_deref().unwrap_or_default();
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
    }
}

/// The JSON-RPC request of revision 2026-07-28 with the id 1, from a client that can't ask the
/// user.
pub fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "progressToken": "token",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}
