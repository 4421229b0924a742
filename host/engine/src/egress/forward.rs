//! One request on its way to an origin, and its response: decided, with the operator's headers, within
//! limits, without secrets.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::response;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Shared;
use super::account::Used;
use super::body::{self, Content, Filter, Passed};
use super::proxy::refused;
use cofferdam_core::policy::{Origin, OriginSettings, is_transport_header};
use cofferdam_plugin::http::{CONNECT_TIMEOUT, Reach, http1};
use cofferdam_sandbox::Redactor;

/// How long an origin may take for the head of a response, unless its settings have a timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The way to one origin for one connection of a program. Its connection to the origin is used again.
pub(super) struct Route {
    shared: Arc<Shared>,
    origin: Origin,
    sender: Mutex<Option<SendRequest<Content>>>,
}

/// The answer of the proxy instead of the origin's.
type Refused = (StatusCode, String);

impl Route {
    pub(super) fn new(shared: Arc<Shared>, origin: Origin) -> Self {
        Self { shared, origin, sender: Mutex::default() }
    }

    /// Forwards a request, or returns a response that says why it is refused.
    pub(super) async fn forward(&self, request: Request<Incoming>) -> Response<Content> {
        match self.try_forward(request).await {
            Ok(response) => response,
            Err((status, why)) => {
                self.shared.refuse(Some(&self.origin), why.clone());
                refused(status, &why)
            }
        }
    }

    async fn try_forward(&self, request: Request<Incoming>) -> Result<Response<Content>, Refused> {
        let (head, body) = request.into_parts();
        self.check(&head, &body)?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let rules = self.shared.rules.request(&self.origin, head.method.as_str(), path);
        let rules = rules.map_err(|why| (StatusCode::FORBIDDEN, why.to_string()))?;
        let mut counted = rules.iter().filter_map(|(rule, settings)| {
            Some((self.shared.account.of(rule).filter(|used| used.add_request())?, *settings))
        });
        let used_up = || {
            let why =
                format!("the requests or bytes that are granted for {} are used up", self.origin);
            (StatusCode::TOO_MANY_REQUESTS, why)
        };
        let (used, settings) = counted.next().ok_or_else(used_up)?;
        let target: Uri = path.parse().map_err(|_| invalid("the path"))?;
        let headers = self.headers(&head.headers, settings)?;
        let size: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if !used.add_bytes(size + path.len()) {
            return Err(used_up());
        }
        let is_head = head.method == Method::HEAD;
        let filter = Filter::Guarded(self.shared.guard.scanner());
        let body = Passed::new(body, Arc::clone(&used), filter).boxed_unsync();
        let mut request = Request::builder().method(head.method).uri(target).body(body);
        if let Ok(request) = &mut request {
            *request.headers_mut() = headers;
        }
        let request = request.map_err(|_| invalid("the request"))?;
        self.shared.usage.add_origin(&self.origin);
        let response = self.send(settings, request).await?;
        self.answer(response, used, is_head)
    }

    /// Checks what does not depend on the rules.
    fn check(&self, head: &Parts, body: &Incoming) -> Result<(), Refused> {
        let mut hosts = head.headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let scheme = if self.origin.is_secure() { "https" } else { "http" };
        let named = format!("{scheme}://{host}").parse::<Origin>();
        if hosts.next().is_some() || named.as_ref() != Ok(&self.origin) {
            return Err(invalid("the header Host, which has to name the origin once,"));
        }
        if [Method::GET, Method::HEAD].contains(&head.method) && !body.is_end_stream() {
            return Err(invalid("a body of a request that only reads"));
        }
        let text = head.headers.iter().flat_map(|(name, value)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat()
        });
        let line = format!("{} {}\n", head.method, head.uri);
        let text: Vec<u8> = line.into_bytes().into_iter().chain(text).collect();
        if self.shared.guard.finds(&text) {
            let why = format!(
                "a request to {} holds the value of a granted variable, which is not sent; to let the \
                 proxy send it, name it in headers of the origin",
                self.origin
            );
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(())
    }

    /// The headers that are sent: the program's own without those of the connection, and the
    /// operator's.
    fn headers(&self, own: &HeaderMap, settings: &OriginSettings) -> Result<HeaderMap, Refused> {
        let mut headers = HeaderMap::new();
        for (name, value) in own.iter().filter(|(name, _)| !is_transport_header(name.as_str())) {
            headers.append(name.clone(), value.clone());
        }
        let added = self.shared.secrets.headers(settings);
        let added = added.map_err(|why| (StatusCode::BAD_GATEWAY, why))?;
        if !added.is_empty() {
            // A secret in a compressed response could not be redacted.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        for (name, value) in added {
            headers.insert(name, value);
        }
        let host = HeaderValue::try_from(self.origin.authority());
        headers.insert(header::HOST, host.map_err(|_| invalid("the host"))?);
        Ok(headers)
    }

