//! What a person grants, and how they learn why something is allowed or not.

use std::fs;

use serde_json::{Value, json};

use super::{Plugin, says};
use crate::support::Place;

/// What a plugin can ask for.
fn everything() -> Value {
    json!({
        "files": "write", "scan": true, "process": ["git", "sh"],
        "backends": ["linter", "test-runner", "builder"], "http": ["https://a.example"],
    })
}

#[test]
fn a_plugin_that_asks_for_everything_gets_what_a_person_says() {
    let place = Place::new();
    let file = place.beside("greedy.wasm", &Plugin::new("greedy").requests(everything()));
    let install = ["plugin", "install", file.to_str().unwrap()];
    let why = place.refused(3, &install);
    for words in [
        "files=write: reading and changing files",
        "scan: reading whole trees",
        "process=sh: running the program sh",
        "backends=test-runner: using the test runners, which execute",
        "http=https://a.example: asking",
        "no terminal",
        "--grant files=write --grant scan --grant process=git --grant process=sh",
        "--deny",
    ] {
        says(&why, &[words]);
    }
    assert!(place.stored().is_empty() && place.settings().is_empty());
    for (option, wanted) in [
        ("--grant=files=everything", "no capability"),
        ("--grant=process=bash", "'greedy' does not ask for process=bash"),
        ("--grant=http=https://b.example", "does not ask for http=https://b.example"),
    ] {
        says(&place.refused(2, &[&install[..], &[option]].concat()), &[wanted]);
    }
    let both = [&install[..], &["--deny", "--grant", "scan"]].concat();
    says(&place.refused(2, &both), &["cannot be used with"]);
    place.works(&[&install[..], &["--grant", "files=read", "--grant", "process=git"]].concat());
    let explained = place.works(&["policy", "explain", "greedy"]);
    let granted: Vec<&str> = explained["capabilities"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|each| each["granted"] == true)
        .map(|each| each["capability"].as_str().unwrap())
        .collect();
    assert_eq!(granted, ["process=git"]);
    let shown = place.works(&["policy", "show"]);
    let of_greedy =
        shown["grants"].as_array().unwrap().iter().find(|one| one["plugin"] == "greedy");
    assert_eq!(
        of_greedy.unwrap()["granted"],
        json!({"files": "read", "scan": false, "process": ["git"]})
    );
    // Who installs it again and says what it gets, says all that it gets.
    place.works(&install);
    assert_eq!(place.settings(), "[grants.greedy]\nfiles = \"read\"\nprocess = [\"git\"]\n");
    place.works(&[&install[..], &["--grant", "scan"]].concat());
    assert_eq!(place.settings(), "[grants.greedy]\nscan = true\n");
    place.works(&[&install[..], &["--deny"]].concat());
    assert_eq!(place.settings(), "");
}

