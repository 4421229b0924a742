//! Cofferdam runs the tools that coding agents call. Every tool is a WebAssembly component in
//! an instance of its own; the host checks each call against a JSON Schema and a policy, gives
//! the instance exactly what was granted, and answers with a checked result.
//!
//! [`host::Host`] is the way in. ARCHITECTURE.md has the map.

pub mod capability;
pub mod cli;
pub mod config;
pub mod dispatch;
pub mod envelope;
pub mod host;
pub mod journal;
pub mod metrics;
pub mod outcome;
pub mod plugin;
pub mod policy;
pub mod runtime;
pub mod schema;
