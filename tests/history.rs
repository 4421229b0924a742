//! The tools `history` and `undo`: a session lists, shows and undoes its own commits and no others.

use serde_json::{Value, json};

use crate::mcp::server::Server;
use crate::mcp::sessions::{post, session};
use crate::support::{Ended, Place};
use crate::trial::configure;

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

/// Runs actions as one session of the command; returns their results.
fn act(place: &Place, options: &[&str], actions: &[Value]) -> (Ended, Vec<Value>) {
    let envelope = json!({ "actions": actions }).to_string();
    let ended = place.run_with(&[&["run"], options].concat(), &envelope);
    let results = ended.json()["results"].as_array().cloned().unwrap_or_default();
    (ended, results)
}

/// Whether the result of an action has no code of a failure.
fn succeeded(result: &Value) -> bool {
    result.is_object() && !result["metadata"]["code"].is_string()
}

#[test]
fn a_run_lists_shows_and_undoes_its_own_commits() {
    let place = Place::new();
    place.write("a", "old\n");
    act(&place, &[], &[write("earlier", "x\n")]);
    let list = json!({"type": "history"});
    let undo = json!({"type": "undo"});
    let steps = [
        write("a", "new\n"),
        write("b", "b\n"),
        list.clone(),
        undo.clone(),
        undo.clone(),
        list,
        undo,
    ];
    let (ended, results) = act(&place, &[], &steps);
    let text = ended.json().to_string();
    assert_eq!(results.len(), 7, "{text}");
    assert!(text.contains("created b") && text.contains("changed a"), "{text}");
    assert!(text.contains("deleted b") && text.contains("reverted a"), "{text}");
    assert!(!text.contains("earlier"), "{text}");
    // The third undo finds nothing of this session.
    assert!(results[6].to_string().contains("no commit that is not undone"), "{text}");
    assert_eq!(place.read("a"), "old\n");
    assert!(!place.workspace().join("b").exists() && place.workspace().join("earlier").exists());
    let commits = place.run(&["log", "--commits"]).json();
    let commits = commits["records"].as_array().unwrap().clone();
    assert_eq!(commits.len(), 5, "{commits:?}");
    assert_eq!(commits[3]["undoes"], commits[2]["commit"]);
    assert_eq!(commits[4]["undoes"], commits[1]["commit"]);
    // The undo is undone like any other commit.
    assert_eq!(place.run(&["undo", commits[4]["commit"].as_str().unwrap()]).status, 0);
    assert_eq!(place.read("a"), "new\n");

    // Another run does not know these commits, by any id.
    for id in [
        commits[0]["commit"].as_str().unwrap(),
        "0198",
        "../../etc",
        "\u{0}\u{1}\u{2}\u{3}",
        "----",
    ] {
        for action in [json!({"type": "undo", "id": id}), json!({"type": "history", "id": id})] {
            let (_, results) = act(&place, &[], &[action]);
            assert!(results[0].to_string().contains("this session has no commit"), "{results:?}");
        }
    }
    assert!(place.workspace().join("earlier").exists());
}

#[test]
fn an_undo_is_a_commit_of_its_own() {
    let place = Place::new();
    place.write("a", "old\n");
    let undo = json!({"type": "undo"});
    let (ended, _) = act(&place, &["--atomic"], &[write("a", "new\n"), undo.clone()]);
    assert!(ended.stdout.contains("not made in an atomic run"), "{ended:?}");
    assert_eq!(place.read("a"), "old\n");
    // A program's later change is not overwritten.
    let steps = [write("a", "new\n"), json!({"type": "move_path", "path": "a", "to": "b"}), undo];
    let (_, results) = act(&place, &[], &steps);
    assert!(results[2].to_string().contains("created a") || place.read("a") == "new\n");
    assert_eq!(place.read("a"), "new\n");
    let (ended, _) = act(&place, &["--dry-run"], &[json!({"type": "undo"})]);
    assert!(ended.stdout.contains("no commit"), "{ended:?}");
}

