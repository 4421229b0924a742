#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
use serde_json::json;

use super::*;

/// The three lines in the tool schemas, "Log Format for MCP Calls".
const LOG_EXAMPLE: &str = r#"{"timestamp": "2026-02-08T10:30:00Z", "tool": "context7_resolve_library_id", "library": "httpx", "latency_ms": 234, "status": "success"}
{"timestamp": "2026-02-08T10:30:05Z", "tool": "context7_query_docs", "library_id": "/encode/httpx", "latency_ms": 456, "status": "success"}
{"timestamp": "2026-02-08T10:30:10Z", "event": "fallback_activated", "reason": "context7_timeout"}
"#;

fn summary_of(filter: Filter, text: &str) -> Summary {
    let mut stats = Stats::new(filter);
    stats.read("calls.jsonl", Lines::new(text.as_bytes())).unwrap();
    stats.summary()
}

fn summary(text: &str) -> Summary {
    summary_of(Filter::default(), text)
}

fn call(tool: &str, latency_ms: f64, status: &str) -> String {
    json!({"timestamp": "2026-02-08T10:30:00Z", "tool": tool, "latency_ms": latency_ms, "status": status})
        .to_string()
        + "\n"
}

fn fallback(reason: &str, tool: Option<&str>) -> String {
    let mut event = json!({"timestamp": "2026-02-08T10:30:00Z", "event": "fallback_activated", "reason": reason});
    if let Some(tool) = tool {
        event["tool"] = json!(tool);
    }
    event.to_string() + "\n"
}

/// The alerts, each as `kind scope`.
fn alerts(text: &str) -> Vec<String> {
    let alerts = summary(text).alerts;
    let word = |alert: &Alert| {
        format!("{} {}", serde_json::to_value(alert.alert).unwrap().as_str().unwrap(), alert.scope)
    };
    alerts.iter().map(word).collect()
}

#[test]
fn the_example_log_gives_the_documented_metrics() {
    let summary = summary(LOG_EXAMPLE);
    let Scope { calls, errors, error_rate, fallbacks, fallback_rate, latency_ms, .. } =
        &summary.total;
    assert_eq!((*calls, *errors, *error_rate), (2, 0, Some(0.0)));
    assert_eq!((*fallbacks, *fallback_rate), (1, Some(0.5)));
    let wanted =
        Figures { avg: 345.0, p50: 234.0, p95: 456.0, p99: 456.0, max: 456.0, relative_error: 0.0 };
    assert_eq!(*latency_ms, wanted);
    let counts: Vec<(&str, u64)> =
        summary.tools.iter().map(|tool| (tool.name.as_str(), tool.calls)).collect();
    assert_eq!(counts, [("context7_query_docs", 1), ("context7_resolve_library_id", 1)]);
    assert_eq!(summary.lines, LineCount { read: 3, unreadable: 0, problems: Vec::new() });
    let Period { from, to } = summary.period.unwrap();
    assert_eq!(format!("{from} {to}"), "2026-02-08T10:30:00Z 2026-02-08T10:30:10Z");

    assert_eq!(summary.fallbacks.reasons, BTreeMap::from([("context7_timeout".to_owned(), 1)]));
    let source =
        FallbackSource { source: "context7".to_owned(), fallbacks: 1, calls: 2, rate: Some(0.5) };
    assert_eq!(summary.fallbacks.sources, [source]);
    let [alert] = &summary.alerts[..] else { panic!("{summary:?}") };
    assert_eq!((alert.alert, alert.scope.as_str()), (AlertKind::FallbackRate, "total"));
    assert_eq!((alert.value, alert.threshold), (Some(0.5), 0.1));
    assert_eq!(alert.advice, "Investigate Context7 connectivity");
}

#[test]
fn a_fallback_rate_at_the_threshold_is_not_an_alert() {
    let text = |calls: usize, fallbacks: usize| {
        call("context7_query_docs", 1.0, "success").repeat(calls)
            + &fallback("context7_timeout", None).repeat(fallbacks)
    };
    assert_eq!(alerts(&text(10, 0)), [""; 0]);
    assert_eq!(alerts(&text(10, 1)), [""; 0]);
    assert_eq!(alerts(&text(20, 2)), [""; 0]);
    assert_eq!(alerts(&text(9, 1)), ["fallback-rate total"]);
    assert_eq!(alerts(&text(29, 3)), ["fallback-rate total"]);
    assert_eq!(alerts(&text(0, 1)), ["fallback-rate total"]);
    assert_eq!(summary(&text(0, 1)).total.fallback_rate, None);
}

