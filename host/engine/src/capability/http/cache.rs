//! Cached responses, so that plugins, which keep no state, need not repeat requests.
//!
//! A plugin accepts cached responses by the request header `Cache-Control: max-stale=SECONDS` (RFC
//! 9111, section 5.2.1.2), up to this age. A complete response with status 200 and without
//! `no-store` is cached for this plugin in this workspace, and returned for an identical request,
//! including the operator's headers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};

use cofferdam_core::policy::Origin;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{CacheKind, Workspace};

/// The largest response that is cached, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Where one response is cached.
#[derive(Clone)]
pub(super) struct Place {
    workspace: Arc<Workspace>,
    plugin: String,
    name: String,
    oldest: Duration,
}

impl Place {
    /// Where the response to a request is cached; `None` if it is not to be cached.
    pub fn of(
        workspace: &Arc<Workspace>,
        plugin: &str,
        origin: &Origin,
        (method, target, headers): (&Method, &Uri, &HeaderMap),
    ) -> Option<Self> {
        if method != Method::GET {
            return None;
        }
        let oldest = max_stale(headers)?;
        let mut lines: Vec<String> = headers
            .iter()
            .filter(|(name, _)| *name != CACHE_CONTROL)
            .map(|(name, value)| format!("{name}: {:?}\n", value.as_bytes()))
            .collect();
        lines.sort_unstable();
        let text = format!("{origin}{target}\n{}", lines.concat());
        let name = Digest::of(text.as_bytes()).hex();
        Some(Self { workspace: Arc::clone(workspace), plugin: plugin.to_owned(), name, oldest })
    }

    /// The cached response, unless it is too old.
    pub fn find(&self) -> Option<Response<Bytes>> {
        let kept = self
            .workspace
            .cached(CacheKind::RESPONSES, &self.plugin, &self.name)
            .unwrap_or_else(|error| {
                tracing::debug!("what is kept for '{}' can't be read: {error}", self.plugin);
                None
            });
        let (bytes, age) = kept.filter(|(_, age)| *age <= self.oldest)?;
        let mut answer = decode(bytes)?;
        answer.headers_mut().insert("age", age.as_secs().into());
        Some(answer)
    }

    /// Collects a response, if it is to be cached.
    pub fn collect(self, answer: &Response<impl Sized>) -> Option<Collected> {
        let is_kept = answer.status() == StatusCode::OK
            && !directives(answer.headers()).any(|directive| directive == "no-store");
        is_kept.then(|| Collected {
            place: self,
            bytes: encode(answer.headers()),
            left: MAX_RESPONSE_BYTES,
        })
    }
}

/// A response that is being received.
pub(super) struct Collected {
    place: Place,
    bytes: Vec<u8>,
    left: usize,
}

impl Collected {
    /// Adds a part of the body. Returns false if it is too large to be cached.
    pub fn add(&mut self, part: &[u8]) -> bool {
        self.bytes.extend_from_slice(part);
        self.left.checked_sub(part.len()).map(|left| self.left = left).is_some()
    }

    /// Caches the complete response.
    pub fn keep(self) {
        let Place { workspace, plugin, name, .. } = &self.place;
        if let Err(error) = workspace.store_cached(CacheKind::RESPONSES, plugin, name, &self.bytes)
        {
            tracing::debug!("an answer is not kept for '{plugin}': {error}");
        }
    }
}

/// The directives of a message, in lower case.
fn directives(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|directive| directive.trim().to_ascii_lowercase())
}

fn max_stale(headers: &HeaderMap) -> Option<Duration> {
    let mut oldest = None;
    for directive in directives(headers) {
        if directive == "no-store" || directive == "no-cache" {
            return None;
        }
        let seconds = directive.strip_prefix("max-stale=").and_then(|seconds| seconds.parse().ok());
        oldest = seconds.map(Duration::from_secs).or(oldest);
    }
    oldest
}

/// Encodes headers as JSON on one line, to precede the body.
fn encode(headers: &HeaderMap) -> Vec<u8> {
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let mut bytes = serde_json::json!(headers).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn decode(bytes: Vec<u8>) -> Option<Response<Bytes>> {
    let end = memchr::memchr(b'\n', &bytes)?;
    let headers: Vec<(String, String)> = serde_json::from_slice(&bytes[..end]).ok()?;
    let mut answer = Response::new(Bytes::from(bytes).slice(end + 1..));
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        answer.headers_mut().append(name, HeaderValue::try_from(value).ok()?);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_workspace::Secret;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn max_stale_is_parsed() {
        for (value, wanted) in [
            ("max-stale=60", Some(60)),
            ("Max-Stale=60", Some(60)),
            ("max-age=1, max-stale=5", Some(5)),
            ("max-stale", None),
            ("max-stale=x", None),
            ("max-stale=60, no-store", None),
            ("no-cache, max-stale=60", None),
            ("", None),
        ] {
            let found = max_stale(&headers(&[("cache-control", value)]));
            assert_eq!(found, wanted.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn only_identical_requests_share_a_cache_entry() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap());
        let origin: Origin = "https://a.example".parse().unwrap();
        let place = |plugin: &str, target: &'static str, more: &[(&'static str, &'static str)]| {
            let mut headers = headers(more);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-stale=60"));
            let request = (&Method::GET, &Uri::from_static(target), &headers);
            Place::of(&workspace, plugin, &origin, request).unwrap()
        };
        let first = place("p", "/a?b", &[("authorization", "1"), ("accept", "x")]);
        let answer = Response::builder().header("x-a", "b").body(()).unwrap();
        let mut collected = first.clone().collect(&answer).unwrap();
        assert!(collected.add(b"bo\n") && collected.add(b"dy"));
        collected.keep();
        let found = first.find().unwrap();
        assert_eq!(
            (&found.body()[..], &found.headers()["x-a"]),
            (&b"bo\ndy"[..], &HeaderValue::from_static("b"))
        );
        assert!(found.headers().contains_key("age"));
        assert!(place("p", "/a?b", &[("accept", "x"), ("authorization", "1")]).find().is_some());
        for other in [
            place("q", "/a?b", &[("authorization", "1"), ("accept", "x")]),
            place("p", "/a?c", &[("authorization", "1"), ("accept", "x")]),
            place("p", "/a?b", &[("authorization", "2"), ("accept", "x")]),
            place("p", "/a?b", &[("authorization", "1")]),
        ] {
            assert!(other.find().is_none());
        }
        let old = Place { oldest: Duration::ZERO, ..first };
        std::thread::sleep(Duration::from_millis(5));
        assert!(old.find().is_none());
    }

    #[test]
    fn no_store_and_errors_are_not_cached() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap());
        let origin: Origin = "https://a.example".parse().unwrap();
        let asked = headers(&[("cache-control", "max-stale=60")]);
        let target = Uri::from_static("/");
        assert!(Place::of(&workspace, "p", &origin, (&Method::POST, &target, &asked)).is_none());
        let place = Place::of(&workspace, "p", &origin, (&Method::GET, &target, &asked)).unwrap();
        let answer = |status: u16, value: &str| {
            Response::builder().status(status).header("cache-control", value).body(()).unwrap()
        };
        assert!(place.clone().collect(&answer(200, "private, no-store")).is_none());
        assert!(place.clone().collect(&answer(404, "")).is_none());
        let mut large = place.collect(&answer(200, "public")).unwrap();
        assert!(large.add(&vec![0; MAX_RESPONSE_BYTES]) && !large.add(b"x"));
    }
}
