//! Who may use the page. Requests name this address as their host (DNS rebinding). The token of the
//! opened address is exchanged once for a cookie, without which nothing is answered. A request that
//! changes something comes from a page of this server, by its origin and by a token in the form (CSRF).
//!
//! Cookies are shared by all ports of a host. So the pages are below a random path, and the cookie is
//! for this path only: a browser does not send it to another server of this machine.

use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

/// The name of the cookie.
const COOKIE: &str = "cofferdam-console";

/// The size of a secret, in bytes.
const SECRET_BYTES: usize = 32;

/// What a page may do: its own style, script, forms and stream of events, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The secrets of one server, and its address.
pub struct Access {
    /// `127.0.0.1:8080`.
    host: String,
    /// Below which path the pages are, with a slash at both ends.
    base: String,
    /// The token of the opened address, until it is used.
    token: Mutex<Option<String>>,
    cookie: String,
    csrf: String,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(StatusCode, &'static str);

impl Access {
    /// Makes the secrets for a server at a port.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(port: u16) -> std::io::Result<Self> {
        Ok(Self {
            host: format!("127.0.0.1:{port}"),
            base: format!("/{}/", secret()?),
            token: Mutex::new(Some(secret()?)),
            cookie: secret()?,
            csrf: secret()?,
        })
    }

    /// The address to open, with the token; `None` once it was used.
    pub fn address(&self) -> Option<String> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.as_ref().map(|token| format!("http://{}{}?token={token}", self.host, self.base))
    }

    /// Below which path the pages are.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The token that forms bring.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Checks where a request goes and comes from. Whose it is, [`Self::check_cookie`] says.
    ///
    /// # Errors
    /// Another host, or another page.
    pub fn check_source(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refused> {
        let is_here = uri.authority().is_none_or(|named| named.as_str() == self.host);
        if only(headers, header::HOST) != Some(self.host.as_bytes()) || !is_here {
            return Err(Refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this server is reached at 127.0.0.1 only, at the address that it has printed",
            ));
        }
        let origin = format!("http://{}", self.host);
        let is_own = only(headers, header::ORIGIN) == Some(origin.as_bytes());
        let is_reading = method == Method::GET || method == Method::HEAD;
        // A browser names the origin of a form. Of an address that is opened, it does not.
        if !(is_own || is_reading && !headers.contains_key(header::ORIGIN)) {
            return Err(Refused(StatusCode::FORBIDDEN, "the request comes from another page"));
        }
        Ok(())
    }

    /// Checks the cookie.
    ///
    /// # Errors
    /// There is none, or not this server's.
    pub fn check_cookie(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let of_header = |value: &HeaderValue| -> Vec<String> {
            let pairs = value.to_str().unwrap_or_default().split(';');
            let own = pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
            own.map(str::to_owned).collect()
        };
        let given: Vec<String> =
            headers.get_all(header::COOKIE).iter().flat_map(of_header).collect();
        match &given[..] {
            [given] if is_same(given, &self.cookie) => Ok(()),
            _ => Err(Refused(
                StatusCode::FORBIDDEN,
                "this browser has not opened the console: start `cofferdam console` again, and open \
                 the address that it prints. Each address can be opened once",
            )),
        }
    }

    /// Checks the token of a form.
    ///
    /// # Errors
    /// There is none, or not this server's.
    pub fn check_form(&self, csrf: &str) -> Result<(), Refused> {
        let why = "the form is not of this console: reload the page, and send it again";
        is_same(csrf, &self.csrf).then_some(()).ok_or(Refused(StatusCode::FORBIDDEN, why))
    }

    /// Takes the token of the opened address, which is of no use afterwards. Returns the cookie.
    ///
    /// # Errors
    /// A token that was used, or is not this server's.
    pub fn enter(&self, token: &str) -> Result<String, Refused> {
        let mut left = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if !left.as_ref().is_some_and(|left| is_same(token, left)) {
            return Err(Refused(
                StatusCode::FORBIDDEN,
                "this address was opened already, or is not of this console: start `cofferdam \
                 console` again for another one",
            ));
        }
        *left = None;
        Ok(format!("{COOKIE}={}; Path={}; HttpOnly; SameSite=Strict", self.cookie, self.base))
    }
}

impl From<Refused> for Response {
    fn from(Refused(status, why): Refused) -> Self {
        (status, format!("{why}\n")).into_response()
    }
}

/// Adds what every response has.
pub fn protect(response: &mut Response) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, browsers would not name the origin of a form either.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

/// The value of a header that occurs once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&[u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes())
}

/// Compares by digests, so that the time says nothing about a secret.
fn is_same(given: &str, secret: &str) -> bool {
    Sha256::digest(given) == Sha256::digest(secret)
}

/// A random number as text.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(cofferdam_text::hex(&bytes))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_requests_of_this_server_s_own_pages_are_taken() {
        let access = Access::new(1234).unwrap();
        let (host, origin) = (header::HOST, header::ORIGIN);
        let own = "127.0.0.1:1234";
        let from = "http://127.0.0.1:1234";
        for (method, pairs, is_taken) in [
            (Method::GET, &[(host.clone(), own)][..], true),
            (Method::GET, &[(host.clone(), own), (origin.clone(), from)], true),
            (Method::GET, &[(host.clone(), own), (origin.clone(), "null")], false),
            (Method::GET, &[], false),
            (Method::GET, &[(host.clone(), own), (host.clone(), own)], false),
            (Method::GET, &[(host.clone(), "evil.example:1234")], false),
            (Method::GET, &[(host.clone(), "localhost:1234")], false),
            (Method::GET, &[(host.clone(), "127.0.0.1")], false),
            (Method::POST, &[(host.clone(), own)], false),
            (Method::POST, &[(host.clone(), own), (origin.clone(), from)], true),
            (Method::POST, &[(host.clone(), own), (origin.clone(), "null")], false),
            (Method::POST, &[(host.clone(), own), (origin.clone(), "http://127.0.0.1:1")], false),
            (Method::POST, &[(host.clone(), own), (origin, "https://127.0.0.1:1234")], false),
        ] {
            let checked = access.check_source(&method, &Uri::from_static("/x"), &headers(pairs));
            assert_eq!(checked.is_ok(), is_taken, "{method} {pairs:?}");
        }
        let uri = Uri::from_static("http://evil.example/x");
        assert!(access.check_source(&Method::GET, &uri, &headers(&[(host, own)])).is_err());
    }

    #[test]
    fn the_token_is_exchanged_once() {
        let access = Access::new(1).unwrap();
        let address = access.address().unwrap();
        let token = address.split_once("token=").unwrap().1;
        assert!(access.enter("").is_err() && access.enter(&token[1..]).is_err());
        let cookie = access.enter(token).unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert!(access.enter(token).is_err() && access.address().is_none());
        let pair = cookie.split(';').next().unwrap();
        let check = |value: &str| access.check_cookie(&headers(&[(header::COOKIE, value)]));
        assert!(check(pair).is_ok() && check(&format!("a=b; {pair}; c=d")).is_ok());
        for foreign in [
            "",
            "a=b",
            COOKIE,
            "cofferdam-console=",
            &format!("{pair}0"),
            &format!("{pair}; {pair}"),
        ] {
            assert!(check(foreign).is_err(), "{foreign}");
        }
        assert!(access.check_form("").is_err() && access.check_form(access.csrf()).is_ok());
    }
}
