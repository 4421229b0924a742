//! Secrets and the clients of a server: sessions, clients without one, questions, resources.

use serde_json::{Value, json};

use super::{OTHER, OWN, SECRET};
use crate::http::server::{Server as Origin, answer};
use crate::mcp::http::{document, result};
use crate::mcp::server::{Request, SERVE, Server};
use crate::mcp::sessions::{post, session};
use crate::support::{Place, guest};
use crate::trial::configure;

/// A server with the guest `courier`, and the origins that it may send to.
fn serving(place: &Place, settings: &str) -> (Server, Origin) {
    let origin = Origin::new(|_| answer(200, "", b"hello"));
    let granted = |name: &str| {
        format!(
            "[[grants.courier.http]]\norigin = 'https://{name}.example'\naddress = '{}'\nca-file = \
             '{}'\n",
            origin.address(),
            origin.authority().display()
        )
    };
    configure(
        place,
        &format!(
            "[grants.courier]\nfiles = 'write'\nscan = true\nprocess = ['cat']\n{}{}{settings}",
            granted("test"),
            granted("other")
        ),
    );
    place.write("config/prod.key", "the secret");
    place.write("config/large.key", "the secret ".repeat(20_000));
    let courier = guest("courier");
    let server =
        Server::started(place.command(SERVE).args(["--plugin", courier.to_str().unwrap()]));
    (server, origin)
}

/// A call in a session; returns the result.
fn in_session(server: &Server, session: &str, steps: &[&[&str]]) -> Value {
    asked(
        server,
        session,
        "tools/call",
        &json!({
            "name": "courier__go", "arguments": { "steps": steps },
        }),
    )
}

fn asked(server: &Server, session: &str, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, _, body) = server.ask(&post(&message).with("Mcp-Session-Id", session));
    assert_eq!(status, 200, "{body}");
    result(&body)
}

/// A call of a client without a session that can ask its user, with the state of an earlier question
/// and the user's answer.
fn alone(server: &Server, steps: &[&[&str]], answer: Option<(&str, &str)>) -> Value {
    let mut params = json!({"name": "courier__go", "arguments": { "steps": steps }});
    if let Some((state, action)) = answer {
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"approval": {"action": action, "content": {}}});
    }
    let can = json!({"elicitation": {}});
    let request = Request::post("/mcp", "tools/call", &params)
        .with_meta("io.modelcontextprotocol/clientCapabilities", &can);
    document(&server.ask(&request).2)
}

/// The state and the text of a question.
fn question(answer: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let asked = &answer["result"]["inputRequests"]["approval"]["params"]["message"];
    (text(&answer["result"]["requestState"]), text(asked))
}

const READ: &[&str] = &["read", "config/prod.key"];

#[test]
fn sessions_know_what_their_own_calls_have_read() {
    let place = Place::new();
    let (server, origin) = serving(&place, SECRET);
    let (one, two) = (session(&server), session(&server));
    let send: &[&[&str]] = &[&["send", OWN, "x"]];
    in_session(&server, &one, &[READ]);
    assert_eq!(in_session(&server, &two, send)["isError"], false);
    let refused = in_session(&server, &one, send);
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("SecretFlow: nothing was sent: it has read the secret"), "{text}");
    assert!(text.contains("this client can't ask"), "{text}");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_resource_is_read_like_a_file() {
    let place = Place::new();
    let (server, _origin) = serving(&place, SECRET);
    let send: &[&[&str]] = &[&["send", OWN, "x"]];
    let [one, two, three] = [(); 3].map(|()| session(&server));
    let file = format!("file://{}/config/prod.key", place.workspace().display());
    let read = asked(&server, &one, "resources/read", &json!({ "uri": file }));
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("the secret"), "{read}");
    assert_eq!(in_session(&server, &one, send)["isError"], true);
    // An answer that another session got.
    let large = in_session(&server, &two, &[&["read", "config/large.key"]]);
    let uri = &large["structuredContent"]["stored"]["uri"];
    assert_eq!(in_session(&server, &three, send)["isError"], false);
    asked(&server, &three, "resources/read", &json!({ "uri": uri }));
    assert_eq!(in_session(&server, &three, send)["isError"], true);
}

#[test]
fn a_client_without_a_session_is_asked_one_question_after_the_other() {
    let place = Place::new();
    let (server, origin) = serving(&place, SECRET);
    let steps: &[&[&str]] = &[READ, &["send", OWN, "x"], &["send", OTHER, "x"]];
    let (first, text) = question(&alone(&server, steps, None));
    let wanted = "May courier.go go on? Note that it has read the secret 'deploy key' (config/prod.key), \
                  and would send to https://test.example. Its arguments:\n\n{";
    assert!(text.starts_with(wanted), "{text}");
    assert!(origin.asked().is_empty());
    let (second, text) = question(&alone(&server, steps, Some((&first, "accept"))));
    assert!(text.contains("would send to https://other.example. "), "{text}");
    let done = alone(&server, steps, Some((&second, "accept")));
    assert_eq!(done["result"]["structuredContent"]["results"], json!(["the secret", "200", "200"]));
    // Each answer counts once.
    let again = alone(&server, steps, Some((&second, "accept")));
    assert_eq!(again["error"]["code"], -32602, "{again}");
}

#[test]
fn an_answer_is_for_the_call_that_was_shown() {
    let place = Place::new();
    let (server, origin) = serving(&place, SECRET);
    let steps: &[&[&str]] = &[READ, &["send", OWN, "x"]];
    let code = |answer: Value| {
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).split(':').next().unwrap().to_owned()
    };
    let (state, _) = question(&alone(&server, steps, None));
    assert_eq!(code(alone(&server, steps, Some((&state, "decline")))), "Declined");
    for other in [
        &[READ, &["send", OWN, "y"]][..],
        &[READ, &["send", OTHER, "x"]],
        &[&["read", "config/large.key"], &["send", OWN, "x"]],
    ] {
        // The declined call has read the first file as well.
        let (state, _) = question(&alone(&server, steps, None));
        assert_eq!(code(alone(&server, other, Some((&state, "accept")))), "ApprovalOutdated");
    }
    assert!(origin.asked().is_empty());
}

#[test]
fn clients_without_a_session_know_what_any_of_them_has_read() {
    let place = Place::new();
    let (server, origin) = serving(&place, SECRET);
    let send: &[&[&str]] = &[&["send", OWN, "x"]];
    assert_eq!(alone(&server, send, None)["result"]["isError"], false);
    assert_eq!(alone(&server, &[READ], None)["result"]["isError"], false);
    let (state, text) = question(&alone(&server, send, None));
    assert!(text.contains("config/prod.key"), "{text}");
    let done = alone(&server, send, Some((&state, "accept")));
    assert_eq!(done["result"]["structuredContent"]["results"], json!(["200"]), "{done}");
    // A session does not share that.
    assert_eq!(in_session(&server, &session(&server), send)["isError"], false);
    assert_eq!(origin.asked().len(), 3);
}
