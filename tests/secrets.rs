//! Secrets of the settings through the whole path of a call: what a call, or its session, has read of
//! them is sent to other origins than theirs only if the user approves. The guest `courier` reads files
//! and sends requests.

mod clients;
mod hostile;
mod policy;
mod questions;

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use cofferdam_core::outcome::{DenialCode, Failure, Outcome, Status};
use cofferdam_engine::call::Session;
use cofferdam_engine::host::{Approval, Approver, Proposal, RunOptions};
use serde_json::json;

use crate::hostile::component::Packed;
use crate::http::records::journal;
use crate::http::server::{Server, answer};
use crate::support::Place;
use crate::trial::{Trial, failure};

/// A secret with two files, in a workspace with other files.
const SECRET: &str = "[secrets.'deploy key']\npaths = ['config/*.key']\n";

const OWN: &str = "https://test.example/a";
const OTHER: &str = "https://other.example/a";

/// A user who gives the same answer to each question.
struct User {
    approves: bool,
    asked: Mutex<Vec<Proposal>>,
}

impl User {
    fn new(approves: bool) -> Arc<Self> {
        Arc::new(Self { approves, asked: Mutex::default() })
    }

    /// What the user was asked, as one text for each question.
    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|asked| asked.flow.as_ref().unwrap().to_string()).collect()
    }
}

impl Approver for User {
    fn approve<'a>(
        &'a self,
        proposal: &'a Proposal,
    ) -> Pin<Box<dyn Future<Output = Result<Approval, Failure>> + Send + 'a>> {
        self.asked.lock().unwrap().push(proposal.clone());
        let answer = match self.approves {
            true => Ok(Approval { tree: proposal.tree, ..Approval::default() }),
            false => Err(Failure::new(DenialCode::Declined, "the person said no")),
        };
        Box::pin(async move { answer })
    }

    fn was_asked(&self) -> bool {
        false
    }
}

/// A host with the guest `courier`, which may send to two origins of one server, and `settings`.
struct Post {
    server: Server,
    trial: Trial,
}

impl Post {
    fn new(settings: &str) -> Self {
        Self::with(Server::new(|_| answer(200, "", b"hello")), settings)
    }

    fn with(server: Server, settings: &str) -> Self {
        let place = Place::new();
        place.write("config/prod.key", "the secret");
        place.write("config/dev.key", "another secret");
        place.write("notes.txt", "no secret");
        let origin = |origin: &str| {
            format!(
                "[[grants.courier.http]]\norigin = '{origin}'\naddress = '{}'\nca-file = '{}'\n",
                server.address(),
                server.authority().display()
            )
        };
        let settings = format!(
            "[programs]\ntier = 'A'\n[grants.courier]\nfiles = 'write'\nscan = true\ncache = true\n\
             process = ['cat', 'git', 'python3']\n[grants.python]\nfiles = 'write'\ntools = true\n\
             backends = ['checker']\n{}{}{settings}",
            origin("https://test.example"),
            origin("https://other.example"),
        );
        let trial = Trial::with_programs(
            place,
            vec![Packed::guest("courier"), Packed::built_in("python")],
            &settings,
        );
        Self { server, trial }
    }

    /// Takes some steps in one call.
    fn go(&self, options: &RunOptions, steps: &[&[&str]]) -> Outcome {
        self.trial.call_with(options, "courier.go", json!({ "steps": steps }))
    }

    /// Takes some steps in a call of which nobody can be asked; returns the message of its refusal.
    #[track_caller]
    fn refused(&self, steps: &[&[&str]]) -> String {
        self.refused_in(&RunOptions::default(), steps)
    }

    #[track_caller]
    fn refused_in(&self, options: &RunOptions, steps: &[&[&str]]) -> String {
        let before = self.server.asked().len();
        let failure = failure(self.go(options, steps));
        assert_eq!(
            (failure.status, failure.code.as_str()),
            (Status::Denied, "SecretFlow"),
            "{failure:?}"
        );
        assert_eq!(self.server.asked().len(), before, "{steps:?}");
        failure.message
    }

    /// Takes some steps in a call that has to succeed; returns what came of them.
    #[track_caller]
    fn went(&self, options: &RunOptions, steps: &[&[&str]]) -> Vec<String> {
        match self.go(options, steps) {
            Outcome::Executed(output) => {
                let results = output["results"].as_array().unwrap().iter();
                results.map(|result| result.as_str().unwrap().to_owned()).collect()
            }
            other => panic!("{steps:?}: {other:?}"),
        }
    }
}

fn in_session(session: &Session) -> RunOptions {
    RunOptions { session: session.clone(), ..RunOptions::default() }
}

fn asking(user: &Arc<User>) -> RunOptions {
    RunOptions { approver: Some(user.clone()), ..RunOptions::default() }
}

/// Settings that allow the first origin.
fn allowing() -> String {
    format!("{SECRET}origins = ['https://test.example']\n")
}

