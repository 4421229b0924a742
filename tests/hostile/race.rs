//! Case 21: somebody swaps a directory for a link that leaves, as fast as possible, while the
//! guest goes through it. Ten seconds in all.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::files::{SECRET, entries, outside};
use super::trial::{ALL, Trial, tried};
use crate::support::Place;

/// How long one race takes, in milliseconds.
const TIME: u32 = 3300;

/// Races the guest, and returns everything that it got.
fn race(how: &str) -> String {
    let place = Place::new();
    place.write("swapped/file.txt", "inside");
    let (workspace, outside) = (place.workspace(), outside(&place));
    fs::create_dir_all(outside.join("deep")).unwrap();
    for name in ["file.txt", "secret.txt", "deep/secret.txt"] {
        fs::write(outside.join(name), SECRET).unwrap();
    }
    symlink(&outside, workspace.join("link")).unwrap();
    let before = entries(&outside);
    let trial = Trial::of_guest(
        place,
        &format!("{ALL}[limits]\ncall-ms = {TIME}\nhost-calls = 100000000\n"),
    );
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| swap(&workspace, &over));
        let outcome = trial.call("hostile.race", json!({"how": how, "path": "swapped/file.txt"}));
        over.store(true, Ordering::Relaxed);
        outcome
    });
    assert_eq!(entries(&outside), before);
    let told = tried(outcome).unwrap();
    let counts: Vec<u32> =
        told.lines().next().unwrap().split(' ').map(|count| count.parse().unwrap()).collect();
    assert!(counts[0] > 100, "it went through the directory: {told:.80}");
    assert!(how == "scan" || counts[1] > 100, "it met the link: {told:.80}");
    told
}

/// Exchanges a directory and a link: each name is always there.
fn swap(workspace: &Path, over: &AtomicBool) {
    let (directory, link) = (workspace.join("swapped"), workspace.join("link"));
    while !over.load(Ordering::Relaxed) {
        renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn a_swapped_link_does_not_let_reads_out() {
    let told = race("read");
    assert!(
        told.contains("inside") && !told.contains(SECRET) && !told.contains("secret"),
        "{told}"
    );
}

#[test]
fn a_swapped_link_does_not_let_writes_out() {
    let told = race("write");
    assert!(!told.contains(SECRET), "{told}");
}

#[test]
fn a_swapped_link_does_not_let_scans_out() {
    let told = race("scan");
    assert!(told.contains("inside") && !told.contains(SECRET), "{told:.2000}");
    // Not even a name.
    assert!(!told.contains("secret"), "{told:.2000}");
}
