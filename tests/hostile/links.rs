//! What a guest does with links: existing ones, ones that it creates, and files with several names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::files::{Beside, CHANGING, READING, SECRET, outside, relink};
use crate::trial::{ALL, said};

/// Creates links in the workspace that lead outside, each in another way.
fn make_leaving_links(workspace: &Path, outside: &Path) {
    for (target, link) in [
        (outside.join("secret.txt"), "absolute-file"),
        (outside.to_owned(), "absolute"),
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
}

/// Case 20.
#[test]
fn links_that_leave_are_denied() {
    let beside = Beside::new(ALL);
    let (workspace, outside) = (beside.trial.place.workspace(), outside(&beside.trial.place));
    fs::create_dir(workspace.join("sub")).unwrap();
    let make = || make_leaving_links(&workspace, &outside);
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
        beside.assert_out_of_reach(path, make);
    }
    make();
    let attempt = |what: &str, path: &str| beside.trial.attempt("hostile.attempt", what, path, "");
    for (what, path, reason) in [
        ("read", "absolute/secret.txt", "absolute is a link that leaves the workspace"),
        ("overwrite", "absolute/secret.txt", "absolute is a link that leaves the workspace"),
        ("list", "absolute", "absolute is a link that leaves the workspace"),
        ("write", "relative/new", "leaves the workspace"),
        ("mkdir", "sub/up/new", "leaves the workspace"),
    ] {
        assert_eq!(said(&attempt(what, path)), Err("not-permitted"), "{what} {path}");
        let found = beside.trial.reason(what, path, "");
        assert!(found.contains(reason), "{what} {path}: {found}");
    }
    // A scan skips links that lead outside.
    let everything = attempt("scan-following", "").unwrap();
    assert!(everything.contains("inside.txt") && !everything.contains("secret"), "{everything}");
    // A link that leads outside can itself be removed and moved, since it is inside.
    for link in ["absolute-file", "relative"] {
        attempt("unlink", link).unwrap();
    }
    beside.trial.attempt("hostile.attempt", "rename", "absolute", "elsewhere").unwrap();
    assert_eq!(fs::read_link(workspace.join("elsewhere")).unwrap(), outside);
    beside.assert_unchanged("rename", "absolute");
}

/// A guest creates links inside of the workspace, and uses them.
#[test]
fn links_inside_can_be_created() {
    let beside = Beside::new(ALL);
    let attempt = |what: &str, path: &str, target: &str| {
        beside.trial.attempt("hostile.attempt", what, path, target)
    };
    attempt("mkdir", "d", "").unwrap();
    for (target, link) in [
        ("inside.txt", "l"),
        ("../inside.txt", "d/up"),
        ("d", "ld"),
        ("./d/../inside.txt", "winding"),
        ("none", "dangling"),
        ("self", "self"),
    ] {
        attempt("symlink", target, link).unwrap_or_else(|error| panic!("{link}: {error}"));
        let made = fs::read_link(beside.trial.place.workspace().join(link)).unwrap();
        assert_eq!(made, Path::new(target));
    }
    for link in ["l", "d/up", "ld/up", "winding"] {
        assert_eq!(attempt("read", link, "").as_deref(), Ok("inside"), "{link}");
    }
    attempt("write", "ld/new", "").unwrap();
    attempt("write", "dangling", "").unwrap();
    assert_eq!(beside.trial.place.read("d/new"), "hostile");
    assert_eq!(beside.trial.place.read("none"), "hostile");
    assert_eq!(said(&attempt("read", "self", "")), Err("loop"));
    attempt("write", "l", "").unwrap();
    assert_eq!(beside.trial.place.read("inside.txt"), "hostile");
}

