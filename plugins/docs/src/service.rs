//! Requests to Context7: timeout, retry, and the meaning of a status.

use std::time::Duration;

use cofferdam_sdk::http::{self, Request, Response, encode};
use cofferdam_sdk::{ToolError, shorten};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The origin of the service.
const ORIGIN: &str = "https://context7.com";

/// The timeout of a request (the tool schemas: "Server latency >10s").
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time of a call that is reserved for returning the result, in milliseconds.
const RESERVE_MS: u32 = 1_000;

/// The maximum number of attempts (the tool schemas: "Retry once").
const MAX_ATTEMPTS: usize = 2;

/// The maximum age of a cached response, in seconds: documentation changes seldom, and requests
/// count against a quota.
const MAX_AGE_SECONDS: u32 = 24 * 60 * 60;

/// The maximum size of a response body, in bytes.
const MAX_BODY_BYTES: usize = 4 << 20;

/// The advice in messages about a missing response (the tool schemas, "Fallback Actions").
const FALLBACK_ADVICE: &str = "go on without it: use what you know, and mark that as unverified";

/// Sends GET requests to the service.
pub trait Service {
    /// Sends a GET request for a path and query; returns the response.
    ///
    /// # Errors
    /// See [`http::Error`]: there is no response.
    fn get(&self, target: &str) -> Result<Response, http::Error>;
}

/// The real service, called by HTTP.
pub struct Context7 {
    limit: Duration,
}

impl Context7 {
    /// Requests that fit into a call of `deadline_ms` milliseconds.
    pub fn within(deadline_ms: u32) -> Self {
        let left = deadline_ms.saturating_sub(RESERVE_MS.min(deadline_ms / 4));
        let each = Duration::from_millis(u64::from(left) / MAX_ATTEMPTS as u64);
        Self { limit: REQUEST_TIMEOUT.min(each) }
    }
}

impl Service for Context7 {
    fn get(&self, target: &str) -> Result<Response, http::Error> {
        let mut request = Request::get(format!("{ORIGIN}{target}"))
            .header("accept", "application/json")
            .header("cache-control", &format!("max-stale={MAX_AGE_SECONDS}"))
            .timeout(self.limit);
        request.most = MAX_BODY_BYTES;
        request.send()
    }
}

/// Builds path and query of a request.
pub fn target(path: &str, query: &[(&str, &str)]) -> String {
    let query: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    format!("{path}?{}", query.join("&"))
}

/// The fields of a response that is not data.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Notice {
    message: String,
    redirect_url: String,
}

/// The meaning of a response.
#[derive(Debug, PartialEq)]
pub enum Reply<T> {
    /// The data that was requested.
    Found(T),
    /// The library does not exist.
    NotFound,
    /// The library has another id now.
    Moved(String),
    /// The library has no documentation, or it is not processed yet.
    Empty(String),
}

/// Sends a request, with one retry if there is no usable response.
///
/// # Errors
/// `TimeoutError`, `ConnectionError`, `QuotaExceeded`, `AccessDenied`, and those of the host.
pub fn ask<T: DeserializeOwned>(
    service: &dyn Service,
    target: &str,
) -> Result<Reply<T>, ToolError> {
    let mut attempt = 1;
    loop {
        let failed = match service.get(target) {
            Ok(response) if response.status >= 500 => ToolError::unavailable(
                "ConnectionError",
                format!(
                    "Context7 failed with status {}, twice; {FALLBACK_ADVICE}",
                    response.status
                ),
            ),
            Ok(response) => return interpret(&response),
            Err(http::Error::Timeout) => ToolError::unavailable(
                "TimeoutError",
                format!("Context7 has not answered in time, twice; {FALLBACK_ADVICE}"),
            ),
            Err(error @ (http::Error::Unreachable(_) | http::Error::Failed(_))) => {
                ToolError::unavailable(
                    "ConnectionError",
                    format!("{error}, twice; {FALLBACK_ADVICE}"),
                )
            }
            Err(error) => return Err(error.into()),
        };
        if attempt == MAX_ATTEMPTS {
            return Err(failed);
        }
        attempt += 1;
    }
}

