//! Tasks: calls that go on after their request was answered. Clients that know them, clients that don't,
//! and clients that guess, repeat and exaggerate.

use std::fs;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Connection, Era, Sdk};
use super::http::{document, result, wait_for_progress};
use super::server::{Request, SERVE, Server, message};
use super::stdio::Session;
use super::{TIMEOUT, ends, plugin, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

const SETTINGS: &str = "\
ask = ['conformance.confirm_delete', 'conformance.test_simple_text']
tasks = ['conformance.confirm_delete', 'conformance.multi_input', 'conformance.test_missing_capability']
[grants.conformance]
files = 'read'
questions = true
[roles.one]
tools = ['conformance.*']
[roles.two]
tools = ['conformance.*']
";

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How many tasks of one address may run, and how many are kept.
const MAX_RUNNING_OF_ADDRESS: usize = 192;
const MAX_KEPT_OF_ADDRESS: usize = 768;

fn place() -> Place {
    let place = Place::new();
    configure(&place, SETTINGS);
    place
}

/// A server that has loaded the guest, which takes a while.
fn warm(place: &Place) -> Server {
    let server = Server::new(place, &[]);
    let greet = json!({"name": "greet", "arguments": {"name": "Ada"}});
    assert_eq!(server.ask(&Request::post("/mcp/one", "tools/call", &greet)).0, 200);
    server
}

/// A request of a client that can ask the user, and knows tasks.
fn request(path: &str, method: &str, params: &Value) -> Request {
    let can = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
    let request = Request::post(path, method, params)
        .with_meta("io.modelcontextprotocol/clientCapabilities", &can);
    match params["taskId"].as_str() {
        Some(id) if id.is_ascii() => request.with("Mcp-Name", id),
        _ => request,
    }
}

fn call(tool: &str, arguments: &Value) -> Request {
    request("/mcp/one", "tools/call", &json!({"name": tool, "arguments": arguments}))
}

fn slow(seconds: u64) -> Request {
    call("slow_compute", &json!({"seconds": seconds}))
}

fn confirm() -> Request {
    call("confirm_delete", &json!({"filename": "a"}))
}

fn ask(server: &Server, request: &Request) -> Value {
    document(&server.ask(request).2)
}

/// Makes a call that has to become a task; its id.
fn task(server: &Server, request: &Request) -> String {
    let created = ask(server, request);
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    created["result"]["taskId"].as_str().unwrap().to_owned()
}

/// The answer to a request about a task, under the role in a path.
fn about(server: &Server, path: &str, method: &str, id: &str) -> Value {
    let mut params = json!({"taskId": id});
    if method == "tasks/update" {
        params["inputResponses"] = json!({"approval-1": {"action": "accept", "content": {}}});
    }
    ask(server, &request(path, method, &params))
}

fn get(server: &Server, id: &str) -> Value {
    about(server, "/mcp/one", "tasks/get", id)["result"].take()
}

fn update(server: &Server, id: &str, answers: &Value) -> Value {
    let params = json!({"taskId": id, "inputResponses": answers});
    ask(server, &request("/mcp/one", "tasks/update", &params))
}

/// Waits until a task has a status; its state.
#[track_caller]
fn wait_for(server: &Server, id: &str, status: &str) -> Value {
    let begin = Instant::now();
    loop {
        let state = get(server, id);
        if state["status"] == status {
            return state;
        }
        assert!(begin.elapsed() < TIMEOUT, "{state}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn files(place: &Place) -> PathBuf {
    place.workspace().join(".cofferdam/tasks")
}

#[test]
fn a_long_call_becomes_a_task_and_its_result_is_the_same() {
    let place = place();
    let server = Server::new(&place, &[]);
    let call = json!({"name": "slow_compute", "arguments": {"seconds": 2}});
    let created = ask(&server, &request("/mcp/one", "tools/call", &call))["result"].take();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert!(created["ttlMs"].as_u64().unwrap() >= 3_600_000, "{created}");
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(id.len(), 32, "{id}");
    let state = get(&server, id);
    assert_eq!(state["status"], "working");
    assert!(state.get("result").is_none() && state.get("requestState").is_none(), "{state}");
    let ended = wait_for(&server, id, "completed");
    assert_eq!(ended["createdAt"], created["createdAt"]);
    // A client that does not know tasks waits for the result, as before.
    let plain = result(&server.ask(&Request::post("/mcp/one", "tools/call", &call)).2);
    assert_eq!(ended["result"], plain);
    assert_eq!(plain["resultType"], "complete");
    // It stays until its time is over.
    assert_eq!(get(&server, id), ended);
}

#[test]
fn a_short_call_does_not_become_a_task() {
    let place = place();
    let server = warm(&place);
    let greeting = ask(&server, &call("greet", &json!({"name": "Ada"})))["result"].take();
    assert_eq!(greeting["resultType"], "complete", "{greeting}");
    assert_eq!(greeting["content"], json!([{"type": "text", "text": "Hello, Ada!"}]));
    let unknown = ask(&server, &call("no_such_tool", &json!({})));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(!files(&place).exists());
}

/// Nothing of it is seen by clients that did not name it, in both eras.
#[test]
fn a_client_without_tasks_sees_no_difference() {
    let place = place();
    let server = Server::new(&place, &[]);
    let without = |method: &str, params: &Value| {
        document(&server.ask(&Request::post("/mcp/one", method, params)).2)
    };
    let slow = json!({"name": "slow_compute", "arguments": {"seconds": 1}});
    assert_eq!(without("tools/call", &slow)["result"]["resultType"], "complete");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "a", "inputResponses": {}});
        let request = Request::post("/mcp/one", method, &params).with("Mcp-Name", "a");
        let error = document(&server.ask(&request).2)["error"].take();
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert_eq!(error["data"]["requiredCapabilities"]["extensions"], json!({EXTENSION: {}}));
    }
    // What can only be a task says so.
    let only = without("tools/call", &json!({"name": "test_missing_capability", "arguments": {}}));
    assert_eq!(only["error"]["code"], -32021, "{only}");
    assert!(!files(&place).exists());
    let mut session = Session::begun(&place, &json!({"extensions": {EXTENSION: {}}}));
    session.call(1, "conformance__slow_compute", &json!({"seconds": 1}));
    let answer = session.answer(1);
    assert!(answer["result"].get("resultType").is_none(), "{answer}");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(!files(&place).exists());
}

