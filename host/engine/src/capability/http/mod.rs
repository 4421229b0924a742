//! `wasi:http` for granted origins. The interface is wasmtime-wasi-http's; what is sent where is
//! decided here, over connections of [`cofferdam_plugin::http`].
//!
//! | module | is for |
//! |---|---|
//! | [`link`] | serving the interface |
//! | [`send`] | the requests of one call |
//! | [`service`] | what the requests of all calls share |
//! | [`request`] | what a plugin's request becomes: which origin, which headers |
//! | [`body`] | bodies, limited in size and time |
//! | [`cache`] | cached responses |
//!
//! Redirects are not followed, cookies and connections are not kept, and proxies of the environment
//! are not used. Each request has a connection of its own, to an address that was checked before.

mod body;
mod cache;
mod link;
mod request;
mod send;
mod service;

pub(super) use link::add_to_linker;
pub(super) use send::HttpState;
pub use service::Http;
