//! Recovery after a crash: commits are atomic, no file is lost, and only authentic files are used.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::*;
use crate::commit_file::{self, StoredCommit, VERSION};
use crate::history_dirs;
use crate::layout::COMMIT_FILE;

/// The number of files whose text takes six times its size in JSON: more than fit into one commit
/// file.
const TEXTS: usize = 250;

/// Returns a text that grows most in JSON.
fn text(which: u8) -> String {
    let mut text = "\0".repeat(4096);
    text.replace_range(0..1, if which == 0 { "a" } else { "b" });
    text
}

fn populate_texts(root: &Path) {
    for number in 0..TEXTS {
        fs::write(root.join(format!("file{number}")), text(0)).unwrap();
    }
}

pub(super) fn write_texts(tree: &Overlay) {
    for number in 0..TEXTS {
        write(tree, &format!("file{number}"), &text(1));
    }
}

fn own(root: &Path, name: &str) -> PathBuf {
    root.join(OWN).join(name)
}

/// Returns what was set aside.
fn set_aside(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(own(root, "set-aside")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the commits that were recorded beside the workspace.
fn recorded_ids(root: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(records(root)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn ids(root: &Path) -> Vec<String> {
    let history = History::new(open(root));
    history.list(usize::MAX).unwrap().into_iter().map(|commit| commit.id.to_string()).collect()
}

/// Returns every file beneath a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                directories.push(path);
            } else if metadata.is_file() {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Creates a directory that contains a workspace, for files beside it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("workspace");
    fs::create_dir(&root).unwrap();
    (directory, root)
}

fn spawn_plain(root: &Path, task: &str, fault: &str, is_plain: bool) -> Output {
    let mut command = command(root, task, Some(fault));
    if is_plain {
        command.env(faults::PLAIN, "1");
    }
    command.spawn().unwrap().wait_with_output().unwrap()
}

/// Kills a task at every step, and recovery at each of its steps; then all files are old or all are
/// new, the history matches the records, and no files are left over.
fn kill_everywhere(is_plain: bool) {
    let (mut old, mut new) = (0, 0);
    let wanted = after_edit();
    for step in 1.. {
        let (_directory, root) = place();
        populate(&root);
        let before = tree(&root);
        let output = spawn_plain(&root, "edit", &format!("kill:{step}"), is_plain);
        if !was_killed(&output) {
            assert!(output.status.success(), "{output:?}");
            assert_eq!(tree(&root), wanted);
            break;
        }
        for step in 1.. {
            let fault = format!("kill:{step}");
            if !was_killed(&spawn_plain(&root, "recover", &fault, is_plain)) {
                break;
            }
        }
        begin(&recorded(&root));
        let now = tree(&root);
        assert_eq!(leftovers(&root), 0, "killed at step {step}");
        assert_eq!(set_aside(&root).len(), 0, "killed at step {step}");
        let recorded = recorded_ids(&root);
        assert_eq!(recorded, ids(&root).into_iter().collect(), "killed at step {step}");
        if now == before {
            old += 1;
            assert_eq!(recorded.len(), 0);
        } else {
            assert_eq!(now, wanted, "killed at step {step}");
            new += 1;
            assert_eq!(recorded.len(), 1);
            History::new(open(&root)).undo(begin(&open(&root)).0, None).unwrap();
            assert_eq!(tree(&root), before, "killed at step {step}");
        }
    }
    assert!(old > 10 && new > 10, "{old} old, {new} new");
}

#[test]
fn killed_at_every_step_it_is_all_old_or_all_new() {
    kill_everywhere(false);
}

/// A file system that can't exchange needs several steps for one change.
#[test]
fn killed_at_every_step_where_nothing_can_be_exchanged() {
    kill_everywhere(true);
}

/// Selects steps of a task: all if they are few, some if they are many.
fn some_steps(root: &Path, task: &str) -> Vec<u64> {
    let output = run(root, task, "0:0");
    let said = String::from_utf8(output.stdout).unwrap();
    let steps: u64 =
        said.split("steps=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    (1..=steps).filter(|step| step % 211 == 1 || *step + 6 > steps).collect()
}

/// With texts that take six times their size in JSON, the commit can be read, recovered, shown and
/// undone.
#[test]
fn texts_that_blow_up_are_recovered_shown_and_undone() {
    let (_directory, root) = place();
    populate_texts(&root);
    let before = tree(&root);
    for task in ["texts", "undo"] {
        let (mut old, mut new) = (0, 0);
        let (_directory, root) = place();
        populate_texts(&root);
        if task == "undo" {
            run(&root, "texts", "0:0");
        }
        let steps = some_steps(&root, task);
        for step in steps {
            let (_directory, root) = place();
            populate_texts(&root);
            if task == "undo" {
                run(&root, "texts", "0:0");
            }
            let start = tree(&root);
            assert!(was_killed(&run(&root, task, &format!("kill:{step}"))), "{step}");
            for step in [2, 90, 400] {
                run(&root, "recover", &format!("kill:{step}"));
            }
            begin(&recorded(&root));
            assert_eq!(leftovers(&root), 0);
            let now = tree(&root);
            let changed = start.iter().filter(|(path, content)| now[*path] != **content).count();
            match changed {
                0 => old += 1,
                TEXTS => new += 1,
                torn => panic!("{task}, killed at {step}: {torn} of {TEXTS} are new"),
            }
            let wanted = usize::from(task == "undo") + usize::from(changed > 0);
            assert_eq!(ids(&root).len(), wanted);
            if task == "texts" && changed > 0 {
                let history = History::new(open(&root));
                let diff = history.diff(&ids(&root)[0]).unwrap();
                assert!(!diff.is_empty());
                history.undo(begin(&open(&root)).0, None).unwrap();
                assert_eq!(tree(&root), before);
            }
        }
        assert!(old > 2 && new > 2, "{task}: {old} old, {new} new");
    }
}

/// Only some of many texts are in the commit's file.
#[test]
fn a_manifest_stays_small() {
    let (_directory, root) = place();
    populate_texts(&root);
    let workspace = open(&root);
    let (transaction, _) = begin(&workspace);
    write_texts(transaction.overlay());
    transaction.commit(Purpose::default()).unwrap().unwrap();
    let manifest = fs::read_dir(own(&root, "history")).unwrap().next().unwrap().unwrap();
    assert!(manifest.metadata().unwrap().len() < 5 << 20);
    let images = fs::read_dir(own(&root, "images")).unwrap().count();
    assert!(images > TEXTS && images < 2 * TEXTS, "{images}");
}

/// A commit whose file could not be read again is refused before anything is changed.
#[test]
fn a_commit_that_is_too_large_to_be_written_down_is_refused() {
    let (_directory, root) = place();
    populate(&root);
    let before = tree_with_times(&root);
    let workspace = open(&root);
    let (transaction, _) = begin(&workspace);
    edit(transaction.overlay()).unwrap();
    let purpose = Purpose::of(vec!["\u{1}".repeat(50 << 20)]);
    let error = transaction.commit(purpose).unwrap_err();
    assert!(matches!(error, CommitError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("256 MiB"), "{error}");
    assert_eq!(tree_with_times(&root), before);
    assert_eq!((leftovers(&root), ids(&root).len()), (0, 0));
}

/// Creates a workspace in which a commit of several changes was interrupted halfway.
fn interrupted() -> (tempfile::TempDir, PathBuf) {
    static STEP: OnceLock<u64> = OnceLock::new();
    let at = |step: u64| {
        let (directory, root) = place();
        populate(&root);
        assert!(was_killed(&run(&root, "edit", &format!("kill:{step}"))));
        (directory, root)
    };
    let is_halfway = |step: &u64| {
        let (_directory, root) = at(*step);
        let is_new = |file: &str| fs::read_to_string(root.join(file)).unwrap().starts_with("new");
        is_new("a.txt") && !is_new("bin/run") && own(&root, "staging").join(COMMIT_FILE).exists()
    };
    at(*STEP.get_or_init(|| (1..).find(is_halfway).unwrap()))
}

/// A commit file that can't be read is neither removed nor ignored: nothing can change the workspace
/// until the user has decided.
#[test]
fn recovery_stops_at_what_it_can_not_read() {
    let (_directory, root) = interrupted();
    let manifest = own(&root, "staging").join(COMMIT_FILE);
    let whole = fs::read(&manifest).unwrap();
    let is_blocked = || History::new(open(&root)).interrupted().unwrap().map(|found| found.blocks);
    assert!(!when_unlocked(is_blocked));
    let key = open(&root).own().unwrap().key().clone();
    let head = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut damaged: Vec<(&str, Vec<u8>)> = vec![
        ("of another version", commit_file::frame(VERSION + 1, "0", 2, b"?", &key)),
        ("no JSON", commit_file::frame(VERSION, "0", 2, b"{", &key)),
        (
            "another one's head",
            commit_file::frame(VERSION, "0", 2, &whole[head..whole.len() - 32], &key),
        ),
        ("more behind it", [&whole[..], b" "].concat()),
    ];
    for length in [head, head + 1, whole.len() / 2, whole.len() - 1] {
        damaged.push(("cut off", whole[..length].to_vec()));
    }
    for at in [head, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        damaged.push(("a bit is wrong", flipped));
    }
    let zeros = [&whole[..head], &vec![0; whole.len() - head]].concat();
    damaged.push(("zeros", zeros));
    for (what, bytes) in damaged {
        fs::write(&manifest, &bytes).unwrap();
        let (all, staged) = (tree(&root), files(&own(&root, "staging")));
        for _ in 0..2 {
            let error = begin_now(&open(&root)).err().unwrap_or_else(|| panic!("{what}"));
            let said = error.to_string();
            for part in ["can't be read", "Nothing was removed", "mv .cofferdam/staging"] {
                assert!(said.contains(part), "{what}: {said}");
            }
            assert!(when_unlocked(is_blocked), "{what}");
            assert_eq!(tree(&root), all, "{what}");
            assert_eq!(files(&own(&root, "staging")), staged, "{what}");
        }
    }
    // With the original file, the commit is finished.
    fs::write(&manifest, &whole).unwrap();
    let (begun, _) = begin(&open(&root));
    assert_eq!(tree(&root), after_edit());
    // What another process has locked is not reported: it may be committing.
    fs::write(&manifest, &whole).unwrap();
    assert_eq!(is_blocked(), None);
    drop(begun);
    // The instructions in the message work.
    let (_directory, root) = interrupted();
    let manifest = own(&root, "staging").join(COMMIT_FILE);
    fs::write(&manifest, &fs::read(&manifest).unwrap()[..head]).unwrap();
    begin_now(&open(&root)).err().unwrap();
    fs::rename(own(&root, "staging"), own(&root, "interrupted")).unwrap();
    begin_now(&open(&root)).unwrap();
}

/// A commit file that is not authentic is set aside, with everything that is staged. So is an
/// incomplete one of a single change.
#[test]
fn what_is_not_authentic_is_set_aside() {
    let key = || Key::of(&[1; 32], b"elsewhere");
    for what in ["text", "empty", "directory", "link", "another key", "one change"] {
        let (_directory, root) = interrupted();
        let staging = own(&root, "staging");
        let manifest = staging.join(COMMIT_FILE);
        let whole = fs::read(&manifest).unwrap();
        fs::remove_file(&manifest).unwrap();
        let trusted = open(&root).own().unwrap().key().clone();
        match what {
            "text" => fs::write(&manifest, r#"{"version":1,"changes":[]}"#).unwrap(),
            "empty" => fs::write(&manifest, "").unwrap(),
            "directory" => fs::create_dir_all(manifest.join("deep/er")).unwrap(),
            "link" => symlink("/etc/passwd", &manifest).unwrap(),
            "another key" => {
                let head = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                let json = &whole[head..whole.len() - 32];
                fs::write(&manifest, commit_file::frame(VERSION, "0", 2, json, &key())).unwrap();
            }
            _ => fs::write(&manifest, commit_file::frame(VERSION, "0", 1, b"{", &trusted)).unwrap(),
        }
        let (all, staged) = (tree(&root), files(&staging));
        let found = History::new(open(&root)).interrupted().unwrap().unwrap();
        assert!(!found.blocks && found.message.contains("sets it aside"), "{what}: {found:?}");
        begin_now(&open(&root)).unwrap();
        assert_eq!(tree(&root), all, "{what}");
        assert_eq!(leftovers(&root), 0, "{what}");
        let aside = set_aside(&root);
        assert_eq!(aside.len(), 1, "{what}");
        let aside = &aside[0];
        assert!(aside.to_str().unwrap().ends_with("-staging"), "{what}: {aside:?}");
        let contents = |files: BTreeMap<PathBuf, Vec<u8>>| files.into_values().collect::<Vec<_>>();
        assert_eq!(contents(files(aside)), contents(staged), "{what}");
    }
}

/// Even an authentic commit file can't change protected places.
#[test]
fn a_manifest_changes_only_what_a_call_may() {
    let image = |name: &str| {
        serde_json::json!({
            "name": name, "kind": "file", "mode": 420, "size": 7, "inode": 1, "modified": 0,
        })
    };
    let one = |path: &str, name: &str| serde_json::json!({ "path": path, "after": image(name) });
    let directory = |path: &str| serde_json::json!({ "path": path, "before": 0, "after": 1 });
    let fine = || vec![one("a", "0.1"), one("b/c", "0.2")];
    let mut cases = Vec::new();
    for path in [".git/hooks/pre-commit", "../outside", "/etc/passwd", "cofferdam.toml", "a/../b"] {
        cases.push((vec![one("a", "0.1"), one(path, "0.2")], vec![], "a manifest that changes"));
    }
    for name in ["1.2", "0/../x", "0.2/../../x", ".0"] {
        cases.push((vec![one("a", "0.1"), one("b", name)], vec![], "an image of"));
    }
    for path in [".git", ".git/hooks", "..", "/", "b/..", "c", ".cofferdam", "b/", "./b"] {
        cases.push((fine(), vec![directory(path)], "sets the time of"));
    }
    for (changes, directories, reason) in cases {
        let (outside, root) = place();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir_all(root.join("b")).unwrap();
        let workspace = open(&root);
        begin_now(&workspace).unwrap();
        let manifest = serde_json::json!({
            "id": "0", "sequence": 1, "time": "2026-01-01T00:00:00Z", "calls": [],
            "directories": directories, "changes": changes,
        });
        let json = manifest.to_string();
        let bytes =
            commit_file::frame(VERSION, "0", 2, json.as_bytes(), workspace.own().unwrap().key());
        for (name, content) in
            [("0.1", &b"planted"[..]), ("0.2", b"planted"), (COMMIT_FILE, &bytes)]
        {
            fs::write(own(&root, "staging").join(name), content).unwrap();
        }
        let (before, all) = (tree_with_times(&root), files(outside.path()));
        let error = begin_now(&open(&root)).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}: {json}");
        assert_eq!(tree_with_times(&root), before);
        assert_eq!(files(outside.path()), all);
    }
}

/// If another program changes files after a crash and before recovery, neither its files nor those
/// that the commit had replaced are lost.
#[test]
fn nothing_is_lost_where_somebody_goes_on_before_recovery() {
    let mut halfway = 0;
    for step in 1.. {
        let (_directory, root) = place();
        populate(&root);
        if !was_killed(&run(&root, "edit", &format!("kill:{step}"))) {
            break;
        }
        let is_new = |content: &str| content.starts_with("new") || content.contains("new c");
        let mut theirs = Vec::new();
        for (path, content) in tree(&root) {
            if root.join(&path).is_file() && !root.join(&path).is_symlink() && is_new(&content.0) {
                let content = format!("theirs, in {path}\n");
                fs::write(root.join(&path), &content).unwrap();
                theirs.push(content);
            }
        }
        halfway += usize::from(!theirs.is_empty());
        begin(&open(&root));
        assert_eq!(leftovers(&root), 0);
        let all: BTreeSet<Vec<u8>> = files(&root).into_values().collect();
        let old = ["a.txt", "b.txt", "src/c.txt", "src/old/d.txt", "bin/run", "e.txt"];
        let old = old.map(|file| format!("old {file}\n"));
        for content in old.iter().chain(&theirs) {
            assert!(all.contains(content.as_bytes()), "{content:?} is lost, killed at step {step}");
        }
    }
    assert!(halfway > 10, "{halfway}");
}

/// A removed file is not lost if its place was reused, or its directory removed.
#[test]
fn what_was_removed_is_kept_whatever_is_there_by_then() {
    for act in ["again", "directory gone", "nothing"] {
        let mut seen = 0;
        for step in 1.. {
            let (_directory, root) = place();
            populate(&root);
            if !was_killed(&run(&root, "edit", &format!("kill:{step}"))) {
                break;
            }
            let path = root.join("src/old/d.txt");
            if !path.exists() {
                seen += 1;
                match act {
                    "again" if path.parent().unwrap().is_dir() => {
                        fs::write(&path, "theirs").unwrap()
                    }
                    "directory gone" if path.parent().unwrap().is_dir() => {
                        fs::remove_dir(path.parent().unwrap()).unwrap();
                    }
                    _ => {}
                }
            }
            begin(&open(&root));
            let all: BTreeSet<Vec<u8>> = files(&root).into_values().collect();
            assert!(all.contains(&b"old src/old/d.txt\n"[..]), "{act}: lost at step {step}");
        }
        assert!(seen > 5, "{act}: {seen}");
    }
}

/// An interrupted commit keeps all its files until it can be finished.
#[test]
fn recovery_that_fails_keeps_everything() {
    for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::ACCESS] {
        for step in 1..60 {
            let (_directory, root) = interrupted();
            let output = run(&root, "recover", &format!("{}:{step}", errno.raw_os_error()));
            assert!(output.status.success(), "{output:?}");
            begin(&open(&root));
            assert_eq!(tree(&root), after_edit(), "{errno} at step {step}");
        }
    }
}

/// Commits are ordered by their sequence numbers, independent of the clock.
#[test]
fn order_is_the_commits_own() {
    let (_directory, root) = place();
    let workspace = open(&root);
    let commit = |shift: i64, content: &str| {
        set_shift(shift);
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), "file", content);
        transaction.commit(Purpose::default()).unwrap().unwrap().id
    };
    let hour = 3600;
    let ids: Vec<CommitId> = [0, -hour, hour, -24 * hour, 0]
        .iter()
        .enumerate()
        .map(|(number, shift)| commit(*shift, &number.to_string()))
        .collect();
    let history = History::new(Arc::clone(&workspace));
    let listed = |history: &History| {
        history.list(99).unwrap().into_iter().map(|commit| commit.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(&history), ids);
    assert_eq!(listed(&History::new(open(&root))), ids);
    for (id, left) in ids.iter().rev().zip(["3", "2", "1", "0"]) {
        set_shift(-2 * hour);
        assert_eq!(history.undo(begin(&workspace).0, None).unwrap().0.id, *id);
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), left);
    }
    // Another process does not know the latest sequence number.
    let other = open(&root);
    let (transaction, _) = begin(&other);
    write(transaction.overlay(), "file", "other");
    let latest = transaction.commit(Purpose::default()).unwrap().unwrap().id;
    let ours = commit(-48 * hour, "ours");
    assert_eq!(listed(&history)[9..], [latest, ours]);
}

/// Commits are removed by age only if the clock and later commits agree, and never the latest ones.
#[test]
fn a_wrong_clock_drops_nothing() {
    use cofferdam_core::policy::Retention;
    let day = 24 * 3600;
    let (_directory, root) = place();
    let workspace = open(&root);
    let history = History::new(Arc::clone(&workspace));
    let commit_at = |days: i64| {
        set_shift(days * day);
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), "file", &uuid::Uuid::now_v7().to_string());
        transaction.commit(Purpose::default()).unwrap();
        history.prune(&Retention::DEFAULT).unwrap();
        history.list(usize::MAX).unwrap().len()
    };
    for number in 1..=12 {
        assert_eq!(commit_at(0), number);
    }
    // Some calls with a clock that is ahead; then it is right again.
    for number in 13..=21 {
        assert_eq!(commit_at(40), number);
    }
    for number in 22..=24 {
        assert_eq!(commit_at(0), number);
    }
    for (shift, number) in [(-400, 25), (0, 26)] {
        assert_eq!(commit_at(shift), number);
    }
    // Later, commits that are too old by ten later commits are removed, and the latest ten stay.
    for number in 27..=34 {
        assert_eq!(commit_at(45), number);
    }
    // First the one that is dated too early, then all but those of the clock that was ahead.
    assert_eq!((commit_at(45), commit_at(45)), (34, 10 + 9));
    set_shift(10_000 * day);
    history.prune(&Retention::DEFAULT).unwrap();
    assert_eq!(history.list(usize::MAX).unwrap().len(), 10 + 9);
    // The limits of number and size apply regardless; the latest stays regardless of its size.
    history.prune(&Retention { commits: 4, ..Retention::DEFAULT }).unwrap();
    assert_eq!(history.list(usize::MAX).unwrap().len(), 4);
    history.prune(&Retention { bytes: 1, ..Retention::DEFAULT }).unwrap();
    assert_eq!(history.list(usize::MAX).unwrap().len(), 1);
    history.prune(&Retention { bytes: 0, ..Retention::DEFAULT }).unwrap();
    assert_eq!(history.list(usize::MAX).unwrap().len(), 0);
}

