//! Telemetry as a collector receives it: spans and metrics, their contents, secrets that are left
//! out, and collectors that block.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::fleet;
use crate::mcp::http::call;
use crate::mcp::server::{Request, SERVE, Server};
use crate::support::{Ended, Place};
use crate::trial::configure;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "a-secret-argument";

/// How long to wait for something that has to happen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A request that a collector received.
struct Sent {
    path: String,
    head: String,
    body: Value,
}

/// A server that receives a process' telemetry.
struct Collector {
    address: SocketAddr,
    sent: Receiver<Sent>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, sent) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = sender.send(receive(stream));
            }
        });
        Self { address, sent }
    }

    /// Configures a command to send its telemetry here, with the shortest interval.
    fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address))
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20key")
            .env("OTEL_RESOURCE_ATTRIBUTES", "team=tools")
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
            .env("OTEL_METRIC_EXPORT_INTERVAL", "50")
    }

    /// The next spans.
    fn spans(&self) -> Vec<Value> {
        loop {
            let sent = self.sent.recv_timeout(TIMEOUT).expect("no spans");
            assert!(sent.head.contains("\r\napi-key: a key\r\n"), "{}", sent.head);
            assert!(sent.head.contains("content-type: application/json"), "{}", sent.head);
            if sent.path == "/v1/traces" {
                let about = &sent.body["resourceSpans"][0];
                assert_eq!(attribute(&about["resource"], "service.name"), "cofferdam");
                assert_eq!(attribute(&about["resource"], "team"), "tools");
                return about["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            }
        }
    }

    /// The next span, which must be the only one in its request.
    fn span(&self) -> Value {
        let mut spans = self.spans();
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.remove(0)
    }

    /// Waits until the received metrics are as wanted.
    fn figures(&self, wanted: impl Fn(&[Value]) -> bool) {
        loop {
            let sent = self.sent.recv_timeout(TIMEOUT).expect("no figures of that kind");
            if sent.path == "/v1/metrics" {
                let scope = &sent.body["resourceMetrics"][0]["scopeMetrics"][0];
                if wanted(scope["metrics"].as_array().unwrap()) {
                    return;
                }
            }
        }
    }
}

fn receive(stream: TcpStream) -> Sent {
    let (head, body) = message(stream);
    let path = head.split(' ').nth(1).unwrap().to_owned();
    assert!(!String::from_utf8_lossy(&body).contains(SECRET));
    Sent { path, head, body: serde_json::from_slice(&body).unwrap() }
}

/// The head and the body of a request, which gets an empty answer.
fn message(stream: TcpStream) -> (String, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    stream.get_mut().write_all(answer).unwrap();
    (head, body)
}

/// The value of an attribute, as text.
fn attribute<'a>(of: &'a Value, name: &str) -> &'a str {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    let value = found.map(|attribute| attribute["value"].as_object().unwrap());
    value.and_then(|value| value.values().next()?.as_str()).unwrap_or_default()
}

/// There is a span for each call, with the caller's span as its parent.
#[test]
fn calls_of_clients_are_spans() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    configure(&place, "[roles.lister]\ntools = ['files.glob']\n");
    let collector = Collector::new();
    let server = Server::started(collector.of(&mut place.command(SERVE)));
    let read = |path: &str| call("/mcp", "files__read_file", &json!({"path": path}));
    let header = read("a.txt").with("traceparent", PARENT).with("tracestate", "rojo=1");
    assert_eq!(server.ask(&header).0, 200);
    let span = collector.span();
    assert_eq!(span["name"], "tools/call files.read_file");
    assert_eq!(
        (&span["traceId"], &span["parentSpanId"]),
        (&json!(TRACE), &json!("00f067aa0ba902b7"))
    );
    assert_eq!((&span["kind"], &span["traceState"]), (&json!(2), &json!("rojo=1")));
    assert_eq!(span["status"]["code"], 0);
    assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    for (name, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "files.read_file"),
        ("jsonrpc.request.id", "1"),
        ("mcp.protocol.version", "2026-07-28"),
        ("network.transport", "tcp"),
        ("cofferdam.outcome", "executed"),
    ] {
        assert_eq!(attribute(&span, name), value, "{span}");
    }
    // The context in the message takes precedence over that of the HTTP request.
    let other = PARENT.replace("4bf9", "5bf9");
    let both = read("a.txt").with_meta("traceparent", &json!(PARENT)).with("traceparent", &other);
    server.ask(&both);
    assert_eq!(collector.span()["traceId"], TRACE);
    // An invalid context starts a new trace.
    server.ask(&read("a.txt").with("traceparent", "none"));
    let span = collector.span();
    assert_eq!(span["parentSpanId"], "");
    assert_ne!(span["traceId"], TRACE);
    // A call whose trace is not sampled has no span.
    server.ask(&read("a.txt").with("traceparent", &PARENT.replace("-01", "-00")));
    // Spans contain no arguments, messages, or names that are not tools.
    server.ask(&read(SECRET));
    let span = collector.span();
    assert_eq!(attribute(&span, "error.type"), "FileNotFoundError", "{span}");
    assert_eq!(
        (attribute(&span, "cofferdam.outcome"), &span["status"]["code"]),
        ("error", &json!(2))
    );
    server.ask(&call("/mcp", SECRET, &json!({})));
    let span = collector.span();
    assert_eq!(
        (&span["name"], attribute(&span, "error.type")),
        (&json!("tools/call _OTHER"), "UnknownTool")
    );
    server.ask(&call("/mcp/lister", "files__read_file", &json!({"path": SECRET})));
    let span = collector.span();
    assert_eq!(
        (attribute(&span, "cofferdam.role"), attribute(&span, "cofferdam.outcome")),
        ("lister", "denied")
    );
    collector.figures(has_figures_of_all_calls);
}

