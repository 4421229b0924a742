//! What git considers a repository, at any path and created in any way: no call creates or changes
//! one. Each attempt plants a command that real git would run, and the test runs git.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_workspace::{Secret, Workspace};

use super::component::Packed;
use crate::support::Place;
use crate::trial::{ALL, Trial};

/// A planted command creates this file outside of the workspace.
pub struct Canary {
    marker: PathBuf,
    pub config: String,
}

impl Canary {
    pub fn new(place: &Place) -> Self {
        let marker = place.home_file("marker");
        let command = place.script("canary", &format!("touch {}", marker.display()));
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\t\
             fsmonitor = {command}\n"
        );
        Self { marker, config }
    }

    /// Runs git in each directory of the workspace, and returns whether the command ran.
    pub fn ran(&self, place: &Place) -> bool {
        let mut waiting = vec![place.workspace()];
        while let Some(directory) = waiting.pop() {
            if directory.ends_with(".git") || directory.ends_with(".cofferdam") {
                continue;
            }
            git_at(&directory, &["status"]);
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
        let ran = self.marker.exists();
        let _ = fs::remove_file(&self.marker);
        ran
    }
}

/// Runs git in a directory, and returns whether it succeeded.
#[expect(clippy::disallowed_methods, reason = "git is what the host is compared with")]
fn git_at(directory: &Path, args: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.args(args).current_dir(directory);
    for (name, value) in [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")] {
        git.env(name, value);
    }
    git.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap());
    git.output().unwrap().status.success()
}

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

/// Runs an envelope and returns the results.
fn run(place: &Place, options: &[&str], actions: &[Value]) -> Vec<Value> {
    let args = [&["run"], options].concat();
    let ended = place.run_with(&args, &json!({ "actions": actions }).to_string());
    ended.json()["results"].as_array().unwrap_or_else(|| panic!("{ended:?}")).clone()
}

#[track_caller]
fn assert_protected(result: &Value, why: &str) {
    assert_eq!(result["metadata"]["outcome"], "denied", "{result}");
    assert_eq!(result["metadata"]["code"], "PermissionError", "{result}");
    assert!(result["metadata"]["reason"].as_str().unwrap().contains(why), "{result}");
}

/// A patch that creates files.
fn creating(files: &[(&str, &str)]) -> Value {
    let file = |(path, text): &(&str, &str)| {
        let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
        let count = text.lines().count();
        format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
             @@ -0,0 +1,{count} @@\n{lines}"
        )
    };
    json!({"type": "apply_patch", "patch": files.iter().map(file).collect::<String>()})
}

/// `.git` is a file that names a repository in the workspace.
#[test]
fn the_target_of_a_git_file_is_not_changed() {
    let place = Place::new();
    let canary = Canary::new(&place);
    place.with_git(&["init", "-q", "--bare", ".bare"]);
    place.write(".git", "gitdir: .bare\n");
    let before = place.read(".bare/config");
    let attempts = [
        write(".bare/config", &canary.config),
        write(".bare/config.worktree", &canary.config),
        write(".bare/hooks/post-index-change", "#!/bin/sh\n"),
        write("./x/../.bare/config", &canary.config),
        creating(&[(".bare/config.worktree", &canary.config)]),
        creating(&[("fine", "fine\n"), (".bare/info/attributes", "* filter=x\n")]),
    ];
    for attempt in attempts {
        let results = run(&place, &[], std::slice::from_ref(&attempt));
        assert_protected(&results[0], ".bare/ is a git repository (HEAD, objects, refs)");
        assert!(!canary.ran(&place), "{attempt}");
    }
    assert_eq!(place.read(".bare/config"), before);
    assert!(!place.workspace().join("fine").exists());
    // Reading it is allowed, and so is changing files beside it.
    let read = json!({"type": "read_file", "path": ".bare/config"});
    let results = run(&place, &[], &[read, write("src/config", "fine\n")]);
    assert!(results.iter().all(|result| result["status"] == "executed"), "{results:?}");
    // Without the protection, the command runs.
    place.write(".bare/config", &canary.config);
    assert!(canary.ran(&place));
}

