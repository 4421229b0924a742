//! Parsing messages, and the errors for those that can't be parsed. A duplicate key is an error, as it
//! is in envelopes.
//!
//! Source: JSON-RPC 2.0, section 5: an error has the id null if that of the request can't be read.

use std::fmt;

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ClientRequest, ConstString as _, ErrorCode, InitializeResultMethod, JsonObject,
    JsonRpcVersion2_0, RequestId, SubscriptionsListenRequestMethod,
};
use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use cofferdam_core::envelope;
use cofferdam_core::schema::show;

/// Reads a message from its document, or from its text.
///
/// # Errors
/// JSON that is not a message of MCP.
pub(super) fn read(document: Value, text: &[u8]) -> Result<ClientJsonRpcMessage, Malformed> {
    if document["method"] == CallToolRequestMethod::VALUE
        && let Ok(call) = ToolCall::deserialize(document)
    {
        return Ok(call.into());
    }
    serde_json::from_slice(text).map_err(|_| Malformed::new(text))
}

/// Parses a message as JSON.
///
/// # Errors
/// Text that is not JSON, has a duplicate key, or exceeds the maximum number of values.
pub(super) fn parse(text: &[u8]) -> Result<Value, Malformed> {
    counted(text).map(|(document, _)| document)
}

/// Parses a message as [`parse`] does, and counts its values.
///
/// # Errors
/// See [`parse`].
pub(super) fn counted(text: &[u8]) -> Result<(Value, usize), Malformed> {
    let not_json = |why: String| Malformed {
        id: Head::of(text).id(),
        code: ErrorCode::PARSE_ERROR,
        problem: format!("the message is not JSON: {why}"),
        notification: false,
    };
    let utf8 = str::from_utf8(text).map_err(|error| not_json(error.to_string()))?;
    let counted = envelope::parse_counted(utf8, envelope::MAX_VALUES).map_err(|error| {
        // The rest is only checked, not kept: it may be large.
        match (error.classify(), serde_json::from_str::<IgnoredAny>(utf8)) {
            (Category::Data, Ok(_)) => Malformed::of(&Head::of(text), error.to_string()),
            _ => not_json(error.to_string()),
        }
    })?;
    let (document, values) = &counted;
    let is_large = text.len() > MAX_INITIALIZE_BYTES || *values > MAX_INITIALIZE_VALUES;
    if is_large && document["method"] == InitializeResultMethod::VALUE {
        let problem = format!(
            "`initialize` has at most {MAX_INITIALIZE_BYTES} bytes and {MAX_INITIALIZE_VALUES} values"
        );
        return Err(Malformed::of(&Head::of(text), problem));
    }
    Ok(counted)
}

/// The maximum size of an `initialize` in bytes: each session keeps what its client says of itself.
const MAX_INITIALIZE_BYTES: usize = 8 << 10;

/// The maximum number of values of an `initialize`, names of fields included.
const MAX_INITIALIZE_VALUES: usize = 200;

/// A message and the arguments of its call, separated.
pub(super) struct Split {
    pub rest: Value,
    /// `rest` as text.
    pub text: String,
    pub arguments: Option<JsonObject>,
    /// The number of values of the whole message.
    pub values: usize,
}

/// Separates the arguments from a large message.
///
/// # Errors
/// See [`parse`]; a message that is large without arguments.
pub(super) fn split(text: &[u8]) -> Result<Split, Malformed> {
    let (mut rest, values) = counted(text)?;
    let mut arguments = None;
    if rest["method"] == CallToolRequestMethod::VALUE
        && let Some(Value::Object(params)) = rest.get_mut("params")
        && params.get("arguments").is_some_and(Value::is_object)
        && let Some(Value::Object(found)) = params.shift_remove("arguments")
    {
        arguments = Some(found);
    }
    if envelope::size(&rest) > MAX_REST_BYTES || envelope::count(&rest) > MAX_REST_VALUES {
        let problem = format!(
            "a message has at most {MAX_REST_BYTES} bytes and {MAX_REST_VALUES} values besides the arguments \
             of a tool"
        );
        return Err(Malformed::of(&Head::of(text), problem));
    }
    hide(&mut rest);
    Ok(Split { text: rest.to_string(), rest, arguments, values })
}

/// The parameter that says what a client listens for, and what it is called while it is hidden.
pub(super) const FILTER: &str = "notifications";
pub(super) const HIDDEN: &str = "cofferdam/notifications";

