//! The console in Chromium, driven by `tests/browser/console.mjs`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{ASKING, Console, hold, numbered};
use crate::mcp::stdio::Session;
use crate::programs;
use crate::support::{Place, built, project};
use crate::trial::configure;

/// The directory in which `cargo xtask test` has installed Playwright and axe.
pub(super) fn modules() -> PathBuf {
    let path = built().parent().unwrap().join("browser/package.json");
    assert!(path.exists(), "{} is missing; run `cargo xtask test`", path.display());
    path
}

fn id_of(place: &Place, session: &str) -> String {
    let listed = place.run(&["review"]).json();
    let mut proposals = listed["proposals"].as_array().unwrap().iter();
    let found = proposals.find(|proposal| proposal["session"] == session);
    found.unwrap_or_else(|| panic!("{listed}"))["id"].as_str().unwrap().to_owned()
}

/// Holds changes of a thousand places, of three files, and of one with a hostile name.
fn prepare(place: &Place) -> Value {
    let lines = |word: &str| -> String {
        (0..8000)
            .map(|at| if at % 8 == 0 { format!("{word} {at}\n") } else { format!("line {at}\n") })
            .collect()
    };
    place.write("large", lines("old"));
    place.write("small", numbered("old"));
    hold(place, "large", &[("large", &lines("new"))]);
    hold(place, "small", &[("small", &numbered("third"))]);
    let name = "<img src=x onerror=alert(1)>\u{202e}.txt";
    let content = "<script>alert(1)</script>\u{202e}\u{1b}[2J\n";
    hold(place, "hostile", &[(name, content), (".envrc", "export A=1\n")]);
    let write = json!({"actions": [{"type": "write_file", "path": "done", "content": "done\n"}]});
    let ran = place.run_with(&["run"], &write.to_string());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let commits = place.run(&["log", "--commits"]).json();
    json!({
        "large": id_of(place, "large"),
        "small": id_of(place, "small"),
        "hostile": id_of(place, "hostile"),
        "commit": commits["records"][0]["commit"],
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the browser is not a part of the host")]
fn every_page_works_in_a_browser() {
    let Some(chromium) = programs::find("chromium") else { return };
    let node = programs::find("node").unwrap();
    let place = Place::new();
    configure(&place, ASKING);
    let mut given = prepare(&place);
    let console = Console::start(&place);
    given["url"] = json!(console.url);
    given["chromium"] = json!(chromium);
    given["modules"] = json!(modules());
    let mut browser = Command::new(node)
        .arg(project().join("tests/browser/console.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(browser.stdin.as_mut().unwrap(), "{given}").unwrap();
    let mut session = Session::begun(&place, &json!({}));
    let mut answers = Vec::new();
    let mut questions = 0;
    for line in BufReader::new(browser.stdout.take().unwrap()).lines() {
        let wanted: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match wanted["want"].as_str() {
            Some("hold") => hold(&place, "later", &[("later", "later\n")]),
            Some("question") => {
                // A call that still runs would change what the user is shown with the next one.
                if questions > 0 {
                    answers.push(session.answer(questions).to_string());
                }
                questions += 1;
                let command = format!("echo '<b>' {questions} >> ran");
                session.call(questions, "shell__run_command", &json!({"command": command}));
            }
            Some("call") => session.call(9, "conformance__wait", &json!({"how": "sleep"})),
            _ => panic!("{wanted}"),
        }
    }
    assert!(browser.wait().unwrap().success());
    // What was decided in the browser.
    let small = place.read("small");
    assert!(small.contains("third 5\n") && small.contains("old 15\n"), "{small}");
    assert!(small.contains("by hand 25\n") && small.contains("old 35\n"), "{small}");
    assert_eq!(place.read("done"), "done\n");
    assert!(place.workspace().join(".envrc").exists());
    assert_eq!(place.read("ran"), "<b> 2\n<b> 3\n<b> 4\n");
    assert_eq!(place.read("large").matches("new ").count(), 3);
    assert!(answers[0].contains("the person said no: no, <i>thanks</i>"), "{answers:?}");
    let answer = session.answer(9).to_string();
    assert!(answer.contains("the user of cofferdam console has cancelled the call"), "{answer}");
}
