//! Verification reports as in the tool schemas (`save_agent_report`): one agent's findings about a
//! phase. This crate checks reports, renders them, names their files, and sums them up over agents.

mod html;
mod json;
mod markdown;
pub mod place;
mod report;
pub mod summary;

pub use report::{Agent, Args, Finding, Problem, Report, Severity, Summary, Wave};
