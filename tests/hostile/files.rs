//! What a guest does to the file system: paths that leave, links, special files, protected
//! places, what was not granted, and what is outside of the role's scope.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cofferdam::outcome::Status;
use serde_json::json;

use super::trial::{ALL, Trial, assert_failed, configure, run_measured, said};
use crate::support::{Place, guest};

/// Everything that the guest can do with one path to get at what is there.
const READING: &[&str] =
    &["read", "read-at-once", "open", "list", "stat", "hash", "readlink", "scan", "scan-following"];

/// Everything that the guest can do with one path to change what is there.
const CHANGING: &[&str] = &[
    "write",
    "overwrite",
    "create",
    "truncate",
    "times",
    "mkdir",
    "rmdir",
    "unlink",
    "grow",
    "changes-write",
    "changes-create",
    "changes-remove",
    "changes-both",
    "changes-many",
];

/// What takes two paths.
const BETWEEN: &[&str] = &["rename", "link", "symlink", "changes-rename", "changes-like"];

/// A workspace beside a directory that nobody was given.
struct Beside {
    trial: Trial,
    before: Vec<Entry>,
}

/// One file or directory outside: its path, its contents, when it changed, and its permissions.
type Entry = (String, Vec<u8>, SystemTime, fs::Permissions);

/// What only the directory outside holds.
pub const SECRET: &str = "open sesame";

impl Beside {
    fn new(settings: &str) -> Self {
        Self::on(Place::new(), settings)
    }

    fn on(place: Place, settings: &str) -> Self {
        let outside = outside(&place);
        place.write("inside.txt", "inside");
        fs::create_dir_all(outside.join("below")).unwrap();
        fs::write(outside.join("secret.txt"), SECRET).unwrap();
        fs::write(outside.join("below/secret.txt"), SECRET).unwrap();
        let before = entries(&outside);
        Self { trial: Trial::of_guest(place, settings), before }
    }

    /// Tries everything with `path`, and asserts that nothing of outside was read or changed.
    fn assert_out_of_reach(&self, path: &str) {
        for what in READING.iter().chain(CHANGING) {
            let tried = self.trial.attempt("hostile.attempt", what, path, "inside.txt");
            let data = tried.unwrap_or_default();
            assert!(!data.contains(SECRET), "{what} {path:?}: {data}");
            // The text of a link is inside.
            assert!(!data.contains("secret") || *what == "readlink", "{what} {path:?}: {data}");
            self.assert_unchanged(what, path);
        }
        for what in BETWEEN {
            for (source, target) in [(path, "inside.txt"), ("inside.txt", path), (path, path)] {
                // It may have been moved to a place inside.
                self.trial.place.write("inside.txt", "inside");
                let _ = self.trial.attempt("hostile.attempt", what, source, target);
                self.assert_unchanged(what, path);
            }
        }
    }

    fn assert_unchanged(&self, what: &str, path: &str) {
        assert_eq!(entries(&outside(&self.trial.place)), self.before, "{what} {path:?}");
    }
}

/// The directory beside the workspace.
pub fn outside(place: &Place) -> std::path::PathBuf {
    place.workspace().parent().unwrap().join("outside")
}

/// Makes a link, whatever is there: a guest may have removed it and put something else in its
/// place, which is a change inside.
fn relink(target: &Path, link: &Path) {
    // One of the two, or neither.
    let _ = fs::remove_file(link);
    let _ = fs::remove_dir_all(link);
    symlink(target, link).unwrap();
}

/// Everything in a directory and below it.
pub fn entries(directory: &Path) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let contents = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.push((
            path.display().to_string(),
            contents,
            metadata.modified().unwrap(),
            metadata.permissions(),
        ));
    }
    all.sort_by(|left, right| left.0.cmp(&right.0));
    all
}

