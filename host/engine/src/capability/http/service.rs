//! The state that the requests of all calls share, and the reasons for not sending a request.

use std::collections::HashMap;
use std::fmt;

use wasmtime_wasi_http::Error;

use cofferdam_core::policy::{Origin, OriginSettings};
use cofferdam_plugin::http::{ConnectError, ConnectErrorKind, Connector, Reach};

/// The state that the requests of all calls share: the operator's variables, and certificates.
pub struct Http {
    pub(in crate::capability) environment: HashMap<String, String>,
    pub(super) connector: Connector,
}

impl Http {
    /// Takes the secrets of requests from `environment`.
    pub fn new(environment: HashMap<String, String>) -> Self {
        Self { environment, connector: Connector::default() }
    }

    /// Connects to a granted origin and closes the connection. No request is sent.
    ///
    /// # Errors
    /// See [`ConnectErrorKind`].
    pub(crate) async fn reach(&self, settings: &OriginSettings) -> Result<(), ConnectError> {
        self.connector.connect(settings, Reach::Named).await.map(drop)
    }
}

/// The reason why a request is not sent.
pub(super) struct Refused {
    /// The error that the plugin gets.
    pub(super) error: Error,
    /// The reason that is logged for the operator.
    pub(super) why: String,
    /// The origin, if it is not granted.
    pub(super) origin: Option<Origin>,
}

impl Refused {
    pub(super) fn new(error: Error, why: impl fmt::Display) -> Self {
        Self { error, why: why.to_string(), origin: None }
    }
}

impl From<ConnectError> for Refused {
    fn from(ConnectError { kind, message }: ConnectError) -> Self {
        let error = match kind {
            ConnectErrorKind::Configuration => Error::ConfigurationError,
            ConnectErrorKind::Dns(error) => Error::DnsError { rcode: Some(error), info_code: None },
            ConnectErrorKind::NotPublic => Error::DestinationIpProhibited,
            ConnectErrorKind::Refused => Error::ConnectionRefused,
            ConnectErrorKind::Certificate => Error::TlsCertificateError,
            ConnectErrorKind::Tls => Error::TlsProtocolError,
        };
        Self::new(error, message)
    }
}
