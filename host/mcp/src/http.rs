//! The server over streamable HTTP: `/mcp`, and `/mcp/ROLE` for each role if the user named no role
//! for the server itself; [`workspaces`] has the addresses of a fleet, and [`access`] who may call.
//!
//! [`access`]: super::access
//! [`workspaces`]: super::workspaces
//!
//! A page in a browser must not reach a server on the user's own machine: requests name one of
//! the known hosts (DNS rebinding), and a browser's `Origin` must be an allowed one. TLS is a
//! proxy's business.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Server;
use super::access::{Access, Callers, authorize};
use super::bodies::{Bodies, Refused, Unread};
use super::connections::{Connections, answer};
use super::fleet::Fleet;
use super::message::Malformed;
use super::sessions::{MAX_SESSIONS, Places, Services, service};
use super::workspaces;
use cofferdam_engine::telemetry::Telemetry;

/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long clients get to read their answers when the server stops, and again after the streams
/// without an end are closed.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4096;

/// The size of the socket buffers of a connection, in bytes. The system reserves twice as much, for its
/// own bookkeeping.
const SOCKET_BUFFER_BYTES: u32 = 128 << 10;

/// The number of addresses in the rate limiter from which on idle ones are removed.
const MAX_RATED_ADDRESSES: usize = 10_000;

/// A server that does not serve.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Others could reach it, and nothing is asked of them.
    #[error(
        "{0} can be reached by other machines; give a token that callers have to bring, or listen \
         on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The address is taken, or not this machine's.
    #[error("{0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// No page can have this origin.
    #[error(
        "{0:?} is no origin of a page; an origin is a scheme and a host, with a port or without, \
         such as https://app.example.com"
    )]
    Origin(String),
}

/// Serves until the server is stopped; `ready` hears of the address once it is listened on. Calls
/// have ended when this returns.
///
/// # Errors
/// See [`HttpError`].
pub fn serve_http(
    server: Server,
    address: SocketAddr,
    access: Access,
    ready: Box<dyn FnOnce(SocketAddr) + Send>,
) -> BoxFuture<'static, Result<(), HttpError>> {
    serve(Served::One(server), address, access, ready).boxed()
}

/// As [`serve_http`], for all workspaces of a fleet: `/workspaces/NAME/mcp`, `/workspaces/NAME/mcp/ROLE`, and
/// `/workspaces/NAME/calls/KEY` for envelopes whose calls are made once.
///
/// # Errors
/// See [`HttpError`].
pub fn serve_fleet(
    fleet: Arc<Fleet>,
    address: SocketAddr,
    access: Access,
    ready: Box<dyn FnOnce(SocketAddr) + Send>,
) -> BoxFuture<'static, Result<(), HttpError>> {
    serve(Served::Fleet(fleet), address, access, ready).boxed()
}

/// What is served.
enum Served {
    One(Server),
    Fleet(Arc<Fleet>),
}

impl Served {
    fn stopping(&self) -> &CancellationToken {
        match self {
            Self::One(server) => &server.shared.stopping,
            Self::Fleet(fleet) => &fleet.stopping,
        }
    }

    fn longest(&self) -> usize {
        match self {
            Self::One(server) => server.longest(),
            Self::Fleet(fleet) => fleet.longest(),
        }
    }

    fn telemetry(&self) -> Option<Arc<Telemetry>> {
        match self {
            Self::One(server) => server.telemetry(),
            Self::Fleet(fleet) => fleet.telemetry(),
        }
    }

    async fn ended(&self) {
        match self {
            Self::One(server) => server.ended().await,
            Self::Fleet(fleet) => fleet.ended().await,
        }
    }
}

async fn serve(
    served: Served,
    address: SocketAddr,
    access: Access,
    ready: Box<dyn FnOnce(SocketAddr) + Send>,
) -> Result<(), HttpError> {
    if !address.ip().is_loopback() && access.token.is_none() && access.tenants.is_empty() {
        return Err(HttpError::Open(address));
    }
    if let Some(origin) = access.origins.iter().find(|origin| !is_origin(origin)) {
        return Err(HttpError::Origin(origin.clone()));
    }
    let listener = listen(address).map_err(|error| HttpError::Listen(address, error))?;
    let address = listener.local_addr().unwrap_or(address);
    ready(address);
    // Calls are stopped before the streams that their answers take.
    let closing = CancellationToken::new();
    let router = router(&served, &access, address.port(), &closing);
    let mut connections = Connections::accept(listener, router, served.stopping()).await;
    served.ended().await;
    connections.ended(LAST_ANSWERS_TIMEOUT).await;
    closing.cancel();
    connections.ended(LAST_ANSWERS_TIMEOUT).await;
    Ok(())
}

