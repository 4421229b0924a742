//! HTTP requests to the origins that the plugin requests and is granted, by `wasi:http`. A request
//! is sent as a whole, and the response is read as a whole.
//!
//! The host follows no redirects, stores no cookies, and adds credentials that the operator has for
//! an origin, which the plugin never sees. In native builds (tests of a plugin) nothing is sent:
//! keep code that builds requests or parses responses apart from sending.

#[cfg(target_family = "wasm")]
#[path = "http/host.rs"]
mod system;

#[cfg(not(target_family = "wasm"))]
#[path = "http/native.rs"]
mod system;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::ToolError;

/// The default limit of a response body, in bytes.
const DEFAULT_MAX_BODY_BYTES: usize = 8 << 20;

/// A request to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The URL, such as `https://example.org/path?query`. A fragment (`#...`) is not sent.
    pub url: String,
    /// Names and values of the headers, without those of the connection.
    pub headers: Vec<(String, String)>,
    /// The body; empty: none.
    pub body: Vec<u8>,
    /// The timeout for the request with its whole response; `None`: the deadline of the call.
    pub timeout: Option<Duration>,
    /// The limit of the response body, in bytes.
    pub most: usize,
}

/// The response to a request, with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    /// Names of the headers, in lower case, and their values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body of the response.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The plugin is not allowed to send this request.
    Denied(String),
    /// The request is malformed.
    Invalid(String),
    /// The timeout was exceeded.
    Timeout,
    /// The server could not be reached, or its certificate is not trusted.
    Unreachable(String),
    /// The response body exceeds its limit.
    TooLarge,
    /// The host's settings are incomplete, such as a missing key for an origin.
    Setup(String),
    /// The request failed for another reason.
    Failed(String),
}

impl Request {
    /// Makes a request with the method GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: "GET".to_owned(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
            most: DEFAULT_MAX_BODY_BYTES,
        }
    }

    /// Adds a header to the request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the timeout of the request.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request and waits for the whole response.
    ///
    /// # Errors
    /// See [`Error`]. A status such as 404 is not an error.
    pub fn send(&self) -> Result<Response, Error> {
        let parts = Parts::of(&self.url)?;
        system::send(self, &parts)
    }
}

impl Response {
    /// The first value of a header, if it is valid UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// The parts of a URL. They are not validated here; the host does that.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// The path and the query.
    target: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Self, Error> {
        let invalid = || Error::Invalid(format!("{url:?} is no URL such as https://example.org/"));
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(invalid());
        }
        let target = target.split('#').next().unwrap_or_default();
        Ok(Self { scheme, authority, target })
    }
}

/// Percent-encodes text for a query: all bytes except letters, digits and `-._~` (RFC 3986, section
/// 2.1).
pub fn encode(text: &str) -> String {
    const IN_QUERY: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, IN_QUERY).to_string()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(why) | Self::Invalid(why) | Self::Setup(why) => f.write_str(why),
            Self::Timeout => f.write_str("there was no answer in time"),
            Self::Unreachable(why) => write!(f, "the server can't be reached: {why}"),
            Self::TooLarge => f.write_str("the answer is too large"),
            Self::Failed(why) => write!(f, "the request failed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Denied(_) => Self::denied("OriginNotGranted", message),
            Error::Invalid(_) => Self::invalid_args("InvalidRequest", message),
            Error::Timeout => Self::unavailable("TimeoutError", message),
            Error::Unreachable(_) | Error::Failed(_) => {
                Self::unavailable("ConnectionError", message)
            }
            Error::TooLarge => Self::limit("ResponseTooLarge", message),
            Error::Setup(_) => Self::unavailable("HostNotSetUp", message),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn urls_are_split() {
        for (url, scheme, authority, target) in [
            ("https://a.example", "https", "a.example", ""),
            ("https://a.example/", "https", "a.example", "/"),
            ("https://a.example?x=://", "https", "a.example", "?x=://"),
            ("https://u@a.example:1/b?c#d", "https", "u@a.example:1", "/b?c"),
            ("http://[::1]:80#d", "http", "[::1]:80", ""),
        ] {
            assert_eq!(Parts::of(url).unwrap(), Parts { scheme, authority, target });
        }
        for url in ["", "a.example", "https:/a", "https:///a", "/a?b=https://c"] {
            // The scheme of the last URL can't be granted.
            if let Ok(parts) = Parts::of(url) {
                assert_eq!(parts.scheme, "/a?b=https");
            }
        }
    }

    #[test]
    fn queries_are_encoded() {
        for (text, wanted) in
            [("", ""), ("a-Z_0.~", "a-Z_0.~"), ("a b&c=d/é", "a%20b%26c%3Dd%2F%C3%A9")]
        {
            assert_eq!(encode(text), wanted);
        }
    }

    #[test]
    fn native_builds_send_nothing() {
        assert!(matches!(Request::get("https://a.example").send(), Err(Error::Setup(_))));
        assert!(matches!(Request::get("a.example").send(), Err(Error::Invalid(_))));
    }
}
