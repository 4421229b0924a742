//! The host's settings for an origin that a plugin is granted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

use super::Origin;

/// One origin of a grant: its name alone, or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginSettings {
    /// The origin that is granted.
    pub origin: Origin,
    /// Headers that the host adds to each request, for values that the plugin must not know: each
    /// `${NAME}` in a value stands for that environment variable of the host.
    pub headers: BTreeMap<String, String>,
    /// The address of the origin, instead of the one that its name resolves to; for origins with a
    /// private address, which are refused otherwise.
    pub address: Option<SocketAddr>,
    /// A PEM file with certificate authorities that are trusted for this origin, in addition to
    /// those of browsers.
    pub ca_file: Option<PathBuf>,
    /// The timeout of a request with its whole answer, in milliseconds.
    pub timeout_ms: Option<u32>,
}

/// An origin in the form of a table.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    /// A scheme, a host and, where it is another than the scheme's, a port.
    origin: Origin,
    /// Headers that the host adds to each request, for values that the plugin must not know: each
    /// `${NAME}` in a value stands for that environment variable of the host.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The address of the origin, such as `192.0.2.1:443`, instead of the one that its name
    /// resolves to; for origins with a private address, which are refused otherwise.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    address: Option<SocketAddr>,
    /// A PEM file with certificate authorities that are trusted for this origin, in addition to
    /// those of browsers. An absolute path.
    #[serde(default)]
    ca_file: Option<PathBuf>,
    /// The timeout of a request with its whole answer, in milliseconds.
    #[serde(default)]
    timeout_ms: Option<u32>,
}

impl Table {
    fn check(self) -> Result<OriginSettings, String> {
        let Self { origin, headers, address, ca_file, timeout_ms } = self;
        for (name, value) in &headers {
            if !is_header_name(name) {
                return Err(format!("'{name}' can't be the name of a header that the host adds"));
            }
            header_parts(value).map_err(|why| format!("the value of the header '{name}' {why}"))?;
        }
        if ca_file.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err("ca-file has to be an absolute path".to_owned());
        }
        if timeout_ms == Some(0) {
            return Err("timeout-ms has to be 1 or more".to_owned());
        }
        Ok(OriginSettings { origin, headers, address, ca_file, timeout_ms })
    }
}

impl OriginSettings {
    /// An origin without special settings.
    pub fn new(origin: Origin) -> Self {
        Self { origin, headers: BTreeMap::new(), address: None, ca_file: None, timeout_ms: None }
    }
}

/// Whether a header belongs to a connection and not to a request, so that it is never passed on.
pub fn is_transport_header(name: &str) -> bool {
    const TRANSPORT: [&str; 12] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    TRANSPORT.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether this is a header other than those of the transport.
fn is_header_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !is_transport_header(name)
}

/// Splits a header's value into text and names of variables.
///
/// # Errors
/// Returns what is wrong with the value.
pub fn header_parts(value: &str) -> Result<Vec<HeaderPart<'_>>, &'static str> {
    if value.chars().any(char::is_control) {
        return Err("holds a control character");
    }
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((text, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("has a '${' without its '}'")?;
        let is_name = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !is_name {
            return Err("has something else than a variable's name between '${' and '}'");
        }
        parts.extend([HeaderPart::Text(text), HeaderPart::Variable(name)]);
        rest = after;
    }
    parts.push(HeaderPart::Text(rest));
    Ok(parts)
}

/// A part of a header's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderPart<'a> {
    /// Text that is sent unchanged.
    Text(&'a str),
    /// The name of an environment variable of the host.
    Variable(&'a str),
}

impl<'de> Deserialize<'de> for OriginSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = OriginSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an origin such as \"https://example.org\", or a table with `origin`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OriginSettings, E> {
                text.parse().map(OriginSettings::new).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OriginSettings, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                table.check().map_err(serde::de::Error::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for OriginSettings {
    fn schema_name() -> Cow<'static, str> {
        "OriginSettings".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let origin = generator.subschema_for::<Origin>();
        let table = generator.subschema_for::<Table>();
        json_schema!({
            "description": "One origin of a grant: its name alone, or a table.",
            "anyOf": [origin, table],
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::policy::Settings;

    fn granted(http: &str) -> Result<Vec<OriginSettings>, String> {
        let settings = Settings::parse(&format!("[grants.docs]\nhttp = {http}\n"));
        let mut settings = settings.map_err(|error| error.to_string())?;
        Ok(settings.grants.remove("docs").unwrap().http)
    }

    #[test]
    fn an_origin_is_a_name_or_a_table() {
        let origin = "https://context7.com".parse::<Origin>().unwrap();
        assert_eq!(
            granted("['https://Context7.com']"),
            Ok(vec![OriginSettings::new(origin.clone())])
        );
        let table = "[{ origin = 'https://context7.com', address = '127.0.0.1:8443', \
                     ca-file = '/etc/ca.pem', timeout-ms = 300, \
                     headers = { Authorization = 'Bearer ${KEY}' } }]";
        let wanted = OriginSettings {
            origin,
            headers: [("Authorization".to_owned(), "Bearer ${KEY}".to_owned())].into(),
            address: Some("127.0.0.1:8443".parse().unwrap()),
            ca_file: Some("/etc/ca.pem".into()),
            timeout_ms: Some(300),
        };
        assert_eq!(granted(table), Ok(vec![wanted]));
    }

    #[test]
    fn invalid_settings_are_refused_with_their_line() {
        for (http, why) in [
            ("'https://a.example'", "expected a sequence"),
            ("[1]", "expected an origin such as"),
            ("['http://a.example']", "everything else is reached by https://"),
            ("[{ address = '127.0.0.1:1' }]", "missing field `origin`"),
            ("[{ origin = 'https://a.example', key = 'x' }]", "unknown field `key`"),
            ("[{ origin = 'https://a.example', timeout-ms = 0 }]", "1 or more"),
            ("[{ origin = 'https://a.example', ca-file = 'ca.pem' }]", "absolute path"),
            ("[{ origin = 'https://a.example', address = 'localhost:1' }]", "address"),
            ("[{ origin = 'https://a.example', headers = { Host = 'b' } }]", "'Host' can't be"),
            ("[{ origin = 'https://a.example', headers = { 'a b' = 'b' } }]", "'a b' can't be"),
            ("[{ origin = 'https://a.example', headers = { A = '${B' } }]", "without its '}'"),
            ("[{ origin = 'https://a.example', headers = { A = '${1}' } }]", "a variable's name"),
            (
                "[{ origin = 'https://a.example', headers = { A = \"a\\nb\" } }]",
                "control character",
            ),
        ] {
            let error = granted(http).unwrap_err();
            assert!(error.contains(why) && error.contains("line 2"), "{http}: {error}");
        }
    }

    #[test]
    fn header_values_are_split_at_variables() {
        for (value, wanted) in [
            ("", vec![HeaderPart::Text("")]),
            ("plain $5", vec![HeaderPart::Text("plain $5")]),
            (
                "Bearer ${KEY}!",
                vec![
                    HeaderPart::Text("Bearer "),
                    HeaderPart::Variable("KEY"),
                    HeaderPart::Text("!"),
                ],
            ),
        ] {
            assert_eq!(header_parts(value), Ok(wanted));
        }
    }
}
