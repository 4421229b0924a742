//! Plugins from files: installed, stored, cloned, updated, removed.

use std::fs;

use serde_json::json;

use super::{Plugin, assert_contains};
use crate::support::Place;

#[test]
fn a_plugin_is_installed_called_listed_and_removed() {
    let place = Place::new();
    let file = place.beside("lines.wasm", &Plugin::new("lines"));
    let name = file.to_str().unwrap();
    let ended = place.run(&["plugin", "install", name]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_contains(&ended.stderr, &["lines is not signed"]);
    let installed = &ended.json()["plugins"][0];
    assert_eq!(installed["state"], "installed");
    assert_eq!(installed["tools"], json!(["go"]));
    let lock = place.lock();
    let locked = lock["plugins"]["lines"].as_table().unwrap();
    assert_eq!(locked["source"].as_str(), Some(name));
    assert_eq!(locked["digest"].as_str(), installed["digest"].as_str());
    assert_eq!(locked["wit"].as_array().unwrap().as_slice(), ["cofferdam:tool@0.1.0".into()]);
    assert_eq!(place.settings(), "");

    // The store has a copy, so the file is no longer needed.
    fs::remove_file(&file).unwrap();
    assert_eq!(place.go("lines").json(), json!({}));
    assert_eq!(place.works(&["cache", "list"])["files"].as_array().unwrap().len(), 1);
    assert_eq!(place.works(&["cache", "clear"])["removed"].as_array().unwrap().len(), 1);
    assert_eq!(place.works(&["cache", "list"])["bytes"], 0);
    assert_eq!(place.go("lines").json(), json!({}));
    assert_eq!(place.works(&["plugin", "install"])["plugins"][0]["state"], "unchanged");
    let listed = place.works(&["plugin", "list"]);
    let plugins = listed["plugins"].as_array().unwrap();
    let entry = plugins.iter().find(|plugin| plugin["name"] == "lines").unwrap();
    assert_eq!(entry["installed"]["source"], name);
    assert_eq!(plugins[0]["installed"], json!(null));

    let removed = place.works(&["plugin", "remove", "lines"]);
    assert_eq!(removed["forgotten"], false);
    assert_eq!(place.go("lines").status, 2);
    assert_contains(
        &place.refused(2, &["plugin", "remove", "lines"]),
        &["cofferdam.lock names no plugin 'lines'"],
    );
    assert_eq!(place.stored().len(), 1);
    assert_eq!(place.works(&["plugin", "remove", "lines", "--everywhere"])["forgotten"], true);
    assert!(place.stored().is_empty());
    assert_contains(
        &place.refused(2, &["plugin", "remove", "lines", "--everywhere"]),
        &["no plugin 'lines' is installed"],
    );
    let events = place.events();
    assert!(events[0].starts_with("plugin_installed: lines 0.1.0 sha256:"), "{events:?}");
    assert_eq!(events[1..], ["plugin_removed: lines", "plugin_removed: lines"]);
}

#[test]
fn a_clone_of_the_same_user_works_and_another_users_has_no_grants() {
    let place = Place::new();
    let plugin = Plugin::new("lines").requests(json!({"files": "write"}));
    place.write("lines.wasm", plugin.bytes());
    place.works(&["plugin", "install", "lines.wasm", "--grant", "files=read"]);
    assert_eq!(place.lock()["plugins"]["lines"]["source"].as_str(), Some("./lines.wasm"));
    // Another clone of the same user: the store has the plugin, without a network or the file.
    let clone = place.cloned("clone");
    fs::remove_file(place.home().join("clone/lines.wasm")).unwrap();
    assert_eq!(
        place.works(&["-C", &clone, "plugin", "install"])["plugins"][0]["state"],
        "unchanged"
    );
    assert_eq!(place.run(&["-C", &clone, "call", "lines.go"]).status, 0);

    // Another user: the grants in the lock file have no effect.
    let other = Place::new();
    for file in ["cofferdam.lock", "lines.wasm"] {
        other.write(file, fs::read(place.workspace().join(file)).unwrap());
    }
    let left_out = other.run(&["tools", "--brief"]);
    assert_eq!(left_out.status, 0, "{left_out:?}");
    assert!(!left_out.stdout.contains("lines.go"), "{left_out:?}");
    assert_contains(
        &left_out.stderr,
        &["that you have not installed, so they are left out: lines"],
    );
    let why = other.refused(3, &["plugin", "install"]);
    assert_contains(
        &why,
        &["files=write", "no terminal", "cofferdam plugin install lines --grant files=write"],
    );
    assert!(other.stored().is_empty());
    assert_contains(&other.refused(3, &["plugin", "update", "lines"]), &["is not installed here"]);
    other.works(&["plugin", "install", "--deny"]);
    assert_eq!(other.settings(), "");
    // The plugin loads without access to files.
    let ended = other.go("lines");
    assert_eq!(ended.status, 0, "{ended:?}");
    let explained = other.works(&["policy", "explain", "lines"]);
    assert_eq!(explained["capabilities"][0]["granted"], false);
}

#[test]
fn an_update_shows_differences_and_asks_for_new_requests() {
    let place = Place::new();
    let first = Plugin::new("lines").requests(json!({"files": "read", "process": ["git"]}));
    let file = place.beside("lines.wasm", &first.tool("old", "is here"));
    place.works(&["plugin", "install", file.to_str().unwrap(), "--grant", "files=read"]);
    assert_eq!(place.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");

    // An update with the same requests is installed and keeps its grants.
    let second = Plugin::new("lines").version("0.2.0").requests(json!({"files": "read"}));
    place.beside("lines.wasm", &second.tool("new", "is new"));
    let newer = place.works(&["plugin", "update", "--dry-run"]);
    assert_eq!(newer["plugins"][0]["state"], "newer");
    let updated = place.works(&["plugin", "update", "lines"]);
    for document in [&newer, &updated] {
        let changes = &document["plugins"][0]["changes"];
        assert_eq!(changes["version"], json!(["0.1.0", "0.2.0"]));
        assert_eq!(changes["tools_added"], json!(["new"]));
        assert_eq!(changes["tools_removed"], json!(["old"]));
        assert_eq!(changes["requests_removed"], json!(["process=git"]));
    }
    assert_eq!(place.settings(), "[grants.lines]\nfiles = \"read\"\n");

    // An update with more requests is refused until the user decides; the installed version stays
    // until then.
    let third = Plugin::new("lines").version("0.3.0");
    let third = third.requests(json!({"files": "write", "http": ["https://a.example"]}));
    place.beside("lines.wasm", &third.tool("new", "is other"));
    let before = place.read("cofferdam.lock");
    let why = place.refused(3, &["plugin", "update"]);
    assert_contains(
        &why,
        &[
            "files=write",
            "http=https://a.example",
            "asking https://a.example",
            "plugin update lines --deny",
        ],
    );
    assert!(!why.contains("process"), "{why}");
    assert_eq!(place.read("cofferdam.lock"), before);
    assert_eq!(place.go("lines").status, 0);
    let why = place.refused(2, &["plugin", "update", "lines", "--grant", "process=sh"]);
    assert_contains(&why, &["'lines' does not ask for process=sh; it asks for files=write, http="]);
    let updated = place.works(&["plugin", "update", "lines", "--grant", "http=https://a.example"]);
    assert_eq!(updated["plugins"][0]["changes"]["tools_changed"], json!(["new"]));
    assert_eq!(
        place.settings(),
        "[grants.lines]\nfiles = \"read\"\nhttp = [\"https://a.example\"]\n"
    );
    // A request that was declined is not asked about again.
    place.beside("lines.wasm", &third_again());
    place.works(&["plugin", "update"]);
    // An older version is installed with a warning.
    place.beside("lines.wasm", &Plugin::new("lines").version("0.2.9"));
    let older = place.run(&["plugin", "update"]);
    assert_eq!(older.status, 0, "{older:?}");
    assert_contains(&older.stderr, &["lines 0.2.9 is older than 0.3.1"]);
}

fn third_again() -> Plugin {
    Plugin::new("lines")
        .version("0.3.1")
        .requests(json!({"files": "write", "http": ["https://a.example"]}))
}

#[test]
fn an_invalid_plugin_is_not_installed() {
    let place = Place::new();
    place.write("text.wasm", "hello");
    place.write("module.wasm", b"\0asm\x01\0\0\0");
    place.write("bare.wasm", wat::parse_str("(component)").unwrap());
    fs::create_dir(place.workspace().join("folder.wasm")).unwrap();
    for (source, status, why) in [
        ("nothing.wasm", 2, "there is no such file, and cofferdam.lock has no plugin"),
        ("text.wasm", 2, "not a WebAssembly component"),
        ("module.wasm", 2, "a core WebAssembly module, not a component"),
        ("bare.wasm", 2, "the component has no manifest"),
        ("folder.wasm", 2, "no regular file"),
        ("/dev/zero", 2, "no regular file"),
        ("ftp://example.org/a", 2, "there are files, https:// and oci://"),
        ("oci://localhost:1/lines", 2, "it needs a tag or a digest"),
    ] {
        assert_contains(&place.refused(status, &["plugin", "install", source]), &[why]);
    }
    assert!(place.stored().is_empty());
    assert!(!place.workspace().join("cofferdam.lock").exists());
    // The file has another digest than requested.
    place.write("lines.wasm", Plugin::new("lines").bytes());
    let digest = format!("sha256:{}", "0".repeat(64));
    let why = place.refused(3, &["plugin", "install", "lines.wasm", "--digest", &digest]);
    assert_contains(&why, &["it is sha256:", &digest, "was asked for"]);
    assert!(place.stored().is_empty());
}