#[test]
fn a_task_asks_the_user_and_goes_on_with_the_answer() {
    let place = place();
    let server = Server::new(&place, &[]);
    let id = task(&server, &confirm());
    let asked = wait_for(&server, &id, "input_required");
    let question = &asked["inputRequests"]["approval-1"];
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let text = question["params"]["message"].as_str().unwrap();
    assert!(text.starts_with("May conformance.confirm_delete be called?"), "{text}");
    // What answers no open question is ignored; what is no answer is refused, and the question stays open.
    let yes = json!({"action": "accept", "content": {}});
    assert_eq!(
        update(&server, &id, &json!({"other": yes}))["result"],
        json!({"resultType": "complete"})
    );
    for wrong in [json!("yes"), json!({}), json!({"action": "perhaps"}), json!([yes])] {
        let refused = update(&server, &id, &json!({"approval-1": wrong}));
        assert_eq!(refused["error"]["code"], -32602, "{wrong}: {refused}");
    }
    assert_eq!(get(&server, &id)["status"], "input_required");
    update(&server, &id, &json!({"approval-1": yes}));
    let ended = wait_for(&server, &id, "completed");
    assert_eq!(ended["result"]["isError"], false, "{ended}");
    // Once more, and a no, change nothing any more.
    for answer in [&yes, &json!({"action": "decline"})] {
        let again = update(&server, &id, &json!({"approval-1": answer}));
        assert_eq!(again["result"], json!({"resultType": "complete"}));
    }
    assert_eq!(get(&server, &id), ended);
    let id = task(&server, &confirm());
    wait_for(&server, &id, "input_required");
    let no = json!({"action": "accept", "content": {"answer": "no", "reason": "keep it"}});
    update(&server, &id, &json!({"approval-1": no}));
    let ended = wait_for(&server, &id, "completed");
    let said = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(said, "Declined: the person said no: keep it");
}

