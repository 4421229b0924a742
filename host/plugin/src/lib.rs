//! Plugins at rest: their manifests, packages, the registry of tools, installed plugins, and the
//! cache of compiled code. This crate runs no plugin.

pub mod acceptance;
pub mod cache;
pub mod catalogue;
pub mod check;
pub mod digest;
pub mod distribution;
pub mod document;
pub mod export;
pub mod http;
pub mod lock;
pub mod manifest;
pub mod pack;
pub mod provenance;
pub mod registry;
pub mod revocation;
pub mod search;
pub mod signature;
pub mod source;
pub mod store;
pub mod typed;
