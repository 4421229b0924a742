//! A plugin that only uses the standard library: its changes are made as a whole or not at all.

use std::fs;

use cofferdam_core::outcome::Status;
use serde_json::json;

use super::{tree, trial};
use crate::trial::{Trial, assert_failed};

/// A trial with files in which a word is renamed.
fn project() -> Trial {
    let trial = trial();
    for number in 0..20 {
        let path = format!("src/old_{number:02}.txt");
        trial.place.write(&path, format!("old {number} and old\n"));
    }
    trial.place.write("src/deep/keep.txt", "nothing here\n");
    trial.place.write("a_old.txt", "old");
    trial
}

fn refactor(trial: &Trial) -> cofferdam_core::outcome::Outcome {
    trial.call("filesystem.refactor", json!({"from": "old", "to": "new"}))
}

#[test]
fn an_ordinary_program_changes_all_files() {
    let trial = project();
    let outcome = refactor(&trial);
    assert_eq!(outcome, cofferdam_core::outcome::Outcome::Executed(json!({"files": 21})));
    assert_eq!(trial.place.read("src/new_07.txt"), "new 7 and new\n");
    assert_eq!(trial.place.read("a_new.txt"), "new");
    assert!(!trial.place.workspace().join("src/old_07.txt").exists());
}

#[test]
fn an_ordinary_program_that_fails_midway_changes_nothing() {
    let trial = project();
    // The program reaches this file after it has changed ten others.
    let midway = trial.place.workspace().join("src/old_10.txt");
    fs::write(&midway, b"old \xff").unwrap();
    let before = tree(&trial.place.workspace());
    assert_failed(refactor(&trial), Status::Error, "Unfinished", "UTF-8");
    assert_eq!(tree(&trial.place.workspace()), before);
    // A second attempt succeeds.
    fs::write(&midway, "old").unwrap();
    assert!(matches!(refactor(&trial), cofferdam_core::outcome::Outcome::Executed(_)));
    assert_eq!(trial.place.read("src/new_10.txt"), "new");
}