/// A call that is not a task yet asks by its result, and becomes one when it is made with the answer.
#[test]
fn a_question_before_the_task_is_asked_by_the_result() {
    let place = place();
    let server = warm(&place);
    let params = json!({"name": "test_tool_with_task", "arguments": {}});
    let asked = ask(&server, &request("/mcp/one", "tools/call", &params))["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert!(asked.get("taskId").is_none(), "{asked}");
    let mut params = params;
    params["requestState"] = asked["requestState"].clone();
    let answer = json!({"action": "accept", "content": {"name": "Alice"}});
    params["inputResponses"] = json!({"question-1": answer});
    let id = task(&server, &request("/mcp/one", "tools/call", &params));
    let ended = wait_for(&server, &id, "completed");
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Alice"), "{ended}");
}

#[test]
fn a_task_asks_two_questions_at_once() {
    let place = place();
    let server = Server::new(&place, &[]);
    let id = task(&server, &call("multi_input", &json!({})));
    let asked = wait_for(&server, &id, "input_required");
    let keys = |state: &Value| -> Vec<String> {
        state["inputRequests"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&asked), ["question-1", "question-2"]);
    let named = |name: &str| json!({"action": "accept", "content": {"name": name}});
    update(&server, &id, &json!({"question-2": named("Lovelace")}));
    assert_eq!(keys(&wait_for(&server, &id, "input_required")), ["question-1"]);
    update(&server, &id, &json!({"question-1": named("Ada"), "question-2": named("Byron")}));
    let ended = wait_for(&server, &id, "completed");
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    let (first, second) = (text.find("Ada").unwrap(), text.find("Lovelace").unwrap());
    assert!(first < second && !text.contains("Byron"), "{text}");
    // Cancelling the task withdraws its questions.
    let id = task(&server, &call("multi_input", &json!({})));
    wait_for(&server, &id, "input_required");
    about(&server, "/mcp/one", "tasks/cancel", &id);
    wait_for(&server, &id, "cancelled");
}

#[test]
fn a_failed_call_is_a_result_and_a_crash_is_an_error() {
    let place = place();
    let server = Server::new(&place, &[]);
    let id = task(&server, &call("failing_job", &json!({})));
    let ended = wait_for(&server, &id, "completed");
    assert_eq!(ended["result"]["isError"], true, "{ended}");
    let id = task(&server, &call("protocol_error_job", &json!({})));
    let ended = wait_for(&server, &id, "failed");
    assert_eq!(ended["error"]["code"], -32603, "{ended}");
    assert!(ended.get("result").is_none(), "{ended}");
}

#[test]
fn a_cancelled_task_ends_and_one_that_has_ended_stays() {
    let place = place();
    let server = Server::new(&place, &[]);
    let acknowledged = json!({"resultType": "complete"});
    let cancel = |id: &str| about(&server, "/mcp/one", "tasks/cancel", id)["result"].take();
    let id = task(&server, &slow(60));
    assert_eq!(cancel(&id), acknowledged);
    let ended = wait_for(&server, &id, "cancelled");
    wait_for_the_end(&place, "conformance.slow_compute", "Cancelled", 1);
    assert_eq!((cancel(&id), get(&server, &id)), (acknowledged.clone(), ended));
    let id = task(&server, &confirm());
    wait_for(&server, &id, "input_required");
    cancel(&id);
    wait_for(&server, &id, "cancelled");
    let late = update(&server, &id, &json!({"approval-1": {"action": "accept", "content": {}}}));
    assert_eq!(late["result"], acknowledged);
    let id = task(&server, &slow(1));
    let ended = wait_for(&server, &id, "completed");
    assert_eq!((cancel(&id), get(&server, &id)), (acknowledged, ended));
}

/// A request that is cancelled before its call is a task cancels the call.
#[test]
fn a_client_that_leaves_early_takes_its_call_along() {
    let place = place();
    let server = warm(&place);
    let mut stream = server.send(&call("wait", &json!({"how": "sleep"})));
    wait_for_progress(&mut stream);
    drop(stream);
    wait_for_the_end(&place, "conformance.wait", "Cancelled", 1);
    assert!(!files(&place).exists());
}

/// What has ended is kept; what a stopped server was working on is cancelled, and what a killed one was
/// working on has failed.
#[test]
fn a_task_is_seen_through_a_restart() {
    let place = place();
    let server = Server::new(&place, &[]);
    // It ends when the file is written, and not before it is a task.
    let done = task(&server, &call("until", &json!({"file": "ready"})));
    place.write("ready", "");
    let result = wait_for(&server, &done, "completed");
    let stopped = task(&server, &slow(60));
    let asking = task(&server, &confirm());
    wait_for(&server, &asking, "input_required");
    assert!(server.stop().success());

    let server = Server::new(&place, &[]);
    assert_eq!(get(&server, &done), result);
    for id in [&stopped, &asking] {
        assert_eq!(get(&server, id)["status"], "cancelled");
    }
    let killed = task(&server, &slow(60));
    // Another server on the same workspace does not know what this one works on.
    let beside = Server::new(&place, &[]);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert_eq!(about(&beside, "/mcp/one", method, &killed)["error"]["code"], -32602);
    }
    assert_eq!(get(&beside, &done), result);
    drop(server);
    let lost = get(&beside, &killed);
    assert_eq!(lost["status"], "failed", "{lost}");
    let message = lost["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the server ended before this call did"), "{message}");
    assert_eq!(
        about(&beside, "/mcp/one", "tasks/cancel", &killed)["result"]["resultType"],
        "complete"
    );
    assert_eq!(get(&beside, &killed)["status"], "failed");
}

