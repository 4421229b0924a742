//! A plugin that tries what no plugin may do, and reports what it got.
//!
//! [`files`] goes through the bare `wasi:filesystem` interface, [`bulk`] through the host's own
//! `changes` and `scan`, [`race`] through all of them while the tree changes under it, and
//! [`conduct`] needs no files at all. Neither the SDK nor the C library looks at a path before
//! the host does.

mod bulk;
mod conduct;
mod files;
mod race;

use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};

struct Hostile;

/// What to try with a path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    what: String,
    path: String,
    #[serde(default)]
    target: String,
}

/// How an attempt went. That the host refused is an answer, not a failure.
#[derive(Default, Serialize)]
struct Output {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

/// What was got, or what the host said.
type Tried = Result<String, String>;

impl From<Tried> for Output {
    fn from(tried: Tried) -> Self {
        match tried {
            Ok(data) => Self { ok: true, error: None, data: Some(data) },
            Err(error) => Self { ok: false, error: Some(error), data: None },
        }
    }
}

impl Hostile {
    fn attempt(attempt: Attempt, _: &Context) -> Result<Output, ToolError> {
        let Attempt { what, path, target } = &attempt;
        let tried =
            files::attempt(what, path, target).or_else(|| bulk::attempt(what, path, target));
        tried.map(Output::from).ok_or_else(|| unknown(what))
    }

    fn race(race: race::Race, context: &Context) -> Result<Output, ToolError> {
        Ok(race::run(&race, context).into())
    }

    fn misbehave(conduct: conduct::Conduct, _: &Context) -> Result<Output, ToolError> {
        conduct::run(&conduct).map(Output::from).ok_or_else(|| unknown(&conduct.how))
    }
}

fn unknown(what: &str) -> ToolError {
    ToolError::invalid_args("UnknownAttempt", format!("'{what}' is none of the attempts"))
}

plugin!(Hostile { attempt, attempt_read = attempt, attempt_none = attempt, race, misbehave });
