//! Output of programs that is longer than their plugins get: it is stored in full, within limits,
//! without secrets, and users can read it.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{ALL, TIERS, ran, runner, script};
use crate::support::{Ended, Place, guest, wait_until};
use crate::trial::{Trial, configure, run_measured, tried};

/// A place where the tools of `shell` and of the guest `runner` may start a shell.
fn place(tier: &str, settings: &str) -> Place {
    let place = Place::new();
    let shell = "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n";
    configure(&place, &format!("{ALL}{shell}[programs]\ntier = '{tier}'\n{settings}"));
    place
}

fn bash(command: &str) -> [String; 3] {
    ["call".to_owned(), "shell.bash".to_owned(), json!({"command": command}).to_string()]
}

fn run(place: &Place, command: &str) -> Ended {
    place.run(&bash(command).each_ref().map(String::as_str))
}

/// The call in the last line of the journal, and the names and sizes of its streams.
fn recorded(place: &Place) -> (String, Vec<(String, u64)>) {
    let journal = place.read(".cofferdam/journal.jsonl");
    let record: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    let outputs = record["outputs"].as_array().cloned().unwrap_or_default();
    let outputs = outputs.iter().map(|output| {
        assert!(output["program"].is_string(), "{record}");
        (output["name"].as_str().unwrap().to_owned(), output["bytes"].as_u64().unwrap())
    });
    (record["call"].as_str().unwrap().to_owned(), outputs.collect())
}

fn output(place: &Place) -> PathBuf {
    place.workspace().join(".cofferdam/output")
}

/// The names in one of the host's own directories; empty if it does not exist.
fn names(place: &Place, directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.workspace().join(".cofferdam").join(directory)) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn log(place: &Place, name: &str, more: &[&str]) -> Ended {
    place.run(&[&["log", "--output", name], more].concat())
}

#[test]
fn progress_of_a_long_program_is_reported() {
    for tier in TIERS {
        let trial = runner(Place::new(), tier, ALL);
        assert_eq!(ran(&trial, script("sleep 4"))["end"], json!({"exited": 0}));
        let heard = trial.heard.progress.lock().unwrap();
        let first = heard.first().map(String::as_str).unwrap_or_default();
        assert!(first.starts_with("bash is running ("), "{heard:?}");
    }
}

#[test]
fn fifty_megabytes_of_output_are_stored_in_bounded_memory() {
    for tier in TIERS {
        let place = place(tier, "");
        let command = bash("seq 7000000; seq 20000 >&2");
        let (ended, peak) = run_measured(&place, &command.each_ref().map(String::as_str));
        assert_eq!(ended.status, 0, "{tier}: {}", ended.stderr);
        assert!(peak < 160, "{tier}: {peak} MiB");
        // The tool returns the beginning and the end.
        let answer = ended.json();
        assert_eq!(answer["truncated"], true);
        let stdout = answer["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n7000000\n"));
        assert!(stdout.len() < 16 << 10 && stdout.contains(" bytes left out ...]\n"));
        let numbers = |to: u32| (1..=to).map(|n| format!("{n}\n")).collect::<String>();
        let (whole, errors) = (numbers(7_000_000), numbers(20_000));
        assert!(whole.len() > 50 << 20);
        let (call, outputs) = recorded(&place);
        let stdout = (format!("{call}.1.stdout"), whole.len() as u64);
        let stderr = (format!("{call}.1.stderr"), errors.len() as u64);
        assert_eq!(outputs, [stdout.clone(), stderr.clone()]);
        for (name, _) in &outputs {
            let hint = format!("cofferdam log --output {name} --format text");
            assert!(ended.stderr.contains(&hint), "{}", ended.stderr);
        }
        assert!(fs::read_to_string(output(&place).join(&stdout.0)).unwrap() == whole, "{tier}");
        // The beginning of the name is enough if it is unambiguous; otherwise the command says so.
        let both = log(&place, &call, &[]);
        assert_eq!(both.status, 2, "{both:?}");
        assert!(both.stderr.contains(&stdout.0) && both.stderr.contains(&stderr.0), "{both:?}");
        let text = ["--stream", "stderr", "--format", "text"];
        assert_eq!(log(&place, &call, &text).stdout, errors);
        let middle = ["--stream", "stdout", "--offset", "30000000", "--length", "1000"];
        let part = log(&place, &call, &middle).json();
        assert_eq!(part["output"], whole[30_000_000..30_001_000]);
        assert_eq!((&part["name"], &part["bytes"]), (&json!(stdout.0), &json!(stdout.1)));
        let line = place.run(&["log", "--format", "text"]).stdout;
        assert!(
            line.contains(&format!("bash printed {} ({} bytes)", stdout.0, stdout.1)),
            "{line}"
        );
    }
}