/// Four files make any directory a repository. The last one is refused in any order, in one call or
/// in several.
#[test]
fn no_call_makes_a_directory_a_repository() {
    let place = Place::new();
    let canary = Canary::new(&place);
    let files = [
        ("docs/config", canary.config.as_str()),
        ("docs/HEAD", "ref: refs/heads/main\n"),
        ("docs/objects/x", "x\n"),
        ("docs/refs/x", "x\n"),
    ];
    let docs = place.workspace().join("docs");
    for last in 1..files.len() {
        let mut ordered = files.to_vec();
        let completing = ordered.remove(last);
        ordered.push(completing);
        let actions: Vec<Value> =
            ordered.iter().map(|(path, content)| write(path, content)).collect();
        for options in [&["--atomic"][..], &[]] {
            let results = run(&place, options, &actions);
            let denied = results.iter().filter(|result| result["metadata"]["outcome"] == "denied");
            assert!(denied.count() >= 1, "{results:?}");
            if options.is_empty() {
                assert_protected(&results[3], "docs/ would be a git repository");
            }
            assert!(!canary.ran(&place), "{last} {options:?}");
            assert_eq!(docs.exists(), options.is_empty());
            let _ = fs::remove_dir_all(&docs);
        }
        let results = run(&place, &[], &[creating(&ordered)]);
        assert_protected(&results[0], "docs/");
        assert!(!docs.exists());
    }
    let linked = [files[1], files[0], ("docs/commondir", "../src\n")];
    assert_protected(&run(&place, &[], &[creating(&linked)])[0], "docs/ would be");
    for (path, content) in files {
        place.write(path, content);
    }
    assert!(canary.ran(&place));
}

/// Renames, links and open handles do not complete one in several steps either.
#[test]
fn no_rename_or_link_completes_a_repository() {
    let place = Place::new();
    let canary = Canary::new(&place);
    place.write("head/x", "ref: refs/heads/main\n");
    place.write("head/commit", "0123456789012345678901234567890123456789\n");
    place.write("other/objects/x", "");
    place.write("other/refs/x", "");
    place.write("config", &canary.config);
    symlink("refs/heads/main", place.workspace().join("head/link")).unwrap();
    let trial = Trial::of_guest(place, ALL);
    let place = &trial.place;
    let attempt = |what: &str, path: &str, target: &str| {
        trial.call("hostile.attempt", json!({"what": what, "path": path, "target": target}))
    };
    attempt("rename", "config", "other/config");
    for (what, path, target) in [
        ("rename", "head/x", "other/HEAD"),
        ("rename", "head/commit", "other/HEAD"),
        ("rename", "head/link", "other/HEAD"),
        ("rename", "head/x", "other/head"),
        ("symlink", "refs/heads/main", "other/HEAD"),
    ] {
        match attempt(what, path, target) {
            Outcome::Failed(failure) => {
                assert_eq!(
                    (failure.status, failure.code.as_str()),
                    (Status::Denied, "PermissionError")
                );
                let wanted = "other/ would be a git repository (HEAD, objects, refs)";
                assert!(failure.message.contains(wanted), "{}", failure.message);
            }
            Outcome::Executed(output) => assert_eq!(output["ok"], false, "{what} {path} {target}"),
        }
        assert!(fs::symlink_metadata(place.workspace().join("other/HEAD")).is_err());
        assert!(!canary.ran(place), "{what} {path} {target}");
    }
    // Part by part, with the directory under another name, and with links in place of directories.
    let workspace = place.workspace();
    fs::rename(workspace.join("head/x"), workspace.join("head/HEAD")).unwrap();
    attempt("rename", "other/config", "head/config");
    attempt("rename", "other/objects", "head/objects");
    assert!(workspace.join("head/objects").is_dir());
    for (what, path, target) in [
        ("rename", "other/refs", "head/refs"),
        ("symlink", "../other/refs", "head/refs"),
        ("symlink", ".", "head/Refs"),
        ("mkdir", "head/refs", ""),
        ("write", "head/refs", ""),
        ("write", "head/commondir", ""),
    ] {
        let refused = match attempt(what, path, target) {
            Outcome::Executed(output) => output["ok"] == false,
            Outcome::Failed(failure) => failure.status == Status::Denied,
        };
        assert!(refused, "{what} {path} {target}");
        assert!(!canary.ran(place), "{what} {path} {target}");
    }
    // The parts may be moved to places where they do not form a repository.
    attempt("rename", "head", "moved");
    assert!(workspace.join("moved/objects").is_dir());
}

