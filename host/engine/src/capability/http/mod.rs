//! `wasi:http` for granted origins. The interface is wasmtime-wasi-http's; what is sent where is
//! decided here, and sent over connections of [`cofferdam_plugin::http`].
//!
//! | module | is for |
//! |---|---|
//! | [`link`] | serving the interface |
//! | [`send`] | the requests of one call |
//! | [`service`] | what the requests of all calls share |
//! | [`request`] | what a plugin's request becomes: which origin, which headers |
//! | [`body`] | answers, within their bounds |
//! | [`cache`] | answers that are given again |
//!
//! Nothing is followed (redirects), remembered unasked (cookies, connections) or taken from the
//! environment (proxies). Each request has a connection of its own, to an address that was
//! looked at before.

mod body;
mod cache;
mod link;
mod request;
mod send;
mod service;

pub(super) use link::add_to_linker;
pub(super) use send::HttpState;
pub use service::Http;
