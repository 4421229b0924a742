//! Calls that write more than they may. The host does not rely on the plugin's answer: a call that
//! exceeded a limit has failed even if it answers.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cofferdam_core::outcome::{Outcome, Status};
use rustix::fs::{Mode, OFlags};
use serde_json::json;

use super::files::without_journal;
use crate::support::Place;
use crate::trial::{ALL, Trial, assert_failed, said, tried};

const LIMITS: &str = "[limits]\nwrite-mb = 4\nfiles = 200\nhost-calls = 10000000\n";

/// A way to write, and the limit that it exceeds.
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

/// The size of a directory on the disk, in bytes.
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

/// A call that writes too much fails and changes nothing, even if it answers without an error.
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

/// `/tmp` counts as well, also for a call that only reads the workspace.
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

/// A path that is too long can't be created by nesting directories either, and one of the maximum
/// length does not make the host fail: it is renamed, walked, committed and undone.
#[test]
fn nested_directories_have_a_maximum_depth() {
    // Each call makes and walks thousands of directories, which takes long on a slow machine.
    let settings = format!("{ALL}\n[limits]\ncall-ms = 300000\n");
    let trial = Trial::of_guest(Place::new(), &settings);
    let workspace = trial.place.workspace();
    // Each level has three bytes with the slash, up to 4096.
    const DEEPEST: &str = "1365 name-too-long Ok(())";
    let nested = |tool: &str, directory: &str| {
        let args = json!({"how": "nested", "directory": directory});
        tried(trial.call(tool, args)).unwrap()
    };
    assert_eq!(nested("hostile.flood", "/tmp"), DEEPEST);
    assert_eq!(nested("hostile.flood_read", "/tmp"), DEEPEST);
    assert_eq!(nested("hostile.flood", "/workspace"), DEEPEST);
    assert_eq!(depth(&workspace, "ee"), 1365);
    // Directories on the disk are walked together with staged ones, and renamed.
    trial.attempt("hostile.attempt", "write-and-scan", ".", "following").unwrap();
    trial.attempt("hostile.attempt", "rename", "ee", "ff").unwrap();
    let longer = trial.attempt("hostile.attempt", "rename", "ff", "longer");
    assert_eq!(said(&longer), Err("name-too-long"));
    assert_eq!(depth(&workspace, "ff"), 1365);
    let log = trial.place.run(&["log", "--commits"]).json();
    let commits = log["records"].as_array().unwrap();
    // From the latest to the oldest.
    for commit in commits.iter().rev() {
        let undone = trial.place.run(&["undo", commit["commit"].as_str().unwrap()]);
        assert_eq!(undone.status, 0, "{}", undone.stderr);
    }
    assert_eq!(without_journal(&workspace), []);
}

/// The number of nested directories.
fn depth(workspace: &Path, name: &str) -> usize {
    let open = |directory: File, name: &str| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::empty()).ok().map(File::from)
    };
    let top = open(File::open(workspace).unwrap(), name);
    std::iter::successors(top, |above| open(above.try_clone().unwrap(), "dd")).count()
}

/// Each call has the full limits, and files that it only reads do not count.
#[test]
fn limits_apply_to_each_call_separately() {
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
    // To change a part of a file, the host copies all of it.
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