/// The calls of a script are below its span, in the same trace.
#[test]
fn calls_of_a_script_are_below_its_span() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let collector = Collector::new();
    let server = Server::started(
        collector.of(place.command(SERVE).args(["--tools", "scripts", "--role", "main"])),
    );
    let code = "files.read_file(path='a.txt')\nfiles.read_file(path='a.txt')\n1";
    let request = || call("/mcp", "run_python", &json!({"code": code}));
    for (request, trace, parent) in [
        (request(), None, ""),
        (request().with("traceparent", PARENT), Some(TRACE), "00f067aa0ba902b7"),
    ] {
        assert_eq!(server.ask(&request).0, 200);
        let mut spans = Vec::new();
        while spans.len() < 3 {
            spans.extend(collector.spans());
        }
        let script = spans.iter().find(|span| span["name"] == "tools/call python.run_python");
        let script = script.unwrap().clone();
        assert_eq!(script["parentSpanId"], parent);
        assert!(trace.is_none_or(|trace| script["traceId"] == trace), "{script}");
        let nested: Vec<_> =
            spans.iter().filter(|span| span["name"] == "execute_tool files.read_file").collect();
        assert_eq!(nested.len(), 2, "{spans:?}");
        for span in nested {
            assert_eq!(span["traceId"], script["traceId"]);
            assert_eq!(span["parentSpanId"], script["spanId"]);
            assert_eq!(attribute(span, "mcp.method.name"), "");
        }
    }
}

/// What the tenants of a fleet use is counted for each of them.
#[test]
fn what_a_tenant_uses_is_measured() {
    let place = Place::new();
    let tenants = fleet::tenants(&place, "calls-per-minute = 1");
    fleet::push(&place, "web-shop");
    let collector = Collector::new();
    let mut command = place.command(&["serve", "--http", "127.0.0.1:0", "--role", "main"]);
    command.arg("--store").arg(place.home_file("store"));
    command.arg("--copies").arg(place.home_file("copies")).arg("--tenants").arg(tenants);
    let server = Server::started(collector.of(&mut command));
    for (key, status) in [("k1", 200), ("k2", 429)] {
        let path = format!("/workspaces/web-shop/calls/{key}");
        let request = Request::put(&path, r#"{"tool": "read_file", "path": "a.txt"}"#);
        let (found, _, body) = server.ask(&request.with("Authorization", "Bearer secret"));
        assert_eq!(found, status, "{body}");
    }
    collector.figures(|figures| {
        let points = |name: &str| {
            let figure = figures.iter().find(|figure| figure["name"] == name);
            figure.map_or(&[][..], |figure| figure["sum"]["dataPoints"].as_array().unwrap())
        };
        let requests = |is_refused: bool| {
            let is_it = |point: &&Value| {
                let attributes = point["attributes"].as_array().unwrap();
                let of_kind = json!({
                    "key": "cofferdam.quota.exceeded", "value": {"boolValue": is_refused}
                });
                attribute(point, "cofferdam.tenant") == "web" && attributes.contains(&of_kind)
            };
            points("cofferdam.tenant.requests").iter().find(is_it).map(|point| &point["asInt"])
        };
        let bytes = points("cofferdam.tenant.io").first();
        let bytes = bytes.and_then(|point| point["asInt"].as_str()?.parse::<u64>().ok());
        let time = points("cofferdam.tenant.time").first();
        let time = time.and_then(|point| point["asDouble"].as_f64());
        let one = json!("1");
        [false, true].map(requests) == [Some(&one), Some(&one)]
            && bytes.is_some_and(|bytes| bytes > 100)
            && time.is_some_and(|time| time > 0.0)
    });
}

/// Whether the metrics count all calls of the test, none of which is running or waiting.
fn has_figures_of_all_calls(figures: &[Value]) -> bool {
    let named = |name: &str| figures.iter().find(|figure| figure["name"] == name);
    assert_eq!(named("cofferdam.calls.running").unwrap()["gauge"]["dataPoints"][0]["asInt"], "0");
    assert_eq!(named("cofferdam.calls.waiting").unwrap()["gauge"]["dataPoints"][0]["asInt"], "0");
    assert_eq!(named("cofferdam.calls.busy").unwrap()["sum"]["dataPoints"][0]["asInt"], "0");
    let durations = &named("cofferdam.call.duration").unwrap()["histogram"];
    assert_eq!(durations["aggregationTemporality"], 2);
    let count = |outcome: &str| {
        let points = durations["dataPoints"].as_array().unwrap().iter();
        let of = |point: &&Value| {
            attribute(point, "gen_ai.tool.name") == "files.read_file"
                && attribute(point, "cofferdam.outcome") == outcome
        };
        let point = points.clone().find(of)?;
        let buckets = point["bucketCounts"].as_array().unwrap();
        assert_eq!(buckets.len(), point["explicitBounds"].as_array().unwrap().len() + 1);
        let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(buckets.iter().map(number).sum::<u64>(), number(&point["count"]));
        Some(number(&point["count"]))
    };
    (count("executed"), count("error"), count("denied")) == (Some(4), Some(1), Some(1))
}

#[test]
fn a_command_sends_its_telemetry_before_it_exits() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let collector = Collector::new();
    let args = ["call", "read_file", r#"{"path": "a.txt"}"#];
    let late = ["OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"].map(|it| (it, "3600000"));
    let mut command = place.command(&args);
    assert_eq!(
        Ended::of(collector.of(&mut command).envs(late).env("TRACEPARENT", PARENT)).status,
        0
    );
    let span = collector.span();
    assert_eq!((&span["name"], &span["kind"]), (&json!("execute_tool files.read_file"), &json!(1)));
    assert_eq!((&span["traceId"], attribute(&span, "mcp.method.name")), (&json!(TRACE), ""));
    collector.figures(|figures| figures.len() == 4);
    let envelope = json!({"actions": [
        {"type": "read_file", "path": "a.txt"},
        {"type": "read_file", "path": SECRET},
    ]});
    place.write("calls.json", envelope.to_string());
    let mut command = place.command(&["run", "calls.json"]);
    assert_eq!(Ended::of(collector.of(&mut command).envs(late)).status, 1);
    let spans = collector.spans();
    let mut outcomes: Vec<&str> =
        spans.iter().map(|span| attribute(span, "cofferdam.outcome")).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["error", "executed"]);
    // Nothing is sent if telemetry is not configured.
    for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")] {
        while collector.sent.try_recv().is_ok() {}
        let mut command = place.command(&args);
        assert_eq!(Ended::of(collector.of(&mut command).env(off.0, off.1)).status, 0);
        let sent = collector.sent.recv_timeout(Duration::from_millis(200));
        assert!(matches!(sent, Err(RecvTimeoutError::Timeout)));
    }
}

