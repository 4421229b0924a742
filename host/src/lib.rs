//! Cofferdam runs the tools that coding agents call.

pub mod capability;
pub mod envelope;
pub mod outcome;
pub mod plugin;
pub mod policy;
pub mod runtime;
pub mod schema;