#[test]
fn a_p95_at_the_threshold_is_not_an_alert() {
    let text = |slow: usize, latency: f64| {
        call("a", 1.0, "success").repeat(100 - slow) + &call("a", latency, "success").repeat(slow)
    };
    assert_eq!(alerts(&text(6, 5000.0)), [""; 0]);
    assert_eq!(alerts(&text(6, 5000.001)), ["p95-latency total"]);
    // Five slow calls out of a hundred are above the 95th percentile.
    assert_eq!(alerts(&text(5, 9000.0)), [""; 0]);
    let advice = &summary(&text(6, 5001.0)).alerts[0].advice;
    assert_eq!(advice, "Check server load or network");
}

#[test]
fn slow_programs_and_agents_are_no_alert() {
    let with = |field: &str, value: serde_json::Value| {
        let mut line: serde_json::Value =
            serde_json::from_str(&call("tests.run_tests", 60_000.0, "success")).unwrap();
        line[field] = value;
        line.to_string() + "\n"
    };
    let tests = with("programs", json!(1)).repeat(10);
    assert_eq!(alerts(&tests), [""; 0]);
    assert_eq!(summary(&tests).total.latency_ms.p95, 60_000.0);
    assert_eq!(alerts(&with("agents", json!(["qa"])).repeat(10)), [""; 0]);
    // A slow service is an alert among slow tests.
    let service = call("docs.context7_query_docs", 6000.0, "success");
    let wanted = ["p95-latency total", "p95-latency docs.context7_query_docs"];
    assert_eq!(alerts(&(tests + &service)), wanted);
    assert_eq!(alerts(&with("hosts", json!(["https://a.example"])))[0], "p95-latency total");
}

#[test]
fn tools_and_services_have_their_own_alerts() {
    let slow =
        call("grep.grep", 1.0, "success").repeat(100) + &call("docs.search", 6000.0, "success");
    assert_eq!(alerts(&slow), ["p95-latency docs.search"]);
    // 4 fallbacks in 100 calls, but in 2 calls of the service.
    let hidden = call("grep.grep", 1.0, "success").repeat(98)
        + &call("docs.context7_query_docs", 1.0, "error").repeat(2)
        + &fallback("context7_timeout", None).repeat(2)
        + &fallback("timeout", Some("docs.context7_query_docs")).repeat(2);
    let wanted = ["fallback-rate context7", "fallback-rate docs.context7_query_docs"];
    assert_eq!(alerts(&hidden), wanted);
    let summary = summary(&hidden);
    assert_eq!(summary.alerts[1].advice, "Investigate Context7 connectivity");
    let docs = &summary.tools[0];
    assert_eq!(
        (docs.name.as_str(), docs.errors, docs.fallbacks),
        ("docs.context7_query_docs", 2, 2)
    );
    assert_eq!((summary.total.calls, summary.total.fallback_rate), (100, Some(0.04)));
    let elsewhere = call("a", 1.0, "success").repeat(50) + &fallback("mirror_down", None);
    assert_eq!(alerts(&elsewhere), ["fallback-rate mirror"]);
    assert_eq!(self::summary(&elsewhere).alerts[0].advice, "Investigate mirror connectivity");
}

#[test]
fn calls_are_counted_by_outcome() {
    let ours = |outcome: &str, status: &str| {
        json!({
            "timestamp": "2026-02-08T10:30:00.5Z", "tool": "files.read", "latency_ms": 0.25,
            "status": status, "outcome": outcome, "call": "c", "output_bytes": 0,
        })
        .to_string()
            + "\n"
    };
    let text = [
        ours("executed", "success"),
        ours("denied", "error"),
        ours("limit", "error"),
        ours("skipped", "error"),
        call("files.read", 0.25, "rate_limited"),
        r#"{"timestamp":"2026-02-08T10:31:00Z","commit":"c1","calls":[],"paths":0,"changes":[]}"#
            .to_owned(),
    ];
    let summary = summary(&text.concat());
    let total = &summary.total;
    assert_eq!((total.calls, total.errors, total.skipped), (4, 3, 1));
    assert_eq!((total.error_rate, summary.commits), (Some(0.75), 1));
    assert_eq!(total.outcomes[&Status::Error], 1);
}

