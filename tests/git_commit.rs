//! The tool `git_commit` through the whole host: grants, transactions, the sandbox and the user's
//! settings. What it commits is tested in `plugins/git_commit`, what the host takes over in
//! `host/workspace`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Ended, Place};
use crate::trial::configure;

const GRANT: &str = "[grants.git_commit]\nfiles = 'write'\nprocess = ['git']\ngit-commit = true\n";

#[expect(clippy::disallowed_methods, reason = "git is what is compared with")]
fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// A workspace with a commit, and a user with a name.
fn place() -> Place {
    let place = Place::new();
    place.write("a", "one\n");
    git(&place.workspace(), &["init", "--quiet", "--initial-branch=main"]);
    git(&place.workspace(), &["add", "a"]);
    git(&place.workspace(), &["commit", "--quiet", "--message=first"]);
    fs::create_dir_all(place.home()).unwrap();
    fs::write(
        place.home().join(".gitconfig"),
        "[user]\n\tname = Uma \\\"U\\\" Q\n[include]\n\tpath = more\n\
         [includeIf \"gitdir:**/nowhere/\"]\n\tpath = missing\n",
    )
    .unwrap();
    fs::write(place.home().join("more"), "[user]\n\temail = uma@example.com\n").unwrap();
    place
}

fn act(place: &Place, options: &[&str], actions: &[Value]) -> (Ended, Vec<Value>) {
    let envelope = json!({ "actions": actions }).to_string();
    let ended = place.run_with(&[&["run"], options].concat(), &envelope);
    let results = ended.json()["results"].as_array().cloned().unwrap_or_default();
    (ended, results)
}

fn commit(paths: &[&str]) -> Value {
    json!({"type": "git_commit", "message": "second\n\nwhy", "paths": paths})
}

