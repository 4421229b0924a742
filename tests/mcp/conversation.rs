//! What each official client can do, over each transport, with each era of the protocol.

use serde_json::{Value, json};

use super::client::{Client, Connection, Era, Sdk};
use super::server::Server;
use super::{plugin, wait_for_the_end};
use crate::support::Place;
use crate::trial::configure;

/// The deadline is long, so that cancelled calls do not end by it.
const SETTINGS: &str = "ask = ['files.write_file']\nexecuted = 'ask'\n[limits]\ncall-ms = 600000\n\
                        [grants.conformance]\nfiles = 'read'\n\
                        [roles.whole]\ntools = ['*']\ncontract = 'tdd-task-executor'\n";

/// A role with all tools and a contract, and what programs read.
const OPTIONS: &[&str] = &["--role", "whole", "--output-schemas"];

macro_rules! conversations {
    ($($name:ident: $sdk:ident, $http:literal, $era:ident;)+) => {
        $(
            #[test]
            fn $name() {
                converse(Sdk::$sdk, $http, Era::$era);
            }
        )+
    };
}

conversations! {
    python_on_stdio_in_a_session: Python, false, Sessions;
    python_on_stdio: Python, false, Stateless;
    python_over_http_in_a_session: Python, true, Sessions;
    python_over_http: Python, true, Stateless;
    typescript_on_stdio_in_a_session: TypeScript, false, Sessions;
    typescript_on_stdio: TypeScript, false, Stateless;
    typescript_over_http_in_a_session: TypeScript, true, Sessions;
    typescript_over_http: TypeScript, true, Stateless;
}

fn converse(sdk: Sdk, http: bool, era: Era) {
    let place = Place::new();
    configure(&place, SETTINGS);
    place.write("notes/a.txt", "one\n");
    place.write("large.txt", "0123456789abcde\n".repeat(16 << 10));
    let server = http.then(|| Server::new(&place, OPTIONS));
    let url = server.as_ref().map(|server| server.url("/mcp"));
    let (elicitation, listens, options, token) = (true, false, OPTIONS, None);
    let connection =
        Connection { sdk, era, elicitation, listens, tasks: false, options, url, token };
    let (mut client, connected) = Client::connect(&place, &connection).unwrap();
    let revision = if era == Era::Sessions { "2025-11-25" } else { "2026-07-28" };
    assert_eq!(connected, json!({"revision": revision, "server": "cofferdam"}));
    lists_tools(&place, &mut client);
    calls(&mut client);
    // If progress and result arrive together, this SDK ignores the progress.
    let hears = sdk != Sdk::TypeScript || http;
    hears_of_progress(&mut client, hears);
    cancels(&place, &mut client);
    asks_the_user(&place, &mut client);
    reads_resources(&place, &mut client);
    gets_prompts(&mut client);
    drop(client);
    let mute = Connection { elicitation: false, ..connection };
    let (client, _) = Client::connect(&place, &mute).unwrap();
    is_refused_without_a_user(&place, client, era);
}

/// All tools are in the first answer, with valid schemas.
fn lists_tools(place: &Place, client: &mut Client) {
    let page = client.get(json!({"do": "tools"}));
    assert_eq!(page["more"], false);
    let tools = page["tools"].as_array().unwrap();
    for tool in tools {
        for schema in ["inputSchema", "outputSchema"] {
            let compiled = jsonschema::draft202012::new(&tool[schema]);
            compiled.unwrap_or_else(|error| panic!("{} {schema}: {error}", tool["name"]));
        }
    }
    let [option, file] = plugin();
    let known = ["tools", "--role", "whole", "--format", "mcp", &option, &file];
    let known = place.run(&known).json();
    let names = |tools: &Value| -> Vec<String> {
        let tools = tools.as_array().unwrap().iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        // These have no granted origin, program, agent or capability, or no target file, so they are not
        // listed.
        let commands = ["bash", "run_command", "start_process", "stop_process", "read_output"];
        let others = ["context7_", "task", "git_commit", "list_processes"];
        let ungranted = [&commands[..], &others].concat();
        let untargeted = ["lint_agent__", "apply_fix", "ruff_config", "submit"];
        let unlisted = [&ungranted[..], &untargeted].concat();
        names.filter(|name| !unlisted.iter().any(|one| name.starts_with(one))).collect()
    };
    assert_eq!(tools.len(), names(&page["tools"]).len());
    let mut known = names(&known["tools"]);
    known.sort();
    assert_eq!(names(&page["tools"]), known);
    assert!(tools.len() > 20, "{}", tools.len());
}

