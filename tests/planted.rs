//! A `.cofferdam` that came with the files of a workspace, or something in it that came later:
//! nothing of it counts, and it is named. Each test plants what a host of the same user has made
//! elsewhere, which looks as genuine as it can.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdirat, openat};
use serde_json::{Value, json};

use crate::support::{Ended, Place, built};
use crate::trial::configure;

const OWN: &str = ".cofferdam";

/// A user who is not root.
const ORDINARY: u32 = 65_534;

/// Another one.
const OTHER: u32 = 65_533;

/// What is said of a directory.
const NOT_MADE_HERE: &str = "did not make it in this place";

/// Another workspace of the same user.
fn beside(place: &Place) -> PathBuf {
    let other = place.workspace().with_file_name("other");
    fs::create_dir_all(&other).unwrap();
    other
}

fn run_in(place: &Place, workspace: &Path, args: &[&str]) -> Ended {
    Ended::of(place.command(args).current_dir(workspace))
}

fn write_in(place: &Place, workspace: &Path, path: &str, content: &str) {
    let args = json!({"path": path, "content": content}).to_string();
    let ended = run_in(place, workspace, &["call", "files.write_file", &args]);
    assert_eq!(ended.status, 0, "{ended:?}");
}

#[expect(clippy::disallowed_methods, reason = "as a person copies a directory")]
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

/// The library's way recurses with depth.
#[expect(clippy::disallowed_methods, reason = "as a person removes a directory")]
fn remove(directory: &Path) {
    assert!(Command::new("rm").arg("-rf").arg(directory).status().unwrap().success());
}

/// What was set aside, as paths.
fn set_aside(workspace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace.join(OWN).join("set-aside"));
    entries.map_or_else(|_| Vec::new(), |entries| entries.map(|e| e.unwrap().path()).collect())
}

/// A place where the shell may be started.
fn with_a_shell() -> Place {
    let place = Place::new();
    configure(&place, "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n");
    place
}

fn records(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.status, 0, "{ended:?}");
    ended.json()["records"].as_array().unwrap().clone()
}

/// Directories within each other, deeper than any path can say.
fn nest(at: &Path, depth: usize) {
    fs::create_dir_all(at).unwrap();
    let mut directory = std::os::fd::OwnedFd::from(File::open(at).unwrap());
    for _ in 0..depth {
        mkdirat(&directory, "d", Mode::RWXU).unwrap();
        directory = openat(&directory, "d", OFlags::RDONLY, Mode::empty()).unwrap();
    }
}

#[test]
fn a_copy_of_another_workspaces_directory_is_set_aside_and_named() {
    let place = Place::new();
    let other = beside(&place);
    write_in(&place, &other, "a", "theirs, which an undo would remove\n");
    copy(&other.join(OWN), &place.workspace());
    place.write("a", "theirs, which an undo would remove\n");

    // What only reads says so, and changes nothing.
    let log = place.run(&["log"]);
    assert_eq!((records(&log).len(), set_aside(&place.workspace()).len()), (0, 0));
    assert!(log.stderr.contains(NOT_MADE_HERE), "{log:?}");
    let doctor = place.run(&["doctor"]);
    assert!(doctor.stdout.contains(NOT_MADE_HERE), "{doctor:?}");

    let undo = place.run(&["undo"]);
    assert_ne!(undo.status, 0, "{undo:?}");
    assert!(undo.stderr.contains("set aside as .cofferdam/set-aside/"), "{undo:?}");
    assert_eq!(place.read("a"), "theirs, which an undo would remove\n");
    let aside = set_aside(&place.workspace());
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read_dir(aside[0].join("history")).unwrap().count(), 1);
    let doctor = place.run(&["doctor"]);
    let name = aside[0].file_name().unwrap().to_str().unwrap();
    assert!(doctor.stdout.contains(name), "{doctor:?}");

    // From now on it is this workspace's, and nothing more is said.
    let again = place.run(&["call", "files.read_file", r#"{"path": "a"}"#]);
    assert_eq!((again.status, again.stderr.as_str()), (0, ""), "{again:?}");
    write_in(&place, &place.workspace(), "b", "mine");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(!place.workspace().join("b").exists());
    // No tool sees what was set aside.
    let path = format!("{OWN}/set-aside/{name}/journal.jsonl");
    let args = json!({"path": path}).to_string();
    assert_ne!(place.run(&["call", "files.read_file", &args]).status, 0);
}

/// Whatever is in a directory that came with a repository, changes are made as ever.
#[test]
fn what_a_planted_directory_holds_is_not_looked_at() {
    for planted in ["lock", "history", "images", "staging", "owner", "journal.jsonl", "set-aside"] {
        let place = Place::new();
        let outside = place.workspace().with_file_name("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "theirs").unwrap();
        let own = place.workspace().join(OWN);
        fs::create_dir(&own).unwrap();
        fs::write(own.join("theirs"), "").unwrap();
        symlink(&outside, own.join(planted)).unwrap();
        write_in(&place, &place.workspace(), "a", "A");
        assert_eq!(place.read("a"), "A", "{planted}");
        assert_eq!(set_aside(&place.workspace()).len(), 1, "{planted}");
        let names: Vec<_> =
            fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["file"], "{planted}");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "theirs");
    }
}

