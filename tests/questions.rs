//! Questions of plugins inside calls: what is kept while the user is asked, approvals beside them, and calls that
//! may not ask. The guest `courier` asks what it is told to. What clients show is tested in `mcp::forms`.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use cofferdam_core::form::FormAnswer;
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_engine::host::{Approval, Approver, AskedForms, FormAnswers, Proposal, RunOptions};
use serde_json::{Value, json};

use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::{Trial, assert_failed};
use cofferdam_core::outcome::Status;

const GRANTED: &str = "[grants.courier]\nfiles = 'write'\nquestions = true\n";

/// A user who types these texts, one after the other, approves every call, and notes what was asked.
struct User {
    place: std::path::PathBuf,
    answers: Mutex<Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
}

impl User {
    fn new(trial: &Trial, answers: &[&'static str]) -> Arc<Self> {
        let place = trial.place.workspace();
        let answers = Mutex::new(answers.iter().rev().copied().collect());
        Arc::new(Self { place, answers, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn options(self: &Arc<Self>) -> RunOptions {
        RunOptions { approver: Some(self.clone()), ..RunOptions::default() }
    }
}

impl Approver for User {
    fn approve<'a>(
        &'a self,
        proposal: &'a Proposal,
    ) -> Pin<Box<dyn Future<Output = Result<Approval, Failure>> + Send + 'a>> {
        let diff = String::from_utf8(proposal.diff.clone().unwrap()).unwrap();
        let added = diff.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++"));
        self.asked.lock().unwrap().push(format!("approve {}", added.collect::<String>()));
        Box::pin(async { Ok(Approval::default()) })
    }

    fn ask<'a>(
        &'a self,
        asked: &'a AskedForms,
    ) -> Pin<Box<dyn Future<Output = Result<FormAnswers, Failure>> + Send + 'a>> {
        let answer = |question: &cofferdam_engine::call::PluginQuestion| {
            assert_eq!(question.plugin, "courier");
            // Nothing of the call is kept while the user is asked.
            assert!(!self.place.join("before").exists());
            self.asked.lock().unwrap().push(question.message.clone());
            let text = self.answers.lock().unwrap().pop().expect("no more questions");
            let Value::Object(content) = json!({ "text": text }) else { unreachable!() };
            FormAnswer::Accepted(content)
        };
        let answers = asked.questions.iter().map(answer).collect();
        Box::pin(async { Ok(FormAnswers { answers, is_new: true }) })
    }

    fn was_asked(&self) -> bool {
        false
    }
}

fn trial(settings: &str) -> Trial {
    Trial::with(Place::new(), vec![Packed::guest("courier")], settings)
}

/// Takes some steps in one call that has to succeed; returns what came of them.
#[track_caller]
fn went(trial: &Trial, options: &RunOptions, steps: &[&[&str]]) -> Value {
    match trial.call_with(options, "courier.go", json!({ "steps": steps })) {
        Outcome::Executed(mut output) => output["results"].take(),
        other => panic!("{steps:?}: {other:?}"),
    }
}

#[test]
fn the_call_is_made_again_with_the_answers_and_commits_once() {
    let trial = trial(GRANTED);
    let user = User::new(&trial, &["one", "two"]);
    let steps: &[&[&str]] = &[
        &["write", "before", "x"],
        &["ask", "First?"],
        &["write-answer", "after", "Second?"],
        &["ask", "First?"],
    ];
    assert_eq!(went(&trial, &user.options(), steps), json!(["written", "one", "two", "one"]));
    assert_eq!(user.asked(), ["First?", "Second?"]);
    assert_eq!((trial.place.read("before"), trial.place.read("after")), ("x".into(), "two".into()));
}

#[test]
fn a_user_who_approves_a_call_sees_what_the_answers_lead_to() {
    let trial = trial(&format!("ask = ['courier.go']\n{GRANTED}"));
    let user = User::new(&trial, &["typed"]);
    let steps: &[&[&str]] = &[&["write-answer", "after", "What?"]];
    assert_eq!(went(&trial, &user.options(), steps), json!(["typed"]));
    assert_eq!(user.asked(), ["What?", "approve +typed"]);
    assert_eq!(trial.place.read("after"), "typed");
}

#[test]
fn a_call_asks_eight_questions_in_all() {
    let trial = trial(GRANTED);
    let user = User::new(&trial, &["a"; 8]);
    let messages: Vec<String> = (0..10).map(|at| format!("{at}?")).collect();
    let steps: Vec<Vec<&str>> = messages.iter().map(|message| vec!["ask", message]).collect();
    let steps: Vec<&[&str]> = steps.iter().map(Vec::as_slice).collect();
    let results = went(&trial, &user.options(), &steps);
    assert_eq!(results[7], "a");
    assert_eq!((&results[8], &results[9]), (&json!("QuestionRefused"), &json!("QuestionRefused")));
    assert_eq!(user.asked().len(), 8);
}

#[test]
fn without_a_grant_or_a_user_nothing_is_asked() {
    let trial = trial("[grants.courier]\nfiles = 'write'\n");
    let user = User::new(&trial, &[]);
    let steps = json!({"steps": [["ask", "What?"]]});
    let outcome = trial.call_with(&user.options(), "courier.go", steps);
    assert_failed(outcome, Status::Denied, "NotGranted", "questions = true");
    assert!(user.asked().is_empty());
    let trial = self::trial(GRANTED);
    assert_eq!(went(&trial, &RunOptions::default(), &[&["ask", "What?"]]), json!(["NoUser"]));
}
