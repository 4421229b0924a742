//! A plugin that tries what no plugin may do, and reports the results.
//!
//! [`files`] uses the bare `wasi:filesystem` interface, [`ordinary`] the standard library, [`scan`]
//! the host's own interface, [`race`] all of them while the tree is changed. [`spoil`] writes and
//! then ends badly, [`flood`] writes without end, and [`conduct`] needs no files at all. Neither
//! the SDK nor the C library checks a path before the host does.

mod conduct;
mod files;
mod flood;
mod ordinary;
mod race;
mod scan;
mod spoil;

use cofferdam_sdk::bindings::cofferdam::host::files::last_refusal;
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};
use serde_json::Value;

struct Hostile;

/// An attempt on a path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    what: String,
    path: String,
    #[serde(default)]
    target: String,
}

/// The result of an attempt. A refusal by the host is a result, not a failure of the call.
#[derive(Default, Serialize)]
struct Output {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// The host's reason for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What was read, or the host's error.
type Tried = Result<String, String>;

impl From<Tried> for Output {
    fn from(tried: Tried) -> Self {
        match tried {
            Ok(data) => Self { ok: true, data: Some(data), ..Self::default() },
            Err(error) => Self { ok: false, error: Some(error), ..Self::default() },
        }
    }
}

impl Hostile {
    fn attempt(attempt: Attempt, _: &Context) -> Result<Output, ToolError> {
        let Attempt { what, path, target } = &attempt;
        let tried = files::attempt(what, path, target)
            .or_else(|| ordinary::attempt(what, path, target))
            .or_else(|| scan::attempt(what, path, target))
            .ok_or_else(|| unknown(what))?;
        let refusal = if tried.is_err() { last_refusal() } else { None };
        let reason = refusal.map(|refusal| refusal.reason);
        Ok(Output { reason, ..tried.into() })
    }

    fn race(race: race::Race, context: &Context) -> Result<Output, ToolError> {
        race::run(&race, context).map(Output::from)
    }

    fn spoil(spoil: spoil::Spoil, _: &Context) -> Result<Value, ToolError> {
        spoil::run(&spoil)
    }

    fn flood(flood: flood::Flood, _: &Context) -> Result<Output, ToolError> {
        Ok(flood::run(&flood).into())
    }

    fn misbehave(conduct: conduct::Conduct, _: &Context) -> Result<Output, ToolError> {
        conduct::run(&conduct).map(Output::from).ok_or_else(|| unknown(&conduct.how))
    }
}

fn unknown(what: &str) -> ToolError {
    ToolError::invalid_args("UnknownAttempt", format!("'{what}' is none of the attempts"))
}

plugin!(Hostile {
    attempt,
    attempt_read = attempt,
    attempt_none = attempt,
    race,
    spoil,
    flood,
    flood_read = flood,
    misbehave,
});
