//! When no program is left running.

use serde_json::{Value, json};

use super::super::server::{Request, Server};
use super::{Client, GRANTS, Scene};
use crate::support::Place;
use crate::trial::configure;

fn start(command: &str) -> Value {
    json!({"command": command, "wait_ms": 0})
}

/// The names of the tools under a role.
fn tools(place: &Place, role: &str) -> String {
    place.run(&["tools", "--role", role, "--format", "mcp"]).stdout
}

#[test]
fn programs_that_stay_need_a_grant_of_their_own() {
    for (settings, wanted) in [
        ("", "process"),
        ("[grants.processes]\nfiles = 'read'\nprocess = ['bash']\n", "needs background"),
        ("[grants.processes]\nfiles = 'read'\nbackground = true\n", "process"),
        ("[grants.processes]\nprocess = ['bash']\nbackground = true\n", "files"),
    ] {
        let scene = Scene::new("A", "");
        configure(&scene.place, settings);
        let server = scene.serve();
        let client = Client::new(&server);
        let error = client.fails("processes__start_process", start("true"));
        assert!(error.starts_with("NotGranted: ") && error.contains(wanted), "{settings}: {error}");
        assert!(error.contains("[grants.processes]"), "{error}");
        if wanted.contains("background") {
            assert!(error.contains("background = true"), "{error}");
        }
    }
}

#[test]
fn the_tools_are_in_no_default_role() {
    let scene = Scene::new("A", "");
    for (role, is_listed) in [("coder", false), ("main", true)] {
        let listed = tools(&scene.place, role);
        for tool in ["start_process", "read_output", "stop_process", "list_processes"] {
            assert_eq!(listed.contains(&format!("\"{tool}\"")), is_listed, "{role} {tool}");
        }
    }
}

#[test]
fn hints_say_what_changes_something() {
    let scene = Scene::new("A", "");
    let listed: Value = serde_json::from_str(&tools(&scene.place, "main")).unwrap();
    let listed = listed.as_array().or(listed["tools"].as_array()).unwrap().clone();
    for (tool, is_read_only) in [
        ("start_process", false),
        ("stop_process", false),
        ("read_output", true),
        ("list_processes", true),
    ] {
        let found = listed.iter().find(|known| known["name"] == tool).unwrap();
        assert_eq!(found["annotations"]["readOnlyHint"] == true, is_read_only, "{found}");
    }
}

#[test]
fn calls_without_a_session_leave_no_program() {
    let scene = Scene::new("A", "");
    let ended = scene.place.run(&["call", "processes.start_process", &start("true").to_string()]);
    let error = ended.json()["error"].take();
    assert_eq!(error["code"], "BackgroundUnavailable");
    assert!(error["message"].as_str().unwrap().contains("`cofferdam serve`"), "{error}");
    let server = scene.serve();
    let call = json!({"name": "start_process", "arguments": start("true")});
    let (_, _, body) = server.ask(&Request::post("/mcp", "tools/call", &call));
    assert!(body.contains("BackgroundUnavailable"), "{body}");
    assert_eq!(scene.events("program_started").len(), 0);
}

#[test]
fn a_transaction_starts_no_program() {
    let scene = Scene::new("A", "");
    let envelope = json!({"actions": [
        {"type": "write_file", "path": "a.txt", "content": "a"},
        {"type": "start_process", "command": "true"},
    ]})
    .to_string();
    for option in ["--atomic", "--dry-run"] {
        let ended = scene.place.run_with(&["run", "--role", "main", option, "-"], &envelope);
        assert!(ended.stdout.contains("NotInTransaction"), "{ended:?}");
        assert!(!scene.place.workspace().join("a.txt").exists() || option == "--dry-run");
    }
}

#[test]
fn argument_rules_hold() {
    let rules = GRANTS.replace(
        "background = true\n",
        "background = true\narguments.bash = { allow = ['-c -- sleep *'] }\n",
    );
    let scene = Scene::new("A", "");
    configure(&scene.place, &rules);
    let server = scene.serve();
    let client = Client::new(&server);
    let error = client.fails("start_process", start("echo no"));
    assert!(
        error.starts_with("ProgramNotGranted: ") && error.contains("arguments.bash"),
        "{error}"
    );
    let _: &Server = &server;
}

#[test]
fn wrong_ids_and_commands_are_refused() {
    let scene = Scene::new("A", "");
    scene.place.write("file", "");
    let server = scene.serve();
    let client = Client::new(&server);
    client.start("exec sleep 1000");
    for id in ["process-2", "process-0", "process-01", "Process-1", "1", "../x", "\u{1}\u{202e}"] {
        for tool in ["read_output", "stop_process"] {
            let error = client.fails(tool, json!({"process_id": id}));
            assert!(error.starts_with("ProcessNotFoundError: "), "{error}");
            assert!(error.contains("it has process-1"), "{error}");
        }
    }
    let error = client.fails("start_process", start("a\0b"));
    assert!(error.starts_with("InvalidCommand: "), "{error}");
    for directory in ["..", "/etc", "file/../.."] {
        let args = json!({"command": "true", "working_dir": directory});
        let error = client.fails("start_process", args);
        assert!(error.starts_with("PathNotAllowed: "), "{error}");
    }
    for directory in ["none", "file"] {
        let args = json!({"command": "true", "working_dir": directory, "wait_ms": 30_000});
        let started = client.call("start_process", args);
        assert_eq!(started["state"], "failed", "{started}");
        assert!(started["reason"].as_str().unwrap().contains(directory), "{started}");
    }
    assert_eq!(client.call("list_processes", json!({}))["processes"][0]["state"], "running");
}
