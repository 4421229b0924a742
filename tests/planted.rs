//! A `.cofferdam` that came with the files of a workspace, or files in it that came later, are
//! ignored and reported. Each test plants what a host of the same user created elsewhere, which is
//! the most genuine-looking case.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdirat, openat};
use serde_json::{Value, json};

use crate::support::{Ended, ORDINARY_UID, Place, built, copy_command};
use crate::trial::configure;

const OWN: &str = ".cofferdam";

/// A part of the warning about such a directory.
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

#[expect(clippy::disallowed_methods, reason = "copies a directory as the user would")]
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

/// Removes a tree with `rm`, since the standard library's function recurses.
#[expect(clippy::disallowed_methods, reason = "removes a directory as the user would")]
fn remove(directory: &Path) {
    assert!(Command::new("rm").arg("-rf").arg(directory).status().unwrap().success());
}

/// The paths of what was set aside.
fn set_aside(workspace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace.join(OWN).join("set-aside"));
    entries.map_or_else(|_| Vec::new(), |entries| entries.map(|e| e.unwrap().path()).collect())
}

/// A place where the shell is granted.
fn with_a_shell() -> Place {
    let place = Place::new();
    configure(&place, "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n");
    place
}

fn records(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.status, 0, "{ended:?}");
    ended.json()["records"].as_array().unwrap().clone()
}

