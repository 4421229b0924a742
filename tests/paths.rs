//! The tools that move, copy and delete files and directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::Place;

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

/// Runs an action and returns its result.
fn act(place: &Place, action: &Value) -> Value {
    let envelope = json!({ "actions": [action] }).to_string();
    place.run_with(&["run"], &envelope).json()["results"][0].clone()
}

/// Whether the result of an action has no code of a failure.
fn succeeded(result: &Value) -> bool {
    result.is_object() && !result["metadata"]["code"].is_string()
}

#[test]
fn paths_are_moved_copied_and_deleted() {
    let place = Place::new();
    place.write("src/run", "#!/bin/sh\n");
    place.write("src/deep/file", "text\n");
    let at = |path: &str| place.workspace().join(path);
    fs::set_permissions(at("src/run"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run", at("src/link")).unwrap();
    let one = |action: Value| act(&place, &action);
    let copied = one(json!({"type": "copy_path", "path": "src", "to": "new/copy"}));
    assert!(succeeded(&copied), "{copied}");
    let moved = one(json!({"type": "move_path", "path": "src", "to": "moved"}));
    assert!(succeeded(&moved), "{moved}");
    for top in ["new/copy", "moved"] {
        let mode = fs::metadata(at(top).join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750, "{top}");
        assert!(at(top).join("link").is_symlink());
        assert_eq!(fs::read_to_string(at(top).join("deep/file")).unwrap(), "text\n");
    }
    assert!(!at("src").exists());
    let refused = one(json!({"type": "delete_path", "path": "moved"}));
    assert!(refused.to_string().contains("`recursive: true`"), "{refused}");
    let deleted = one(json!({"type": "delete_path", "path": "moved", "recursive": true}));
    assert!(succeeded(&deleted), "{deleted}");
    assert!(!at("moved").exists());
    // The move is shown as renames, and all of it is undone.
    let commits = place.run(&["log", "--commits"]).json();
    let id = commits["records"][1]["commit"].as_str().unwrap().to_owned();
    let diff = place.run(&["log", "--diff", &id, "--format", "text"]).stdout;
    assert!(diff.contains("rename from src/deep/file\nrename to moved/deep/file\n"), "{diff}");
    for _ in 0..3 {
        assert_eq!(place.run(&["undo"]).status, 0);
    }
    assert!(at("src/link").is_symlink() && !at("new").exists());
}

#[test]
fn protected_places_are_not_moved_copied_or_deleted() {
    let place = Place::new();
    place.write("a", "x");
    place.write("repository/.git/config", "x");
    act(&place, &write("b", "x"));
    for action in [
        json!({"type": "delete_path", "path": "repository", "recursive": true}),
        json!({"type": "delete_path", "path": "repository/.git", "recursive": true}),
        json!({"type": "delete_path", "path": ".cofferdam", "recursive": true}),
        json!({"type": "move_path", "path": "repository", "to": "moved"}),
        json!({"type": "move_path", "path": ".cofferdam", "to": "moved"}),
        json!({"type": "move_path", "path": "a", "to": "repository/.git/hooks/pre-commit"}),
        json!({"type": "copy_path", "path": "a", "to": "repository/.git/hooks/pre-commit"}),
        json!({"type": "copy_path", "path": "repository", "to": "copy"}),
        json!({"type": "copy_path", "path": ".cofferdam", "to": "copy"}),
        json!({"type": "copy_path", "path": "a", "to": ".cofferdam/a"}),
    ] {
        let result = act(&place, &action);
        assert!(!succeeded(&result), "{action}: {result}");
        assert_eq!(place.read("repository/.git/config"), "x", "{action}");
        assert!(!place.workspace().join("moved").exists(), "{action}");
        assert!(!place.workspace().join("copy").exists(), "{action}");
    }
}
