//! The pure half of the host: decoding envelopes, checking documents against schemas and output
//! contracts, parsing agent definitions, and deciding what a call may do. This crate does no I/O,
//! starts no threads and knows no engine; the fuzz targets use it directly.
//!
//! | module | content |
//! |---|---|
//! | [`name`] | the names of tools and roles |
//! | [`outcome`] | how calls end, and every code that says why |
//! | [`schema`] | JSON Schemas: compiling, checking, explaining |
//! | [`envelope`] | converting text to calls, and results to text |
//! | [`contract`] | agents' output contracts |
//! | [`definition`] | agent definitions |
//! | [`cbor`] | CBOR to JSON and back |
//! | [`form`] | forms that plugins ask users to fill in |
//! | [`policy`] | requests, grants, roles, scopes, limits |
//! | [`reference`] | `docs/outcomes.md`, written from the codes and limits |

pub mod cbor;
pub mod contract;
pub mod definition;
pub mod envelope;
pub mod form;
pub mod name;
pub mod outcome;
pub mod policy;
pub mod reference;
mod response;
pub mod schema;