#[test]
fn what_is_not_secret_is_sent() {
    let post = Post::new(SECRET);
    let steps: &[&[&str]] = &[&["read", "notes.txt"], &["list", "config"], &["send", OWN, "x"]];
    let results = post.went(&RunOptions::default(), steps);
    assert_eq!((results[0].as_str(), results[2].as_str()), ("no secret", "200"));
    // A request that is sent before the secret was read can't hold it.
    let steps: &[&[&str]] = &[&["send", OWN, "x"], &["read", "config/prod.key"]];
    assert_eq!(post.went(&RunOptions::default(), steps), ["200", "the secret"]);
}

#[test]
fn a_secret_is_sent_to_its_own_origins_only() {
    let post = Post::new(&allowing());
    let read = &["read", "config/prod.key"][..];
    assert_eq!(post.went(&RunOptions::default(), &[read, &["send", OWN, "x"]])[1], "200");
    let message = post.refused(&[read, &["send", OTHER, "x"]]);
    assert_eq!(
        message,
        "nothing was sent: it has read the secret 'deploy key' (config/prod.key), and would send to \
         https://other.example, which the settings do not allow and nobody can be asked here; an MCP \
         client that supports elicitation can. A person can allow it by origins = \
         [\"https://other.example\"] under [secrets.\"deploy key\"]"
    );
}

#[test]
fn nothing_that_a_stopped_call_has_changed_is_kept() {
    let post = Post::new(SECRET);
    let steps: &[&[&str]] =
        &[&["write", "new.txt", "x"], &["read", "config/prod.key"], &["send", OWN, "x"]];
    post.refused(steps);
    assert!(!post.trial.place.workspace().join("new.txt").exists());
    let user = User::new(true);
    assert_eq!(post.went(&asking(&user), steps), ["written", "the secret", "200"]);
    assert_eq!(post.trial.place.read("new.txt"), "x");
}

#[test]
fn a_session_that_has_read_a_secret_knows_it() {
    let post = Post::new(&allowing());
    let (session, other) = (Session::default(), Session::default());
    post.went(&in_session(&session), &[&["read", "config/prod.key"]]);
    post.went(&in_session(&other), &[&["read", "notes.txt"]]);
    let send = &["send", OTHER, "what the model knows"][..];
    let message = post.refused_in(&in_session(&session), &[send]);
    assert!(message.contains("the secret 'deploy key' (config/prod.key)"), "{message}");
    assert_eq!(post.went(&in_session(&session), &[&["send", OWN, "x"]]), ["200"]);
    assert_eq!(post.went(&in_session(&other), &[send]), ["200"]);
}

#[test]
fn a_redirect_is_decided_like_any_request() {
    let server = Server::new(|head| match head.to_lowercase().contains("host: test.example") {
        true => answer(302, &format!("Location: {OTHER}\r\n"), b""),
        false => answer(200, "", b"hello"),
    });
    let post = Post::with(server, &allowing());
    let steps: &[&[&str]] = &[&["read", "config/prod.key"], &["send", OWN, "x"]];
    let failure = failure(post.go(&RunOptions::default(), steps));
    assert_eq!(failure.code.as_str(), "SecretFlow");
    assert_eq!(post.server.lines(), ["POST /a HTTP/1.1"]);
    let user = User::new(true);
    assert_eq!(post.went(&asking(&user), steps)[1], "200");
    assert_eq!(user.asked().len(), 1);
}

#[test]
fn a_scan_and_a_listing_of_contents_are_reads() {
    let post = Post::new(SECRET);
    let send = &["send", OWN, "x"][..];
    let message = post.refused(&[&["scan", ".", ""], send]);
    assert!(message.contains("(config/dev.key, config/prod.key)"), "{message}");
    let message = post.refused(&[&["write", "x", "y"], &["scan", "config", ""], send]);
    assert!(message.contains("(config/dev.key, config/prod.key)"), "{message}");
    post.trial.place.write("other/a.txt", "x");
    post.went(&RunOptions::default(), &[&["scan", "other", ""], send]);
}

#[test]
fn a_value_is_not_cached_by_a_call_that_has_read_a_secret() {
    let post = Post::new(SECRET);
    post.went(
        &RunOptions::default(),
        &[&["put", "plain", "1"], &["read", "config/prod.key"], &["put", "secret", "2"]],
    );
    let kept = post.went(
        &RunOptions::default(),
        &[&["get", "plain"], &["get", "secret"], &["send", OWN, "x"]],
    );
    assert_eq!(kept, ["1", "nothing", "200"]);
}

#[test]
fn a_program_could_have_read_every_secret() {
    let post = Post::new(&allowing());
    let run = &["run", "cat", "notes.txt"][..];
    let message = post.refused(&[run, &["send", OTHER, "x"]]);
    assert!(message.contains("'deploy key' (the program `cat` could read it)"), "{message}");
    assert_eq!(post.went(&RunOptions::default(), &[run, &["send", OWN, "x"]])[1], "200");
}

#[test]
fn the_journal_names_the_secrets_of_a_call() {
    let post = Post::new(SECRET);
    post.went(&RunOptions::default(), &[&["read", "config/prod.key"]]);
    post.went(&RunOptions::default(), &[&["read", "notes.txt"]]);
    let lines = journal(&post.trial);
    let named: Vec<_> = lines.iter().filter_map(|line| line.get("secrets")).collect();
    assert_eq!(named, [&json!(["deploy key"])]);
}