#[test]
fn without_a_grant_the_history_is_refused() {
    let place = Place::new();
    for grant in ["", "files = 'write'", "history = true"] {
        configure(&place, &format!("[grants.history]\n{grant}\n"));
        let (_, results) = act(&place, &[], &[write("a", "x\n"), json!({"type": "undo"})]);
        assert!(succeeded(&results[0]), "{results:?}");
        assert!(!succeeded(&results[1]), "{grant}: {results:?}");
        assert_eq!(place.read("a"), "x\n", "{grant}");
    }
}

#[test]
fn sessions_do_not_see_commits_of_each_other() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let (one, two) = (session(&server), session(&server));
    let call = |session: &str, tool: &str, arguments: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
        }});
        let (status, _, body) = server.ask(&post(&call).with("Mcp-Session-Id", session));
        assert_eq!(status, 200, "{body}");
        body
    };
    call(&one, "write_file", json!({"path": "one", "content": "1\n"}));
    call(&two, "write_file", json!({"path": "two", "content": "2\n"}));
    let commits = place.run(&["log", "--commits"]).json();
    let id = |index: usize| commits["records"][index]["commit"].as_str().unwrap().to_owned();
    let listed = call(&two, "history", json!({}));
    assert!(listed.contains(&id(1)) && !listed.contains(&id(0)), "{listed}");
    let shown = call(&two, "history", json!({"id": id(1)}));
    assert!(shown.contains("+2"), "{shown}");
    for tool in ["history", "undo"] {
        let refused = call(&two, tool, json!({"id": id(0)}));
        assert!(refused.contains("this session has no commit"), "{refused}");
    }
    assert!(call(&two, "undo", json!({})).contains(&id(1)));
    assert!(call(&two, "undo", json!({})).contains("no commit that is not undone"));
    assert!(place.workspace().join("one").exists() && !place.workspace().join("two").exists());

    // What another program has changed since is not overwritten, and is named.
    place.write("one", "theirs\n");
    let refused = call(&one, "undo", json!({}));
    assert!(refused.contains("one has other content"), "{refused}");
    assert_eq!(place.read("one"), "theirs\n");
}

#[test]
fn the_diff_of_a_part_of_the_history_is_printed() {
    let place = Place::new();
    for content in ["one\n", "two\n", "three\n"] {
        act(&place, &[], &[write("a", content)]);
    }
    let records = place.run(&["log", "--commits"]).json()["records"].clone();
    let id = |at: usize| records[at]["commit"].as_str().unwrap();
    let range = format!("{}..{}", id(1), id(2));
    let shown = place.run(&["log", "--diff", &range]).json();
    let diff = shown["diff"].as_str().unwrap();
    assert!(diff.contains("-one") && diff.contains("+three") && !diff.contains("two"), "{diff}");
    assert_eq!((&shown["first"], &shown["commits"]), (&records[1]["commit"], &json!(2)));
    let text = place.run(&["log", "--diff", &format!("{}..", id(0)), "--format", "text"]);
    assert!(text.stdout.contains("new file mode") && text.stdout.contains("+three"), "{text:?}");
    // What is not kept any more is named.
    let images = place.workspace().join(".cofferdam/images");
    for image in std::fs::read_dir(images).unwrap() {
        std::fs::write(image.unwrap().path(), "planted").unwrap();
    }
    let shown = place.run(&["log", "--diff", &range]).json();
    assert_eq!((&shown["unreadable"], &shown["diff"]), (&json!(["a"]), &json!("")), "{shown}");
    let text = place.run(&["log", "--diff", &range, "--format", "text"]);
    assert!(text.stderr.contains("a is left out") && text.stdout.is_empty(), "{text:?}");
    assert_eq!(place.run(&["log", "--diff", "x..y"]).status, 2);
}
