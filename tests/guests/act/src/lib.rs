//! A component of ACT. Tests write how it lists its tools into [`MODE`], and the section `act:component`.
#![cfg(target_family = "wasm")]

use std::net::TcpStream;
use std::{env, fs, hint};

use bindings::act::core::types::{Error, LocalizedString};
use bindings::act::tools::types::{ContentPart, ListToolsResponse, ToolDefinition, ToolEvent};
use bindings::exports::act::sessions::session_provider::{self, Session};
use bindings::exports::act::tools::tool_provider::{self, Metadata, ToolResult};
use wasip3::clocks::monotonic_clock;
use wasip3::http::client;
use wasip3::http::types::{Fields, Request, Scheme};
use wasip3::wit_future;

#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "component", generate_all });
    use super::Component;
    export!(Component);
}

use bindings::wit_stream;

struct Component;

/// How the tools are listed. Tests replace what follows the colon.
static MODE: &[u8; 37] = b"the-mode-of-the-list:plain           ";

const SCHEMA: &str = r#"{"type": "object", "properties": {"value": {}}}"#;

fn mode() -> String {
    let bytes: Vec<u8> = (0..MODE.len())
        .map(|at| {
            // SAFETY: `at` is within the array. The compiler must not know the bytes, since tests change them.
            unsafe { std::ptr::read_volatile(MODE.as_ptr().add(at)) }
        })
        .collect();
    let text = String::from_utf8_lossy(&bytes);
    text.split_once(':').map(|(_, mode)| mode.trim().to_owned()).unwrap_or_default()
}

fn plain(text: impl Into<String>) -> LocalizedString {
    LocalizedString::Plain(text.into())
}

fn error(kind: &str, message: &str) -> Error {
    Error { kind: kind.to_owned(), message: plain(message), metadata: Vec::new() }
}

fn failed(kind: &str, message: &str) -> ToolEvent {
    ToolEvent::Error(error(kind, message))
}

fn content(mime_type: &str, data: impl Into<Vec<u8>>) -> ToolEvent {
    let mime_type = Some(mime_type.to_owned()).filter(|name| !name.is_empty());
    ToolEvent::Content(ContentPart { data: data.into(), mime_type, metadata: Vec::new() })
}

fn tool(name: &str, schema: &str, read_only: bool) -> ToolDefinition {
    let metadata = match read_only {
        true => vec![("std:read-only".to_owned(), vec![0xf5])],
        false => Vec::new(),
    };
    ToolDefinition {
        name: name.to_owned(),
        description: LocalizedString::Localized(vec![
            ("de".to_owned(), format!("Das Werkzeug {name}.")),
            ("en".to_owned(), format!("The tool {name}.")),
        ]),
        parameters_schema: schema.to_owned(),
        metadata,
    }
}

/// The tools that an honest list has.
fn honest() -> Vec<ToolDefinition> {
    let names = [
        "arguments",
        "metadata",
        "parts",
        "nothing",
        "fails",
        "late",
        "events",
        "silence",
        "damaged",
        "deep",
        "large",
        "files",
        "crash",
    ];
    names.iter().map(|name| tool(name, SCHEMA, *name == "arguments")).collect()
}

/// Tries files, the environment and a request to a port of this machine.
async fn reach(port: &str) -> String {
    let outcome = |worked: bool| if worked { "worked" } else { "failed" };
    let read = fs::read_dir("/").is_ok() || fs::read("/workspace/secret").is_ok();
    let written = fs::write("/tmp/x", "x").is_ok() || fs::write("x", "x").is_ok();
    let (trailers, no_trailers) = wit_future::new(|| Ok(None));
    drop(trailers);
    let (request, _sent) = Request::new(Fields::new(), None, no_trailers, None);
    let addressed = request.set_scheme(Some(&Scheme::Http)).is_ok()
        && request.set_authority(Some(&format!("127.0.0.1:{port}"))).is_ok();
    let requested = addressed && client::send(request).await.is_ok();
    format!(
        "read {}, write {}, environment {}, request {}",
        outcome(read),
        outcome(written),
        env::vars().count() + env::args().count(),
        outcome(requested)
    )
}

