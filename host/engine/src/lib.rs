//! Runs the calls of coding agents. Every tool is a WebAssembly component and runs in a fresh
//! instance. The host checks each call against a JSON Schema and a policy, gives the instance
//! exactly the granted capabilities, and returns a checked result.
//!
//! [`host::Host`] is the entry point. ARCHITECTURE.md in the repository describes the modules.

pub mod agent;
mod background;
pub mod call;
pub mod capability;
pub mod conformance;
pub mod dispatch;
mod egress;
pub mod health;
pub mod host;
pub mod journal;
pub mod pipeline;
pub mod review;
pub mod runtime;
pub mod stats;
pub mod telemetry;
pub mod toolchains;
