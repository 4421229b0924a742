//! Scripts that wait for the yes of a user between two of their calls.

use std::fs;

use serde_json::{Value, json};

use super::ASKING;
use super::http::{document, result};
use super::server::{Request, Server};
use super::stdio::Session;
use crate::support::Place;
use crate::trial::configure;

/// Writes files and runs two programs, each of which appends to the file `ran`.
const SCRIPT: &str = "files.write_file(path='a', content='staged\\n')
one = shell.run_command(command='cat a >> ran; echo one')['output']
files.write_file(path='b', content=one)
two = shell.run_command(command='cat b >> ran; echo two')['output']
[one, two, files.read_file(path='ran')['content']]";

fn place() -> Place {
    let place = Place::new();
    configure(&place, ASKING);
    place
}

fn call(arguments: &Value, answer: Option<(&str, &Value)>) -> Request {
    let mut params = json!({"name": "python__run_python", "arguments": arguments});
    if let Some((state, answer)) = answer {
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"approval": answer});
    }
    let can = json!({"elicitation": {}});
    Request::post("/mcp", "tools/call", &params)
        .with_meta("io.modelcontextprotocol/clientCapabilities", &can)
}

fn yes() -> Value {
    json!({"action": "accept", "content": {}})
}

/// Makes a call that has to lead to a question: its state, and its text.
fn question(
    server: &Server,
    arguments: &Value,
    answer: Option<(&str, &Value)>,
) -> (String, String) {
    let (_, _, body) = server.ask(&call(arguments, answer));
    let asked = result(&body);
    let state = asked["requestState"].as_str().unwrap_or_else(|| panic!("{body}"));
    let text = &asked["inputRequests"]["approval"]["params"]["message"];
    (state.to_owned(), text.as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

fn answered(server: &Server, arguments: &Value, answer: (&str, &Value)) -> Value {
    document(&server.ask(&call(arguments, Some(answer))).2)
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The names of the paused calls.
fn paused(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.workspace().join(".cofferdam/paused"));
    let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

fn ended_calls(place: &Place, tool: &str, outcome: &str) -> usize {
    let log = place.run(&["log", "--limit", "1000"]).json();
    let records = log["records"].as_array().unwrap().clone();
    records.iter().filter(|it| it["tool"] == tool && it["outcome"] == outcome).count()
}

/// With the answer, another process continues where the script was: nothing is done twice.
#[test]
fn a_script_continues_where_it_was_in_another_process() {
    let place = place();
    let arguments = json!({"code": SCRIPT});
    let server = Server::new(&place, &[]);
    let (first, asked) = question(&server, &arguments, None);
    assert!(asked.starts_with("May shell.run_command be called?"), "{asked}");
    assert!(asked.contains("cat a >> ran; echo one"), "{asked}");
    // Nothing is changed, and no lock is held.
    let write = json!({"path": "c", "content": "c"}).to_string();
    let other = place.run(&["call", "--dry-run", "files.write_file", &write]);
    assert_eq!(other.status, 0, "{other:?}");
    assert!(!place.workspace().join("a").exists() && paused(&place).len() == 1);
    server.stop();

    let server = Server::new(&place, &[]);
    let (second, asked) = question(&server, &arguments, Some((&first, &yes())));
    assert!(asked.contains("echo two") && first != second, "{asked}");
    assert!(!place.workspace().join("ran").exists() && paused(&place).len() == 1);
    // Each question is answered once.
    let again = answered(&server, &arguments, (&first, &yes()));
    assert_eq!(again["error"]["code"], -32602, "{again}");
    server.stop();

    let server = Server::new(&place, &[]);
    let answer = answered(&server, &arguments, (&second, &yes()));
    let value = &answer["result"]["structuredContent"]["value"];
    assert_eq!(*value, json!(["one\n", "two\n", "staged\none\n"]), "{answer}");
    let calls = json!({"files.read_file": 1, "files.write_file": 2, "shell.run_command": 2});
    assert_eq!(answer["result"]["structuredContent"]["calls"], calls);
    for (name, content) in [("a", "staged\n"), ("b", "one\n"), ("ran", "staged\none\n")] {
        assert_eq!(place.read(name), content, "{name}");
    }
    assert_eq!(ended_calls(&place, "shell.run_command", "executed"), 2);
    assert!(paused(&place).is_empty());
    // One commit, which names each part of the script.
    let log = place.run(&["log", "--commits"]).json();
    let commits = log["records"].as_array().unwrap();
    assert_eq!((commits.len(), commits[0]["calls"].as_array().unwrap().len()), (1, 3), "{log}");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(!place.workspace().join("ran").exists());
}

#[test]
fn a_no_is_an_error_that_the_script_can_catch() {
    let place = place();
    let server = Server::new(&place, &[]);
    let no = json!({"action": "accept", "content": {"answer": "no", "reason": "use make"}});
    let caught = "files.write_file(path='a', content='a')\ntry:\n    shell.run_command(command='true')\n\
                  except ToolError as e:\n    r = [e.code, e.message]\nr";
    let arguments = json!({"code": caught});
    let (state, _) = question(&server, &arguments, None);
    let answer = answered(&server, &arguments, (&state, &no));
    let value = &answer["result"]["structuredContent"]["value"];
    assert_eq!(*value, json!(["Declined", "the person said no: use make"]), "{answer}");
    assert_eq!(place.read("a"), "a");
    let arguments = json!({"code": SCRIPT});
    let (state, _) = question(&server, &arguments, None);
    let answer = answered(&server, &arguments, (&state, &no));
    assert!(text(&answer).contains("Declined: the person said no: use make"), "{answer}");
    assert!(text(&answer).contains("Nothing was changed"), "{answer}");
    assert!(!place.workspace().join("b").exists() && paused(&place).is_empty());
    assert_eq!(ended_calls(&place, "shell.run_command", "executed"), 0);
}

#[test]
fn a_change_of_the_workspace_meanwhile_ends_the_script() {
    let place = place();
    place.write("other", "one\n");
    let server = Server::new(&place, &[]);
    let arguments = json!({"code": SCRIPT});
    let (state, _) = question(&server, &arguments, None);
    place.write("other", "two\n");
    let answer = answered(&server, &arguments, (&state, &yes()));
    let said = text(&answer);
    assert!(said.starts_with("ApprovalOutdated: ") && said.contains("other"), "{said}");
    assert!(!place.workspace().join("ran").exists() && paused(&place).is_empty());
}

/// What is kept belongs to one call, and is authenticated.
#[test]
fn only_a_call_that_was_paused_here_continues() {
    let place = place();
    let server = Server::new(&place, &[]);
    let arguments = json!({"code": SCRIPT});
    let (state, _) = question(&server, &arguments, None);
    let refused = |state: &str, arguments: &Value| {
        let answer = answered(&server, arguments, (state, &yes()));
        assert_eq!(answer["error"]["code"], -32602, "{state}: {answer}");
        assert!(!place.workspace().join("ran").exists());
    };
    refused("paused-0198f2b4-7e1c-7a30-9d58-3c1f0a6be2d4", &arguments);
    refused(&state, &json!({"code": format!("{SCRIPT}\n1")}));
    refused("paused-../../../etc", &arguments);
    refused("made up", &arguments);
    // A program of this user that can write there has no key.
    let id = state.strip_prefix("paused-").unwrap();
    let file = place.workspace().join(".cofferdam/paused").join(id).join("state");
    let kept = fs::read(&file).unwrap();
    let forged = String::from_utf8_lossy(&kept).replace("echo one", "echo 111").into_bytes();
    fs::write(&file, forged).unwrap();
    refused(&state, &arguments);
    fs::write(&file, &kept[..40]).unwrap();
    refused(&state, &arguments);
    fs::write(&file, kept).unwrap();
    let (_, asked) = question(&server, &arguments, Some((&state, &yes())));
    assert!(asked.contains("echo two"), "{asked}");
}

/// Changes by tools under `ask` are asked about at the end, and programs are not run again for that.
#[test]
fn a_question_about_changes_follows_those_about_programs() {
    let place = place();
    configure(&place, &ASKING.replace("'shell.*'", "'shell.*', 'files.write_file'"));
    let server = Server::new(&place, &[]);
    let code = "files.write_file(path='a', content='a\\n')\nshell.run_command(command='date +%N > ran')['exit_code']";
    let arguments = json!({"code": code});
    let (first, asked) = question(&server, &arguments, None);
    assert!(asked.starts_with("May shell.run_command be called?"), "{asked}");
    let (second, asked) = question(&server, &arguments, Some((&first, &yes())));
    assert!(asked.starts_with("May python.run_python be called? It changes:"), "{asked}");
    let number = asked
        .lines()
        .find(|line| line.get(1..).is_some_and(|digits| digits.parse::<u64>().is_ok()))
        .unwrap();
    assert!(asked.contains("+++ b/a") && !place.workspace().join("a").exists(), "{asked}");
    let answer = answered(&server, &arguments, (&second, &yes()));
    assert_eq!(answer["result"]["structuredContent"]["value"], 0, "{answer}");
    assert_eq!(place.read("ran").trim(), &number[1..]);
    assert_eq!(ended_calls(&place, "shell.run_command", "executed"), 1);
}

/// Of calls side by side, those that need no approval are made once.
#[test]
fn calls_beside_the_one_in_question_are_made_once() {
    let place = place();
    configure(&place, &ASKING.replace("'shell.*'", "'git.git_status'"));
    place.git(&["init", "-q"]);
    place.write("a", "a\n");
    let server = Server::new(&place, &[]);
    let code = "import asyncio\nfound = await asyncio.gather(git.git_diff(), git.git_status(), git.git_diff())\n\
                len(found)";
    let arguments = json!({"code": code});
    let (state, asked) = question(&server, &arguments, None);
    assert!(asked.starts_with("May git.git_status be called?"), "{asked}");
    let answer = answered(&server, &arguments, (&state, &yes()));
    assert_eq!(answer["result"]["structuredContent"]["value"], 3, "{answer}");
    assert_eq!(ended_calls(&place, "git.git_diff", "executed"), 2);
    assert_eq!(ended_calls(&place, "git.git_status", "executed"), 1);
}

/// Older clients are asked while they wait for the result. No thread and no lock is held meanwhile.
#[test]
fn a_client_that_waits_is_asked_in_between() {
    let place = place();
    let mut session = Session::begun(&place, &json!({"elicitation": {}}));
    session.call(1, "python__run_python", &json!({"code": SCRIPT}));
    for words in ["echo one", "echo two"] {
        let question = session.next_message();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        assert!(question["params"]["message"].as_str().unwrap().contains(words), "{question}");
        let write = json!({"path": "c", "content": "c"}).to_string();
        assert_eq!(place.run(&["call", "--dry-run", "files.write_file", &write]).status, 0);
        session.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes()}));
    }
    let answer = session.answer(1);
    let value = &answer["result"]["structuredContent"]["value"];
    assert_eq!(*value, json!(["one\n", "two\n", "staged\none\n"]), "{answer}");
    assert_eq!(ended_calls(&place, "shell.run_command", "executed"), 2);
    // A yes for the session holds for the next script.
    session.call(2, "python__run_python", &json!({"code": SCRIPT}));
    let question = session.next_message();
    let all = json!({"action": "accept", "content": {"answer": "session"}});
    session.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": all}));
    let answer = session.answer(2);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(paused(&place).is_empty());
}

/// Without a client that can ask, the call in the script fails as a call by itself does.
#[test]
fn without_a_user_the_call_is_refused() {
    let place = place();
    let ended = place.run_with(&["script", "-"], SCRIPT);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stdout.contains("ApprovalNeeded"), "{ended:?}");
    assert!(!place.workspace().join("a").exists() && paused(&place).is_empty());
}
