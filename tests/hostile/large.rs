//! Messages of the maximum size that cost as much memory and time as possible, also for other
//! clients.
#![expect(clippy::print_stdout, reason = "figures for the reader of the test's output")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::http::{call, list};
use crate::mcp::server::{Request, Server, message};
use crate::support::{Ended, Place};
use crate::trial::run_measured;

/// The size of the messages, in bytes.
const MESSAGE_BYTES: usize = 15 << 20;

/// The server's memory limit, in MiB.
const MAX_MEMORY_MIB: u64 = 300;

/// How long a refusal may take on a busy machine, without optimisation. In a release build it usually takes
/// some hundredths of a second.
const MAX_REFUSAL_TIME: Duration = Duration::from_secs(10);

/// The text of a call with these arguments.
fn call_with(content: &str) -> String {
    let text = message(
        "tools/call",
        json!({"name": "files__write_file", "arguments": {"path": "a.txt", "content": "HERE"}}),
    );
    text.to_string().replace("\"HERE\"", content)
}

/// Repeats a text up to the maximum size.
fn repeated(part: &str) -> String {
    part.repeat(MESSAGE_BYTES / part.len())
}

/// Request bodies, with the expected status and a part of the expected answer.
fn hostile() -> Vec<(&'static str, String, u16, &'static str)> {
    let lists = format!("[{}[]]", repeated("[],"));
    let objects = format!("[{}{{}}]", repeated("{\"a\":0},"));
    let nested = call_with(&repeated("{\"a\":"));
    let closed = format!("{}1{}", "[".repeat(MESSAGE_BYTES / 2), "]".repeat(MESSAGE_BYTES / 2));
    let names: String =
        (0..MESSAGE_BYTES / 12).map(|number| format!("\"{number:07}\":0,")).collect();
    vec![
        ("lists", call_with(&lists), 400, "more than 200000 values"),
        ("objects", call_with(&objects), 400, "more than 200000 values"),
        ("names", call_with(&format!("{{{names}\"a\":1}}")), 400, "more than 200000 values"),
        ("nested", nested, 400, "recursion limit"),
        ("nested at once", repeated("{\"a\":"), 400, "recursion limit"),
        ("nested and closed", call_with(&closed), 400, "recursion limit"),
        ("not closed", call_with(&repeated("\\n")), 400, "not JSON"),
        ("twice", call_with(&format!("1,\"content\":{lists}")), 400, "stands here twice"),
        (
            "no call",
            message("ping", json!({})).to_string().replace("{}", &format!("\"{}\"", repeated("x"))),
            400,
            "besides the arguments of a tool",
        ),
        (
            "a list of numbers",
            call_with(&format!("[{}1]", "1,".repeat(90_000))),
            200,
            "InvalidArguments",
        ),
    ]
}

fn post(body: &str) -> Request {
    call("/mcp", "files__write_file", &json!({})).with_body(body)
}

fn text_of(answer: &(u16, String, String)) -> &str {
    &answer.2
}

#[test]
fn large_messages_are_refused_at_once_and_in_little_memory() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    assert_eq!(server.ask(&list("/mcp")).0, 200);
    let before = server.peak_memory();
    for (what, body, status, words) in hostile() {
        let request = post(&body);
        let begun = Instant::now();
        let answer = server.ask(&request);
        let took = begun.elapsed();
        let found: String = text_of(&answer).chars().take(400).collect();
        println!("{what}: {took:?}, {} MiB", server.peak_memory());
        assert_eq!(answer.0, status, "{what}: {found}");
        // Problems with arguments are reported in the result of the call.
        let words = if status == 200 { "expected a string" } else { words };
        assert!(found.contains(words) || text_of(&answer).contains(words), "{what}: {found}");
        assert!(took < MAX_REFUSAL_TIME, "{what}: {took:?}");
    }
    let peak = server.peak_memory();
    assert!(peak < MAX_MEMORY_MIB, "{peak} MiB, {before} before");
}

#[test]
fn a_large_text_is_written_in_a_small_multiple_of_its_size() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    assert_eq!(server.ask(&list("/mcp")).0, 200);
    let before = server.peak_memory();
    let content = format!("{}\n", repeated("0123456789abcdef"));
    let body = call_with(&Value::from(content.clone()).to_string());
    let begun = Instant::now();
    let answer = server.ask(&post(&body));
    println!(
        "15 MiB written: {:?}, {} MiB, {before} before",
        begun.elapsed(),
        server.peak_memory()
    );
    assert_eq!(answer.0, 200, "{}", text_of(&answer));
    assert!(!text_of(&answer).contains("isError\":true"), "{}", text_of(&answer));
    assert_eq!(place.read("a.txt"), content);
    let peak = server.peak_memory();
    // The request, the tool's arguments, and the copies in the tool's own instance: eight times the
    // text, and up to two more while the request's buffer grows.
    assert!(peak < before + 12 * 15, "{peak} MiB, {before} before");
}

