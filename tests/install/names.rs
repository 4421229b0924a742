//! Plugins under another name than their own, such as that of a built-in plugin.

use std::fs;

use serde_json::json;

use super::signatures::Author;
use super::{Plugin, assert_contains};
use crate::support::{Ended, Place};

/// A place with a plugin that calls itself like a built-in one, and its path.
fn strangers_files(place: &Place, version: &str) -> String {
    let plugin = Plugin::new("files").version(version).requests(json!({"files": "read"}));
    place.beside("files.wasm", &plugin).to_str().unwrap().to_owned()
}

#[test]
fn a_plugin_with_the_name_of_a_built_in_one_is_installed_under_another() {
    let place = Place::new();
    let file = strangers_files(&place, "0.1.0");
    let install = ["plugin", "install", &file, "--grant", "files=read"];
    let refused = place.refused(3, &install);
    assert_contains(&refused, &["it calls itself 'files'", "came with the host", "`--as NAME`"]);
    let with = |name: &str| place.run(&[&install[..], &["--as", name]].concat());
    for (name, status, why) in [
        ("files", 3, "came with the host"),
        ("../x", 2, "is of the form"),
        ("Files", 2, "is of the form"),
    ] {
        let ended = with(name);
        assert_eq!(ended.status, status, "{ended:?}");
        assert_contains(&ended.stderr, &[why]);
    }
    assert!(place.stored().is_empty());

    let ended = with("theirs");
    assert_eq!(ended.status, 0, "{ended:?}");
    let installed = &ended.json()["plugins"][0];
    assert_eq!((&installed["plugin"], &installed["called"]), (&json!("theirs"), &json!("files")));
    assert_eq!(installed["tools"], json!(["go"]));
    let lock = place.lock()["plugins"]["theirs"].clone();
    assert_eq!(lock["called"].as_str(), Some("files"));
    assert_eq!(place.settings(), "[grants.theirs]\nfiles = \"read\"\n");
    assert_eq!(place.go("theirs").status, 0);
    // The built-in plugin is as it was.
    place.write("a.txt", "text");
    let read = place.run(&["call", "files.read_file", r#"{"path": "a.txt"}"#]);
    assert_eq!((read.status, read.stderr.as_str()), (0, ""), "{read:?}");
    assert_eq!(place.works(&["plugin", "inspect", "theirs"])["name"], "theirs");

    // An update keeps the name.
    assert_eq!(place.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");
    strangers_files(&place, "0.2.0");
    let updated = place.works(&["plugin", "update"])["plugins"][0].clone();
    assert_eq!((&updated["plugin"], &updated["version"]), (&json!("theirs"), &json!("0.2.0")));
    assert_eq!(place.lock()["plugins"]["theirs"]["called"].as_str(), Some("files"));
    assert_eq!(place.go("theirs").status, 0);
    // A file with another name of its own is another plugin.
    fs::write(&file, Plugin::new("other").bytes()).unwrap();
    let refused = place.refused(3, &["plugin", "update"]);
    assert_contains(&refused, &["it calls itself 'other', and not 'files'"]);
}

/// What is pinned is the file with its signature, under each name.
#[test]
fn the_signer_of_a_renamed_plugin_is_pinned() {
    let place = Place::new();
    let (Some(ada), Some(eve)) = (Author::new(&place, "ada"), Author::new(&place, "eve")) else {
        return;
    };
    let file = strangers_files(&place, "0.1.0");
    ada.sign(file.as_ref());
    place.works(&["plugin", "install", &file, "--as", "theirs", "--deny", "--key", &ada.key()]);
    assert_eq!(place.lock()["plugins"]["theirs"]["signer"].as_str(), Some(ada.key().as_str()));
    strangers_files(&place, "0.2.0");
    eve.sign(file.as_ref());
    assert_contains(&place.refused(3, &["plugin", "update"]), &["made with another key"]);
    // In a clone, the lock file has the name.
    ada.sign(file.as_ref());
    place.works(&["plugin", "update"]);
    let other = Place::new();
    fs::copy(&file, other.home_file("files.wasm")).unwrap();
    fs::copy(format!("{file}.minisig"), other.home_file("files.wasm.minisig")).unwrap();
    let theirs = other.home_file("files.wasm");
    let lock = place.read("cofferdam.lock").replace(&file, theirs.to_str().unwrap());
    other.write("cofferdam.lock", lock);
    let installed = other.works(&["plugin", "install", "--deny"])["plugins"][0].clone();
    assert_eq!((&installed["plugin"], &installed["signer"]), (&json!("theirs"), &json!(ada.key())));
    assert_eq!(other.go("theirs").status, 0);
}

#[test]
fn a_lock_that_lies_about_a_name_is_refused() {
    let place = Place::new();
    let file = strangers_files(&place, "0.1.0");
    place.works(&["plugin", "install", &file, "--as", "theirs", "--deny"]);
    let lock = place.read("cofferdam.lock");
    let line = "called = \"files\"\n";
    assert!(lock.contains(line));
    for lie in ["", "called = \"other\"\n"] {
        place.write("cofferdam.lock", lock.replace(line, lie));
        let ended = place.go("theirs");
        assert_eq!(ended.status, 3, "{ended:?}");
        assert_contains(&ended.stderr, &["its name is 'files'"]);
        assert_contains(&place.refused(3, &["plugin", "install"]), &["it calls itself 'files'"]);
    }
    place.write("cofferdam.lock", &lock);
    let again = place.refused(2, &["plugin", "install", "theirs", "--as", "mine"]);
    assert_contains(&again, &["--as is for a source", "--as NAME`"]);
}

/// Renames the plugin that is installed as `theirs` to its own name, in the lock file and in the store: as if it
/// had been installed before there was a built-in plugin of this name.
fn installed_before(place: &Place) {
    let file = strangers_files(place, "0.1.0");
    place.works(&["plugin", "install", &file, "--as", "theirs", "--deny"]);
    let lock = place.read("cofferdam.lock").replace("called = \"files\"\n", "");
    place.write("cofferdam.lock", lock.replace("[plugins.theirs", "[plugins.files"));
    let accepted = place.home().join(".local/share/cofferdam/plugins/accepted.toml");
    let text = fs::read_to_string(&accepted).unwrap();
    fs::write(&accepted, text.replace("plugins.theirs", "plugins.files")).unwrap();
}

#[test]
fn a_host_goes_on_with_the_built_in_plugin() {
    let place = Place::new();
    installed_before(&place);
    place.write("a.txt", "text");
    let read = place.run(&["call", "files.read_file", r#"{"path": "a.txt"}"#]);
    assert_eq!(read.status, 0, "{read:?}");
    assert_contains(&read.stdout, &["text"]);
    let warning = "the installed plugin 'files' is left out";
    assert_eq!(read.stderr.matches(warning).count(), 1, "{read:?}");
    assert_contains(&read.stderr, &["`cofferdam plugin remove files`", "--as NAME`"]);
    let mut serve = place.command(&["serve"]);
    let served = Ended::of(serve.stdin(std::process::Stdio::null()));
    assert_eq!(served.status, 0, "{served:?}");
    assert_eq!(served.stderr.matches(warning).count(), 1, "{served:?}");
    // The cure of the warning.
    place.works(&["plugin", "remove", "files"]);
    let file = place.home_file("files.wasm");
    place.works(&["plugin", "install", file.to_str().unwrap(), "--as", "theirs", "--deny"]);
    assert_eq!(place.go("theirs").stderr, "");
}
