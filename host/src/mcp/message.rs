//! Reading messages: a key that stands twice is an error, as it is in envelopes. What the sender
//! of one hears that can't be taken.
//!
//! Source: JSON-RPC 2.0, section 5: a request whose id can't be seen is answered with the id null.

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ClientRequest, ConstString as _, ErrorCode, JsonRpcVersion2_0, RequestId,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use crate::envelope;
use crate::schema::show;

/// A message.
///
/// # Errors
/// Text that is none.
pub(super) fn read(text: &[u8]) -> Result<ClientJsonRpcMessage, Malformed> {
    let document = parse(text)?;
    if document["method"] == CallToolRequestMethod::VALUE
        && let Ok(call) = ToolCall::deserialize(document)
    {
        return Ok(call.into());
    }
    serde_json::from_slice(text).map_err(|_| Malformed::new(text))
}

/// What a message is as JSON.
///
/// # Errors
/// Text that is not JSON, or has a key twice.
pub(super) fn parse(text: &[u8]) -> Result<Value, Malformed> {
    let not_json = |why: String| Malformed {
        id: Head::of(text).id(),
        code: ErrorCode::PARSE_ERROR,
        problem: format!("the message is not JSON: {why}"),
        notification: false,
    };
    let utf8 = str::from_utf8(text).map_err(|error| not_json(error.to_string()))?;
    envelope::parse(utf8).map_err(|error| match (error.classify(), serde_json::from_str(utf8)) {
        (Category::Data, Ok(document)) => Malformed {
            id: Head::of(text).id(),
            problem: error.to_string(),
            ..Malformed::invalid(&document)
        },
        _ => not_json(error.to_string()),
    })
}

/// A call of a tool: the one message that is worth reading without trying what else it may be.
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

/// What is wrong with a message.
#[derive(Debug)]
pub(super) struct Malformed {
    /// Null, where it can't be seen.
    id: Value,
    code: ErrorCode,
    problem: String,
    /// A notification, whose sender expects no answer.
    pub notification: bool,
}

impl Malformed {
    /// Of a message that is none of MCP's.
    pub fn new(message: &[u8]) -> Self {
        parse(message).map_or_else(|malformed| malformed, |message| Self::invalid(&message))
    }

    /// Of a message that has more bytes than the settings allow.
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

    fn invalid(message: &Value) -> Self {
        let problem = match message {
            Value::Object(fields) => problem(fields),
            other => format!("expected a message, which is an object, found {}", show(other)),
        };
        let head = Head {
            id: message.get("id").cloned().unwrap_or_default(),
            method: message.get("method").map(|_| IgnoredAny),
        };
        Self {
            notification: head.method.is_some() && message.get("id").is_none(),
            id: head.id(),
            code: ErrorCode::INVALID_REQUEST,
            problem,
        }
    }

    /// The answer, as JSON-RPC has it.
    pub fn answer(&self) -> Value {
        let error = json!({"code": self.code, "message": self.problem});
        json!({"jsonrpc": "2.0", "id": self.id, "error": error})
    }
}

/// What can be seen of a message although the rest is not JSON, as far as it is one object.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    method: Option<IgnoredAny>,
}

impl Head {
    fn of(message: &[u8]) -> Self {
        serde_json::from_slice(message).unwrap_or_default()
    }

    /// That of a request. An answer's is the server's own number.
    fn id(self) -> Value {
        if self.method.is_some() && is_id(&self.id) { self.id } else { Value::Null }
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
            let found = read(text.as_bytes()).unwrap();
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
            let [found, wanted] = [read(text.as_bytes()).ok(), serde_json::from_str(&text).ok()]
                .map(|read| json!(read));
            assert_eq!(found, wanted, "{rest}");
        }
    }

    #[test]
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
