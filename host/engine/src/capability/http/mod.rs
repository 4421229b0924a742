//! `wasi:http` for granted origins. The interface is wasmtime-wasi-http's; requests are checked
//! here, and sent over connections of [`cofferdam_plugin::http`].
//!
//! | module | is for |
//! |---|---|
//! | [`link`] | serving the interface |
//! | [`send`] | the requests of one call |
//! | [`service`] | state shared by all requests |
//! | [`request`] | the origin and the headers of a request |
//! | [`body`] | bodies, limited in size and time |
//! | [`cache`] | cached responses |
//!
//! Redirects are not followed, cookies are not stored, connections are not reused, and proxies of
//! the environment are not used. Each request opens a connection to an address that was checked.

mod body;
mod cache;
mod link;
mod request;
mod send;
mod service;

pub(super) use link::{add_to_linker, add_wasi03_to_linker};
pub(super) use send::HttpState;
pub use service::Http;
