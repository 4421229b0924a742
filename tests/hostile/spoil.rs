//! Calls that write and then end badly: none of their changes is committed.

use std::fs;
use std::path::Path;

use cofferdam_core::outcome::{Outcome, Status};
use serde_json::{Value, json};

use super::files::{Entry, without_journal};
use crate::support::Place;
use crate::trial::{ALL, Trial, assert_failed};

/// Limits that are short enough for a test.
const LIMITS: &str =
    "[limits]\ncall-ms = 1000\nhost-calls = 5000\nmemory-mb = 64\noutput-kb = 64\n";

/// A workspace with files to overwrite.
fn trial() -> Trial {
    let place = Place::new();
    for path in ["a", "b", "sub/c"] {
        place.write(path, path);
    }
    place.write(".git/config", "original");
    Trial::of_guest(place, &format!("{ALL}{LIMITS}"))
}

/// Three existing files and three new ones.
const PATHS: [&str; 6] = ["a", "b", "sub/c", "new", "sub/new", "sub/newer"];

fn spoil(trial: &Trial, paths: &[&str], then: &str) -> Outcome {
    trial.call("hostile.spoil", json!({"paths": paths, "then": then}))
}

/// The number of entries in one of the host's own directories: `staging` has unfinished changes,
/// `history` has commits.
fn kept(workspace: &Path, name: &str) -> usize {
    fs::read_dir(workspace.join(".cofferdam").join(name)).map_or(0, Iterator::count)
}

fn assert_as_before(trial: &Trial, before: &[Entry], what: &str) {
    let workspace = trial.place.workspace();
    assert_eq!(without_journal(&workspace), before, "{what}");
    assert_eq!(kept(&workspace, "staging"), 0, "{what}");
    assert_eq!(kept(&workspace, "history"), 0, "{what}");
}

#[test]
fn calls_that_end_badly_change_nothing() {
    let trial = trial();
    let before = without_journal(&trial.place.workspace());
    for (then, status, code) in [
        ("fail", Status::Error, "Spoiled"),
        ("crash", Status::Trap, "PluginCrashed"),
        ("exit", Status::Trap, "PluginCrashed"),
        ("loop", Status::Limit, "WallClockLimit"),
        ("write", Status::Limit, "WallClockLimit"),
        ("call", Status::Limit, "HostCallLimit"),
        ("grow", Status::Limit, "MemoryLimit"),
        ("lie", Status::Trap, "InvalidOutput"),
        ("shout", Status::Limit, "OutputLimit"),
    ] {
        // Writing without end exceeds one of several limits.
        let outcome = spoil(&trial, &PATHS, then);
        match outcome {
            Outcome::Failed(failure) if then == "write" => {
                assert_eq!(failure.status, Status::Limit, "{failure:?}");
            }
            outcome => assert_failed(outcome, status, code, ""),
        }
        assert_as_before(&trial, &before, then);
    }
    // A call that succeeds commits these files.
    let outcome = spoil(&trial, &PATHS, "succeed");
    assert_eq!(outcome, Outcome::Executed(json!({"ok": true})));
    for path in PATHS {
        assert!(trial.place.read(path).starts_with("hostile"), "{path}");
    }
}

/// One of several files is refused.
#[test]
fn one_refusal_discards_everything() {
    let trial = trial();
    let before = without_journal(&trial.place.workspace());
    for refused in [".git/config", "../outside", "/etc/passwd", "sub", ".cofferdam/lock"] {
        let mut paths = PATHS.to_vec();
        paths.insert(3, refused);
        assert_failed(spoil(&trial, &paths, "succeed"), Status::Denied, "Refused", refused);
        assert_as_before(&trial, &before, refused);
    }
}

/// In an envelope that is one transaction, a failed call discards the changes of all.
#[test]
fn one_bad_call_discards_a_transaction() {
    let trial = trial();
    let before = without_journal(&trial.place.workspace());
    let call =
        |path: &str, then: &str| json!({"type": "hostile.spoil", "paths": [path], "then": then});
    for then in ["fail", "crash", "exit", "loop", "call", "lie"] {
        let actions: [Value; 3] = [call("a", "succeed"), call("b", then), call("new", "succeed")];
        let outcomes = trial.run_atomic(&json!({ "actions": actions }));
        let codes: Vec<&str> = outcomes
            .iter()
            .map(|outcome| match outcome {
                Outcome::Failed(failure) => failure.code.as_str(),
                Outcome::Executed(_) => "-",
            })
            .collect();
        assert_eq!((codes[0], codes[2]), ("RolledBack", "Skipped"), "{then}: {codes:?}");
        assert_as_before(&trial, &before, then);
    }
}
