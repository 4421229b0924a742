//! Case 21: another process replaces a directory by a link that leads outside, as fast as possible,
//! while the guest uses it and while the host commits what it wrote.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_core::outcome::{Outcome, Status};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::files::{SECRET, entries, outside};
use crate::support::Place;
use crate::trial::{ALL, Trial, failure, tried};

/// The duration of a race, in milliseconds.
const RACE_MS: u32 = 2_800;

/// The time that the guest has for its last round and its answer, in milliseconds.
const REST_MS: u32 = 20_000;

/// The number of files to change; a race that only reads needs none.
const FILE_COUNT: usize = 500;

/// A ninth of the longest pause between two exchanges if calls have to finish: some pauses are long
/// enough for several calls with their commits, some too short for one.
const PAUSE_UNIT: Duration = Duration::from_millis(2);

/// Runs `play` with a host whose directory `swapped` is repeatedly exchanged for a link that leads
/// outside, and asserts that nothing outside was changed. The same names exist outside and inside.
fn while_swapped<T>(files: usize, pause: Duration, play: impl FnOnce(&Trial) -> T) -> T {
    let place = Place::new();
    let (workspace, outside) = (place.workspace(), outside(&place));
    let limits =
        format!("call-ms = {}\nhost-calls = 100000000\nfiles = 1000000\n", RACE_MS + REST_MS);
    for (directory, contents) in [(&workspace.join("swapped"), "inside"), (&outside, SECRET)] {
        fs::create_dir_all(directory.join("deep")).unwrap();
        fs::write(directory.join("file.txt"), contents).unwrap();
        for number in 0..files {
            fs::write(directory.join(number.to_string()), contents).unwrap();
        }
    }
    fs::write(outside.join("secret.txt"), SECRET).unwrap();
    fs::write(outside.join("deep/secret.txt"), SECRET).unwrap();
    symlink(&outside, workspace.join("link")).unwrap();
    let before = entries(&outside);
    let trial = Trial::of_guest(place, &format!("{ALL}[limits]\n{limits}"));
    let over = AtomicBool::new(false);
    let played = thread::scope(|scope| {
        scope.spawn(|| swap(&workspace, pause, &over));
        let played = play(&trial);
        over.store(true, Ordering::Relaxed);
        played
    });
    assert_eq!(entries(&outside), before);
    played
}

/// Runs the guest's race, and returns all of its results.
fn race(how: &str) -> String {
    let files = if how == "write" { FILE_COUNT } else { 0 };
    let args = json!({"how": how, "directory": "swapped", "files": files});
    let outcome = while_swapped(files, Duration::ZERO, |trial| trial.call("hostile.race", args));
    let told = match how {
        "write" => failure(outcome).message,
        _ => tried(outcome).unwrap(),
    };
    let counts: Vec<u32> =
        told.lines().next().unwrap().split(' ').map(|count| count.parse().unwrap()).collect();
    assert!(counts[0] > 100, "it went through the directory: {told:.80}");
    assert!(how == "scan" || counts[1] > 100, "it met the link: {told:.80}");
    told
}

/// Exchanges a directory and a link, so that both names always exist. The pauses between two
/// exchanges have several lengths.
fn swap(workspace: &Path, pause: Duration, over: &AtomicBool) {
    let (directory, link) = (workspace.join("swapped"), workspace.join("link"));
    for turn in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        if !pause.is_zero() {
            thread::sleep(pause * (turn * 7 % 10));
        }
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
    assert!(told.contains("inside") && !told.contains(SECRET), "{told:.2000}");
}

/// Changes are committed to the directory that the calls wrote to, or not at all.
#[test]
fn a_swapped_link_does_not_let_commits_out() {
    let (mut committed, mut refused) = (0, 0);
    while_swapped(FILE_COUNT, PAUSE_UNIT, |trial| {
        let started = Instant::now();
        let mut round = 0_usize;
        while started.elapsed() < Duration::from_millis(RACE_MS.into()) {
            let old = round % FILE_COUNT;
            let paths = [
                format!("swapped/new-{round}"),
                format!("swapped/{old}"),
                format!("swapped/deep/new-{round}"),
                "beside".to_owned(),
            ];
            let args = json!({"paths": paths, "then": "succeed"});
            match trial.call("hostile.spoil", args) {
                Outcome::Executed(_) => committed += 1,
                Outcome::Failed(failure) => {
                    let is_refusal = matches!(failure.status, Status::Denied | Status::Error);
                    assert!(is_refusal, "{failure:?}");
                    assert!(!failure.message.contains(SECRET), "{failure:?}");
                    refused += 1;
                }
            }
            round += 1;
        }
    });
    assert!(committed > 5 && refused > 5, "{committed} committed, {refused} refused");
}

#[test]
fn a_swapped_link_does_not_let_scans_out() {
    let told = race("scan");
    assert!(told.contains("inside") && !told.contains(SECRET), "{told:.2000}");
    // Not even a file name is leaked.
    assert!(!told.contains("secret"), "{told:.2000}");
}
