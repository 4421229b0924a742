//! HTTP through the whole path of a call: requests that are refused, bounds on responses, and
//! records. The guest `caller` sends the requests in its arguments, and misuses the interface.

mod bounds;
pub mod records;
mod refusals;
pub mod server;
mod web;

use serde_json::{Value, json};

use cofferdam_core::outcome::Outcome;

use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::Trial;
use server::Server;

/// The grant of the origin that most tests use, with more settings of the grant.
fn granted(server: &Server, more: &str) -> String {
    format!(
        "[[grants.caller.http]]\norigin = 'https://test.example'\naddress = '{}'\nca-file = '{}'\n\
         {more}\n",
        server.address(),
        server.authority().display()
    )
}

/// A host with the guest `caller`.
fn caller(settings: &str) -> Trial {
    Trial::with_programs(Place::new(), vec![Packed::guest("caller")], settings)
}

fn sent(trial: &Trial, args: Value) -> Value {
    match trial.call("caller.send", args) {
        Outcome::Executed(output) => output,
        other => panic!("{other:?}"),
    }
}

/// The result of a plain request.
fn got(trial: &Trial, url: &str) -> Value {
    sent(trial, json!({ "url": url }))
}

/// The result of misusing the interface.
fn misused(trial: &Trial, how: &str) -> String {
    match trial.call("caller.misuse", json!({"how": how, "url": "https://test.example/"})) {
        Outcome::Executed(output) => output["got"].as_str().unwrap().to_owned(),
        other => panic!("{how}: {other:?}"),
    }
}