#[test]
fn unreadable_lines_are_listed_and_skipped() {
    let torn = &LOG_EXAMPLE[..LOG_EXAMPLE.len() - 20];
    let text = format!("nonsense\n\n{{\"level\":\"info\"}}\n{torn}");
    let summary = summary(&text);
    let lines = &summary.lines;
    assert_eq!((lines.read, lines.unreadable, summary.total.calls), (5, 3, 2));
    let problems: Vec<(&str, u64)> =
        lines.problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
    assert_eq!(problems, [("calls.jsonl", 1), ("calls.jsonl", 3), ("calls.jsonl", 6)]);
    assert!(lines.problems[2].problem.starts_with("cut off"), "{lines:?}");
    let many = self::summary(&"nonsense\n".repeat(1000)).lines;
    assert_eq!((many.unreadable, many.problems.len()), (1000, 20));
}

#[test]
fn filters_select_by_time_and_tool() {
    let text = LOG_EXAMPLE.to_owned()
        + &call("docs.context7_query_docs", 3.0, "success").replace("10:30", "12:00")
        + &call("grep.grep", 3.0, "success").replace("10:30", "12:00");
    let of = |since: Option<&str>, tool: Option<&str>| {
        let since = since.map(|since| since.parse().unwrap());
        let summary = summary_of(Filter { since, tool: tool.map(str::to_owned) }, &text);
        (summary.total.calls, summary.total.fallbacks)
    };
    assert_eq!(of(None, None), (4, 1));
    assert_eq!(of(Some("2026-02-08T10:30:05Z"), None), (3, 1));
    assert_eq!(of(Some("2026-02-08T10:30:05.001Z"), None), (2, 1));
    assert_eq!(of(Some("2026-02-08T13:30:00+01:00"), None), (0, 0));
    assert_eq!(of(None, Some("context7_query_docs")), (2, 1));
    assert_eq!(of(None, Some("docs.context7_query_docs")), (1, 1));
    assert_eq!(of(None, Some("grep.grep")), (1, 0));
    assert_eq!(of(None, Some("nothing")), (0, 0));
}

#[test]
fn names_beyond_the_limit_are_counted_together() {
    let text: String = (0..2000)
        .map(|n| call(&format!("tool-{n:04}-{}", "x".repeat(500)), 1.0, "error"))
        .collect();
    let summary = summary(&text);
    assert_eq!((summary.tools.len(), summary.total.calls), (MAX_NAMES + 1, 2000));
    let others = &summary.tools[0];
    assert_eq!((others.name.as_str(), others.calls), (OTHER_NAMES, 1500));
    assert!(summary.tools.iter().all(|tool| tool.name.len() <= MAX_NAME_BYTES + 3));
}

#[test]
fn consecutive_failed_health_checks_are_an_alert() {
    let check = |minute: u32, verdict: &str| {
        json!({"timestamp": format!("2026-02-08T10:{minute:02}:00Z"), "event": "health_check",
            "verdict": verdict, "latency_ms": 12_000, "failed": ["call"]})
        .to_string()
            + "\n"
    };
    let failing =
        [check(0, "healthy"), check(1, "failed"), check(2, "failed"), check(3, "failed")].concat();
    assert_eq!(alerts(&failing), ["health-check-failures health"]);
    let health = summary(&failing).health;
    assert_eq!((health.checks, health.healthy, health.failed), (4, 1, 3));
    assert_eq!(alerts(&failing[..failing.len() - 5]), [""; 0]);
}

