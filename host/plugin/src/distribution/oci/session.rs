//! Requests to one repository of a registry, with authentication: the credentials that the registry
//! asks for once (distribution-spec, "Authentication"; tokens by distribution's "Token
//! Authentication Specification") are sent with every later request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderName};
use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::credentials::Credentials;
use crate::distribution::FetchError;
use crate::http::{Answer, Client, Request};
use crate::source::{Address, Reference, SourceOrigin};
use cofferdam_core::policy::Origin;
use cofferdam_text::{escape_control, shorten};

/// The largest size of an answer other than content, in bytes.
pub const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// How much of a registry's error message is shown, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// The user's credentials for a registry, and the origin other than the registry that may receive
/// them.
pub struct Login {
    /// The credentials of `docker login`; none if the user has not logged in there.
    pub credentials: Option<Credentials>,
    /// The origin that issues the registry's tokens, from the user's settings or because it is well
    /// known.
    pub tokens: Option<Origin>,
}

/// Registries whose tokens are known to be issued by another origin.
const TOKEN_ORIGINS: [(&str, &str); 3] = [
    ("registry-1.docker.io", "https://auth.docker.io"),
    ("index.docker.io", "https://auth.docker.io"),
    ("registry.gitlab.com", "https://gitlab.com"),
];

/// The origin that is known to issue a registry's tokens.
pub fn tokens(registry: &str) -> Option<Origin> {
    let (_, origin) = TOKEN_ORIGINS.iter().find(|(name, _)| *name == registry)?;
    origin.parse().ok()
}

pub struct Session<'a> {
    client: &'a Client,
    login: Login,
    reference: &'a Reference,
    /// The requested permission: `pull`, or `pull,push`.
    actions: &'static str,
    /// Who named the registry.
    origin: SourceOrigin,
    authorization: Option<String>,
}

