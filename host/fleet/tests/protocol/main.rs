//! A model of how hosts of a fleet commit calls through a store, checked in every state that it can
//! reach. `docs/fleet.md` says what the model covers and what its properties mean.
//!
//! | module | is for |
//! |---|---|
//! | [`model`] | the state of the store and of the hosts, and every step |
//! | [`properties`] | what must be true in every state, and what must be reachable |
#![expect(clippy::panic, clippy::print_stderr, reason = "tests")]

mod model;
mod properties;

use std::time::Instant;

use model::{Bounds, Call, Protocol, Rule};
use properties::{CHAIN, ENDS, NO_LOST_UPDATE, ONE_COMMIT, REPLAY, SAME_ANSWER};
use stateright::{Checker, HasDiscoveries, Model};

/// Two calls that change the same place; one of them changes another place, too.
const COLLIDING: &[Call] = &[Call::keyed(0b01), Call::keyed(0b11)];

/// A call with a key, and one without.
const ONE_KEYLESS: &[Call] = &[Call::keyed(0b01), Call::keyless(0b11)];

/// A call that changes a place, and one that depends on it.
const DEPENDENT: &[Call] = &[Call::keyed(0b01), Call::keyed(0b10).needing(0b01)];

/// Three calls, of which two change the same place.
const THREE: &[Call] = &[Call::keyed(0b01), Call::keyed(0b11), Call::keyless(0b10)];

/// Checks every state of a model; prints how many there were.
fn check(calls: &'static [Call], bounds: Bounds) {
    let begun = Instant::now();
    let protocol = Protocol { calls, bounds, broken: None };
    let checker = protocol.checker().threads(1).spawn_bfs().join();
    eprintln!(
        "{} calls, {bounds:?}: {} states, depth {}, {:.1} s",
        calls.len(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

/// Checks that a property is violated if hosts do not follow a rule; prints the steps that lead there.
fn check_violation(broken: Rule, calls: &'static [Call], violated: &'static str) {
    let bounds = Bounds { hosts: 3, deliveries: 2, kills: 1, losses: 1 };
    let protocol = Protocol { calls, bounds, broken: Some(broken) };
    let found = HasDiscoveries::AnyOf([violated].into());
    let checker = protocol.checker().threads(1).finish_when(found).spawn_bfs().join();
    let path = checker.discovery(violated);
    let path = path.unwrap_or_else(|| panic!("without {broken:?}, \"{violated}\" is still true"));
    eprintln!("without {broken:?}, \"{violated}\" is false after:");
    path.into_actions().iter().for_each(|action| eprintln!("  {action:?}"));
}

#[test]
fn colliding_calls_on_three_hosts() {
    check(COLLIDING, Bounds { hosts: 3, deliveries: 2, kills: 1, losses: 1 });
}

#[test]
fn dependent_calls_on_three_hosts() {
    check(DEPENDENT, Bounds { hosts: 3, deliveries: 2, kills: 1, losses: 1 });
}

#[test]
fn a_call_without_a_key_on_three_hosts() {
    check(ONE_KEYLESS, Bounds { hosts: 3, deliveries: 2, kills: 2, losses: 2 });
}

#[test]
fn three_calls_on_two_hosts() {
    check(THREE, Bounds { hosts: 2, deliveries: 2, kills: 1, losses: 0 });
}

/// Takes ten minutes: `cargo test --profile quick --workspace --test protocol -- --ignored --nocapture`
#[test]
#[ignore = "takes ten minutes"]
fn three_calls_on_three_hosts() {
    check(COLLIDING, Bounds { hosts: 3, deliveries: 3, kills: 2, losses: 1 });
    check(THREE, Bounds { hosts: 3, deliveries: 2, kills: 2, losses: 1 });
}

#[test]
fn each_rule_is_needed() {
    for (rule, calls, violated) in [
        (Rule::LookBeforeRun, COLLIDING, ONE_COMMIT),
        (Rule::HeadBeforeIntents, COLLIDING, ONE_COMMIT),
        (Rule::IntentBeforeCommit, COLLIDING, ONE_COMMIT),
        (Rule::AwaitIntent, COLLIDING, ONE_COMMIT),
        (Rule::LookAfterRace, COLLIDING, ONE_COMMIT),
        (Rule::CheckCollisions, COLLIDING, NO_LOST_UPDATE),
        (Rule::CheckNeeds, DEPENDENT, NO_LOST_UPDATE),
        (Rule::RebaseOnHead, THREE, REPLAY),
        (Rule::CompareId, ONE_KEYLESS, SAME_ANSWER),
        (Rule::RecordRefusals, COLLIDING, SAME_ANSWER),
        (Rule::LookAfterLostAnswer, COLLIDING, SAME_ANSWER),
        (Rule::IntentIsNoProof, COLLIDING, ENDS),
        (Rule::CreateOnly, COLLIDING, SAME_ANSWER),
        (Rule::CreateOnly, COLLIDING, CHAIN),
    ] {
        check_violation(rule, calls, violated);
    }
}
