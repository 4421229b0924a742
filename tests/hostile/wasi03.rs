//! Components for WASI 0.3 that wait, run or use more without end: the limits are those of other calls.

use cofferdam_core::outcome::{Outcome, Status};
use serde_json::json;

use crate::support::Place;
use crate::trial::{Trial, assert_failed};
use crate::wasi03::concurrent;

const LIMITS: &str = "[limits]\ncall-ms = 500\nwrite-mb = 4\nmemory-mb = 32\n";

fn attack(trial: &Trial, how: &str) -> Outcome {
    trial.call("attack.attack", json!({"how": how, "path": "grow.txt"}))
}

fn trial() -> Trial {
    let trial = concurrent(Place::new(), &format!("{LIMITS}[grants.attack]\nfiles = 'write'\n"));
    trial.place.write("grow.txt", "x".repeat(1_000));
    trial
}

/// The next call is as the first one.
fn still_works(trial: &Trial) {
    let greeted = trial.call("attack.greet", json!({"name": "World"}));
    assert_eq!(greeted, Outcome::Executed(json!({"result": "Hello, World."})));
}

#[test]
fn functions_that_wait_or_run_for_ever_end_at_the_deadline() {
    let trial = trial();
    for how in ["wait", "spin", "yield", "log"] {
        let message = "longer than 500 ms";
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
    let trial = trial();
    for how in ["waits", "streams", "futures"] {
        let message = "more than 1000 handles";
        assert_failed(attack(&trial, how), Status::Limit, "HandleLimit", message);
        still_works(&trial);
    }
}

#[test]
fn memory_of_asynchronous_functions_is_limited() {
    let trial = trial();
    assert_failed(attack(&trial, "hoard"), Status::Limit, "MemoryLimit", "32 MiB");
    still_works(&trial);
}

/// The host copies the file to its own end without running the component.
#[test]
fn streams_from_file_to_file_are_counted_and_end() {
    let trial = trial();
    assert_failed(attack(&trial, "grow"), Status::Limit, "WriteLimit", "4 MiB");
    assert_eq!(trial.place.read("grow.txt").len(), 1_000);
    let limits = "[limits]\ncall-ms = 500\nwrite-mb = 4000\n[grants.attack]\nfiles = 'write'\n";
    let trial = concurrent(Place::new(), limits);
    trial.place.write("grow.txt", "x");
    let message = "longer than 500 ms";
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