/// So that the refusals below mean something: with honest paths all of it works.
#[test]
fn what_is_granted_works() {
    let beside = Beside::new(ALL);
    let attempt = |what: &str, path: &str, target: &str| {
        beside.trial.attempt("hostile.attempt", what, path, target)
    };
    assert_eq!(attempt("read", "inside.txt", "").as_deref(), Ok("inside"));
    assert_eq!(attempt("list", "", "").as_deref(), Ok(".cofferdam\ninside.txt"));
    assert_eq!(attempt("directories", "", "").as_deref(), Ok("/workspace"));
    assert!(attempt("scan", "", "").unwrap().contains("inside.txt 6"));
    for what in ["stat", "hash", "overwrite", "truncate", "times", "changes-write"] {
        attempt(what, "inside.txt", "").unwrap();
    }
    assert_eq!(beside.trial.place.read("inside.txt"), "hostile");
    for (what, path, target) in [
        ("write", "a", ""),
        ("rename", "a", "b"),
        ("unlink", "b", ""),
        ("mkdir", "c", ""),
        ("write", "c/../d", ""),
        ("rmdir", "c", ""),
        ("create", "e", ""),
        ("changes-create", "f/g/h", ""),
        ("changes-like", "f/g/h", "e"),
        ("changes-rename", "e", "i"),
        ("changes-remove", "f/g/h", ""),
        ("changes-both", "k", "l"),
        ("changes-many", "m", "10"),
        ("grow", "n", "100"),
    ] {
        attempt(what, path, target).unwrap_or_else(|error| panic!("{what} {path}: {error}"));
    }
    // Links can't be made, whatever is granted.
    for what in ["link", "symlink"] {
        assert_eq!(said(&attempt(what, "inside.txt", "link")), Err("not-permitted"));
    }
}

/// Case 19.
#[test]
fn paths_that_leave_are_denied() {
    let beside = Beside::new(ALL);
    let outside = outside(&beside.trial.place).display().to_string();
    let absolute = format!("{outside}/secret.txt");
    let long = "a/".repeat(2500);
    let deep = format!("{}outside/secret.txt", "../".repeat(40));
    for path in [
        "..",
        "../",
        "../outside",
        "../outside/secret.txt",
        "../outside/new",
        "inside.txt/../../outside/secret.txt",
        "./../outside/secret.txt",
        "none/../../outside/secret.txt",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/workspace/../etc/passwd",
        "/proc/self/environ",
        "\0",
        "inside.txt\0",
        "../outside/secret.txt\0.txt",
        "..\\outside\\secret.txt",
        &outside,
        &absolute,
        &long,
        &deep,
    ] {
        beside.assert_out_of_reach(path);
    }
}

/// Case 19: and the guest is told so.
#[test]
fn paths_that_leave_are_called_denied() {
    let beside = Beside::new(ALL);
    fs::create_dir(beside.trial.place.workspace().join("a")).unwrap();
    let long = "x".repeat(5000);
    for (path, plain, bulk) in [
        ("../x", "not-permitted", "Denied"),
        ("a/../../x", "not-permitted", "Denied"),
        ("/etc/passwd", "not-permitted", "Denied"),
        ("a\0b", "invalid", "Failed"),
        (long.as_str(), "name-too-long", "Failed"),
    ] {
        for what in ["read", "write", "stat", "mkdir", "unlink", "times"] {
            let tried = beside.trial.attempt("hostile.attempt", what, path, "");
            assert_eq!(said(&tried), Err(plain), "{what} {path:?}");
        }
        for what in ["changes-write", "changes-remove", "changes-create"] {
            let tried = beside.trial.attempt("hostile.attempt", what, path, "").unwrap_err();
            assert!(tried.contains(bulk), "{what} {path:?}: {tried}");
        }
    }
}

/// Case 20.
#[test]
fn links_that_leave_are_denied() {
    let beside = Beside::new(ALL);
    let (workspace, outside) = (beside.trial.place.workspace(), outside(&beside.trial.place));
    fs::create_dir(workspace.join("sub")).unwrap();
    let make = || {
        for (target, link) in [
            (outside.join("secret.txt"), "absolute-file"),
            (outside.clone(), "absolute"),
            ("../outside".into(), "relative"),
            ("../outside/secret.txt".into(), "relative-file"),
            ("../../outside".into(), "sub/up"),
            ("absolute".into(), "chain"),
            ("sub/up".into(), "second"),
            (outside.join("new"), "dangling"),
            ("/".into(), "root"),
            ("/proc/self/root".into(), "magic"),
            ("/proc/self/cwd/..".into(), "cwd"),
        ] {
            relink(&target, &workspace.join(link));
        }
    };
    let below_root = format!("root{}/secret.txt", outside.display());
    for path in [
        "absolute-file",
        "absolute",
        "absolute/secret.txt",
        "absolute/below/secret.txt",
        "absolute/new",
        "relative",
        "relative/secret.txt",
        "relative-file",
        "relative/../outside/secret.txt",
        "sub/up",
        "sub/up/secret.txt",
        "sub/../sub/up/below",
        "chain/secret.txt",
        "chain/below/../secret.txt",
        "second/secret.txt",
        "dangling",
        "magic/etc/passwd",
        "cwd/outside/secret.txt",
        "absolute/",
        "absolute/.",
        &below_root,
    ] {
        make();
        beside.assert_out_of_reach(path);
    }
    // A link's own text is inside, and reading it opens nothing. Everything else is refused.
    make();
    for (what, wanted) in
        [("read", "not-permitted"), ("overwrite", "not-permitted"), ("list", "not-permitted")]
    {
        let path = if what == "list" { "absolute" } else { "absolute/secret.txt" };
        assert_eq!(
            said(&beside.trial.attempt("hostile.attempt", what, path, "")),
            Err(wanted),
            "{what}"
        );
    }
    // A scan passes by what leads outside.
    let everything = beside.trial.attempt("hostile.attempt", "scan-following", "", "").unwrap();
    assert!(everything.contains("inside.txt") && !everything.contains("secret"), "{everything}");
}