/// On standard input, the calls of a client end with it, and its next server has the results.
#[test]
fn a_client_on_standard_input_has_its_results_from_its_next_server() {
    let place = place();
    let can = json!({"extensions": {EXTENSION: {}}});
    let message = |id: u64, method: &str, params: Value| {
        let mut message = message(method, params);
        message["id"] = json!(id);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can.clone();
        message
    };
    let slow = |seconds: u64| json!({"name": "conformance__slow_compute", "arguments": {"seconds": seconds}});
    let mut session = Session::new(&place);
    let mut ids = Vec::new();
    for (id, seconds) in [(1, 1), (2, 60)] {
        session.send(&message(id, "tools/call", slow(seconds)));
        let created = session.answer(id)["result"].take();
        assert_eq!(created["resultType"], "task", "{created}");
        ids.push(created["taskId"].clone());
    }
    let state = |session: &mut Session, task: &Value| {
        session.send(&message(3, "tasks/get", json!({"taskId": task})));
        session.answer(3)["result"].take()
    };
    while state(&mut session, &ids[0])["status"] != "completed" {
        std::thread::sleep(Duration::from_millis(50));
    }
    session.close();
    let mut session = Session::new(&place);
    let done = state(&mut session, &ids[0]);
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert_eq!(state(&mut session, &ids[1])["status"], "cancelled");
}