/// A pull replaces ignored entries without asking: also the host's directories, by links.
#[test]
fn entries_that_a_pull_has_replaced_are_set_aside_and_named() {
    let directories = ["staging", "history", "images", "runs", "cache", "output", "set-aside"];
    let files = ["lock", "journal.jsonl"];
    let replaced = [("link", &directories[..]), ("link", &files), ("file", &directories)];
    for (kind, names) in replaced {
        for name in names {
            let place = with_a_shell();
            write_in(&place, &place.workspace(), "a", "1");
            let outside = place.workspace().with_file_name("outside");
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("file"), "theirs").unwrap();
            let own = place.workspace().join(OWN);
            remove(&own.join(name));
            if kind == "link" {
                symlink(&outside, own.join(name)).unwrap();
            } else {
                fs::write(own.join(name), "theirs").unwrap();
            }
            let command = json!({"command": "echo 2 > a; yes | head -c 100000"}).to_string();
            let ran = place.run(&["call", "shell.run_command", &command]);
            assert_eq!(ran.status, 0, "{kind} {name}: {ran:?}");
            assert_eq!(place.read("a"), "2\n", "{kind} {name}");
            if *name != "set-aside" {
                let said = format!("'{name}' of the host's own files");
                assert!(ran.stderr.contains(&said), "{kind} {name}: {ran:?}");
                assert_eq!(set_aside(&place.workspace()).len(), 1, "{kind} {name}");
            }
            let undo = place.run(&["undo"]);
            assert_eq!((undo.status, undo.stderr.as_str()), (0, ""), "{kind} {name}: {undo:?}");
            assert_eq!(place.read("a"), "1", "{kind} {name}");
            let left: Vec<_> =
                fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(left, ["file"], "{kind} {name}");
            assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "theirs");
        }
    }
}

/// A file system gives the number of a directory that was removed to the next one.
#[test]
fn a_copy_does_not_count_when_it_has_the_same_inode() {
    let place = Place::new();
    write_in(&place, &place.workspace(), "a", "1");
    let own = place.workspace().join(OWN);
    let kept = place.workspace().with_file_name("kept");
    let inode = fs::metadata(&own).unwrap().ino();
    copy(&own, &kept);
    for _ in 0..30 {
        remove(&own);
        copy(&kept, &own);
        let log = place.run(&["log"]);
        assert!(log.stderr.contains(NOT_MADE_HERE) && records(&log).is_empty(), "{log:?}");
        if fs::metadata(&own).unwrap().ino() == inode {
            return;
        }
    }
}

