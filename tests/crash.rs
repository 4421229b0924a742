//! The host is killed, or two hosts work at once: a commit is applied as a whole or not at all, and
//! nothing is lost. Cases 41 and 47, through the real command.
//!
//! | module | what |
//! |---|---|
//! | [`kills`] | the command is killed at random moments while it changes a workspace |
//! | [`checker`] | reads the disk and the journal without the host |

mod checker;
mod kills;

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Place;

/// The numbers in a file, one per line.
fn numbers(text: &str) -> Vec<u32> {
    text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("torn: {line:?}"))).collect()
}

/// An envelope of 100 edits: each changes one number in a file that both processes write, and
/// writes a file of its own.
fn edits(who: u32) -> String {
    let edit = |number: u32| -> [Value; 2] {
        let line = 2 * number + who;
        [
            json!({
                "type": "atomic_replace", "file_path": "shared.txt",
                "replacements": [{
                    "old_string": format!("\n{line}\n"),
                    "new_string": format!("\n{}\n", line + 1000),
                }],
            }),
            json!({
                "type": "write_file", "path": format!("own/{who}-{number}"),
                "content": format!("{who} {number}\n"),
            }),
        ]
    };
    json!({ "actions": (0..100).flat_map(edit).collect::<Vec<_>>() }).to_string()
}

#[test]
fn two_hosts_with_a_hundred_edits_each_lose_no_edit() {
    let place = Place::new();
    let lines: String = (0..200).map(|line| format!("{line}\n")).collect();
    place.write("shared.txt", format!("0\n{lines}"));
    let files = [0, 1].map(|who| {
        let file = place.workspace().with_file_name(format!("edits-{who}.json"));
        fs::write(&file, edits(who)).unwrap();
        file
    });
    let children =
        files.map(|file| place.command(&["run", file.to_str().unwrap()]).spawn().unwrap());
    // A reader never sees a partly written file meanwhile.
    let shared = place.workspace().join("shared.txt");
    let mut looks = 0;
    let mut children = children.map(Some);
    while let Some(child) = children.iter_mut().flatten().next() {
        assert_eq!(numbers(&fs::read_to_string(&shared).unwrap()).len(), 201);
        looks += 1;
        if child.try_wait().unwrap().is_some() {
            let child = children.iter_mut().find_map(Option::take).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(looks > 10);
    let found = numbers(&place.read("shared.txt"));
    assert_eq!(found[1..], (1000..1200).collect::<Vec<u32>>());
    for who in 0..2 {
        for number in 0..100 {
            assert_eq!(place.read(&format!("own/{who}-{number}")), format!("{who} {number}\n"));
        }
    }
    let commits = place.run(&["log", "--commits", "-n", "1000"]).json();
    assert_eq!(commits["records"].as_array().unwrap().len(), 400);
}

/// A commit whose host was killed before it was in the history, as its file shows it.
#[test]
fn the_doctor_reports_an_interrupted_commit() {
    let place = Place::new();
    let write = |path: &str| json!({"type": "write_file", "path": path, "content": "new\n"});
    let actions = json!({"actions": [write("a"), write("b")]}).to_string();
    assert_eq!(place.run_with(&["run", "--atomic"], &actions).status, 0);
    let own = place.workspace().join(".cofferdam");
    let [commit] =
        fs::read_dir(own.join("history")).unwrap().collect::<Vec<_>>().try_into().unwrap();
    let staged = own.join("staging/manifest.json");
    fs::rename(commit.unwrap().path(), &staged).unwrap();
    let whole = fs::read(&staged).unwrap();
    let reported = || {
        let ended = place.run(&["doctor"]);
        let findings = ended.json()["findings"].as_array().unwrap().clone();
        let found = findings.iter().find(|found| found["what"] == "interrupted commit").unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (ended.status, text("verdict"), text("detail"))
    };
    let (status, verdict, detail) = reported();
    assert_eq!((status, verdict.as_str()), (0, "warning"), "{detail}");
    assert!(detail.contains("was interrupted (changes: 2)"), "{detail}");
    assert!(detail.contains("the next call that changes something"), "{detail}");

    // Without its end, it can't be read, and the user has to decide.
    fs::write(&staged, &whole[..whole.len() - 1]).unwrap();
    let (status, verdict, detail) = reported();
    assert_eq!((status, verdict.as_str()), (5, "broken"), "{detail}");
    assert!(detail.contains("mv .cofferdam/staging .cofferdam/interrupted"), "{detail}");
    fs::write(&staged, &whole).unwrap();

    let args = json!({"path": "c", "content": "c"}).to_string();
    assert_eq!(place.run(&["call", "files.write_file", &args]).status, 0);
    assert_eq!(reported(), (0, "ok".to_owned(), "none".to_owned()));
    assert_eq!((place.read("a"), place.read("b")), ("new\n".to_owned(), "new\n".to_owned()));
}
