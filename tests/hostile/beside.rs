//! A hostile client beside a legitimate one: it gets what no other client needs, and no more. Each
//! test prints how long `tools/list` and `read_file` took meanwhile, and the server's memory.
//!
//! The bounds here are generous, for machines that are busy with other tests. The promised figures
//! (100 ms, 300 MiB) are checked if `COFFERDAM_STRICT` is set: see CONTRIBUTING.md.
#![expect(clippy::print_stdout, reason = "figures for the reader of the test's output")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::mcp::http::{call, list, result};
use crate::mcp::server::{Request, SERVE, Server};
use crate::support::{Place, built, guest};
use crate::trial::{ALL, configure, peak_memory};

/// The token of clients that may make calls.
const TOKEN: &str = "a-long-secret";

/// How long the two clients run side by side.
fn time() -> Duration {
    Duration::from_secs(if is_strict() { 15 } else { 2 })
}

/// The minimum number of requests of each kind that the legitimate client makes.
const MIN_REQUESTS: usize = 30;

/// Held by the running test: its hostile clients must not affect another test.
static RUNNING: Mutex<()> = Mutex::new(());

#[expect(clippy::disallowed_methods, reason = "set by the user who runs the tests")]
fn is_strict() -> bool {
    std::env::var_os("COFFERDAM_STRICT").is_some()
}

/// The time within which 99 of 100 requests of the legitimate client must be answered. Without
/// fairness it is 5 to 30 s; other tests run at the same time unless the test is strict.
fn bound() -> Duration {
    Duration::from_millis(if is_strict() { 100 } else { 4_000 })
}

/// The server's memory limit, in MiB.
const MAX_MEMORY_MIB: u64 = 300;

/// A server with some files, and hostile clients that run until this is dropped.
struct Beside {
    _alone: MutexGuard<'static, ()>,
    place: Place,
    server: Arc<Server>,
    over: Arc<AtomicBool>,
    hostile: Vec<thread::JoinHandle<()>>,
    done: Arc<AtomicUsize>,
}

