//! Fetching a page by GET, with its redirects.

use std::time::Duration;

use cofferdam_sdk::ToolError;
use cofferdam_sdk::http::{self, Request, Response};
use url::Url;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The maximum size of a body, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;

/// The time of a call that is reserved for making text, in milliseconds.
const RESERVE_MS: u32 = 2_000;

/// What servers are told to send: text, if they have it.
const ACCEPT: &str =
    "text/html, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5";

/// A page that was fetched.
#[derive(Debug)]
pub struct Page {
    /// Its address.
    pub url: Url,
    /// The status of the response.
    pub status: u16,
    /// The header `content-type`; empty if there is none.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Page {
    /// The media type, in lower case and without parameters; `None` if the server named none.
    pub fn media_type(&self) -> Option<String> {
        let essence = self.content_type.split(';').next().unwrap_or_default().trim();
        (!essence.is_empty()).then(|| essence.to_ascii_lowercase())
    }

    #[cfg(test)]
    #[expect(clippy::unwrap_used, reason = "tests")]
    pub(crate) fn new(url: &str, content_type: &str, body: &[u8]) -> Self {
        let (url, content_type) = (url.parse().unwrap(), content_type.to_owned());
        Self { url, status: 200, content_type, body: body.to_vec() }
    }
}

/// Sends GET requests.
pub trait Web {
    /// Sends one request; returns the response.
    ///
    /// # Errors
    /// See [`http::Error`]: there is no response.
    fn get(&self, url: &Url) -> Result<Response, http::Error>;
}

/// The origins that the plugin is granted.
pub struct Origins {
    /// The time for the call, in milliseconds.
    pub deadline_ms: u32,
}

impl Web for Origins {
    fn get(&self, url: &Url) -> Result<Response, http::Error> {
        let left = self.deadline_ms.saturating_sub(RESERVE_MS.min(self.deadline_ms / 4));
        let mut request = Request::get(url.as_str())
            .header("accept", ACCEPT)
            .header("user-agent", concat!("cofferdam-web/", env!("CARGO_PKG_VERSION")))
            .timeout(Duration::from_millis(left.into()));
        request.most = MAX_BODY_BYTES;
        request.send()
    }
}

/// Fetches a page. Redirects are followed to origins that are granted as well.
///
/// # Errors
/// `InvalidUrl`; `OriginNotGranted` for an origin that is not granted, also that of a redirect;
/// `TooManyRedirects`; and those of requests: `TimeoutError`, `ConnectionError`, `ResponseTooLarge`,
/// `HostNotSetUp`.
pub fn fetch(web: &dyn Web, url: &str) -> Result<Page, ToolError> {
    let invalid = |url: &str, why: &dyn std::fmt::Display| {
        ToolError::invalid_args("InvalidUrl", format!("{url}: {why}"))
    };
    let mut url = Url::parse(url.trim()).map_err(|error| invalid(url, &error))?;
    for _ in 0..=MAX_REDIRECTS {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(invalid(url.as_str(), &"only https:// can be fetched"));
        }
        let response = web.get(&url).map_err(ToolError::from)?;
        let location = response.header("location");
        let Some(location) = location.filter(|_| matches!(response.status, 301..=303 | 307 | 308))
        else {
            let content_type = response.header("content-type").unwrap_or_default().to_owned();
            return Ok(Page { url, status: response.status, content_type, body: response.body });
        };
        url = url.join(location).map_err(|error| invalid(location, &error))?;
    }
    let message = format!("it redirects more than {MAX_REDIRECTS} times, at last to {url}");
    Err(ToolError::failed("TooManyRedirects", message))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::RefCell;

    use super::*;

    /// Redirects from `/1` to `/2` and so on; to another origin from `/away`.
    struct Chain(RefCell<Vec<String>>);

    impl Web for Chain {
        fn get(&self, url: &Url) -> Result<Response, http::Error> {
            self.0.borrow_mut().push(url.to_string());
            let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
            if url.host_str() != Some("a.example") {
                return Err(http::Error::Denied(format!("{url} is not granted")));
            }
            let (status, headers) = match url.path() {
                "/away" => (302, vec![header("location", "https://b.example/")]),
                "/file" => (302, vec![header("location", "file:///etc/passwd")]),
                "/304" => (304, vec![header("location", "/1")]),
                "/3" => (404, vec![header("content-type", "Text/HTML; charset=x")]),
                path => {
                    let next = path[1..].parse::<usize>().unwrap() + 1;
                    (308, vec![header("location", &format!("./{next}"))])
                }
            };
            Ok(Response { status, headers, body: b"body".to_vec() })
        }
    }

    fn fetched(path: &str) -> (Result<Page, ToolError>, Vec<String>) {
        let chain = Chain(RefCell::default());
        let fetched = fetch(&chain, &format!("https://a.example{path}"));
        (fetched, chain.0.into_inner())
    }

    #[test]
    fn redirects_are_followed_to_granted_origins() {
        let (page, urls) = fetched("/1");
        let page = page.unwrap();
        assert_eq!((page.url.as_str(), page.status), ("https://a.example/3", 404));
        assert_eq!(page.media_type().unwrap(), "text/html");
        assert_eq!(urls.len(), 3);
        assert_eq!(fetched("/304").0.unwrap().status, 304);
        for (path, code, requests) in [
            ("/away", "OriginNotGranted", 2),
            ("/file", "InvalidUrl", 1),
            ("/9", "TooManyRedirects", 6),
        ] {
            let (page, urls) = fetched(path);
            assert_eq!((page.unwrap_err().code.as_str(), urls.len()), (code, requests), "{path}");
        }
        let chain = Chain(RefCell::default());
        for url in ["", "a.example", "file:///etc/passwd", "data:text/plain,a"] {
            assert_eq!(fetch(&chain, url).unwrap_err().code, "InvalidUrl", "{url}");
        }
        assert!(chain.0.borrow().is_empty());
    }
}
