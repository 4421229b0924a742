//! The pure half of the host: decoding envelopes, checking documents against schemas and output
//! contracts, reading agent definitions, and deciding what a call may do. Nothing here does I/O,
//! starts a thread or knows an engine; the fuzz targets use this crate directly.
//!
//! | module | what |
//! |---|---|
//! | [`outcome`] | how calls end, and every code that says why |
//! | [`schema`] | JSON Schemas: compiling, checking, explaining |
//! | [`envelope`] | text to calls, results back to text |
//! | [`contract`] | agents' output contracts |
//! | [`definition`] | agent definitions |
//! | [`policy`] | requests, grants, roles, scopes, limits |
//! | [`reference`] | `docs/outcomes.md`, written from the codes and limits |

pub mod contract;
pub mod definition;
pub mod envelope;
pub mod outcome;
pub mod policy;
pub mod reference;
mod response;
pub mod schema;