fn calls(client: &mut Client) {
    // The SDK validates structured content by the output schema.
    let read = client.call("files__read_file", json!({"path": "notes/a.txt"}));
    assert_eq!(read["structuredContent"]["content"], "one\n", "{read}");
    assert_ne!(read["isError"], true);
    // The text has each field once, and the file as it is.
    let text = read["content"][0]["text"].as_str().unwrap();
    let (line, file) = text.split_once('\n').unwrap();
    assert_eq!(file, "one\n");
    let mut rest: Value = serde_json::from_str(line).unwrap();
    rest["content"] = json!(file);
    assert_eq!(rest, read["structuredContent"]);
    let absent = json!({"path": "notes/a.txt", "offset": null, "limit": null});
    let read = client.call("files__read_file", absent);
    assert_eq!(read["structuredContent"]["content"], "one\n", "{read}");

    let wrong = client.call("files__read_file", json!({"path": 3}));
    assert_is_error(&wrong, "/path: expected a string, found 3");
    let named = client.call("files__read_file", json!({"file_path": "notes/a.txt"}));
    assert_is_error(&named, "did you mean 'path'?");
    let missing = client.call("files__read_file", json!({"path": "missing.txt"}));
    assert_is_error(&missing, "FileNotFoundError");
    let failed = client.call("conformance__test_error_handling", json!({}));
    assert_is_error(&failed, "Told: This tool intentionally returns an error for testing");

    let unknown = client.ask(&json!({"do": "call", "tool": "nothing"})).unwrap_err();
    assert_eq!(unknown["code"], -32602, "{unknown}");
    assert!(unknown["message"].as_str().unwrap().contains("Unknown tool: nothing"), "{unknown}");
    let near = client.ask(&json!({"do": "call", "tool": "raed_file"})).unwrap_err();
    let message = near["message"].as_str().unwrap();
    assert!(message.contains("The nearest tools of this role are"), "{near}");
    assert!(message.contains("read_file") && !message.contains("cofferdam"), "{near}");
}

#[track_caller]
fn assert_is_error(result: &Value, text: &str) {
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains(text), "{result}");
}

