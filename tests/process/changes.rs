//! Whether changes that programs make in the workspace are kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use cofferdam_core::outcome::{Outcome, Status};

use super::{ALL, TIERS, ran, runner, script, script_with, text};
use crate::support::Place;
use crate::trial::{Trial, assert_failed};

fn place() -> Place {
    let place = Place::new();
    place.write("kept", "as it was\n");
    place.write("changed", "before\n");
    place.write("removed", "soon gone\n");
    place.write("directory/file", "inside\n");
    place
}

/// Every kind of change that a program can make to files.
const WORK: &str = "set -e
echo after > changed
rm removed
mkdir new
echo '#!/bin/sh' > new/tool
chmod +x new/tool || true
mv directory moved
ln -s ../kept new/link
rm -rf nothing";

fn assert_as_before(trial: &Trial, tier: &str) {
    let place = &trial.place;
    assert_eq!(place.read("changed"), "before\n", "{tier}");
    assert_eq!(place.read("removed"), "soon gone\n", "{tier}");
    assert_eq!(place.read("directory/file"), "inside\n", "{tier}");
    assert!(!place.workspace().join("new").exists(), "{tier}");
    assert!(!place.workspace().join("moved").exists(), "{tier}");
}

fn assert_done(trial: &Trial, tier: &str) {
    let place = &trial.place;
    let workspace = place.workspace();
    assert_eq!(place.read("changed"), "after\n", "{tier}");
    assert_eq!(place.read("kept"), "as it was\n", "{tier}");
    assert!(!workspace.join("removed").exists(), "{tier}");
    assert!(!workspace.join("directory").exists(), "{tier}");
    assert_eq!(place.read("moved/file"), "inside\n", "{tier}");
    assert_eq!(place.read("new/link"), "as it was\n", "{tier}");
    // Without namespaces, changes of permissions by path can't be confined, so they are refused.
    let mode = fs::metadata(workspace.join("new/tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, if tier == "A" { 0o111 } else { 0 }, "{tier}");
}

#[test]
fn kept_changes_are_one_commit_and_can_be_undone() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let done = ran(&trial, script_with(WORK, "changes", json!("keep")));
        assert_eq!(done["end"], json!({"exited": 0}), "{tier}: {done}");
        assert_done(&trial, tier);
        let undone = trial.place.run(&["undo"]);
        assert_eq!(undone.status, 0, "{tier}: {undone:?}");
        assert_as_before(&trial, tier);
    }
}

#[test]
fn discarded_or_denied_changes_are_not_kept() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let done = ran(&trial, script_with(WORK, "changes", json!("discard")));
        assert_eq!(done["end"], json!({"exited": 0}), "{tier}: {done}");
        assert_as_before(&trial, tier);
        let refused = ran(&trial, script(WORK));
        assert_ne!(refused["end"], json!({"exited": 0}), "{tier}: {refused}");
        assert_as_before(&trial, tier);
        let left: Vec<_> = fs::read_dir(trial.place.workspace().join(".cofferdam"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                ![
                    "cache",
                    "runs",
                    ".gitignore",
                    "journal.jsonl",
                    "lock",
                    "owner",
                    "history",
                    "images",
                    "staging",
                ]
                .contains(&name.as_str())
            })
            .collect();
        assert!(left.is_empty(), "{tier}: {left:?}");
        let runs = trial.place.workspace().join(".cofferdam/runs");
        assert_eq!(fs::read_dir(runs).map_or(0, Iterator::count), 0, "{tier}");
    }
}

#[test]
fn a_call_that_fails_afterwards_keeps_nothing() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let mut args = script_with(WORK, "changes", json!("keep"));
        args["fail"] = json!(true);
        assert_failed(trial.call("runner.run", args), Status::Error, "Told", "exited");
        assert_as_before(&trial, tier);
    }
}