/// Nests directories deeper than a path can express.
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

    // A command that only reads reports it and changes nothing.
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

    // Afterwards the new directory belongs to this workspace, and there is no more warning.
    let again = place.run(&["call", "files.read_file", r#"{"path": "a"}"#]);
    assert_eq!((again.status, again.stderr.as_str()), (0, ""), "{again:?}");
    write_in(&place, &place.workspace(), "b", "mine");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(!place.workspace().join("b").exists());
    // No tool can read what was set aside.
    let path = format!("{OWN}/set-aside/{name}/journal.jsonl");
    let args = json!({"path": path}).to_string();
    assert_ne!(place.run(&["call", "files.read_file", &args]).status, 0);
}

/// A pull replaces the directory, which git ignores, by a link. The link is set aside, and calls
/// continue to work.
#[test]
fn a_link_in_place_of_the_hosts_directory_is_set_aside() {
    for planted in ["staging", "history", "images", "runs", "lock", "journal.jsonl"] {
        let place = with_a_shell();
        write_in(&place, &place.workspace(), "a", "1");
        let outside = place.workspace().with_file_name("outside");
        fs::create_dir(&outside).unwrap();
        let own = place.workspace().join(OWN);
        let _ = fs::remove_dir_all(own.join(planted));
        let _ = fs::remove_file(own.join(planted));
        symlink(&outside, own.join(planted)).unwrap();
        write_in(&place, &place.workspace(), "a", "2");
        let args = json!({"command": "echo 3 > a"}).to_string();
        let ended = place.run(&["call", "shell.bash", &args]);
        assert_eq!(ended.status, 0, "{planted}: {ended:?}");
        assert_eq!(place.read("a"), "3\n", "{planted}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{planted}");
        assert!(fs::symlink_metadata(own.join(planted)).is_ok_and(|found| !found.is_symlink()));
    }
}

/// File systems reuse the inode of a removed directory.
#[test]
fn a_copy_with_the_same_inode_is_not_authentic() {
    let place = Place::new();
    write_in(&place, &place.workspace(), "a", "1");
    let own = place.workspace().join(OWN);
    let inode = fs::metadata(&own).unwrap().ino();
    let backup = place.workspace().with_file_name("backup");
    copy(&own, &backup);
    for _ in 0..50 {
        remove(&own);
        copy(&backup, &own);
        if fs::metadata(&own).unwrap().ino() == inode {
            break;
        }
    }
    let log = place.run(&["log"]);
    assert_eq!(records(&log).len(), 0, "{log:?}");
    assert!(log.stderr.contains(NOT_MADE_HERE), "{log:?}");
}

/// Changes are possible with any contents of a directory that came with a repository.
#[test]
fn contents_of_a_planted_directory_are_ignored() {
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

/// A pull replaces ignored files without asking, so single files can be planted in an authentic
/// directory.
#[test]
fn files_planted_in_an_authentic_directory_are_ignored() {
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
        // The file was created again.
        assert_eq!(find(), (json!(100), String::new()));
    }
}

/// The SHA-256 digest of some bytes.
#[expect(clippy::disallowed_methods, reason = "a digest that is computed without the host")]
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
fn planted_lines_of_the_journal_are_ignored() {
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
fn planted_output_is_not_shown() {
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
    // Only the changed file is not shown.
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

/// A hundred paths of 4,096 characters that JSON escapes are longer than a line of the journal may
/// be.
#[test]
fn a_commit_of_the_longest_paths_is_listed() {
    let place = with_a_shell();
    let command = "n=$(printf '\\001%.0s' $(seq 240)); d=$n; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; \
                   do d=$d/$n; done; mkdir -p \"$d\"; \
                   for i in $(seq 100); do echo x > \"$d/$i\"; done; echo x > zz";
    let args = json!({"command": command}).to_string();
    let ended = place.run(&["call", "shell.bash", &args]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let log = place.run(&["log", "--commits"]);
    let listed = records(&log);
    assert_eq!((listed.len(), &log.json()["unreadable_lines"]), (1, &json!(0)), "{log:?}");
    assert!(listed[0]["paths"].as_u64().unwrap() > 101);
}

/// The old and new contents of a commit are stored in files beside the history.
#[test]
fn a_planted_file_of_the_history_is_neither_restored_nor_shown() {
    let place = Place::new();
    let images = place.workspace().join(OWN).join("images");
    place.write("run.sh", "old\n");
    // Too large for the manifest, so it is stored in a file as well.
    let new = "new\n".repeat(3000);
    write_in(&place, &place.workspace(), "run.sh", &new);
    let commit = {
        let log = place.run(&["log", "--commits"]);
        records(&log)[0]["commit"].as_str().unwrap().to_owned()
    };
    let kept: Vec<PathBuf> =
        fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    for file in kept {
        let genuine = file.with_extension("genuine");
        fs::rename(&file, &genuine).unwrap();
        let length = usize::try_from(fs::metadata(&genuine).unwrap().len()).unwrap();
        fs::write(&file, "x".repeat(length)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o4777)).unwrap();
        for args in [&["undo"][..], &["log", "--diff", &commit]] {
            let ended = place.run(args);
            assert_ne!(ended.status, 0, "{args:?}: {ended:?}");
            assert!(ended.stderr.contains("is not what this host kept"), "{ended:?}");
        }
        assert_eq!(place.read("run.sh"), new);
        fs::rename(&genuine, &file).unwrap();
    }
    assert_eq!(place.run(&["log", "--diff", &commit]).status, 0);
    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("run.sh"), "old\n");
}

#[test]
fn deeply_nested_directories_are_removed_or_set_aside() {
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
fn the_hosts_directory_is_made_private() {
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
    // A directory that came with a repository, even at its original place.
    let place = Place::new();
    let own = place.workspace().join(OWN);
    fs::create_dir_all(own.join("history")).unwrap();
    open(&own);
    write_in(&place, &place.workspace(), "a", "1");
    assert_eq!((mode(&own), mode(&set_aside(&place.workspace())[0])), (0o700, 0o700));
}

/// A place where another user works, with a copy of the command that this user can execute.
fn of_a_user(user: u32) -> (Place, PathBuf, tempfile::TempDir) {
    let place = Place::new();
    let above = place.workspace().parent().unwrap().to_owned();
    fs::create_dir_all(place.home()).unwrap();
    for directory in [&above, &place.workspace(), &place.home()] {
        chown(directory, Some(user), Some(user)).unwrap();
    }
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    copy_command(&open.path().join("cofferdam"));
    symlink(built().join("plugins"), open.path().join("plugins")).unwrap();
    let command = open.path().join("cofferdam");
    (place, command, open)
}

#[test]
fn a_directory_of_another_user_is_neither_used_nor_changed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (place, command, _open) = of_a_user(ORDINARY_UID);
    let call = |user: u32, home: &Path, content: &str| {
        let args = json!({"path": "a", "content": content}).to_string();
        let mut command = place.command_at(&command, &["call", "files.write_file", &args]);
        Ended::of(command.env("HOME", home).uid(user).gid(user))
    };
    let root = place.home().join("root");
    fs::create_dir(&root).unwrap();
    assert_eq!(call(ORDINARY_UID, &place.home(), "mine").status, 0);
    let own = place.workspace().join(OWN);
    let before = fs::metadata(&own).unwrap();
    let refused = call(0, &root, "root's");
    assert_ne!(refused.status, 0, "{refused:?}");
    let said = format!("{OWN} in the workspace belongs to user {ORDINARY_UID}, and this is user 0");
    assert!(refused.stdout.contains(&said) || refused.stderr.contains(&said), "{refused:?}");
    let after = fs::metadata(&own).unwrap();
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    assert_eq!(place.read("a"), "mine");
    let mine = call(ORDINARY_UID, &place.home(), "again");
    assert_eq!((mine.status, mine.stderr.as_str()), (0, ""), "{mine:?}");

    // A directory that the ordinary user planted: root sets it aside with any permissions.
    let other = place.workspace().with_file_name("moved");
    fs::rename(&own, &other).unwrap();
    fs::set_permissions(other.join("history"), Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o555)).unwrap();
    copy(&other, &own);
    let mine = call(ORDINARY_UID, &place.home(), "planted");
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

/// Another key stands for another user; both hosts can work.
#[test]
fn hosts_with_other_keys_take_turns_and_do_not_trust_each_other() {
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
fn many_hosts_that_start_at_the_same_time_agree() {
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