/// Subscribes to tasks under a role; returns what the server agrees to, and the messages after that.
fn follow(
    server: &Server,
    path: &str,
    ids: &[&str],
) -> (Value, impl Iterator<Item = Value> + use<>) {
    let filter = json!({"notifications": {"taskIds": ids, "toolsListChanged": true}});
    let stream = server.send(&request(path, "subscriptions/listen", &filter));
    let lines = stream.lines().map(Result::unwrap);
    let mut messages = lines.filter(|line| line.contains("jsonrpc")).map(|line| document(&line));
    let mut agreed = messages.next().unwrap();
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged", "{agreed}");
    assert_eq!(agreed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{agreed}");
    (agreed["params"]["notifications"].take(), messages)
}

/// The state in a notification of a task.
fn notified(messages: &mut impl Iterator<Item = Value>) -> Value {
    let mut message = messages.next().unwrap();
    assert_eq!(message["method"], "notifications/tasks", "{message}");
    let meta = message["params"].as_object_mut().unwrap().remove("_meta");
    assert_eq!(meta, Some(json!({"io.modelcontextprotocol/subscriptionId": 1})), "{message}");
    message["params"].take()
}

#[test]
fn a_client_that_listens_is_notified_of_its_tasks() {
    let place = place();
    let server = Server::new(&place, &[]);
    let ended = task(&server, &slow(1));
    let result = wait_for(&server, &ended, "completed");
    let works = task(&server, &slow(3));
    let unknown = "0".repeat(32);
    let ids = [&*ended, "../owner", &*works, &*unknown, &*works];
    let (agreed, mut messages) = follow(&server, "/mcp/one", &ids);
    assert_eq!(agreed, json!({"toolsListChanged": true, "taskIds": [ended, works]}));
    // First what they are, which `tasks/get` returns as well, but for the kind of the result.
    let mut got = result.clone();
    got.as_object_mut().unwrap().remove("resultType");
    assert_eq!(notified(&mut messages), got);
    let state = notified(&mut messages);
    assert_eq!((&state["taskId"], &state["status"]), (&json!(works), &json!("working")));
    let states = std::iter::from_fn(|| Some(notified(&mut messages)));
    let end = { states }.find(|state| state["status"] != "working").unwrap();
    assert_eq!(end["taskId"], json!(works));
    let mut got = get(&server, &works);
    got.as_object_mut().unwrap().remove("resultType");
    assert_eq!(end, got);

    // Of a question, and of its answer.
    let asks = task(&server, &confirm());
    let (agreed, mut messages) = follow(&server, "/mcp/one", &[&asks]);
    assert_eq!(agreed["taskIds"], json!([asks]));
    let mut states = std::iter::from_fn(|| Some(notified(&mut messages)));
    let asked = states.by_ref().find(|state| state["status"] == "input_required").unwrap();
    assert!(asked["inputRequests"].get("approval-1").is_some(), "{asked}");
    update(&server, &asks, &json!({"approval-1": {"action": "accept", "content": {}}}));
    assert!(states.any(|state| state["status"] == "completed"));
}

#[test]
fn a_client_is_not_notified_of_tasks_that_are_not_its_own() {
    let place = place();
    let server = Server::new(&place, &[]);
    let id = task(&server, &slow(1));
    let (agreed, _) = follow(&server, "/mcp/two", &[&id]);
    assert_eq!(agreed, json!({"toolsListChanged": true, "taskIds": []}));
    // At most so many; the others are asked for with `tasks/get`.
    let many: Vec<String> =
        (0..65).map(|at| if at < 64 { at.to_string() } else { id.clone() }).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(follow(&server, "/mcp/one", &many).0["taskIds"], json!([]));
    for wrong in [json!({"taskIds": id}), json!({"taskIds": [1]}), json!({"toolsListChanged": 1})] {
        let params = json!({"notifications": wrong});
        let refused = ask(&server, &request("/mcp/one", "subscriptions/listen", &params));
        assert_eq!(refused["error"]["code"], -32602, "{wrong}: {refused}");
        let said = refused["error"]["message"].as_str().unwrap();
        assert!(said.starts_with("/notifications: "), "{said}");
    }
    let params = json!({"notifications": {"taskIds": [id]}});
    let plain = Request::post("/mcp/one", "subscriptions/listen", &params);
    let refused = document(&server.ask(&plain).2)["error"].take();
    assert_eq!(refused["code"], -32021, "{refused}");
    assert_eq!(refused["data"]["requiredCapabilities"]["extensions"], json!({EXTENSION: {}}));
    // Sessions of older revisions have no such method.
    let mut session = Session::begun(&place, &json!({"extensions": {EXTENSION: {}}}));
    session.send(
        &json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}),
    );
    assert_eq!(session.answer(7)["error"]["code"], -32601);
}

