//! What a guest does with its own code and memory, and with how it calls the host.

use std::time::{Duration, Instant};

use cofferdam::outcome::{Outcome, Status};
use serde_json::json;

use super::component::Component;
use super::trial::{Trial, assert_failed, configure, run_measured};
use crate::support::Place;

/// What comes back where nothing is wrong.
const ANSWER: &str = "(call $answer (i32.const 0) (i32.const 2))";

const LOG: &str = r#"(type $level' (enum "debug" "info" "warn" "error")) (export "level" (type $level (eq $level')))
    (export "emit" (func (param "level" $level) (param "message" string)))"#;

/// A guest that can log: `$emit` (`level`, `ptr`, `len`).
fn logging(call: &str) -> Component {
    Component::new(call)
        .imports("log", "cofferdam:host/log@0.1.0", LOG)
        .function("log", "emit", "emit", "(param i32 i32 i32)")
}

/// A guest that can wait: `$subscribe` (`nanoseconds`) gives a handle, `$block` (`handle`)
/// waits.
fn waiting(call: &str) -> Component {
    Component::new(call)
        .imports(
            "poll",
            "wasi:io/poll@0.2.6",
            r#"(export "pollable" (type $pollable (sub resource)))
               (export "[method]pollable.block" (func (param "self" (borrow $pollable))))"#,
        )
        .beside("(alias export $poll \"pollable\" (type $pollable))")
        .late_imports()
}

fn run(component: &Component, settings: &str) -> Outcome {
    Trial::new(&component.pack().path, settings).call("attack.go", json!({}))
}

/// Runs a guest that does as it should.
#[test]
fn a_guest_of_text_answers() {
    assert_eq!(run(&Component::new(ANSWER), ""), Outcome::Executed(json!({})));
}
