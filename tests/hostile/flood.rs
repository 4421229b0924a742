//! Calls that write more than they may. The host stops counting on what a plugin says of itself:
//! one that reached a limit has failed, whatever it answers.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cofferdam::outcome::{Outcome, Status};
use serde_json::json;

use super::files::without_journal;
use crate::support::Place;
use crate::trial::{ALL, Trial, assert_failed};

const LIMITS: &str = "[limits]\nwrite-mb = 4\nfiles = 200\nhost-calls = 10000000\n";

/// What a plugin can do, and which limit it reaches.
const WAYS: &[(&str, &str)] = &[
    ("over", "WriteLimit"),
    ("files", "WriteLimit"),
    ("large", "WriteLimit"),
    ("size", "WriteLimit"),
    ("far", "WriteLimit"),
    ("far-stream", "WriteLimit"),
    ("append", "WriteLimit"),
    ("empty", "FileLimit"),
    ("directories", "FileLimit"),
    ("links", "FileLimit"),
    ("names", "FileLimit"),
];

/// What a directory takes on the disk, in bytes.
fn taken(directory: &Path) -> u64 {
    let mut taken = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        taken += metadata.blocks() * 512;
        if metadata.is_dir() {
            taken += self::taken(&entry.path());
        }
    }
    taken
}

/// A call that writes too much fails, and leaves nothing, although it answers as if all was
/// well.
#[test]
fn calls_that_write_too_much_change_nothing() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}{LIMITS}"));
    trial.place.write("inside.txt", "inside");
    let workspace = trial.place.workspace();
    let before = without_journal(&workspace);
    for (how, code) in WAYS {
        let outcome = trial.call("hostile.flood", json!({"how": how, "directory": "/workspace"}));
        let message = match *code {
            "WriteLimit" => "the call wrote more than 4 MiB",
            _ => "the call made or changed more than 200 files, directories and links",
        };
        assert_failed(outcome, Status::Limit, code, message);
        assert_eq!(without_journal(&workspace), before, "{how}");
        assert!(taken(&workspace) < 1 << 20, "{how}: {} bytes", taken(&workspace));
    }
}

/// `/tmp` counts as well, also for a call that may only read the workspace.
#[test]
fn tmp_has_the_same_limits() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}{LIMITS}"));
    for tool in ["hostile.flood", "hostile.flood_read"] {
        for (how, code) in WAYS {
            let outcome = trial.call(tool, json!({"how": how, "directory": "/tmp"}));
            assert_failed(outcome, Status::Limit, code, "");
        }
    }
    assert_eq!(without_journal(&trial.place.workspace()), []);
}

/// Each call has the whole of its limits, and what it only reads counts for nothing.
#[test]
fn limits_are_of_one_call() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}{LIMITS}"));
    trial.place.write("large", vec![b'x'; 5 << 20]);
    for round in 0..5 {
        let paths: Vec<String> = (0..150).map(|number| format!("{round}-{number}")).collect();
        let outcome = trial.call("hostile.spoil", json!({"paths": paths, "then": "succeed"}));
        assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    }
    for _ in 0..5 {
        let read =
            trial.attempt("hostile.attempt_read", "plain-read", "/workspace/large", "").unwrap();
        assert_eq!(read.len(), 5 << 20);
    }
    // To change a part of it, the host copies all of it.
    let outcome = trial.call("hostile.attempt", json!({"what": "overwrite", "path": "large"}));
    assert_failed(outcome, Status::Limit, "WriteLimit", "4 MiB");
    trial.attempt("hostile.attempt", "write", "large", "").unwrap();
    assert_eq!(trial.place.read("large"), "hostile");
}

/// A role has limits of its own, below those of the settings.
#[test]
fn a_role_lowers_the_limits() {
    let settings = format!(
        "{ALL}{LIMITS}[roles.small]\ntools = ['*']\n[roles.small.limits]\nwrite-mb = 1\nfiles = 3\n"
    );
    let trial = Trial::of_guest(Place::new(), &settings);
    let three = json!({"paths": ["a", "b", "c"], "then": "succeed"});
    let outcome = trial.call_as(Some("small"), "hostile.spoil", three);
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
    let four = json!({"paths": ["d", "e", "f", "g"], "then": "succeed"});
    let outcome = trial.call_as(Some("small"), "hostile.spoil", four);
    assert_failed(outcome, Status::Limit, "FileLimit", "more than 3 files");
    assert!(!trial.place.workspace().join("d").exists());
}
