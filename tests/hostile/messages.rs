//! A guest's output: searching for information to leak, control characters, floods, invalid
//! answers.

use std::time::{Duration, Instant};

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_text::escape_control;
use serde_json::{Value, json};

use super::component::{Component, Packed, manifest};
use crate::support::{Ended, Place, guest};
use crate::trial::{ALL, Trial, assert_failed, configure, failure, run_measured, tried};

/// The control characters that the guest prints, escaped.
const ESCAPED_SHOUT: &str = "\\u{1b}[31mred\\u{1b}]52;c;aGk=\\u{7}\\u{1b}]0;title\\u{7}\\u{9b}2J\\u{202e}desrever\\u{200b}\\u{e0041}\\u{d}over";

/// The control characters that the guest prints.
const SHOUT: &str = "\u{1b}[31mred\u{1b}]52;c;aGk=\u{7}\u{1b}]0;title\u{7}\u{9b}2J\u{202e}desrever\u{200b}\u{e0041}\rover";

fn misbehave(trial: &Trial, how: &str, size: u64) -> Outcome {
    trial.call("hostile.misbehave", json!({"how": how, "size": size}))
}

/// Runs the command with the Rust guest.
fn command(place: &Place, how: &str, size: u64, options: &[&str]) -> (Ended, u64) {
    let (plugin, args) = (guest("hostile"), json!({"how": how, "size": size}).to_string());
    configure(place, ALL);
    let mut all = vec!["call", "hostile.misbehave", &args, "--plugin", plugin.to_str().unwrap()];
    all.extend(options);
    run_measured(place, &all)
}

/// Case 23.
#[test]
fn a_guest_sees_no_environment_of_the_host() {
    let place = Place::new();
    configure(&place, ALL);
    let args = json!({"how": "look-around"}).to_string();
    let plugin = guest("hostile");
    let output = place
        .command(&["call", "hostile.misbehave", &args, "--plugin", plugin.to_str().unwrap()])
        .env("SECRET_TOKEN", "open sesame")
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    // There are no variables, arguments or working directory.
    assert_eq!(answer, json!({"ok": true, "data": "  None"}));
}

/// Case 23: nor can the guest read the user's input.
#[test]
fn standard_input_is_empty() {
    let place = Place::new();
    configure(&place, ALL);
    let (plugin, args) = (guest("hostile"), json!({"how": "read-input"}).to_string());
    let ended = place.run_with(
        &["call", "hostile.misbehave", &args, "--plugin", plugin.to_str().unwrap()],
        "what somebody types",
    );
    assert_eq!(ended.json(), json!({"ok": true, "data": ""}));
}

/// Case 23: clocks are too coarse for timing attacks on caches.
#[test]
fn clocks_are_coarse() {
    let trial = Trial::of_guest(Place::new(), ALL);
    let steps = tried(misbehave(&trial, "clock-steps", 0)).unwrap();
    for step in steps.split(' ') {
        assert!(step.parse::<u64>().unwrap() >= 1_000_000, "{steps} ns");
    }
}

/// Case 24: 1 GB on standard output.
#[test]
fn a_flood_of_output_is_truncated_with_a_mark() {
    for how in ["print", "print-error", "log"] {
        let started = Instant::now();
        let (ended, peak) = command(&Place::new(), how, 512 << 20, &["-v"]);
        assert_eq!(ended.json(), json!({"ok": true, "data": ""}), "{how}");
        assert!(ended.stderr.contains("[further messages of this call are dropped]"), "{how}");
        assert!(ended.stderr.len() < 100 << 10, "{how}: {} bytes", ended.stderr.len());
        assert!(peak < 300, "{how}: {peak} MiB");
        assert!(started.elapsed() < Duration::from_secs(31), "{how}: {:?}", started.elapsed());
    }
}

/// Case 24: many small messages with control characters, which are longer when escaped.
#[test]
fn many_messages_are_truncated_at_the_budget() {
    let trial = Trial::of_guest(Place::new(), ALL);
    misbehave(&trial, "report-progress", 400_000);
    let said = trial.heard.size();
    assert!((60 << 10..70 << 10).contains(&said), "{said} bytes");
}

/// Case 24: an answer counts as well.
#[test]
fn huge_answers_are_refused() {
    let trial = Trial::of_guest(Place::new(), ALL);
    assert_failed(misbehave(&trial, "answer", 9 << 20), Status::Limit, "OutputLimit", "8192 KiB");
    assert_failed(misbehave(&trial, "answer", 60 << 20), Status::Limit, "TransferLimit", "32 MiB");
}

/// Case 25: messages to an observer in the same process.
#[test]
fn messages_are_escaped() {
    let trial = Trial::of_guest(Place::new(), ALL);
    // The answer is data and is not changed.
    assert_eq!(tried(misbehave(&trial, "shout", 0)).as_deref(), Ok(SHOUT));
    let messages = trial.heard.messages.lock().unwrap();
    let texts: Vec<&str> = messages.iter().map(|(_, text)| text.as_str()).collect();
    let all = texts.concat() + &trial.heard.progress.lock().unwrap().concat();
    assert_eq!(all.matches(ESCAPED_SHOUT).count(), 4, "{all:?}");
    assert_eq!(escape_control(&all), all);
}

