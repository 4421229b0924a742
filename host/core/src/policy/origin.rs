//! Origins to which a plugin may send HTTP requests, as requested and granted.
//!
//! An origin is a scheme, a host and a port, and nothing else. Each has exactly one form: ambiguous
//! text (user names, numbers that some programs accept as addresses, names that end in a dot) is
//! not an origin.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use cofferdam_text::shorten;

/// The longest name of a host in bytes (RFC 1035, section 2.3.4).
const MAX_HOST_BYTES: usize = 253;

/// The longest label of a host's name in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// The host of an origin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OriginHost {
    /// A name, in lower case.
    Name(String),
    /// An address. An IPv4 address in the form of an IPv6 one is converted to IPv4.
    Address(IpAddr),
}

/// A scheme, a host and a port, such as `https://context7.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin {
    secure: bool,
    host: OriginHost,
    port: u16,
}

/// The text is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no origin such as https://example.org or https://example.org:8443: {why}")]
pub struct OriginError {
    text: String,
    why: &'static str,
}

impl Origin {
    /// Whether it uses TLS. Only an origin on this machine can be without.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host of the origin.
    pub fn host(&self) -> &OriginHost {
        &self.host
    }

    /// The port of the origin.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it refers to this machine.
    pub fn is_local(&self) -> bool {
        match &self.host {
            OriginHost::Name(name) => name == "localhost",
            OriginHost::Address(address) => address.is_loopback(),
        }
    }

    /// The host and port in the form of the `Host` header: without the default port of the scheme.
    pub fn authority(&self) -> String {
        let port = if self.port == default_port(self.secure) {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        match &self.host {
            OriginHost::Name(name) => format!("{name}{port}"),
            OriginHost::Address(IpAddr::V4(address)) => format!("{address}{port}"),
            OriginHost::Address(IpAddr::V6(address)) => format!("[{address}]{port}"),
        }
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        parse(text).map_err(|why| OriginError { text: shorten(text, 80), why })
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        text.parse()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

impl JsonSchema for Origin {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Origin".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A scheme, a host and, where it is another than the scheme's, a port.",
            "pattern": "^(https|http)://",
            "examples": ["https://context7.com"],
        })
    }
}

fn parse(text: &str) -> Result<Origin, &'static str> {
    let text = text.to_ascii_lowercase();
    let (secure, rest) = match text.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => return Err("it has to begin with https://"),
    };
    if rest.contains('@') {
        return Err("a user name is not allowed");
    }
    if rest.contains(['/', '\\', '?', '#']) {
        return Err("nothing follows the host and its port, not even a slash");
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let (address, after) = bracketed.split_once(']').ok_or("a bracket is missing")?;
            let address: Ipv6Addr =
                address.parse().map_err(|_| "what is in brackets is no IPv6 address")?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err("only a port follows an address in brackets"),
            };
            (OriginHost::Address(IpAddr::V6(address).to_canonical()), port)
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (parse_host(host)?, Some(port)),
            None => (parse_host(rest)?, None),
        },
    };
    let port = match port {
        None => default_port(secure),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0') => {
            port.parse().map_err(|_| "a port is a number from 1 to 65535")?
        }
        Some(_) => return Err("a port is a number from 1 to 65535"),
    };
    let origin = Origin { secure, host, port };
    if !secure && !origin.is_local() {
        return Err("http:// is for this machine itself only (localhost, 127.0.0.1, [::1]); \
                    everything else is reached by https://");
    }
    Ok(origin)
}

fn parse_host(host: &str) -> Result<OriginHost, &'static str> {
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(OriginHost::Address(address.into()));
    }
    if host.is_empty() || host.len() > MAX_HOST_BYTES {
        return Err("a host has a name of 1 to 253 characters");
    }
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return Err("a host's name has letters, digits and '-' between its dots, and no dot at \
                    its end; other scripts are written as xn--...");
    }
    // Some programs accept names that end in a number as addresses: 2130706433, 0x7f.1, 127.1.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if is_number {
        return Err("an IPv4 address is written as four numbers, such as 192.0.2.1");
    }
    Ok(OriginHost::Name(host.to_owned()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn origins_round_trip() {
        for (text, wanted, authority) in [
            ("https://context7.com", "https://context7.com", "context7.com"),
            ("HTTPS://Context7.COM:443", "https://context7.com", "context7.com"),
            ("https://context7.com:8443", "https://context7.com:8443", "context7.com:8443"),
            ("https://192.0.2.1", "https://192.0.2.1", "192.0.2.1"),
            ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443", "[2001:db8::1]:8443"),
            ("https://[::ffff:192.0.2.1]", "https://192.0.2.1", "192.0.2.1"),
            ("http://localhost:8080", "http://localhost:8080", "localhost:8080"),
            ("http://127.0.0.1:80", "http://127.0.0.1", "127.0.0.1"),
            ("http://[::1]:8080", "http://[::1]:8080", "[::1]:8080"),
            (
                "https://xn--bcher-kva.example",
                "https://xn--bcher-kva.example",
                "xn--bcher-kva.example",
            ),
        ] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!(
                (origin.to_string().as_str(), origin.authority().as_str()),
                (wanted, authority)
            );
            assert_eq!(wanted.parse(), Ok(origin));
        }
    }

    #[test]
    fn ambiguous_origins_are_refused() {
        for (text, why) in [
            ("", "begin with https://"),
            ("context7.com", "begin with https://"),
            ("ftp://context7.com", "begin with https://"),
            ("http://context7.com", "everything else is reached by https://"),
            ("http://10.0.0.1", "everything else is reached by https://"),
            ("http://localhost.example.org", "everything else"),
            ("https://user@context7.com", "user name"),
            ("https://context7.com@evil.example", "user name"),
            ("https://user:word@context7.com", "user name"),
            ("https://context7.com/", "nothing follows"),
            ("https://context7.com/api", "nothing follows"),
            ("https://context7.com?x", "nothing follows"),
            ("https://context7.com#x", "nothing follows"),
            ("https://context7.com\\evil.example", "nothing follows"),
            ("https://", "1 to 253"),
            ("https://:443", "1 to 253"),
            ("https://context7.com.", "no dot at its end"),
            ("https://context7..com", "no dot at its end"),
            ("https://*.context7.com", "letters, digits"),
            ("https://context7.com:", "a port is a number"),
            ("https://context7.com:0", "a port is a number"),
            ("https://context7.com:0443", "a port is a number"),
            ("https://context7.com:+443", "a port is a number"),
            ("https://context7.com:65536", "a port is a number"),
            ("https://context7.com:443:443", "a port is a number"),
            ("https://context7.com ", "letters, digits"),
            ("https://context7.com\r\nHost: evil", "letters, digits"),
            ("https://context7%2ecom", "letters, digits"),
            ("https://b\u{fc}cher.example", "letters, digits"),
            ("https://2130706433", "four numbers"),
            ("https://0x7f000001", "four numbers"),
            ("https://0x7f.0.0.1", "four numbers"),
            ("https://0177.0.0.1", "four numbers"),
            ("https://127.1", "four numbers"),
            ("https://1.2.3.4.5", "four numbers"),
            ("https://[::1", "bracket"),
            ("https://[::1]x", "only a port"),
            ("https://[fe80::1%eth0]", "no IPv6 address"),
            ("https://[127.0.0.1]", "no IPv6 address"),
        ] {
            let error = text.parse::<Origin>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
