//! What a guest does to the file system: paths that leave the workspace, special files, paths that
//! were not granted or are outside of the role's scope.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use cofferdam_core::outcome::{Outcome, Status};
use rustix::fs::FileType;
use serde_json::json;

use crate::support::{Place, guest};
use crate::trial::{ALL, Trial, assert_failed, configure, run_measured, said};

/// Every way in which the guest reads something through one path.
pub const READING: &[&str] = &[
    "read",
    "read-at-once",
    "open",
    "list",
    "stat",
    "hash",
    "readlink",
    "is-executable",
    "scan",
    "scan-following",
];

/// Every way in which the guest changes something through one path.
pub const CHANGING: &[&str] = &[
    "write",
    "overwrite",
    "create",
    "truncate",
    "times",
    "mkdir",
    "rmdir",
    "unlink",
    "grow",
    "append",
    "link-here",
    "set-executable",
    "both",
];

/// Operations on two paths.
pub const BETWEEN: &[&str] = &["rename", "link", "symlink"];

/// A workspace, and a directory beside it that was not granted to any call.
pub struct Beside {
    pub trial: Trial,
    before: Vec<Entry>,
}

/// One file or directory: its path, its contents, when it changed, and its permissions.
pub type Entry = (String, Vec<u8>, SystemTime, fs::Permissions);

/// A text that only a file outside of the workspace contains.
pub const SECRET: &str = "open sesame";

impl Beside {
    pub fn new(settings: &str) -> Self {
        Self::on(Place::new(), settings)
    }

    pub fn on(place: Place, settings: &str) -> Self {
        let outside = outside(&place);
        place.write("inside.txt", "inside");
        fs::create_dir_all(outside.join("below")).unwrap();
        fs::write(outside.join("secret.txt"), SECRET).unwrap();
        fs::write(outside.join("below/secret.txt"), SECRET).unwrap();
        let before = entries(&outside);
        Self { trial: Trial::of_guest(place, settings), before }
    }

    /// Makes every attempt with `path`, and asserts that nothing outside was read or changed.
    /// Before each attempt, `prepare` restores what earlier ones have changed inside.
    pub fn assert_out_of_reach(&self, path: &str, prepare: impl Fn()) {
        let prepare = || {
            prepare();
            // It may have been replaced by a link that leaves the workspace.
            let _ = fs::remove_file(self.trial.place.workspace().join("inside.txt"));
            self.trial.place.write("inside.txt", "inside");
        };
        for what in READING.iter().chain(CHANGING) {
            prepare();
            let tried = self.trial.attempt("hostile.attempt", what, path, "inside.txt");
            let data = tried.unwrap_or_default();
            assert!(!data.contains(SECRET), "{what} {path:?}: {data}");
            // The text of a link belongs to the workspace.
            assert!(!data.contains("secret") || *what == "readlink", "{what} {path:?}: {data}");
            self.assert_unchanged(what, path);
        }
        for what in BETWEEN {
            for (source, target) in [(path, "inside.txt"), ("inside.txt", path), (path, path)] {
                prepare();
                let _ = self.trial.attempt("hostile.attempt", what, source, target);
                self.assert_unchanged(what, path);
            }
        }
    }

    pub fn assert_unchanged(&self, what: &str, path: &str) {
        assert_eq!(entries(&outside(&self.trial.place)), self.before, "{what} {path:?}");
    }
}

/// The directory beside the workspace.
pub fn outside(place: &Place) -> std::path::PathBuf {
    place.workspace().parent().unwrap().join("outside")
}

