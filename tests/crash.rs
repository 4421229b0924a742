//! The host dies, or two of them work at once: what a patch changes is all old or all new, and
//! nothing is lost. Cases 41 and 47, through the real command.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::Place;

/// How often the command is killed.
const KILLS: u32 = 200;

/// How long that may take in all.
const TIME: Duration = Duration::from_secs(300);

/// The files that one patch changes, creates and removes.
const FILES: [&str; 6] = ["a", "b", "sub/c", "new", "sub/new", "gone"];

/// A workspace in the state before the patch.
fn reset(place: &Place) {
    for path in ["a", "b", "sub/c", "gone"] {
        place.write(path, format!("old {path}\n"));
    }
    for path in ["new", "sub/new"] {
        // It is there where the patch was applied.
        let _ = fs::remove_file(place.workspace().join(path));
    }
}

/// What is in the six files.
fn state(place: &Place) -> Vec<Option<String>> {
    let workspace = place.workspace();
    FILES.iter().map(|path| fs::read_to_string(workspace.join(path)).ok()).collect()
}

fn old() -> Vec<Option<String>> {
    let is_there = |path: &&str| !path.contains("new");
    FILES.iter().map(|path| is_there(path).then(|| format!("old {path}\n"))).collect()
}

fn new() -> Vec<Option<String>> {
    FILES.iter().map(|path| (*path != "gone").then(|| format!("new {path}\n"))).collect()
}

fn patch() -> String {
    let mut patch = String::new();
    for path in FILES {
        let (from, to, removed, added) = match path {
            "gone" => ("a/gone", "/dev/null", "@@ -1 +0,0 @@\n-old gone\n", String::new()),
            path if path.contains("new") => {
                ("/dev/null", path, "@@ -0,0 +1 @@\n", format!("+new {path}\n"))
            }
            path => (path, path, "", format!("@@ -1 +1 @@\n-old {path}\n+new {path}\n")),
        };
        let from = if from == path { format!("a/{from}") } else { from.to_owned() };
        let to = if to == path { format!("b/{to}") } else { to.to_owned() };
        patch.push_str(&format!("--- {from}\n+++ {to}\n{removed}{added}"));
    }
    patch
}

fn kill(child: &Child) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_child(child), Signal::KILL);
}

/// Whether a transaction was begun and not ended.
fn is_unfinished(place: &Place) -> bool {
    let staging = place.workspace().join(".cofferdam/staging");
    fs::read_dir(staging).is_ok_and(|mut entries| entries.next().is_some())
}

/// Killed at random moments of its run, the host leaves a workspace that the next call makes
/// whole.
#[test]
fn a_patch_is_all_old_or_all_new_whenever_the_host_is_killed() {
    let started = Instant::now();
    let place = Place::new();
    let args = json!({ "patch": patch() }).to_string();
    let call = ["call", "apply_patch", args.as_str()];

    // How long it takes, from its start to its end.
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        reset(&place);
        let run = Instant::now();
        let ended = place.run(&call);
        longest = longest.max(run.elapsed());
        assert_eq!((ended.status, state(&place)), (0, new()), "{ended:?}");
    }

    let (mut before, mut after, mut within) = (0, 0, 0);
    // Half of the moments are spread over the whole run. The commit is a small part of it, so
    // that the others are looked for around the earliest moment at which it was seen made.
    let mut commit = longest;
    for turn in 0_u32.. {
        let kills = before + after;
        if kills >= KILLS && before > 0 && after > 0 && within > 0 {
            break;
        }
        assert!(started.elapsed() < TIME, "{kills} killed: {before} before, {after} after");
        reset(&place);
        let part = f64::from(turn * 7919 % 1000) / 1000.0;
        let delay = if turn.is_multiple_of(2) {
            longest.mul_f64(part)
        } else {
            commit.mul_f64(0.8 + 0.4 * part)
        };
        let mut child = place.command(&call).spawn().unwrap();
        thread::sleep(delay);
        kill(&child);
        let was_killed = child.wait().unwrap().code().is_none();
        within += u32::from(is_unfinished(&place));
        // Another call finishes what was begun.
        let next = json!({"path": "other", "content": turn.to_string()}).to_string();
        let ended = place.run(&["call", "write_file", &next]);
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(!is_unfinished(&place));
        let state = state(&place);
        let is_new = state == new();
        assert!(is_new || state == old(), "killed after {delay:?}: {state:?}");
        if is_new {
            commit = commit.min(delay);
        }
        if was_killed {
            *(if is_new { &mut after } else { &mut before }) += 1;
        }
    }
}

/// The numbers that stand in a file, a line each.
fn numbers(text: &str) -> Vec<u32> {
    text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("torn: {line:?}"))).collect()
}

/// An envelope of 100 edits: each changes one of the numbers of a file that both processes
/// write, and writes a file of its own.
fn edits(who: u32) -> String {
    let edit = |number: u32| -> [Value; 2] {
        let line = 2 * number + who;
        [
            json!({
                "type": "atomic_replace", "file_path": "shared.txt",
                "replacements": [{
                    "old_string": format!("\n{line}\n"),
                    "new_string": format!("\n{}\n", line + 1000),
                }],
            }),
            json!({
                "type": "write_file", "path": format!("own/{who}-{number}"),
                "content": format!("{who} {number}\n"),
            }),
        ]
    };
    json!({ "actions": (0..100).flat_map(edit).collect::<Vec<_>>() }).to_string()
}

#[test]
fn two_hosts_with_a_hundred_edits_each_lose_nothing() {
    let place = Place::new();
    let lines: String = (0..200).map(|line| format!("{line}\n")).collect();
    place.write("shared.txt", format!("0\n{lines}"));
    let files = [0, 1].map(|who| {
        let file = place.workspace().with_file_name(format!("edits-{who}.json"));
        fs::write(&file, edits(who)).unwrap();
        file
    });
    let children =
        files.map(|file| place.command(&["run", file.to_str().unwrap()]).spawn().unwrap());
    // Meanwhile nobody ever sees a half of a file.
    let shared = place.workspace().join("shared.txt");
    let mut looks = 0;
    let mut children = children.map(Some);
    while let Some(child) = children.iter_mut().flatten().next() {
        assert_eq!(numbers(&fs::read_to_string(&shared).unwrap()).len(), 201);
        looks += 1;
        if child.try_wait().unwrap().is_some() {
            let child = children.iter_mut().find_map(Option::take).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(looks > 10);
    let found = numbers(&place.read("shared.txt"));
    assert_eq!(found[1..], (1000..1200).collect::<Vec<u32>>());
    for who in 0..2 {
        for number in 0..100 {
            assert_eq!(place.read(&format!("own/{who}-{number}")), format!("{who} {number}\n"));
        }
    }
    let commits = place.run(&["log", "--commits", "-n", "1000"]).json();
    assert_eq!(commits["records"].as_array().unwrap().len(), 400);
}
