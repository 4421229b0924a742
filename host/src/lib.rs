//! Cofferdam runs the tools that coding agents call. Every tool is a WebAssembly component in
//! an instance of its own; the host checks each call against a JSON Schema and a policy, gives
//! the instance exactly what was granted, and answers with a checked result.
//!
//! [`host::Host`] is the way in. ARCHITECTURE.md has the map.
//!
//! Without the default feature `engine` only what is pure remains: decoding envelopes, output
//! contracts, schemas, manifests and policy decisions, and neither wasmtime nor a command.

#[cfg(feature = "engine")]
pub mod agent;
#[cfg(feature = "engine")]
pub mod capability;
#[cfg(feature = "engine")]
pub mod cli;
#[cfg(feature = "engine")]
pub mod config;
#[cfg(feature = "engine")]
pub mod conformance;
pub mod contract;
#[cfg(feature = "engine")]
pub mod definition;
#[cfg(feature = "engine")]
pub mod dispatch;
#[cfg(feature = "engine")]
pub mod distribution;
pub mod envelope;
#[cfg(feature = "engine")]
pub mod health;
#[cfg(feature = "engine")]
pub mod host;
#[cfg(feature = "engine")]
pub mod install;
#[cfg(feature = "engine")]
pub mod journal;
#[cfg(feature = "engine")]
pub mod mcp;
pub mod outcome;
#[cfg(feature = "engine")]
pub mod pipeline;
pub mod plugin;
pub mod policy;
mod private;
mod response;
#[cfg(feature = "engine")]
pub mod runtime;
pub mod schema;
#[cfg(feature = "engine")]
pub mod stats;
#[cfg(feature = "engine")]
pub mod telemetry;
#[cfg(feature = "engine")]
pub mod workspace;
