//! Components for WASI 0.3 that wait, run or use more without end: the limits are those of other calls.

use cofferdam_core::outcome::{Outcome, Status};
use serde_json::json;

use super::component::Packed;
use crate::support::Place;
use crate::trial::{Trial, assert_failed};
use crate::wasi03::concurrent;

const SHORT: &str = "[limits]\ncall-ms = 2000\n";

fn attack(trial: &Trial, how: &str) -> Outcome {
    trial.call("attack.attack", json!({"how": how, "path": "grow.txt"}))
}

/// The next call is as the first one.
fn still_works(trial: &Trial) {
    let greeted = trial.call("attack.greet", json!({"name": "World"}));
    assert_eq!(greeted, Outcome::Executed(json!({"result": "Hello, World."})));
}

#[test]
fn functions_that_wait_or_run_for_ever_end_at_the_deadline() {
    let trial = concurrent(Place::new(), SHORT);
    for how in ["wait", "spin", "yield", "log"] {
        let message = "longer than 2000 ms";
        assert_failed(attack(&trial, how), Status::Limit, "WallClockLimit", message);
        still_works(&trial);
    }
}

#[test]
fn functions_that_wait_for_what_never_comes_end_at_once() {
    let trial = concurrent(Place::new(), "[limits]\ncall-ms = 300000\n");
    for how in ["future", "unread"] {
        assert_failed(attack(&trial, how), Status::Trap, "PluginCrashed", "deadlock");
        still_works(&trial);
    }
}

#[test]
fn tasks_streams_and_futures_are_limited() {
    let trial = concurrent(Place::new(), "");
    for how in ["waits", "streams", "futures"] {
        let message = "more than 1000 handles";
        assert_failed(attack(&trial, how), Status::Limit, "HandleLimit", message);
        still_works(&trial);
    }
}

#[test]
fn asynchronous_calls_into_the_host_are_counted() {
    let trial = concurrent(Place::new(), "[limits]\nhost-calls = 1000\n");
    let message = "called the host more than 1000 times";
    assert_failed(attack(&trial, "calls"), Status::Limit, "HostCallLimit", message);
}

/// Each of many inner components blocks, and so holds a stack.
#[test]
fn blocked_inner_components_end_with_their_call() {
    let all = |text: &dyn Fn(u32) -> String| (0..40).map(text).collect::<String>();
    let instances = all(&|n| {
        format!("(instance $i{n} (instantiate $inner (with \"clock\" (instance $clock))))")
    });
    let with = all(&|n| format!("(with \"f{n}\" (func $i{n} \"block\"))"));
    let imports = all(&|n| format!("(import \"f{n}\" (func $f{n} async))"));
    let lowered = all(&|n| format!("(core func $l{n} (canon lower (func $f{n}) async))"));
    let given = all(&|n| format!("(export \"f{n}\" (func $l{n}))"));
    let core = all(&|n| format!("(import \"i\" \"f{n}\" (func $f{n} (result i32)))"));
    // Bits 0 to 3 of the result are 1: the function has begun, and has not returned.
    let calls = all(&|n| {
        format!(
            "(if (i32.ne (i32.and (call $f{n}) (i32.const 15)) (i32.const 1)) (then unreachable))"
        )
    });
    let clock = r#"(import "clock" (instance $clock
        (export "wait-for" (func async (param "how-long" u64)))))
      (core func $wait (canon lower (func $clock "wait-for")))"#;
    let text = format!(
        r#"(component
      (import "wasi:clocks/monotonic-clock@0.3.0" (instance $clock
        (export "wait-for" (func async (param "how-long" u64)))))
      (component $inner
        {clock}
        (core module $m
          (import "i" "wait" (func $wait (param i64)))
          (func (export "block") (call $wait (i64.const 3600000000000))))
        (core instance $i (instantiate $m (with "i" (instance (export "wait" (func $wait))))))
        (func (export "block") async (canon lift (core func $i "block"))))
      (component $outer
        {clock}
        {imports}
        {lowered}
        (core module $m
          (import "i" "wait" (func $wait (param i64)))
          {core}
          (func (export "begin") {calls} (call $wait (i64.const 3600000000000))))
        (core instance $m (instantiate $m
          (with "i" (instance (export "wait" (func $wait)) {given}))))
        (func (export "begin") async (canon lift (core func $m "begin"))))
      {instances}
      (instance $o (instantiate $outer (with "clock" (instance $clock)) {with}))
      (export "begin" (func $o "begin")))"#
    );
    let component = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let trial = Trial::with(Place::new(), vec![Packed::from_bytes(&component)], SHORT);
    for _ in 0..2 {
        let message = "longer than 2000 ms";
        let outcome = trial.call("attack.begin", json!({}));
        assert_failed(outcome, Status::Limit, "WallClockLimit", message);
    }
}

#[test]
fn memory_of_asynchronous_functions_is_limited() {
    let trial = concurrent(Place::new(), "[limits]\nmemory-mb = 32\n");
    assert_failed(attack(&trial, "hoard"), Status::Limit, "MemoryLimit", "32 MiB");
    still_works(&trial);
}

/// The host copies the file to its own end without running the component.
#[test]
fn streams_from_file_to_file_are_counted_and_end() {
    let granted = "[grants.attack]\nfiles = 'write'\n";
    let trial = concurrent(Place::new(), &format!("[limits]\nwrite-mb = 4\n{granted}"));
    trial.place.write("grow.txt", "x".repeat(1_000));
    assert_failed(attack(&trial, "grow"), Status::Limit, "WriteLimit", "4 MiB");
    assert_eq!(trial.place.read("grow.txt").len(), 1_000);
    let trial = concurrent(Place::new(), &format!("{SHORT}write-mb = 4000\n{granted}"));
    trial.place.write("grow.txt", "x");
    let message = "longer than 2000 ms";
    assert_failed(attack(&trial, "grow"), Status::Limit, "WallClockLimit", message);
    assert_eq!(trial.place.read("grow.txt"), "x");
}

#[test]
fn output_streams_are_cut_at_the_budget() {
    let trial = concurrent(Place::new(), "");
    let said = trial.call("attack.say", json!({"text": "0123456789", "times": 1_000_000}));
    assert!(matches!(said, Outcome::Executed(_)), "{said:?}");
    assert!(trial.heard.size() < 200_000, "{}", trial.heard.size());
}
