//! Errors for requests whose parameters do not fit their method, which the library takes for custom
//! requests.

use rmcp::ErrorData;
use rmcp::model::{CustomRequest, ErrorCode};
use serde_json::Value;

use cofferdam_core::schema::show;

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Object,
}

/// A parameter: its name, its type, and whether it is required.
type Parameter = (&'static str, Kind, bool);

const CURSOR: &[Parameter] = &[("cursor", Kind::Text, false)];

/// Returns the parameters of a method; `None` if it is unknown. `initialize` is known only before a
/// session. Source: the schema of the protocol, `schema/2026-07-28/schema.ts` and before.
fn parameters(method: &str) -> Option<&'static [Parameter]> {
    Some(match method {
        "tools/call" => &[
            ("name", Kind::Text, true),
            ("arguments", Kind::Object, false),
            ("inputResponses", Kind::Object, false),
            ("requestState", Kind::Text, false),
        ],
        "prompts/get" => &[("name", Kind::Text, true), ("arguments", Kind::Object, false)],
        "resources/read" => &[("uri", Kind::Text, true)],
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => CURSOR,
        "subscriptions/listen" => &[("notifications", Kind::Object, true)],
        "tasks/get" | "tasks/cancel" => &[("taskId", Kind::Text, true)],
        "tasks/update" => &[("taskId", Kind::Text, true), ("inputResponses", Kind::Object, true)],
        "server/discover" => &[],
        _ => return None,
    })
}

/// Returns the error for a request that the library does not know.
pub(super) fn refused(request: &CustomRequest) -> ErrorData {
    let Some(parameters) = parameters(&request.method) else {
        return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None);
    };
    let problem = parameters.iter().find_map(|(name, kind, needed)| {
        let found = request.params.as_ref().and_then(|params| params.get(name));
        let (fits, expected) = match kind {
            Kind::Text => (found.is_some_and(Value::is_string), "a string"),
            Kind::Object => (found.is_some_and(Value::is_object), "an object"),
        };
        let left_out = found.is_none_or(|found| !needed && found.is_null());
        let found = found.map_or_else(|| "nothing".to_owned(), show);
        (!fits && (*needed || !left_out))
            .then(|| format!("/{name}: expected {expected}, found {found}"))
    });
    let problem = problem.unwrap_or_else(|| format!("these are no params of {}", request.method));
    ErrorData::invalid_params(problem, None)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "tests")]
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_params_is_said() {
        for (method, params, problem) in [
            (
                "tools/call",
                json!({"name": "a", "arguments": "x"}),
                "/arguments: expected an object, found \"x\"",
            ),
            (
                "tools/call",
                json!({"name": "a", "arguments": [1]}),
                "/arguments: expected an object, found an array of 1",
            ),
            ("tools/call", json!({"arguments": {}}), "/name: expected a string, found nothing"),
            ("tools/call", json!({"name": 3}), "/name: expected a string, found 3"),
            ("tools/call", json!({"name": null}), "/name: expected a string, found null"),
            (
                "tools/call",
                json!({"name": "a", "requestState": 1}),
                "/requestState: expected a string, found 1",
            ),
            ("prompts/get", json!({}), "/name: expected a string, found nothing"),
            ("resources/read", json!({"uri": 5}), "/uri: expected a string, found 5"),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let decoded = serde_json::from_value(message);
            let Ok(ClientJsonRpcMessage::Request(message)) = decoded else {
                panic!("{method} {params}: {decoded:?}");
            };
            let ClientRequest::CustomRequest(request) = message.request else {
                panic!("{method} {params} is decoded");
            };
            let error = refused(&request);
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
            assert_eq!(error.message, problem);
        }
        let unknown = refused(&CustomRequest::new("tools/made-up", None));
        assert_eq!(unknown.code, ErrorCode::METHOD_NOT_FOUND);
    }
}
