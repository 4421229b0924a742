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
        form: None,
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
    let link = |port: u16| Some(format!("http://127.0.0.1:{port}/open?proposal=p"));
    assert_eq!(one.console_link("p"), None);
    let first = one.open_console(1).unwrap();
    assert_eq!([one.console_link("p"), two.console_link("p")], [link(1), link(1)]);
    let second = two.open_console(2).unwrap();
    drop(first);
    assert_eq!(one.console_link("p"), link(2));
    // It does not have to be the process that answers.
    assert!(!one.has_listener());
    drop(second);
    assert_eq!(two.console_link("p"), None);
}

#[test]
fn a_console_that_others_have_written_does_not_count() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let console = workspace.open_console(1).unwrap();
    let directory = root.path().join(OWN).join(QUESTIONS);
    let file = fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let written = fs::read(&file).unwrap();
    let made_up = directory.join("console-0190a0b0-0000-4000-8000-000000000000");
    let lock = || {
        let lock = fs::File::open(&made_up).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        lock
    };
    drop(console);
    // One that is copied to another name, or has no tag.
    for content in [&*written, b"22"] {
        fs::write(&made_up, content).unwrap();
        let _lock = lock();
        assert_eq!(workspace.console_link("p"), None);
    }
    // The next one removes what a killed one has left.
    let _console = workspace.open_console(3).unwrap();
    assert!(!made_up.exists());
}