/// On standard input, one that cancels its subscription hears nothing more.
#[test]
fn a_subscription_on_standard_input_ends_with_its_cancellation() {
    let place = place();
    let can = json!({"extensions": {EXTENSION: {}}});
    let message = |id: u64, method: &str, params: Value| {
        let mut message = message(method, params);
        message["id"] = json!(id);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can.clone();
        message
    };
    let mut session = Session::new(&place);
    let slow = json!({"name": "conformance__slow_compute", "arguments": {"seconds": 60}});
    session.send(&message(1, "tools/call", slow));
    let task = session.answer(1)["result"]["taskId"].take();
    let filter = json!({"notifications": {"taskIds": [task]}});
    session.send(&message(2, "subscriptions/listen", filter));
    let agreed = session.next_message();
    assert_eq!(agreed["params"]["notifications"], json!({"taskIds": [task]}), "{agreed}");
    let state = session.next_message();
    assert_eq!(
        (&state["method"], &state["params"]["status"]),
        (&json!("notifications/tasks"), &json!("working"))
    );
    session.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    session.send(&message(3, "tasks/cancel", json!({"taskId": task})));
    assert!(session.answer(3).get("result").is_some());
    std::thread::sleep(Duration::from_secs(1));
    session.send(&message(4, "tasks/get", json!({"taskId": task})));
    let next = session.next_message();
    assert_eq!(
        (&next["id"], &next["result"]["status"]),
        (&json!(4), &json!("cancelled")),
        "{next}"
    );
}

#[test]
fn an_id_that_is_guessed_or_of_another_role_is_unknown() {
    let place = place();
    let server = Server::new(&place, &[]);
    let ended = task(&server, &slow(1));
    wait_for(&server, &ended, "completed");
    let asking = task(&server, &confirm());
    wait_for(&server, &asking, "input_required");
    let methods = ["tasks/get", "tasks/update", "tasks/cancel"];
    let unknown = |path: &str, id: &str| {
        for method in methods {
            let answer = about(&server, path, method, id);
            assert_eq!(answer["error"]["code"], -32602, "{path} {method} {id}: {answer}");
            assert_eq!(answer["error"]["message"], "there is no such task");
        }
    };
    for path in ["/mcp/two", "/mcp"] {
        unknown(path, &ended);
        unknown(path, &asking);
    }
    let long = "a".repeat(20_000);
    for id in [
        "a",
        "../owner",
        "../../a.txt",
        &"0".repeat(32),
        &ended.to_uppercase(),
        &ended[..31],
        &format!("{ended}0"),
        &format!("new.{ended}"),
        &long,
    ] {
        unknown("/mcp/one", id);
    }
    // Nobody else has answered or cancelled it.
    assert_eq!(get(&server, &asking)["status"], "input_required");
    for params in [json!({}), json!({"taskId": 1}), json!({"taskId": asking, "inputResponses": 1})]
    {
        let request = request("/mcp/one", "tasks/update", &params).with("Mcp-Name", &asking);
        assert!(ask(&server, &request)["error"]["code"].is_i64(), "{params}");
    }
}

