//! Logs, metrics, health and reports, as the tool schemas require ("Fallback & Observability").

use std::fs;

use serde_json::{Value, json};

use crate::http::server::Server;
use crate::support::Place;

/// The three lines in the tool schemas, "Log Format for MCP Calls".
const SOURCE: &str = r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "context7_resolve_library_id", "library": "httpx", "latency_ms": 234, "status": "success"}
{"timestamp": "2026-02-08T10:30:05Z", "tool": "context7_query_docs", "library_id": "/encode/httpx", "latency_ms": 456, "status": "success"}
{"timestamp": "2026-02-08T10:30:10Z", "event": "fallback_activated", "reason": "context7_timeout"}
"#;

#[test]
fn the_sources_log_has_metrics_and_an_alert() {
    let place = Place::new();
    place.write("calls.jsonl", SOURCE);
    let ended = place.run(&["stats", "--log-file", "calls.jsonl"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let figures = ended.json();
    let total = &figures["total"];
    assert_eq!((&total["calls"], &total["errors"]), (&json!(2), &json!(0)));
    assert_eq!(
        (&total["latency_ms"]["avg"], &total["latency_ms"]["p95"]),
        (&json!(345.0), &json!(456.0))
    );
    assert_eq!(total["fallback_rate"], 0.5);
    assert_eq!(figures["alerts"][0]["advice"], "Investigate Context7 connectivity");
    assert_eq!(place.run(&["stats", "--log-file", "calls.jsonl", "--check"]).status, 1);
    let since = ["stats", "--log-file", "calls.jsonl", "--check", "--since", "2026-02-09"];
    assert_eq!(place.run(&since).status, 0);

    // The log from standard input, with a rotated file, and with an invalid line.
    let ended = place.run_with(&["stats", "--log-file", "-"], SOURCE);
    assert_eq!(ended.json()["total"], *total);
    place.write("calls.jsonl.1", SOURCE);
    place.write("calls.jsonl.2", format!("nonsense\n{SOURCE}{}", &SOURCE[..40]));
    let figures = place.run(&["stats", "--log-file", "calls.jsonl"]).json();
    assert_eq!(figures["total"]["calls"], 6);
    let lines = &figures["lines"];
    assert_eq!((&lines["read"], &lines["unreadable"]), (&json!(11), &json!(2)));
    assert_eq!(lines["problems"][1]["line"], 5);
    assert!(lines["problems"][1]["file"].as_str().unwrap().ends_with("calls.jsonl.2"), "{lines}");
}

#[test]
fn stats_reads_the_journal() {
    let place = Place::new();
    place.write("a", "A");
    assert_eq!(place.run(&["stats"]).json()["total"]["calls"], 0);
    place.run(&["call", "files.read_file", r#"{"path": "a"}"#]);
    place.run(&["call", "files.read_file", r#"{"path": "missing"}"#]);
    let figures = place.run(&["stats", "--tool", "read_file"]).json();
    let tool = &figures["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["calls"], &tool["errors"]),
        (&json!("files.read_file"), &json!(2), &json!(1))
    );
    assert_eq!((&tool["error_rate"], &figures["alerts"]), (&json!(0.5), &json!([])));
    for (format, part) in
        [("text", "files.read_file"), ("markdown", "# Tool calls"), ("html", "<!DOCTYPE html>")]
    {
        let file = format!("figures.{format}");
        assert_eq!(place.run(&["stats", "--format", format, "--output", &file]).stdout, "");
        assert!(place.read(&file).contains(part), "{format}");
    }
}

#[test]
fn resource_usage_is_recorded_and_summed_by_plugin() {
    let place = Place::new();
    place.write("a", "A");
    let write = json!({"path": "b", "content": "x".repeat(5000)}).to_string();
    assert_eq!(place.run(&["call", "files.write_file", &write]).status, 0);
    assert_eq!(place.run(&["call", "files.read_file", r#"{"path": "a"}"#]).status, 0);
    assert_eq!(
        place.run(&["call", "files.read_file", r#"{"path": "a"}"#, "--memory-mb", "1"]).status,
        4
    );
    let lines = place.read(".cofferdam/journal.jsonl");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = lines.iter().filter(|line| line["tool"].is_string()).collect();
    for call in &calls[..2] {
        assert!(call["memory_bytes"].as_u64().unwrap() >= 1 << 20, "{call}");
        assert!(call["host_calls"].as_u64().unwrap() > 0, "{call}");
    }
    assert!(calls[0]["written_bytes"].as_u64().unwrap() >= 5000, "{}", calls[0]);
    assert_eq!(calls[1].get("written_bytes"), None, "{}", calls[1]);
    assert_eq!(calls[2]["code"], "MemoryLimit");

    let figures = place.run(&["stats"]).json();
    let files = &figures["plugins"][0];
    assert_eq!((&files["name"], &files["calls"]), (&json!("files"), &json!(3)));
    assert_eq!((&files["errors"], &files["limits"]), (&json!(1), &json!({"MemoryLimit": 1})));
    for (sum, field) in [("host_calls", "host_calls"), ("written_bytes", "written_bytes")] {
        let wanted: u64 = calls.iter().filter_map(|call| call[field].as_u64()).sum();
        assert_eq!(files[sum], wanted, "{sum}");
    }
    let peak = calls.iter().filter_map(|call| call["memory_bytes"].as_u64()).max();
    assert_eq!(files["peak_memory_bytes"].as_u64(), peak);

    // The limits are shown beside the grants.
    let explained = place.run(&["policy", "explain", "files"]).json();
    assert_eq!(explained["limits"]["memory-mb"], 256, "{explained}");
    let explained = place.run(&["policy", "explain", "files.read_file"]).json();
    assert_eq!(explained["tool"]["limits"]["call-ms"], 30_000, "{explained}");
}

#[test]
fn files_that_are_not_logs_are_refused() {
    let place = Place::new();
    place.write("log.gz", b"\x1f\x8b\x08\0");
    for (args, part) in [
        (&["--log-file", "missing"][..], "missing: No such file"),
        (&["--log-file", "log.gz"], "zcat"),
        (&["--log-file", "."], "no file"),
        (&["--since", "yesterday"], "--since 'yesterday'"),
    ] {
        let ended = place.run(&[&["stats"], args].concat());
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
}

#[test]
fn a_healthy_host_is_healthy_and_says_so_in_the_journal() {
    let place = Place::new();
    let ended = place.run(&["health"]);
    let health = ended.json();
    assert_eq!((ended.status, &health["verdict"]), (0, &json!("healthy")), "{health:#}");
    let probes: Vec<&str> = health["probes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| probe["probe"].as_str().unwrap())
        .collect();
    assert_eq!(probes, ["engine", "call", "plugins", "sandbox", "journal"]);
    let quiet = place.run(&["health", "--quiet"]);
    assert_eq!((quiet.status, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    let figures = place.run(&["stats"]).json();
    assert_eq!(
        (&figures["health"]["checks"], &figures["health"]["healthy"]),
        (&json!(2), &json!(2))
    );
    let text = place.run(&["log", "--format", "text", "-n", "1"]).stdout;
    assert!(text.contains("  health  ") && text.ends_with("  healthy\n"), "{text}");
}

#[test]
fn a_missing_backend_degrades_and_invalid_settings_fail() {
    let place = Place::new();
    place.write("cofferdam.toml", "builders = ['nonsense']");
    let ended = place.run(&["health", "--trust-workspace"]);
    let health = ended.json();
    assert_eq!((ended.status, &health["verdict"]), (1, &json!("degraded")), "{health:#}");
    assert_eq!(health["probes"][3]["probe"], "builder nonsense");
    place.write("cofferdam.toml", "nonsense = 1");
    for _ in 0..3 {
        let ended = place.run(&["health", "--trust-workspace"]);
        assert_eq!((ended.status, &ended.json()["verdict"]), (2, &json!("failed")), "{ended:?}");
    }
    let figures = place.run(&["stats"]).json();
    assert_eq!(figures["alerts"][0]["alert"], "health-check-failures");
    let nowhere = place.run(&["health", "--workspace", "nowhere"]);
    assert_eq!(nowhere.status, 2, "{nowhere:?}");
}

/// Everything that plugins are granted outside of the host, not only backends.
#[test]
fn health_looks_at_every_granted_service() {
    let place = Place::new();
    let server = Server::plain(|_| Vec::new());
    let agent = place.script("agent.sh", "exit 1");
    let settings = |address: &str, more: &str| {
        format!(
            "[[grants.docs.http]]\norigin = 'https://context7.com'\naddress = '{address}'\n\
             [grants.team]\nfiles = 'write'\nagents = ['qa']\n\
             [agents.qa]\ncommand = [{agent:?}]\n[agents.unused]\ncommand = ['no-such-agent']\n{more}"
        )
    };
    let probes = |place: &Place| {
        let health = place.run(&["health", "--trust-workspace"]).json();
        let probe = |probe: &Value| {
            let text = |field: &str| probe[field].as_str().unwrap().to_owned();
            (text("probe"), text("verdict"), text("detail"))
        };
        let probes: Vec<_> = health["probes"].as_array().unwrap().iter().map(probe).collect();
        (health["verdict"].as_str().unwrap().to_owned(), probes)
    };
    // Nothing listens there.
    place.write("cofferdam.toml", settings("127.0.0.1:1", ""));
    let (verdict, found) = probes(&place);
    assert_eq!(verdict, "degraded");
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    let wanted = [
        "engine",
        "call",
        "plugins",
        "origin https://context7.com",
        "agent qa",
        "sandbox",
        "journal",
    ];
    assert_eq!(names, wanted);
    assert_eq!(found[3].1, "failed", "{found:?}");
    assert_eq!((found[4].1.as_str(), found[4].2.as_str()), ("healthy", agent.as_str()));
    // A service that speaks no TLS is no healthy one.
    place.write("cofferdam.toml", settings(&server.address().to_string(), ""));
    assert_eq!(probes(&place).1[3].1, "failed");
    assert_eq!(server.asked(), [""; 0]);
    let server = Server::new(|_| Vec::new());
    let address = server.address().to_string();
    let authority = format!("ca-file = '{}'\n", server.authority().display());
    let text = settings(&address, "").replacen("[grants.team]", &(authority + "[grants.team]"), 1);
    place.write("cofferdam.toml", &text);
    let (verdict, found) = probes(&place);
    assert_eq!((verdict.as_str(), found[3].1.as_str()), ("healthy", "healthy"), "{found:?}");
    assert_eq!(server.asked(), [""; 0]);
    // The program of an agent that may be asked is missing.
    let missing = text.replace(&format!("command = [{agent:?}]"), "command = ['/no/such/agent']");
    place.write("cofferdam.toml", missing);
    let (verdict, found) = probes(&place);
    assert_eq!((verdict.as_str(), found[4].1.as_str()), ("degraded", "failed"), "{found:?}");
    assert!(found[4].2.contains("/no/such/agent is not an executable file"), "{found:?}");
}

#[test]
fn refused_calls_count_under_the_tools_own_name() {
    let place = Place::new();
    place.write("a", "1");
    assert_eq!(place.run(&["call", "read_file", r#"{"path": "a"}"#]).status, 0);
    assert_eq!(place.run(&["call", "read_file", "{"]).status, 2);
    assert_eq!(place.run(&["call", "read_file", r#"{"paht": "a"}"#]).status, 2);
    let envelope = r#"{"actions": [
        {"type": "read_file", "path": 1, "more": 2}, {"type": "read_file", "path": "a"},
        {"type": "write_file", "path": "b"}, {"type": "no_such_tool"}
    ]}"#;
    assert_eq!(place.run_with(&["run"], envelope).status, 2);
    assert_eq!(place.run_with(&["run"], "prose").status, 2);
    let figures = place.run(&["stats"]).json();
    let tools: Vec<(&str, u64, u64)> = figures["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let count = |field: &str| tool[field].as_u64().unwrap();
            (tool["name"].as_str().unwrap(), count("calls"), count("errors"))
        })
        .collect();
    let wanted = [
        ("-", 1, 1),
        ("files.read_file", 4, 3),
        ("files.write_file", 1, 1),
        ("no_such_tool", 1, 1),
    ];
    assert_eq!(tools, wanted);
}

#[test]
fn saved_reports_are_summarized() {
    let place = Place::new();
    assert_eq!(place.run(&["report", "summary", "--format", "text"]).stdout, "no reports\n");
    let schema = include_str!("../schemas/tools/report.save_agent_report.input.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    for example in schema["examples"].as_array().unwrap() {
        let ended = place.run(&["call", "report.save_agent_report", &example.to_string()]);
        assert_eq!(ended.status, 0, "{ended:?}");
    }
    fs::write(place.workspace().join("reports/phase-3/notes.json"), "{}").unwrap();
    let overview = place.run(&["report", "summary"]).json();
    let first = &overview["phases"][0]["waves"][0];
    assert_eq!(first["missing"], json!(["hallucination-detector"]));
    assert_eq!(overview["unreadable"][0]["report"], "reports/phase-3/notes.json");
    assert_eq!(overview["contradictions"], json!([]));
    // The third example is by the same agent as the first one, without a wave and times. Of two
    // reports with the same number, the one with an end time is taken.
    assert_eq!(overview["totals"]["total"], 3);
    let second = place.run(&["report", "summary", "--phase", "3", "--wave", "2"]).json();
    let missing = &second["phases"][0]["waves"][0]["missing"];
    assert_eq!(missing, &json!(["code-reviewer", "test-generator"]));
    let html = place.run(&["report", "summary", "--format", "html"]).stdout;
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("SEC001"), "{html}");
}