/// A pull replaces ignored files without asking, so single files can come into a directory that
/// counts.
#[test]
fn what_a_pull_brings_into_a_directory_that_counts_is_not_believed() {
    let place = Place::new();
    for number in 0..100 {
        place.write(&format!("m{number}.py"), format!("def wanted(): # {number}\n    pass\n"));
    }
    let find = || {
        let ended = place.run(&["call", "symbols.locate_symbol", r#"{"symbol": "wanted"}"#]);
        assert_eq!(ended.status, 0, "{ended:?}");
        (ended.json()["total"].clone(), ended.stderr)
    };
    assert_eq!(find(), (json!(100), String::new()));
    let cached = place.workspace().join(OWN).join("cached/symbols");
    for with_digest in [false, true] {
        for entry in fs::read_dir(&cached).unwrap() {
            let file = entry.unwrap().path();
            let bytes = fs::read(&file).unwrap();
            let content = bytes.windows(8).position(|window| window == b"outlines").unwrap();
            let mut forged = bytes[content..].to_vec();
            for at in 0..forged.len() - 6 {
                if &forged[at..at + 6] == b"wanted" {
                    forged[at..at + 6].copy_from_slice(b"hidden");
                }
            }
            let before = if with_digest { digest(&forged) } else { bytes[..content].to_vec() };
            fs::write(&file, [before, forged].concat()).unwrap();
        }
        let (total, said) = find();
        assert_eq!(total, 100);
        assert!(said.contains("is not what this host has written there"), "{said}");
        // It was made anew.
        assert_eq!(find(), (json!(100), String::new()));
    }
}

/// The SHA-256 of some bytes.
#[expect(clippy::disallowed_methods, reason = "a digest that the host has no part in")]
fn digest(bytes: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let digits = std::str::from_utf8(&output[..64]).unwrap();
    let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..64).step_by(2).map(digit).collect()
}

#[test]
fn lines_that_this_host_has_not_written_are_no_part_of_the_journal() {
    let place = Place::new();
    let other = beside(&place);
    write_in(&place, &other, "theirs", "");
    write_in(&place, &place.workspace(), "mine", "");
    let journal = place.workspace().join(OWN).join("journal.jsonl");
    let mine = fs::read_to_string(&journal).unwrap();
    let count = mine.lines().count();
    let theirs = fs::read_to_string(other.join(OWN).join("journal.jsonl")).unwrap();
    let changed = mine.lines().find(|line| line.contains("files.write_file")).unwrap();
    let changed = changed.replace("files.write_file", "files.other_file");
    let unsealed = r#"{"timestamp":"2026-02-08T10:30:10Z","event":"planted"}"#;
    fs::write(&journal, format!("{theirs}{changed}\n{unsealed}\n{mine}{unsealed}")).unwrap();
    fs::write(journal.with_extension("jsonl.1"), &theirs).unwrap();
    let log = place.run(&["log"]);
    assert_eq!(records(&log).len(), count, "{log:?}");
    let planted = 2 * theirs.lines().count() + 3;
    assert_eq!(log.json()["unreadable_lines"], planted);
    let stats = place.run(&["stats"]);
    let found = stats.json();
    assert_eq!(
        (&found["total"]["calls"], &found["lines"]["unreadable"]),
        (&json!(1), &json!(planted))
    );
    assert!(stats.stdout.contains("not written by this user's host"), "{stats:?}");
}

#[test]
fn output_that_this_host_has_not_kept_is_not_shown() {
    let place = with_a_shell();
    let other = beside(&place);
    let command = json!({"command": "yes planted | head -c 200000"}).to_string();
    let bash = ["call", "shell.bash", &command];
    assert_eq!(run_in(&place, &other, &bash).status, 0);
    assert_eq!(place.run(&bash).status, 0);
    let (mine, theirs) = (place.workspace().join(OWN), other.join(OWN));
    let name = |own: &Path| {
        let mut names = fs::read_dir(own.join("output")).unwrap();
        names.next().unwrap().unwrap().file_name().into_string().unwrap()
    };
    let (known, planted) = (name(&mine), name(&theirs));
    let show = |name: &str| place.run(&["log", "--output", name, "--format", "text"]);
    assert_eq!(show(&known).stdout.len(), 200_000);
    for directory in ["output", "output-seals"] {
        fs::copy(theirs.join(directory).join(&planted), mine.join(directory).join(&planted))
            .unwrap();
    }
    let ended = show(&planted);
    assert!(ended.status != 0 && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains("is not what this host has written there"), "{ended:?}");
    // Only what was changed is not shown.
    let file = mine.join("output").join(&known);
    let mut bytes = fs::read(&file).unwrap();
    bytes[150_000] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let part = |offset: &str| {
        let args = ["log", "--output", &known, "--format", "text", "--length", "9", "--offset"];
        place.run(&[&args[..], &[offset]].concat())
    };
    assert_eq!(part("65000").stdout.len(), 9);
    assert!(part("150000").status != 0 && show(&known).status != 0);
    bytes.truncate(100_000);
    fs::write(&file, bytes).unwrap();
    assert_ne!(show(&known).status, 0);
}

#[test]
fn directories_that_nest_without_end_are_removed_or_set_aside() {
    const DEPTH: usize = 6_000;
    let place = Place::new();
    write_in(&place, &place.workspace(), "a", "1");
    let own = place.workspace().join(OWN);
    nest(&own.join("staging/x"), DEPTH);
    nest(&own.join("runs/cofferdam-run-x"), DEPTH);
    nest(&own.join("kept/docs/x"), DEPTH);
    write_in(&place, &place.workspace(), "a", "2");
    assert_eq!(place.read("a"), "2");
    for emptied in ["staging", "runs"] {
        assert_eq!(fs::read_dir(own.join(emptied)).unwrap().count(), 0, "{emptied}");
    }
    remove(&own);
    let place = Place::new();
    let own = place.workspace().join(OWN);
    nest(&own.join("staging"), DEPTH);
    write_in(&place, &place.workspace(), "a", "1");
    assert_eq!(set_aside(&place.workspace()).len(), 1);
    remove(&own);
}

#[test]
fn the_hosts_directory_is_closed_to_others_whatever_it_was() {
    let place = with_a_shell();
    let command = json!({"command": "yes | head -c 100000"}).to_string();
    assert_eq!(place.run(&["call", "shell.bash", &command]).status, 0);
    let own = place.workspace().join(OWN);
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    for directory in [own.clone(), own.join("history"), own.join("output"), own.join("runs")] {
        open(&directory);
        assert_eq!(place.run(&["call", "shell.bash", &command]).status, 0);
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
    }
    // One that came with a repository, also where it is now.
    let place = Place::new();
    let own = place.workspace().join(OWN);
    fs::create_dir_all(own.join("history")).unwrap();
    open(&own);
    write_in(&place, &place.workspace(), "a", "1");
    assert_eq!((mode(&own), mode(&set_aside(&place.workspace())[0])), (0o700, 0o700));
}

/// A place where an ordinary user works, with the built command where that user can start it.
fn of_a_user(user: u32) -> (Place, PathBuf, tempfile::TempDir) {
    let place = Place::new();
    let above = place.workspace().parent().unwrap().to_owned();
    fs::create_dir_all(place.home()).unwrap();
    for directory in [&above, &place.workspace(), &place.home()] {
        chown(directory, Some(user), Some(user)).unwrap();
    }
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    fs::copy(built().join("cofferdam"), open.path().join("cofferdam")).unwrap();
    symlink(built().join("plugins"), open.path().join("plugins")).unwrap();
    let command = open.path().join("cofferdam");
    (place, command, open)
}

#[test]
fn a_directory_of_another_user_is_neither_used_nor_touched() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (place, command, _open) = of_a_user(ORDINARY);
    let call = |user: u32, home: &Path, content: &str| {
        let args = json!({"path": "a", "content": content}).to_string();
        let mut command = place.command_at(&command, &["call", "files.write_file", &args]);
        Ended::of(command.env("HOME", home).uid(user).gid(user))
    };
    let root = place.home().join("root");
    fs::create_dir(&root).unwrap();
    assert_eq!(call(ORDINARY, &place.home(), "mine").status, 0);
    let own = place.workspace().join(OWN);
    let before = fs::metadata(&own).unwrap();
    let refused = call(0, &root, "root's");
    assert_ne!(refused.status, 0, "{refused:?}");
    let said = format!("{OWN} in the workspace belongs to user {ORDINARY}, and this is user 0");
    assert!(refused.stdout.contains(&said) || refused.stderr.contains(&said), "{refused:?}");
    let after = fs::metadata(&own).unwrap();
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    assert_eq!(place.read("a"), "mine");
    // One ordinary user's, closed to another one.
    let third = place.home().join("third");
    fs::create_dir(&third).unwrap();
    chown(&third, Some(OTHER), Some(OTHER)).unwrap();
    for directory in [place.workspace().parent().unwrap(), &place.workspace(), &place.home()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    let refused = call(OTHER, &third, "another's");
    let said =
        format!("{OWN} in the workspace belongs to user {ORDINARY}, and this is user {OTHER}");
    assert!(refused.status != 0, "{refused:?}");
    assert!(refused.stdout.contains(&said) || refused.stderr.contains(&said), "{refused:?}");
    let mine = call(ORDINARY, &place.home(), "again");
    assert_eq!((mine.status, mine.stderr.as_str()), (0, ""), "{mine:?}");

    // An ordinary user's own, planted: set aside as root does it, whatever its permissions.
    let other = place.workspace().with_file_name("moved");
    fs::rename(&own, &other).unwrap();
    fs::set_permissions(other.join("history"), Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o555)).unwrap();
    copy(&other, &own);
    let mine = call(ORDINARY, &place.home(), "planted");
    assert!(mine.status == 0 && mine.stderr.contains("set aside as"), "{mine:?}");
}