/// A repository that is checked in as a fixture can be read, but neither changed nor moved; nor can
/// a directory above it. A working tree inside of a repository can be changed.
#[test]
fn bare_repositories_are_not_changed() {
    let place = Place::new();
    place.with_git(&["init", "-q", "--bare", "testdata/repo.git"]);
    place.with_git(&["init", "-q", "--bare", "-b", "main", "trees"]);
    place.write("trees/main/.git", "gitdir: ../worktrees/main\n");
    place.write("trees/main/file", "before\n");
    place.write("trees/worktrees/main/gitdir", "../../main/.git\n");
    place.write("src/objects/a", "");
    place.write("src/refs/a", "");
    place.write("src/HEAD", "not git's\n");
    let trial = Trial::of_guest(place, ALL);
    let attempt =
        |what: &str, path: &str, target: &str| trial.attempt("hostile.attempt", what, path, target);
    for (what, path, target) in [
        ("write", "testdata/repo.git/config", ""),
        ("write", "testdata/repo.git/new", ""),
        ("append", "testdata/repo.git/HEAD", ""),
        ("unlink", "testdata/repo.git/HEAD", ""),
        ("rename", "testdata/repo.git", "moved"),
        ("rename", "testdata", "moved"),
        ("rename", "testdata/repo.git/refs", "moved"),
        ("rename", "src/HEAD", "testdata/repo.git/HEAD"),
        ("mkdir", "testdata/repo.git/modules", ""),
        ("write", "trees/config", ""),
        ("write", "trees/worktrees/main/config.worktree", ""),
    ] {
        let reason = trial.reason(what, path, target);
        assert!(reason.contains("git"), "{what} {path}: {reason}");
    }
    assert!(trial.reason("write", "testdata/repo.git/config", "").ends_with(
        "testdata/repo.git/config is protected: testdata/repo.git/ is a git repository \
             (HEAD, objects, refs)"
    ));
    assert!(attempt("read", "testdata/repo.git/HEAD", "").unwrap().starts_with("ref:"));
    for path in ["testdata/other", "src/objects/b", "src/refs/b", "src/config", "trees/main/file"] {
        attempt("write", path, "").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// A working tree that git created inside of its repository can be changed.
#[test]
fn a_linked_working_tree_inside_its_repository_can_be_changed() {
    let place = Place::new();
    place.with_git(&["init", "-q", "-b", "main", "source"]);
    place.write("source/a", "1\n");
    place.with_git(&["-C", "source", "add", "a"]);
    let author = ["-c", "user.name=x", "-c", "user.email=x@y"];
    place.with_git(&[&["-C", "source"][..], &author, &["commit", "-qm", "a"]].concat());
    place.with_git(&["clone", "-q", "--bare", "source", "trees"]);
    for tree in ["main-tree", "feature/deep"] {
        place.with_git(&["-C", "trees", "worktree", "add", "-q", "-b", tree, tree]);
        let path = format!("trees/{tree}/a");
        let results = run(&place, &[], &[write(&path, "2\n")]);
        assert_eq!(results[0]["status"], "executed", "{results:?}");
        assert_eq!(place.read(&path), "2\n");
    }
    for path in ["trees/config", "trees/worktrees/deep/config.worktree", "trees/hooks/x"] {
        assert_protected(&run(&place, &[], &[write(path, "x")])[0], "git");
    }
    let found = Workspace::open(&place.workspace(), Secret::OfProcess).unwrap();
    let protected = found.protected().unwrap().git;
    assert!(protected.contains(&"trees/config".to_owned()), "{protected:?}");
    let is_in_tree = |place: &String| {
        ["trees/feature/deep/a", "trees/main-tree/a"].iter().any(|file| file.starts_with(&**place))
    };
    assert!(!protected.iter().any(is_in_tree), "{protected:?}");
}

/// Files that git's configuration includes are part of it.
#[test]
fn files_that_gits_configuration_includes_are_not_changed() {
    let place = Place::new();
    let canary = Canary::new(&place);
    place.with_git(&["init", "-q"]);
    place.with_git(&["config", "include.path", "../.gitshared"]);
    place.write(".gitshared", "[include]\n\tpath = more/inc\n");
    for path in [".gitshared", "more/inc"] {
        let results = run(&place, &[], &[write(path, &canary.config)]);
        assert_protected(&results[0], "part of git's configuration in .git");
        assert!(!canary.ran(&place));
    }
    place.write(".gitshared", canary.config.replace("worktree", "x"));
    assert!(canary.ran(&place));
}

/// So are files that it includes through links, by other names of the workspace, or from the home
/// directory.
#[test]
fn files_included_through_links_or_other_names_are_not_changed() {
    let include = |path: &str| ["config".to_owned(), "include.path".to_owned(), path.to_owned()];
    for what in ["link", "absent", "alias", "home", "nested", "nested and absent", "bare"] {
        let place = Place::new();
        let canary = Canary::new(&place);
        let workspace = place.workspace();
        let git = |args: &[String]| {
            place.with_git(&args.iter().map(String::as_str).collect::<Vec<_>>());
        };
        let alias = workspace.with_file_name("alias");
        let name = workspace.file_name().unwrap().to_str().unwrap().to_owned();
        if !what.starts_with("nested") && what != "bare" {
            place.with_git(&["init", "-q"]);
        }
        if !what.ends_with("absent") {
            place.write("real/inc", "[user]\n\tname = x\n");
        }
        let path = match what {
            "link" => {
                symlink("real", workspace.join("conf")).unwrap();
                git(&include("../conf/inc"));
                "conf/inc"
            }
            "absent" => {
                git(&include("../conf/inc"));
                "conf/inc"
            }
            "alias" => {
                symlink(&workspace, &alias).unwrap();
                git(&include(alias.join("real/inc").to_str().unwrap()));
                "real/inc"
            }
            "home" => {
                git(&include(&format!("~/{name}/real/inc")));
                "real/inc"
            }
            "bare" => {
                place.with_git(&["init", "-q", "--bare", "b.git"]);
                place.with_git(&["-C", "b.git", "config", "include.path", "../real/inc"]);
                "real/inc"
            }
            _ => {
                place.with_git(&["init", "-q", "sub"]);
                place.with_git(&["-C", "sub", "config", "include.path", "../../real/inc"]);
                "real/inc"
            }
        };
        let results = run(&place, &[], &[write(path, &canary.config)]);
        assert_eq!(results[0]["metadata"]["outcome"], "denied", "{what}: {results:?}");
        let reason = results[0]["metadata"]["reason"].as_str().unwrap();
        assert!(reason.contains("git"), "{what}: {reason}");
        assert!(!canary.ran(&place), "{what}");
        // Files that are not configuration, and configuration that no repository includes, can be
        // changed.
        let others = [write("src/lib.rs", "fn main() {}\n"), write("Cargo.toml", "[package]\n")];
        for result in run(&place, &[], &others) {
            assert_eq!(result["status"], "executed", "{what}: {result}");
        }
        if what != "home" && what != "bare" {
            place.write(path, canary.config.replace("worktree", "x"));
            assert!(canary.ran(&place), "{what}: git does not take it");
        }
    }
}

/// Links on the way, and files that would take their place.
#[test]
fn links_on_the_way_to_gits_configuration_are_not_replaced() {
    let place = Place::new();
    let canary = Canary::new(&place);
    place.with_git(&["init", "-q"]);
    place.with_git(&["init", "-q", "sub"]);
    place.with_git(&["config", "include.path", "../soft/inc"]);
    place.with_git(&["-C", "sub", "config", "include.path", "../../shared"]);
    place.write("real/inc", "[user]\n\tname = x\n");
    place.write("evil/inc", &canary.config);
    place.write("plain", "text\n");
    symlink("real", place.workspace().join("soft")).unwrap();
    let trial = Trial::of_guest(place, ALL);
    for (what, path, target) in
        [("unlink", "soft", ""), ("rename", "soft", "x"), ("rename", "evil/inc", "real/inc")]
    {
        let reason = trial.reason(what, path, target);
        assert!(reason.contains("git"), "{what} {path}: {reason}");
    }
    for (what, path, target) in
        [("rename", "evil/inc", "shared"), ("symlink", "evil/inc", "shared")]
    {
        match trial.call("hostile.attempt", json!({"what": what, "path": path, "target": target})) {
            Outcome::Failed(failure) => {
                assert!(failure.message.contains("git repository"), "{}", failure.message);
            }
            Outcome::Executed(output) => panic!("{what} {path}: {output}"),
        }
        assert!(!canary.ran(&trial.place), "{what} {path}");
    }
    trial.attempt("hostile.attempt", "symlink", "plain", "elsewhere").unwrap();
}

/// An undo does not create a repository either.
#[test]
fn an_undo_does_not_complete_a_repository() {
    let place = Place::new();
    let canary = Canary::new(&place);
    let gone = "diff --git a/x/HEAD b/x/HEAD\ndeleted file mode 100644\n--- a/x/HEAD\n\
                +++ /dev/null\n@@ -1 +0,0 @@\n-ref: refs/heads/main\n";
    for action in [
        write("x/kept", ""),
        write("x/HEAD", "ref: refs/heads/main\n"),
        json!({"type": "apply_patch", "patch": gone}),
        write("x/config", &canary.config),
        write("x/objects/a", ""),
        write("x/refs/a", ""),
    ] {
        let results = run(&place, &[], &[action]);
        assert_eq!(results[0]["status"], "executed", "{results:?}");
    }
    let log = place.run(&["log", "--commits"]).json();
    let commits: Vec<&Value> = log["records"].as_array().unwrap().iter().collect();
    let removed = |commit: &&&Value| commit["changes"][0]["change"] == "removed";
    let commit = commits.iter().find(removed).unwrap()["commit"].as_str().unwrap();
    let ended = place.run(&["undo", commit]);
    assert_ne!(ended.status, 0, "{ended:?}");
    assert!(ended.stderr.contains("x/ would be a git repository"), "{ended:?}");
    assert!(!place.workspace().join("x/HEAD").exists());
    assert!(!canary.ran(&place));
}

/// The host's records in a nested workspace are neither read nor changed.
#[test]
fn a_nested_workspaces_records_are_not_accessible() {
    let place = Place::new();
    place.write("sub/.cofferdam/journal.jsonl", "secret\n");
    place.write("sub/file", "plain\n");
    let trial = Trial::with(place, vec![Packed::guest("hostile")], ALL);
    let attempt =
        |what: &str, path: &str, target: &str| trial.attempt("hostile.attempt", what, path, target);
    for (what, path, target) in [
        ("read", "sub/.cofferdam/journal.jsonl", ""),
        ("list", "sub/.cofferdam", ""),
        ("write", "sub/.cofferdam/journal.jsonl", ""),
        ("write", "sub/.Cofferdam/kept/x", ""),
        ("mkdir", "other/.cofferdam", ""),
        ("mkdir", "sub/deep/../.cofferdam", ""),
        ("rename", "sub", "moved"),
        ("symlink", "sub/.cofferdam", "link"),
    ] {
        assert!(attempt(what, path, target).is_err(), "{what} {path}");
    }
    for (what, path) in
        [("list", "sub"), ("scan", ""), ("scan-following", ""), ("write-and-scan", "")]
    {
        let told = attempt(what, path, "following").unwrap();
        assert!(told.contains("file") && !told.contains(".cofferdam"), "{what} {path}: {told}");
    }
    assert_eq!(trial.place.read("sub/.cofferdam/journal.jsonl"), "secret\n");
    // Its settings are used only after the user has accepted them.
    attempt("write", "sub/cofferdam.toml", "").unwrap();
}

/// The next number of a sequence that is the same in each run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Creates one of the variants of `HEAD`, `objects`, `refs` and `commondir`.
fn plant(directory: &Path, name: &str, kind: u64, state: &mut u64) {
    let path = directory.join(name);
    const CONTENTS: [&str; 9] = [
        "ref: refs/heads/main\n",
        "ref:refs/heads/x",
        "ref: \t\n refs/x",
        "ref: heads/main\n",
        "0123456789abcdef0123456789ABCDEF01234567\n",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "012345",
        "../shared\n",
        "",
    ];
    match kind {
        0 => {}
        1 | 2 => fs::create_dir(path).unwrap(),
        3 => {
            let targets = ["refs/heads/main", "../shared", "../shared/objects", "other", "."];
            let target = targets[next(state) as usize % targets.len()];
            symlink(target, path).unwrap();
        }
        _ => {
            use std::os::unix::fs::PermissionsExt as _;
            fs::write(&path, CONTENTS[next(state) as usize % CONTENTS.len()]).unwrap();
            let mode = if next(state).is_multiple_of(2) { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Of several hundred directories that look more or less like a repository, all that git accepts
/// are protected.
#[test]
fn every_directory_that_git_accepts_as_a_repository_is_protected() {
    let place = Place::new();
    for shared in ["shared/objects", "shared/refs"] {
        fs::create_dir_all(place.workspace().join(shared)).unwrap();
    }
    let mut state = 19;
    let mut names = BTreeSet::new();
    for number in 0..500 {
        let name = format!("d{number}");
        let directory = place.workspace().join(&name);
        fs::create_dir(&directory).unwrap();
        for (name, usual) in [("HEAD", 4), ("objects", 1), ("refs", 1), ("commondir", 0)] {
            // Half of the parts are correct.
            let kind =
                if next(&mut state).is_multiple_of(2) { usual } else { next(&mut state) % 6 };
            plant(&directory, name, kind, &mut state);
        }
        names.insert(name);
    }
    let workspace = Workspace::open(&place.workspace(), Secret::OfProcess).unwrap();
    let (mut gits, mut ours) = (0, 0);
    for name in &names {
        let is_gits = git_at(&place.workspace().join(name), &["rev-parse", "--git-dir"]);
        let is_ours = workspace.plain().refusal(&format!("{name}/config")).is_some();
        assert!(is_ours || !is_gits, "{name}");
        gits += usize::from(is_gits);
        ours += usize::from(is_ours);
    }
    // Neither git nor the host accepts all directories.
    assert!((50..=ours).contains(&gits) && ours < 400, "{gits} {ours}");
}

/// A configuration that is more or less one: sections, variables, comments and lines that git
/// refuses, with all that can hide the next line.
fn configuration(state: &mut u64) -> String {
    const HEADERS: [&str; 8] = [
        "[include]",
        "[core]",
        "[INCLUDE] ",
        "[include \"x\"]",
        "[a] [include]",
        "[a \"\\\"]\\\\\"]",
        "[core][include]",
        "[includeIf \"gitdir:/\"]",
    ];
    const NAMES: [&str; 4] = ["path", "hooksPath", "\tPath", "HOOKSPATH"];
    const VALUES: [&str; 16] = [
        "a",
        "b/c",
        " ",
        "\t",
        "\"d e \"",
        "\";#\"",
        "\"f\\\"\"",
        "\\\\",
        "\\\n",
        "\\\r\n",
        "\\t",
        "\\n",
        "#",
        ";",
        "\u{e9}",
        "[core]",
    ];
    const COMMENTS: [&str; 8] =
        ["# \\", "; \"", "#[core]", ";", "# a \\\\", "bare", " ", "\t#\u{e9}"];
    let mut text = String::new();
    for _ in 0..2 + next(state) % 7 {
        let mut pick = |of: &[&str]| of[next(state) as usize % of.len()].to_owned();
        match pick(&["header", "comment", "variable", "variable"]).as_str() {
            "header" => {
                text.push_str(&(pick(&HEADERS) + &pick(&["", " ", "\n", "\r\n", "# \\\n"])))
            }
            "comment" => text.push_str(&(pick(&COMMENTS) + &pick(&["\n", "\r\n"]))),
            _ => {
                text.push_str(&(pick(&NAMES) + &pick(&["=", " = ", "\t="])));
                for _ in 0..pick(&["", "x", "xx", "xxx", "xxxx"]).len() {
                    text.push_str(&pick(&VALUES));
                }
                text.push_str(&pick(&["\n", "\r\n"]));
            }
        }
    }
    text
}

/// What git reads as a path of an include or of hooks is one here, in many configurations.
#[test]
fn configuration_is_read_as_git_reads_it() {
    let place = Place::new();
    let mut state = 23;
    let mut values = 0;
    for _ in 0..1000 {
        let text = configuration(&mut state);
        place.write("config", &text);
        let named = cofferdam_core::policy::git::named_by(&text);
        for (variable, ours) in
            [("include.path", &named.includes), ("core.hooksPath", &named.hooks)]
        {
            for value in configured(&place.workspace(), variable) {
                assert!(ours.contains(&value), "{text:?}: {value:?} is not in {ours:?}");
                values += 1;
            }
        }
    }
    // Git does not refuse most of them.
    assert!(values > 200, "{values}");
}

/// The values that git reads from the file `config`; none if it refuses the file.
#[expect(clippy::disallowed_methods, reason = "real git is what is compared with")]
fn configured(directory: &Path, variable: &str) -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["config", "--file", "config", "--null", "--get-all", variable]);
    let values = git.current_dir(directory).output().unwrap();
    if !values.status.success() {
        return Vec::new();
    }
    let values = String::from_utf8(values.stdout).unwrap();
    values.split_terminator('\0').map(str::to_owned).collect()
}
