//! `cofferdam workspace`: what users see, kills at random moments, and a real server of S3's protocol.

mod kills;
mod s3;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Ended, Place};

/// Runs `cofferdam workspace` in a directory.
fn run(place: &Place, directory: &Path, args: &[&str]) -> Ended {
    let mut command = place.command(&[&["workspace"], args].concat());
    Ended::of(command.current_dir(directory))
}

/// As [`run`], for a command that succeeds.
fn done(place: &Place, directory: &Path, args: &[&str]) -> Value {
    let ended = run(place, directory, args);
    assert_eq!(ended.status, 0, "{args:?}: {ended:?}");
    ended.json()
}

/// The files of a directory with their contents, without the host's own.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.extend((!path.ends_with(".cofferdam")).then_some(path));
            } else {
                let place = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(place, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_workspace_is_handed_over_and_back() {
    let place = Place::new();
    let (a, b) = (place.workspace(), place.home_file("b"));
    let store = place.home_file("store");
    let store = store.to_str().unwrap();
    let args = json!({"path": "made.txt", "content": "made by a tool\n"}).to_string();
    assert_eq!(place.run(&["call", "files.write_file", &args]).status, 0);
    place.write("sub/plain", "plain\n");
    let pushed = done(&place, &a, &["push", store, "--message", "first\u{1b}[31m"]);
    assert_eq!(
        (&pushed["pushed"], &pushed["number"], &pushed["files"]),
        (&json!(true), &json!(1), &json!(2))
    );
    // Two files, the directory and the top.
    assert_eq!(pushed["new_objects"], 4);
    let call = &pushed["commit"]["commits"][0]["calls"][0];
    assert_eq!(call["tool"], "files.write_file", "{pushed}");
    let cloned = done(&place, &a, &["clone", store, b.to_str().unwrap()]);
    assert_eq!((&cloned["written"], &cloned["commit"]), (&json!(2), &Value::Null));
    assert_eq!(tree(&a), tree(&b));

    fs::write(b.join("made.txt"), "changed\n").unwrap();
    fs::write(b.join(".envrc"), "echo\n").unwrap();
    fs::remove_dir_all(b.join("sub")).unwrap();
    done(&place, &b, &["push", "-m", "second"]);
    let ended = run(&place, &a, &["pull", "--format", "text"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    for expected in ["changed made.txt", "created .envrc", "removed sub/plain", "direnv"] {
        assert!(ended.stdout.contains(expected), "{expected}: {}", ended.stdout);
    }
    assert_eq!(tree(&a), tree(&b));
    // The pull is in the journal, and can be undone.
    let commits = place.run(&["log", "--commits"]).json();
    let latest = commits["records"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(latest["changes"].as_array().unwrap().len(), 4, "{latest}");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("made.txt"), "made by a tool\n");
    assert_eq!(place.read("sub/plain"), "plain\n");

    let listed = done(&place, &b, &["log"]);
    let numbers: Vec<&Value> =
        listed["commits"].as_array().unwrap().iter().map(|commit| &commit["number"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    assert_eq!(listed["commits"][0]["parent"], listed["commits"][1]["digest"]);
    let ended = run(&place, &b, &["log", store, "-n", "1", "--format", "text"]);
    assert!(ended.stdout.contains("second") && !ended.stdout.contains("first"), "{ended:?}");
    let ended = run(&place, &b, &["log", "--format", "text"]);
    assert!(ended.stdout.contains("first") && !ended.stdout.contains('\u{1b}'), "{ended:?}");
}

#[test]
fn refusals_have_a_status_and_name_what_to_do() {
    let place = Place::new();
    let (a, b) = (place.workspace(), place.home_file("b"));
    let store = place.home_file("store");
    let store = store.to_str().unwrap();
    place.write("x", "x\n");
    let refused = |directory: &Path, args: &[&str], status: i32, expected: &str| {
        let ended = run(&place, directory, args);
        assert_eq!(ended.status, status, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {ended:?}");
        assert!(!ended.stderr.contains('\u{1b}'), "{args:?}: {ended:?}");
    };
    refused(&a, &["push"], 2, "name one");
    refused(&a, &["pull", store], 2, "nothing was pushed");
    refused(&a, &["push", "https://example.org/x"], 2, "s3://BUCKET/PREFIX");
    refused(&a, &["push", "./inside"], 2, "in the workspace");
    refused(&a, &["push", "s3://bucket"], 1, "AWS_ACCESS_KEY_ID");
    done(&place, &a, &["push", store]);
    done(&place, &a, &["clone", store, b.to_str().unwrap()]);
    refused(&a, &["clone", store, b.to_str().unwrap()], 2, "not an empty directory");
    let name = "\u{1b}[2Jhostile";
    for (directory, text) in [(&a, "a\n"), (&b, "b\n")] {
        fs::write(directory.join("x"), text).unwrap();
        fs::write(directory.join(name), text).unwrap();
    }
    done(&place, &b, &["push"]);
    let before = tree(&a);
    refused(&a, &["push"], 1, "--pull");
    refused(&a, &["push", "--pull"], 1, "so nothing was changed");
    refused(&a, &["pull"], 1, "[2Jhostile, x");
    assert_eq!(tree(&a), before);
    let ended = run(&place, &b, &["push", "--format", "text"]);
    assert!(ended.stdout.starts_with("nothing to push"), "{ended:?}");
}

/// Nothing is removed between the clones: ext4 looks at each inode that was removed lately when it creates a
/// file.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "what was measured")]
fn a_clone_of_many_files_is_as_fast_as_gits() {
    let place = Place::new();
    let workspace = place.workspace();
    for number in 0..10_000 {
        // As different as the lines of programs: those that are repeated cost git next to nothing.
        let line = |at: u64| {
            let [first, second] =
                [1, 3].map(|odd| (at * 2 + odd).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            format!("{first:016x} {second:016x}\n")
        };
        let lines: String =
            (0..number as u64 % 150).map(|at| line(number as u64 * 150 + at)).collect();
        place.write(&format!("d{}/s{}/{number}.txt", number % 10, number / 10 % 10), lines);
    }
    place.with_git(&["init", "-q"]);
    place.with_git(&["add", "."]);
    place.with_git(&["commit", "-qm", "all"]);
    let store = place.home_file("store").to_str().unwrap().to_owned();
    done(&place, &workspace, &["push", &store]);
    let measure = |clone: &dyn Fn(&str), name: String| {
        let directory = place.home_file(&name);
        let begun = Instant::now();
        clone(directory.to_str().unwrap());
        begun.elapsed()
    };
    let mut ratios: Vec<f64> = Vec::new();
    for round in 0..7 {
        let by_git = |to: &str| place.with_git(&["clone", "-q", "--no-local", ".", to]);
        let git = measure(&by_git, format!("git-{round}"));
        let by_us = |to: &str| drop(done(&place, &workspace, &["clone", &store, to]));
        let ours = measure(&by_us, format!("clone-{round}"));
        let ratio = ours.as_secs_f64() / git.as_secs_f64();
        eprintln!("git: {git:?}, cofferdam: {ours:?}, ratio {ratio:.2}");
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[3] <= 1.0, "{ratios:?}");
}