/// Replaces `link` by a link to `target`. A guest may have removed it and put something else in its
/// place, which is a change inside of the workspace.
pub fn relink(target: &Path, link: &Path) {
    // At most one of the two succeeds.
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

/// With ordinary paths all operations work, so the refusals in the other tests are due to the
/// paths.
#[test]
fn granted_operations_work() {
    let beside = Beside::new(ALL);
    let attempt = |what: &str, path: &str, target: &str| {
        beside.trial.attempt("hostile.attempt", what, path, target)
    };
    assert_eq!(attempt("read", "inside.txt", "").as_deref(), Ok("inside"));
    assert_eq!(attempt("list", ".", "").as_deref(), Ok("inside.txt"));
    assert_eq!(attempt("directories", "", "").as_deref(), Ok("/workspace/tmp"));
    assert!(attempt("scan", "", "").unwrap().contains("inside.txt 6"));
    for what in ["stat", "hash", "truncate", "times", "overwrite", "set-executable"] {
        attempt(what, "inside.txt", "").unwrap();
    }
    assert_eq!(attempt("is-executable", "inside.txt", "").as_deref(), Ok("true"));
    attempt("append", "inside.txt", "").unwrap();
    assert_eq!(beside.trial.place.read("inside.txt"), "hostilehostile");
    for (what, path, target) in [
        ("write", "a", ""),
        ("rename", "a", "b"),
        ("unlink", "b", ""),
        ("mkdir", "c", ""),
        ("write", "c/../d", ""),
        ("rmdir", "c", ""),
        ("create", "e", ""),
        ("both", "f", "g"),
        ("link-here", "link", ""),
        ("symlink", "none", "dangling"),
        ("grow", "n", "100"),
    ] {
        attempt(what, path, target).unwrap_or_else(|error| panic!("{what} {path}: {error}"));
    }
    assert_eq!(attempt("read", "link", "").as_deref(), Ok("hostilehostile"));
    assert_eq!(attempt("readlink", "dangling", "").as_deref(), Ok("none"));
    // No grant allows hard links to existing files.
    assert_eq!(said(&attempt("link", "inside.txt", "second")), Err("not-permitted"));
    let reason = beside.trial.reason("link", "inside.txt", "second");
    assert_eq!(reason, "inside.txt: hard links can't be made");
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
        beside.assert_out_of_reach(path, || {});
    }
}

/// Case 19: the guest gets the error code for a denied path.
#[test]
fn paths_that_leave_have_the_error_code_for_denied() {
    let beside = Beside::new(ALL);
    fs::create_dir(beside.trial.place.workspace().join("a")).unwrap();
    let long = "x".repeat(5000);
    let name = "x".repeat(256);
    for (path, wanted, reason) in [
        ("../x", "not-permitted", "../x leaves the workspace"),
        ("a/../../x", "not-permitted", "a/../../x leaves the workspace"),
        ("/etc/passwd", "not-permitted", "/etc/passwd is absolute"),
        ("a\0b", "not-permitted", "holds a NUL"),
        (long.as_str(), "name-too-long", "(none)"),
        (name.as_str(), "name-too-long", "(none)"),
    ] {
        for what in ["read", "write", "stat", "mkdir", "unlink", "times", "link-here"] {
            let tried = beside.trial.attempt("hostile.attempt", what, path, "");
            assert_eq!(said(&tried), Err(wanted), "{what} {path:?}");
            let found = beside.trial.reason(what, path, "");
            assert!(found.contains(reason), "{what} {path:?}: {found}");
        }
    }
    let longest = "x".repeat(255);
    for (what, target) in [("write", ""), ("read", ""), ("rename", "short"), ("symlink", "l")] {
        let path = if what == "symlink" { "short" } else { &longest };
        let tried = beside.trial.attempt("hostile.attempt", what, path, target);
        assert!(tried.is_ok(), "{what}: {tried:?}");
    }
}

/// Names that are not UTF-8 are neither listed nor changed.
#[test]
fn names_that_are_not_utf8_are_not_listed_or_changed() {
    let beside = Beside::new(ALL);
    let workspace = beside.trial.place.workspace();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(workspace.join("d")).unwrap();
    fs::write(workspace.join("d").join(name), "inside").unwrap();
    fs::write(workspace.join("d/plain"), "inside").unwrap();
    let attempt = |what: &str, path: &str, target: &str| {
        beside.trial.attempt("hostile.attempt", what, path, target)
    };
    assert_eq!(attempt("list", "d", "").as_deref(), Ok("plain"));
    assert!(attempt("scan", "d", "").unwrap().contains("d/plain"));
    assert_eq!(said(&attempt("rename", "d", "e")), Err("illegal-byte-sequence"));
    assert_eq!(said(&attempt("rmdir", "d", "")), Err("not-empty"));
    assert_eq!(said(&attempt("read", "d/caf\u{fffd}", "")), Err("no-entry"));
    attempt("unlink", "d/plain", "").unwrap();
    attempt("write", "d/new", "").unwrap();
    assert_eq!(fs::read(workspace.join("d").join(name)).unwrap(), b"inside");
}