fn interpret<T: DeserializeOwned>(response: &Response) -> Result<Reply<T>, ToolError> {
    let notice: Notice = serde_json::from_slice(&response.body).unwrap_or_default();
    let said = || match notice.message.as_str() {
        "" => String::new(),
        message => format!(" ({})", shorten(message, 300)),
    };
    match response.status {
        200 => serde_json::from_slice(&response.body).map(Reply::Found).map_err(|error| {
            ToolError::unavailable(
                "ConnectionError",
                format!("Context7 answered what can't be read: {error}; {FALLBACK_ADVICE}"),
            )
        }),
        301 | 302 | 307 | 308 => Ok(Reply::Moved(match notice.redirect_url.as_str() {
            "" => response.header("location").unwrap_or_default().to_owned(),
            url => url.to_owned(),
        })),
        202 => Ok(Reply::Empty(format!("its documentation is still being processed{}", said()))),
        422 => {
            Ok(Reply::Empty(format!("it has no documentation that could be searched{}", said())))
        }
        404 => Ok(Reply::NotFound),
        402 | 429 => {
            let when = match response.header("retry-after") {
                Some(seconds) if seconds.bytes().all(|b| b.is_ascii_digit()) => {
                    format!(", until {seconds} s from now")
                }
                _ => String::new(),
            };
            let why = format!(
                "the limit of requests to Context7 is reached{when}{}; {FALLBACK_ADVICE}",
                said()
            );
            Err(ToolError::unavailable("QuotaExceeded", why))
        }
        401 | 403 => Err(ToolError::unavailable(
            "AccessDenied",
            format!(
                "Context7 refuses access with status {}{}; the operator can set another key in \
                 the grant of the plugin",
                response.status,
                said()
            ),
        )),
        status => Err(ToolError::failed(
            "RequestRefused",
            format!("Context7 refuses the request with status {status}{}", said()),
        )),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A fake service with prepared responses.

    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    /// Returns the responses in order, and records the requests.
    pub struct FakeService {
        answers: RefCell<VecDeque<Result<Response, http::Error>>>,
        pub asked: RefCell<Vec<String>>,
    }

    impl FakeService {
        pub fn new(answers: impl IntoIterator<Item = Result<Response, http::Error>>) -> Self {
            Self { answers: RefCell::new(answers.into_iter().collect()), asked: RefCell::default() }
        }

        pub fn json(status: u16, body: &serde_json::Value) -> Self {
            Self::new([answer(status, body)])
        }
    }

    pub fn answer(status: u16, body: &serde_json::Value) -> Result<Response, http::Error> {
        Ok(Response { status, headers: Vec::new(), body: body.to_string().into_bytes() })
    }

    impl Service for FakeService {
        fn get(&self, target: &str) -> Result<Response, http::Error> {
            self.asked.borrow_mut().push(target.to_owned());
            self.answers.borrow_mut().pop_front().unwrap_or(Err(http::Error::Timeout))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::testing::{FakeService, answer};
    use super::*;
    use serde_json::{Value, json};

    fn unreachable() -> Result<Response, http::Error> {
        Err(http::Error::Unreachable("https://context7.com".to_owned()))
    }

    #[test]
    fn failures_are_retried_once() {
        let fine = || answer(200, &json!({"a": 1}));
        for (first, second, wanted) in [
            (Err(http::Error::Timeout), fine(), Ok(())),
            (unreachable(), fine(), Ok(())),
            (answer(503, &json!({})), fine(), Ok(())),
            (Err(http::Error::Timeout), Err(http::Error::Timeout), Err("TimeoutError")),
            (unreachable(), unreachable(), Err("ConnectionError")),
            (unreachable(), Err(http::Error::Timeout), Err("TimeoutError")),
            (answer(500, &json!({})), answer(502, &json!({})), Err("ConnectionError")),
        ] {
            let service = FakeService::new([first, second, fine()]);
            let found = ask::<Value>(&service, "/x").map_err(|error| {
                assert!(error.message.ends_with("mark that as unverified"), "{error}");
                error.code
            });
            assert_eq!(found.as_ref().map(drop).map_err(String::as_str), wanted.map(drop));
            assert_eq!(service.asked.borrow().len(), 2);
        }
    }

    #[test]
    fn definite_failures_are_not_retried() {
        let message = json!({"error": "e", "message": "why"});
        for (status, wanted) in [
            (429, Err("QuotaExceeded")),
            (402, Err("QuotaExceeded")),
            (401, Err("AccessDenied")),
            (403, Err("AccessDenied")),
            (400, Err("RequestRefused")),
            (404, Ok(Reply::NotFound)),
            (202, Ok(Reply::Empty("its documentation is still being processed (why)".to_owned()))),
            (
                422,
                Ok(Reply::Empty("it has no documentation that could be searched (why)".to_owned())),
            ),
        ] {
            let service = FakeService::json(status, &message);
            let found = ask::<Value>(&service, "/x").map_err(|error| {
                assert!(error.message.contains("(why)"), "{error}");
                error.code
            });
            assert_eq!(
                found.as_ref().map_err(String::as_str),
                wanted.as_ref().map_err(|code| *code)
            );
            assert_eq!(service.asked.borrow().len(), 1);
        }
        let moved = FakeService::json(301, &json!({"redirectUrl": "/a/b"}));
        assert_eq!(ask::<Value>(&moved, "/x").unwrap(), Reply::Moved("/a/b".to_owned()));
        let broken = Response { status: 200, headers: Vec::new(), body: b"<html>".to_vec() };
        let error = ask::<Value>(&FakeService::new([Ok(broken)]), "/x").unwrap_err();
        assert_eq!(error.code, "ConnectionError");
    }

    #[test]
    fn the_quota_error_says_when_it_resets() {
        let headers = vec![("retry-after".to_owned(), b"120".to_vec())];
        let response = Response { status: 429, headers, body: Vec::new() };
        let error = ask::<Value>(&FakeService::new([Ok(response)]), "/x").unwrap_err();
        assert!(error.message.contains("until 120 s from now"), "{error}");
    }

    #[test]
    fn two_attempts_fit_into_a_call() {
        for (deadline, wanted) in
            [(30_000, 10_000), (600_000, 10_000), (11_000, 5_000), (1_000, 375), (0, 0)]
        {
            assert_eq!(Context7::within(deadline).limit, Duration::from_millis(wanted));
        }
    }

    #[test]
    fn nothing_is_sent_in_native_builds() {
        let error = ask::<Value>(&Context7::within(1_000), "/x").unwrap_err();
        assert_eq!(error.code, "HostNotSetUp");
    }
}