#[test]
fn short_output_is_not_stored() {
    for tier in TIERS {
        let place = place(tier, "");
        assert_eq!(run(&place, "head -c 14000 /dev/zero | tr '\\0' x").status, 0);
        let (call, outputs) = recorded(&place);
        assert_eq!(outputs, []);
        assert!(!output(&place).exists(), "{tier}");
        for (name, complaint) in [
            (call.as_str(), "nothing is kept of what the programs of call"),
            ("made-up", "there is no call 'made-up' in the journal"),
        ] {
            let ended = log(&place, name, &[]);
            assert_eq!(ended.status, 2, "{ended:?}");
            assert!(ended.stderr.contains(complaint), "{ended:?}");
        }
    }
}

/// A secret is found at any position in the pieces that are read and passed on.
#[test]
fn secrets_do_not_reach_the_file() {
    const TOKEN: &str = "a-token-of-some-length";
    const PRINT: &str = "import os, sys
token = os.environ['GRANTED_TOKEN']
text = ''.join('x' * (n % 97) + token for n in range(20000))
sys.stdout.write(text)
sys.stderr.write(text[:-1])";
    for tier in TIERS {
        let place = place(tier, "");
        let settings = place.home().join(".config/cofferdam/cofferdam.toml");
        let granted = fs::read_to_string(&settings)
            .unwrap()
            .replace("[grants.runner]\n", "[grants.runner]\nenvironment = ['GRANTED_TOKEN']\n");
        fs::write(&settings, granted).unwrap();
        let args = json!({"program": "python3", "arguments": ["-c", PRINT]}).to_string();
        let runner = guest("runner");
        let mut command = place.command(&["--plugin", runner.to_str().unwrap()]);
        command.args(["call", "runner.run", &args]).env("GRANTED_TOKEN", TOKEN);
        let ended = command.output().unwrap();
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let plain = |n: usize| "x".repeat(n % 97) + "[GRANTED_TOKEN]";
        let blotted: String = (0..20_000).map(plain).collect();
        assert!(answer["stdout"] == *blotted, "{tier}");
        let (call, _) = recorded(&place);
        let kept = |stream| fs::read_to_string(output(&place).join(format!("{call}.1.{stream}")));
        assert!(kept("stdout").unwrap() == blotted, "{tier}");
        // The last value is incomplete, so it is not redacted.
        let errors = kept("stderr").unwrap();
        let (before, last) = errors.rsplit_once("[GRANTED_TOKEN]").unwrap();
        assert!(!before.contains(TOKEN) && last.ends_with(&TOKEN[..TOKEN.len() - 1]), "{tier}");
    }
}

#[test]
fn output_beyond_the_limit_is_counted() {
    let place = place("B", "[limits]\nspill-mb = 1\n");
    assert_eq!(run(&place, "yes 0123456 | head -c 3000000").status, 0);
    let (_, outputs) = recorded(&place);
    let kept = fs::read_to_string(output(&place).join(&outputs[0].0)).unwrap();
    let beginning = "0123456\n".repeat(1 << 17);
    assert_eq!(kept, format!("{beginning}\n[... 1951424 bytes left out ...]\n"));
    assert_eq!(outputs[0].1, kept.len() as u64);
}

/// The output of a run that is stopped or fails is the most interesting one.
#[test]
fn output_is_stored_for_every_end_of_a_run() {
    for (tier, end) in [("A", "exit 3"), ("B", "kill -9 $$"), ("A", "sleep 600"), ("B", "yes")] {
        let place = place(tier, "");
        let command = format!("yes | head -c 100000 >&2; {end}");
        let args = json!({"command": command, "timeout_ms": 10_000}).to_string();
        assert_ne!(place.run(&["call", "shell.bash", &args]).status, 0, "{end}");
        let (call, outputs) = recorded(&place);
        assert!(outputs.contains(&(format!("{call}.1.stderr"), 100_000)), "{end}: {outputs:?}");
        assert_eq!(names(&place, "runs"), [""; 0], "{end}");
    }
}

