//! HTTP requests on behalf of the user, who downloads and publishes plugins from any host. Private
//! addresses are used only for origins that the user named. Redirects are followed: to another
//! origin without credentials, and never from an encrypted connection to an unencrypted one.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::connect::{Connector, Reach, Stream};
use super::proxy::Proxies;
use super::{CONNECT_TIMEOUT, ConnectError, ConnectErrorKind, USER_AGENT, http1};
use crate::source::Address;
use cofferdam_core::policy::{Origin, OriginSettings};

/// The number of redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The timeout of one request with its whole answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Sends HTTP requests for the user.
#[derive(Default)]
pub struct Client {
    connector: Connector,
    ca_file: Option<PathBuf>,
    proxies: Proxies,
    /// Further origins that the user has named.
    named: Vec<Origin>,
}

/// An HTTP request with its body.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method: `GET`, `HEAD`, `POST` or `PUT`.
    pub method: Method,
    /// The address of the request.
    pub address: Address,
    /// Headers besides those of every request.
    pub headers: Vec<(HeaderName, String)>,
    /// The body of the request.
    pub body: Bytes,
    /// Whether the user named its origin, so that it may have a private address.
    pub named: bool,
    /// Whether redirects are followed, of a `GET`.
    pub follows: bool,
}

/// An HTTP response of any status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The body of the response.
    pub body: Bytes,
}

/// A request that got no complete response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server was not reached, or closed the connection.
    #[error("{0}")]
    Unreachable(String),
    /// The request timed out.
    #[error("{0} took longer than {s} s", s = REQUEST_TIMEOUT.as_secs())]
    TooSlow(Address),
    /// It has a private address, and the user did not name it.
    #[error(
        "{0} has no public address, and you have not named it yourself: to let a registry redirect \
         to it, write in your own cofferdam.toml: `content = ['{0}']` below `[registries.'REGISTRY']`"
    )]
    Private(Origin),
    /// The response is larger than allowed.
    #[error("the answer of {0} has more than {1} bytes")]
    TooLarge(Address, u64),
    /// There were too many redirects, or a forbidden one.
    #[error("{0} redirects to {1}")]
    Redirect(Address, String),
}

impl Request {
    /// Creates a `GET` request to an origin that the user named.
    pub fn get(address: Address) -> Self {
        Self::new(Method::GET, address)
    }

    /// Creates a request without headers or a body, to an origin that the user named.
    pub fn new(method: Method, address: Address) -> Self {
        Self {
            method,
            address,
            headers: Vec::new(),
            body: Bytes::new(),
            named: true,
            follows: true,
        }
    }

    /// Adds a header to the request.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: impl fmt::Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

impl Answer {
    /// Returns a header as text.
    pub fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Client {
    /// Creates a client that trusts the certificate authorities of browsers, and those in a PEM
    /// file.
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, ..Self::default() }
    }

    /// Sends requests through the proxies of the user's environment.
    #[must_use]
    pub fn through(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Adds further origins that the user has named.
    #[must_use]
    pub fn naming(mut self, origins: impl IntoIterator<Item = Origin>) -> Self {
        self.named.extend(origins);
        self
    }

    /// Sends a request, and follows the redirects of a `GET`. The response has at most `most`
    /// bytes.
    ///
    /// # Errors
    /// Those of [`ClientError`].
    pub async fn send(&self, mut request: Request, most: u64) -> Result<Answer, ClientError> {
        let own = request.named.then(|| request.address.origin.clone());
        for _ in 0..=MAX_REDIRECTS {
            let origin = &request.address.origin;
            let is_named = own.as_ref() == Some(origin) || self.named.contains(origin);
            let reach = if is_named { Reach::Any } else { Reach::Public };
            let answer = timeout(REQUEST_TIMEOUT, self.send_once(&request, most, reach));
            let answer =
                answer.await.map_err(|_| ClientError::TooSlow(request.address.clone()))??;
            let goes_on = request.follows
                && request.method == Method::GET
                && matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(to) = answer.header(header::LOCATION).filter(|_| goes_on) else {
                return Ok(answer);
            };
            let wrong = || {
                ClientError::Redirect(
                    request.address.clone(),
                    format!("'{to}', which is no address"),
                )
            };
            let next = request.address.join(to).ok_or_else(wrong)?;
            if next.origin != request.address.origin {
                request.headers.retain(|(name, _)| *name != header::AUTHORIZATION);
                if request.address.origin.is_secure() && !next.origin.is_secure() {
                    let to = format!("{next}, which is not encrypted");
                    return Err(ClientError::Redirect(request.address, to));
                }
            }
            request.address = next;
        }
        Err(ClientError::Redirect(request.address, format!("more than {MAX_REDIRECTS} others")))
    }

    async fn connect(&self, origin: &Origin, reach: Reach) -> Result<Stream, ConnectError> {
        let settings =
            OriginSettings { ca_file: self.ca_file.clone(), ..OriginSettings::new(origin.clone()) };
        match self.proxies.of(origin) {
            Some(proxy) => self.connector.connect_through(&proxy, &settings, reach).await,
            None => self.connector.connect(&settings, reach).await,
        }
    }

    async fn send_once(
        &self,
        request: &Request,
        most: u64,
        reach: Reach,
    ) -> Result<Answer, ClientError> {
        let Request { method, address, headers, body, named: _, follows: _ } = request;
        let origin = &address.origin;
        let broken =
            |error: &dyn fmt::Display| ClientError::Unreachable(format!("{origin}: {error}"));
        let stream = timeout(CONNECT_TIMEOUT, self.connect(origin, reach)).await;
        let stream =
            stream.map_err(|_| broken(&"connecting timed out"))?.map_err(
                |refused| match refused.kind {
                    ConnectErrorKind::NotPublic => ClientError::Private(origin.clone()),
                    _ => ClientError::Unreachable(refused.message),
                },
            )?;
        let handshake = http1().handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| broken(&error))?;
        // It ends after the response.
        let connection = tokio::spawn(connection);
        let mut head = hyper::Request::builder()
            .method(method)
            .uri(address.path.as_str())
            .header(header::HOST, origin.authority())
            .header(header::USER_AGENT, USER_AGENT);
        for (name, value) in headers {
            head = head.header(name, value);
        }
        let sent = head.body(Full::new(body.clone())).map_err(|error| broken(&error))?;
        let answer = sender.send_request(sent).await.map_err(|error| broken(&error))?;
        let (head, body) = answer.into_parts();
        let limit = usize::try_from(most).unwrap_or(usize::MAX);
        let body = Limited::new(body, limit).collect().await.map_err(|error| match error
            .downcast_ref::<LengthLimitError>(
        ) {
            Some(_) => ClientError::TooLarge(address.clone(), most),
            None => broken(&error),
        })?;
        connection.abort();
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}