fn hears_of_progress(client: &mut Client, all: bool) {
    let ended = client.get(json!({"do": "call", "tool": "conformance__test_tool_with_progress"}));
    let reports: Vec<f64> = ended["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report[0].as_f64().unwrap())
        .collect();
    if all {
        assert_eq!(reports, [0.0, 50.0, 100.0], "{ended}");
    }
    assert!(ended["result"]["structuredContent"]["text"].is_string(), "{ended}");
}

/// A running call ends when the client cancels it; nothing else would end it.
fn cancels(place: &Place, client: &mut Client) {
    for (number, how) in ["compute", "sleep"].into_iter().enumerate() {
        let ended = client.get(json!({
            "do": "call",
            "tool": "conformance__wait",
            "arguments": {"how": how},
            "cancel": true,
        }));
        assert_eq!(ended["result"], Value::Null, "{ended}");
        assert_eq!(ended["progress"][0][2], "waiting", "{ended}");
        wait_for_the_end(place, "conformance.wait", "Cancelled", number + 1);
    }
    let next = client.call("conformance__test_simple_text", json!({}));
    assert!(next["structuredContent"]["text"].is_string(), "{next}");
}

fn asks_the_user(place: &Place, client: &mut Client) {
    let file = place.workspace().join("new.txt");
    for (person, answer) in [
        ("decline", "Declined: the person said no"),
        ("cancel", "Declined: the person did not answer"),
    ] {
        let ended = write(client, person);
        assert_is_error(&ended["result"], answer);
        assert!(!file.exists());
        assert_was_shown(&ended);
    }
    let ended = write(client, "accept");
    assert_eq!(ended["result"]["structuredContent"]["bytes_written"], 6, "{ended}");
    assert_was_shown(&ended);
    assert_eq!(place.read("new.txt"), "words\n");
    for (person, is_written) in [("decline", false), ("accept", true)] {
        let patch = "diff --git a/.envrc b/.envrc\nnew file mode 100644\n--- /dev/null\n\
                     +++ b/.envrc\n@@ -0,0 +1 @@\n+words\n";
        let ended = client.get(json!({
            "do": "call",
            "tool": "edit__apply_patch",
            "arguments": {"patch": patch},
            "person": person,
        }));
        let asked = ended["asked"].as_array().unwrap();
        assert_eq!(asked.len(), 1, "{ended}");
        let question = asked[0].as_str().unwrap();
        assert!(question.contains("wrote .envrc, which direnv runs"), "{question}");
        assert!(question.contains("+++ b/.envrc") && question.contains("+words"), "{question}");
        assert_eq!(place.workspace().join(".envrc").exists(), is_written, "{ended}");
    }
}

fn write(client: &mut Client, person: &str) -> Value {
    client.get(json!({
        "do": "call",
        "tool": "files__write_file",
        "arguments": {"path": "new.txt", "content": "words\n"},
        "person": person,
    }))
}

/// The user sees the tool and its changes, once.
#[track_caller]
fn assert_was_shown(ended: &Value) {
    let asked = ended["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 1, "{ended}");
    let question = asked[0].as_str().unwrap();
    assert!(question.starts_with("May files.write_file be called? It changes:"), "{question}");
    assert!(question.contains("+++ b/new.txt") && question.contains("+words"), "{question}");
}

fn reads_resources(place: &Place, client: &mut Client) {
    let templates = client.get(json!({"do": "templates"}));
    assert_eq!(templates.as_array().unwrap().len(), 2, "{templates}");
    let resources = client.get(json!({"do": "resources"}));
    let uri = |name: &str| -> String {
        let mut all = resources.as_array().unwrap().iter();
        let found = all.find(|resource| resource["name"] == name);
        found.unwrap_or_else(|| panic!("{resources}"))["uri"].as_str().unwrap().to_owned()
    };
    let file = uri("notes/a.txt");
    assert_eq!(file, format!("file://{}/notes/a.txt", place.workspace().display()));
    let read = |client: &mut Client, uri: &str| -> String {
        let contents = client.get(json!({"do": "read", "uri": uri}));
        contents[0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(read(client, &file), "one\n");
    assert!(read(client, &uri("Journal")).contains("files.write_file"));
    for uri in ["file:///etc/passwd", "cofferdam://results/made-up", "other://x"] {
        let error = client.ask(&json!({"do": "read", "uri": uri})).unwrap_err();
        assert!([-32002, -32602].contains(&error["code"].as_i64().unwrap()), "{uri}: {error}");
    }

    // An answer that is too large for a model is stored, and can be read in parts.
    let large = client.call("files__read_file", json!({"path": "large.txt", "limit": 100_000}));
    let stored = &large["structuredContent"]["stored"];
    let (uri, bytes) = (stored["uri"].as_str().unwrap(), stored["bytes"].as_u64().unwrap());
    assert_eq!(large["content"][1]["type"], "resource_link", "{large}");
    // The text that is shown goes on in a resource of its own.
    let shown = large["content"][0]["text"].as_str().unwrap();
    let link = large["content"][1]["uri"].as_str().unwrap();
    assert!(shown.contains(link) && !shown.contains("\\n"), "{large}");
    assert!(read(client, link).ends_with(&place.read("large.txt")));
    let whole = read(client, uri);
    assert_eq!(whole.len() as u64, bytes);
    let answer: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(answer["content"], place.read("large.txt"));
    let part = read(client, &format!("{uri}?offset=100&length=50"));
    assert_eq!(part, whole[100..150]);
}

fn gets_prompts(client: &mut Client) {
    let prompts = client.get(json!({"do": "prompts"}));
    let names: Vec<&str> =
        prompts.as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tdd-task-executor"]);
    let get = |arguments: Value| json!({"do": "prompt", "name": "tdd-task-executor", "arguments": arguments});
    let prompt = client.get(get(json!({"task": "Do this."})));
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("Do this.\n\n") && text.contains("---OUTPUT---"), "{text}");
    for request in
        [get(json!({"other": "x"})), json!({"do": "prompt", "name": "x", "arguments": {}})]
    {
        let error = client.ask(&request).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
}

/// If the client can't ask the user, the call is not made.
fn is_refused_without_a_user(place: &Place, mut client: Client, era: Era) {
    let request = json!({
        "do": "call",
        "tool": "files__write_file",
        "arguments": {"path": "unasked.txt", "content": "x"},
    });
    match (era, client.ask(&request)) {
        (Era::Sessions, Ok(ended)) => assert_is_error(&ended["result"], "ApprovalNeeded"),
        (Era::Stateless, Err(error)) => assert_eq!(error["code"], -32021, "{error}"),
        (_, other) => panic!("{other:?}"),
    }
    assert!(!place.workspace().join("unasked.txt").exists());
    let read = client.call("files__read_file", json!({"path": "notes/a.txt"}));
    assert_eq!(read["structuredContent"]["content"], "one\n", "{read}");
}