impl tool_provider::Guest for Component {
    async fn list_tools(_: Metadata) -> Result<ListToolsResponse, Error> {
        let mode = mode();
        let (mode, port) = mode.split_once(' ').unwrap_or((&mode, ""));
        let tools = match mode {
            "plain" => honest(),
            "trap" => std::process::abort(),
            "spin" => loop {
                hint::spin_loop();
            },
            "wait" => loop {
                monotonic_clock::wait_for(1_000_000_000).await;
            },
            "error" => return Err(error("std:internal", "no list today")),
            "none" => Vec::new(),
            "twice" => vec![tool("one", SCHEMA, false), tool("one", SCHEMA, false)],
            "many" => (0..2_000).map(|at| tool(&format!("tool-{at}"), SCHEMA, false)).collect(),
            "large" => vec![ToolDefinition {
                description: plain("x".repeat(4 << 20)),
                ..tool("one", SCHEMA, false)
            }],
            "schemas" => {
                let text = "x".repeat(1_000);
                let schema = format!(r#"{{"type": "object", "description": "{text}"}}"#);
                (0..500).map(|at| tool(&format!("tool-{at}"), &schema, false)).collect()
            }
            "partly" => {
                let nested = |depth: usize| {
                    let (open, close) = (r#"{"not": "#.repeat(depth), "}".repeat(depth));
                    format!(r#"{{"type": "object", "properties": {{"a": {open}{{}}{close}}}}}"#)
                };
                vec![
                    tool("Not a name", SCHEMA, false),
                    tool("no-json", "{", false),
                    tool("no-object", r#"{"type": "string"}"#, false),
                    tool("no-schema", r#"{"type": "object", "properties": 7}"#, false),
                    tool("elsewhere", r#"{"type": "object", "$ref": "http://127.0.0.1/x"}"#, false),
                    tool("deep", &nested(90), false),
                    tool("deeper", &nested(10_000), false),
                    tool("of-session", r#"{"type":"object","properties":{"session":{}}}"#, false),
                    tool("good", SCHEMA, false),
                ]
            }
            "reach" => vec![ToolDefinition {
                description: plain(reach(port).await),
                ..tool("one", SCHEMA, false)
            }],
            "socket" => {
                let reached = TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
                vec![tool(if reached { "reached" } else { "refused" }, SCHEMA, false)]
            }
            mode => return Err(error("std:internal", &format!("no mode '{mode}'"))),
        };
        Ok(ListToolsResponse { metadata: Vec::new(), tools })
    }

    async fn call_tool(name: String, arguments: Vec<u8>, metadata: Metadata) -> ToolResult {
        let now = |event| ToolResult::Immediate(vec![event]);
        match name.as_str() {
            "arguments" => now(content("application/cbor", arguments)),
            "metadata" => now(content("application/cbor", map(&metadata))),
            "parts" => stream(parts()),
            "nothing" => ToolResult::Immediate(Vec::new()),
            "fails" => now(failed("std:not-found", "there is none")),
            "late" => stream(vec![
                content("text/plain", "first"),
                failed("example:late\n", "too late"),
                content("text/plain", "last"),
            ]),
            "events" => endless(),
            "silence" => silent(),
            "damaged" => now(content("application/cbor", [0x9b, 0x7f, 0xff])),
            "deep" => now(content("application/cbor", [0x81].repeat(1 << 16))),
            "large" => stream(vec![content("", vec![0; 16 << 20])]),
            "files" => now(match fs::write("/workspace/by-act", "written") {
                Ok(()) => content("text/plain", "written"),
                Err(why) => failed("std:capability-denied", &why.to_string()),
            }),
            "crash" => std::process::abort(),
            _ => now(failed("std:not-found", "no such tool")),
        }
    }
}

/// A map of CBOR with fewer than 24 keys, each shorter than 24 bytes.
fn map(fields: &Metadata) -> Vec<u8> {
    let mut bytes = vec![0xa0 | fields.len() as u8];
    for (key, value) in fields {
        bytes.push(0x60 | key.len() as u8);
        bytes.extend(key.as_bytes());
        bytes.extend(value);
    }
    bytes
}

fn parts() -> Vec<ToolEvent> {
    vec![
        content("text/plain; charset=utf-8", "text"),
        content("application/json", r#"{"a": [1, 2]}"#),
        content("application/cbor", [0x82, 1, 2]),
        content("image/png", *b"\x89PNG"),
        content("text/plain", *b"\xff"),
        content("", *b"hi"),
    ]
}

/// Returns these events as a stream.
fn stream(events: Vec<ToolEvent>) -> ToolResult {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        for event in events {
            writer.write_all(vec![event]).await;
        }
    });
    ToolResult::Streaming(reader)
}

/// A stream of events that does not end.
fn endless() -> ToolResult {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        loop {
            writer.write_all(vec![content("text/plain", Vec::new())]).await;
        }
    });
    ToolResult::Streaming(reader)
}

/// A stream without events that does not end.
fn silent() -> ToolResult {
    let (writer, reader) = wit_stream::new::<ToolEvent>();
    wit_bindgen::spawn_local(async move {
        monotonic_clock::wait_for(u64::MAX).await;
        drop(writer);
    });
    ToolResult::Streaming(reader)
}

impl session_provider::Guest for Component {
    async fn get_open_session_args_schema(_: Metadata) -> Result<String, Error> {
        Ok(r#"{"type": "object", "properties": {"of": {"type": "string"}, "size": {"type": "integer"}},
            "required": ["of"]}"#
            .to_owned())
    }

    async fn open_session(args: Metadata, _: Metadata) -> Result<Session, Error> {
        if args.is_empty() {
            return Err(error("std:invalid-args", "'of' is missing"));
        }
        // The name has what it was opened with, so that a test sees it.
        let id = map(&args).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Session { id, metadata: Vec::new() })
    }

    fn close_session(id: String) {
        let _ = fs::write("/workspace/closed", id);
    }
}