/// The authentication that a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl<'a> Session<'a> {
    /// Starts to download from a repository that `origin` named.
    pub fn pull(
        client: &'a Client,
        login: Login,
        reference: &'a Reference,
        origin: SourceOrigin,
    ) -> Self {
        Self { client, login, reference, actions: "pull", origin, authorization: None }
    }

    /// Starts to publish in a repository, which the user named.
    pub fn push(client: &'a Client, login: Login, reference: &'a Reference) -> Self {
        let actions = "pull,push";
        let origin = SourceOrigin::User;
        Self { client, login, reference, actions, origin, authorization: None }
    }

    /// The address of a resource of the repository.
    pub fn address(&self, path: &str) -> Result<Address, FetchError> {
        let Reference { registry, repository, .. } = self.reference;
        let address = format!("{registry}/v2/{repository}/{path}");
        address.parse().map_err(|error| FetchError::answer(self.reference, error))
    }

    /// Downloads a resource that must exist.
    pub async fn get(
        &mut self,
        path: &str,
        headers: &[(HeaderName, String)],
        most: u64,
    ) -> Result<Vec<u8>, FetchError> {
        let mut request = Request::get(self.address(path)?);
        request.headers = headers.to_vec();
        let answer = self.send(request, most).await?;
        self.expect(&answer, StatusCode::OK)?;
        Ok(answer.body.into())
    }

    /// Sends a request; if the registry asks for authentication, sends it again with the
    /// credentials.
    pub async fn send(&mut self, request: Request, most: u64) -> Result<Answer, FetchError> {
        let answer = self.client.send(self.authorized(request.clone()), most).await?;
        if answer.status != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return Ok(answer);
        }
        let challenges = answer.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|text| text.to_str().ok()).find_map(challenge);
        let challenge = challenge.ok_or_else(|| {
            FetchError::answer(
                self.reference,
                "it requires a kind of authentication that is not supported",
            )
        })?;
        self.authorization = Some(self.authorize(&challenge).await?);
        Ok(self.client.send(self.authorized(request), most).await?)
    }

    fn authorized(&self, request: Request) -> Request {
        let request = Request { named: self.origin == SourceOrigin::User, ..request };
        match &self.authorization {
            Some(value) => request.with(header::AUTHORIZATION, value),
            None => request,
        }
    }

    async fn authorize(&self, challenge: &Challenge) -> Result<String, FetchError> {
        let registry = self.reference.registry.authority();
        let (realm, service) = match challenge {
            Challenge::Basic => {
                return self.basic().ok_or_else(|| {
                    let why = format!("it requires authentication; run `docker login {registry}`");
                    FetchError::answer(self.reference, why)
                });
            }
            Challenge::Bearer { realm, service } => (realm, service),
        };
        let address: Address =
            realm.parse().map_err(|error| FetchError::answer(self.reference, error))?;
        let origin = address.origin.clone();
        let is_own = origin == self.reference.registry;
        let is_trusted = is_own || self.login.tokens.as_ref() == Some(&origin);
        if self.login.credentials.is_some() && !is_trusted {
            return Err(FetchError::answer(self.reference, foreign(&registry, &origin)));
        }
        // Another origin is named by the registry, not by the user.
        let named = is_own && self.origin == SourceOrigin::User;
        let request = Request { named, ..self.token_request(address, service.as_deref()) };
        let answer = self.client.send(request, MAX_ANSWER_BYTES).await?;
        if answer.status != StatusCode::OK {
            let why = format!(
                "permission denied ({}); log in with `docker login {registry}`",
                answer.status
            );
            return Err(FetchError::answer(self.reference, why));
        }
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let token: Option<Token> = serde_json::from_slice(&answer.body).ok();
        let token = token.and_then(|Token { token, access_token }| token.or(access_token));
        token.map(|token| format!("Bearer {token}")).ok_or_else(|| {
            FetchError::answer(self.reference, "the server for its tokens returned none")
        })
    }

    /// The user's name and password as a header.
    fn basic(&self) -> Option<String> {
        let Some(Credentials::Password { user, password }) = &self.login.credentials else {
            return None;
        };
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    }

    /// The request for a token: a `GET` with the password, if there is one, or a `POST` with the
    /// identity token (distribution's "OAuth2 Token Authentication").
    fn token_request(&self, mut address: Address, service: Option<&str>) -> Request {
        let scope = format!("repository:{}:{}", self.reference.repository, self.actions);
        let mut query = format!("scope={}", encoded(&scope));
        if let Some(service) = service {
            query.push_str(&format!("&service={}", encoded(service)));
        }
        if let Some(Credentials::Identity(token)) = &self.login.credentials {
            query.push_str("&grant_type=refresh_token&client_id=cofferdam&refresh_token=");
            query.push_str(&encoded(token));
            let request = Request { body: query.into(), ..Request::new(Method::POST, address) };
            return request.with(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let separator = if address.path.contains('?') { '&' } else { '?' };
        address.path.push_str(&format!("{separator}{query}"));
        match self.basic() {
            Some(basic) => Request::get(address).with(header::AUTHORIZATION, basic),
            None => Request::get(address),
        }
    }

    /// Checks the status of an answer.
    pub fn expect(&self, answer: &Answer, wanted: StatusCode) -> Result<(), FetchError> {
        if answer.status == wanted {
            return Ok(());
        }
        let registry = self.reference.registry.authority();
        let why = match answer.status {
            StatusCode::NOT_FOUND => {
                return Err(FetchError::missing(self.reference, "there is nothing of that name"));
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
                "permission denied ({}); log in with `docker login {registry}`",
                answer.status
            ),
            status => format!(
                "the registry answers {status}: {}",
                shorten(&escape_control(&String::from_utf8_lossy(&answer.body)), MAX_ERROR_BYTES)
            ),
        };
        Err(FetchError::answer(self.reference, why))
    }
}

/// Explains why a password is not sent to an origin that a registry names.
fn foreign(registry: &str, origin: &Origin) -> String {
    format!(
        "it asks to send your password for it to {origin}, which is not the registry itself; to \
         allow that, write in your own cofferdam.toml: `tokens = '{origin}'` below \
         `[registries.'{registry}']`"
    )
}

/// Reads `Bearer realm="...",service="..."` (RFC 9110, section 11.6.1).
fn challenge(text: &str) -> Option<Challenge> {
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

/// Percent-encodes a value in a query.
fn encoded(text: &str) -> String {
    const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~')
        .remove(b'/')
        .remove(b':');
    utf8_percent_encode(text, IN_QUERY).to_string()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_identity_token_is_exchanged_by_post() {
        let client = Client::new(None);
        let reference: Reference = "oci://a.example/lines:1".parse().unwrap();
        let credentials = Some(Credentials::Identity("a b".to_owned()));
        let login = Login { credentials, tokens: None };
        let session = Session::pull(&client, login, &reference, SourceOrigin::User);
        assert_eq!(session.basic(), None);
        let address: Address = "https://a.example/token?x=1".parse().unwrap();
        let request = session.token_request(address.clone(), Some("s"));
        assert_eq!((&request.method, &request.address), (&Method::POST, &address));
        let body = "scope=repository:lines:pull&service=s&grant_type=refresh_token\
                    &client_id=cofferdam&refresh_token=a%20b";
        assert_eq!(request.body, body);
        let form = "application/x-www-form-urlencoded".to_owned();
        assert_eq!(request.headers, [(header::CONTENT_TYPE, form)]);
    }

    #[test]
    fn known_registries_have_one_token_origin() {
        for (registry, origin) in TOKEN_ORIGINS {
            assert_eq!(tokens(registry).map(|found| found.to_string()).as_deref(), Some(origin));
        }
        assert_eq!(tokens("ghcr.io"), None);
    }

    #[test]
    fn challenges_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (text, wanted) in [
            ("Basic realm=\"Registry\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a.example/token\",service=\"registry, of a\",scope=\"repository:x:pull,push\"",
                bearer("https://a.example/token", Some("registry, of a")),
            ),
            ("Bearer scope=x, realm=\"https://a.example/t\"", bearer("https://a.example/t", None)),
            ("Bearer service=\"x\"", None),
            ("Bearer realm=\"x", None),
            ("Digest realm=\"x\"", None),
            ("", None),
        ] {
            assert_eq!(challenge(text), wanted, "{text}");
        }
        assert_eq!(encoded("repository:a/b:pull,push x"), "repository:a/b:pull%2Cpush%20x");
    }
}