/// Listens on an address, with a long backlog.
#[expect(clippy::disallowed_methods, reason = "clients connect to it, if the operator says so")]
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit them.
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Whether a browser can send this origin, or the library takes it for any port of one (`:*`).
fn is_origin(origin: &str) -> bool {
    let of_any_port = origin.strip_suffix(":*").unwrap_or(origin);
    let is_bare = |url: Url| {
        url.has_host()
            && url.path().len() <= 1
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    origin == "null" || Url::parse(of_any_port).is_ok_and(is_bare)
}

fn router(served: &Served, access: &Access, port: u16, closing: &CancellationToken) -> Router {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    // A page from here would be the server's own.
    let own = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(loopback.into_iter().chain(access.hosts.iter().cloned()))
        .with_allowed_origins(own.into_iter().chain(access.origins.iter().cloned()))
        .enforce_origin_validation()
        .with_max_request_body_bytes(served.longest())
        .with_cancellation_token(closing.clone());
    let places = Places::default();
    let mcp = match served {
        Served::One(server) => one(server, config, &places),
        Served::Fleet(fleet) => workspaces::router(fleet, config, &places),
    };
    let fleet = match served {
        Served::One(_) => None,
        Served::Fleet(fleet) => Some(Arc::clone(fleet)),
    };
    let bodies = Bodies::new(served.longest());
    let callers = Arc::new(Callers::new(access, served.telemetry().as_ref()));
    let rate = access.rate.map(|rate| Arc::new(RateLimiter::keyed(Quota::per_second(rate))));
    // Anyone may ask whether the server runs.
    mcp.layer(middleware::from_fn(answer))
        .layer(middleware::from_fn_with_state((served.longest(), places, bodies), take))
        .layer(middleware::from_fn_with_state(callers, authorize))
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready).with_state(fleet))
        .layer(middleware::from_fn_with_state(rate, slow_down))
        .layer(middleware::from_fn(address))
}

/// The routes of one workspace.
fn one(server: &Server, config: StreamableHttpServerConfig, places: &Places) -> Router {
    let whole = service(server.clone(), &config, places);
    let mcp = Router::new().route_service("/mcp", whole);
    if !server.other_roles {
        return mcp;
    }
    let (server, places) = (server.clone(), places.clone());
    let roles = Roles { server, config, places, services: Services::default() };
    mcp.route("/mcp/{role}", any(under_role).with_state(Arc::new(roles)))
}

/// Whether requests should be sent to this host, for balancers and orchestrators.
async fn ready(State(fleet): State<Option<Arc<Fleet>>>) -> Response {
    let ready = match fleet {
        Some(fleet) => fleet.is_ready().await,
        None => Ok(()),
    };
    match ready {
        Ok(()) => "ok\n".into_response(),
        Err(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response()
        }
    }
}

/// Refuses requests whose target or origin is ambiguous. The library checks whether they are allowed:
/// the first of each.
async fn address(request: Request, next: Next) -> Response {
    match misaddressed(&request) {
        None => next.run(request).await,
        Some((status, why)) => (status, format!("{why}\n")).into_response(),
    }
}

/// Returns what is wrong with the target or the origin of a request.
fn misaddressed(request: &Request) -> Option<(StatusCode, &'static str)> {
    let one = |name| {
        let mut values = request.headers().get_all(name).iter();
        (values.next(), values.next().is_none())
    };
    let (Some(host), true) = one(header::HOST) else {
        return Some((StatusCode::BAD_REQUEST, "a request has one header Host"));
    };
    let Some(host) = host.to_str().ok().and_then(authority) else {
        let why = "the header Host is a name or an address, with a port or without";
        return Some((StatusCode::BAD_REQUEST, why));
    };
    let uri = request.uri();
    let is_here = match uri.authority() {
        None => uri.path().starts_with('/'),
        Some(named) => uri.scheme_str() == Some("http") && authority(named.as_str()) == Some(host),
    };
    if !is_here {
        let why = "the address of a request is a path, or begins with http:// and what Host says";
        return Some((StatusCode::BAD_REQUEST, why));
    }
    match one(header::ORIGIN) {
        (None, _) => None,
        (_, false) => Some((StatusCode::BAD_REQUEST, "a request has one header Origin at most")),
        (Some(origin), true) => {
            let is_one = origin.to_str().is_ok_and(|origin| {
                is_origin(origin) && !origin.ends_with('/') && !origin.ends_with(":*")
            });
            let why = "the header Origin is a scheme and a host, with a port or without";
            (!is_one).then_some((StatusCode::FORBIDDEN, why))
        }
    }
}

/// Returns a host in lower case, and its port. `None` for anything ambiguous, such as one with a user.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let end = match text.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let is_address = |host: &str| host.parse::<std::net::Ipv6Addr>().is_ok();
    let is_host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(is_address),
        None => {
            let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
            !host.is_empty() && host.bytes().all(is_plain)
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        Some(port) if port.bytes().all(|c| c.is_ascii_digit()) => Some(port.parse().ok()?),
        _ => return None,
    };
    is_host.then(|| (host.to_ascii_lowercase(), port))
}