/// Files in the history that are not authentic are ignored.
#[test]
fn a_planted_history_is_not_believed() {
    let (_directory, root) = place();
    populate(&root);
    let workspace = open(&root);
    let (transaction, _) = begin(&workspace);
    write(transaction.overlay(), "a.txt", "ours");
    let ours = transaction.commit(Purpose::default()).unwrap().unwrap();
    let planted = own(&root, "history");
    let authentic = fs::read_dir(&planted).unwrap().next().unwrap().unwrap();
    let name = authentic.file_name().into_string().unwrap();
    let bytes = fs::read(authentic.path()).unwrap();
    let mark = name.rsplit('.').nth(1).unwrap();
    let late = "ffffffff-ffff-7fff-bfff-ffffffffffff";
    for name in [
        format!("{late}.0.json"),
        format!("9999999999.{late}.0.{mark}.json"),
        format!("9999999999.{}.0.{mark}.json", ours.id),
        format!("18446744073709551615.{late}.18446744073709551615.{mark}.json"),
        "0000000001.json".to_owned(),
        "\u{1b}[2J.json".to_owned(),
    ] {
        fs::write(planted.join(name), &bytes).unwrap();
    }
    let history = History::new(open(&root));
    assert_eq!(history.list(10).unwrap().len(), 1);
    assert!(matches!(history.diff("f"), Err(HistoryError::Unknown(_))));
    history.prune(&cofferdam_core::policy::Retention::DEFAULT).unwrap();
    assert_eq!(history.list(10).unwrap().len(), 1);
    let (undone, commit) = history.undo(begin(&open(&root)).0, None).unwrap();
    assert_eq!((undone.id, commit.unwrap().sequence), (ours.id.clone(), 2));
    // A file with an authentic name and another content is an error.
    for content in [&b""[..], b"planted", &bytes[..bytes.len() - 1]] {
        fs::write(authentic.path(), content).unwrap();
        let error = history.diff(&ours.id).unwrap_err().to_string();
        assert!(error.contains(&*ours.id) && error.contains("can't be read"), "{error}");
    }
    let other = fs::read_dir(&planted).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with("0000000002").then_some(name)
    });
    fs::copy(planted.join(other.unwrap()), authentic.path()).unwrap();
    history.diff(&ours.id).unwrap_err();
}

/// A commit file is read only if it is complete and unmodified.
#[test]
fn a_manifest_is_read_whole_or_not_at_all() {
    let (_directory, root) = interrupted();
    let (staging, key) = (own(&root, "staging"), open(&root).own().unwrap().key().clone());
    let directory = fs::File::open(&staging).unwrap();
    let whole = fs::read(staging.join(COMMIT_FILE)).unwrap();
    let head = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let read = |bytes: &[u8]| {
        fs::write(staging.join(COMMIT_FILE), bytes).unwrap();
        commit_file::read(&directory, COMMIT_FILE, &key).unwrap()
    };
    let StoredCommit::Valid(manifest) = read(&whole) else { panic!("it is whole") };
    assert_eq!(commit_file::encode(&manifest, &key).unwrap(), whole);
    assert!(history_dirs::name_of(&manifest, &key).starts_with("0000000001."));
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            StoredCommit::Foreign => assert!(length < head),
            StoredCommit::Unreadable { changes, .. } => {
                assert!(length >= head && changes == manifest.changes.len());
            }
            found => panic!("{length}: {found:?}"),
        }
    }
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x20;
        assert!(!matches!(read(&flipped), StoredCommit::Valid(_)), "{at}");
    }
}
