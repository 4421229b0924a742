//! The plugin `docs` against a server that speaks Context7's API: the examples and tables of the tool
//! schemas, through the command.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::server::{self, Server, Step};
use crate::support::{Ended, Place};

/// The key that the operator's environment has.
const KEY: &str = "ctx7sk-0123456789abcdef";

/// A place whose user has granted Context7 to the plugin, at a test server.
fn place(server: &Server, more: &str) -> Place {
    let place = Place::new();
    settings(
        &place,
        &format!(
            "[[grants.docs.http]]\norigin = 'https://context7.com'\naddress = '{}'\nca-file = '{}'\n\
             {more}\n",
            server.address(),
            server.authority().display()
        ),
    );
    place
}

fn settings(place: &Place, text: &str) {
    let file = place.home().join(".config/cofferdam/cofferdam.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Runs an envelope in the form of the tool schemas.
fn run(place: &Place, envelope: &Value) -> Ended {
    place.run_with(&["run", "-"], &envelope.to_string())
}

fn journal(place: &Place) -> Vec<Value> {
    let text = place.read(".cofferdam/journal.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The value of a field of a request's query, decoded.
fn field(head: &str, name: &str) -> String {
    let target = head.split(' ').nth(1).unwrap();
    let query = target.split_once('?').unwrap().1;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap();
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Some libraries in the format of Context7.
fn libraries() -> Value {
    let library = |id: &str, title: &str, version: &str, score: f64, description: &str| {
        json!({
            "id": id, "title": title, "description": description, "branch": "main",
            "lastUpdateDate": "2026-01-15T10:30:00.000Z", "state": "finalized",
            "totalTokens": 500_000, "totalSnippets": 2_500, "stars": 100, "trustScore": 9,
            "benchmarkScore": score, "versions": [version]
        })
    };
    json!([
        library("/encode/httpx", "HTTPX", "0.24.1", 95.0, "A next generation HTTP client"),
        library(
            "/pydantic/pydantic",
            "Pydantic",
            "2.5.0",
            98.0,
            "Data validation using type hints"
        ),
        library("/hynek/structlog", "structlog", "23.2.0", 88.0, "Structured logging for Python"),
        library("/a/twin", "Twin", "1.0.0", 1.0, "The same"),
        library("/b/twin", "Twin", "1.0.0", 1.0, "The same"),
    ])
}

/// Context7's documentation of a library.
fn documentation(id: &str) -> Value {
    let (code, text) = match id {
        "/encode/httpx" => {
            ("httpx.AsyncClient(timeout=30.0)", "httpx.Timeout(connect=5.0, read=30.0)")
        }
        "/pydantic/pydantic" => {
            ("@field_validator('field_name')\n@classmethod", "Use field_validator")
        }
        _ => ("structlog.configure(processors=[...])", "Processors and formatters"),
    };
    json!({
        "codeSnippets": [{
            "codeTitle": "Example", "codeDescription": "Shows it.", "codeLanguage": "python",
            "codeTokens": 20, "codeId": "https://docs.example/page#1", "pageTitle": "Page",
            "codeList": [{"language": "python", "code": code}]
        }],
        "infoSnippets": [{
            "pageId": "https://docs.example/page", "breadcrumb": "Guide > Page", "content": text,
            "contentTokens": 10
        }]
    })
}

/// A server with the part of Context7's public API that is needed.
fn context7() -> Server {
    Server::new(|head| {
        if head.starts_with("GET /api/v2/libs/search?") {
            let name = field(head, "libraryName").to_lowercase();
            let mut results = libraries();
            results.as_array_mut().unwrap().retain(|library| {
                library["title"].as_str().unwrap().to_lowercase().contains(&name)
            });
            return server::json(200, &json!({"results": results, "searchFilterApplied": false}));
        }
        assert!(head.starts_with("GET /api/v2/context?"), "{head}");
        let id = field(head, "libraryId");
        if !libraries().as_array().unwrap().iter().any(|library| library["id"] == *id) {
            let message = format!("Library \"{id}\" not found.");
            return server::json(404, &json!({"error": "library_not_found", "message": message}));
        }
        if field(head, "query").contains("unrelated") {
            return server::json(200, &json!({"codeSnippets": [], "infoSnippets": []}));
        }
        server::json(200, &documentation(&id))
    })
}

#[test]
fn libraries_are_found_as_in_the_source() {
    let server = context7();
    let place = place(&server, "");
    for (name, query, wanted) in [
        (
            "httpx",
            "async client timeout configuration",
            json!({"library_id": "/encode/httpx", "version": "0.24.1", "benchmark_score": 95.0}),
        ),
        (
            "pydantic",
            "Pydantic v2 ConfigDict and field_validator usage",
            json!({"library_id": "/pydantic/pydantic", "version": "2.5.0", "benchmark_score": 98.0}),
        ),
        (
            "struct",
            "structured logging with context",
            json!({"library_id": "/hynek/structlog", "version": "23.2.0", "benchmark_score": 88.0}),
        ),
        (
            "httpx",
            "AsyncClient timeout parameter",
            json!({"library_id": "/encode/httpx", "version": "0.24.1", "benchmark_score": 95.0}),
        ),
    ] {
        let envelope =
            json!({"tool": "context7_resolve_library_id", "libraryName": name, "query": query});
        let ended = run(&place, &envelope);
        assert_eq!(ended.status, 0, "{ended:?}");
        let result = ended.json();
        assert_eq!(result["status"], "success");
        assert_eq!(result["result"], wanted);
        let asked = server.asked();
        assert_eq!(field(asked.last().unwrap(), "query"), query);
    }
    let records = journal(&place);
    assert_eq!(records[0]["tool"], "docs.context7_resolve_library_id");
    assert_eq!(
        (&records[0]["library"], &records[0]["status"]),
        (&json!("httpx"), &json!("success"))
    );
    assert!(records[0]["latency_ms"].is_number() && records[0]["timestamp"].is_string());
    assert_eq!(records[0]["hosts"], json!(["https://context7.com"]));
}

#[test]
fn documentation_is_queried_as_in_the_source() {
    let server = context7();
    let place = place(&server, "");
    for (id, query, wanted) in [
        (
            "/encode/httpx",
            "How to set timeout parameter in AsyncClient constructor?",
            "httpx.AsyncClient(timeout=30.0)",
        ),
        (
            "/pydantic/pydantic",
            "What is the correct decorator for field validation in Pydantic v2?",
            "@field_validator('field_name')\n@classmethod",
        ),
        (
            "/hynek/structlog",
            "Recommended way to configure structlog for production JSON logging",
            "structlog.configure(processors=[...])",
        ),
    ] {
        let ended =
            run(&place, &json!({"tool": "context7_query_docs", "libraryId": id, "query": query}));
        assert_eq!(ended.status, 0, "{ended:?}");
        let result = &ended.json()["result"];
        assert_eq!(result["library_id"], id);
        assert_eq!(result["snippets"][0]["code"], json!([{"language": "python", "text": wanted}]));
        assert_eq!(result["explanations"][0]["title"], "Guide > Page");
    }
    // The source's own example of an id that was not resolved before, which Context7 does not know.
    let envelope = json!({
        "tool": "context7_query_docs", "libraryId": "/httpx/httpx",
        "query": "How to set timeout in AsyncClient?"
    });
    let error = run(&place, &envelope).json()["error"].clone();
    assert_eq!(error["code"], "InvalidLibraryId", "{error}");
    assert_eq!(journal(&place)[0]["library_id"], "/encode/httpx");
}

/// Every row of the two tables of failures, and other failures.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_failure_has_a_code_and_a_hint() {
    let quota = Server::new(|_| {
        let body = json!({"error": "rate_limited", "message": "Monthly quota reached."});
        server::answer(429, "Retry-After: 60\r\n", body.to_string().as_bytes())
    });
    let fine = context7();
    let resolve = |name: &str| json!({"tool": "context7_resolve_library_id", "libraryName": name, "query": "twins in use"});
    let query = |id: &str, query: &str| json!({"tool": "context7_query_docs", "libraryId": id, "query": query});
    let question = "How to set timeout parameter in AsyncClient constructor?";
    for (server, envelope, code, message, fallback) in [
        (
            &quota,
            resolve("httpx"),
            "QuotaExceeded",
            "until 60 s from now",
            Some("context7_rate_limit"),
        ),
        (
            &fine,
            resolve("leftpad"),
            "NoMatchFound",
            "mark that as unverified",
            Some("context7_no_match"),
        ),
        (&fine, resolve("twin"), "AmbiguousMatch", "refine the query with more context", None),
        (
            &fine,
            query("httpx", question),
            "InvalidLibraryId",
            "context7_resolve_library_id first",
            None,
        ),
        (
            &fine,
            query("/no/such", question),
            "InvalidLibraryId",
            "context7_resolve_library_id first",
            None,
        ),
        (
            &quota,
            query("/encode/httpx", question),
            "QuotaExceeded",
            "use what you know",
            Some("context7_rate_limit"),
        ),
        (
            &fine,
            query("/encode/httpx", "tell me about httpx"),
            "VagueQuery",
            "rephrase it as a specific question",
            None,
        ),
        (
            &fine,
            query("/encode/httpx", "something unrelated to timeouts entirely"),
            "NoResults",
            "rephrase it or try related terms",
            None,
        ),
        (
            &fine,
            query("/encode/httpx", "why is api_key=abc123def refused"),
            "SensitiveData",
            "nothing was sent",
            None,
        ),
    ] {
        let place = place(server, "");
        let ended = run(&place, &envelope);
        let error = ended.json()["error"].clone();
        assert_eq!(error["code"], code, "{ended:?}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
        assert_ne!(ended.status, 0);
        let records = journal(&place);
        assert_eq!((&records[0]["status"], &records[0]["code"]), (&json!("error"), &json!(code)));
        let event = records.get(1);
        assert_eq!(
            event.map(|event| event["event"].as_str().unwrap()),
            fallback.map(|_| "fallback_activated")
        );
        assert_eq!(event.and_then(|event| event["reason"].as_str()), fallback);
    }
}

#[test]
fn a_slow_server_is_asked_twice_then_the_fallback_is_recorded() {
    let server = Server::new(|_| vec![Step::Wait(Duration::from_secs(15))]);
    let place = place(&server, "timeout-ms = 300");
    let envelope = json!({
        "tool": "context7_query_docs", "libraryId": "/encode/httpx",
        "query": "How to set timeout parameter in AsyncClient constructor?"
    });
    let begun = Instant::now();
    let ended = run(&place, &envelope);
    assert!(begun.elapsed() < Duration::from_secs(14), "{:?}", begun.elapsed());
    let error = ended.json()["error"].clone();
    assert_eq!(error["code"], "TimeoutError", "{ended:?}");
    assert_eq!(server.asked().len(), 2);
    let records = journal(&place);
    assert_eq!(records[1]["event"], "fallback_activated");
    assert_eq!(records[1]["reason"], "context7_timeout");
    let timestamp = records[1]["timestamp"].as_str().unwrap();
    assert!(timestamp.starts_with("20") && timestamp.ends_with('Z'), "{timestamp}");
    // `log` shows both the failure and the fallback.
    let log = place.run(&["log", "--format", "text"]);
    assert!(log.stdout.contains("fallback_activated  context7_timeout"), "{log:?}");
}

/// The limit that the tool schemas prescribe: 10 s for each of two attempts.
#[test]
fn a_request_of_ten_seconds_times_out() {
    let server = Server::new(|_| vec![Step::Wait(Duration::from_secs(18))]);
    let place = place(&server, "");
    let begun = Instant::now();
    let envelope =
        json!({"tool": "context7_resolve_library_id", "libraryName": "httpx", "query": "timeouts"});
    let ended = run(&place, &envelope);
    let took = begun.elapsed();
    assert_eq!(ended.json()["error"]["code"], "TimeoutError", "{ended:?}");
    assert!((19..=34).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn a_server_that_fails_once_is_asked_again() {
    let count = AtomicUsize::new(0);
    let server = Server::new(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => server::answer(503, "", b"<html>busy</html>"),
        _ => server::json(200, &json!({ "results": libraries() })),
    });
    let place = place(&server, "");
    let envelope =
        json!({"tool": "context7_resolve_library_id", "libraryName": "httpx", "query": "timeouts"});
    assert_eq!(run(&place, &envelope).json()["result"]["library_id"], "/encode/httpx");
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_refused_connection_is_a_fallback() {
    let server = context7();
    let place = place(&server, "");
    settings(
        &place,
        "[[grants.docs.http]]\norigin = 'https://context7.com'\naddress = '127.0.0.1:1'\n",
    );
    let envelope =
        json!({"tool": "context7_resolve_library_id", "libraryName": "httpx", "query": "timeouts"});
    assert_eq!(run(&place, &envelope).json()["error"]["code"], "ConnectionError");
    assert_eq!(journal(&place)[1]["reason"], "context7_connection_error");
}

#[test]
fn the_key_is_sent_only_to_context7() {
    let server = context7();
    let place = place(&server, "headers = { Authorization = 'Bearer ${CONTEXT7_API_KEY}' }");
    let args = r#"{"libraryName": "httpx", "query": "timeouts"}"#;
    let mut command = place.command(&["call", "context7_resolve_library_id", args]);
    let output = command.env("CONTEXT7_API_KEY", KEY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let head = server.asked().pop().unwrap();
    assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
    let said = [output.stdout, output.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains(KEY));
    assert!(!place.read(".cofferdam/journal.jsonl").contains(KEY));

    let ended = place.run(&["call", "context7_resolve_library_id", args]);
    assert!(ended.stdout.contains("a variable or a file is missing"), "{ended:?}");
}

#[test]
fn without_a_grant_the_error_has_the_lines_to_add() {
    let place = Place::new();
    let args = r#"{"libraryName": "httpx", "query": "timeouts"}"#;
    let ended = place.run(&["call", "context7_resolve_library_id", args]);
    assert_eq!(ended.status, 3, "{ended:?}");
    let error = ended.json()["error"]["message"].as_str().unwrap().to_owned();
    let lines = error.split_once("by these lines in cofferdam.toml:\n").unwrap().1;
    assert_eq!(lines, "[grants.docs]\nhttp = [\"https://context7.com\"]");
    // With these lines the call gets as far as the network, which is missing, or the unknown name.
    settings(&place, &format!("{lines}\n[limits]\ncall-ms = 3000\n"));
    let ended = place.run(&["call", "context7_resolve_library_id", args]);
    assert_ne!(ended.status, 3, "{ended:?}");
}

#[test]
fn a_query_is_sent_at_most_three_times() {
    let server = context7();
    let place = place(&server, "");
    let action = |name: &str| {
        json!({
            "type": "context7_resolve_library_id", "libraryName": name, "query": "the same question"
        })
    };
    let actions: Vec<Value> = ["httpx", "pydantic", "struct", "twin"].map(action).into();
    let ended = run(&place, &json!({ "actions": actions }));
    let results = ended.json()["results"].as_array().unwrap().clone();
    let statuses: Vec<&str> =
        results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == "executed").count(), 3, "{ended:?}");
    assert!(ended.stdout.contains("may be called 3 times with the same 'query'"), "{ended:?}");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn cached_answers_are_not_requested_again() {
    let server = context7();
    let place = place(&server, "");
    let resolve = r#"{"libraryName": "httpx", "query": "timeouts"}"#;
    let query =
        r#"{"libraryId": "/encode/httpx", "query": "How to set a timeout in AsyncClient?"}"#;
    for (tool, args) in [("context7_resolve_library_id", resolve), ("context7_query_docs", query)] {
        let first = place.run(&["call", tool, args]);
        assert_eq!(first.status, 0, "{first:?}");
        assert_eq!(place.run(&["call", tool, args]).stdout, first.stdout);
    }
    assert_eq!(server.asked().len(), 2);
    let records = journal(&place);
    assert!(records[0].get("hosts").is_some() && records[1].get("hosts").is_none(), "{records:?}");
    // The cache may be deleted at any time.
    fs::remove_dir_all(place.workspace().join(".cofferdam/kept")).unwrap();
    place.run(&["call", "context7_query_docs", query]);
    assert_eq!(server.asked().len(), 3);
}