/// Hides from the library what a client listens for: it would drop the ids of tasks, and answer the request by
/// itself. Returns whether the message is such a request.
pub(super) fn hide(message: &mut Value) -> bool {
    if message["method"] != SubscriptionsListenRequestMethod::VALUE {
        return false;
    }
    let Some(Value::Object(params)) = message.get_mut("params") else { return false };
    if !params.get(FILTER).is_some_and(Value::is_object) {
        return false;
    }
    let filter = params.shift_remove(FILTER).unwrap_or_default();
    params.insert(HIDDEN.to_owned(), filter);
    true
}

/// The maximum size of a message without the arguments of a tool, in bytes. Valid ones are far smaller.
const MAX_REST_BYTES: usize = 256 << 10;

/// The maximum number of its values without the arguments, names of fields included.
const MAX_REST_VALUES: usize = 10_000;

/// A call of a tool. It is parsed directly, since the library would try every other message first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCall {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

impl From<ToolCall> for ClientJsonRpcMessage {
    fn from(call: ToolCall) -> Self {
        let mut request = CallToolRequest::new(call.params);
        if let Some(meta) = request.params.meta.take() {
            request.extensions.insert(meta);
        }
        Self::request(ClientRequest::CallToolRequest(request), call.id)
    }
}

/// Why a message is refused.
#[derive(Debug)]
pub(super) struct Malformed {
    /// Null if it can't be read.
    id: Value,
    code: ErrorCode,
    problem: String,
    /// Whether it is a notification, which gets no answer.
    pub notification: bool,
}

impl Malformed {
    /// For a message that is not one of MCP.
    pub fn new(message: &[u8]) -> Self {
        parse(message).map_or_else(|malformed| malformed, |message| Self::invalid(&message))
    }

    /// For a message that exceeds the maximum size of the settings.
    pub fn too_long(most: usize) -> Self {
        Self {
            id: Value::Null,
            code: ErrorCode::PARSE_ERROR,
            problem: format!(
                "the message is longer than {most} bytes (`envelope-mb` in `[limits]`)"
            ),
            notification: false,
        }
    }

    /// For a message that exceeds a budget.
    pub fn busy(message: &[u8]) -> Self {
        let problem = "the server holds as many messages as it can; try again later";
        Self { code: ErrorCode(BUSY), ..Self::of(&Head::of(message), problem.to_owned()) }
    }

    fn invalid(message: &Value) -> Self {
        let problem = match message {
            Value::Object(fields) => problem(fields),
            other => format!("expected a message, which is an object, found {}", show(other)),
        };
        let head = Head {
            id: message.get("id").map(|id| Id(if is_id(id) { id.clone() } else { Value::Null })),
            method: message.get("method").map(|_| IgnoredAny),
        };
        Self::of(&head, problem)
    }

    /// For a message that is JSON.
    fn of(head: &Head, problem: String) -> Self {
        let notification = head.method.is_some() && head.id.is_none();
        Self { notification, id: head.id(), code: ErrorCode::INVALID_REQUEST, problem }
    }

    /// Returns the error response of JSON-RPC.
    pub fn answer(&self) -> Value {
        let error = json!({"code": self.code, "message": self.problem});
        json!({"jsonrpc": "2.0", "id": self.id, "error": error})
    }
}

/// The code for a message that exceeds a budget (JSON-RPC 2.0, section 5.1: codes from -32000 on are
/// defined by the server).
const BUSY: i32 = -32000;

/// What can be read of a message even if the rest is not valid, if it is an object.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default, deserialize_with = "found")]
    id: Option<Id>,
    method: Option<IgnoredAny>,
}

/// An id; null if it has an invalid type.
struct Id(Value);

/// Reads a field that exists. One of an invalid type is skipped: it may be large.
fn found<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Id>, D::Error> {
    struct Scalar;
    impl Visitor<'_> for Scalar {
        type Value = Id;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or an integer")
        }
        fn visit_i64<E>(self, id: i64) -> Result<Id, E> {
            Ok(Id(id.into()))
        }
        fn visit_u64<E>(self, id: u64) -> Result<Id, E> {
            Ok(Id(id.into()))
        }
        fn visit_str<E>(self, id: &str) -> Result<Id, E> {
            Ok(Id(id.into()))
        }
    }
    deserializer.deserialize_any(Scalar).map(Some)
}

impl Head {
    fn of(message: &[u8]) -> Self {
        serde_json::from_slice(message).unwrap_or_default()
    }