#[test]
fn output_of_a_cancelled_call_or_killed_host_is_removed() {
    for tier in TIERS {
        for signal in [Signal::INT, Signal::KILL] {
            let place = place(tier, "");
            let command = bash("yes | head -c 100000; sleep 600");
            let mut host = place.command(&command.each_ref().map(String::as_str)).spawn().unwrap();
            let begun = || {
                let runs = names(&place, "runs");
                let runs = runs.iter().map(|run| format!(".cofferdam/runs/{run}/stream"));
                runs.into_iter().any(|stream| place.workspace().join(stream).exists())
            };
            wait_until(begun);
            kill_process(Pid::from_child(&host), signal).unwrap();
            host.wait().unwrap();
            assert_eq!(names(&place, "output"), [""; 0], "{tier}");
            if signal == Signal::KILL {
                // The next call removes it.
                assert_eq!(run(&place, "true").status, 0);
            }
            assert_eq!(names(&place, "runs"), [""; 0], "{tier}");
        }
    }
}

#[test]
fn a_conflicting_file_is_set_aside_and_output_is_stored() {
    let place = place("A", "");
    assert_eq!(run(&place, "true").status, 0);
    fs::write(output(&place), "in the way").unwrap();
    let ended = run(&place, "yes | head -c 100000");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.json()["truncated"], true);
    assert!(ended.stderr.contains("it was set aside as "), "{}", ended.stderr);
    assert_eq!(recorded(&place).1.len(), 1);
    assert!(output(&place).is_dir());
    assert_eq!(names(&place, "runs"), [""; 0]);
}

#[test]
fn no_tool_can_read_stored_output() {
    for tier in TIERS {
        let place = place(tier, "");
        assert_eq!(run(&place, "yes secret | head -c 100000").status, 0);
        let (_, outputs) = recorded(&place);
        let path = format!(".cofferdam/output/{}", outputs[0].0);
        // A command whose changes may be kept does not see the host's own directory.
        let ended = run(&place, &format!("cat {path}; ls .cofferdam/output; true"));
        assert_eq!(ended.json()["stdout"], "", "{tier}: {ended:?}");
        let args = json!({"path": path}).to_string();
        assert_ne!(place.run(&["call", "files.read_file", &args]).status, 0);
        let found = place.run(&["call", "grep.grep", &json!({"pattern": "secret"}).to_string()]);
        assert!(!found.stdout.contains("secret\\n"), "{found:?}");
        let settings = "[grants.hostile]\nfiles = 'write'\nscan = true\n";
        let trial = Trial::of_guest(place, settings);
        for what in ["plain-read", "plain-list", "plain-unlink", "plain-write"] {
            for path in [format!("/workspace/{path}"), "/workspace/.cofferdam/output".to_owned()] {
                let outcome = trial
                    .call("hostile.attempt", json!({"what": what, "path": path, "target": "x"}));
                assert!(tried(outcome).is_err(), "{tier}: {what} {path}");
            }
        }
        let kept = trial.place.workspace().join(&path);
        assert_eq!(fs::metadata(kept).unwrap().len(), 100_000);
    }
}

#[test]
fn control_characters_of_a_stream_are_escaped() {
    let place = place("A", "");
    assert_eq!(run(&place, "printf '\\033[2J'; yes | head -c 100000").status, 0);
    let (call, _) = recorded(&place);
    let shown = log(&place, &call, &["--length", "20"]);
    assert!(!shown.stdout.contains('\u{1b}'), "{shown:?}");
    assert!(shown.json()["output"].as_str().unwrap().starts_with("\u{1b}[2Jy\n"));
    // If standard output is not a terminal, the output is not escaped.
    let raw = log(&place, &call, &["--length", "6", "--format", "text"]);
    assert_eq!(raw.stdout, "\u{1b}[2Jy\n");
    for (more, complaint) in [
        (&["--offset", "100005"][..], "has 100004 bytes, so none at 100005"),
        (&["--stream", "stderr"], "has no such stream; it had these"),
        (&["--stream", "stdin"], "stdin"),
        (&["--offset", "-1"], "-1"),
        (&["--diff", "1"], "--diff"),
    ] {
        let ended = log(&place, &call, more);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains(complaint), "{ended:?}");
    }
    assert_eq!(log(&place, &call, &["--offset", "100004", "--format", "text"]).stdout, "");
    assert_eq!(place.run(&["log", "--stream", "stdout"]).status, 2);
}