#[test]
fn a_workspace_keeps_its_directory_when_it_is_moved() {
    let place = Place::new();
    write_in(&place, &place.workspace(), "a", "1");
    let was = place.workspace();
    let moved = was.with_file_name("moved");
    fs::rename(&was, &moved).unwrap();
    fs::create_dir(&was).unwrap();
    let undo = run_in(&place, &moved, &["undo"]);
    assert_eq!((undo.status, undo.stderr.as_str()), (0, ""), "{undo:?}");
    assert!(!moved.join("a").exists() && set_aside(&moved).is_empty());
}

/// Another key is another user, as far as anybody can tell; both can go on.
#[test]
fn hosts_with_other_keys_take_turns_and_do_not_believe_each_other() {
    let place = Place::new();
    write_in(&place, &place.workspace(), "a", "1");
    let elsewhere = place.home().join("elsewhere");
    let args = json!({"path": "a", "content": "2"}).to_string();
    let other = || {
        let mut command = place.command(&["call", "files.write_file", &args]);
        Ended::of(command.env("XDG_STATE_HOME", &elsewhere))
    };
    let own = place.workspace().join(OWN);
    let held = File::open(own.join("lock")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let refused = other();
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(refused.status != 0 && text.contains("in use by a host with another key"), "{text}");
    assert_eq!((place.read("a").as_str(), set_aside(&place.workspace()).len()), ("1", 0));
    drop(held);
    let done = other();
    assert!(done.status == 0 && done.stderr.contains("set aside as"), "{done:?}");
    assert_ne!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("a"), "2");
}

