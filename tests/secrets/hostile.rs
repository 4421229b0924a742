//! Attempts to read a secret unnoticed, or to send it in another way.

use std::fs;
use std::iter;
use std::os::unix::fs::symlink;

use cofferdam_core::outcome::Outcome;
use cofferdam_engine::call::Session;
use cofferdam_engine::host::RunOptions;
use serde_json::json;

use super::{OWN, Post, SECRET, in_session};
use crate::http::server::{Server, Step, answer};
use crate::trial::failure;

#[test]
fn a_secret_is_known_by_every_name() {
    let post = Post::new(SECRET);
    let root = post.trial.place.workspace();
    symlink("config/prod.key", root.join("link.txt")).unwrap();
    symlink("config", root.join("directory")).unwrap();
    symlink("../notes.txt", root.join("config/named.key")).unwrap();
    fs::hard_link(root.join("config/prod.key"), root.join("hard.txt")).unwrap();
    fs::hard_link(root.join("notes.txt"), root.join("harmless.txt")).unwrap();
    let send = &["send", OWN, "x"][..];
    for path in [
        "link.txt",
        "directory/prod.key",
        "./config/../config//prod.key",
        "directory/../config/prod.key",
        "config/named.key",
        "hard.txt",
    ] {
        let message = post.refused(&[&["read", path], send]);
        assert!(message.contains("the secret 'deploy key' ("), "{path}: {message}");
    }
    fs::create_dir(root.join("links")).unwrap();
    symlink("../config/prod.key", root.join("links/one")).unwrap();
    post.refused(&[&["scan", "links", "following"], send]);
    fs::create_dir(root.join("hard")).unwrap();
    fs::hard_link(root.join("config/prod.key"), root.join("hard/one")).unwrap();
    post.refused(&[&["scan", "hard", ""], send]);
    post.went(&RunOptions::default(), &[&["read", "harmless.txt"], &["scan", "links", ""], send]);
}

#[test]
fn a_script_knows_what_its_calls_have_read() {
    let post = Post::new(SECRET);
    let session = Session::default();
    let read = "courier.go(steps=[['read', 'config/prod.key']])\n";
    let send = format!(
        "try:\n    courier.go(steps=[['send', '{OWN}', 'x']])\n    code = 'sent'\n\
         except ToolError as e:\n    code = e.code\ncode"
    );
    for (code, wanted) in [(send.clone(), "sent"), (format!("{read}{send}"), "SecretFlow")] {
        let args = json!({ "code": code });
        match post.trial.call_with(&in_session(&session), "python.run_python", args) {
            Outcome::Executed(output) => assert_eq!(output["value"], wanted, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
    }
    assert_eq!(post.server.asked().len(), 1);
    post.refused_in(&in_session(&session), &[&["send", OWN, "x"]]);
}

#[test]
fn a_secret_that_is_moved_or_copied_is_known() {
    let post = Post::new(SECRET);
    let send = &["send", OWN, "x"][..];
    for step in [
        &["rename", "config/prod.key", "x.txt"][..],
        &["rename", "config", "other"],
        &["copy", "config/prod.key", "x.txt"],
    ] {
        post.refused(&[step, send]);
        // Within the session, also if the copy is read by a later call.
        let session = Session::default();
        post.went(&in_session(&session), &[step]);
        post.refused_in(&in_session(&session), &[send]);
        for (from, to) in [("other", "config"), ("x.txt", "config/prod.key")] {
            let root = post.trial.place.workspace();
            let _ = fs::rename(root.join(from), root.join(to));
        }
    }
}

#[test]
fn a_body_that_is_written_after_the_secret_was_read_is_not_sent() {
    // A server that answers earlier would receive nothing more.
    let server =
        Server::new(|_| iter::once(Step::ReadChunks).chain(answer(200, "", b"hello")).collect());
    let post = Post::with(server, SECRET);
    let failure = failure(post.go(&RunOptions::default(), &[&["late", OWN, "config/prod.key"]]));
    assert_eq!(failure.code.as_str(), "SecretFlow", "{failure:?}");
    let results = post.went(&RunOptions::default(), &[&["late", OWN, "notes.txt"]]);
    assert!(results[0].contains("200"), "{results:?}");
}

#[test]
fn committed_files_are_known_by_git_and_by_their_objects() {
    let post = Post::new(SECRET);
    let place = &post.trial.place;
    let git = |args: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "prepares a repository")]
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
            .args(args)
            .current_dir(place.workspace())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "x"]);
    git(&["rm", "-q", "config/prod.key", "config/dev.key"]);
    let send = &["send", OWN, "x"][..];
    let show = &["run", "git", "show", "HEAD:config/prod.key"][..];
    assert_eq!(post.went(&RunOptions::default(), &[show]), ["the secret"]);
    post.refused(&[show, send]);
    let message = post.refused(&[&["scan", ".git/objects", ""], send]);
    assert!(message.contains("which holds committed files"), "{message}");
    post.went(&RunOptions::default(), &[&["read", ".git/HEAD"], send]);
}

#[test]
fn what_a_failed_or_atomic_call_has_read_is_known() {
    let post = Post::new(SECRET);
    let session = Session::default();
    let steps: &[&[&str]] = &[&["read", "config/prod.key"], &["send", OWN, "x"]];
    post.refused_in(&in_session(&session), steps);
    post.refused_in(&in_session(&session), &[&["send", OWN, "x"]]);
    let action = |steps: &[&[&str]]| serde_json::json!({"type": "courier.go", "steps": steps});
    let envelope = serde_json::json!({"actions": [action(&steps[..1]), action(&steps[1..])]});
    let outcomes = post.trial.run_atomic(&envelope);
    let codes = outcomes.iter().map(|outcome| match outcome {
        Outcome::Failed(failure) => failure.code.as_str(),
        Outcome::Executed(_) => "executed",
    });
    assert_eq!(codes.collect::<Vec<_>>(), ["RolledBack", "SecretFlow"]);
    assert!(post.server.asked().is_empty());
}