#[test]
fn usage_is_summed_by_plugin() {
    let ours = |tool: &str, outcome: &str, code: Option<&str>, used: [u64; 4]| {
        let status = if outcome == "executed" { "success" } else { "error" };
        let mut line = json!({
            "timestamp": "2026-02-08T10:30:00.5Z", "tool": tool, "latency_ms": 1500.0,
            "status": status, "outcome": outcome, "call": "c", "output_bytes": used[0],
            "memory_bytes": used[1], "host_calls": used[2], "written_bytes": used[3],
        });
        if let Some(code) = code {
            line["code"] = json!(code);
        }
        line.to_string() + "\n"
    };
    let text = [
        ours("files.read", "executed", None, [10, 3 << 20, 5, 0]),
        ours("files.write_file", "executed", None, [20, 2 << 20, 7, 2000]),
        ours("files.read", "limit", Some("MemoryLimit"), [0, 256 << 20, u64::MAX, 0]),
        ours("files.read", "skipped", Some("Skipped"), [0, 0, 0, 0]),
        ours("grep.grep", "denied", Some("NotGranted"), [0, 0, 0, 0]),
        // This plugin does not exist.
        ours("nothing.of_ours", "error", Some("UnknownTool"), [0, 0, 0, 0]),
        // Lines of other programs name no plugin.
        call("context7_query_docs", 1.0, "success"),
    ];
    let summary = summary(&text.concat());
    let [files, grep] = &summary.plugins[..] else { panic!("{:?}", summary.plugins) };
    assert_eq!((files.name.as_str(), files.calls, files.errors), ("files", 3, 1));
    assert_eq!(files.limits, BTreeMap::from([("MemoryLimit".to_owned(), 1)]));
    assert_eq!((files.time_ms, files.p95_ms), (4500.0, 1500.0));
    assert_eq!((files.peak_memory_bytes, files.host_calls), (256 << 20, u64::MAX));
    assert_eq!((files.answered_bytes, files.written_bytes), (30, 2000));
    assert_eq!((grep.name.as_str(), grep.calls, grep.errors), ("grep", 1, 1));
    let row = summary.to_text();
    let row = row.lines().find(|line| line.starts_with("files  ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let host_calls = u64::MAX.to_string();
    assert_eq!(
        cells,
        ["files", "3", "1", "1", "4.5", "1500", "256", host_calls.as_str(), "1", "2"]
    );
    for text in [summary.to_text(), summary.to_markdown("T"), summary.to_html("T")] {
        assert!(text.contains("files: MemoryLimit 1"), "{text}");
        assert!(text.contains("memory MiB"), "{text}");
    }
    assert!(!self::summary(LOG_EXAMPLE).to_html("T").contains("Plugins"));
}

#[test]
fn all_formats_are_complete_and_escaped() {
    let hostile = "<script>alert(1)</script>|\u{1b}[2J\u{202e}`*";
    let text = LOG_EXAMPLE.to_owned()
        + &call(hostile, 6000.0, "error")
        + &fallback(hostile, Some(hostile))
        + "{\"tool\": \"<img>\"}\n";
    let summary = summary(&text);
    let html = summary.to_html("T");
    for text in [&summary.to_text(), &summary.to_markdown("T"), &html] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        for part in ["context7_timeout", "456", "Check server load or network"] {
            assert!(text.replace('\\', "").contains(part), "{part}: {text}");
        }
    }
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
    assert!(
        !html.contains("http:") && !html.contains("https:") && !html.contains("src="),
        "{html}"
    );
    assert!(summary.to_markdown("T").contains(r"\<script\>alert(1)\</script\>\|"));
    let nothing = self::summary("");
    assert_eq!((nothing.period, nothing.alerts.len(), nothing.total.calls), (None, 0, 0));
    assert!(nothing.to_html("T").contains("nothing is on record"));
    assert!(nothing.to_text().starts_with("nothing is on record\n"));
}

#[test]
fn callers_are_named_by_client_role_and_agent() {
    let line = |who: serde_json::Value| {
        let mut call: serde_json::Value =
            serde_json::from_str(&call("a.b", 1.0, "success")).unwrap();
        call.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
        call.to_string() + "\n"
    };
    let log = [
        json!({"client": "c 1", "role": "coder", "agent": "opus"}),
        json!({"client": "c 1", "role": "coder"}),
        json!({"client": "c 1", "agent": "opus"}),
        json!({"client": "cli"}),
        json!({"client": "cli"}),
        json!({}),
    ]
    .map(line)
    .concat();
    let callers: Vec<(String, u64)> = summary(&log).callers.into_iter().collect();
    let wanted =
        [("c 1 (agent opus)", 1), ("c 1 (coder)", 1), ("c 1 (coder, agent opus)", 1), ("cli", 2)];
    assert_eq!(callers, wanted.map(|(name, count)| (name.to_owned(), count)));
}
