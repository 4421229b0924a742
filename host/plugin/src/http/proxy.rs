//! The proxy of the user's environment, for the user's own requests. Requests of plugins and programs
//! never go through it.
//!
//! A connection to an encrypted origin is a tunnel (`CONNECT`, RFC 9110, section 9.3.6): TLS is spoken
//! with the origin, so the proxy learns its name and no more. Unencrypted origins are on this machine,
//! and are always reached directly.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::header;
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;

use super::connect::Stream;
use super::{ConnectError, ConnectErrorKind, USER_AGENT, http1};
use cofferdam_core::policy::{Origin, OriginHost};

/// The variables that name a proxy for encrypted origins, the more specific one first. Each may be
/// written in lower case instead.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "ALL_PROXY"];

/// Which origins are reached through which proxy.
#[derive(Debug, Clone)]
pub struct Proxies(Arc<Matcher>);

/// A variable does not name a proxy that can be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is no address of an HTTP proxy, such as http://proxy.example:3128")]
pub struct ProxyError {
    /// The name of the variable. Its value may contain a password.
    pub variable: &'static str,
}

/// The proxy of one connection.
pub(super) struct Proxy(Intercept);

impl Default for Proxies {
    /// Reaches all origins directly.
    fn default() -> Self {
        Self(Arc::new(Matcher::builder().build()))
    }
}

impl Proxies {
    /// Reads `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case. Empty values count as
    /// not set.
    ///
    /// # Errors
    /// [`ProxyError`] if a value is no address of an HTTP proxy.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let value = |name: &str| {
            let set = [name.to_owned(), name.to_lowercase()].iter().find_map(|name| {
                let value = variable(name)?.trim().to_owned();
                (!value.is_empty()).then_some(value)
            });
            set.unwrap_or_default()
        };
        let any = Uri::from_static("https://origin.example");
        for name in VARIABLES {
            let value = value(name);
            let proxy = Matcher::builder().all(value.as_str()).build().intercept(&any);
            let is_http = proxy
                .as_ref()
                .is_some_and(|proxy| matches!(proxy.uri().scheme_str(), Some("http" | "https")));
            if !value.is_empty() && !is_http {
                return Err(ProxyError { variable: name });
            }
        }
        let [https, all] = VARIABLES.map(value);
        let matcher = Matcher::builder().https(https).all(all).no(value("NO_PROXY")).build();
        Ok(Self(Arc::new(matcher)))
    }

    /// The proxy for connections to an origin; `None` if it is reached directly.
    pub(super) fn of(&self, origin: &Origin) -> Option<Proxy> {
        if !origin.is_secure() || origin.is_local() {
            return None;
        }
        self.0.intercept(&origin.to_string().parse().ok()?).map(Proxy)
    }
}

impl Proxy {
    /// The name and port of the proxy.
    pub(super) fn address(&self) -> (&str, u16) {
        let uri = self.0.uri();
        let port = if self.is_secure() { 443 } else { 80 };
        (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(port))
    }

    /// Whether the connection to the proxy itself uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.0.uri().scheme_str() == Some("https")
    }

    /// Asks the proxy for a tunnel to an origin, on a connection to the proxy.
    pub(super) async fn tunnel(
        &self,
        stream: Stream,
        origin: &Origin,
    ) -> Result<Stream, ConnectError> {
        let (host, port) = self.address();
        let failed = |why: &str| {
            let why = format!("{origin} can't be reached through the proxy {host}:{port}: {why}");
            ConnectError::new(ConnectErrorKind::Refused, why)
        };
        let broken = |error: hyper::Error| failed(&error.to_string());
        let handshake = http1().handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        tokio::spawn(connection.with_upgrades());
        let port = origin.port();
        let authority = match origin.host() {
            OriginHost::Name(name) => format!("{name}:{port}"),
            OriginHost::Address(address) => SocketAddr::new(*address, port).to_string(),
        };
        let mut request = Request::connect(&authority)
            .header(header::HOST, &authority)
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(authorization) = self.0.basic_auth() {
            request = request.header(header::PROXY_AUTHORIZATION, authorization);
        }
        let request = request.body(String::new()).map_err(|error| failed(&error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        match answer.status() {
            StatusCode::OK => {
                let tunnel = hyper::upgrade::on(answer).await.map_err(broken)?;
                Ok(Box::new(TokioIo::new(tunnel)))
            }
            status => Err(failed(&format!("it answers {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Proxies, ProxyError> {
        let find = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        Proxies::from_variables(find)
    }

    #[test]
    fn each_origin_has_the_proxy_of_the_environment() {
        let no = ("NO_PROXY", "inside.example, 10.0.0.0/8");
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
        let found = Some(("proxy.example", 3128));
        for (variables, origin, wanted) in [
            (&[][..], "https://a.example", None),
            (&[proxy, no], "https://a.example", found),
            (&[("https_proxy", "proxy.example:3128")], "https://a.example:8443", found),
            (
                &[("ALL_PROXY", "https://proxy.example")],
                "https://a.example",
                Some(("proxy.example", 443)),
            ),
            (
                &[("HTTPS_PROXY", " "), ("all_proxy", "proxy.example:3128")],
                "https://a.example",
                found,
            ),
            (&[("HTTP_PROXY", "http://proxy.example:3128")], "https://a.example", None),
            (&[proxy, no], "https://inside.example", None),
            (&[proxy, no], "https://deep.inside.example", None),
            (&[proxy, no], "https://10.1.2.3", None),
            (&[proxy, no], "https://11.1.2.3", found),
            (&[proxy, ("no_proxy", "*")], "https://a.example", None),
            // This machine is always reached directly.
            (&[proxy], "https://localhost:8443", None),
            (&[proxy], "http://127.0.0.1:5000", None),
            (&[proxy], "https://[::1]", None),
        ] {
            let proxies = read(variables).unwrap();
            let proxy = proxies.of(&origin.parse().unwrap());
            assert_eq!(proxy.as_ref().map(Proxy::address), wanted, "{variables:?} {origin}");
        }
    }

    #[test]
    fn other_proxies_are_errors_that_do_not_contain_passwords() {
        for (variable, value) in [
            ("HTTPS_PROXY", "socks5://me:secret@proxy.example"),
            ("ALL_PROXY", "ftp://me:secret@proxy.example"),
            ("HTTPS_PROXY", "http://me:secret@"),
            ("HTTPS_PROXY", "/secret"),
            ("HTTPS_PROXY", "secret secret"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err();
            assert_eq!(error, ProxyError { variable }, "{value}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
