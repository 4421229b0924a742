//! The console beside servers: whether calls are slower with it, and what it costs while many sessions work. A
//! browser is played by a stream of events and, as its script does, by reloading the journal after them. How
//! fast a large proposal is drawn is measured in Chromium.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mcp::Server;
use super::programs::installed;
use super::{Setup, Table, alternate};

/// The time between two calls: 20 a second.
const PACE: Duration = Duration::from_millis(50);

/// The number of pairs of measurements, and of calls in each of the two.
const PAIRS: usize = 6;
const CALLS: usize = 100;

const SESSIONS: usize = 100;

/// How long many sessions work.
const RUN_TIME: Duration = Duration::from_secs(60);

/// The least time between two reloads, as in `console.js`.
const REST: Duration = Duration::from_secs(2);

/// The number of hunks of a large proposal, and how many lines are between two of them.
const HUNKS: usize = 1_000;
const LINES: usize = 8;

/// The unit of times in `/proc` (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// A console, and a browser that has its journal open.
struct Console {
    child: Child,
    browser: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

impl Console {
    fn open(setup: &Setup, workspace: &Path) -> Self {
        let (child, url) = start(setup, workspace);
        let url = url.trim_end().strip_prefix("http://").unwrap().to_owned();
        let (host, path) = url.split_once('/').unwrap();
        let (base, _) = path.split_once('?').unwrap();
        let entered = answer(send(host, &format!("GET /{path}"), "", None));
        let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
        let (host, base) = (host.to_owned(), base.to_owned());
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = Arc::clone(&closed);
        let browser = thread::spawn(move || {
            let events = send(&host, &format!("GET /{base}events"), &cookie, None);
            let mut reloaded = Instant::now();
            for line in BufReader::new(events).lines().map_while(Result::ok) {
                if is_closed.load(Ordering::Relaxed) {
                    return;
                }
                if line.contains("journal") && reloaded.elapsed() >= REST {
                    let page = answer(send(&host, &format!("GET /{base}journal"), &cookie, None));
                    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
                    reloaded = Instant::now();
                }
            }
        });
        Self { child, browser: Some(browser), closed }
    }

    /// The time on processors so far.
    fn time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        Duration::from_millis(ticks.sum::<u64>() * 1000 / TICKS_PER_SECOND)
    }

    /// The most memory so far, in MiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.browser.take().map(JoinHandle::join);
    }
}

/// Starts a console; returns the address that it prints as well.
fn start(setup: &Setup, workspace: &Path) -> (Child, String) {
    let mut command = Command::new(setup.built.join("cofferdam"));
    command.args(["-q", "console", "--no-open"]).current_dir(workspace);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (child, url)
}

/// Sends a request, with a body as JSON.
fn send(host: &str, line: &str, headers: &str, body: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(host).unwrap();
    let body = body.map_or_else(String::new, |body| {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let end = if body.is_empty() { "\r\n" } else { "" };
    let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}");
    stream.write_all(format!("{head}{end}{body}").as_bytes()).unwrap();
    stream
}

/// The whole answer, in text.
fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// An empty workspace with one small file.
fn workspace(setup: &Setup) -> PathBuf {
    let workspace = setup.scratch.join("console");
    let _ = fs::remove_dir_all(&workspace);
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("small"), "small\n").unwrap();
    workspace
}

fn serve(setup: &Setup, workspace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(setup.built.join("cofferdam"));
    command.arg("serve").args(options).current_dir(workspace);
    command
}

/// Measures calls with and without a console, in pairs.
pub fn pairs(setup: &Setup, table: &mut Table) {
    let workspace = workspace(setup);
    let server = &mut Server::start(serve(setup, &workspace, &[]), "files__read_file");
    let calls = |server: &mut Server| -> Vec<Duration> {
        let call = |_| {
            thread::sleep(PACE);
            server.call()
        };
        (0..CALLS).map(call).collect()
    };
    calls(server);
    let server = std::cell::RefCell::new(server);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    alternate(
        PAIRS,
        || {
            let _console = Console::open(setup, &workspace);
            with.append(&mut calls(&mut server.borrow_mut()));
        },
        || without.append(&mut calls(&mut server.borrow_mut())),
    );
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let what = format!(
        "20 calls a second over a pipe, p50 of {}, with a console against without",
        PAIRS * CALLS
    );
    table.row(&what, (median(&mut with), median(&mut without)), "not slower");
}