    /// Returns the id of a request. That of an answer is a number of the server.
    fn id(&self) -> Value {
        let id = self.id.as_ref().filter(|id| self.method.is_some() && is_id(&id.0));
        id.map_or(Value::Null, |id| id.0.clone())
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64()
}

fn problem(fields: &Map<String, Value>) -> String {
    let wrong = |at: &str, expected: &str, found: Option<&Value>| {
        let found = found.map_or_else(|| "nothing".to_owned(), show);
        format!("{at}: expected {expected}, found {found}")
    };
    let version = fields.get("jsonrpc");
    if version.is_none_or(|version| version != "2.0") {
        return wrong("/jsonrpc", "\"2.0\"", version);
    }
    if let Some(id) = fields.get("id").filter(|id| !is_id(id)) {
        return wrong("/id", "a string or an integer", Some(id));
    }
    let is_answer = ["result", "error"].iter().any(|field| fields.contains_key(*field));
    let method = fields.get("method");
    if !is_answer && !method.is_some_and(Value::is_string) {
        return wrong("/method", "a string", method);
    }
    let params = fields.get("params");
    if let Some(params) = params.filter(|params| !params.is_object()) {
        return wrong("/params", "an object", Some(params));
    }
    let meta = params.and_then(|params| params.get("_meta"));
    if let Some(meta) = meta.filter(|meta| !meta.is_object()) {
        return wrong("/params/_meta", "an object", Some(meta));
    }
    "this is no request, notification or answer of MCP".to_owned()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use rmcp::model::{GetExtensions as _, JsonRpcMessage, RequestMetaObject};

    use super::*;

    fn whole(text: &str) -> Result<ClientJsonRpcMessage, Malformed> {
        read(parse(text.as_bytes())?, text.as_bytes())
    }

    /// The library knows all messages, and what is read here is what it would read.
    #[test]
    fn a_call_is_read_as_the_library_reads_it() {
        let call = |rest: &str| {
            format!(r#"{{"id":"a","jsonrpc":"2.0","method":"tools/call","params":{{{rest}}}}}"#)
        };
        for rest in [
            r#""name":"grep""#,
            r#""name":"a__b","arguments":{"path":"a","lines":[1,{"b":null}]},"other":1"#,
            r#""name":"a","arguments":null,"_meta":{"progressToken":7,"a":{"b":"c"}}"#,
            r#""name":"a","requestState":"s","inputResponses":{"a":{"action":"accept"}}"#,
        ] {
            let text = call(rest);
            let found = whole(&text).unwrap();
            let wanted: ClientJsonRpcMessage = serde_json::from_str(&text).unwrap();
            assert_eq!(json!(found), json!(wanted), "{rest}");
            let [found, wanted] = [found, wanted].map(|message| {
                let JsonRpcMessage::Request(message) = message else { return None };
                message.request.extensions().get::<RequestMetaObject>().cloned()
            });
            assert_eq!(found, wanted, "{rest}");
            assert_eq!(found.is_some(), rest.contains("_meta"), "{rest}");
        }
        for rest in ["", r#""name":1"#, r#""name":"a","arguments":[]"#] {
            let text = call(rest);
            let [found, wanted] =
                [whole(&text).ok(), serde_json::from_str(&text).ok()].map(|read| json!(read));
            assert_eq!(found, wanted, "{rest}");
        }
    }

    #[test]
    fn what_a_session_keeps_of_initialize_is_bounded() {
        let initialize = |experimental: String| {
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{{"experimental":{{{experimental}"z":{{}}}}}},"clientInfo":{{"name":"a","version":"1"}}}}}}"#
            )
        };
        let names =
            |count: u32| (0..count).map(|n| format!("\"{n:05}\":{{}},")).collect::<String>();
        assert!(whole(&initialize(names(50))).is_ok());
        for large in [names(100), format!("\"{}\":{{}},", "a".repeat(MAX_INITIALIZE_BYTES))] {
            let text = initialize(large);
            for refused in [whole(&text).err(), split(text.as_bytes()).err()] {
                let answer = refused.unwrap().answer();
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)));
            }
        }
    }

    /// Each of these took seconds and gigabytes.
    #[test]
    fn a_large_message_is_refused_at_once() {
        const SIZE: usize = 15 << 20;
        let head = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","b":"#;
        let fill = |text: &str| text.repeat(SIZE / text.len());
        // However fast this machine is.
        let begun = std::time::Instant::now();
        assert!(serde_json::from_str::<IgnoredAny>(&fill("[")).is_err());
        let most = begun.elapsed() * 20 + std::time::Duration::from_secs(1);
        for (what, text, code, id, wanted) in [
            ("nested", fill("{\"a\":"), -32700, Value::Null, "recursion limit"),
            (
                "nested params",
                format!("{head}{}", fill("[")),
                -32700,
                Value::Null,
                "recursion limit",
            ),
            (
                "small values",
                format!("{head}[{}[]]}}}}", fill("[],")),
                -32600,
                json!(7),
                "200000 values",
            ),
            (
                "small values and a key that stands twice",
                format!("{head}1,\"b\":[{}[]]}}}}", fill("[],")),
                -32600,
                json!(7),
                "the key 'b' stands here twice",
            ),
            (
                "a large id",
                format!(r#"{{"method":"a","id":[{}[]]}}"#, fill("[],")),
                -32600,
                Value::Null,
                "values",
            ),
            (
                "a large string",
                format!("{head}\"{}\"}}}}", fill("x")),
                -32600,
                json!(7),
                "besides the arguments",
            ),
            ("not closed", format!("{head}[{}", fill("\"x\",")), -32700, Value::Null, "values"),
        ] {
            let begun = std::time::Instant::now();
            let malformed = split(text.as_bytes()).err().unwrap();
            let took = begun.elapsed();
            let answer = malformed.answer();
            assert_eq!(
                (&answer["error"]["code"], &answer["id"]),
                (&json!(code), &id),
                "{what}: {answer}"
            );
            let found = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(found.contains(wanted), "{what}: {answer}");
            assert!(took < most, "{what}: {took:?}, more than {most:?}");
        }
    }

    #[test]
    fn the_arguments_of_a_large_call_are_taken_out() {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"b":"{}","c":[1.0]}},"_meta":{{}}}}}}"#,
            "x".repeat(15 << 20)
        );
        let split = split(text.as_bytes()).unwrap();
        let rest =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{}}}"#;
        assert_eq!((split.text.as_str(), split.rest.to_string().as_str()), (rest, rest));
        let arguments = split.arguments.unwrap();
        assert_eq!(arguments["c"].to_string(), "[1]");
        assert_eq!(arguments["b"].as_str().map(str::len), Some(15 << 20));
        assert_eq!(split.values, 20);
        assert!(whole(rest).is_ok());
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn what_is_wrong_is_said_to_whom_it_concerns() {
        let deep = format!(r#"{{"id":7,"method":"a","params":{}"#, "[".repeat(200));
        let deep = format!("{deep}{}}}", "]".repeat(200));
        let cases: &[(&[u8], i64, Value, &str)] = &[
            (b"{\"id\":1,\"method\":", -32700, Value::Null, "the message is not JSON: EOF"),
            (b"x", -32700, Value::Null, "the message is not JSON: expected value at line 1"),
            (b"{\"id\":1,\"method\":\"a\",\"params\":\"\\ud800\"}", -32700, json!(1), "not JSON"),
            (b"{\"id\":\"a\",\"method\":\"\",\"b\":\"\xff\"}", -32700, json!("a"), "not JSON"),
            (deep.as_bytes(), -32700, json!(7), "recursion limit"),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"a\":1,\"a\":2}}",
                -32600,
                json!(1),
                "the key 'a' stands here twice at line 1 column",
            ),
            (b"{\"id\":1,\"id\":2,\"method\":\"a\"}", -32600, Value::Null, "the key 'id' stands"),
            (b"[]", -32600, Value::Null, "expected a message, which is an object, found"),
            (
                b"{\"jsonrpc\":\"1.0\",\"id\":2,\"method\":\"ping\"}",
                -32600,
                json!(2),
                "/jsonrpc: expected \"2.0\", found \"1.0\"",
            ),
            (
                b"{\"id\":2,\"method\":\"ping\"}",
                -32600,
                json!(2),
                "/jsonrpc: expected \"2.0\", found nothing",
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
                -32600,
                Value::Null,
                "/id: expected a string or an integer, found 1.5",
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":4}",
                -32600,
                json!(3),
                "/method: expected a string, found 4",
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":[]}",
                -32600,
                json!(3),
                "/params: expected an object, found an array",
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\",\"params\":{\"_meta\":1}}",
                -32600,
                json!(3),
                "/params/_meta: expected an object, found 1",
            ),
            (b"{\"id\":3,\"result\":1}", -32600, Value::Null, "/jsonrpc"),
        ];
        for (message, code, id, text) in cases {
            let malformed = Malformed::new(message);
            assert!(!malformed.notification);
            let answer = malformed.answer();
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), id), "{answer}");
            let found = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(found.contains(text), "{answer}");
        }
        for params in ["1", r#"{"a":1,"a":1}"#] {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{params}}}"#);
            assert!(Malformed::new(message.as_bytes()).notification, "{params}");
        }
    }
}