/// A program of this user can write there, but has no key.
#[test]
fn a_result_that_was_forged_or_copied_is_unknown() {
    let place = place();
    let server = Server::new(&place, &[]);
    let [one, two] = [1, 1].map(|seconds| {
        let id = task(&server, &slow(seconds));
        wait_for(&server, &id, "completed");
        id
    });
    let file = |id: &str| files(&place).join(id);
    let kept = fs::read(file(&one)).unwrap();
    let forged = kept.iter().map(|byte| if *byte == b's' { b'z' } else { *byte }).collect();
    let unknown = |id: &str, content: Vec<u8>| {
        fs::write(file(id), content).unwrap();
        assert_eq!(about(&server, "/mcp/one", "tasks/get", id)["error"]["code"], -32602);
    };
    unknown(&two, kept.clone());
    unknown(&one, forged);
    unknown(&one, kept[..kept.len() - 1].to_vec());
    unknown(&one, Vec::new());
    unknown(&"0".repeat(32), kept.clone());
    fs::write(file(&one), kept).unwrap();
    assert_eq!(get(&server, &one)["status"], "completed");
}

/// Tasks are bounded while they run; beyond that, calls are made as without tasks.
#[test]
fn running_tasks_are_bounded() {
    let place = place();
    configure(
        &place,
        &SETTINGS.replace("'conformance.test_missing_capability'", "'conformance.wait'"),
    );
    let server = warm(&place);
    let wait = call("wait", &json!({"how": "sleep"}));
    let mut ids = Vec::new();
    let mut refused = 0;
    for _ in 0..MAX_RUNNING_OF_ADDRESS + 20 {
        let answer = ask(&server, &wait)["result"].take();
        match answer["taskId"].as_str() {
            Some(id) => ids.push(id.to_owned()),
            None => {
                assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("Busy: "));
                refused += 1;
            }
        }
    }
    assert_eq!((ids.len(), refused), (MAX_RUNNING_OF_ADDRESS, 20));
    // Without room, a call is made as for other clients.
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| ask(&server, &slow(1)));
        std::thread::sleep(Duration::from_millis(1500));
        for id in &ids {
            about(&server, "/mcp/one", "tasks/cancel", id);
        }
        late.join().unwrap()
    });
    assert_eq!(late["result"]["resultType"], "complete", "{late}");
    for id in &ids {
        wait_for(&server, id, "cancelled");
    }
    assert!(server.peak_memory() < 600, "{} MiB", server.peak_memory());
}

/// Tasks that have ended are bounded too, and none is removed before its time.
#[test]
fn ended_tasks_are_bounded_and_kept() {
    let place = place();
    configure(
        &place,
        &SETTINGS.replace("'conformance.test_missing_capability'", "'conformance.greet'"),
    );
    let server = Server::new(&place, &[]);
    let greet = call("greet", &json!({"name": "Ada"}));
    let first = task(&server, &greet);
    for number in 1..MAX_KEPT_OF_ADDRESS {
        let id = task(&server, &greet);
        // The number of those that run is bounded, too.
        if number % 8 == 0 {
            wait_for(&server, &id, "completed");
        }
    }
    for _ in 0..5 {
        let answer = ask(&server, &greet);
        let said = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.starts_with("Busy: "), "{said}");
    }
    let ended = wait_for(&server, &first, "completed");
    assert_eq!(ended["result"]["content"][0]["text"], "Hello, Ada!");
    let kept = fs::read_dir(files(&place)).unwrap().map(|entry| entry.unwrap().file_name());
    let kept = kept.filter(|name| !name.to_str().unwrap().starts_with("new."));
    assert_eq!(kept.count(), MAX_KEPT_OF_ADDRESS);
    let of_greet = |end: &&Value| end["tool"] == "conformance.greet";
    assert_eq!(ends(&place.workspace()).iter().filter(of_greet).count(), MAX_KEPT_OF_ADDRESS);
}

