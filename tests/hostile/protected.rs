//! Files that configure the host, or that git would execute later: no call changes them, by any
//! name or operation.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::files::{Beside, CHANGING, Entry, READING, entries, without_journal};
use crate::support::Place;
use crate::trial::{ALL, Trial, said};

/// Names of protected files, and other paths to them.
const PROTECTED: &[&str] = &[
    ".git",
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/hooks/post-commit",
    ".git/new",
    ".GIT/config",
    ".Git/hooks/x",
    ".git./config",
    ".git /config",
    "git~1/config",
    "GIT~1/config",
    ".g\u{200c}it/config",
    ".git\u{feff}",
    ".git::$INDEX_ALLOCATION/config",
    ".git:stream",
    "./.git/config",
    "sub/../.git/config",
    "sub/.git",
    "sub/.git/config",
    "sub/.GIT/hooks/x",
    "sub/deep/.git",
    "alias/config",
    "alias/hooks/x",
    "alias/hooks/pre-commit",
    "cofferdam.toml",
    "COFFERDAM.toml",
    "./cofferdam.toml",
    "sub/../cofferdam.toml",
    "cofferdam.lock",
    "cofferdam.lock.",
    ".cofferdam",
    ".cofferdam/journal.jsonl",
    ".cofferdam/lock",
    ".cofferdam/staging/x",
    ".cofferdam/history/x",
    ".COFFERDAM/x",
    ".cofferdam./x",
    ".coffer\u{200d}dam/x",
    "own/journal.jsonl",
];

/// A workspace with a repository, a nested one, and links to protected files.
fn place() -> Place {
    let place = Place::new();
    place.write(".git/hooks/pre-commit", "original");
    place.write(".git/config", "original");
    place.write("sub/.git/config", "original");
    place.write("sub/deep/file", "original");
    place.write("cofferdam.toml", "");
    let workspace = place.workspace();
    for (target, link) in [
        (".git", "alias"),
        (".git/config", "alias-file"),
        ("cofferdam.toml", "policy"),
        (".cofferdam", "own"),
    ] {
        symlink(target, workspace.join(link)).unwrap();
    }
    place
}

/// Everything except the host's records, which grow, and the files that the attempts create.
fn watched(trial: &Trial) -> Vec<Entry> {
    let mut entries = without_journal(&trial.place.workspace());
    entries.retain(|(path, ..)| !path.ends_with("payload") && !path.ends_with("inside.txt"));
    entries
}

#[test]
fn protected_places_are_not_changed() {
    let beside = Beside::on(place(), ALL);
    let trial = &beside.trial;
    let attempt =
        |what: &str, path: &str, target: &str| trial.attempt("hostile.attempt", what, path, target);
    // Creates the host's own directory.
    attempt("write", "payload", "").unwrap();
    let before = watched(trial);
    for path in PROTECTED {
        for what in CHANGING {
            let tried = attempt(what, path, "payload");
            assert!(tried.is_err(), "{what} {path:?}");
        }
        for (what, source, target) in [
            ("rename", *path, "moved"),
            ("rename", "payload", *path),
            ("rename", "sub/deep", *path),
            ("link", "payload", *path),
            ("symlink", "payload", *path),
        ] {
            let tried = attempt(what, source, target);
            assert!(tried.is_err(), "{what} {source:?} {target:?}");
        }
        assert_eq!(watched(trial), before, "{path:?}");
    }
    for (what, path, reason) in [
        ("write", ".git/config", ".git/config is protected: git's control files"),
        ("write", "alias-file", "alias-file is protected: git's control files"),
        ("mkdir", ".cofferdam/x", ".cofferdam/x is protected: the host's own records"),
        ("truncate", "policy", "policy is protected: the host's policy"),
    ] {
        assert_eq!(said(&attempt(what, path, "")), Err("not-permitted"), "{what} {path}");
        let found = trial.reason(what, path, "");
        assert!(found.starts_with(reason), "{what} {path}: {found}");
    }
}

/// Through a link that is itself not protected.
#[test]
fn protected_files_are_not_changed_through_links() {
    let trial = Trial::of_guest(place(), ALL);
    let before = watched(&trial);
    for link in ["alias-file", "policy", "alias/config"] {
        for what in [
            "write",
            "overwrite",
            "truncate",
            "append",
            "grow",
            "times",
            "set-executable",
            "create",
        ] {
            let tried = trial.attempt("hostile.attempt", what, link, "0");
            assert!(tried.is_err(), "{what} {link}");
        }
    }
    assert_eq!(watched(&trial), before);
    // If another link takes its place, the repository is still unchanged.
    trial.attempt("hostile.attempt", "unlink", "alias", "").unwrap();
    trial.attempt("hostile.attempt", "rename", "policy", "policy2").unwrap();
    assert_eq!(trial.place.read(".git/config"), "original");
    assert_eq!(trial.place.read("cofferdam.toml"), "");
}

