//! Every claim of isolation has a hostile guest that tried: each test runs one against the
//! whole host and names, in its comment, the acceptance case it answers.
//!
//! [`component`] builds small guests from WebAssembly text; `tests/guests/hostile` is the one
//! written in Rust. [`engine`] is about what a guest does with its own code and memory,
//! [`compile`] about what it does to its compiler, [`load`] about files that should not load,
//! [`files`], [`links`], [`protected`], [`repositories`] and [`race`] about the workspace, [`mcp`] about a server
//! that runs them, [`private`] about `/tmp`, [`spoil`] about calls that write and do not end
//! well, [`flood`] about those that write too much, [`messages`] about what a guest says, and
//! [`schemas`] about what it says of itself. [`beside`] is about hostile clients of a server.

mod beside;
mod compile;
pub mod component;
pub mod engine;
mod files;
mod flood;
mod large;
mod links;
mod load;
mod mcp;
mod messages;
mod private;
mod protected;
mod race;
pub mod repositories;
mod schemas;
mod spoil;