/// Case 22: nothing changes under a read-only grant, or for a tool that says that it only
/// reads.
#[test]
fn reading_tools_change_nothing() {
    for grant in ["read", "write"] {
        let beside = Beside::new(&format!("[grants.hostile]\nfiles = '{grant}'\nscan = true\n"));
        assert_nothing_changes(&beside.trial, "hostile.attempt_read");
    }
}

/// Case 22: and a tool that says that it writes is not even started.
#[test]
fn writing_tools_need_their_grant() {
    let trial = Trial::of_guest(Place::new(), "[grants.hostile]\nfiles = 'read'\nscan = true\n");
    let outcome = trial.call("hostile.attempt", json!({"what": "write", "path": "a"}));
    assert_failed(outcome, Status::Denied, "NotGranted", "needs files = \"write\"");
    assert!(!trial.place.workspace().join("a").exists());
}

fn assert_nothing_changes(trial: &Trial, tool: &str) {
    let workspace = trial.place.workspace();
    fs::create_dir(workspace.join("empty")).unwrap();
    let before = without_journal(&workspace);
    for what in CHANGING {
        for path in ["inside.txt", "new", "empty", "new/new"] {
            let tried = trial.attempt(tool, what, path, "inside.txt");
            // Without a number of files, there is nothing to change.
            assert!(tried.is_err() || *what == "changes-many", "{what} {path}");
        }
    }
    assert!(trial.attempt(tool, "changes-many", "many", "3").unwrap_err().contains("Denied"));
    for what in BETWEEN {
        for (source, target) in
            [("inside.txt", "new"), ("inside.txt", "empty/new"), ("empty", "new")]
        {
            assert!(trial.attempt(tool, what, source, target).is_err(), "{what} {source} {target}");
        }
    }
    for what in ["write-handle", "append-handle", "size-handle", "times-handle"] {
        assert!(trial.attempt(tool, what, "inside.txt", "").is_err(), "{what}");
    }
    assert!(trial.attempt(tool, "times-handle", "empty", "").is_err());
    assert_eq!(without_journal(&workspace), before);
    assert_eq!(trial.attempt(tool, "read", "inside.txt", "").as_deref(), Ok("inside"));
}

/// The workspace without the host's own records.
fn without_journal(workspace: &Path) -> Vec<Entry> {
    let mut entries = entries(workspace);
    entries.remove(0);
    entries.retain(|(path, ..)| !path.contains(".cofferdam"));
    entries
}

/// Case 22: a handle for reading is not one for writing.
#[test]
fn a_handle_for_reading_does_not_write() {
    let beside = Beside::new(ALL);
    for what in ["write-handle", "append-handle", "size-handle", "times-handle"] {
        assert!(beside.trial.attempt("hostile.attempt", what, "inside.txt", "").is_err(), "{what}");
    }
    assert_eq!(beside.trial.place.read("inside.txt"), "inside");
}

/// A tool that has nothing to do with files sees none, whatever its plugin is granted.
#[test]
fn tools_without_files_see_none() {
    let beside = Beside::new(ALL);
    for what in
        READING.iter().chain(CHANGING).chain(BETWEEN).filter(|what| **what != "changes-many")
    {
        let tried = beside.trial.attempt("hostile.attempt_none", what, "inside.txt", "new");
        assert!(tried.is_err(), "{what}: {tried:?}");
    }
    assert_eq!(
        beside.trial.attempt("hostile.attempt_none", "directories", "", "").as_deref(),
        Ok("")
    );
    assert_eq!(beside.trial.place.read("inside.txt"), "inside");
}