/// A guest can't create a link that leads outside, or one to a protected file.
#[test]
fn links_that_leave_can_not_be_created() {
    let beside = Beside::new(ALL);
    let place = &beside.trial.place;
    place.write("d/file", "");
    place.write(".git/config", "original");
    place.write(".git/hooks/post-commit", "original");
    symlink("d", place.workspace().join("ld")).unwrap();
    for (target, link, reason) in [
        ("/etc/passwd", "l", "leave"),
        ("/", "l", "leave"),
        ("/workspace/inside.txt", "l", "leave"),
        ("..", "l", "leave"),
        ("../outside", "l", "leave"),
        ("../../outside", "d/l", "leave"),
        ("d/../../outside", "l", "leave"),
        ("./.././outside", "l", "leave"),
        (".git", "l", "protected"),
        (".git/config", "l", "protected"),
        (".git/hooks/pre-commit", "l", "protected"),
        ("../.git/config", "d/l", "protected"),
        ("d/../.GIT/config", "l", "protected"),
        (".cofferdam", "l", "protected"),
        (".cofferdam/journal.jsonl", "l", "protected"),
        ("../.Cofferdam/x", "d/l", "protected"),
        ("cofferdam.toml", "l", "protected"),
        ("x/.git", "l", "protected"),
        ("inside.txt", ".git/hooks/pre-commit", "protected"),
        ("inside.txt", ".git/config", "protected"),
        ("inside.txt", "../l", "leaves"),
        ("inside.txt", "/l", "absolute"),
    ] {
        let tried = beside.trial.attempt("hostile.attempt", "symlink", target, link);
        assert_eq!(said(&tried), Err("not-permitted"), "{link} -> {target}");
        let found = beside.trial.reason("symlink", target, link);
        assert!(found.contains(reason), "{link} -> {target}: {found}");
    }
    // If the names in a link do not show where it leads, this is decided when it is used.
    for (target, link, beyond) in
        [("ld/../../outside", "a", "a/secret.txt"), ("inner", "b", "b/../../outside/secret.txt")]
    {
        let _ = beside.trial.attempt("hostile.attempt", "symlink", target, link);
        beside.assert_out_of_reach(beyond, || {});
    }
    assert_eq!(place.read(".git/config"), "original");
}

/// A relative link leads elsewhere after it was moved.
#[test]
fn moved_links_do_not_lead_out() {
    let beside = Beside::new(ALL);
    let attempt = |what: &str, path: &str, target: &str| {
        beside.trial.attempt("hostile.attempt", what, path, target)
    };
    let place = &beside.trial.place;
    place.write("a/outside/secret.txt", "decoy");
    attempt("mkdir", "a/b", "").unwrap();
    attempt("symlink", "../outside", "a/b/l").unwrap();
    assert_eq!(attempt("read", "a/b/l/secret.txt", "").as_deref(), Ok("decoy"));
    attempt("rename", "a/b/l", "l").unwrap();
    for what in READING.iter().chain(CHANGING).filter(|what| **what != "readlink") {
        let tried = attempt(what, "l/secret.txt", "inside.txt");
        assert!(tried.is_err(), "{what}: {tried:?}");
    }
    beside.assert_unchanged("rename", "l");
}

/// A file with a second hard link may also be a file outside.
#[test]
fn files_with_other_names_are_not_changed() {
    let beside = Beside::new(ALL);
    let workspace = beside.trial.place.workspace();
    let elsewhere = outside(&beside.trial.place).join("secret.txt");
    fs::hard_link(&elsewhere, workspace.join("same")).unwrap();
    let wanted =
        "same is a file with several hard links; changing it would change a file elsewhere";
    for what in [
        "write",
        "overwrite",
        "truncate",
        "append",
        "grow",
        "times",
        "set-executable",
        "rename",
        "unlink",
    ] {
        let tried = beside.trial.attempt("hostile.attempt", what, "same", "0");
        assert_eq!(said(&tried), Err("not-permitted"), "{what}");
        assert_eq!(beside.trial.reason(what, "same", "0"), wanted, "{what}");
    }
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), SECRET);
    assert_eq!(beside.trial.place.read("same"), SECRET);
}