/// A directory becomes a file, and a file a directory.
#[test]
fn a_file_and_a_directory_can_replace_each_other() {
    let trial = Trial::of_guest(Place::new(), ALL);
    trial.place.write("a", "inside");
    let path = trial.place.workspace().join("a");
    for _ in 0..3 {
        trial.attempt("hostile.attempt", "file-to-directory", "/workspace/a", "").unwrap();
        assert_eq!(fs::read_to_string(path.join("below")).unwrap(), "inside");
        trial.attempt("hostile.attempt", "directory-to-file", "/workspace/a", "").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "inside");
    }
}

/// Case 22: nothing changes under a read-only grant, or by a tool that declares that it only reads.
#[test]
fn reading_tools_change_nothing() {
    for grant in ["read", "write"] {
        let beside = Beside::new(&format!("[grants.hostile]\nfiles = '{grant}'\nscan = true\n"));
        assert_nothing_changes(&beside.trial, "hostile.attempt_read");
    }
}

/// Case 22: a tool that declares that it writes is not even started.
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
            assert!(tried.is_err(), "{what} {path}");
        }
    }
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

/// The entries of the workspace except the host's own directory.
pub fn without_journal(workspace: &Path) -> Vec<Entry> {
    let mut entries = entries(workspace);
    entries.remove(0);
    entries.retain(|(path, ..)| !path.contains(".cofferdam"));
    entries
}

/// Case 22: a handle that was opened for reading can't be used for writing.
#[test]
fn a_handle_for_reading_does_not_write() {
    let beside = Beside::new(ALL);
    for what in ["write-handle", "append-handle", "size-handle"] {
        assert!(beside.trial.attempt("hostile.attempt", what, "inside.txt", "").is_err(), "{what}");
    }
    assert_eq!(beside.trial.place.read("inside.txt"), "inside");
}

/// A tool that does not use files sees none, even if its plugin was granted files.
#[test]
fn tools_without_files_can_not_access_files() {
    let beside = Beside::new(ALL);
    for what in READING.iter().chain(CHANGING).chain(BETWEEN) {
        let tried = beside.trial.attempt("hostile.attempt_none", what, "inside.txt", "new");
        assert!(tried.is_err(), "{what}: {tried:?}");
    }
    assert_eq!(
        beside.trial.attempt("hostile.attempt_none", "directories", "", "").as_deref(),
        Ok("")
    );
    assert_eq!(beside.trial.place.read("inside.txt"), "inside");
}

