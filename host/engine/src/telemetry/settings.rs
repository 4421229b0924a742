//! The settings of telemetry, from the standard environment variables of OpenTelemetry SDKs.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::HeaderName;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{Compression, Protocol};
use opentelemetry_sdk::Resource;
use percent_encoding::percent_decode_str;

use super::Parent;
use cofferdam_plugin::http::Proxies;
use cofferdam_plugin::source::Address;

/// Where telemetry is sent, and how often. At least one signal has a target.
#[derive(Clone)]
pub struct Settings {
    pub(super) traces: Option<Target>,
    pub(super) metrics: Option<Target>,
    /// A file with trusted certificate authorities, in addition to those of browsers.
    pub(super) ca_file: Option<PathBuf>,
    pub(super) proxies: Proxies,
    /// The resource that describes this service.
    pub(super) resource: Resource,
    /// The span that the process belongs to.
    pub(super) parent: Option<Parent>,
    /// How long spans are collected before they are sent.
    pub(super) delay: Duration,
    /// The interval of sending metrics.
    pub(super) interval: Duration,
}

/// The target of one signal.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: Address,
    /// Headers that may contain secrets, and are never shown.
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) protocol: Protocol,
    pub(super) compression: Option<Compression>,
    /// The time for a request with all of its retries.
    pub(super) timeout: Duration,
}

/// The error that a variable has an invalid value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {why}")]
pub struct SettingsError {
    variable: String,
    why: String,
}

/// Environment variables, in which empty values count as not set.
struct Variables<'a>(&'a HashMap<String, String>);

impl Settings {
    /// Reads the settings from variables. Returns `None` if telemetry is off, which is the default.
    ///
    /// # Errors
    /// [`SettingsError`] if a value is invalid. It does not contain values that may be secret.
    pub fn from_variables(
        variables: &HashMap<String, String>,
    ) -> Result<Option<Self>, SettingsError> {
        let variables = Variables(variables);
        let is_off = |value: &str| value.eq_ignore_ascii_case("true");
        if variables.get("OTEL_SDK_DISABLED").is_some_and(is_off) {
            return Ok(None);
        }
        let (traces, metrics) = (variables.target("TRACES")?, variables.target("METRICS")?);
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let mut resource = variables.pairs("OTEL_RESOURCE_ATTRIBUTES")?;
        let mut set = |name: &str, value: &str| {
            if !resource.iter().any(|(known, _)| known == name) {
                resource.push((name.to_owned(), value.to_owned()));
            }
        };
        set("service.name", "cofferdam");
        set("service.version", env!("CARGO_PKG_VERSION"));
        if let Some(name) = variables.get("OTEL_SERVICE_NAME") {
            resource.retain(|(known, _)| known != "service.name");
            resource.push(("service.name".to_owned(), name.to_owned()));
        }
        let resource = resource.into_iter().map(|(name, value)| KeyValue::new(name, value));
        let parent = variables.get("TRACEPARENT").and_then(|parent| parent.parse().ok());
        Ok(Some(Self {
            traces,
            metrics,
            ca_file: variables
                .get("OTEL_EXPORTER_OTLP_CERTIFICATE")
                .or_else(|| variables.get("SSL_CERT_FILE"))
                .map(PathBuf::from),
            proxies: Proxies::from_variables(|name| variables.get(name).map(str::to_owned))
                .map_err(|error| SettingsError {
                    variable: error.variable.to_owned(),
                    why: "it is no address of an HTTP proxy".to_owned(),
                })?,
            resource: Resource::builder_empty().with_attributes(resource).build(),
            parent: parent.map(|parent: Parent| parent.with_state(variables.get("TRACESTATE"))),
            delay: variables.time("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            interval: variables.time("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
        }))
    }
}

impl<'a> Variables<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The target of one signal.
    fn target(&self, signal: &str) -> Result<Option<Target>, SettingsError> {
        let wrong = |variable: &str, why: String| SettingsError { variable: variable.into(), why };
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.get(&exporter) {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(_) => return Err(wrong(&exporter, "there are 'otlp' and 'none'".to_owned())),
        }
        let own = |what: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
        let either = |what: &str| {
            let (own, common) = (own(what), format!("OTEL_EXPORTER_OTLP_{what}"));
            if self.get(&own).is_some() { own } else { common }
        };
        let (address, variable) = match self.get(&own("ENDPOINT")) {
            Some(address) => (address.to_owned(), own("ENDPOINT")),
            None => match self.get("OTEL_EXPORTER_OTLP_ENDPOINT") {
                Some(base) => (
                    format!("{}/v1/{}", base.trim_end_matches('/'), signal.to_lowercase()),
                    "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
                ),
                None => return Ok(None),
            },
        };
        let after_host = address.find("://").map_or(0, |at| at + 3);
        let path = if address[after_host..].contains('/') { "" } else { "/" };
        let no_address = |_| {
            let why =
                "no address such as https://collector.example:4318, without a user".to_owned();
            wrong(&variable, why)
        };
        let address = Address::from_str(&format!("{address}{path}")).map_err(no_address)?;
        let (protocol, compression) = (either("PROTOCOL"), either("COMPRESSION"));
        let protocol = match self.get(&protocol) {
            None | Some("http/protobuf") => Protocol::HttpBinary,
            Some("http/json") => Protocol::HttpJson,
            Some(_) => {
                let why = "there are 'http/protobuf' and 'http/json'".to_owned();
                return Err(wrong(&protocol, why));
            }
        };
        let compression = match self.get(&compression) {
            None | Some("none") => None,
            Some("gzip") => Some(Compression::Gzip),
            Some(_) => return Err(wrong(&compression, "there are 'gzip' and 'none'".to_owned())),
        };
        let headers = either("HEADERS");
        let named = self.pairs(&headers)?.into_iter().map(|(name, value)| {
            let name = HeaderName::from_str(&name);
            let is_plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            name.ok().filter(|_| is_plain).map(|name| (name, value))
        });
        let named: Option<Vec<(HeaderName, String)>> = named.collect();
        let no_header = || wrong(&headers, "one of its parts is no header".to_owned());
        Ok(Some(Target {
            address,
            headers: named.ok_or_else(no_header)?,
            protocol,
            compression,
            timeout: self.time(&either("TIMEOUT"), 10_000)?,
        }))
    }

