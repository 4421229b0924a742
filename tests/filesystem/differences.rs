//! Where a plugin deliberately sees something other than a native program: the disk is not changed
//! before the commit, and a call has a `/tmp` of its own.

use std::fs;

use super::native::Native;
use super::scenarios::{WAYS, Way, play_as};
use super::{parse, play, trial};

/// Steps, each with its result for files on the disk and for staged files.
type Steps = &'static [(&'static str, &'static str, &'static str)];

/// A file and a directory.
const BEFORE: [&str; 5] = ["open f a wc", "write f 0 old", "close f", "mkdir d", "symlink a l"];

#[track_caller]
fn assert_played(steps: Steps) {
    let lines: Vec<&str> = steps.iter().map(|(step, ..)| *step).collect();
    for (way, is_staged) in [(Way::OnDisk, false), (Way::Staged, true), (Way::StagedBefore, true)] {
        let (results, _) = play_as(way, &BEFORE, &lines);
        for ((step, on_disk, staged), result) in steps.iter().zip(&results) {
            let wanted = if is_staged { staged } else { on_disk };
            assert_eq!(result, wanted, "{way:?}: {step}");
        }
    }
}

/// As with overlayfs: the first change makes a copy, and a handle that was opened for reading
/// before still reads the old content.
#[test]
fn a_handle_from_before_the_first_change_reads_the_old_content() {
    let trial = trial();
    trial.place.write("a", "old");
    let steps = [
        "open r a r",
        "open w a w",
        "write w 0 new",
        "read r 0 100",
        "same r w",
        "open s a r",
        "read s 0 100",
        "same s w",
    ];
    let results = play(&trial, "filesystem.script", &steps);
    assert_eq!(results, ["ok", "ok", "3", "old", "false", "ok", "new", "true"]);
    // A staged file has no older version.
    let steps = [&["open c b wc", "write c 0 old", "close c"], &steps[..]].concat();
    let steps: Vec<String> = steps.iter().map(|step| step.replace(" a ", " b ")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let results = play(&trial, "filesystem.script", &steps);
    assert_eq!(results[3..], ["ok", "ok", "3", "new", "true", "ok", "new", "true"]);
}

/// A directory on the disk is not copied, so its times can't be staged.
#[test]
fn times_of_directories_on_the_disk_are_not_set() {
    assert_played(&[
        ("set-times d 1 2", "not-permitted", "ok"),
        ("open h d r", "ok", "ok"),
        ("fset-times h 3 4", "not-permitted", "ok"),
        ("set-times . 1 2", "not-permitted", "not-permitted"),
        ("set-times a 1 2", "ok", "ok"),
        ("set-times l 3 4", "ok", "ok"),
    ]);
}

#[test]
fn tmp_is_a_separate_tree() {
    assert_played(&[
        ("list /tmp>.", "", ""),
        ("open t /tmp>. rd", "ok", "ok"),
        ("open f t>x rwc", "ok", "ok"),
        ("write f 0 private", "7", "7"),
        ("mkdir t>d", "ok", "ok"),
        ("symlink ../x t>d/l", "ok", "ok"),
        ("stat t>d/l", "file 7", "file 7"),
        ("list /tmp>.", "d:directory,x:file", "d:directory,x:file"),
        ("rename a /tmp>a", "cross-device", "cross-device"),
        ("rename /tmp>x x", "cross-device", "cross-device"),
        ("link a /tmp>a", "not-permitted", "not-permitted"),
        ("rename /tmp>x t>d/x", "ok", "ok"),
        ("open p /tmp>.. rd", "not-permitted", "not-permitted"),
        ("open p t>../workspace/a r", "not-permitted", "not-permitted"),
        ("symlink /workspace/a t>a", "not-permitted", "not-permitted"),
        ("stat x", "no-entry", "no-entry"),
        ("set-times t>d 1 2", "ok", "ok"),
        ("times t>d", "1 2", "1 2"),
    ]);
}

/// Every step that would change the workspace is refused to a call that only reads; all others
/// work.
#[test]
fn a_call_that_only_reads_changes_nothing() {
    let trial = trial();
    trial.place.write("a", "old");
    trial.place.write("d/b", "old");
    for (step, wanted) in [
        ("open r a r", "ok"),
        ("read r 0 100", "old"),
        ("open d d rd", "ok"),
        ("list d>.", "b:file"),
        ("stat d>b", "file 3"),
        ("write r 0 new", "not-permitted"),
        ("append r new", "not-permitted"),
        ("size r 0", "not-permitted"),
        ("fset-times r 1 2", "not-permitted"),
        ("fset-times d 1 2", "not-permitted"),
        ("open f a w", "not-permitted"),
        ("open f a rw", "not-permitted"),
        ("open f a rt", "not-permitted"),
        ("open f a rc", "not-permitted"),
        ("open f new wc", "not-permitted"),
        ("open f d>b wt", "not-permitted"),
        ("mkdir new", "not-permitted"),
        ("rmdir d", "not-permitted"),
        ("unlink a", "not-permitted"),
        ("unlink d>b", "not-permitted"),
        ("rename a b", "not-permitted"),
        ("rename d>b d>c", "not-permitted"),
        ("symlink a l", "not-permitted"),
        ("link a b", "not-permitted"),
        ("set-times a 1 2", "not-permitted"),
        ("open t /tmp>x rwc", "ok"),
        ("write t 0 private", "7"),
        ("rename /tmp>x /tmp>y", "ok"),
        ("unlink /tmp>x", "ok"),
        ("symlink x /tmp>l", "ok"),
    ] {
        let steps = ["open r a r", "open d d rd", "open t /tmp>x rwc", step];
        let results = play(&trial, "filesystem.script_read", &steps);
        assert_eq!(results[3], wanted, "{step}");
    }
    assert_eq!(trial.place.read("a"), "old");
    assert_eq!(trial.place.read("d/b"), "old");
    assert!(!trial.place.workspace().join("new").exists());
}

/// Each entry of a large directory is listed exactly once.
#[test]
fn large_directories_are_listed_completely() {
    let trial = trial();
    Native::new(&trial.place.workspace()).play_all(&parse(&["mkdir big", "fill big 3000"]));
    let steps = [
        "count big",
        "unlink big/7",
        "rename big/8 big/eight",
        "open f big/new wc",
        "open f big/newer wc",
        "count big",
        "mkdir /tmp>big",
        "fill /tmp>big 3000",
        "unlink /tmp>big/7",
        "count /tmp>big",
    ];
    let results = play(&trial, "filesystem.script", &steps);
    assert_eq!(results, ["3000", "ok", "ok", "ok", "ok", "3001", "ok", "ok", "ok", "2999"]);
    assert_eq!(fs::read_dir(trial.place.workspace().join("big")).unwrap().count(), 3001);
}

/// As in Linux, a name has at most 255 bytes, a path 4,096, and at most 40 links are followed.
#[test]
fn lengths_of_names_paths_and_chains_of_links_are_limited() {
    let longest = "n".repeat(255);
    let (long, deep) = ("n".repeat(256), "d/".repeat(2049));
    let chain: Vec<String> = (0..=40).map(|link| format!("symlink {} {link}", link + 1)).collect();
    let steps = [
        format!("open f {longest} wc"),
        format!("mkdir {longest}"),
        format!("rename {longest} a"),
        format!("open f {long} wc"),
        format!("mkdir {long}"),
        format!("symlink a {long}"),
        format!("rename a {long}"),
        format!("stat {long}"),
        format!("stat {deep}"),
        format!("stat {deep}d"),
        "open f 41 wc".to_owned(),
        "stat 1".to_owned(),
        "stat 0".to_owned(),
    ];
    let wanted = [
        "ok",
        "exist",
        "ok",
        "name-too-long",
        "name-too-long",
        "name-too-long",
        "name-too-long",
        "name-too-long",
        "name-too-long",
        "name-too-long",
        "ok",
        "file 0",
        "loop",
    ];
    let before: Vec<&str> = chain.iter().map(String::as_str).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    for way in WAYS {
        let (results, _) = play_as(way, &before, &steps);
        for ((step, result), wanted) in steps.iter().zip(&results).zip(wanted) {
            assert_eq!(result, wanted, "{way:?}: {step:.40}");
        }
    }
}
