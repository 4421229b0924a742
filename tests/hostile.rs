//! Each claim of isolation is tested with a hostile guest: each test runs one against the whole
//! host and names the acceptance case in its comment.
//!
//! [`component`] builds small guests from WebAssembly text; `tests/guests/hostile` is the one
//! written in Rust. [`engine`] is about a guest's own code and memory, [`compile`] about attacks on
//! the compiler, [`load`] about files that should not load, [`files`], [`links`], [`protected`],
//! [`repositories`] and [`race`] about the workspace, [`mcp`] about a server that runs hostile
//! tools, [`private`] about `/tmp`, [`spoil`] about calls that write and end badly, [`flood`] about
//! calls that write too much, [`messages`] about a guest's output, [`schemas`] about its
//! manifest and schemas, and [`wasi03`] about asynchronous functions. [`beside`] and [`large`] are about hostile clients of a server.

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
mod wasi03;
