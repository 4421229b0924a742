//! The protocol between a program and its proxy: `CONNECT`, and plain requests with a whole address.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::body::{self, Content};
use super::forward::Route;
use super::{Shared, tunnel};
use cofferdam_core::policy::Origin;
use cofferdam_text::shorten;

/// How many connections of a run are served at a time; others wait.
const MAX_CONNECTIONS: usize = 128;

/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The largest number of headers of a request.
const MAX_HEADERS: usize = 128;

/// How long a program may take for the head of a request.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts the connections of a run until the listener fails.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            // Of one connection, or because there are no more descriptors for the moment.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let place = Arc::new(place);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let (shared, place) = (Arc::clone(&shared), Arc::clone(&place));
                async move { Ok::<_, Infallible>(answer(shared, place, request).await) }
            });
            let connection = protocol().serve_connection(TokioIo::new(stream), service);
            // The program sees that the connection has ended.
            let _ = connection.with_upgrades().await;
        });
    }
}

/// HTTP/1.1 with limits for the head of a request.
pub(super) fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    protocol
}

/// Answers one request of a program. `place` is held while its connection exists.
async fn answer(
    shared: Arc<Shared>,
    place: Arc<tokio::sync::OwnedSemaphorePermit>,
    request: Request<Incoming>,
) -> Response<Content> {
    if request.method() == Method::CONNECT {
        return connect(&shared, place, request);
    }
    let uri = request.uri();
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        let why = "this is a proxy: it takes CONNECT, and requests for http:// addresses";
        return refused(StatusCode::BAD_REQUEST, why);
    };
    match format!("http://{authority}").parse::<Origin>() {
        Ok(origin) => Route::new(shared, origin).forward(request).await,
        Err(error) => {
            shared.refuse(None, error.to_string());
            refused(StatusCode::FORBIDDEN, &error.to_string())
        }
    }
}

fn connect(
    shared: &Arc<Shared>,
    place: Arc<tokio::sync::OwnedSemaphorePermit>,
    request: Request<Incoming>,
) -> Response<Content> {
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    // Only with a port, as the method has it.
    let has_port = request.uri().port_u16().is_some();
    let origin = match format!("https://{authority}").parse::<Origin>() {
        Ok(origin) if has_port => origin,
        Ok(_) => return refused(StatusCode::BAD_REQUEST, "CONNECT needs a host and a port"),
        Err(error) => {
            shared.refuse(None, error.to_string());
            return refused(StatusCode::FORBIDDEN, &error.to_string());
        }
    };
    if let Err(why) = shared.rules.tunnel(&origin) {
        shared.refuse(Some(&origin), why.to_string());
        return refused(StatusCode::FORBIDDEN, &why.to_string());
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let _place = place;
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            let stream = TokioIo::new(upgraded);
            if let Err(error) = tunnel::run(&shared, &origin, stream).await {
                tracing::debug!(%origin, %error, "a tunnel of a program ended");
            }
        }
    });
    Response::new(body::text(String::new()))
}

/// The answer of the proxy itself.
pub(super) fn refused(status: StatusCode, why: &str) -> Response<Content> {
    let why = shorten(why, 400);
    let mut response = Response::new(body::text(format!("cofferdam: {why}\n")));
    *response.status_mut() = status;
    response
}