/// Protected places stay as they are, by whatever name or way.
#[test]
fn protected_places_are_denied() {
    let beside = Beside::new(ALL);
    let place = &beside.trial.place;
    place.write(".git/hooks/pre-commit", "original");
    place.write(".git/config", "original");
    place.write("sub/.git/config", "original");
    place.write("cofferdam.toml", "");
    place.write("payload", "hostile");
    symlink(".git", place.workspace().join("alias")).unwrap();
    symlink(".git/config", place.workspace().join("alias-file")).unwrap();
    symlink("cofferdam.toml", place.workspace().join("policy")).unwrap();
    let protected = || {
        let mut entries = without_journal(&place.workspace());
        entries.retain(|(path, ..)| {
            path.to_lowercase().contains("git") || path.to_lowercase().contains("cofferdam.toml")
        });
        entries
    };
    let before = protected();
    for path in [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/hooks/post-commit",
        ".git/new/new",
        ".GIT/config",
        ".Git/hooks/x",
        ".git./config",
        ".git /config",
        "git~1/config",
        "GIT~1/config",
        ".g\u{200c}it/config",
        ".git::$INDEX_ALLOCATION/config",
        "./.git/config",
        "sub/../.git/config",
        "sub/.git/config",
        "sub/.GIT/hooks/x",
        "alias/config",
        "alias/hooks/x",
        "alias/hooks/pre-commit",
        "alias-file",
        "policy",
        "cofferdam.toml",
        "COFFERDAM.toml",
        "./cofferdam.toml",
        "sub/../cofferdam.toml",
        "cofferdam.lock",
        "new/.git/config",
    ] {
        for what in CHANGING {
            // A link may be removed: that is a change of the link.
            if matches!(*what, "unlink" | "times" | "rmdir" | "mkdir")
                && path.starts_with("alias") | (path == "policy")
                && !path.contains('/')
            {
                continue;
            }
            let target = if *what == "changes-many" { "2" } else { "payload" };
            let tried = beside.trial.attempt("hostile.attempt", what, path, target);
            assert!(tried.is_err(), "{what} {path}");
        }
        for what in ["rename", "changes-rename"] {
            assert!(
                beside.trial.attempt("hostile.attempt", what, "payload", path).is_err()
                    || !path.contains('/'),
                "{what} {path}"
            );
            place.write("payload", "hostile");
        }
        assert_eq!(protected(), before, "{path}");
    }
    for (path, target) in [
        (".git", "moved"),
        ("sub/.git", "moved"),
        (".git/hooks", "hooks"),
        ("cofferdam.toml", "moved"),
    ] {
        assert!(beside.trial.attempt("hostile.attempt", "rename", path, target).is_err(), "{path}");
    }
    assert!(
        beside
            .trial
            .attempt("hostile.attempt", "changes-write", ".git/config", "")
            .unwrap_err()
            .contains("protected")
    );
    for path in [".cofferdam/journal.jsonl", ".cofferdam/x", ".COFFERDAM/x", ".cofferdam"] {
        for what in ["write", "truncate", "unlink", "changes-write", "changes-remove", "mkdir"] {
            assert!(
                beside.trial.attempt("hostile.attempt", what, path, "").is_err(),
                "{what} {path}"
            );
        }
    }
    assert_eq!(protected(), before);
}

/// Protected places keep their times as well, also through handles.
#[test]
fn protected_places_keep_their_times() {
    let beside = Beside::new(ALL);
    let place = &beside.trial.place;
    place.write(".git/hooks/pre-commit", "original");
    symlink(".git", place.workspace().join("alias")).unwrap();
    symlink(".git", place.workspace().join("stale")).unwrap();
    let git = place.workspace().join(".git");
    let before = entries(&git);
    for (what, path) in [
        ("times-handle", ".git"),
        ("times-handle", "alias"),
        ("times-handle", ".git/hooks/pre-commit"),
        ("times", "alias"),
        ("times", "alias/"),
        ("times", "alias/."),
    ] {
        let tried = beside.trial.attempt("hostile.attempt", what, path, "");
        assert_eq!(said(&tried), Err("not-permitted"), "{what} {path}");
    }
    // The handle is of what the link led to, not of what has its name now.
    let tried = beside.trial.attempt("hostile.attempt", "stale-directory", "stale", "hooks");
    assert!(tried.is_err(), "{tried:?}");
    assert_eq!(entries(&git), before);
}