/// Measures the console while many sessions work.
pub fn load(setup: &Setup, table: &mut Table) {
    let workspace = workspace(setup);
    let host = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let mut command = serve(setup, &workspace, &["--http", &host]);
    let mut server = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while TcpStream::connect(&host).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    let accept = "Accept: application/json, text/event-stream\r\n";
    let post = |headers: &str, message: Value| {
        let message = message.to_string();
        answer(send(&host, "POST /mcp", &format!("{accept}{headers}"), Some(&message)))
    };
    let begin = |_| {
        let begun = post(
            "",
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "measure", "version": "1"},
            }}),
        );
        let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let session = format!("Mcp-Session-Id: {id}\r\n");
        post(&session, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    };
    let sessions: Vec<String> = (0..SESSIONS).map(begin).collect();
    let console = Console::open(setup, &workspace);
    let (begun, before) = (Instant::now(), console.time());
    let mut calls: u32 = 0;
    for session in sessions.iter().cycle() {
        if begun.elapsed() >= RUN_TIME {
            break;
        }
        let params = json!({"name": "files__read_file", "arguments": {"path": "small"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let called = post(session, call);
        assert!(called.contains(r#""isError":false"#), "{called}");
        calls += 1;
        thread::sleep((PACE * calls).saturating_sub(begun.elapsed()));
    }
    let share = (console.time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    let rate = f64::from(calls) / begun.elapsed().as_secs_f64();
    let _ = server.kill();
    let _ = server.wait();
    let what = format!("the console with {SESSIONS} sessions, {rate:.1} calls a second in all");
    let found = format!("{:.1} % of a core, {} MiB", 100.0 * share, console.memory());
    table.alone(&what, &found, "< 5 %, < 50 MB");
}

/// Measures in Chromium how long a proposal of many hunks takes to be drawn, and the slowest key on it.
pub fn hunks(setup: &Setup, table: &mut Table) {
    let [chromium, node] = ["chromium", "node"].map(|name| {
        let system = || Some(Path::new("/usr/bin").join(name)).filter(|program| program.is_file());
        installed(setup, name).map(|(program, _)| program).or_else(system)
    });
    let (Some(chromium), Some(node)) = (chromium, node) else {
        println!("Chromium is not installed; `cargo xtask programs` does it");
        return;
    };
    let workspace = workspace(setup);
    let id = propose(setup, &workspace);
    let (mut console, url) = start(setup, &workspace);
    let modules = setup.built.parent().unwrap().join("browser/package.json");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser/hunks.mjs");
    let mut browser = Command::new(node);
    browser.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut browser = browser.spawn().unwrap();
    let given = json!({"modules": modules, "chromium": chromium, "url": url.trim_end(), "id": id});
    writeln!(browser.stdin.as_mut().unwrap(), "{given}").unwrap();
    let measured: Vec<Value> = BufReader::new(browser.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert!(browser.wait().unwrap().success());
    let _ = console.kill();
    let _ = console.wait();
    assert!(measured.iter().all(|page| page["hunks"] == HUNKS), "{measured:?}");
    let median = |name: &str| {
        let mut times: Vec<f64> =
            measured.iter().map(|page| page[name].as_f64().unwrap()).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let keys = measured.iter().flat_map(|page| page["keys"].as_array().unwrap());
    let slowest = keys.filter_map(Value::as_f64).fold(0.0, f64::max);
    let (begun, answered, drawn) = (median("begun"), median("answered"), median("drawn"));
    let what = format!("a proposal of {HUNKS} hunks, from the click until it is drawn");
    let found = format!("{drawn:.0} ms (answer of the console: {begun:.0} to {answered:.0} ms)");
    table.alone(&what, &found, "< 200 ms");
    table.alone("the slowest key on it", &format!("{slowest:.0} ms"), "< 200 ms");
}

/// Holds a change of many hunks; returns the id of the proposal.
fn propose(setup: &Setup, workspace: &Path) -> String {
    let lines = |word: &str| -> String {
        let line = |at: usize| match at % LINES {
            0 => format!("{word} {at}\n"),
            _ => format!("line {at}\n"),
        };
        (0..HUNKS * LINES).map(line).collect()
    };
    fs::write(workspace.join("large"), lines("old")).unwrap();
    let write = json!({"type": "write_file", "path": "large", "content": lines("new")});
    let envelope = json!({"actions": [write]}).to_string();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(setup.built.join("cofferdam"));
        command.args(arguments).current_dir(workspace);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut held = command(&["run", "--hold"]);
    held.stdin.take().unwrap().write_all(envelope.as_bytes()).unwrap();
    assert!(held.wait_with_output().unwrap().status.success());
    let listed = command(&["review", "--format", "json"]).wait_with_output().unwrap().stdout;
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    listed["proposals"][0]["id"].as_str().unwrap().to_owned()
}
