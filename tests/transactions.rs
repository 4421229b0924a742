//! Transactions as users of the command see them: one for an envelope, dry runs, the history of
//! commits, undoing a commit, and workspaces in which nothing can be committed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::support::{Ended, Place};

/// An envelope of the dialect `actions`.
fn envelope(actions: &[Value]) -> String {
    json!({ "actions": actions }).to_string()
}

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

fn read(path: &str) -> Value {
    json!({"type": "read_file", "path": path})
}

fn patch(text: &str) -> Value {
    json!({"type": "apply_patch", "patch": text})
}

/// A workspace with three files.
fn place() -> Place {
    let place = Place::new();
    place.write("a", "one\ntwo\nthree\n");
    place.write("sub/b", "needle\n");
    place.write("gone", "gone\n");
    place
}

/// Changes a file, creates one, removes one and makes one executable.
const PATCH: &str = "\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/new/file b/new/file
new file mode 100755
--- /dev/null
+++ b/new/file
@@ -0,0 +1 @@
+new
";

/// The workspace except the host's own directory: kind or permissions, contents, and time of
/// change.
type Tree = BTreeMap<String, (String, Vec<u8>, SystemTime)>;

fn tree(place: &Place) -> Tree {
    let mut found = Tree::new();
    collect(&place.workspace(), "", &mut found);
    found
}

fn collect(root: &Path, below: &str, found: &mut Tree) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if matches!(path.as_str(), ".cofferdam" | ".git") {
            continue;
        }
        let metadata = entry.metadata().unwrap();
        let mode = format!("{:o}", metadata.permissions().mode());
        let contents = if metadata.is_dir() {
            collect(root, &path, found);
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(entry.path()).unwrap()
        };
        found.insert(path, (mode, contents, metadata.modified().unwrap()));
    }
}

/// A tree without times.
fn plain(tree: &Tree) -> BTreeMap<&str, (&str, &[u8])> {
    tree.iter()
        .map(|(path, (mode, contents, _))| (path.as_str(), (mode.as_str(), contents.as_slice())))
        .collect()
}

impl Place {
    fn play(&self, options: &[&str], actions: &[Value]) -> Ended {
        self.run_with(&[&["run"], options].concat(), &envelope(actions))
    }

    /// Runs one call that has to succeed.
    fn done(&self, action: Value) {
        let ended = self.play(&[], &[action]);
        assert_eq!(ended.status, 0, "{ended:?}");
    }

    /// The commits in the journal, from the oldest to the latest.
    fn commits(&self) -> Vec<Value> {
        let ended = self.run(&["log", "--commits"]);
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()["records"].as_array().unwrap().clone()
    }

    /// How many of the commits can still be undone.
    fn kept(&self) -> usize {
        let history = self.workspace().join(".cofferdam/history");
        fs::read_dir(history).map_or(0, Iterator::count)
    }
}

/// The code of each call's failure; `-` for one that succeeded.
fn codes(ended: &Ended) -> Vec<String> {
    let results = ended.json()["results"].as_array().unwrap().clone();
    let code = |result: &Value| result["metadata"]["code"].as_str().unwrap_or("-").to_owned();
    results.iter().map(code).collect()
}

/// The paths of a commit, and the kind of each change.
fn changes(commit: &Value) -> Vec<(&str, &str)> {
    let changes = commit["changes"].as_array().unwrap();
    changes
        .iter()
        .map(|change| (change["path"].as_str().unwrap(), change["change"].as_str().unwrap()))
        .collect()
}