    /// Sends a request on the connection of the request before it, or on a new one.
    async fn send(
        &self,
        settings: &OriginSettings,
        mut request: Request<Content>,
    ) -> Result<Response<Incoming>, Refused> {
        let most = settings.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        let most = most.unwrap_or(RESPONSE_TIMEOUT);
        let mut place = self.sender.lock().await;
        if let Some(mut sender) = place.take()
            && sender.ready().await.is_ok()
        {
            let again = copy(&request);
            match self.in_time(most, sender.try_send_request(request)).await? {
                Ok(response) => {
                    *place = Some(sender);
                    return Ok(response);
                }
                // The origin has closed the connection meanwhile.
                Err(mut error) => match error.take_message().or(again) {
                    Some(unanswered) => request = unanswered,
                    None => return Err(self.broken(error.error())),
                },
            }
        }
        let mut sender = self.connect(settings).await?;
        let response = self.in_time(most, sender.send_request(request)).await?;
        let response = response.map_err(|error| self.broken(&error))?;
        *place = Some(sender);
        Ok(response)
    }

    async fn connect(&self, settings: &OriginSettings) -> Result<SendRequest<Content>, Refused> {
        let connecting = self.shared.connector.connect(settings, Reach::Named);
        let stream = self.in_time(CONNECT_TIMEOUT, connecting).await?;
        let stream = stream.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?;
        let handshake = http1().handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| self.broken(&error))?;
        tokio::spawn(async move {
            // The response has the error as well.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn in_time<T>(
        &self,
        most: Duration,
        what: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        let late = |_| {
            let why = format!("{} has not answered within {} ms", self.origin, most.as_millis());
            (StatusCode::GATEWAY_TIMEOUT, why)
        };
        timeout(most, what).await.map_err(late)
    }

    fn broken(&self, error: &hyper::Error) -> Refused {
        (StatusCode::BAD_GATEWAY, format!("{}: {error}", self.origin))
    }

    /// The response for the program.
    fn answer(
        &self,
        response: Response<Incoming>,
        used: Arc<Used>,
        is_head: bool,
    ) -> Result<Response<Content>, Refused> {
        let (mut head, body) = response.into_parts();
        if head.status.is_informational() {
            return Err((StatusCode::BAD_GATEWAY, format!("{} changes protocols", self.origin)));
        }
        let hidden = self.shared.secrets.hidden();
        let length = head.headers.get(header::CONTENT_LENGTH).cloned();
        remove_transport(&mut head);
        if hidden.is_empty() {
            if let Some(length) = length.filter(|_| is_head) {
                head.headers.insert(header::CONTENT_LENGTH, length);
            }
            let body = Passed::new(body, used, Filter::Plain).boxed_unsync();
            return Ok(Response::from_parts(head, body));
        }
        let encoding = head.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let may_hide = encoding.is_some_and(|encoding| encoding != b"identity");
        if may_hide && !is_head {
            let why = format!("{} has compressed a response that may hold a secret", self.origin);
            return Err((StatusCode::BAD_GATEWAY, why));
        }
        redact(&mut head.headers, &hidden);
        let filter = Filter::Redacted(Redactor::new(&hidden));
        Ok(Response::from_parts(head, Passed::new(body, used, filter).boxed_unsync()))
    }
}

/// A copy of a request that only reads, which can be sent again.
fn copy(request: &Request<Content>) -> Option<Request<Content>> {
    let is_reading = [Method::GET, Method::HEAD].contains(request.method());
    let mut again = Request::new(body::text(String::new()));
    again.method_mut().clone_from(request.method());
    again.uri_mut().clone_from(request.uri());
    again.headers_mut().clone_from(request.headers());
    is_reading.then_some(again)
}

fn invalid(what: &str) -> Refused {
    (StatusCode::BAD_REQUEST, format!("{what} is not allowed"))
}

fn remove_transport(head: &mut response::Parts) {
    let names: Vec<HeaderName> = head.headers.keys().cloned().collect();
    for name in names.iter().filter(|name| is_transport_header(name.as_str())) {
        head.headers.remove(name);
    }
}

/// Redacts secrets in the values of headers. A header whose name holds one is left out.
fn redact(headers: &mut HeaderMap, hidden: &[(String, String)]) {
    let mut clean = HeaderMap::new();
    for (name, value) in headers.iter() {
        let mut redactor = Redactor::new(hidden);
        let mut text = redactor.push(value.as_bytes());
        text.extend(redactor.finish());
        let is_clean_name =
            hidden.iter().all(|(_, secret)| !name.as_str().contains(&secret.to_ascii_lowercase()));
        if let Ok(value) = HeaderValue::from_bytes(&text)
            && is_clean_name
        {
            clean.append(name.clone(), value);
        }
    }
    *headers = clean;
}
