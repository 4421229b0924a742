//! Plugins at rest: what they say of themselves, how they are packed, which ones there are,
//! and the cache of their compiled code. Nothing here runs one.

pub mod cache;
pub mod export;
pub mod manifest;
pub mod pack;
pub mod registry;
pub mod search;