/// The server of one workspace, under the roles that clients ask for.
struct Roles {
    server: Server,
    config: StreamableHttpServerConfig,
    places: Places,
    services: Services,
}

async fn under_role(
    State(roles): State<Arc<Roles>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    let Roles { server, config, places, services } = &*roles;
    match services.of(server, Some(role), (config, places)) {
        Ok(service) => service.handle(request).await.into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Reads the body of a request within its limits. Refuses what the library would not explain: malformed
/// messages, and too many sessions.
async fn take(
    State((most, places, bodies)): State<(usize, Places, Bodies)>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIMEOUT, bodies.collect(from.ip(), body, most)).await;
    let mut body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(unread)) => return not_read(unread, most),
        Err(_) => return not_read(Unread::Slow, most),
    };
    let is_message = head.method == Method::POST && is_json(&head.headers);
    if is_message {
        let message = match bodies.take(Some(from.ip()), body).await {
            Ok(message) => message,
            Err(Refused::Malformed(malformed)) => return refused(&malformed),
            Err(Refused::Full) => return not_read(Unread::Full, most),
        };
        if places.are_taken() && message.document["method"] == "initialize" {
            let text = format!("there are {MAX_SESSIONS} sessions already; try again later\n");
            let later = [(header::RETRY_AFTER, "60")];
            return (StatusCode::SERVICE_UNAVAILABLE, later, text).into_response();
        }
        head.extensions.insert(message.load);
        body = Bodies::line(message.text);
    }
    let ends_session = head.method == Method::DELETE;
    let text = body.text.clone();
    let answer = next.run(Request::from_parts(head, text.clone().into())).await;
    if is_message && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return refused(&Malformed::new(&text));
    }
    // The library answers 202. Clients expect 200 or 204, and report anything else.
    if ends_session && answer.status() == StatusCode::ACCEPTED {
        return StatusCode::NO_CONTENT.into_response();
    }
    answer
}

/// The response if a body can't be read.
fn not_read(unread: Unread, most: usize) -> Response {
    match unread {
        Unread::TooLong => {
            let text = format!("the body is longer than {most} bytes (`envelope-mb`)\n");
            (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        }
        Unread::Full => {
            let text = "the server holds as many messages as it can; try again later\n";
            let later = [(header::RETRY_AFTER, "5"), (header::CONNECTION, "close")];
            (StatusCode::SERVICE_UNAVAILABLE, later, text).into_response()
        }
        Unread::Slow => {
            let text = format!(
                "the body comes too slowly: it has {} s, and may not pause for long\n",
                BODY_TIMEOUT.as_secs()
            );
            let close = [(header::CONNECTION, "close")];
            (StatusCode::REQUEST_TIMEOUT, close, text).into_response()
        }
        Unread::Broken(error) => {
            let text = format!("the body can't be read: {error}\n");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

fn refused(malformed: &Malformed) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, kind, malformed.answer().to_string()).into_response()
}

/// Whether the body is declared as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Refuses requests of an address that exceeds its rate.
async fn slow_down(
    State(rate): State<Option<Arc<DefaultKeyedRateLimiter<IpAddr>>>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rate) = rate else { return next.run(request).await };
    if rate.len() > MAX_RATED_ADDRESSES {
        rate.retain_recent();
    }
    match rate.check_key(&from.ip()) {
        Ok(()) => next.run(request).await,
        Err(early) => {
            let seconds = early.wait_time_from(DefaultClock::default().now()).as_secs() + 1;
            let later = [(header::RETRY_AFTER, seconds.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, later, "too many requests from here\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_in_one_way() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("LocalHost:80", "localhost", Some(80)),
            ("127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("[::1]", "[::1]", None),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("localhost.", "localhost.", None),
        ] {
            assert_eq!(authority(text), Some((host.to_owned(), port)), "{text}");
        }
        for text in [
            "",
            "evil@localhost",
            "localhost@evil",
            "a:b@localhost",
            "localhost:",
            "localhost:x",
            "localhost:80:80",
            "localhost:65536",
            "localhost:+80",
            "localhost/x",
            "localhost#",
            "localhost evil",
            "localhost,evil",
            "[localhost]",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]]",
            "http://localhost",
            "localhost\\evil",
            "loc%61lhost",
        ] {
            assert_eq!(authority(text), None, "{text}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for origin in [
            "https://app.example.com",
            "https://app.example.com:443",
            "http://[::1]:8080",
            "http://localhost:*",
            "null",
            "vscode-webview://abc",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for origin in [
            "foo",
            "app.example.com",
            "app.example.com:443",
            "https://",
            "https://a/b",
            "*",
            "",
            "https://a?b",
            "https://user@a",
            "data:text/plain,a",
        ] {
            assert!(!is_origin(origin), "{origin}");
        }
    }
}
