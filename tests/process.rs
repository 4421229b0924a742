//! Native programs through the whole path of a call: which programs a plugin can start, what a
//! program sees and can do, and which changes are kept. Each test runs in both kinds of sandbox.
//! The crate `cofferdam-sandbox` has more attacks on the sandbox itself.

mod attempts;
mod beyond;
mod changes;
mod children;
mod disk;
mod output;
mod refusals;
mod repositories;
mod workers;

use serde_json::{Value, json};

use cofferdam_core::outcome::Outcome;

use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::Trial;

/// Grants everything that the guest `runner` requests.
const ALL: &str = "[grants.runner]\nfiles = 'write'\nprocess = ['bash', 'cat', 'git', 'planted', 'python3', 'tool']\n";

/// The kinds of sandbox, as settings.
const TIERS: [&str; 2] = ["A", "B"];

/// A host with the guest `runner` whose programs run in one kind of sandbox.
fn runner(place: Place, tier: &str, settings: &str) -> Trial {
    let programs = if settings.contains("[programs]") {
        settings.replace("[programs]", &format!("[programs]\ntier = '{tier}'"))
    } else {
        format!("{settings}\n[programs]\ntier = '{tier}'\n")
    };
    Trial::with_programs(place, vec![Packed::guest("runner")], &programs)
}

/// Runs a program through the guest and returns the result.
fn ran(trial: &Trial, args: Value) -> Value {
    match trial.call("runner.run", args) {
        Outcome::Executed(output) => output,
        other => panic!("{other:?}"),
    }
}

/// Arguments for a shell script that can change nothing.
fn script(text: &str) -> Value {
    json!({"program": "bash", "arguments": ["-c", text]})
}

/// Arguments for a shell script, with one more field.
fn script_with(text: &str, key: &str, value: Value) -> Value {
    let mut args = script(text);
    args[key] = value;
    args
}

fn text<'a>(output: &'a Value, key: &str) -> &'a str {
    output[key].as_str().unwrap_or_default()
}
