//! Exit statuses, which are part of the command's interface.

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_engine::pipeline::round::{Round, State};

/// Every call was executed.
pub const OK: u8 = 0;
/// A call ended in error.
pub const ERROR: u8 = 1;
/// The envelope or the command line was refused: nothing was run.
pub const REFUSED: u8 = 2;
/// A call was denied by the policy.
pub const DENIED: u8 = 3;
/// A call exceeded a limit, or its plugin crashed.
pub const STOPPED: u8 = 4;
/// The host itself failed.
pub const HOST: u8 = 5;

/// `stats --check`: there is at least one alert.
pub const ALERT: u8 = 1;

/// `health`: all probes succeeded within 3 s (the tool schemas, "Health Check").
pub const HEALTHY: u8 = 0;
/// `health`: a probe took longer than 3 s or failed.
pub const DEGRADED: u8 = 1;
/// `health`: a probe took longer than 10 s, or no tool can be called.
pub const FAILED: u8 = 2;

/// The exit status of a run: that of its most serious outcome.
pub fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> u8 {
    outcomes.map(|outcome| of_status(outcome.status())).max().unwrap_or(OK)
}

/// The exit status of a pipeline round: 0 if it is APPLIED or HELD; 2 if it is BLOCKED, so that nothing was
/// executed; if it FAILED, that of its most serious outcome, and at least 1.
pub fn of_round(round: &Round) -> u8 {
    match round.state {
        State::Applied | State::Held => OK,
        State::Blocked => REFUSED,
        State::Failed => round.outcomes().map(of_status).fold(ERROR, u8::max),
    }
}

pub fn of_status(status: Status) -> u8 {
    match status {
        Status::Executed => OK,
        Status::Error | Status::Skipped => ERROR,
        Status::Denied => DENIED,
        Status::Limit | Status::Trap => STOPPED,
        Status::Failed => HOST,
    }
}
