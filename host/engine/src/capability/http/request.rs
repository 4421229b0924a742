//! Checks the head of a plugin's request: its origin, and the headers that are sent there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use wasmtime_wasi_http::{Error, WasiBody};

use super::cache::Place;
use super::service::Refused;
use crate::call::Permissions;
use crate::capability::context::with_variables;
use cofferdam_core::policy::{Origin, OriginSettings};
use cofferdam_plugin::http::USER_AGENT;
use cofferdam_text::shorten;
use cofferdam_workspace::Workspace;

/// A request that may be sent.
pub(super) struct Outgoing {
    /// The settings of its origin.
    pub settings: OriginSettings,
    /// How long it may take.
    pub timeout: Option<Duration>,
    method: Method,
    /// The path and the query.
    target: Uri,
    headers: HeaderMap,
}

impl Outgoing {
    /// Checks the head of a request.
    pub fn new(
        head: Parts,
        permissions: &Permissions,
        environment: &HashMap<String, String>,
    ) -> Result<Self, Refused> {
        let origin = origin(&head.uri)?;
        let granted = permissions.capabilities.http.contains(&origin);
        let settings = permissions.grant.origins.iter().find(|settings| settings.origin == origin);
        let Some(settings) = settings.filter(|_| granted) else {
            let plugin = permissions.plugin();
            let why = format!(
                "{origin} is not among the origins that the plugin '{plugin}' requests and is \
                 granted; a person can grant it by http = [\"{origin}\"] under [grants.{plugin}] \
                 in cofferdam.toml"
            );
            let refused = Refused::new(Error::HttpRequestDenied, why);
            return Err(Refused { origin: Some(origin), ..refused });
        };
        // CONNECT creates a tunnel; TRACE returns the request with headers that the plugin must not
        // see.
        if head.method == Method::CONNECT || head.method == Method::TRACE {
            let why = format!("the method {} is never sent", head.method);
            return Err(Refused::new(Error::HttpRequestMethodInvalid, why));
        }
        let mut headers = head.headers;
        let transport: Vec<_> = headers.keys().filter(|name| is_transport(name)).cloned().collect();
        for name in transport {
            headers.remove(name);
        }
        if !headers.contains_key(header::USER_AGENT) {
            headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        }
        for (name, value) in &settings.headers {
            let (name, value) = operators_header(name, value, &origin, environment)?;
            headers.insert(name, value);
        }
        let host = HeaderValue::try_from(origin.authority())
            .map_err(|error| Refused::new(Error::HttpRequestUriInvalid, error))?;
        headers.insert(header::HOST, host);
        Ok(Self {
            timeout: settings.timeout_ms.map(|ms| Duration::from_millis(ms.into())),
            settings: settings.clone(),
            method: head.method,
            target: target(&head.uri)?,
            headers,
        })
    }

    /// The cache entry of its response, if the plugin accepts a cached one.
    pub fn kept(&self, workspace: &Arc<Workspace>, plugin: &str) -> Option<Place> {
        let request = (&self.method, &self.target, &self.headers);
        Place::of(workspace, plugin, &self.settings.origin, request)
    }

    /// The request as it is sent to its origin.
    pub fn request(&self, body: WasiBody) -> Result<Request<WasiBody>, Refused> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.clone())
            .body(body)
            .map_err(|error| Refused::new(Error::HttpRequestUriInvalid, error))?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

/// Whether a plugin can't set this header, because it concerns the connection or the origin.
pub(super) fn is_transport(name: &HeaderName) -> bool {
    const NAMES: [HeaderName; 8] = [
        header::CONNECTION,
        header::EXPECT,
        header::HOST,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    NAMES.contains(name)
        || matches!(
            name.as_str(),
            "http2-settings" | "keep-alive" | "proxy-authenticate" | "proxy-connection"
        )
}

/// Parses the origin of a request as strictly as a grant's.
fn origin(uri: &Uri) -> Result<Origin, Refused> {
    let scheme = uri.scheme_str().unwrap_or_default();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{scheme}://{authority}")
        .parse()
        .map_err(|error| Refused::new(Error::HttpRequestDenied, error))
}

/// The part after the origin: a path that begins with a slash, and a query.
fn target(uri: &Uri) -> Result<Uri, Refused> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let target = match target.chars().next() {
        None => "/".to_owned(),
        Some('/') => target.to_owned(),
        Some('?') => format!("/{target}"),
        Some(_) => {
            let why = format!("'{}' is no path", shorten(target, 80));
            return Err(Refused::new(Error::HttpRequestUriInvalid, why));
        }
    };
    target.parse().map_err(|error| Refused::new(Error::HttpRequestUriInvalid, error))
}

