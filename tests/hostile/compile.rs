//! Components that attack the compiler (case 13), and compilers that fail.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_engine::host::Helper;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::component::{Component, Packed};
use super::engine::ANSWER;
use crate::support::{Place, built, wait_until};
use crate::trial::{Trial, assert_failed};

/// A component of about ten kilobytes that takes seconds and hundreds of megabytes to compile:
/// `functions` functions in which all `locals` variables are live through `loops` loops.
fn bomb(locals: usize, loops: usize, functions: usize) -> Packed {
    let mut body = String::new();
    for i in 0..loops {
        let (to, from) = (i % locals, (i * 7 + 1) % locals);
        body += &format!(
            "(loop (local.set {to} (i32.add (local.get {from}) (local.get {to}))) (br_if 0 (local.get {to})))"
        );
    }
    for i in 0..locals {
        body += &format!("(i32.add (local.get {i})");
    }
    body += &format!("(i32.const 0){}", ")".repeat(locals));
    let function = format!("(func (result i32) (local {}) {body})", "i32 ".repeat(locals));
    let module = format!("(core module $bomb {})", function.repeat(functions));
    Component::new(ANSWER).definitions(&module).pack()
}

fn honest() -> Packed {
    Component::new(ANSWER).pack_as("honest")
}

/// A host whose compiler is `program`.
fn host(place: Place, plugins: Vec<Packed>, settings: &str, program: PathBuf) -> Trial {
    let cache = place.home().join("code");
    Trial::compiling(place, plugins, settings, cache, Helper::at(program))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The outcome of a bomb's call, in a host that executes an honest plugin's call before and
/// afterwards.
fn run_bomb(bomb: Packed, settings: &str) -> Outcome {
    let trial = host(Place::new(), vec![bomb, honest()], settings, built().join("cofferdam"));
    let call = || assert_eq!(trial.call("honest.go", json!({})), Outcome::Executed(json!({})));
    call();
    let outcome = trial.call("attack.go", json!({}));
    call();
    // The second call has the same outcome without being compiled again.
    assert_eq!(trial.call("attack.go", json!({})), outcome);
    outcome
}

#[test]
fn a_plugin_is_compiled_in_a_worker_process_once() {
    let place = Place::new();
    let packed = honest();
    let copy = Packed::from_bytes(&fs::read(&packed.path).unwrap());
    let cache = place.home().join("code");
    let trial = host(place, vec![packed], "", built().join("cofferdam"));
    assert_eq!(trial.call("honest.go", json!({})), Outcome::Executed(json!({})));
    // The code is cached, so no compiler is needed.
    let nowhere = Helper::at("/nowhere/cofferdam");
    let again = Trial::compiling(Place::new(), vec![copy], "", cache, nowhere).unwrap();
    assert_eq!(again.call("honest.go", json!({})), Outcome::Executed(json!({})));
}

#[test]
fn a_component_that_takes_too_long_to_compile_is_refused() {
    // On a fast machine, the default memory limit would be exceeded before the timeout.
    let settings = "[limits]\ncompile-ms = 4000\ncompile-memory-mb = 16384\n";
    let outcome = run_bomb(bomb(2000, 2000, 8), settings);
    assert_failed(outcome, Status::Limit, "CompileTimeLimit", "4000 ms (limits.compile-ms)");
}

#[test]
fn a_component_that_takes_too_much_memory_to_compile_is_refused() {
    let outcome = run_bomb(bomb(1000, 5000, 1), "[limits]\ncompile-memory-mb = 64\n");
    assert_failed(
        outcome,
        Status::Limit,
        "CompileMemoryLimit",
        "64 MiB of memory (limits.compile-memory-mb)",
    );
}

#[test]
fn a_component_that_is_not_valid_is_refused_as_without_a_compiler() {
    let memories = "(core module $m (memory 1) (memory 1)) (core instance (instantiate $m))";
    let invalid = Component::new(ANSWER).definitions(memories).pack();
    assert_failed(run_bomb(invalid, ""), Status::Trap, "InvalidComponent", "multiple memories");
}

/// What a compiler does that was taken over or that crashes.
#[test]
fn a_compiler_that_fails_is_reported() {
    for (body, status, code, words) in [
        ("kill -SEGV $$", Status::Trap, "CompilerCrashed", "signal: 11"),
        ("echo thread panicked >&2; exit 101", Status::Trap, "CompilerCrashed", "thread panicked"),
        ("exit 0", Status::Trap, "CompilerCrashed", "exit status: 0"),
        ("printf '\\033[31mred' >&2; exit 1", Status::Trap, "CompilerCrashed", "\\u{1b}[31mred"),
        ("echo nonsense", Status::Trap, "CompilerCrashed", "its answer is invalid"),
        ("printf +code", Status::Failed, "CompilerUnavailable", "compiled code"),
        ("printf -- '-it is \\033bad'", Status::Trap, "InvalidComponent", "it is \\u{1b}bad"),
    ] {
        let place = Place::new();
        let script = place.script("compiler", body);
        let trial = host(place, vec![Component::new(ANSWER).pack()], "", script.into());
        assert_failed(trial.call("attack.go", json!({})), status, code, words);
        let kept = fs::read_dir(trial.place.home().join("code")).unwrap();
        let kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(kept, ["key"], "what it answered is not kept");
    }
}

#[test]
fn a_compiler_that_can_not_be_started_is_tried_again() {
    let place = Place::new();
    let compiler = place.home_file("compiler");
    let trial = host(place, vec![Component::new(ANSWER).pack()], "", compiler.clone());
    for _ in 0..2 {
        assert_failed(
            trial.call("attack.go", json!({})),
            Status::Failed,
            "CompilerUnavailable",
            "can't be started",
        );
    }
    symlink(built().join("cofferdam"), &compiler).unwrap();
    assert_eq!(trial.call("attack.go", json!({})), Outcome::Executed(json!({})));
}

/// The running child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // After the name in parentheses: the state and the parent.
        let fields = stat.rsplit(") ").next().unwrap_or_default().to_owned();
        let mut fields = fields.split(' ');
        fields.next() != Some("Z") && fields.next() == Some(&of.to_string())
    };
    processes.filter(is_child).collect()
}

#[test]
fn compiling_ends_when_the_run_is_interrupted() {
    let place = Place::new();
    let bomb = bomb(2000, 2000, 8);
    let file = bomb.path.to_str().unwrap();
    let call = ["call", "attack.go", "--plugin", file];
    for signal in [Signal::INT, Signal::KILL] {
        let host = place.command(&call).spawn().unwrap();
        wait_until(|| !children(host.id()).is_empty());
        let compiler = children(host.id())[0];
        kill_process(Pid::from_raw(host.id() as i32).unwrap(), signal).unwrap();
        let ended = host.wait_with_output().unwrap();
        let ended = String::from_utf8_lossy(&ended.stdout).into_owned();
        if signal == Signal::INT {
            assert!(ended.contains("Cancelled"), "{ended}");
        }
        wait_until(|| {
            let line = fs::read_to_string(format!("/proc/{compiler}/cmdline")).unwrap_or_default();
            !line.contains("worker")
        });
    }
}
