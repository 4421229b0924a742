//! Questions that another process answers, and answers that nobody gave.

use super::*;
use crate::layout::QUESTIONS;
use crate::questions::{GivenAnswer, Question, QuestionAnswer};

fn question(text: &str) -> Question {
    Question {
        tool: "shell.bash".to_owned(),
        session: "task".to_owned(),
        client: None,
        role: None,
        text: text.to_owned(),
        for_session: false,
        is_consent: false,
        args: None,
    }
}

fn given(answer: QuestionAnswer) -> GivenAnswer {
    GivenAnswer { answer, by: "a test".to_owned() }
}

#[test]
fn a_question_is_answered_by_the_one_process_that_listens() {
    let root = tempfile::tempdir().unwrap();
    let (asking, answering) = (open(root.path()), open(root.path()));
    assert!(asking.ask(&question("?")).unwrap().is_none() && !asking.has_listener());
    let listener = answering.listen("a test").unwrap().unwrap();
    assert!(open(root.path()).listen("a test").unwrap().is_none());
    assert!(asking.has_listener());
    let asked = asking.ask(&question("?")).unwrap().unwrap();
    assert_eq!(asked.answer().unwrap(), None);
    let [(name, shown)] = listener.questions().unwrap().try_into().unwrap();
    assert_eq!(shown, question("?"));
    let no = QuestionAnswer::No(Some("not now".to_owned()));
    assert!(listener.answer(&name, &no).unwrap());
    assert!(listener.questions().unwrap().is_empty());
    assert_eq!(asked.answer().unwrap(), Some(given(no)));
    drop(asked);
    assert!(!listener.answer(&name, &QuestionAnswer::Once).unwrap());
    let asked = asking.ask(&question("again")).unwrap().unwrap();
    drop(listener);
    assert!(asked.answer().is_err());
}

#[test]
fn an_answer_that_was_written_by_others_or_for_another_question_does_not_count() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let listener = workspace.listen("a test").unwrap().unwrap();
    let (one, two) = (question("one"), question("two"));
    let [one, two] = [one, two].map(|question| workspace.ask(&question).unwrap().unwrap());
    let named = |text: &str| {
        let questions = listener.questions().unwrap();
        questions.into_iter().find(|(_, question)| question.text == text).unwrap().0
    };
    let (first, second) = (named("one"), named("two"));
    let directory = root.path().join(OWN).join(QUESTIONS);
    fs::write(directory.join(format!("{first}.answer")), "\"Once\"").unwrap();
    assert!(one.answer().is_err());
    assert!(listener.answer(&second, &QuestionAnswer::Once).unwrap());
    let copied = format!("{first}.answer");
    fs::copy(directory.join(format!("{second}.answer")), directory.join(copied)).unwrap();
    assert!(one.answer().is_err());
    assert_eq!(two.answer().unwrap(), Some(given(QuestionAnswer::Once)));
    // Neither is a question that no process has asked.
    let made_up = directory.join("0190a0b0-0000-4000-8000-000000000000");
    fs::write(made_up, "{}").unwrap();
    assert!(listener.questions().unwrap().is_empty());
}

#[test]
fn open_consoles_are_known() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (open(root.path()), open(root.path()));
    assert!(!one.has_console());
    let consoles = [one.open_console().unwrap(), two.open_console().unwrap()];
    assert!(one.has_console() && two.has_console());
    // It does not have to be the process that answers.
    assert!(!one.has_listener());
    drop(consoles);
    assert!(!two.has_console());
}
