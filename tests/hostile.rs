//! Every claim of isolation has a hostile guest that tried: each test runs one against the
//! whole host and names, in its comment, the acceptance case it answers.
//!
//! [`component`] builds small guests from WebAssembly text; `tests/guests/hostile` is the one
//! written in Rust. [`engine`] is about what a guest does with its own code and memory,
//! [`load`] about files that should not load, [`files`] and [`race`] about the workspace,
//! [`messages`] about what a guest says, and [`schemas`] about what it says of itself.

mod component;
mod engine;
mod files;
mod load;
mod messages;
mod race;
mod schemas;
mod trial;
