//! Held changes through the command and over MCP: what a session sees, `cofferdam review`, and what the
//! agent hears.

use serde_json::{Value, json};

use crate::mcp::server::Server;
use crate::mcp::sessions::{post, session};
use crate::support::{Ended, Place};
use crate::trial::configure;

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

fn read(path: &str) -> Value {
    json!({"type": "read_file", "path": path})
}

fn act(place: &Place, options: &[&str], actions: &[Value]) -> Ended {
    let envelope = json!({ "actions": actions }).to_string();
    place.run_with(&[&["run"], options].concat(), &envelope)
}

/// The only proposal.
fn shown(place: &Place) -> Value {
    let listed = place.run(&["review"]).json();
    let proposals = listed["proposals"].as_array().unwrap();
    assert_eq!(proposals.len(), 1, "{listed}");
    place.run(&["review", "show", proposals[0]["id"].as_str().unwrap()]).json()
}

fn hunks(review: &Value) -> Vec<&str> {
    let files = review["files"].as_array().unwrap().iter();
    let hunks = files.flat_map(|file| file["hunks"].as_array().unwrap());
    hunks.map(|hunk| hunk["id"].as_str().unwrap()).collect()
}

#[test]
fn a_session_of_the_command_sees_what_is_held_and_hears_of_decisions() {
    let place = Place::new();
    place.write("a", "old\n");
    let named = ["--session", "task"];
    let ended = act(&place, &["--hold", "--session", "task"], &[write("a", "new\n"), read("a")]);
    let text = ended.json().to_string();
    assert!(text.contains("held: these changes are not in the workspace yet"), "{text}");
    assert!(text.contains("new\\n"), "{text}");
    assert_eq!(place.read("a"), "old\n");
    // The session goes on, without the option; another one sees the workspace.
    let ended = act(&place, &named, &[read("a"), write("sub/b", "b\n")]);
    assert!(ended.json().to_string().contains("revision 2"), "{}", ended.json());
    assert!(ended.json().to_string().contains("new\\n"), "{}", ended.json());
    assert!(act(&place, &[], &[read("a")]).json().to_string().contains("old\\n"));
    assert!(!place.workspace().join("sub").exists());
    // An atomic run and a dry run see it as well.
    let dry = act(&place, &["--session", "task", "--dry-run"], &[write("c", "c\n")]);
    assert!(dry.json()["diff"].as_str().unwrap().contains("+new"), "{}", dry.json());
    let atomic = ["--session", "task", "--atomic"];
    let ended = act(&place, &atomic, &[write("c", "c\n"), write("d", "d\n")]);
    assert!(ended.json().to_string().contains("revision 3"), "{}", ended.json());
    let review = shown(&place);
    assert_eq!(review["session"], "task");
    assert_eq!(review["client"], "cli");
    let id = review["id"].as_str().unwrap();
    let all = hunks(&review);
    assert_eq!(all.len(), 4, "{review}");
    let reject = ["review", "reject", id, "--hunk", all[1], "-m", "no \u{1b}[31mc"];
    assert_eq!(place.run(&reject).status, 0);
    let stale = ["review", "accept", id, "--view", review["view"].as_str().unwrap()];
    let ended = place.run(&stale);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("has changed since"), "{}", ended.stderr);
    assert_eq!(place.run(&["review", "accept", id]).status, 2);
    assert_eq!(place.run(&["review", "accept", id, "--hunk", all[1]]).status, 2);
    assert_eq!(place.read("a"), "old\n");
    let ended = act(&place, &named, &[read("a"), read("a")]);
    let text = ended.json().to_string();
    assert_eq!(text.matches("The user rejected 1 of 4").count(), 1, "{text}");
    let now = shown(&place);
    let view = now["view"].as_str().unwrap();
    let decided = place.run(&["review", "accept", id, "--view", view]).json();
    assert_eq!(decided["commit"]["paths"], 4, "{decided}");
    assert_eq!((place.read("a"), place.read("sub/b")), ("new\n".into(), "b\n".into()));
    assert!(!place.workspace().join("c").exists());
    let log = place.run(&["log", "--format", "text"]).stdout;
    for wanted in ["held in", "review  accepted", "review  rejected", "by cli", "session task"] {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
    assert!(!log.contains('\u{1b}'), "{log}");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("a"), "old\n");
}

