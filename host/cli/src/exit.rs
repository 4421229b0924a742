//! Exit statuses. They are part of the interface.

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
/// A call reached a limit, or its plugin crashed.
pub const STOPPED: u8 = 4;
/// The host itself failed.
pub const HOST: u8 = 5;

/// `stats --check`: there is an alert.
pub const ALERT: u8 = 1;

/// `health`: everything works, in less than 3 s (S4, "Health Check").
pub const HEALTHY: u8 = 0;
/// `health`: slower than that, or a part does not work.
pub const DEGRADED: u8 = 1;
/// `health`: slower than 10 s, or no tool can be called.
pub const FAILED: u8 = 2;

/// The status of a run: that of its gravest outcome.
pub fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> u8 {
    outcomes.map(|outcome| of_status(outcome.status())).max().unwrap_or(OK)
}

/// The status of a round of a pipeline: 0 where it is APPLIED, 2 where it is BLOCKED, so that
/// nothing was executed; where it FAILED, that of its gravest outcome, and at least 1.
pub fn of_round(round: &Round) -> u8 {
    match round.state {
        State::Applied => OK,
        State::Blocked => REFUSED,
        State::Failed => round.outcomes().map(of_status).fold(ERROR, u8::max),
    }
}

fn of_status(status: Status) -> u8 {
    match status {
        Status::Executed => OK,
        Status::Error | Status::Skipped => ERROR,
        Status::Denied => DENIED,
        Status::Limit | Status::Trap => STOPPED,
        Status::Failed => HOST,
    }
}
