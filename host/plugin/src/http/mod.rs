//! HTTP/1.1 requests: the allowed addresses of an origin, TLS, and the client for requests of the
//! user (downloading and publishing plugins, telemetry). Requests of plugins go through the
//! capability `http` of the engine, which connects by [`Connector`] as well.

mod client;
mod connect;
mod proxy;

use std::fmt;
use std::time::Duration;

pub use client::{Answer, Client, ClientError, Request};
pub use connect::{Connection, Connector, Reach, Stream};
pub use proxy::{Proxies, ProxyError};

/// The user agent of all requests.
pub const USER_AGENT: &str = concat!("cofferdam/", env!("CARGO_PKG_VERSION"));

/// The largest size of the head of a response, in bytes.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 << 10;

/// The largest number of headers in a response.
const MAX_RESPONSE_HEADERS: usize = 128;

/// The timeout of connecting to an origin.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the HTTP/1.1 protocol with limits for the head of a response.
pub fn http1() -> hyper::client::conn::http1::Builder {
    let mut protocol = hyper::client::conn::http1::Builder::new();
    protocol.max_buf_size(MAX_RESPONSE_HEAD_BYTES).max_headers(MAX_RESPONSE_HEADERS);
    protocol
}

/// Connecting to an origin failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// The reason of the failure.
    pub kind: ConnectErrorKind,
    /// A message for the user, with the origin.
    pub message: String,
}

/// The reasons why connecting fails.
#[derive(Debug)]
pub enum ConnectErrorKind {
    /// The `ca-file` can't be used.
    Configuration,
    /// The name can't be resolved; the resolver's error.
    Dns(String),
    /// None of its addresses is allowed.
    NotPublic,
    /// No address accepted a connection.
    Refused,
    /// The certificate is not valid.
    Certificate,
    /// TLS failed for another reason.
    Tls,
}

impl ConnectError {
    fn new(kind: ConnectErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }
}