#[test]
fn four_senders_of_large_messages_do_not_delay_other_clients() {
    const LONG: Duration = Duration::from_secs(6);
    let place = Place::new();
    place.write("b.txt", "legitimate\n");
    let server = Server::new(&place, &[]);
    assert_eq!(server.ask(&list("/mcp")).0, 200);
    let bodies = hostile();
    let over = AtomicBool::new(false);
    let mut latencies: Vec<Duration> = Vec::new();
    thread::scope(|scope| {
        for sender in 0..4 {
            let (address, over, bodies) = (server.address, &over, &bodies);
            scope.spawn(move || {
                for turn in sender.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let (what, body, status, _) = &bodies[turn % bodies.len()];
                    let answer = post(body).ask(address);
                    assert!([*status, 503].contains(&answer.0), "{what}: {}", answer.0);
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            let asked = Instant::now();
            let listed = server.ask(&list("/mcp"));
            latencies.push(asked.elapsed());
            if listed.0 != 200 {
                over.store(true, Ordering::Relaxed);
            }
            assert_eq!(listed.0, 200, "{}", listed.2);
            let read = server.ask(&call("/mcp", "files__read_file", &json!({"path": "b.txt"})));
            assert!(read.2.contains("legitimate"), "{}", read.2);
        }
        over.store(true, Ordering::Relaxed);
    });
    latencies.sort();
    let worst = latencies[latencies.len() * 99 / 100];
    let peak = server.peak_memory();
    println!("{} lists, 99 % within {worst:?}, {peak} MiB", latencies.len());
    assert!(worst < Duration::from_secs(1), "{worst:?}");
    assert!(peak < MAX_MEMORY_MIB, "{peak} MiB");
}

#[test]
fn a_deeply_nested_envelope_is_refused_at_once() {
    let place = Place::new();
    for (what, text) in [
        ("nested", repeated("{\"a\":")),
        ("nested after words", format!("so: {}", repeated("{\"a\":"))),
        ("lists", format!("{{\"tool\":\"a\",\"b\":[{}[]]}}", repeated("[],"))),
        ("brackets", repeated("[{")),
        ("envelopes", repeated("{\"tool\":1}\n")),
    ] {
        let file = place.home_file("envelope.json");
        std::fs::write(&file, text).unwrap();
        let begun = Instant::now();
        let (ended, peak) = run_measured(&place, &["run", file.to_str().unwrap()]);
        let took = begun.elapsed();
        println!("{what}: {took:?}, {peak} MiB");
        assert_ne!(ended.status, 0, "{what}: {ended:?}");
        assert!(took < MAX_REFUSAL_TIME && peak < MAX_MEMORY_MIB, "{what}: {took:?}, {peak} MiB");
    }
}

/// On standard input and output, the next line is still read.
#[test]
fn a_line_is_refused_with_its_number() {
    let place = Place::new();
    let lines = [
        call_with(&format!("[{}[]]", repeated("[],"))),
        call_with(&Value::from(repeated("x")).to_string()),
        message("tools/list", json!({})).to_string(),
    ];
    let file = place.home_file("lines");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let input = std::fs::File::open(&file).unwrap();
    let ended = Ended::of(place.command(&["serve"]).stdin(input));
    let said: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = |text: &str| said.iter().any(|answer| answer.to_string().contains(text));
    assert!(found("more than 200000 values"), "{said:?}");
    assert!(
        said.iter().all(|answer| answer["id"] == 1 || answer["method"].is_string()),
        "{said:?}"
    );
    assert!(found("read_file"), "the list is missing: {said:?}");
    assert_eq!(place.read("a.txt").len(), repeated("x").len());
}

/// Files of a workspace that the user has not accepted.
#[test]
fn files_of_a_workspace_have_a_maximum_size() {
    const LARGE: usize = 11 << 20;
    let plugin = "[plugins.aaaaaaa]\nversion = '1'\n";
    let table = |part: &str| part.repeat(LARGE / part.len());
    for (name, text) in [
        ("cofferdam.lock", format!("version = 1\n{}", table(plugin))),
        ("cofferdam.lock", format!("version = 1\na = [{}]\n", table("[],"))),
        ("cofferdam.toml", format!("a = [{}]\n", table("{},"))),
        ("cofferdam.toml", table("a.")),
    ] {
        let place = Place::new();
        place.write(name, text);
        let begun = Instant::now();
        let (ended, peak) = run_measured(&place, &["tools"]);
        println!("{name}: {:?}, {peak} MiB", begun.elapsed());
        assert_ne!(ended.status, 0, "{name}: {ended:?}");
        assert!(ended.stderr.contains("has more than 262144 bytes"), "{ended:?}");
        assert!(ended.stderr.contains(name), "{ended:?}");
        assert!(peak < 150, "{name}: {peak} MiB");
    }
    // Files of the maximum size are read.
    for (name, part) in [
        ("cofferdam.lock", "[],"),
        ("cofferdam.toml", "{},"),
        ("cofferdam.toml", "{a=1},"),
        ("cofferdam.toml", "[[[[[[[]]]]]]],"),
    ] {
        let place = Place::new();
        place.write(name, format!("version = 1\na = [{}]\n", part.repeat(260_000 / part.len())));
        let begun = Instant::now();
        let (ended, peak) = run_measured(&place, &["tools", "--trust-workspace"]);
        println!("{name} of {part}: {:?}, {peak} MiB", begun.elapsed());
        assert_ne!(ended.status, 0, "{name}: {ended:?}");
        assert!(peak < 200, "{name}: {peak} MiB");
    }
}