#[test]
fn many_that_begin_at_the_same_time_agree() {
    let place = Place::new();
    fs::create_dir(place.workspace().join(OWN)).unwrap();
    fs::write(place.workspace().join(OWN).join("owner"), "planted").unwrap();
    fs::write(place.workspace().join(OWN).join("theirs"), "").unwrap();
    thread::scope(|scope| {
        for n in 0..8 {
            let place = &place;
            scope.spawn(move || write_in(place, &place.workspace(), &format!("{n}"), "x"));
        }
    });
    assert_eq!(set_aside(&place.workspace()).len(), 1);
    assert_eq!(records(&place.run(&["log", "--commits"])).len(), 8);
    let beside: Vec<_> = fs::read_dir(place.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(OWN) && name != OWN)
        .collect();
    assert_eq!(beside, [""; 0]);
}

#[test]
fn without_a_key_outside_of_the_workspace_nothing_is_changed() {
    let place = Place::new();
    let call = |state: &Path, tool: &str, args: Value| {
        let args = args.to_string();
        let mut command = place.command(&["call", tool, &args]);
        Ended::of(command.env("XDG_STATE_HOME", state))
    };
    place.write("a", "as it was");
    let unwritable = place.home().join("state");
    fs::create_dir_all(unwritable.join("cofferdam")).unwrap();
    fs::write(unwritable.join("cofferdam/secret"), "in the way").unwrap();
    for (state, why) in [
        (place.workspace().join("state"), "would be in the workspace itself"),
        (unwritable, "can't be kept in"),
    ] {
        let ended = call(&state, "files.write_file", json!({"path": "a", "content": "b"}));
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.status != 0 && text.contains(why), "{ended:?}");
        assert_eq!(place.read("a"), "as it was");
        let read = call(&state, "files.read_file", json!({"path": "a"}));
        assert!(read.status == 0 && read.stderr.contains("the journal"), "{read:?}");
    }
}