#[test]
fn later_calls_of_an_atomic_envelope_see_what_earlier_ones_changed() {
    let place = place();
    let ended = place.play(
        &["--atomic"],
        &[
            write("new/staged.txt", "a needle in new\n"),
            patch(PATCH),
            read("new/staged.txt"),
            json!({"type": "glob", "pattern": "**/*"}),
            json!({"type": "search_text", "query": "needle"}),
            json!({"type": "grep", "pattern": "^2$", "output_mode": "content"}),
            json!({"type": "read_tree", "path": "new"}),
            read("a"),
            json!({"type": "edit_code", "path": "a", "patch": "@@ -1,3 +1,3 @@\n-one\n+1\n 2\n three\n"}),
        ],
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let results = ended.json();
    let answer = |index: usize| results["results"][index]["metadata"].clone();
    assert_eq!(answer(2)["content"], "a needle in new\n");
    let mut files: Vec<String> = answer(3)["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            let file = Path::new(file.as_str().unwrap());
            file.strip_prefix(place.workspace()).unwrap().display().to_string()
        })
        .collect();
    files.sort();
    assert_eq!(files, ["a", "new/file", "new/staged.txt", "sub/b"]);
    let found: Vec<Value> = answer(4)["matches"].as_array().unwrap().clone();
    let found: Vec<&str> = found.iter().map(|hit| hit["file"].as_str().unwrap()).collect();
    assert_eq!(found, ["new/staged.txt", "sub/b"]);
    assert_eq!(answer(5)["matches"], json!([{"file": "a", "line": 2, "text": "2"}]));
    let listed: Vec<Value> = answer(6)["entries"].as_array().unwrap().clone();
    let listed: Vec<&str> = listed.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(listed, ["new/file", "new/staged.txt"]);
    assert_eq!(answer(7)["content"], "one\n2\nthree\n");

    assert_eq!(place.read("a"), "1\n2\nthree\n");
    assert!(!place.workspace().join("gone").exists());
    // Everything is one commit, which names the calls that changed something.
    let commits = place.commits();
    assert_eq!(commits.len(), 1);
    assert_eq!(
        changes(&commits[0]),
        [
            ("a", "changed"),
            ("gone", "removed"),
            ("new", "created"),
            ("new/file", "created"),
            ("new/staged.txt", "created"),
        ]
    );
    assert_eq!(commits[0]["calls"].as_array().unwrap().len(), 3);
    let log = place.run(&["log"]).json();
    let of_commit: Vec<bool> = log["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["tool"].is_string())
        .map(|record| record["commit"] == commits[0]["commit"])
        .collect();
    assert_eq!(of_commit, [true, true, false, false, false, false, false, false, true]);
}

#[test]
fn a_failure_discards_an_atomic_envelope() {
    let place = place();
    let before = tree(&place);
    let ended = place.play(
        &["--atomic"],
        &[write("fresh", "F"), read("a"), patch(PATCH), read("missing"), write("later", "L")],
    );
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_eq!(codes(&ended), ["RolledBack", "-", "RolledBack", "FileNotFoundError", "Skipped"]);
    assert_eq!(tree(&place), before);
    assert_eq!(place.commits(), Vec::<Value>::new());
    // The journal has how the calls ended, not their results.
    let log = place.run(&["log"]).json();
    let logged: Vec<&str> = log["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["code"].as_str().unwrap_or("-"))
        .collect();
    assert_eq!(logged, ["RolledBack", "-", "RolledBack", "FileNotFoundError", "Skipped"]);
    let ended = place.play(&["--atomic", "--role", "reader"], &[read("a"), write("a", "A")]);
    assert_eq!(
        (ended.status, codes(&ended)),
        (3, vec!["-".to_owned(), "ToolNotInRole".to_owned()])
    );
    assert_eq!(tree(&place), before);
}

#[test]
fn a_dry_run_prints_the_diff_and_changes_nothing() {
    let place = place();
    let before = tree(&place);
    let actions = [patch(PATCH), write("sub/c", "C\n"), read("a"), read("missing")];
    let ended = place.play(&["--dry-run"], &actions);
    assert_eq!((ended.status, codes(&ended)[3].as_str()), (1, "FileNotFoundError"));
    assert_eq!(ended.json()["results"][2]["metadata"]["content"], "one\n2\nthree\n");
    let diff = ended.json()["diff"].as_str().unwrap().to_owned();
    for line in ["-two", "+2", "deleted file mode 100644", "new file mode 100755", "+C"] {
        assert!(diff.lines().any(|found| found == line), "{line}: {diff}");
    }
    assert_eq!(tree(&place), before);
    assert_eq!((place.commits(), place.kept()), (vec![], 0));
    let log = place.run(&["log"]).json();
    let records = log["records"].as_array().unwrap();
    assert!(records.len() == 4 && records.iter().all(|record| record["dry_run"] == true), "{log}");

    // The text format is only the diff, which git applies.
    let text = place.play(&["--dry-run", "--format", "text"], &actions);
    assert_eq!(text.stdout, diff);
    assert!(text.stderr.contains("FileNotFoundError"), "{text:?}");
    place.play(&[], &actions);
    let wanted = tree(&place);
    let other = self::place();
    fs::write(other.workspace().with_file_name("diff"), &diff).unwrap();
    let applied = other.git(&["apply", "--whitespace=nowarn", "../diff"]);
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(plain(&tree(&other)), plain(&wanted));
}

/// Changes that would not be committed are not shown.
#[test]
fn a_dry_run_that_would_be_rolled_back_has_no_diff() {
    let place = place();
    let actions = [write("sub/c", "C\n"), read("missing")];
    let ended = place.play(&["--dry-run", "--atomic"], &actions);
    assert_eq!(codes(&ended), ["RolledBack", "FileNotFoundError"]);
    assert_eq!((ended.status, &ended.json()["diff"]), (1, &json!("")));
}

#[test]
fn a_dry_run_of_one_call_prints_its_diff() {
    let place = place();
    let before = tree(&place);
    let args = json!({"path": "a", "content": "one\n"}).to_string();
    let dry = ["call", "write_file", &args, "--dry-run"];
    let ended = place.run(&dry);
    let diff = "diff --git a/a b/a\n";
    let document = ended.json();
    assert_eq!((ended.status, &document["answer"]["bytes_written"]), (0, &json!(4)));
    let answered = document["diff"].as_str().unwrap();
    assert!(answered.starts_with(diff) && answered.contains("\n-two\n-three\n"), "{answered}");
    let text = place.run(&[&dry[..], &["--format", "text"]].concat());
    assert_eq!(text.stdout, answered);
    let reads = place.run(&["call", "read_file", r#"{"path": "a"}"#, "--dry-run"]).json();
    assert_eq!((&reads["diff"], &reads["answer"]["size"]), (&json!(""), &json!(14)));
    assert_eq!(tree(&place), before);
}

#[test]
fn commits_are_listed_shown_and_undone() {
    let place = place();
    let times = |path: &str| {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::open(place.workspace().join(path)).unwrap().set_modified(old).unwrap();
    };
    fs::set_permissions(place.workspace().join("gone"), fs::Permissions::from_mode(0o640)).unwrap();
    for path in ["a", "gone", "sub/b", "sub"] {
        times(path);
    }
    let start = tree(&place);
    place.done(patch(PATCH));
    let second = tree(&place);
    place.done(write("sub/b", "B\n"));
    place.done(read("a"));
    let third = tree(&place);

    let commits = place.commits();
    let ids: Vec<&str> = commits.iter().map(|commit| commit["commit"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{commits:?}");
    assert_eq!(changes(&commits[1]), [("sub/b", "changed")]);
    let text = place.run(&["log", "--commits", "--format", "text"]).stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.lines().last().unwrap().ends_with(&format!("{}  changed sub/b", ids[1])),
        "{text}"
    );
    assert_eq!(place.run(&["log", "--commits", "-n", "1"]).json()["records"], json!([commits[1]]));

    let shown = place.run(&["log", "--diff", ids[1], "--format", "text"]).stdout;
    assert!(shown.contains("\n-needle\n+B\n"), "{shown}");
    assert_eq!(place.run(&["log", "--diff", ids[1]]).json()["diff"], shown);
    // Two commits of the same millisecond have a longer common prefix.
    let ambiguous = place.run(&["log", "--diff", "0"]);
    assert_eq!(ambiguous.status, 2, "{ambiguous:?}");
    assert!(ambiguous.stderr.contains("the beginning of several commits"), "{ambiguous:?}");
    let unknown = place.run(&["undo", "ffff"]);
    assert_eq!(unknown.status, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("no commit ffff"), "{unknown:?}");

    let ended = place.run(&["undo"]);
    assert_eq!((ended.status, &ended.json()["undone"]), (0, &json!(ids[1])), "{ended:?}");
    assert_eq!(tree(&place), second);
    let ended = place.run(&["undo", ids[0]]);
    assert_eq!((ended.status, &ended.json()["undone"]), (0, &json!(ids[0])), "{ended:?}");
    assert_eq!(tree(&place), start);

    // An undo is a commit, and is listed, shown and undone like any other.
    let commits = place.commits();
    assert_eq!(commits.len(), 4);
    assert_eq!(commits[3]["undoes"], ids[0]);
    let ended = place.run(&["undo", commits[3]["commit"].as_str().unwrap(), "--format", "text"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stdout.contains("created new/file\n"), "{ended:?}");
    assert_eq!(plain(&tree(&place)), plain(&second));
    place.run(&["undo", commits[2]["commit"].as_str().unwrap()]);
    assert_eq!(plain(&tree(&place)), plain(&third));
}

#[test]
fn an_undo_is_refused_where_something_has_changed_since() {
    let place = place();
    place.done(patch(PATCH));
    let id = place.commits()[0]["commit"].as_str().unwrap().to_owned();
    let workspace = place.workspace();
    place.write("a", "by somebody else\n");
    place.write("gone", "there again\n");
    fs::set_permissions(workspace.join("new/file"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = tree(&place);
    let ended = place.run(&["undo", &id]);
    let wanted = json!({
        "undone": null,
        "changed_since": [
            "a has other content", "gone is there again", "new/file has other permissions",
        ],
    });
    assert_eq!((ended.status, ended.json()), (1, wanted));
    let text = place.run(&["undo", &id, "--format", "text"]);
    assert_eq!((text.status, text.stdout.as_str()), (1, ""));
    assert!(text.stderr.contains("a has other content, gone is there again"), "{text:?}");
    fs::remove_file(workspace.join("new/file")).unwrap();
    let ended = place.run(&["undo"]).json();
    assert_eq!(ended["changed_since"][2], "new/file is gone");
    place.write("new/file", "new\n");
    assert_eq!(tree(&place).len(), before.len());
    assert_eq!(place.commits().len(), 1);

    // After everything is restored as the commit left it, it can be undone.
    fs::set_permissions(workspace.join("new/file"), fs::Permissions::from_mode(0o755)).unwrap();
    place.write("a", "one\n2\nthree\n");
    fs::remove_file(workspace.join("gone")).unwrap();
    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("a"), "one\ntwo\nthree\n");
}

#[test]
fn nothing_to_undo_is_reported() {
    let place = place();
    let before = tree(&place);
    for args in [&["undo"][..], &["log", "--diff", "0"]] {
        let ended = place.run(args);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("no commit"), "{ended:?}");
    }
    assert_eq!((place.commits(), tree(&place)), (vec![], before));
}

#[test]
fn a_refactoring_of_many_files_is_undone_byte_for_byte() {
    let place = Place::new();
    for number in 0..2000_u32 {
        let path = format!("src/{}/{number}.txt", number % 20);
        let end = if number.is_multiple_of(3) { "" } else { "\r\n" };
        place.write(&path, format!("\u{feff}old {number}{end}"));
        let path = place.workspace().join(path);
        let mode = if number.is_multiple_of(7) { 0o755 } else { 0o640 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + u64::from(number));
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
    let before = tree(&place);
    let guest = crate::support::guest("filesystem");
    let grants = place.home().join(".config/cofferdam");
    fs::create_dir_all(&grants).unwrap();
    let settings = "[grants.filesystem]\nfiles = 'write'\n";
    fs::write(grants.join("cofferdam.toml"), settings).unwrap();
    let args = json!({"from": "old", "to": "new"}).to_string();
    let call = ["call", "filesystem.refactor", &args, "--plugin", guest.to_str().unwrap()];
    let ended = place.run(&call);
    assert_eq!((ended.status, ended.json()), (0, json!({"files": 2000})), "{ended:?}");
    assert_eq!(place.read("src/7/7.txt"), "\u{feff}new 7\r\n");
    let commits = place.commits();
    assert_eq!((commits.len(), &commits[0]["paths"]), (1, &json!(2000)));
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(tree(&place) == before, "the tree is not what it was");
}

#[test]
fn the_hosts_own_directory_ignores_itself() {
    let place = place();
    assert!(place.git(&["init", "--quiet"]).status.success());
    place.done(write("a", "A\n"));
    assert!(place.kept() == 1 && place.workspace().join(".cofferdam/journal.jsonl").exists());
    let status = place.git(&["status", "--porcelain", "--untracked-files=all"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("?? a\n") && !status.contains("cofferdam"), "{status}");
    let ignored = place.git(&["check-ignore", ".cofferdam/history", ".cofferdam/lock"]);
    assert_eq!(String::from_utf8(ignored.stdout).unwrap().lines().count(), 2);
}

#[test]
fn commits_are_kept_as_long_as_the_settings_say() {
    for (settings, kept) in [
        ("", 5),
        ("[history]\ncommits = 3\n", 3),
        ("[history]\ncommits = 0\n", 0),
        ("[history]\nmb = 1\n", 2),
        ("[history]\nmb = 0\n", 0),
        ("[history]\ndays = 0\n", 5),
        ("[history]\ndays = 1\n", 5),
    ] {
        let place = Place::new();
        place.write("cofferdam.toml", settings);
        place.run(&["policy", "accept"]);
        for round in 0..5 {
            // Slightly less than half a MiB; the history also has the state before.
            let content =
                round.to_string().repeat(if settings.contains("mb") { 200 << 10 } else { 9 });
            place.done(write("a", &content));
        }
        assert_eq!(place.kept(), kept, "{settings}");
        // The journal still has all of them.
        assert_eq!(place.commits().len(), 5, "{settings}");
        assert_eq!(place.run(&["undo"]).status, if kept == 0 { 2 } else { 0 }, "{settings}");
    }
    let place = Place::new();
    place.write("cofferdam.toml", "[history]\nmonths = 1\n");
    let ended = place.run(&["policy", "accept"]);
    assert!(ended.status == 2 && ended.stderr.contains("months"), "{ended:?}");
}

#[test]
fn an_unwritable_workspace_is_reported() {
    let place = place();
    for directory in ["", "sub"] {
        let directory = place.workspace().join(directory);
        fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = tree(&place);
    // Programs run without a directory for caches.
    let status = json!({"type": "git_status"});
    let asked = place.act_as_nobody(&status);
    let message = asked.json()["results"][0]["message"].clone();
    assert!(message.as_str().unwrap_or_default().contains("not a git repository"), "{asked:?}");
    let reading = place.act_as_nobody(&read("a"));
    assert_eq!((reading.status, codes(&reading)), (0, vec!["-".to_owned()]), "{reading:?}");
    let writing = place.act_as_nobody(&write("a", "A"));
    assert_eq!(codes(&writing), ["WorkspaceError"], "{writing:?}");
    assert_eq!(writing.status, 5);
    let message = writing.json()["results"][0]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.starts_with("the workspace can't be changed: "), "{message}");
    assert!(message.contains("ermission denied"), "{message}");
    assert_eq!(tree(&place), before);
}

/// The workspace's own directory was created by another program: a link, a file, a link in it.
#[test]
fn a_planted_directory_of_the_host_is_refused() {
    for planted in ["link", "dangling", "file"] {
        let place = place();
        let workspace = place.workspace();
        let outside = workspace.with_file_name("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "theirs").unwrap();
        let own = workspace.join(".cofferdam");
        match planted {
            "link" => symlink(&outside, &own).unwrap(),
            "dangling" => symlink(outside.join("new"), &own).unwrap(),
            _ => fs::write(&own, "theirs").unwrap(),
        }
        let before = tree(&place);
        let ended = place.play(&[], &[read("a"), write("a", "A")]);
        assert_eq!(codes(&ended), ["-", "WorkspaceError"], "{planted}: {ended:?}");
        let message = ended.json()["results"][1]["message"].clone();
        assert!(message.as_str().unwrap().contains(".cofferdam"), "{planted}: {message}");
        assert_eq!(tree(&place), before, "{planted}");
        let names: Vec<_> =
            fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"], "{planted}");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "theirs", "{planted}");
        let undo = place.run(&["undo"]);
        assert_ne!(undo.status, 0, "{planted}: {undo:?}");
    }
}

#[test]
fn a_busy_workspace_is_waited_for_until_the_deadline() {
    let place = place();
    place.done(write("a", "first"));
    let lock = fs::File::open(place.workspace().join(".cofferdam/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let ended = place.play(&["--call-ms", "300"], &[read("a"), write("a", "second")]);
    assert_eq!(
        (ended.status, codes(&ended)),
        (1, vec!["-".to_owned(), "WorkspaceBusy".to_owned()])
    );
    assert_eq!(place.read("a"), "first");

    let child = place.command(&["call", "write_file", r#"{"path": "a", "content": "third"}"#]);
    let child = { child }.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(place.read("a"), "first");
    flock(&lock, FlockOperation::Unlock).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.read("a"), "third");
}
