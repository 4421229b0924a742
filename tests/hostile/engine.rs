//! What a guest does with its own code and memory, and with its calls of the host.

use std::time::{Duration, Instant};

use cofferdam_core::outcome::{Outcome, Status};
use serde_json::{Value, json};

use super::component::{Component, Packed, manifest};
use crate::support::Place;
use crate::trial::{Trial, assert_failed, configure, run_measured};

/// Instructions of a guest that only answers.
pub const ANSWER: &str = "(call $answer (i32.const 0) (i32.const 2))";

/// Misbehaves if the arguments are `{}`, and answers normally otherwise.
fn only_without_arguments(misconduct: &str) -> String {
    format!("(if (i32.eq (local.get $args_len) (i32.const 2)) (then {misconduct})) {ANSWER}")
}

/// A guest that can log: `$emit` (`level`, `ptr`, `len`).
fn logging(call: &str) -> Component {
    let log = r#"(import "cofferdam:host/log@0.1.0" (instance $log
        (type $level' (enum "debug" "info" "warn" "error"))
        (export "level" (type $level (eq $level')))
        (export "emit" (func (param "level" $level) (param "message" string)))))"#;
    Component::new(call).definitions(log).function("log", "emit", "emit", "(param i32 i32 i32)")
}

/// A guest that can wait: `$subscribe` (`nanoseconds`) gives a handle, `$block` (`handle`)
/// waits for it.
fn waiting(call: &str) -> Component {
    let clock = r#"(import "wasi:io/poll@0.2.6" (instance $poll
          (export "pollable" (type $pollable (sub resource)))
          (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
          (alias outer 1 $pollable (type $outer))
          (export "pollable" (type $pollable (eq $outer)))
          (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))"#;
    Component::new(call)
        .definitions(clock)
        .function("clock", "subscribe-duration", "subscribe", "(param i64) (result i32)")
        .function("poll", "[method]pollable.block", "block", "(param i32)")
}

/// A guest that asks for random bytes: `$random` (`count`, `result ptr`).
fn random(call: &str) -> Component {
    let random = r#"(import "wasi:random/random@0.2.6" (instance $random
        (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))"#;
    Component::new(call).definitions(random).function(
        "random",
        "get-random-bytes",
        "random",
        "(param i64 i32)",
    )
}

fn run(component: &Component) -> Outcome {
    Trial::new(component.pack(), "[limits]\ncall-ms = 5000\n").call("attack.go", json!({}))
}

/// Runs the guest in a separate process, and measures that process' memory in MiB.
fn run_apart(component: &Component) -> (Value, i32, u64) {
    let (place, packed) = (Place::new(), component.pack());
    configure(&place, "[limits]\ncall-ms = 5000\n");
    let (ended, peak) =
        run_measured(&place, &["call", "attack.go", "--plugin", packed.path.to_str().unwrap()]);
    (ended.json(), ended.status, peak)
}

#[test]
fn a_guest_from_webassembly_text_answers() {
    assert_eq!(run(&Component::new(ANSWER)), Outcome::Executed(json!({})));
    assert_eq!(run(&logging(ANSWER)), Outcome::Executed(json!({})));
    assert_eq!(
        run(&waiting(&format!("(call $block (call $subscribe (i64.const 1000))) {ANSWER}"))),
        Outcome::Executed(json!({}))
    );
    assert_eq!(
        run(&random(&format!("(call $random (i64.const 8) (i32.const 128)) {ANSWER}"))),
        Outcome::Executed(json!({}))
    );
    assert_failed(
        run(&Component::new("(call $fail (i32.const 0) (i32.const 2))")),
        Status::Error,
        "UnnamedError",
        "{}",
    );
}

/// Asserts that a guest is stopped at its deadline, and that the host answers other calls
/// afterwards.
fn assert_stopped_in_time(component: &Component) {
    let honest = Component::new(ANSWER).pack_as("honest");
    let trial =
        Trial::with(Place::new(), vec![component.pack(), honest], "[limits]\ncall-ms = 500\n");
    trial.call("honest.go", json!({}));
    // More calls than there are threads.
    for _ in 0..3 {
        let started = Instant::now();
        assert_failed(
            trial.call("attack.go", json!({})),
            Status::Limit,
            "WallClockLimit",
            "longer than 500 ms",
        );
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    }
    assert_eq!(trial.call("honest.go", json!({})), Outcome::Executed(json!({})));
}

/// Case 1.
#[test]
fn an_endless_loop_ends_at_the_deadline() {
    assert_stopped_in_time(&Component::new("(loop (br 0)) unreachable"));
}

/// Case 2.
#[test]
fn an_endless_loop_in_a_start_function_ends_at_the_deadline() {
    assert_stopped_in_time(
        &Component::new(ANSWER).module("(func $spin (loop (br 0))) (start $spin)"),
    );
}

/// Case 2: in the function that the host calls to place its arguments.
#[test]
fn an_endless_loop_while_arguments_are_placed_ends_at_the_deadline() {
    let spin =
        r#"(func (export "spin") (param i32 i32 i32 i32) (result i32) (loop (br 0)) unreachable)"#;
    let honest = Component::new(ANSWER).module(spin).text();
    let lifted = r#"(canon lift (core func $main "call") (memory $memory) (realloc $realloc))"#;
    assert!(honest.contains(lifted));
    let attack = honest.replace(lifted, &lifted.replace("$realloc", r#"(core func $main "spin")"#));
    let packed = Packed::new(&wat::parse_str(&attack).unwrap(), &manifest());
    let trial = Trial::new(packed, "[limits]\ncall-ms = 500\n");
    assert_failed(trial.call("attack.go", json!({})), Status::Limit, "WallClockLimit", "");
}

/// Case 3. Every page is touched, so that it counts.
#[test]
fn memory_stops_growing_at_its_limit() {
    let grow = "(local $at i32)
        (loop $more
          (local.set $at (memory.grow (i32.const 64)))
          (if (i32.eq (local.get $at) (i32.const -1)) (then unreachable))
          (memory.fill (i32.shl (local.get $at) (i32.const 16)) (i32.const 1) (i32.const 4194304))
          (br $more))
        unreachable";
    let (answer, status, peak) = run_apart(&Component::new(grow));
    assert_eq!((answer["error"]["code"].as_str(), status), (Some("MemoryLimit"), 4), "{answer}");
    assert!((200..400).contains(&peak), "{peak} MiB");
}

/// Case 3: the limit is for the sum of all memories.
#[test]
fn memories_count_together() {
    let module = r#"(core module $hoard (memory 1) (func $grow (drop (memory.grow (i32.const 2048))) (if (i32.lt_u (memory.size) (i32.const 2048)) (then unreachable))) (start $grow))"#;
    let component = Component::new(ANSWER)
        .definitions(&format!("{module} {}", "(core instance (instantiate $hoard))".repeat(3)));
    assert_failed(run(&component), Status::Limit, "MemoryLimit", "256 MiB");
}

/// Case 4.
#[test]
fn an_initial_memory_or_table_that_is_too_large_is_refused() {
    for (module, status, code, message) in [
        ("(memory 65536)", Status::Trap, "InvalidComponent", "memory"),
        ("(table 4000000000 funcref)", Status::Trap, "InvalidComponent", "table"),
        // Within the engine's limits, but not within those of the call.
        ("(memory 8192)", Status::Limit, "MemoryLimit", "256 MiB"),
    ] {
        let component = Component::new(ANSWER).definitions(&format!(
            "(core module $large {module}) (core instance (instantiate $large))"
        ));
        assert_failed(run(&component), status, code, message);
    }
}

/// Case 4: `table.grow` is refused as well.
#[test]
fn tables_stop_growing_at_their_limit() {
    let grow = "(if (i32.eq (table.grow (ref.null func) (i32.const 1000000)) (i32.const -1)) (then unreachable))";
    assert_failed(
        run(&Component::new(&format!("{grow}{ANSWER}")).module("(table 1 funcref)")),
        Status::Limit,
        "TableLimit",
        "100000",
    );
}

/// Case 5.
#[test]
fn fifty_instances_are_refused() {
    let component = Component::new(ANSWER).definitions(&format!(
        "(core module $small (func)) {}",
        "(core instance (instantiate $small))".repeat(50)
    ));
    assert_failed(run(&component), Status::Trap, "InvalidComponent", "instances");
}

/// Case 6.
#[test]
fn endless_recursion_is_a_trap() {
    let component = Component::new(&format!("(call $deeper) {ANSWER}"))
        .module("(func $deeper (call $deeper) (call $deeper))");
    assert_failed(run(&component), Status::Trap, "PluginCrashed", "nest too deeply");
}

/// Case 6: the host's stack is separate from the guest's.
#[test]
fn a_host_call_from_deep_recursion_does_no_harm() {
    let component = logging(&format!("(call $deeper) {ANSWER}"))
        .module("(func $deeper (call $emit (i32.const 1) (i32.const 0) (i32.const 2)) (call $deeper) (call $deeper))");
    assert_failed(run(&component), Status::Trap, "PluginCrashed", "nest too deeply");
}

/// Case 7: 50 MB, as an argument of a host call and as an answer.
#[test]
fn huge_strings_from_a_guest_are_refused() {
    let emit = format!(
        "(call $emit (i32.const 1) (call $alloc (i32.const 50000000)) (i32.const 50000000)) {ANSWER}"
    );
    assert_failed(run(&logging(&emit)), Status::Limit, "TransferLimit", "32 MiB");
    for (size, code, bound) in
        [(50_000_000, "TransferLimit", "32 MiB"), (9_000_000, "OutputLimit", "8192 KiB")]
    {
        for back in ["answer", "fail"] {
            let component = Component::new(&format!(
                "(call ${back} (call $alloc (i32.const {size})) (i32.const {size}))"
            ));
            assert_failed(run(&component), Status::Limit, code, bound);
        }
    }
}

/// Case 7: 50 MB as the arguments of a call.
#[test]
fn huge_arguments_are_refused() {
    let (place, packed) = (Place::new(), Component::new(ANSWER).pack());
    let args = format!(r#"{{"a": "{}"}}"#, "x".repeat(50_000_000));
    let ended = place
        .run_with(&["call", "attack.go", "-", "--plugin", packed.path.to_str().unwrap()], &args);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert_eq!(ended.json()["refused"]["problems"][0]["code"], "TooLarge");
}

/// Case 8.
#[test]
fn answers_that_cannot_be_read_are_traps() {
    let store = |at: u32, value: u32| format!("(i32.store (i32.const {at}) (i32.const {value}))");
    let text_at =
        |ptr, len| format!("{}{}{}(i32.const 64)", store(64, 0), store(68, ptr), store(72, len));
    let error_of_kind = |kind| format!("{}{}(i32.const 64)", store(64, 1), store(68, kind));
    for (what, body) in [
        ("a pointer out of bounds", text_at(0xffff_f000, 0x7fff_ffff)),
        ("a pointer at the end", text_at(65535, 2)),
        ("an answer out of bounds", "(i32.const -8)".to_owned()),
        ("an answer that is not aligned", "(i32.const 65)".to_owned()),
        ("no UTF-8", format!("{}{}", store(128, 0xffff_ffff), text_at(128, 4))),
        ("half a surrogate pair", format!("{}{}", store(128, 0x0080_a0ed), text_at(128, 3))),
        ("neither ok nor error", format!("{}(i32.const 64)", store(64, 2))),
        ("no kind of error", error_of_kind(99)),
    ] {
        let failure = crate::trial::failure(run(&Component::new(&body)));
        assert_eq!(
            (failure.status, failure.code.as_str()),
            (Status::Trap, "PluginCrashed"),
            "{what}: {failure:?}"
        );
    }
}

/// Case 8, in the other direction: pointers that the guest passes to the host.
#[test]
fn arguments_that_cannot_be_read_are_traps() {
    for call in [
        "(call $emit (i32.const 1) (i32.const -16) (i32.const 64))",
        "(call $emit (i32.const 1) (i32.const 0) (i32.const -1))",
        "(call $emit (i32.const 9) (i32.const 0) (i32.const 2))",
        "(i32.store (i32.const 128) (i32.const -1)) (call $emit (i32.const 1) (i32.const 128) (i32.const 4))",
    ] {
        assert_failed(
            run(&logging(&format!("{call} {ANSWER}"))),
            Status::Trap,
            "PluginCrashed",
            "",
        );
    }
}

/// Case 9.
#[test]
fn a_million_host_calls_are_too_many() {
    let flood = format!(
        "(local $left i32) (local.set $left (i32.const 1000000))
         (loop (call $emit (i32.const 1) (i32.const 0) (i32.const 0))
           (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
         {ANSWER}"
    );
    assert_failed(run(&logging(&flood)), Status::Limit, "HostCallLimit", "500000 times");
}

/// Case 10: resources of the host.
#[test]
fn a_flood_of_handles_ends_at_its_limit() {
    let flood = "(loop (drop (call $subscribe (i64.const 1))) (br 0)) unreachable";
    assert_failed(run(&waiting(flood)), Status::Limit, "HandleLimit", "1000 handles");
}

/// Case 10: the guest's own resources use the host's memory, too.
#[test]
fn a_flood_of_own_handles_ends_at_its_limit() {
    let flood = Component::new("(loop (drop (call $new (i32.const 1))) (br 0)) unreachable")
        .definitions("(type $own (resource (rep i32)))")
        .canon("resource.new $own", "new", "(param i32) (result i32)");
    let (answer, status, peak) = run_apart(&flood);
    assert_eq!((answer["error"]["code"].as_str(), status), (Some("HandleLimit"), 4), "{answer}");
    assert!(peak < 200, "{peak} MiB");
}

/// Case 11.
#[test]
fn waiting_for_an_hour_ends_at_the_deadline() {
    assert_stopped_in_time(&waiting(
        "(loop (call $block (call $subscribe (i64.const 3600000000000))) (br 0)) unreachable",
    ));
}

/// Case 12: no state of the crashed instance remains.
#[test]
fn after_a_trap_the_next_call_is_answered() {
    let marked = "(if (i32.load (i32.const 256)) (then (return (call $fail (i32.const 0) (i32.const 2))))) (i32.store (i32.const 256) (i32.const 1))";
    let component = Component::new(&format!("{marked} {}", only_without_arguments("unreachable")));
    let trial = Trial::new(component.pack(), "");
    for _ in 0..20 {
        assert_failed(
            trial.call("attack.go", json!({})),
            Status::Trap,
            "PluginCrashed",
            "unreachable",
        );
        assert_eq!(trial.call("attack.go", json!({"well": true})), Outcome::Executed(json!({})));
    }
}

/// Case 18.
#[test]
fn random_bytes_are_bounded() {
    let component =
        random(&format!("(call $random (i64.const 1073741824) (i32.const 128)) {ANSWER}"));
    let (answer, status, peak) = run_apart(&component);
    assert_eq!((answer["error"]["code"].as_str(), status), (Some("PluginCrashed"), 4), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("1073741824"), "{answer}");
    assert!(peak < 200, "{peak} MiB");
}