/// A FIFO, a socket or a device could block the host or have side effects.
#[test]
fn special_files_are_refused_at_once() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}[limits]\ncall-ms = 5000\n"));
    let workspace = trial.place.workspace();
    let attempt = |what: &str, path: &str| trial.attempt("hostile.attempt", what, path, "new-name");
    make_special(&workspace.join("fifo"), FileType::Fifo);
    let _socket = UnixListener::bind(workspace.join("socket")).unwrap();
    let mut special = vec!["fifo", "socket"];
    // Only root can create devices.
    if rustix::process::geteuid().is_root() {
        make_special(&workspace.join("null"), FileType::CharacterDevice);
        special.push("null");
    }
    let started = Instant::now();
    for path in &special {
        for what in [
            "read",
            "open",
            "overwrite",
            "write",
            "truncate",
            "append",
            "grow",
            "times",
            "rename",
            "is-executable",
            "set-executable",
            "scan",
            "list",
            "create",
            "mkdir",
            "rmdir",
            "link-here",
        ] {
            // Whether it is executable may be answered.
            let is_said = what == "is-executable";
            let tried = attempt(what, path);
            assert!(tried.is_err() || is_said, "{what} {path}: {tried:?}");
        }
        for what in ["read", "overwrite"] {
            assert_eq!(said(&attempt(what, path)), Err("not-permitted"), "{what} {path}");
            let reason = trial.reason(what, path, "");
            assert!(reason.contains("no regular file"), "{what} {path}: {reason}");
        }
        assert_eq!(attempt("stat", path).as_deref(), Ok("0"), "{path}");
    }
    let found = attempt("scan", "").unwrap();
    assert!(special.iter().all(|name| !found.contains(name)), "{found}");
    assert!(fs::symlink_metadata(workspace.join("fifo")).unwrap().file_type().is_fifo());
    // Its name belongs to the workspace, and may be removed.
    for path in &special {
        attempt("unlink", path).unwrap();
        assert!(fs::symlink_metadata(workspace.join(path)).is_err(), "{path}");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// A host with a role whose scope is `in` and `on/the/way`, and files outside of that scope.
fn narrow() -> Trial {
    let settings = format!("{ALL}[roles.narrow]\ntools = ['*']\nscope = ['in', 'on/the/way']\n");
    let trial = Trial::of_guest(Place::new(), &settings);
    trial.place.write("in/inside.txt", "inside");
    for path in ["inner/secret.txt", "out/secret.txt", "secret.txt"] {
        trial.place.write(path, SECRET);
    }
    trial
}

/// A role's scope applies to every operation with a path.
#[test]
fn paths_out_of_scope_are_denied() {
    let trial = narrow();
    let place = &trial.place;
    let workspace = place.workspace();
    let link = |target: &str, path: &str| relink(Path::new(target), &workspace.join(path));
    let attempt = |what: &str, path: &str, target: &str| {
        trial.attempt_as(Some("narrow"), ["hostile.attempt", what, path, target])
    };
    assert_eq!(attempt("read", "in/inside.txt", "").as_deref(), Ok("inside"));
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
        "in/..",
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
            // Directories above the scope can be inspected, and nothing else.
            let is_seen = matches!(path, "." | "in/..") && matches!(what, "stat" | "hash");
            assert_eq!(attempt(what, path, "").is_ok(), is_seen, "{what} {path:?}");
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
    assert!(attempt("scan", "out", "").unwrap_err().contains("Denied"));
    // A scan from above finds what is in scope.
    let everything = attempt("scan-following", "", "").unwrap_or_default();
    assert!(!everything.contains("secret") && !everything.contains(SECRET), "{everything}");
}

#[test]
fn a_path_out_of_scope_has_a_reason() {
    let (trial, narrow) = (narrow(), Some("narrow"));
    assert_eq!(
        said(&trial.attempt_as(narrow, ["hostile.attempt", "read", "out/secret.txt", ""])),
        Err("not-permitted")
    );
    for what in ["read", "write", "stat", "mkdir", "unlink", "is-executable", "link-here"] {
        let args = json!({"what": what, "path": "out/secret.txt"});
        let Outcome::Executed(output) = trial.call_as(narrow, "hostile.attempt", args) else {
            panic!("{what}")
        };
        let wanted = "out/secret.txt is outside of the call's scope: in, on/the/way";
        assert_eq!(output["reason"], wanted, "{what}");
    }
}

/// Directories on the way to the scope may be created and inspected, and nothing else.
#[test]
fn directories_above_the_scope_can_only_be_created_and_inspected() {
    let trial = narrow();
    for (what, path, is_done) in [
        ("mkdir", "on", true),
        ("stat", "on", true),
        ("list", "on", false),
        ("write", "on/file", false),
        ("link-here", "on/the", false),
        ("mkdir", "on/other", false),
        ("mkdir", "on/the", true),
        ("mkdir", "on/the/way", true),
        ("write", "on/the/way/file", true),
        ("list", "on/the", false),
        ("list", "on/the/way", true),
        ("rename", "on/the", false),
        ("times", "on", false),
        ("rmdir", "on/the", false),
    ] {
        assert_eq!(
            trial.attempt_as(Some("narrow"), ["hostile.attempt", what, path, "moved"]).is_ok(),
            is_done,
            "{what} {path}"
        );
    }
}

/// Cases 10 and 24: scanners read ahead, and the guest decides how many there are.
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

/// A nested glob is compiled by the host, on a thread with a bounded stack.
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

/// Nested globs in a file of the workspace, which is not trusted.
#[test]
fn deep_globs_in_ignore_files_are_refused() {
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
        make_special(&path, FileType::Fifo);
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

/// Creates a FIFO, or a device like `/dev/null`.
fn make_special(path: &Path, kind: FileType) {
    let device = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o666.into(), device).unwrap();
}
