//! The verification reports of S4 (`save_agent_report`): one agent's findings on a phase, checked,
//! shown, kept at a place that tells what they are, and summed up over agents.

mod html;
mod json;
mod markdown;
pub mod place;
mod report;
pub mod summary;

pub use report::{Agent, Args, Finding, Problem, Report, Severity, Summary, Wave};