/// Case 25: output for a user at a terminal.
#[test]
fn printed_output_is_escaped() {
    for (how, format) in
        [("shout", "text"), ("shout", "json"), ("panic", "text"), ("panic", "json")]
    {
        let (ended, _) = command(&Place::new(), how, 0, &["--format", format, "-vv"]);
        for printed in [&ended.stdout, &ended.stderr] {
            assert_eq!(&escape_control(printed), printed, "{how} {format}");
        }
        assert!(ended.stdout.contains("red") && ended.stderr.contains("desrever"), "{ended:?}");
        if (how, format) == ("shout", "json") {
            assert_eq!(ended.json()["data"], SHOUT, "it means the same");
        }
    }
}

/// Case 25: an error's code and message come from the guest, too; and the journal is read on
/// terminals and has one line for each call.
#[test]
fn errors_are_escaped_and_the_journal_has_one_line_each() {
    let text = "\u{1b}]52;c;aGk=\u{7}\n{\"forged\": true}\u{202e}";
    let bytes: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let component =
        Component::new(&format!("(call $fail (i32.const 256) (i32.const {}))", text.len()))
            .module(&format!("(data (i32.const 256) \"{bytes}\")"));
    let (place, packed) = (Place::new(), component.pack());
    for format in ["text", "json"] {
        let ended = place.run(&[
            "call",
            "attack.go",
            "--format",
            format,
            "--plugin",
            packed.path.to_str().unwrap(),
        ]);
        assert_eq!(ended.status, 1, "{ended:?}");
        assert_eq!(escape_control(&ended.stdout), ended.stdout);
        assert_eq!(escape_control(&ended.stderr), ended.stderr);
    }
    assert_eq!(place.read(".cofferdam/journal.jsonl").lines().count(), 2);
    for format in ["text", "json"] {
        let log = place.run(&["log", "--format", format]);
        assert_eq!(escape_control(&log.stdout), log.stdout);
    }
    let log = place.run(&["log", "--format", "text"]);
    assert_eq!(log.stdout.lines().count(), 2, "{}", log.stdout);
}

/// Case 24: the code of an error is written to the journal for each call.
#[test]
fn a_huge_error_code_does_not_fill_the_journal() {
    let component =
        Component::new("(call $fail (call $alloc (i32.const 4000000)) (i32.const 4000000))");
    let trial = Trial::new(component.pack(), "");
    for _ in 0..3 {
        assert_eq!(failure(trial.call("attack.go", json!({}))).status, Status::Error);
    }
    let journal = trial.place.read(".cofferdam/journal.jsonl");
    assert!(journal.len() < 3 << 10, "{} bytes", journal.len());
}

#[test]
fn a_panic_is_a_trap_with_its_message() {
    let trial = Trial::of_guest(Place::new(), ALL);
    let failure = failure(misbehave(&trial, "panic", 0));
    assert_eq!((failure.status, failure.code.as_str()), (Status::Trap, "PluginCrashed"));
    assert!(
        failure.message.contains(&format!("last words {ESCAPED_SHOUT}")),
        "{}",
        failure.message
    );
    assert_eq!(tried(misbehave(&trial, "answer", 1)).as_deref(), Ok("x"));
}

#[test]
fn a_guest_that_exits_is_a_trap() {
    let trial = Trial::of_guest(Place::new(), ALL);
    assert_failed(misbehave(&trial, "exit", 0), Status::Trap, "PluginCrashed", "exit");
    assert_eq!(tried(misbehave(&trial, "answer", 1)).as_deref(), Ok("x"));
}

/// Case 11, from Rust.
#[test]
fn a_guest_that_sleeps_for_an_hour_is_stopped() {
    let trial = Trial::of_guest(Place::new(), &format!("{ALL}[limits]\ncall-ms = 500\n"));
    let started = Instant::now();
    assert_failed(misbehave(&trial, "sleep", 3600), Status::Limit, "WallClockLimit", "500 ms");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// An answer that does not fit the output schema is the plugin's fault.
#[test]
fn answers_that_do_not_fit_are_the_plugins_fault() {
    let mut strict = manifest();
    strict["tools"][0]["output"] = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer"}}});
    let deep = "[".repeat(100_000);
    for (answer, what) in [
        ("{}", None),
        (r#"{"a": 1}"#, None),
        (r#"{"a": "1"}"#, Some("does not fit its own schema")),
        (r#"{"b": 1}"#, Some("does not fit its own schema")),
        ("[]", Some("does not fit its own schema")),
        ("", Some("no JSON")),
        ("{", Some("no JSON")),
        ("{} {}", Some("no JSON")),
        (r#"{"a": 1e999999}"#, Some("no JSON")),
        (deep.as_str(), Some("no JSON")),
    ] {
        let text: String = answer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        let size = answer.len();
        let component = Component::new(&format!(
            "(local $at i32)
             (memory.init $text (local.tee $at (call $alloc (i32.const {size}))) (i32.const 0) (i32.const {size}))
             (call $answer (local.get $at) (i32.const {size}))"
        ));
        let component = component.module(&format!("(data $text \"{text}\")"));
        let outcome =
            Trial::new(Packed::new(&component.build(), &strict), "").call("attack.go", json!({}));
        match what {
            None => assert!(matches!(outcome, Outcome::Executed(_)), "{answer}: {outcome:?}"),
            Some(what) => {
                assert_failed(outcome.clone(), Status::Trap, "InvalidOutput", what);
                assert_failed(
                    outcome,
                    Status::Trap,
                    "InvalidOutput",
                    "the plugin 'attack' is at fault",
                );
            }
        }
    }
}
