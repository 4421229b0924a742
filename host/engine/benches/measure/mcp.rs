//! The MCP server against an echo tool on the official Python SDK, over the same kind of pipe.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::{Setup, Table, alternate, show};

/// The number of calls per measurement.
const CALLS_PER_SAMPLE: usize = 500;

/// The peer: the smallest server in the documentation of the Python SDK.
const ECHO_SERVER: &str = "\
from mcp.server import MCPServer

server = MCPServer('echo')


@server.tool()
def echo(path: str) -> str:
    return path


server.run()
";

/// The other peer: ten calls of a function in a fresh session of a pool of interpreters. Prints the
/// median in seconds.
const POOL: &str = "\
import statistics, time, pydantic_monty
code = 'n = 0\\nfor _ in range(10):\\n    n += f(path=\"small\")\\nn'
with pydantic_monty.Monty() as pool:
    def run():
        begin = time.perf_counter()
        with pool.checkout() as session:
            session.feed_run(code, external_lookup={'f': lambda path: 6})
        return time.perf_counter() - begin
    run()
    print(statistics.median(run() for _ in range(500)))
";

/// A running server on standard input and output.
pub struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    tool: &'static str,
    id: u64,
}

impl Server {
    pub fn start(mut command: Command, tool: &'static str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, stdin, stdout, tool, id: 0 };
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "measure", "version": "1"},
        });
        server.ask("initialize", &params);
        writeln!(server.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)
            .unwrap();
        server
    }

    /// Sends a request. Returns the response and its latency, without the client's own JSON
    /// handling.
    fn ask(&mut self, method: &str, params: &Value) -> (Value, Duration) {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        let request = format!("{request}\n");
        let mut line = String::new();
        let started = Instant::now();
        self.stdin.write_all(request.as_bytes()).unwrap();
        self.stdout.read_line(&mut line).unwrap();
        let took = started.elapsed();
        (serde_json::from_str(&line).unwrap(), took)
    }

    pub fn call(&mut self) -> Duration {
        self.call_with(&json!({"path": "small"}))
    }

    fn call_with(&mut self, arguments: &Value) -> Duration {
        let params = json!({"name": self.tool, "arguments": arguments});
        let (answer, took) = self.ask("tools/call", &params);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        took
    }

    /// The median of many calls.
    fn median(&mut self, arguments: &Value) -> Duration {
        let mut times: Vec<Duration> =
            (0..CALLS_PER_SAMPLE).map(|_| self.call_with(arguments)).collect();
        times.sort_unstable();
        times[CALLS_PER_SAMPLE / 2]
    }

    /// Resident memory in KiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command `cofferdam serve` on a workspace with one small file.
fn serve(setup: &Setup, options: &[&str]) -> Command {
    let workspace = setup.scratch.join("mcp");
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("small"), "small\n").unwrap();
    let mut command = Command::new(setup.built.join("cofferdam"));
    command.arg("serve").args(options).current_dir(workspace);
    command
}

/// Measures calls over a pipe, each in a fresh instance, and the memory of the server after many
/// calls.
pub fn pipe(setup: &Setup, table: &mut Table) {
    let mut ours = Server::start(serve(setup, &[]), "files__read_file");
    let python = setup.built.parent().unwrap().join("clients/python/bin/python");
    if python.exists() {
        let script = setup.scratch.join("echo.py");
        fs::write(&script, ECHO_SERVER).unwrap();
        let mut command = Command::new(python);
        command.arg(script);
        let mut peer = Server::start(command, "echo");
        let small = json!({"path": "small"});
        let (own, other) = medians(20, || ours.median(&small), || peer.median(&small));
        let what = format!(
            "MCP call of `read_file` over a pipe, p50 of {}, against echo on the Python SDK",
            20 * CALLS_PER_SAMPLE
        );
        table.row(&what, (own, other), "<= 120 us, <= 0.125");
    } else {
        println!("the Python SDK is not installed; run `cargo xtask test` once");
    }
    for _ in 0..1000 {
        ours.call();
    }
    let before = ours.memory();
    for _ in 0..100_000 {
        ours.call();
    }
    let after = ours.memory();
    let what = "resident memory of a server after 1,000 calls, and after 100,000 more";
    table.alone(what, &format!("{before} KiB, {after} KiB"), "flat");
}