/// A FIFO, a socket or a device could make the host wait, or do something.
#[test]
fn special_files_are_refused_at_once() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}[limits]\ncall-ms = 5000\n"));
    let workspace = trial.place.workspace();
    let fifo = workspace.join("fifo");
    make_fifo(&fifo);
    let _socket = UnixListener::bind(workspace.join("socket")).unwrap();
    let started = Instant::now();
    for path in ["fifo", "socket"] {
        for what in
            ["read", "open", "overwrite", "truncate", "changes-write", "changes-remove", "scan"]
        {
            let tried = trial.attempt("hostile.attempt", what, path, "");
            assert!(tried.is_err(), "{what} {path}: {tried:?}");
        }
    }
    let found = trial.attempt("hostile.attempt", "scan", "", "").unwrap();
    assert!(!found.contains("fifo") && !found.contains("socket"), "{found}");
    assert_eq!(said(&trial.attempt("hostile.attempt", "read", "fifo", "")), Err("not-permitted"));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
}

/// A file with a second name may be elsewhere as well.
#[test]
fn files_with_other_names_are_not_changed() {
    let beside = Beside::new(ALL);
    let workspace = beside.trial.place.workspace();
    let elsewhere = outside(&beside.trial.place).join("secret.txt");
    fs::hard_link(&elsewhere, workspace.join("same")).unwrap();
    for what in ["write", "overwrite", "truncate", "changes-write", "grow"] {
        assert!(beside.trial.attempt("hostile.attempt", what, "same", "0").is_err(), "{what}");
    }
    assert!(
        beside
            .trial
            .attempt("hostile.attempt", "changes-write", "same", "")
            .unwrap_err()
            .contains("hard links")
    );
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), SECRET);
}

/// A role's scope holds for everything that takes a path.
#[test]
fn what_is_out_of_scope_is_denied() {
    let settings = format!("{ALL}[roles.narrow]\ntools = ['*']\nscope = ['in']\n");
    let trial = Trial::of_guest(Place::new(), &settings);
    let place = &trial.place;
    let workspace = place.workspace();
    place.write("in/inside.txt", "inside");
    place.write("inner/secret.txt", SECRET);
    place.write("out/secret.txt", SECRET);
    place.write("secret.txt", SECRET);
    let link = |target: &str, path: &str| relink(Path::new(target), &workspace.join(path));
    let attempt = |what: &str, path: &str, target: &str| {
        trial.attempt_as(Some("narrow"), "hostile.attempt", what, path, target)
    };
    assert_eq!(attempt("read", "in/inside.txt", "").as_deref(), Ok("inside"));
    attempt("changes-write", "in/new", "").unwrap();
    attempt("write", "in/other", "").unwrap();

    let outside = || -> Vec<Entry> {
        let mut entries = without_journal(&place.workspace());
        entries.retain(|(path, ..)| path.contains("secret"));
        entries
    };
    let before = outside();
    for path in [
        "secret.txt",
        "out",
        "out/secret.txt",
        "inner",
        "inner/secret.txt",
        "in/../out/secret.txt",
        "in/link",
        "in/link/",
        "in/link/.",
        "in/link/secret.txt",
        "in/file",
        "in/link/../secret.txt",
        "",
        ".",
    ] {
        link("../out", "in/link");
        link("../secret.txt", "in/file");
        for what in READING {
            // The link itself is in scope, and so is its text.
            if *what == "readlink" {
                continue;
            }
            let data = attempt(what, path, "").unwrap_or_default();
            assert!(!data.contains("secret") && !data.contains(SECRET), "{what} {path}: {data}");
        }
        for what in ["stat", "hash", "open", "list"] {
            assert!(
                attempt(what, path, "").is_err() || path.is_empty() || path == ".",
                "{what} {path}"
            );
        }
        for what in CHANGING {
            let _ = attempt(what, path, "in/inside.txt");
        }
        for what in BETWEEN {
            let _ = attempt(what, path, "in/taken");
            let _ = attempt(what, "in/inside.txt", path);
        }
        assert_eq!(outside(), before, "{path}");
    }
    assert_eq!(said(&attempt("read", "out/secret.txt", "")), Err("not-permitted"));
    assert!(
        attempt("changes-write", "out/new", "")
            .unwrap_err()
            .contains("outside of the call's scope: in")
    );
    assert!(attempt("scan", "out", "").unwrap_err().contains("Denied"));
    // From above, a scan finds what is in scope.
    let everything = attempt("scan-following", "", "").unwrap_or_default();
    assert!(!everything.contains("secret") && !everything.contains(SECRET), "{everything}");
}

