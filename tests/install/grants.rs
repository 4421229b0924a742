//! What a user grants, and how the command explains why something is allowed or not.

use std::fs;

use serde_json::{Value, json};

use super::{Plugin, assert_contains};
use crate::support::Place;
use crate::trial::configure;

/// All capabilities that a plugin can request.
fn everything() -> Value {
    json!({
        "files": "write", "scan": true, "process": ["git", "sh"],
        "backends": ["linter", "test-runner", "builder"], "cache": true, "agents": ["*"],
        "http": ["https://a.example"],
    })
}

#[test]
fn a_plugin_that_requests_everything_gets_what_the_user_grants() {
    let place = Place::new();
    let file = place.beside("greedy.wasm", &Plugin::new("greedy").requests(everything()));
    let install = ["plugin", "install", file.to_str().unwrap()];
    let why = place.refused(3, &install);
    for words in [
        "files=write: reading and changing files",
        "scan: reading whole trees",
        "process=sh: running the program sh",
        "backends=test-runner: using the test runners, which execute",
        "cache: keeping something from call to call",
        "agents=*: giving tasks to every agent of your settings, none of which is sandboxed",
        "http=https://a.example: asking",
        "no terminal",
        "--grant files=write --grant scan --grant process=git --grant process=sh",
        "--grant cache --grant agents=NAME --grant http=https://a.example",
        "--deny",
    ] {
        assert_contains(&why, &[words]);
    }
    assert!(place.stored().is_empty() && place.settings().is_empty());
    for (option, wanted) in [
        ("--grant=files=everything", "no capability"),
        ("--grant=process=bash", "'greedy' does not ask for process=bash"),
        ("--grant=http=https://b.example", "does not ask for http=https://b.example"),
    ] {
        assert_contains(&place.refused(2, &[&install[..], &[option]].concat()), &[wanted]);
    }
    let both = [&install[..], &["--deny", "--grant", "scan"]].concat();
    assert_contains(&place.refused(2, &both), &["cannot be used with"]);
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
    // Installing again with --grant replaces all grants.
    place.works(&install);
    assert_eq!(place.settings(), "[grants.greedy]\nfiles = \"read\"\nprocess = [\"git\"]\n");
    place.works(&[&install[..], &["--grant", "scan"]].concat());
    assert_eq!(place.settings(), "[grants.greedy]\nscan = true\n");
    place.works(&[&install[..], &["--deny"]].concat());
    assert_eq!(place.settings(), "");
}

#[test]
fn grants_are_added_and_revoked_in_place() {
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
        // Without an entry, a built-in plugin would have its default permissions.
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
        assert_contains(&place.refused(status, &[&["policy"], args].concat()), &[why]);
    }
    let events = place.events();
    assert_eq!(events[1], "grant_changed: greedy is granted files=write scan");
    assert_eq!(events[4], "grant_changed: greedy is granted files=none");
    // Settings that can't be parsed are not changed.
    fs::write(&settings, "[grants.greedy]\nfile = 'read'\n").unwrap();
    assert_contains(
        &place.refused(2, &["policy", "revoke", "greedy"]),
        &["unknown field `file`", "line 2"],
    );
    assert_eq!(place.settings(), "[grants.greedy]\nfile = 'read'\n");
}

/// A place whose user has these settings.
fn saying(settings: &str) -> Place {
    let place = Place::new();
    configure(&place, settings);
    place
}

