//! `cofferdam review answer`: a user at a terminal answers the questions of calls.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::ASKING;
use super::stdio::Session;
use crate::support::{Place, wait_until};
use crate::trial::configure;

/// The command, as a program uses it.
pub struct Terminal {
    child: Child,
    answers: Option<ChildStdin>,
    questions: BufReader<ChildStdout>,
}

impl Terminal {
    pub fn new(place: &Place) -> Self {
        let mut command = place.command(&["review", "answer"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (answers, questions) = (child.stdin.take(), child.stdout.take().unwrap());
        let listening = place.workspace().join(".cofferdam/questions/listening");
        wait_until(|| listening.exists());
        // Until it holds the lock as well, another one could take it.
        wait_until(|| place.run(&["review", "answer"]).status == 2);
        Self { child, answers, questions: BufReader::new(questions) }
    }

    pub fn question(&mut self) -> Value {
        let mut line = String::new();
        self.questions.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub fn say(&mut self, answer: &str) {
        writeln!(self.answers.as_ref().unwrap(), "{answer}").unwrap();
    }

    /// Closes its input.
    pub fn end(mut self) {
        drop(self.answers.take());
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn place() -> Place {
    let place = Place::new();
    configure(&place, ASKING);
    place
}

fn run(session: &mut Session, id: u64, command: &str) {
    session.call(id, "shell__run_command", &json!({ "command": command }));
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// A client that can't ask.
#[test]
fn a_terminal_answers_for_a_client_that_can_not_ask() {
    let place = place();
    let mut session = Session::begun(&place, &json!({}));
    run(&mut session, 1, "echo one >> ran");
    let answer = session.answer(1);
    assert!(text(&answer).contains("`cofferdam review answer`"), "{answer}");

    let mut terminal = Terminal::new(&place);
    run(&mut session, 2, "echo two\u{202e} >> ran");
    let question = terminal.question();
    assert_eq!(
        (&question["tool"], &question["client"]),
        (&json!("shell.run_command"), &json!("tests 0"))
    );
    let asked = question["text"].as_str().unwrap();
    assert!(
        asked.contains("May shell.run_command be called?") && asked.contains("echo two\\u{202e}"),
        "{asked}"
    );
    terminal.say("maybe");
    terminal.say("y");
    assert_eq!(session.answer(2)["result"]["isError"], false);

    run(&mut session, 3, "echo three >> ran");
    terminal.question();
    terminal.say("n use two");
    let answer = session.answer(3);
    assert!(text(&answer).contains("the person said no: use two"), "{answer}");
    assert_eq!(place.read("ran"), "two\u{202e}\n");

    // For the whole session.
    run(&mut session, 4, "true");
    assert_eq!(terminal.question()["for_session"], true);
    terminal.say("s");
    assert_eq!(session.answer(4)["result"]["isError"], false);
    run(&mut session, 5, "true");
    assert_eq!(session.answer(5)["result"]["isError"], false);

    let log = place.run(&["log"]).stdout;
    // Three answers, and the three calls that were approved, one of them with an earlier one.
    assert_eq!(log.matches("the user of cofferdam review answer").count(), 6, "{log}");
    assert_eq!(log.matches("review answer, with an earlier call").count(), 1, "{log}");
    terminal.end();
}

/// Calls like one that was approved run for a time, others are asked about.
#[test]
fn a_terminal_approves_a_pattern_for_a_time() {
    let place = place();
    let mut terminal = Terminal::new(&place);
    let mut session = Session::begun(&place, &json!({}));
    run(&mut session, 1, "echo one >> ran");
    assert_eq!(terminal.question()["args"], json!({"command": "echo one >> ran"}));
    for wrong in ["t", "t 0", "t 1441", "t 5 command", "t 5 nothing=*", "t 5 command=cat *"] {
        terminal.say(wrong);
    }
    terminal.say("t 5 command=echo * >> ran");
    assert_eq!(session.answer(1)["result"]["isError"], false);
    run(&mut session, 2, "echo two >> ran");
    assert_eq!(session.answer(2)["result"]["isError"], false);
    // In a script, too.
    let code = "shell.run_command(command='echo three >> ran')
shell.run_command(command='rm ran')";
    session.call(3, "python__run_python", &json!({ "code": code }));
    assert_eq!(terminal.question()["args"], json!({"command": "rm ran"}));
    terminal.say("n");
    assert_eq!(session.answer(3)["result"]["isError"], true);
    run(&mut session, 4, "echo four > ran");
    terminal.question();
    terminal.say("n");
    assert_eq!(session.answer(4)["result"]["isError"], true);
    assert_eq!(place.read("ran"), "one\ntwo\n");
    // Another session has approved nothing.
    let mut other = Session::begun(&place, &json!({}));
    run(&mut other, 1, "echo two >> ran");
    terminal.question();
    terminal.say("n");
    assert_eq!(other.answer(1)["result"]["isError"], true);
    let log = place.run(&["log"]).stdout;
    assert!(log.contains("for 5 min, like {\\\"command\\\":\\\"echo * >> ran\\\"}"), "{log}");
    terminal.end();
}

/// The first answer counts, wherever it is given.
#[test]
fn the_client_and_the_terminal_are_both_asked() {
    let place = place();
    let mut terminal = Terminal::new(&place);
    let mut session = Session::begun(&place, &json!({"elicitation": {}}));
    run(&mut session, 1, "echo one >> ran");
    assert_eq!(session.next_message()["method"], "elicitation/create");
    terminal.question();
    terminal.say("y");
    assert_eq!(session.answer(1)["result"]["isError"], false);

    run(&mut session, 2, "echo two >> ran");
    let asked = session.next_message();
    terminal.question();
    let yes = json!({"action": "accept", "content": {}});
    session.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}));
    assert_eq!(session.answer(2)["result"]["isError"], false);
    // Too late: it counts for no other call.
    terminal.say("y");
    run(&mut session, 3, "echo three >> ran");
    session.next_message();
    terminal.question();
    terminal.say("n");
    assert!(text(&session.answer(3)).contains("the person said no"));
    assert_eq!(place.read("ran"), "one\ntwo\n");
    terminal.end();
}

#[test]
fn a_script_waits_for_the_terminal_and_ends_with_it() {
    let place = place();
    let mut terminal = Terminal::new(&place);
    let mut session = Session::begun(&place, &json!({}));
    let code = "files.write_file(path='a', content='a\\n')
shell.run_command(command='cat a >> ran')
shell.run_command(command='cat a >> ran')";
    session.call(1, "python__run_python", &json!({ "code": code }));
    terminal.question();
    terminal.say("y");
    terminal.question();
    terminal.end();
    let answer = session.answer(1);
    assert!(text(&answer).contains("nobody answers any more"), "{answer}");
    assert!(!place.workspace().join("a").exists());
}

/// Nothing is left of a server that was killed while it waited.
#[test]
fn questions_of_killed_servers_are_not_shown() {
    let place = place();
    let mut terminal = Terminal::new(&place);
    let mut session = Session::begun(&place, &json!({}));
    run(&mut session, 1, "echo one >> ran");
    terminal.question();
    drop(session);
    terminal.say("y");
    let mut session = Session::begun(&place, &json!({}));
    run(&mut session, 1, "echo two >> ran");
    assert!(terminal.question()["text"].as_str().unwrap().contains("echo two"));
    terminal.say("y");
    assert_eq!(session.answer(1)["result"]["isError"], false);
    assert_eq!(place.read("ran"), "two\n");
    terminal.end();
}

/// A plugin asks for consent to one action of its call; a yes for the session is for the same action.
#[test]
fn a_terminal_answers_about_an_action_of_a_plugin() {
    let place = Place::new();
    let create =
        json!({"path": "a.db", "create": true, "sql": "CREATE TABLE t (a); CREATE TABLE u (a)"});
    assert_eq!(place.run(&["call", "sqlite.execute_sql", &create.to_string()]).status, 0);
    configure(
        &place,
        "[grants.sqlite.consent]\ndrop = { ask = ['*'] }\n[roles.coder]\ntools = ['*']\n",
    );
    let mut terminal = Terminal::new(&place);
    let mut session = Session::begun(&place, &json!({}));
    let change = |session: &mut Session, id: u64, sql: &str| {
        session.call(id, "sqlite__execute_sql", &json!({"path": "a.db", "sql": sql}));
    };
    change(&mut session, 1, "DROP TABLE t");
    let question = terminal.question();
    let asked = question["text"].as_str().unwrap();
    let wanted = "May sqlite.execute_sql go on? The plugin 'sqlite' asks for your consent: drop \"a.db: t\" \
                  (Drops or empties a table of a database). Its arguments:";
    assert!(asked.starts_with(wanted), "{asked}");
    assert_eq!((&question["for_session"], &question["args"]), (&json!(true), &json!(null)));
    terminal.say("n not today");
    let answer = session.answer(1);
    assert!(text(&answer).contains("the person said no: not today"), "{answer}");
    change(&mut session, 2, "DROP TABLE t; CREATE TABLE t (a)");
    terminal.question();
    terminal.say("s");
    assert_eq!(session.answer(2)["result"]["isError"], false);
    change(&mut session, 3, "DROP TABLE t; CREATE TABLE t (a)");
    assert_eq!(session.answer(3)["result"]["isError"], false);
    // Another table, and another session.
    change(&mut session, 4, "DROP TABLE u");
    assert!(terminal.question()["text"].as_str().unwrap().contains("a.db: u"));
    terminal.say("y");
    assert_eq!(session.answer(4)["result"]["isError"], false);
    let mut other = Session::begun(&place, &json!({}));
    change(&mut other, 1, "DROP TABLE t");
    terminal.question();
    terminal.say("n");
    assert_eq!(other.answer(1)["result"]["isError"], true);
    terminal.end();
}