#[test]
fn grants_are_given_and_taken_back_where_they_stand() {
    let place = Place::new();
    let settings = place.home().join(".config/cofferdam/cofferdam.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "# mine\n[limits]\ncall-ms = 20000 # enough\n").unwrap();
    let file = place.beside("greedy.wasm", &Plugin::new("greedy").requests(everything()));
    place.works(&["plugin", "install", file.to_str().unwrap(), "--deny"]);
    for (args, wanted) in [
        (
            &["grant", "greedy", "files=write", "scan"][..],
            "[grants.greedy]\nfiles = \"write\"\nscan = true\n",
        ),
        (&["revoke", "greedy", "files=write"], "[grants.greedy]\nfiles = \"read\"\nscan = true\n"),
        (
            &["grant", "greedy", "process=git"],
            "[grants.greedy]\nfiles = \"read\"\nscan = true\nprocess = [\"git\"]\n",
        ),
        (&["revoke", "greedy"], ""),
        // What came with the host would have its usual rights without an entry.
        (&["revoke", "files", "files=write"], "[grants.files]\nfiles = \"read\"\nscan = true\n"),
        (&["revoke", "files"], "[grants.files]\n"),
        (&["grant", "files", "files=read"], "[grants.files]\nfiles = \"read\"\n"),
    ] {
        place.works(&[&["policy"], args].concat());
        let text = place.settings();
        let head = "# mine\n[limits]\ncall-ms = 20000 # enough\n";
        assert_eq!(text.strip_prefix(head).unwrap().trim_start(), wanted, "{args:?}");
    }
    for (args, status, why) in [
        (&["grant", "greedy", "process=bash"][..], 2, "does not ask for process=bash"),
        (&["grant", "nobody", "scan"], 2, "there is no plugin 'nobody'"),
        (&["grant", "greedy"], 2, "required"),
        (&["revoke", "greedy"], 2, "your settings grant 'greedy' nothing"),
        (&["revoke", "files", "process=git"], 2, "'files' is not granted process=git"),
    ] {
        says(&place.refused(status, &[&["policy"], args].concat()), &[why]);
    }
    let events = place.events();
    assert_eq!(events[1], "grant_changed: greedy is granted files=write scan");
    assert_eq!(events[4], "grant_changed: greedy is granted files=none");
    // What can't be read is not written.
    fs::write(&settings, "[grants.greedy]\nfile = 'read'\n").unwrap();
    says(&place.refused(2, &["policy", "revoke", "greedy"]), &["unknown field `file`", "line 2"]);
    assert_eq!(place.settings(), "[grants.greedy]\nfile = 'read'\n");
}

#[test]
fn what_is_allowed_is_explained_down_to_the_line() {
    let place = Place::new();
    let file = place.beside("greedy.wasm", &Plugin::new("greedy").requests(everything()));
    place.works(&["plugin", "install", file.to_str().unwrap(), "--grant", "files=write"]);
    let why = |args: &[&str], capability: &str| -> (Value, String) {
        let explained = place.works(&[&["policy", "explain"], args].concat());
        let all = explained["capabilities"].as_array().unwrap();
        let one = all.iter().find(|one| one["capability"] == capability).unwrap();
        (one["granted"].clone(), one["why"].as_str().unwrap().to_owned())
    };
    for (plugin, capability, granted, words) in [
        ("greedy", "files=write", true, "cofferdam/cofferdam.toml:2 grants it"),
        ("greedy", "scan", false, "cofferdam.toml:1 "),
        ("greedy", "scan", false, "`cofferdam policy grant greedy scan` grants it"),
        ("files", "files=write", true, "it came with the host"),
        ("shell", "process=bash", false, "shells and the network are granted by a person only"),
    ] {
        let found = why(&[plugin], capability);
        assert_eq!(found.0, granted, "{plugin} {found:?}");
        says(&found.1, &[words]);
    }
    // The workspace's own settings, once they were accepted, have the last word, and it is said.
    place.write("cofferdam.toml", "[grants.greedy]\nscan = true\nhttp = ['https://b.example']\n");
    let unaccepted = why(&["greedy"], "files=write");
    says(&unaccepted.1, &["home/.config/cofferdam/cofferdam.toml:2 grants it"]);
    place.works(&["policy", "accept"]);
    says(
        &why(&["greedy"], "scan").1,
        &["workspace/cofferdam.toml:2 grants it, but it gives nothing without files"],
    );
    says(&why(&["greedy"], "http=https://b.example").1, &["does not ask for it"]);
    let granting = place.run(&["policy", "grant", "greedy", "scan"]);
    says(&granting.stderr, &["workspace/cofferdam.toml says under [grants.greedy]"]);

    let tool = place.works(&["policy", "explain", "files.write_file"]);
    assert_eq!(tool["tool"]["decision"], "allowed");
    let narrowed = place.works(&["policy", "explain", "files.write_file", "--role", "reader"]);
    assert_eq!(narrowed["tool"]["code"], "ToolNotInRole");
    let denied = place.works(&["policy", "explain", "shell.bash"]);
    assert_eq!(denied["tool"]["code"], "NotGranted");
    says(&place.refused(2, &["policy", "explain", "nothing"]), &["neither a plugin"]);
}