    /// Parses `name=value,name=value`, with special characters in values as `%XX`.
    fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, SettingsError> {
        let wrong = || SettingsError {
            variable: name.to_owned(),
            why: "it is a list such as 'name=value,other=value', with %XX for what is special"
                .to_owned(),
        };
        let text = self.get(name).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| {
                let (name, value) = part.split_once('=').ok_or_else(wrong)?;
                let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
                Ok((name.trim().to_owned(), value.into_owned()))
            })
            .collect()
    }

    /// Parses a number of milliseconds.
    fn time(&self, name: &str, default: u64) -> Result<Duration, SettingsError> {
        let number = self.get(name).map_or(Ok(default), str::parse);
        match number {
            Ok(number @ 1..) => Ok(Duration::from_millis(number)),
            _ => Err(SettingsError {
                variable: name.to_owned(),
                why: "it is a number of milliseconds, and at least 1".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
        let pairs = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Settings::from_variables(&pairs.collect())
    }

    fn addresses(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let settings = read(variables).unwrap();
        let address = |target: &Option<Target>| Some(target.as_ref()?.address.to_string());
        settings.map_or([None, None], |it| [address(&it.traces), address(&it.metrics)])
    }

    #[test]
    fn addresses_are_derived_by_the_specification() {
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let both = |base: &str| ["traces", "metrics"].map(|it| Some(format!("{base}/v1/{it}")));
        for (base, wanted) in [
            ("http://localhost:4318", both("http://localhost:4318")),
            ("http://localhost:4318/", both("http://localhost:4318")),
            ("https://otel.example/a/b/", both("https://otel.example/a/b")),
            (" ", [None, None]),
        ] {
            assert_eq!(addresses(&[(BASE, base)]), wanted, "{base}");
        }
        let mine = |address: &str| addresses(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", address)]);
        assert_eq!(mine("https://a/mine"), [Some("https://a/mine".to_owned()), None]);
        assert_eq!(mine("https://a"), [Some("https://a/".to_owned()), None]);
        let base = (BASE, "https://a:1");
        let only_metrics = [None, Some("https://a:1/v1/metrics".to_owned())];
        assert_eq!(addresses(&[base, ("OTEL_TRACES_EXPORTER", "none")]), only_metrics);
        for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_SDK_DISABLED", "TRUE")] {
            assert_eq!(addresses(&[base, off]), [None, None]);
        }
        assert_eq!(addresses(&[]), [None, None]);
    }

    #[test]
    fn headers_times_and_attributes_are_read() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20key, x=1=2,"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "y=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "50"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=lost,team=tools"),
            ("OTEL_SERVICE_NAME", "ours"),
        ]);
        let settings = settings.unwrap().unwrap();
        let headers = |target: &Option<Target>| -> Vec<String> {
            let headers = &target.as_ref().unwrap().headers;
            headers.iter().map(|(name, value)| format!("{name}: {value}")).collect()
        };
        assert_eq!(headers(&settings.traces), ["api-key: a key", "x: 1=2"]);
        assert_eq!(headers(&settings.metrics), ["y: 2"]);
        assert_eq!(settings.traces.as_ref().unwrap().timeout, Duration::from_millis(50));
        let mut names: Vec<String> =
            settings.resource.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let traces = settings.traces.as_ref().unwrap();
        assert_eq!(
            (traces.protocol, traces.compression),
            (Protocol::HttpJson, Some(Compression::Gzip))
        );
        names.sort();
        let version = format!("service.version={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(names, ["service.name=ours", &version, "team=tools"]);
    }

    #[test]
    fn errors_do_not_contain_secrets() {
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_HEADERS", "a-secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=a-secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=a-secret%0a"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=a-secret%ff"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "a-secret"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4318"),
            // Without TLS, only this machine can be reached.
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector.example:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:a-secret@localhost:4318"),
            ("OTEL_METRICS_EXPORTER", "prometheus"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ] {
            let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1");
            let error = read(&[base, (variable, value)]).err().unwrap().to_string();
            assert!(error.starts_with(&format!("{variable}: ")), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