/// A call can't read what the host stored for calls of another role, by any name or operation, and
/// a listing does not show it.
#[test]
fn the_hosts_own_records_are_not_read() {
    let beside = Beside::on(place(), ALL);
    let trial = &beside.trial;
    let attempt =
        |what: &str, path: &str, target: &str| trial.attempt("hostile.attempt", what, path, target);
    // Creates records of the host.
    attempt("write", "inside.txt", "").unwrap();
    symlink(".", trial.place.workspace().join("sub/deep/top")).unwrap();
    symlink("../..", trial.place.workspace().join("sub/deep/up")).unwrap();
    let journal = trial.place.read(".cofferdam/journal.jsonl");
    let kept = format!(".cofferdam/history/{}", only_commit(&trial.place.workspace()));
    for place in [
        ".cofferdam",
        ".cofferdam/journal.jsonl",
        "./.cofferdam/journal.jsonl",
        "sub/../.cofferdam/journal.jsonl",
        "own",
        "own/journal.jsonl",
        "sub/deep/up/.cofferdam/journal.jsonl",
        &kept,
    ] {
        for what in READING.iter().filter(|what| **what != "readlink") {
            let tried = attempt(what, place, "");
            assert!(tried.is_err(), "{what} {place}: {tried:?}");
        }
    }
    let reason = trial.reason("read", "own/journal.jsonl", "");
    assert!(reason.contains("is protected: the host's own records"), "{reason}");
    for (what, path) in [
        ("list", "."),
        ("list", "sub/deep/up"),
        ("scan", ""),
        ("scan-following", ""),
        ("scan-following", "sub"),
        ("scan-ignoring", ""),
        // If something is staged, the host itself lists the directory.
        ("write-and-scan", ""),
    ] {
        let told = attempt(what, path, "following").unwrap();
        assert!(told.contains("sub") || told.contains("file"), "{what} {path}: {told}");
        let line = journal.lines().next().unwrap();
        assert!(!told.contains(".cofferdam") && !told.contains(line), "{what} {path}: {told}");
        assert!(!told.contains("own/"), "{what} {path}: {told}");
    }
}

fn only_commit(workspace: &Path) -> String {
    let mut commits = fs::read_dir(workspace.join(".cofferdam/history")).unwrap();
    commits.next().unwrap().unwrap().file_name().into_string().unwrap()
}

/// A directory that contains a repository at any depth can't be moved away, replaced or emptied.
#[test]
fn directories_above_a_repository_are_not_removed() {
    let trial = Trial::of_guest(place(), ALL);
    trial.place.write("top/sub/.git/config", "original");
    trial.place.write("top/file", "inside");
    fs::create_dir(trial.place.workspace().join("empty")).unwrap();
    let before = watched(&trial);
    for (what, path, target) in [
        ("rename", "sub", "moved"),
        ("rename", "top", "moved"),
        ("rename", "top/sub", "top/moved"),
        ("rename", "top/sub", "moved"),
        ("rename", "top", "empty"),
        ("rename", "empty", "top"),
        ("rmdir", "top", ""),
        ("rmdir", "top/sub", ""),
        ("rmdir", "top/sub/.git", ""),
        ("unlink", "top/sub/.git/config", ""),
        ("directory-to-file", "/workspace/top", ""),
        ("plain-rename", "/workspace/top", "/workspace/moved"),
    ] {
        assert!(trial.attempt("hostile.attempt", what, path, target).is_err(), "{what} {path}");
        assert_eq!(watched(&trial), before, "{what} {path}");
    }
    assert!(trial.reason("rename", "top", "moved").contains("protected: git's control files"));
    // A directory that only looks like a repository may be removed.
    trial.place.write("plain/git/config", "inside");
    trial.attempt("hostile.attempt", "rename", "plain", "moved").unwrap();
    assert_eq!(trial.place.read("moved/git/config"), "inside");
}

/// The times of protected files don't change either, also through handles.
#[test]
fn protected_places_keep_their_times() {
    let trial = Trial::of_guest(Place::new(), ALL);
    let place = &trial.place;
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
        let tried = trial.attempt("hostile.attempt", what, path, "");
        assert_eq!(said(&tried), Err("not-permitted"), "{what} {path}");
    }
    // The handle belongs to the link's former target, not to what has its name now.
    let tried = trial.attempt("hostile.attempt", "stale-directory", "stale", "hooks");
    assert!(tried.is_err(), "{tried:?}");
    assert_eq!(entries(&git), before);
}