#[test]
fn agents_are_granted_by_name_and_revoked() {
    let place = saying("[agents.code-implementer]\ncommand = ['false']\n");
    let names = |place: &Place| -> Vec<String> {
        let shown = place.works(&["policy", "show"]);
        let all = shown["grants"].as_array().unwrap();
        let team = all.iter().find(|one| one["plugin"] == "team").unwrap();
        let agents = team["granted"]["agents"].as_array().into_iter().flatten();
        agents.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    place.works(&["policy", "grant", "team", "agents=code-implementer"]);
    assert_contains(
        &place.settings(),
        &["[grants.team]\nfiles = \"write\"\nagents = [\"code-implementer\"]\n"],
    );
    assert_eq!(names(&place), ["code-implementer"]);
    let explained = place.works(&["policy", "explain", "team"]);
    let all = explained["capabilities"].as_array().unwrap();
    let one = all.iter().find(|one| one["capability"] == "agents=code-implementer").unwrap();
    assert_eq!((&one["granted"], &one["requested"]), (&json!(true), &json!(true)));
    assert_contains(one["why"].as_str().unwrap(), &["cofferdam.toml:6 grants it"]);
    assert_contains(
        one["allows"].as_str().unwrap(),
        &["your agent code-implementer, which is not sandboxed"],
    );
    // The tool that asks agents is told about its grants.
    let task = place.works(&["policy", "explain", "team.task"]);
    assert!(task["tool"]["gets"].as_array().unwrap().contains(&json!("agents=code-implementer")));
    place.works(&["policy", "revoke", "team", "agents=code-implementer"]);
    assert_eq!(names(&place), [""; 0]);
    assert!(!place.settings().contains("agents = "), "{}", place.settings());

    // An entry as in docs/agents.md; without a named capability, everything is revoked.
    let entry = "[grants.team]\nfiles = \"write\"\nagents = [\"code-implementer\"]\n";
    let place = saying(entry);
    assert_eq!(names(&place), ["code-implementer"]);
    let revoked = place.works(&["policy", "revoke", "team"]);
    assert_eq!(revoked["granted"], json!({"files": "none", "scan": false}));
    assert_eq!(place.settings(), "[grants.team]\n");
    assert_eq!(names(&place), [""; 0]);
    assert_eq!(place.events(), ["grant_changed: team is granted files=none"]);

    // A single agent can't be revoked from a grant of all agents.
    let every = "[grants.team]\nagents = [\"*\"]\n";
    let place = saying(every);
    assert_contains(
        &place.refused(2, &["policy", "revoke", "team", "agents=qa"]),
        &["'team' is granted agents=*, and agents=qa with it"],
    );
    assert_eq!(place.settings(), every);
    place.works(&["policy", "revoke", "team", "agents=*"]);
    assert_eq!(place.settings(), "[grants.team]\n");
    assert_contains(
        &place.refused(2, &["policy", "grant", "team", "agents=a b"]),
        &[
            "is no capability",
            "cache, history, git-commit, background, tools, questions, agents=NAME",
        ],
    );
}

#[test]
fn a_plugin_keeps_its_cache_when_something_else_is_granted() {
    let place = Place::new();
    let cache = || {
        let explained = place.works(&["policy", "explain", "symbols"]);
        let all = explained["capabilities"].as_array().unwrap();
        all.iter().find(|one| one["capability"] == "cache").unwrap()["granted"].clone()
    };
    assert_eq!(cache(), true);
    place.works(&["policy", "grant", "symbols", "scan"]);
    let with = "[grants.symbols]\nfiles = \"read\"\nscan = true\ncache = true\n";
    assert_eq!((place.settings().as_str(), cache()), (with, json!(true)));
    place.works(&["policy", "revoke", "symbols", "cache"]);
    let without = "[grants.symbols]\nfiles = \"read\"\nscan = true\n";
    assert_eq!((place.settings().as_str(), cache()), (without, json!(false)));
    place.works(&["policy", "grant", "symbols", "cache"]);
    assert_eq!((place.settings().as_str(), cache()), (with, json!(true)));
}

#[test]
fn revoked_fields_do_not_return_with_a_later_grant() {
    let programs = "process = [\"git\", \"sh\"]\nenvironment = [\"TOKEN\"]\n";
    let place = saying(&format!("[grants.greedy]\n{programs}"));
    let file = place.beside("greedy.wasm", &Plugin::new("greedy").requests(everything()));
    let file = ["--plugin", file.to_str().unwrap()];
    let policy = |args: &[&str]| place.works(&[&file[..], &["policy"], args].concat());
    // Variables are for programs: they stay while one is granted, and are removed with the last
    // one.
    policy(&["revoke", "greedy", "process=sh"]);
    assert_contains(&place.settings(), &["environment = [\"TOKEN\"]"]);
    policy(&["grant", "greedy", "scan"]);
    policy(&["revoke", "greedy", "process=git"]);
    assert_eq!(place.settings(), "[grants.greedy]\nscan = true\n");
    policy(&["grant", "greedy", "process=sh"]);
    assert_eq!(place.settings(), "[grants.greedy]\nscan = true\nprocess = [\"sh\"]\n");
    // An entry that grants nothing is removed as well.
    configure(&place, "[grants.greedy]\nenvironment = [\"TOKEN\"]\n");
    policy(&["revoke", "greedy"]);
    assert_eq!(place.settings(), "");
    // The entry of a built-in plugin stays, empty.
    configure(&place, &format!("[grants.shell]\nfiles = \"write\"\n{programs}"));
    policy(&["revoke", "shell"]);
    assert_eq!(place.settings(), "[grants.shell]\n");
}

#[test]
fn explain_names_the_line_of_a_setting() {
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
        (
            "shell",
            "process=bash",
            false,
            "shells, agents, the network and consent are granted by a person",
        ),
        ("greedy", "cache", false, "`cofferdam policy grant greedy cache` grants it"),
        ("greedy", "agents=*", false, "`cofferdam policy grant greedy agents=NAME` grants it"),
        ("symbols", "cache", true, "it came with the host"),
        (
            "team",
            "agents=*",
            false,
            "shells, agents, the network and consent are granted by a person",
        ),
        ("team", "agents=*", false, "`cofferdam policy grant team agents=NAME` grants it"),
    ] {
        let found = why(&[plugin], capability);
        assert_eq!(found.0, granted, "{plugin} {found:?}");
        assert_contains(&found.1, &[words]);
    }
    // The workspace's own settings take precedence once they are accepted, and the command reports
    // this.
    place.write("cofferdam.toml", "[grants.greedy]\nscan = true\nhttp = ['https://b.example']\n");
    let unaccepted = why(&["greedy"], "files=write");
    assert_contains(&unaccepted.1, &["home/.config/cofferdam/cofferdam.toml:2 grants it"]);
    place.works(&["policy", "accept"]);
    assert_contains(
        &why(&["greedy"], "scan").1,
        &["workspace/cofferdam.toml:2 grants it, but it gives nothing without files"],
    );
    assert_contains(&why(&["greedy"], "http=https://b.example").1, &["does not ask for it"]);
    let granting = place.run(&["policy", "grant", "greedy", "scan"]);
    assert_contains(&granting.stderr, &["workspace/cofferdam.toml says under [grants.greedy]"]);

    let tool = place.works(&["policy", "explain", "files.write_file"]);
    assert_eq!(tool["tool"]["decision"], "allowed");
    let narrowed = place.works(&["policy", "explain", "files.write_file", "--role", "reader"]);
    assert_eq!(narrowed["tool"]["code"], "ToolNotInRole");
    let denied = place.works(&["policy", "explain", "shell.bash"]);
    assert_eq!(denied["tool"]["code"], "NotGranted");
    assert_contains(&place.refused(2, &["policy", "explain", "nothing"]), &["neither a plugin"]);
}

/// The user's settings apply to all workspaces, and each of them has other plugins.
#[test]
fn settings_about_plugins_of_another_workspace_are_not_reported() {
    let place = Place::new();
    let file = place.beside("lines.wasm", &Plugin::new("lines").requests(everything()));
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let text =
        "ask = ['lines.go']\n[grants.lines]\nfiles = 'read'\n[roles.own]\ntools = ['lines.*']\n";
    fs::write(&settings, text).unwrap();
    let other = place.cloned("other");
    let warned = || place.run(&["-C", &other, "backend", "list"]).stderr;
    // Nothing is installed under this name: it is a mistake.
    assert_contains(&warned(), &["grants.lines", "roles.own.tools", "nobody is asked for"]);
    place.works(&["plugin", "install", file.to_str().unwrap(), "--deny"]);
    assert_eq!(warned(), "");
    let doctor = place.works(&["-C", &other, "doctor"]).to_string();
    assert!(!doctor.contains("lines"), "{doctor}");
    place.works(&["plugin", "remove", "lines", "--everywhere"]);
    fs::write(&settings, text).unwrap();
    assert_contains(&warned(), &["grants.lines"]);
}