impl Beside {
    fn new(settings: &str, options: &[&str]) -> Self {
        let alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::new();
        configure(&place, settings);
        place.write("small.txt", "small\n".repeat(100));
        // All clients of these tests are in one process.
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.map_or(20_000, |most| most.min(20_000));
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).unwrap();
        let server = Arc::new(limited(&place, options));
        let (over, done) = (Arc::default(), Arc::default());
        Self { _alone: alone, place, server, over, hostile: Vec::new(), done }
    }

    /// Starts clients that repeat the same action.
    fn clients(
        &mut self,
        number: usize,
        act: impl Fn(&Server, &AtomicBool) + Clone + Send + 'static,
    ) {
        for _ in 0..number {
            let (server, over) = (Arc::clone(&self.server), Arc::clone(&self.over));
            let (act, done) = (act.clone(), Arc::clone(&self.done));
            self.hostile.push(thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    act(&server, &over);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
    }

    /// Measures the legitimate client's requests while the hostile ones run.
    fn measure(self, kind: &str, authorize: impl Fn(Request) -> Request) {
        // Waits until the hostile clients have started.
        thread::sleep(Duration::from_millis(500));
        let (mut lists, mut reads) = (Vec::new(), Vec::new());
        let began = Instant::now();
        while began.elapsed() < time() || lists.len() < MIN_REQUESTS {
            lists.push(self.duration_of(&authorize(list("/mcp")), "tools"));
            let small = json!({"path": "small.txt"});
            reads.push(
                self.duration_of(&authorize(call("/mcp", "files__read_file", &small)), "small"),
            );
            thread::sleep(Duration::from_millis(2));
        }
        let memory = peak_memory(Path::new(&format!("/proc/{}/status", self.server.id()))).unwrap();
        self.over.store(true, Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        let [list, read] = [&mut lists, &mut reads].map(|times| percentiles(times));
        println!(
            "{kind}: tools/list {list:?}, read_file {read:?} (p50, p99, most; {} of each), {memory} \
             MiB; {done} hostile requests",
            lists.len(),
        );
        assert!(list[1] < bound() && read[1] < bound(), "{kind}");
        assert!(memory <= MAX_MEMORY_MIB, "{kind}: {memory} MiB");
        // Killing the server ends every client that waits for an answer.
        self.server.kill();
        // A client that failed has printed the reason.
        self.hostile.into_iter().for_each(|client| client.join().unwrap());
    }

    /// The duration of a request whose answer contains this word. If the connection is closed
    /// without an answer, it is opened again, as HTTP clients do (a busy machine may leave the
    /// client too little time to send its request before many others connect), and the whole time
    /// counts.
    fn duration_of(&self, request: &Request, word: &str) -> Duration {
        let began = Instant::now();
        let (status, _, body) = loop {
            if let Some(answer) = request.try_ask(self.server.address) {
                break answer;
            }
            assert!(began.elapsed() < bound(), "the server does not answer");
        };
        let took = began.elapsed();
        assert_eq!(status, 200, "{body}");
        let answer = result(&body);
        assert!(answer["isError"] != true && answer.to_string().contains(word), "{answer}");
        took
    }
}

/// A server with the limit of open files that many systems have.
fn limited(place: &Place, options: &[&str]) -> Server {
    let command = built().join("cofferdam");
    let limit = "ulimit -n 1024 && exec \"$0\" \"$@\"";
    let args = [&["-c", limit, command.to_str().unwrap()][..], SERVE, options].concat();
    let mut command = place.command_at(Path::new("/bin/sh"), &args);
    Server::started(command.arg("--plugin").arg(guest("conformance")))
}

/// The median, the 99th percentile, and the maximum.
fn percentiles(times: &mut [Duration]) -> [Duration; 3] {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    [at(50), at(99), at(100)]
}

/// Sends a request and waits for any answer.
fn ask(server: &Server, request: &Request) {
    if let Some(mut stream) = server.try_send(request) {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

fn with_token() -> (Place, String) {
    let place = Place::new();
    let file = place.home_file("token.txt");
    std::fs::write(&file, TOKEN).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (place, file)
}

fn authorized(request: Request) -> Request {
    request.with("Authorization", &format!("Bearer {TOKEN}"))
}

fn unchanged(request: Request) -> Request {
    request
}

/// Keeps `number` connections open, each of which has sent `said`, until `over` is set.
fn keep_connections_open(server: &Server, over: &AtomicBool, number: usize, said: &str) {
    let open = || {
        let mut stream = TcpStream::connect(server.address).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(said.as_bytes());
        Some(stream)
    };
    let mut streams: Vec<Option<TcpStream>> = (0..number).map(|_| open()).collect();
    while !over.load(Ordering::Relaxed) {
        for stream in &mut streams {
            // Sends one more byte, so that the request never ends.
            let is_open = stream.as_mut().is_some_and(|stream| {
                let rest = stream.read(&mut [0; 1024]);
                let is_open =
                    rest.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
                is_open && (said.is_empty() || stream.write(b"x").is_ok())
            });
            if !is_open {
                *stream = open();
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Connections that send nothing and have no token.
#[test]
fn idle_connections_without_a_token_do_not_block_clients() {
    let (_place, token) = with_token();
    let mut beside = Beside::new("", &["--token-file", &token]);
    beside.clients(2, |server, over| keep_connections_open(server, over, 700, ""));
    beside.measure("1,400 idle connections", authorized);
}

/// Heads and bodies that never end, from clients that may make calls.
#[test]
fn slow_requests_do_not_block_clients() {
    let mut beside = Beside::new("", &[]);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Filler: ";
    beside.clients(1, |server, over| keep_connections_open(server, over, 700, head));
    let body = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 1000000\r\n\r\n{";
    beside.clients(1, move |server, over| keep_connections_open(server, over, 700, body));
    beside.measure("1,400 requests that drip", unchanged);
}

/// Bodies that announce the largest size and then arrive a byte at a time hold what has arrived.
#[test]
fn slow_large_bodies_do_not_block_large_messages() {
    let mut beside = Beside::new("", &[]);
    let body = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: 16000000\r\n\r\n{}",
        " ".repeat(40 << 10)
    );
    beside.clients(4, move |server, over| keep_connections_open(server, over, 20, &body));
    thread::sleep(Duration::from_millis(500));
    let large = json!({"path": "large.txt", "content": "x".repeat(8 << 20)});
    for _ in 0..4 {
        let (status, _, body) = beside.server.ask(&call("/mcp", "files__write_file", &large));
        assert!(status == 200 && body.contains("bytes_written"), "{status}: {body}");
    }
    beside.measure("80 large bodies that drip", unchanged);
}

/// Each client requests an answer of 4 MiB and reads nothing.
#[test]
fn unread_answers_do_not_take_memory() {
    let mut beside = Beside::new("", &[]);
    beside.place.write("large.txt", "0123456789abcde\n".repeat(256 << 10));
    let read = call("/mcp", "files__read_file", &json!({"path": "large.txt", "limit": 1_000_000}));
    let stored = result(&beside.server.ask(&read).2)["structuredContent"]["stored"].take();
    let uri = stored["uri"].as_str().unwrap().to_owned();
    beside.clients(50, move |server, over| {
        let read = Request::post("/mcp", "resources/read", &json!({"uri": uri}));
        let read = read.with("Mcp-Name", &uri);
        let _unread: Vec<_> = (0..2).map(|_| server.try_send(&read)).collect();
        while !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
    });
    beside.measure("100 answers of 4 MiB that are not read", unchanged);
}

#[test]
fn opening_sessions_without_end_does_not_block_clients() {
    let mut beside = Beside::new("", &[]);
    beside.clients(4, |server, _| ask(server, &crate::mcp::sessions::beginning()));
    beside.measure("sessions without end", unchanged);
}

/// The `initialize` parameters are kept for each session.
#[test]
fn sessions_with_a_large_initialize_do_not_take_memory() {
    let mut beside = Beside::new("", &[]);
    // One that is accepted, and one that is too large.
    let bodies = [80, 4_900].map(|count| {
        let names: serde_json::Map<String, Value> =
            (0..count).map(|number| (number.to_string(), json!({}))).collect();
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"experimental": names},
            "clientInfo": {"name": "hostile", "version": "1"},
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
    });
    beside.clients(4, move |server, _| {
        for body in &bodies {
            ask(server, &crate::mcp::sessions::beginning().with_body(body));
        }
    });
    beside.measure("sessions that say much of themselves", unchanged);
}

#[test]
fn reading_resources_without_end_does_not_delay_clients() {
    let mut beside = Beside::new("", &[]);
    for number in 0..2_000 {
        beside.place.write(&format!("many/{}/{number}.txt", number % 50), "x");
    }
    beside.clients(300, |server, _| {
        ask(server, &Request::post("/mcp", "resources/list", &json!({})));
    });
    beside.measure("300 clients that list resources", unchanged);
}

#[test]
fn looping_calls_do_not_delay_clients() {
    let mut beside = Beside::new("[limits]\ncall-ms = 10000\n", &[]);
    beside.clients(16, |server, _| {
        ask(server, &call("/mcp", "conformance__wait", &json!({"how": "compute"})));
    });
    beside.measure("16 clients that loop", unchanged);
}

#[test]
fn looping_calls_of_a_session_do_not_delay_clients() {
    let mut beside = Beside::new("[limits]\ncall-ms = 10000\n", &[]);
    let session = crate::mcp::sessions::session(&beside.server);
    let ids = Arc::new(AtomicUsize::new(1));
    beside.clients(16, move |server, _| {
        let wait = json!({"name": "conformance__wait", "arguments": {"how": "compute"}});
        let id = ids.fetch_add(1, Ordering::Relaxed);
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": wait});
        ask(server, &crate::mcp::sessions::post(&call).with("Mcp-Session-Id", &session));
    });
    beside.measure("16 calls of a session that loop", unchanged);
}

/// More calls than there are threads for long ones. Another address is not delayed.
#[test]
fn looping_calls_of_many_sessions_do_not_delay_other_addresses() {
    let mut beside = Beside::new("[limits]\ncall-ms = 10000\n", &[]);
    let address = Ipv4Addr::new(127, 0, 0, 2);
    let ids = Arc::new(AtomicUsize::new(1));
    for _ in 0..48 {
        let session = crate::mcp::sessions::session_from(&beside.server, address);
        let ids = Arc::clone(&ids);
        beside.clients(2, move |server, _| {
            let wait = json!({"name": "conformance__wait", "arguments": {"how": "compute"}});
            let id = ids.fetch_add(1, Ordering::Relaxed);
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": wait});
            let post = crate::mcp::sessions::post(&call).with("Mcp-Session-Id", &session);
            ask(server, &post.from(address));
        });
    }
    beside.measure("96 calls of 48 sessions that loop", unchanged);
}

/// Clients that write wait for each other; none of them is refused.
#[test]
fn writers_wait_in_turn() {
    let mut beside = Beside::new("", &[]);
    let number = AtomicUsize::new(0);
    let number = Arc::new(number);
    beside.clients(16, move |server, over| {
        let path = format!("file{}.txt", number.fetch_add(1, Ordering::Relaxed) % 64);
        let write = json!({"path": path, "content": "x"});
        let mut stream = match server.try_send(&call("/mcp", "files__write_file", &write)) {
            Some(stream) => stream,
            None => return,
        };
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        if !over.load(Ordering::Relaxed) {
            read.unwrap();
            assert!(answer.contains("bytes_written"), "{answer}");
        }
    });
    beside.measure("16 clients that write", unchanged);
}

/// A call that holds the workspace makes others wait; they are not refused, and run in turn.
#[test]
fn slow_writers_do_not_make_others_fail() {
    let place = Place::new();
    configure(&place, &format!("[limits]\ncall-ms = 2000\n{ALL}"));
    let hostile = guest("hostile");
    let server = Arc::new(Server::new(&place, &["--plugin", hostile.to_str().unwrap()]));
    let writers: Vec<_> = (0..6)
        .map(|number| {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let spoil = json!({"paths": [format!("a{number}")], "then": "loop"});
                let (_, _, body) = server.ask(&call("/mcp", "hostile__spoil", &spoil));
                result(&body)["content"][0]["text"].as_str().unwrap().to_owned()
            })
        })
        .collect();
    let ends: Vec<String> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    // Each of the calls ran, for its full time.
    assert!(ends.iter().all(|end| end.starts_with("WallClockLimit")), "{ends:?}");
}

/// More calls than there are permits, which all wait for a call that holds the workspace.
#[test]
fn waiting_calls_of_few_sessions_do_not_make_others_fail() {
    let hostile = guest("hostile");
    let settings = format!("[limits]\ncall-ms = 10000\n{ALL}");
    let mut beside = Beside::new(&settings, &["--plugin", hostile.to_str().unwrap()]);
    beside.clients(1, |server, _| {
        let hold = json!({"paths": ["held.txt"], "then": "loop"});
        ask(server, &call("/mcp", "hostile__spoil", &hold));
    });
    beside.clients(4, |server, _| {
        let begun = crate::mcp::sessions::beginning().try_ask(server.address);
        let Some((200, head, _)) = begun else { return };
        let name = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let Some(session) = name else { return };
        let write = |id| {
            let arguments = json!({"path": "waits.txt", "content": "x"});
            let params = json!({"name": "files__write_file", "arguments": arguments});
            let call =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            let post = crate::mcp::sessions::post(&call).with("Mcp-Session-Id", session);
            server.try_send(&post)
        };
        let streams: Vec<_> = (0..66).map(write).collect();
        // The calls continue without their connections.
        thread::sleep(Duration::from_millis(200));
        drop(streams);
    });
    beside.measure("sessions with 66 waiting calls each", unchanged);
}

/// A shortage of the host's descriptors is not reported as the plugin's fault.
#[test]
#[expect(clippy::disallowed_methods, reason = "the shell lowers the limit for the command")]
fn a_shortage_of_descriptors_is_not_a_crash() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let place = Place::new();
    place.write("small.txt", "small");
    let mut codes = std::collections::BTreeSet::new();
    for files in 8..64 {
        let limited = format!("ulimit -n {files} && exec \"$0\" serve --quiet");
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(built().join("cofferdam"));
        command.current_dir(place.workspace()).env_clear().env("HOME", place.home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for (id, (tool, args)) in [
            ("files__read_file", json!({"path": "small.txt"})),
            ("grep__grep", json!({"pattern": "small"})),
            ("files__write_file", json!({"path": "new.txt", "content": "x"})),
            ("files__read_file", json!({"path": "small.txt"})),
        ]
        .iter()
        .enumerate()
        {
            let call = json!({"name": tool, "arguments": args});
            let mut call = crate::mcp::server::message("tools/call", call);
            call["id"] = json!(id);
            // A server that could not start has exited.
            let _ = writeln!(stdin, "{call}");
        }
        drop(stdin);
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["result"]["isError"] == true {
                let text = answer["result"]["content"][0]["text"].as_str().unwrap();
                let code = text.split(':').next().unwrap().to_owned();
                println!("{files}: {text}");
                assert!(!["PluginCrashed", "InvalidComponent", "WrongWorld"].contains(&&*code));
                codes.insert(code);
            }
        }
        child.wait().unwrap();
    }
    assert!(codes.contains("DescriptorShortage"), "{codes:?}");
}

/// The server reads from a client that floods standard input only as fast as that client reads the
/// answers.
#[test]
fn a_flood_on_standard_input_is_bounded() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let place = Place::new();
    for number in 0..500 {
        place.write(&format!("many/{number}.txt"), "x");
    }
    let mut child = place.command(&["serve"]).stdin(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let writer = thread::spawn(move || {
        for id in 1.. {
            let mut list = crate::mcp::server::message("resources/list", json!({}));
            list["id"] = json!(id);
            if writeln!(stdin, "{list}").is_err() {
                return;
            }
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut answers = BufReader::new(stdout).lines();
    let (mut heard, began) = (0, Instant::now());
    while began.elapsed() < time() {
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert!(answer["id"].is_u64(), "{answer}");
        heard += 1;
    }
    let memory = peak_memory(Path::new(&status)).unwrap();
    let sent = sent.load(Ordering::Relaxed);
    println!("standard input: {sent} requests sent, {heard} answers read, {memory} MiB");
    assert!(memory <= MAX_MEMORY_MIB, "{memory} MiB");
    child.kill().unwrap();
    child.wait().unwrap();
    writer.join().unwrap();
}
