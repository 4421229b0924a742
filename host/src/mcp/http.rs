//! The server over streamable HTTP: `/mcp`, and `/mcp/ROLE` for each role where the server itself
//! is under none.
//!
//! A page in a browser must not reach a server on the person's own machine: requests name one of
//! the known hosts (DNS rebinding), and a browser's `Origin` must be an allowed one. TLS is a
//! proxy's business.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::Server;

/// How many addresses are remembered before those are forgotten that have been quiet.
const ADDRESSES: usize = 10_000;

/// Who may reach the server.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What a request has to bring as `Authorization: Bearer ...`; without one, everybody who
    /// reaches the address may call.
    pub token: Option<String>,
    /// Names beside those of the loopback interface under which it is reached, with a port or
    /// without.
    pub hosts: Vec<String>,
    /// Pages beside its own origin on the loopback interface that may use it from a browser, such
    /// as `https://app.example.com:443`.
    pub origins: Vec<String>,
    /// How many requests a second are taken from one address, with as many at once; `None`: any
    /// number.
    pub rate: Option<NonZeroU32>,
}

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
    /// The connection to the network is lost.
    #[error("the server failed: {0}")]
    Serve(std::io::Error),
}

/// Serves until the server is stopped; `ready` hears of the address once it is listened on. Calls
/// have ended when this returns.
///
/// # Errors
/// See [`HttpError`].
#[expect(clippy::disallowed_methods, reason = "clients connect to it, if the operator says so")]
pub async fn serve_http(
    server: Server,
    address: SocketAddr,
    access: Access,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), HttpError> {
    if !address.ip().is_loopback() && access.token.is_none() {
        return Err(HttpError::Open(address));
    }
    let listener =
        TcpListener::bind(address).await.map_err(|error| HttpError::Listen(address, error))?;
    let address = listener.local_addr().unwrap_or(address);
    ready(address);
    let stopping = server.shared.stopping.clone();
    let router = router(&server, &access, address.port());
    let served = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move { stopping.cancelled().await })
        .await;
    server.shared.stopping.cancel();
    server.ended().await;
    served.map_err(HttpError::Serve)
}

fn router(server: &Server, access: &Access, port: u16) -> Router {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    // A page from here would be the server's own.
    let own = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(loopback.into_iter().chain(access.hosts.iter().cloned()))
        .with_allowed_origins(own.into_iter().chain(access.origins.iter().cloned()))
        .enforce_origin_validation()
        .with_max_request_body_bytes(server.offer().host.policy().limits().envelope)
        .with_cancellation_token(server.shared.stopping.clone());
    let whole = service(server.clone(), &config);
    let mut mcp = Router::new().route_service("/mcp", whole);
    if server.role.is_none() {
        let roles = Roles { server: server.clone(), config, services: Mutex::default() };
        mcp = mcp.route("/mcp/{role}", any(under_role).with_state(Arc::new(roles)));
    }
    let wanted = access.token.as_deref().map(digest);
    let rate = access.rate.map(|rate| Arc::new(RateLimiter::keyed(Quota::per_second(rate))));
    // Whether it is there, anybody may ask.
    mcp.layer(middleware::from_fn_with_state(wanted, authorize))
        .route("/health", get(|| async { "ok\n" }))
        .layer(middleware::from_fn_with_state(rate, slow_down))
}

type Service = StreamableHttpService<Server, LocalSessionManager>;

fn service(server: Server, config: &StreamableHttpServerConfig) -> Service {
    let sessions = Arc::new(LocalSessionManager::default());
    StreamableHttpService::new(move || Ok(server.clone()), sessions, config.clone())
}

/// The servers of the roles that somebody has asked for.
struct Roles {
    server: Server,
    config: StreamableHttpServerConfig,
    services: Mutex<HashMap<String, Service>>,
}

impl Roles {
    /// The server of a role that there is now.
    fn service(&self, role: &str) -> Option<Service> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(server) = self.server.under(role) else {
            services.remove(role);
            return None;
        };
        let known = services.entry(role.to_owned());
        Some(known.or_insert_with(|| service(server, &self.config)).clone())
    }
}

async fn under_role(
    State(roles): State<Arc<Roles>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    match roles.service(&role) {
        Some(service) => service.handle(request).await.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Lets requests pass as long as their address does not send too many.
async fn slow_down(
    State(rate): State<Option<Arc<DefaultKeyedRateLimiter<IpAddr>>>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rate) = rate else { return next.run(request).await };
    if rate.len() > ADDRESSES {
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

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Lets requests pass that bring the token (RFC 6750). Digests are compared, so the time that it
/// takes says nothing about the token.
async fn authorize(
    State(wanted): State<Option<[u8; 32]>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(wanted) = wanted else { return next.run(request).await };
    let brought = request.headers().get(header::AUTHORIZATION);
    let token = brought.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if token.is_some_and(|token| digest(token) == wanted) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "a bearer token is needed\n").into_response()
}
