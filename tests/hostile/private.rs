//! `/tmp`, which is private to each call.

use std::fs;

use super::files::{SECRET, outside};
use crate::support::Place;
use crate::trial::{ALL, Trial, said};

/// Files in `/tmp` are visible neither to the next call nor on the machine.
#[test]
fn files_in_tmp_are_deleted_after_the_call() {
    for tool in ["hostile.attempt", "hostile.attempt_read"] {
        let trial = Trial::of_guest(Place::new(), ALL);
        let attempt =
            |what: &str, path: &str, target: &str| trial.attempt(tool, what, path, target);
        let name = format!("cofferdam-test-{}", std::process::id());
        let path = format!("/tmp/{name}");
        assert_eq!(attempt("plain-list", "/tmp", "").as_deref(), Ok(""));
        assert_eq!(attempt("plain-keep", &path, "kept").as_deref(), Ok("kept"), "{tool}");
        attempt("plain-mkdir", "/tmp/a/b/c", "").unwrap();
        assert_eq!(said(&attempt("plain-read", &path, "")), Err("entity not found"), "{tool}");
        assert_eq!(attempt("plain-list", "/tmp", "").as_deref(), Ok(""), "{tool}");
        assert!(!fs::exists(&path).unwrap());
        assert!(!trial.place.workspace().join(&name).exists());
    }
}

/// The machine's `/tmp` is neither visible nor reachable.
#[test]
fn the_machines_tmp_can_not_be_seen() {
    let trial = Trial::of_guest(Place::new(), ALL);
    let outside = outside(&trial.place);
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret.txt"), SECRET).unwrap();
    let secret = outside.join("secret.txt").display().to_string();
    assert!(fs::read_dir(std::path::Path::new("/tmp")).unwrap().next().is_some());
    for (what, path) in [
        ("plain-read", secret.as_str()),
        ("plain-write", secret.as_str()),
        ("plain-unlink", secret.as_str()),
        ("plain-read", "/tmp/../etc/passwd"),
        ("plain-list", "/tmp/.."),
        ("plain-list", "/"),
    ] {
        let tried = trial.attempt("hostile.attempt", what, path, "");
        assert!(tried.is_err(), "{what} {path}: {tried:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), SECRET);
}

/// Files can be copied between `/tmp` and the workspace, but not renamed.
#[test]
fn tmp_is_a_separate_device() {
    let trial = Trial::of_guest(Place::new(), ALL);
    trial.place.write("inside.txt", "inside");
    let attempt =
        |what: &str, path: &str, target: &str| trial.attempt("hostile.attempt", what, path, target);
    for (from, to) in [("/workspace/inside.txt", "/tmp/inside.txt"), ("/tmp", "/workspace/new")] {
        let tried = attempt("plain-rename", from, to);
        assert!(tried.is_err(), "{from} {to}: {tried:?}");
    }
    let tried = attempt("plain-rename", "/workspace/inside.txt", "/tmp/inside.txt");
    assert_eq!(said(&tried), Err("cross-device link or rename"));
    assert_eq!(attempt("plain-copy", "/workspace/inside.txt", "/tmp/copy").as_deref(), Ok("6"));
    assert_eq!(trial.place.read("inside.txt"), "inside");
    assert!(!trial.place.workspace().join("new").exists());
}

/// All ways to access `/tmp` show the same directory.
#[test]
fn a_call_has_one_tmp() {
    let trial = Trial::of_guest(Place::new(), ALL);
    let tried = trial.attempt("hostile.attempt", "plain-then-bare", "private", "x");
    assert_eq!(tried.as_deref(), Ok("private"));
}

/// A tool that does not use files has no `/tmp` either.
#[test]
fn tools_without_files_have_no_tmp() {
    let trial = Trial::of_guest(Place::new(), ALL);
    for what in ["plain-list", "plain-keep", "plain-mkdir"] {
        let tried = trial.attempt("hostile.attempt_none", what, "/tmp/x", "x");
        assert!(tried.is_err(), "{what}: {tried:?}");
    }
}
