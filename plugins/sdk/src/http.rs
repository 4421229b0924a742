//! HTTP requests to the origins that the plugin requests and is granted: `wasi:http`, one request
//! and its whole answer at a time.
//!
//! The host follows no redirect, keeps no cookie, and adds what the operator has for an origin,
//! such as a key that the plugin never sees. On the machine that develops a plugin nothing is
//! sent: keep what makes requests and what reads answers apart from the sending.

#[cfg(target_family = "wasm")]
#[path = "http/host.rs"]
mod system;

#[cfg(not(target_family = "wasm"))]
#[path = "http/native.rs"]
mod system;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::ToolError;

/// How large the body of an answer may be where nothing else is said, in bytes.
const MOST: usize = 8 << 20;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// Such as `https://example.org/path?query`. What follows a `#` is not sent.
    pub url: String,
    /// Names and values, beside those that say how it is transported.
    pub headers: Vec<(String, String)>,
    /// What it carries; empty: nothing.
    pub body: Vec<u8>,
    /// How long it may take, its whole answer included; none: as long as the call.
    pub timeout: Option<Duration>,
    /// How large the body of the answer may be, in bytes.
    pub most: usize,
}

/// The answer to a request, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Such as 200.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// All of it.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The plugin may not send that, or not there.
    Denied(String),
    /// It is no request that could be sent.
    Invalid(String),
    /// It took too long.
    Timeout,
    /// Nobody is there, or nobody who could be trusted.
    Unreachable(String),
    /// The answer is larger than it may be.
    TooLarge,
    /// The host can't send it as it is set up, such as without a key that the operator names.
    Setup(String),
    /// Anything else on the way.
    Failed(String),
}

impl Request {
    /// A request for what is at `url`.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: "GET".to_owned(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: None,
            most: MOST,
        }
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with a limit of its time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends it and waits for the whole answer.
    ///
    /// # Errors
    /// See [`Error`]. A status such as 404 is no error.
    pub fn send(&self) -> Result<Response, Error> {
        let parts = Parts::of(&self.url)?;
        system::send(self, &parts)
    }
}

impl Response {
    /// The first value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body, with what is no UTF-8 replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// A URL, taken apart. What its parts hold is the host's business.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// Path and query.
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

/// Text as a part of a query: everything but letters, digits and `-._~` as `%` and two digits
/// (RFC 3986, section 2.1).
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
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
    fn urls_are_taken_apart() {
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
            // The last one has a scheme that no grant has.
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
    fn nothing_is_sent_while_a_plugin_is_developed() {
        assert!(matches!(Request::get("https://a.example").send(), Err(Error::Setup(_))));
        assert!(matches!(Request::get("a.example").send(), Err(Error::Invalid(_))));
    }
}