/// A collector that is missing or never answers delays nothing.
#[test]
fn a_blocked_collector_delays_nothing() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, why) in [
        (gone, "telemetry is not taken"),
        (hanging.local_addr().unwrap(), "the last telemetry was not sent in time"),
    ] {
        let collector = Collector { address, sent: mpsc::channel().1 };
        let mut command = place.command(&["call", "read_file", r#"{"path": "a.txt"}"#]);
        let ended =
            Ended::of(collector.of(&mut command).env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000"));
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_eq!(ended.json()["content"], "one\n");
        assert!(ended.stderr.contains(why), "{ended:?}");
        let mut command = place.command(SERVE);
        let command = collector.of(&mut command).env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
        let server = Server::started(command);
        for _ in 0..100 {
            let read = call("/mcp", "files__read_file", &json!({"path": "a.txt"}));
            assert_eq!(server.ask(&read).0, 200);
        }
        assert!(server.stop().success());
    }
}

/// Invalid variables turn telemetry off and have no other effect; values that may be secrets are
/// not printed.
#[test]
fn invalid_variables_are_reported() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let collector = Collector::new();
    let mut command = place.command(&["call", "read_file", r#"{"path": "a.txt"}"#]);
    let ended = Ended::of(collector.of(&mut command).env("OTEL_EXPORTER_OTLP_HEADERS", SECRET));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stderr.contains("telemetry is off: OTEL_EXPORTER_OTLP_HEADERS"), "{ended:?}");
    assert!(!ended.stderr.contains(SECRET), "{ended:?}");
}

/// Telemetry in protobuf, compressed, reaches a collector that is started only after the calls.
#[test]
fn a_collector_that_restarts_loses_nothing() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let missing = Collector { address, sent: mpsc::channel().1 };
    let mut command = place.command(SERVE);
    let command = missing.of(&mut command).env("OTEL_METRICS_EXPORTER", "none");
    let command = command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let server = Server::started(command.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"));
    let calls = 20;
    for _ in 0..calls {
        let read = call("/mcp", "files__read_file", &json!({"path": "a.txt"}));
        assert_eq!(server.ask(&read).0, 200);
    }
    std::thread::sleep(Duration::from_secs(5));
    let listener = TcpListener::bind(address).unwrap();
    let mut received = 0;
    while received < calls {
        let (stream, _) = listener.accept().unwrap();
        let (head, body) = message(stream);
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        // The name of each span, as its bytes are in protobuf.
        let name = b"tools/call files.read_file";
        received += plain.windows(name.len()).filter(|window| window == name).count();
    }
    assert_eq!(received, calls);
    assert!(server.stop().success());
}
