//! Messages that can't be taken: what their sender hears.
//!
//! Source: JSON-RPC 2.0, section 5: a request whose id can't be seen is answered with the id null.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::schema::show;

/// What is wrong with a message.
#[derive(Debug)]
pub(super) struct Malformed {
    /// Null, where it can't be seen.
    id: Value,
    error: ErrorData,
    /// A notification, whose sender expects no answer.
    pub notification: bool,
}

impl Malformed {
    /// Of a message that was not decoded.
    pub fn new(message: &[u8]) -> Self {
        match serde_json::from_slice(message) {
            Ok(message) => Self::invalid(&message),
            Err(error) => {
                let text = format!("the message is not JSON: {error}");
                let error = ErrorData::new(ErrorCode::PARSE_ERROR, text, None);
                Self { id: Head::of(message).id(), error, notification: false }
            }
        }
    }

    /// Of a message that has more bytes than the settings allow.
    pub fn too_long(most: usize) -> Self {
        let text = format!("the message is longer than {most} bytes (`envelope-mb` in `[limits]`)");
        let error = ErrorData::new(ErrorCode::PARSE_ERROR, text, None);
        Self { id: Value::Null, error, notification: false }
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
            error: ErrorData::invalid_request(problem, None),
        }
    }

    /// The answer, as JSON-RPC has it.
    pub fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": self.error})
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

/// Whether a message, such as it is, asks for this method.
pub(super) fn asks_for(message: &[u8], method: &str) -> bool {
    #[derive(Deserialize)]
    struct Request {
        method: String,
    }
    serde_json::from_slice::<Request>(message).is_ok_and(|request| request.method == method)
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
    use super::*;

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
        assert!(
            Malformed::new(b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":1}").notification
        );
    }
}
