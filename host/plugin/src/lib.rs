//! Plugins at rest: what they say of themselves, how they are packed, which ones there are, which
//! ones a person has installed, and the cache of their compiled code. Nothing here runs one.

pub mod acceptance;
pub mod cache;
pub mod check;
pub mod digest;
pub mod distribution;
pub mod export;
pub mod http;
pub mod lock;
pub mod manifest;
pub mod pack;
pub mod registry;
pub mod search;
pub mod signature;
pub mod source;
pub mod store;
pub mod typed;
