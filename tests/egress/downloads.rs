//! Many downloads through the proxies of a server, beside other calls and dead origins: nothing is left
//! of them, and a dead origin costs its own request only. The server is a process of its own, because
//! its descriptors, threads and memory are counted.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::campaign::MALLOC_SETTINGS;
use crate::http::server::{Server, Step, answer};
use crate::mcp::http::{call, result};
use crate::mcp::server::{SERVE, Server as Host};
use crate::support::Place;
use crate::trial::configure;

/// How many downloads there are in each run of the tests.
const DOWNLOADS: usize = 100;

/// The variable with another number of downloads: `COFFERDAM_DOWNLOADS=1000`.
const DOWNLOADS_VARIABLE: &str = "COFFERDAM_DOWNLOADS";

/// How many calls run beside the downloads.
const CALLS: usize = 16;

/// The size of a download in bytes.
const DOWNLOAD_BYTES: usize = 20_000;

/// By how much the server may grow, in KiB.
const MAX_GROWTH_KIB: u64 = 16 << 10;

/// How long the server may take until what it does not need any more is gone.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Downloads from the origin, and asks four dead ones meanwhile.
const SCRIPT: &str = "
import concurrent.futures, sys, time, urllib.request
count, size = int(sys.argv[1]), int(sys.argv[2])
def one(address):
    started = time.monotonic()
    try:
        with urllib.request.urlopen(address, timeout=60) as got: length = len(got.read())
    except Exception: length = 0
    return length, time.monotonic() - started
addresses = [f'https://test.example/{n}' for n in range(count)]
dead = ['https://other.example/', 'https://other.example:8443/', 'https://context7.com/', 'https://context7.com:8443/']
with concurrent.futures.ThreadPoolExecutor(16) as pool, concurrent.futures.ThreadPoolExecutor(4) as others:
    others = others.map(one, dead)
    done = list(pool.map(one, addresses))
    print('got', sum(length == size for length, _ in done), 'slowest', int(max(time for _, time in done) * 1000))
    print('dead', [length for length, _ in others])
";

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    memory_kib: u64,
}

impl Held {
    fn of(host: &Host) -> Self {
        let process = format!("/proc/{}", host.id());
        let count =
            |directory: &str| fs::read_dir(format!("{process}/{directory}")).unwrap().count();
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory_kib = memory.trim().trim_end_matches(" kB").parse().unwrap();
        Self { descriptors: count("fd"), threads: count("task"), memory_kib }
    }

    /// Waits until a server holds no more than this, apart from memory.
    fn settled(self, host: &Host) -> Self {
        let begin = Instant::now();
        loop {
            let now = Self::of(host);
            let is_settled = now.descriptors <= self.descriptors && now.threads <= self.threads;
            if is_settled || begin.elapsed() > SETTLE_TIMEOUT {
                return now;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Origins that do not answer, close at once, or end within a response.
struct Dead {
    silent: TcpListener,
    closed: u16,
    broken: Server,
    slow: Server,
}

impl Dead {
    fn new() -> Self {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        // Nothing listens on the port of a socket that was closed.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let broken = Server::new(|_| {
            vec![Step::Send(b"HTTP/1.1 200 Word\r\nContent-Length: 99999\r\n\r\nx".to_vec())]
        });
        let slow = Server::new(|_| vec![Step::Wait(Duration::from_secs(15))]);
        Self { silent, closed, broken, slow }
    }

    fn entry(&self) -> String {
        let origin = |origin: &str, port: u16, server: Option<&Server>| {
            let authority = server.map_or(String::new(), |server| {
                format!(", ca-file = '{}'", server.authority().display())
            });
            format!(
                "{{ origin = '{origin}', address = '127.0.0.1:{port}', timeout-ms = 5000{authority} }}"
            )
        };
        let silent = self.silent.local_addr().unwrap().port();
        let (broken, slow) = (&self.broken, &self.slow);
        let origins = [
            origin("https://other.example", silent, None),
            origin("https://other.example:8443", self.closed, None),
            origin("https://context7.com", broken.address().port(), Some(broken)),
            origin("https://context7.com:8443", slow.address().port(), Some(slow)),
        ];
        format!(
            "[[grants.shell.network]]\nprograms = ['bash']\norigins = [{}]\n",
            origins.join(", ")
        )
    }
}

/// Downloads while other calls run.
fn round(host: &Host, downloads: usize) {
    let command = format!("python3 get.py {downloads} {DOWNLOAD_BYTES}");
    let run = |command: &str| {
        let arguments = json!({ "command": command });
        let (status, _, body) = host.ask(&call("/mcp/all", "shell__bash", &arguments));
        assert_eq!(status, 200, "{body}");
        result(&body).to_string()
    };
    thread::scope(|scope| {
        let beside: Vec<_> = (0..CALLS)
            .map(|number| scope.spawn(move || run(&format!("echo beside {number}"))))
            .collect();
        let output = run(&command);
        assert!(output.contains(&format!("got {downloads} slowest ")), "{output}");
        assert!(output.contains("dead [0, 0, 0, 0]"), "{output}");
        let slowest = output.split("slowest ").nth(1).unwrap().split('\\').next().unwrap();
        // A dead origin takes 5 s to 10 s; no other request waits for it.
        assert!(slowest.parse::<u32>().unwrap() < 5000, "{output}");
        for (number, call) in beside.into_iter().enumerate() {
            let output = call.join().unwrap();
            assert!(output.contains(&format!("beside {number}")), "{output}");
        }
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the number of downloads")]
fn many_downloads_leave_nothing_and_dead_origins_cost_their_own_requests() {
    let downloads = std::env::var(DOWNLOADS_VARIABLE).ok();
    let downloads = downloads.map_or(DOWNLOADS, |number| number.parse().unwrap());
    let server = Server::new(|_| answer(200, "", &[b'x'; DOWNLOAD_BYTES]));
    let dead = Dead::new();
    let place = Place::new();
    place.write("get.py", SCRIPT);
    let settings = format!(
        "[roles.all]\ntools = ['*']\n[programs]\ntier = 'A'\n[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n\
         [[grants.shell.network]]\nprograms = ['bash']\nmethods = ['GET']\norigins = [{{ origin = \
         'https://test.example', address = '{}', ca-file = '{}' }}]\n{}",
        server.address(),
        server.authority().display(),
        dead.entry()
    );
    configure(&place, &settings);
    let host = Host::started(place.command(SERVE).envs(MALLOC_SETTINGS));
    round(&host, 10);
    thread::sleep(Duration::from_secs(2));
    let before = Held::of(&host);
    round(&host, downloads);
    let after = before.settled(&host);
    assert!(after.descriptors <= before.descriptors, "{before:?} {after:?}");
    assert!(after.threads <= before.threads, "{before:?} {after:?}");
    assert!(after.memory_kib < before.memory_kib + MAX_GROWTH_KIB, "{before:?} {after:?}");
    assert_eq!(server.asked().len(), 10 + downloads);
}