/// Case 10 and 24: scanners read ahead, and the guest decides how many there are.
#[test]
fn reading_ahead_is_bounded() {
    let place = Place::new();
    let file = vec![b'x'; 3 << 20];
    for number in 0..100 {
        place.write(&format!("large/{number}"), &file);
    }
    configure(&place, ALL);
    let plugin = guest("hostile");
    for (count, answer) in [
        (1, json!({"ok": true, "data": "1"})),
        (4, json!({"ok": true, "data": "4"})),
        (5, json!({"ok": false, "error": "Error::Invalid(\"more than 4 scanners at a time\")"})),
    ] {
        let args = json!({"what": "scan-ahead", "path": "large", "target": count.to_string()});
        let args = args.to_string();
        let plugin = plugin.to_str().unwrap();
        let (ended, peak) =
            run_measured(&place, &["call", "hostile.attempt_read", &args, "--plugin", plugin]);
        assert_eq!(ended.json(), answer);
        assert!(peak < 500, "{count} scanners: {peak} MiB");
    }
}

/// A glob that nests is the host's to compile, on a thread whose stack has an end.
#[test]
fn deep_globs_are_refused() {
    let trial = Trial::of_guest(Place::new(), ALL);
    trial.place.write("x", "");
    assert_eq!(trial.attempt("hostile.attempt", "scan-glob", "", "2").as_deref(), Ok("1"));
    for depth in ["1000", "100000", "1000000"] {
        let tried = trial.attempt("hostile.attempt", "scan-glob", "", depth).unwrap_err();
        assert!(tried.contains("Invalid"), "{depth}: {tried:.200}");
    }
}

/// The same in a file of the workspace, which anybody may have written.
#[test]
fn files_of_rules_do_no_harm() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}[limits]\ncall-ms = 5000\n"));
    let workspace = trial.place.workspace();
    trial.place.write("sub/sub/found", "");
    let scan = || trial.attempt("hostile.attempt", "scan-ignoring", "sub", "");
    for path in [".gitignore", "sub/.ignore", "sub/sub/.gitignore", "sub/sub/.rgignore"] {
        let path = workspace.join(path);
        for depth in [1_000, 1_000_000] {
            fs::write(&path, format!("ok\n{}x{}\n", "{".repeat(depth), "}".repeat(depth))).unwrap();
            assert!(scan().unwrap_err().contains("nests too deeply"), "{}", path.display());
        }
        fs::remove_file(&path).unwrap();
        make_fifo(&path);
        assert!(scan().unwrap_err().contains("no regular file"), "{}", path.display());
        for target in ["/dev/zero", "/etc/passwd"] {
            relink(Path::new(target), &path);
            assert!(scan().unwrap_err().contains("no file of the workspace"), "{}", path.display());
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(scan().unwrap().contains("sub/sub/found"));
    trial.place.write("sub/sub/.gitignore", "found\n".repeat(1000));
    assert!(!scan().unwrap().contains("sub/sub/found"));
}

fn make_fifo(path: &Path) {
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o666.into(), 0).unwrap();
}

/// Nothing changes after the host has said that the call was stopped: files that were being
/// staged then do not come into their places later.
#[test]
fn changes_end_with_their_call() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}[limits]\ncall-ms = 1000\n"));
    let many = trial.place.workspace().join("many");
    let names = || -> Vec<_> {
        let entries = fs::read_dir(&many).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let args = json!({"what": "changes-many", "path": "many", "target": "100000"});
    let over = AtomicBool::new(false);
    let (outcome, was_staging) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !many.exists() && !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            many.exists()
        });
        let outcome = trial.call("hostile.attempt", args);
        over.store(true, Ordering::Relaxed);
        (outcome, watch.join().unwrap())
    });
    assert_failed(outcome, Status::Limit, "WallClockLimit", "1000 ms");
    assert!(was_staging);
    // What was staged is removed.
    let started = Instant::now();
    while many.exists() && started.elapsed() < Duration::from_secs(10) {
        assert!(names().iter().all(|name| name.starts_with(".cofferdam-")), "{:?}", names());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!many.exists());
}
