//! HTTP/1.1 requests: which addresses of an origin may be used, TLS, and the client for what the
//! user asks for (getting and publishing plugins, telemetry). What plugins ask goes through the
//! capability `http` of the engine, which connects by [`Connector`] as well.

mod client;
mod connect;

use std::fmt;
use std::time::Duration;

pub use client::{Answer, Client, ClientError, Request};
pub use connect::{Connection, Connector, Reach, Stream};

/// What a request says of the host.
pub const USER_AGENT: &str = concat!("cofferdam/", env!("CARGO_PKG_VERSION"));

/// How large the head of an answer may be, in bytes.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 << 10;

/// How many headers an answer may have.
const MAX_RESPONSE_HEADERS: usize = 128;

/// How long reaching an origin may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP/1.1, with bounds of what an answer begins with.
pub fn http1() -> hyper::client::conn::http1::Builder {
    let mut protocol = hyper::client::conn::http1::Builder::new();
    protocol.max_buf_size(MAX_RESPONSE_HEAD_BYTES).max_headers(MAX_RESPONSE_HEADERS);
    protocol
}

/// An origin that could not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// What went wrong.
    pub kind: ConnectErrorKind,
    /// The same for a user, with the origin.
    pub message: String,
}

/// The ways in which connecting fails.
#[derive(Debug)]
pub enum ConnectErrorKind {
    /// The `ca-file` can't be used.
    Configuration,
    /// The name has no address, with the resolver's error.
    Dns(String),
    /// None of its addresses may be used.
    NotPublic,
    /// No address accepted a connection.
    Refused,
    /// The certificate is not valid.
    Certificate,
    /// TLS failed otherwise.
    Tls,
}

impl ConnectError {
    fn new(kind: ConnectErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }
}