/// Returns a header that the operator adds, with variables replaced by their values.
fn operators_header(
    name: &str,
    value: &str,
    origin: &Origin,
    environment: &HashMap<String, String>,
) -> Result<(HeaderName, HeaderValue), Refused> {
    let wrong = |why: String| {
        let why = format!("the header '{name}' that cofferdam.toml has for {origin} {why}");
        Refused::new(Error::ConfigurationError, why)
    };
    let text = with_variables(value, environment).map_err(wrong)?;
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| wrong("has no name that can be sent".to_owned()))?;
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| wrong("has a value that can't be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::call::PluginGrant;
    use cofferdam_core::policy::{Capabilities, Scope, Settings};

    /// A plugin with a grant for two origins, of which one gets a secret.
    fn permissions() -> Permissions {
        let toml = "[grants.p]\nhttp = ['https://plain.example', { origin = \
                    'https://secret.example:8443', headers = { Authorization = 'Bearer ${KEY}' }, \
                    timeout-ms = 500 }, { origin = 'https://unset.example', headers = { A = \
                    '${UNSET}' } }, 'https://[2001:db8::1]', 'https://unrequested.example']\n";
        let origins = Settings::parse(toml).unwrap().grants.remove("p").unwrap().http;
        let mut http: std::collections::BTreeSet<Origin> =
            origins.iter().map(|settings| settings.origin.clone()).collect();
        http.remove(&"https://unrequested.example".parse().unwrap());
        http.insert("https://ungranted.example".parse().unwrap());
        let grant = PluginGrant { plugin: "p".to_owned(), origins, ..PluginGrant::default() };
        Permissions {
            grant: Arc::new(grant),
            capabilities: Capabilities { http, ..Capabilities::NONE },
            sight: Scope::default(),
            scope: Scope::default(),
        }
    }

    fn outgoing(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<Outgoing, Refused> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let environment = HashMap::from([("KEY".to_owned(), "s3cr3t\n".to_owned())]);
        Outgoing::new(head, &permissions(), &environment)
    }

    #[test]
    fn only_granted_origins_are_allowed() {
        for uri in [
            "https://other.example/",
            "https://ungranted.example/",
            "https://unrequested.example/",
            "https://plain.example:8443/",
            "https://sub.plain.example/",
            "https://plain.example.evil.example/",
            "https://plain.example./",
            "https://plain.example@evil.example/",
            "https://evil.example@plain.example/",
            "http://plain.example/",
            "http://localhost/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://secret.example/",
            "/relative",
        ] {
            let refused = outgoing("GET", uri, &[]).err().unwrap();
            assert!(matches!(refused.error, Error::HttpRequestDenied), "{uri}: {}", refused.why);
        }
        for uri in
            ["https://plain.example", "HTTPS://PLAIN.example:443/x", "https://[2001:DB8::1]/"]
        {
            assert!(outgoing("GET", uri, &[]).is_ok(), "{uri}");
        }
    }

    #[test]
    fn request_targets_are_in_origin_form() {
        for (uri, wanted) in [
            ("https://plain.example", "/"),
            ("https://plain.example/", "/"),
            ("https://plain.example?q=1", "/?q=1"),
            ("https://plain.example/a/../b?q=//x#f", "/a/../b?q=//x"),
            ("https://plain.example//evil.example/x", "//evil.example/x"),
        ] {
            let sent = outgoing("GET", uri, &[]).ok().unwrap();
            // Never in absolute form, which is for proxies.
            assert_eq!(sent.target.to_string(), wanted);
            assert!(sent.target.scheme().is_none() && sent.target.authority().is_none(), "{uri}");
        }
    }

    #[test]
    fn connect_and_trace_are_denied() {
        for method in ["CONNECT", "TRACE"] {
            let refused = outgoing(method, "https://plain.example/", &[]).err().unwrap();
            assert!(matches!(refused.error, Error::HttpRequestMethodInvalid), "{method}");
        }
        for method in ["GET", "POST", "DELETE", "PROPFIND"] {
            assert!(outgoing(method, "https://plain.example/", &[]).is_ok(), "{method}");
        }
    }

    #[test]
    fn the_host_sets_transport_and_operator_headers() {
        let theirs = [
            ("host", "evil.example"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("keep-alive", "600"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("authorization", "Bearer mine"),
            ("x-mine", "kept"),
        ];
        let sent = outgoing("GET", "https://secret.example:8443/", &theirs).ok().unwrap();
        let mut found: Vec<_> = sent
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("authorization", "Bearer s3cr3t"),
                ("host", "secret.example:8443"),
                ("user-agent", USER_AGENT),
                ("x-mine", "kept"),
            ]
        );
        assert_eq!(sent.timeout, Some(Duration::from_millis(500)));
        let elsewhere = outgoing("GET", "https://plain.example/", &[]).ok().unwrap();
        assert!(!elsewhere.headers.contains_key("authorization"));
    }

    #[test]
    fn an_unset_secret_variable_is_named() {
        let refused = outgoing("GET", "https://unset.example/", &[]).err().unwrap();
        assert!(matches!(refused.error, Error::ConfigurationError));
        assert!(refused.why.contains("needs the variable UNSET"), "{}", refused.why);
    }
}