#[test]
fn a_program_sees_what_was_staged_and_later_calls_see_its_work() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let mut args = script_with("cat staged; echo more >> staged", "changes", json!("keep"));
        args["write"] = json!(["staged", "by the plugin\n"]);
        let done = ran(&trial, args);
        assert_eq!(text(&done, "stdout"), "by the plugin\n", "{tier}: {done}");
        assert_eq!(trial.place.read("staged"), "by the plugin\nmore\n", "{tier}");

        // In one transaction of several calls, nothing is on the disk before its end.
        let outcomes = trial.run_atomic(&json!({"actions": [
            {"type": "run", "program": "bash", "arguments": ["-c", "echo 1 > one"], "changes": "keep"},
            {"type": "run", "program": "bash", "arguments": ["-c", "cat one && echo 2 > two && rm kept"], "changes": "keep"},
            {"type": "run", "program": "bash", "arguments": ["-c", "ls; ! ls kept"]},
        ]}));
        let Outcome::Executed(last) = &outcomes[2] else { panic!("{tier}: {outcomes:?}") };
        assert!(text(last, "stdout").contains("one\n"), "{tier}: {outcomes:?}");
        assert_eq!(last["end"], json!({"exited": 0}), "{tier}: {outcomes:?}");
        assert_eq!(trial.place.read("two"), "2\n", "{tier}: {outcomes:?}");
        assert!(!trial.place.workspace().join("kept").exists(), "{tier}");
    }
}

#[test]
fn only_changes_in_the_roles_scope_are_kept() {
    for tier in TIERS {
        let settings =
            format!("{ALL}[roles.narrow]\ntools = ['runner.*']\nscope = ['directory']\n");
        let trial = runner(place(), tier, &settings);
        let args = script_with("echo x > directory/new", "changes", json!("keep"));
        let Outcome::Executed(done) = trial.call_as(Some("narrow"), "runner.run", args) else {
            panic!("no answer");
        };
        assert_eq!(done["end"], json!({"exited": 0}), "{tier}: {done}");
        assert_eq!(trial.place.read("directory/new"), "x\n", "{tier}");
        let args = script_with("echo x > directory/other; echo x > kept", "changes", json!("keep"));
        let Outcome::Executed(refused) = trial.call_as(Some("narrow"), "runner.run", args) else {
            panic!("no answer");
        };
        assert_eq!(text(&refused, "error"), "changes", "{tier}: {refused}");
        assert!(text(&refused, "message").contains("kept"), "{tier}: {refused}");
        assert_eq!(trial.place.read("kept"), "as it was\n", "{tier}");
        assert!(!trial.place.workspace().join("directory/other").exists(), "{tier}");
    }
}

#[test]
fn changes_of_protected_or_outside_files_are_not_kept() {
    for tier in TIERS {
        for (work, wanted) in [
            ("ln -s /etc/passwd out", "out"),
            ("ln -s ../../etc out", "out"),
            ("echo '[grants.x]' > cofferdam.toml", "cofferdam.toml"),
            ("mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit", ".git"),
        ] {
            let trial = runner(place(), tier, ALL);
            let refused = ran(&trial, script_with(work, "changes", json!("keep")));
            assert_eq!(text(&refused, "error"), "changes", "{tier} {work}: {refused}");
            assert!(text(&refused, "message").contains(wanted), "{tier} {work}: {refused}");
            assert_as_before(&trial, tier);
        }
    }
}

#[test]
fn an_edit_from_outside_meanwhile_is_a_conflict() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let changed = trial.place.workspace().join("changed");
        let editor = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(700));
            fs::write(changed, "by somebody else\n").unwrap();
        });
        let args = script_with("echo mine > changed; sleep 1.5", "changes", json!("keep"));
        let outcome = trial.call("runner.run", args);
        editor.join().unwrap();
        let is_refused = match &outcome {
            Outcome::Failed(failure) => failure.code.as_str() == "Conflict",
            Outcome::Executed(output) => text(output, "error") == "changes",
        };
        assert!(is_refused, "{tier}: {outcome:?}");
        assert_eq!(trial.place.read("changed"), "by somebody else\n", "{tier}");
    }
}

#[test]
fn caches_persist_and_are_not_part_of_the_workspace() {
    for tier in TIERS {
        let trial = runner(place(), tier, ALL);
        let first = ran(&trial, script("echo found > \"$XDG_CACHE_HOME/entry\""));
        assert_eq!(first["end"], json!({"exited": 0}), "{tier}: {first}");
        let second = ran(&trial, script("cat \"$XDG_CACHE_HOME/entry\"; pwd"));
        assert!(text(&second, "stdout").starts_with("found\n"), "{tier}: {second}");
        assert!(text(&second, "cache").contains(".cofferdam/cache/runner"), "{second}");
        assert!(text(&second, "stdout").contains(text(&second, "workspace")), "{tier}: {second}");
    }
}
