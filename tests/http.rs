//! HTTP through the whole way of a call: what a plugin can't send, and where; within which bounds
//! answers are; what of it is written down. The guest `caller` sends what it is told to, and uses
//! the interface as nobody should.

mod bounds;
mod records;
mod refusals;
pub mod server;

use serde_json::{Value, json};

use cofferdam_core::outcome::Outcome;

use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::Trial;
use server::Server;

/// The origin that most tests ask, with what else its grant says.
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

/// What came of a plain request.
fn got(trial: &Trial, url: &str) -> Value {
    sent(trial, json!({ "url": url }))
}

/// What came of using the interface as nobody should.
fn misused(trial: &Trial, how: &str) -> String {
    match trial.call("caller.misuse", json!({"how": how, "url": "https://test.example/"})) {
        Outcome::Executed(output) => output["got"].as_str().unwrap().to_owned(),
        other => panic!("{how}: {other:?}"),
    }
}