/// The official clients: Python's becomes a task, and both see its end through a restart of the server.
/// TypeScript's takes no task for the answer to a call.
#[test]
fn the_official_clients_see_a_task_through_a_restart() {
    let place = place();
    let server = Server::new(&place, &[]);
    let (url, port) = (server.url("/mcp/one"), server.address.port());
    let connect = |sdk: Sdk| {
        let connection = Connection {
            sdk,
            era: Era::Stateless,
            elicitation: true,
            listens: false,
            tasks: true,
            options: &[],
            url: Some(url.clone()),
            token: None,
        };
        Client::connect(&place, &connection).unwrap().0
    };
    let mut clients = [Sdk::Python, Sdk::TypeScript].map(connect);
    let arguments = json!({"seconds": 1});
    let called =
        clients[0].get(json!({"do": "begin", "tool": "slow_compute", "arguments": arguments}));
    assert_eq!(called["resultType"], "task", "{called}");
    let id = called["taskId"].as_str().unwrap();
    wait_for(&server, id, "completed");
    assert!(server.stop().success());
    let address = format!("127.0.0.1:{port}");
    let serve: Vec<&str> =
        SERVE.iter().map(|word| if *word == "127.0.0.1:0" { &*address } else { word }).collect();
    let _server = Server::started(place.command(&serve).args(plugin()));
    for client in &mut clients {
        let state = client.get(json!({"do": "task", "task": id}));
        assert_eq!(state["status"], "completed", "{state}");
        let text = state["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("This is a simple text response"), "{state}");
    }
    // The client waits for the end of a task by itself.
    let called = clients[0].call("slow_compute", arguments);
    assert_eq!(called["isError"], false, "{called}");
}

/// Writes a file and runs two programs, each of which needs the approval of the user.
const SCRIPT: &str = "files.write_file(path='a', content='staged\\n')
one = shell.run_command(command='sleep 1; cat a >> ran; echo one')['output']
two = shell.run_command(command='echo two >> ran; echo two')['output']
[one, two]";

/// A script that was paused when its server was killed goes on in the next one, under the same id.
#[test]
fn a_paused_script_goes_on_after_its_server_was_killed() {
    let place = Place::new();
    let settings = "ask = ['shell.*']\ntasks = ['python.run_python']\n[grants.shell]\nfiles = 'write'\n\
                    process = ['bash']\n[roles.one]\ntools = ['*']\n";
    configure(&place, settings);
    let server = Server::new(&place, &[]);
    let id = task(&server, &call("python__run_python", &json!({"code": SCRIPT})));
    let asked = wait_for(&server, &id, "input_required");
    drop(server);

    let server = Server::new(&place, &[]);
    let again = get(&server, &id);
    assert_eq!(again["inputRequests"], asked["inputRequests"], "{again}");
    assert!(!place.workspace().join("ran").exists());
    let yes = json!({"action": "accept", "content": {}});
    let refused = update(&server, &id, &json!({"approval-1": "yes"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    update(&server, &id, &json!({"other": yes}));
    assert_eq!(get(&server, &id)["status"], "input_required");
    update(&server, &id, &json!({"approval-1": yes}));
    let begin = Instant::now();
    // It asks about the second program under a new key.
    while get(&server, &id)["inputRequests"].get("approval-2").is_none() {
        assert!(begin.elapsed() < TIMEOUT, "{}", get(&server, &id));
        std::thread::sleep(Duration::from_millis(50));
    }
    update(&server, &id, &json!({"approval-1": yes}));
    update(&server, &id, &json!({"approval-2": yes}));
    let ended = wait_for(&server, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"]["value"], json!(["one\n", "two\n"]), "{ended}");
    assert_eq!((place.read("a"), place.read("ran")), ("staged\n".into(), "staged\ntwo\n".into()));
    let of_shell =
        |end: &&Value| end["tool"] == "shell.run_command" && end["outcome"] == "executed";
    assert_eq!(ends(&place.workspace()).iter().filter(of_shell).count(), 2);

    // One that is cancelled in between stays so.
    let id = task(&server, &call("python__run_python", &json!({"code": SCRIPT})));
    wait_for(&server, &id, "input_required");
    drop(server);
    let server = Server::new(&place, &[]);
    about(&server, "/mcp/one", "tasks/cancel", &id);
    assert_eq!(get(&server, &id)["status"], "cancelled");
    update(&server, &id, &json!({"approval-1": yes}));
    assert_eq!(get(&server, &id)["status"], "cancelled");
}
