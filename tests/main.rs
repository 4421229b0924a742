//! One test binary for everything that goes through the whole host.
//!
//! `cargo xtask test` builds what the tests need: the command, its plugins, and the guests in
//! `tests/guests`.
#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod programs;
mod projects;
mod store;
mod support;
mod trial;

mod act;
mod authors;
mod beads;
mod campaign;
mod cases;
mod cli;
mod consent;
mod console;
mod contracts;
mod crash;
mod docs;
mod egress;
mod executed;
mod filesystem;
mod fleet;
mod frozen;
mod git_commit;
mod history;
mod hostile;
mod http;
mod install;
mod mcp;
mod observability;
mod paths;
mod pipeline;
mod planted;
mod process;
mod quality;
mod questions;
mod readme;
mod responses;
mod review;
mod roles;
mod scripts;
mod secrets;
mod sqlite;
mod symbols;
mod tasks;
mod team;
mod telemetry;
mod testsuite;
mod toolchains;
mod tools;
mod transactions;
mod typed;
mod user;
mod wasi03;
mod workspaces;
