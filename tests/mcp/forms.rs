//! Questions of plugins to the user, as clients show them and as users answer them elsewhere: forms, answers
//! that do not fit, and plugins that ask too much or pretend to be the host.

use serde_json::{Value, json};

use super::http::{call, document};
use super::questions::Terminal;
use super::server::{Request, Server};
use super::stdio::Session;
use crate::support::Place;
use crate::trial::configure;

const GRANTED: &str = "[grants.conformance]\nquestions = true\n";

fn place(settings: &str) -> Place {
    let place = Place::new();
    configure(&place, settings);
    place
}

/// The form of a name.
fn form() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name\u{202e}", "maxLength": 10}},
        "required": ["name"],
    })
}

fn questions(messages: &[&str]) -> Value {
    let one = |message: &&str| json!({"message": message, "form": form()});
    json!({"questions": messages.iter().map(one).collect::<Vec<_>>()})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// A session of a client that asks its user.
fn asking(place: &Place) -> Session {
    Session::begun(place, &json!({"elicitation": {}}))
}

/// Answers the question that a server asks next; returns it.
fn reply(session: &mut Session, answer: &Value) -> Value {
    let mut asked = session.next_message();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    session.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    asked["params"].take()
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[test]
fn a_client_shows_questions_one_after_the_other_as_the_words_of_the_plugin() {
    let place = place(GRANTED);
    let mut session = asking(&place);
    let imitation = "Hello\n\nMay shell.run_command be called?\u{1b}[2J";
    session.call(1, "conformance__ask_user", &questions(&[imitation, "And again?"]));
    let asked = reply(&mut session, &accept("Ada"));
    let message = asked["message"].as_str().unwrap();
    let begin = "The plugin 'conformance' asks you something for the call of conformance.ask_user.";
    assert!(message.starts_with(begin), "{message}");
    let words = "\n\n> Hello\n> \n> May shell.run_command be called?\u{27e8}U+001B\u{27e9}[2J";
    assert!(message.ends_with(words), "{message}");
    let schema = &asked["requestedSchema"];
    assert_eq!(schema["properties"]["name"]["title"], "Name\u{27e8}U+202E\u{27e9}");
    assert_eq!(schema["required"], json!(["name"]));
    reply(&mut session, &json!({"action": "decline"}));
    let answer = session.answer(1);
    assert!(
        text(&answer).contains(r#"action=accept, content={\"name\":\"Ada\"}; action=decline"#),
        "{answer}"
    );
    // What does not fit the form is no answer.
    for wrong in [
        json!({"action": "cancel"}),
        accept("Ada, Countess of Lovelace"),
        json!({"action": "accept", "content": {"name": 5}}),
        json!({"action": "accept"}),
    ] {
        session.call(2, "conformance__ask_user", &questions(&["Name?"]));
        reply(&mut session, &wrong);
        assert!(text(&session.answer(2)).contains("action=cancel"), "{wrong}");
    }
    // The journal has the questions, and how they were answered, but not the answers.
    let log = place.read(".cofferdam/journal.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<Value> = lines.filter(|line| line["event"] == "question").collect();
    let answers: Vec<&str> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(answers[..3], ["answered", "declined", "not answered"], "{log}");
    assert_eq!(events[1]["decision"]["shown"], "the plugin 'conformance' asks: And again?");
    assert_eq!(events[1]["decision"]["approver"], "the user of tests 0");
    assert_eq!(events[1]["tool"], "conformance.ask_user");
    assert!(!log.contains("Ada"), "{log}");
}

#[test]
fn a_plugin_asks_only_if_it_is_granted_and_what_is_valid() {
    let none = place("");
    let mut session = asking(&none);
    session.call(1, "conformance__ask_user", &questions(&["Name?"]));
    let answer = session.answer(1);
    assert!(text(&answer).starts_with("NotGranted: "), "{answer}");
    let place = place(GRANTED);
    let mut session = asking(&place);
    let many = ["?"; 9];
    for (asked, wanted) in [
        (questions(&[]), "1 to 8 questions"),
        (questions(&many), "1 to 8 questions"),
        (questions(&[" "]), "question 1: its message"),
        (questions(&["ok?", &"x".repeat(2001)]), "question 2: its message"),
        (
            json!({"questions": [{"message": "?", "form": {"type": "object", "properties": {}}}]}),
            "a form has 1 to 20 fields",
        ),
        (
            json!({"questions": [{"message": "?", "form": {"type": "object", "properties": {
                "a": {"type": "string", "format": "password"}}}}]}),
            "the field 'a'",
        ),
    ] {
        session.call(1, "conformance__ask_user", &asked);
        let answer = session.answer(1);
        assert!(text(&answer).starts_with("QuestionRefused: "), "{answer}");
        assert!(text(&answer).contains(wanted), "{wanted}: {answer}");
    }
}

#[test]
fn a_client_that_can_not_ask_gets_an_error_unless_a_user_answers_elsewhere() {
    let place = place(GRANTED);
    let mut session = Session::begun(&place, &json!({}));
    session.call(1, "conformance__ask_user", &questions(&["Name?"]));
    let answer = session.answer(1);
    assert!(text(&answer).starts_with("NoUser: no user can be asked here"), "{answer}");
    let mut terminal = Terminal::new(&place);
    for (line, wanted) in
        [(r#"{"name": "Ada"}"#, r#"content={\"name\":\"Ada\"}"#), ("n", "action=decline")]
    {
        session.call(2, "conformance__ask_user", &questions(&["Name?"]));
        let question = terminal.question();
        assert_eq!(question["form"]["plugin"], "conformance");
        assert!(question["text"].as_str().unwrap().ends_with("\n\n> Name?"), "{question}");
        // None of these is an answer.
        for wrong in ["y", "s", "{}", r#"{"name": "Ada, Countess of Lovelace"}"#] {
            terminal.say(wrong);
        }
        terminal.say(line);
        let answer = session.answer(2);
        assert!(text(&answer).contains(wanted), "{answer}");
    }
    terminal.end();
    let log = place.run(&["log"]).stdout;
    assert!(log.contains("the user of cofferdam review answer"), "{log}");
    // A command has no user that it can ask.
    let mut command = place.command(&["call", "conformance.multi_input", "{}"]);
    let output = command.args(super::plugin()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("NoUser"), "{output:?}");
}

/// A call of a client without a session that asks its user.
fn made(server: &Server, arguments: &Value, before: Option<(&Value, Value)>) -> Value {
    let mut params = json!({"name": "conformance__ask_user", "arguments": arguments});
    if let Some((asked, answers)) = before {
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = answers;
    }
    let can = json!({"elicitation": {}});
    let request = Request::post("/mcp", "tools/call", &params)
        .with_meta("io.modelcontextprotocol/clientCapabilities", &can);
    document(&server.ask(&request).2)
}

#[test]
fn a_client_without_a_session_is_asked_by_the_result() {
    let place = place(GRANTED);
    let server = Server::new(&place, &[]);
    let two = questions(&["First?", "Second?"]);
    let asked = made(&server, &two, None)["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let keys: Vec<&String> = asked["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["question-1", "question-2"]);
    // An answer that is missing or does not fit is asked for again.
    for answers in [
        json!({"question-1": accept("Ada")}),
        json!({"question-1": accept("Ada"), "question-2": accept("Ada, Countess of Lovelace")}),
        json!({"approval": {"action": "accept", "content": {"answer": "once"}}}),
    ] {
        let asked = made(&server, &two, None)["result"].take();
        let again = made(&server, &two, Some((&asked, answers)));
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    }
    let both =
        json!({"question-1": accept("Ada"), "question-2": {"action": "decline"}, "x": accept("b")});
    // Answers to other questions do not count.
    let other = made(&server, &questions(&["Third?", "Second?"]), Some((&asked, both.clone())));
    assert!(text(&other).starts_with("ApprovalOutdated: "), "{other}");
    let asked = made(&server, &two, None)["result"].take();
    let done = made(&server, &two, Some((&asked, both.clone())));
    assert!(text(&done).contains("; action=decline"), "{done}");
    // A state is used once, and a made up one never.
    let used = made(&server, &two, Some((&asked, both.clone())));
    assert_eq!(used["error"]["code"], -32602, "{used}");
    let forged = json!({"requestState": "made up"});
    assert_eq!(made(&server, &two, Some((&forged, both)))["error"]["code"], -32602);
    // A client that does not ask.
    let plain = call("/mcp", "conformance__ask_user", &two);
    let plain = document(&server.ask(&plain).2);
    assert!(text(&plain).starts_with("NoUser: "), "{plain}");
}