#[test]
fn a_granted_session_commits_as_the_user() {
    let place = place();
    configure(&place, GRANT);
    let write = json!({"type": "write_file", "path": "b", "content": "b\n"});
    let hook = place.workspace().join(".git/hooks/post-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\ntouch hook-ran\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).unwrap();
    let (ended, results) = act(&place, &[], &[write, commit(&["b"])]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let top = place.workspace();
    let id = git(&top, &["rev-parse", "HEAD"]);
    assert!(results[1].to_string().contains(&id), "{results:?}");
    let log = git(&top, &["log", "-1", "--format=%an <%ae>, %cn: %s, %b"]);
    assert_eq!(log, "Uma \"U\" Q <uma@example.com>, Uma \"U\" Q: second, why");
    assert_eq!(git(&top, &["show", "--format=", "--name-only"]), "b");
    assert_eq!(git(&top, &["status", "--porcelain"]), "");
    git(&top, &["fsck", "--strict"]);
    assert!(!top.join("hook-ran").exists());
    // Nothing is left of the preparation.
    let cache = top.join(".cofferdam/cache/git_commit");
    assert_eq!(fs::read_dir(cache).unwrap().count(), 0);
}

#[test]
fn a_directory_below_the_root_and_a_linked_working_tree_are_committed() {
    let place = place();
    configure(&place, GRANT);
    let main = place.home().join("main");
    fs::rename(place.workspace().join(".git"), {
        fs::create_dir(&main).unwrap();
        main.join(".git")
    })
    .unwrap();
    fs::remove_file(place.workspace().join("a")).unwrap();
    git(&main, &["reset", "--quiet", "--hard"]);
    let linked = place.workspace();
    let kept = place.home().join("kept");
    fs::rename(&linked, &kept).unwrap();
    git(&main, &["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    for entry in fs::read_dir(&kept).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), linked.join(entry.file_name())).unwrap();
    }
    place.write("a", "linked\n");
    let (ended, _) = act(&place, &[], &[commit(&["a"])]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(git(&main, &["log", "--format=%s", "side"]), "second\nfirst");
    assert_eq!(git(&main, &["show", "side:a"]), "linked");
    assert_eq!(git(&main, &["status", "--porcelain"]), "");
}

#[test]
fn without_each_part_of_the_grant_nothing_is_committed() {
    let place = place();
    place.write("a", "two\n");
    let head = git(&place.workspace(), &["rev-parse", "HEAD"]);
    for grant in [
        "",
        "[grants.git_commit]\nfiles = 'write'\nprocess = ['git']\n",
        "[grants.git_commit]\nfiles = 'write'\ngit-commit = true\n",
        "[grants.git_commit]\nfiles = 'read'\nprocess = ['git']\ngit-commit = true\n",
    ] {
        configure(&place, grant);
        let (ended, _) = act(&place, &[], &[commit(&["a"])]);
        assert_ne!(ended.status, 0, "{grant}: {ended:?}");
        assert_eq!(git(&place.workspace(), &["rev-parse", "HEAD"]), head, "{grant}");
    }
    // The default role of a server does not have it, even where it is granted.
    configure(&place, GRANT);
    let listed = place.run(&["tools", "--role", "coder"]).stdout;
    assert!(listed.contains("git_status") && !listed.contains("git_commit"), "{listed}");
    assert!(place.run(&["tools", "--role", "main"]).stdout.contains("git_commit"));
}

#[test]
fn a_commit_is_not_part_of_a_transaction_or_of_a_narrow_scope() {
    let place = place();
    configure(&place, &format!("{GRANT}[roles.narrow]\ntools = ['git_commit.*']\nscope = ['a']\n"));
    place.write("a", "two\n");
    let head = git(&place.workspace(), &["rev-parse", "HEAD"]);
    for option in ["--atomic", "--dry-run"] {
        let (ended, _) = act(&place, &[option], &[commit(&["a"])]);
        assert!(ended.stdout.contains("not made in an atomic or a dry run"), "{ended:?}");
    }
    let (ended, _) = act(&place, &["--role", "narrow"], &[commit(&["a"])]);
    assert!(ended.stdout.contains("only a part of the workspace"), "{ended:?}");
    assert_eq!(git(&place.workspace(), &["rev-parse", "HEAD"]), head);
    // Without a name, the answer says which command sets one.
    fs::remove_file(place.home().join(".gitconfig")).unwrap();
    let (ended, _) = act(&place, &[], &[commit(&["a"])]);
    assert!(ended.stdout.contains("git config --global user.name"), "{ended:?}");
}

/// How often the host is killed while it commits.
const KILLS: u32 = 40;

/// Where git's locks are that a commit takes.
const LOCKS: [&str; 3] = [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"];

#[test]
fn a_killed_host_leaves_a_repository_that_git_accepts() {
    let place = place();
    configure(&place, GRANT);
    let top = place.workspace();
    let envelope = place.home_file("commit.json");
    fs::write(&envelope, json!({"actions": [commit(&["a"])]}).to_string()).unwrap();
    let run = || place.command(&["run", envelope.to_str().unwrap()]).spawn().unwrap();
    let begun = Instant::now();
    place.write("a", "measured\n");
    assert!(run().wait().unwrap().success());
    let whole = begun.elapsed();
    // What the host writes to the repository is the end of the call: the kills come ever closer to it,
    // from either side.
    let (mut old, mut new, mut part) = (0, 0, 0.9);
    for turn in 0..KILLS {
        let content = format!("{turn}\n");
        place.write("a", &content);
        let before = git(&top, &["rev-parse", "HEAD"]);
        let mut child = run();
        std::thread::sleep(whole.mul_f64(part));
        // The process may have ended by itself.
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        for lock in LOCKS {
            let _ = fs::remove_file(top.join(lock));
        }
        git(&top, &["fsck", "--strict"]);
        if git(&top, &["rev-parse", "HEAD"]) == before {
            old += 1;
            part *= 1.04;
            let (ended, results) = act(&place, &[], &[commit(&["a"])]);
            assert_eq!(ended.status, 0, "{turn}: {results:?}");
        } else {
            new += 1;
            part /= 1.05;
        }
        assert_eq!(git(&top, &["rev-parse", "HEAD~"]), before, "{turn}");
        assert_eq!(git(&top, &["show", "HEAD:a"]), content.trim_end(), "{turn}");
        assert_eq!(git(&top, &["status", "--porcelain"]), "", "{turn}");
        assert_eq!(git(&top, &["reflog", "-1", "--format=%H"]), git(&top, &["rev-parse", "HEAD"]));
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}