/// The medians of two measurements that are made alternately.
fn medians(
    count: usize,
    mut ours: impl FnMut() -> Duration,
    mut peer: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    alternate(count, || times.0.push(ours()), || times.1.push(peer()));
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    (median(times.0), median(times.1))
}

/// Measures the pool, if it is installed.
fn pool(setup: &Setup) -> Option<Duration> {
    let python = setup.built.parent()?.join("clients/python/bin/python");
    let output = Command::new(python).args(["-c", POOL]).output().ok()?;
    let seconds = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs_f64(seconds))
}

/// Measures scripts over a pipe, against calls of a tool and against each other.
pub fn scripts(setup: &Setup, table: &mut Table) {
    let script = |code: &str, check: &str| json!({"code": code, "check": check});
    let start = |tool| Server::start(serve(setup, &["--role", "main"]), tool);
    let (mut python, mut files) = (start("python__run_python"), start("files__read_file"));
    let (least, small) = (script("1+1", "before"), json!({"path": "small"}));
    let times = medians(10, || python.median(&least), || files.median(&small));
    table.row("script `1+1` over a pipe, p50, against a call of `read_file`", times, "<= 1.5");
    let one = "len(files.read_file(path='small')['content'])";
    let (checked, plain) = (script(one, "before"), script(one, "no"));
    let mut other = start("python__run_python");
    let (with, without) = medians(5, || python.call_with(&checked), || other.call_with(&plain));
    table.row("script with one call, its types checked, against unchecked", (with, without), "");
    let check = show(with.saturating_sub(without));
    table.alone("the check of its types alone", &check, "<= 30 ms");
    let ten =
        "n = 0\nfor _ in range(10):\n    n += len(files.read_file(path='small')['content'])\nn";
    let ten = script(ten, "no");
    match pool(setup) {
        Some(peer) => {
            let what = "script with ten calls over a pipe, against the pool of pydantic-monty";
            table.row(what, (python.median(&ten), peer), "<= 0.5");
        }
        None => println!("pydantic-monty is not installed in target/clients/python"),
    }
    let many =
        "n = 0\nfor _ in range(1000):\n    n += len(files.read_file(path='small')['content'])\nn";
    let many = script(many, "no");
    let (many, none) = medians(10, || python.call_with(&many), || other.call_with(&least));
    let nested = many.saturating_sub(none);
    let each = format!("{}, {}", show(nested), show(nested / 1000));
    table.alone("1,000 calls of `read_file` in a script, and each", &each, "<= 60 ms, <= 40 us");
}

/// Measures concurrent clients over HTTP, for a minute.
pub fn http(setup: &Setup, table: &mut Table) {
    const CLIENTS: usize = 64;
    const RUN_TIME: Duration = Duration::from_secs(60);
    let address = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let mut command = serve(setup, &["--http", &address.to_string()]);
    let mut server = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let calls = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = Instant::now();
    let mut times = runtime.block_on(async {
        let client = |_| {
            let calls = Arc::clone(&calls);
            async move {
                let stream = tokio::net::TcpStream::connect(address).await.unwrap();
                let stream = hyper_util::rt::TokioIo::new(stream);
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                let mut times = Vec::new();
                while started.elapsed() < RUN_TIME {
                    let begun = Instant::now();
                    let id = calls.fetch_add(1, Ordering::Relaxed);
                    let answer = sender.send_request(request(address, id)).await.unwrap();
                    assert_eq!(answer.status(), 200);
                    let body = answer.into_body().collect().await.unwrap().to_bytes();
                    let text = String::from_utf8_lossy(&body);
                    assert!(text.contains(r#""isError":false"#), "{text}");
                    times.push(begun.elapsed());
                }
                times
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number))).collect();
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await.unwrap());
        }
        times
    });
    let _ = server.kill();
    let _ = server.wait();
    times.sort_unstable();
    let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let rate = times.len() as f64 / RUN_TIME.as_secs_f64();
    let what = format!("{CLIENTS} clients over HTTP for a minute: calls per second, p50, p99");
    table.alone(&what, &format!("{rate:.0}, {}, {}", show(median), show(slow)), "no call fails");
}

/// A `tools/call` request of protocol revision 2026-07-28, which needs no session.
fn request(address: std::net::SocketAddr, id: u64) -> Request<Full<Bytes>> {
    let version = "2026-07-28";
    let body = json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {
            "name": "files__read_file",
            "arguments": {"path": "small"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "measure", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    Request::post("/mcp")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "files__read_file")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap()
}