#[test]
fn settings_hold_tools_and_roles() {
    let place = Place::new();
    configure(&place, "hold = ['files.write_file']\n[roles.careful]\ntools = ['*']\nhold = true\n");
    let write = write("a", "a\n");
    let held = |options: &[&str], action: &Value| {
        let ended = act(&place, options, std::slice::from_ref(action));
        ended.json().to_string().contains("held: ")
    };
    assert!(held(&[], &write));
    place.write("b", "b\n");
    let ended = place.run(&["call", "delete_path", r#"{"path": "b"}"#, "--role", "careful"]);
    assert!(ended.stderr.contains("held: "), "{} {}", ended.stdout, ended.stderr);
    assert!(place.workspace().join("b").exists());
    assert_eq!(place.run(&["call", "delete_path", r#"{"path": "b"}"#]).status, 0);
    assert!(!place.workspace().join("b").exists() && !place.workspace().join("a").exists());
    // What needs the disk is refused as long as something is held.
    let args = r#"{"path": "c", "content": "c"}"#;
    assert_eq!(place.run(&["call", "write_file", args, "--session", "x"]).status, 0);
    let ended = place.run(&["call", "history.undo", "{}", "--session", "x"]);
    assert!(ended.stdout.contains("NotInTransaction"), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn hostile_names_and_contents_are_escaped() {
    let place = Place::new();
    let name = "x\u{1b}[2J\u{202e}.txt";
    act(&place, &["--hold"], &[write(name, "a\u{1b}]0;b\u{7}\u{202e}\n")]);
    let id = shown(&place)["id"].as_str().unwrap().to_owned();
    for args in [&["review"][..], &["review", "show", &id]] {
        for format in ["json", "text"] {
            let printed = place.run(&[args, &["--format", format]].concat()).stdout;
            for hostile in ['\u{1b}', '\u{7}', '\u{202e}'] {
                assert!(!printed.contains(hostile), "{printed:?}");
            }
        }
    }
    let answers = place.run_with(&["review", "interactive", &id], "x\ny\n");
    assert!(!answers.stdout.contains('\u{1b}'), "{:?}", answers.stdout);
    assert!(place.workspace().join(name).exists(), "{}", answers.stderr);
}

#[test]
fn a_client_is_told_what_was_rejected() {
    let place = Place::new();
    place.write("a", "old\n");
    let server = Server::new(&place, &["--hold"]);
    let session = session(&server);
    let call = |tool: &str, arguments: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
        }});
        let (status, _, body) = server.ask(&post(&call).with("Mcp-Session-Id", &session));
        assert_eq!(status, 200, "{body}");
        body
    };
    let written = call("write_file", json!({"path": "a", "content": "new\n"}));
    assert!(written.contains("held: these changes"), "{written}");
    assert!(call("read_file", json!({"path": "a"})).contains("new"));
    let review = shown(&place);
    assert_eq!(review["client"], "tests 0");
    let (id, hunk) = (review["id"].as_str().unwrap(), hunks(&review)[0].to_owned());
    let reject = place.run(&["review", "reject", id, "--hunk", &hunk, "-m", "keep it"]);
    assert_eq!(reject.status, 0, "{}", reject.stderr);
    let told = call("read_file", json!({"path": "a"}));
    assert!(
        told.contains("The user rejected the only hunk of") && told.contains("keep it"),
        "{told}"
    );
    assert!(told.contains("old"), "{told}");
    let again = call("read_file", json!({"path": "a"}));
    assert!(!again.contains("keep it"), "{again}");
}
