//! Listens on 127.0.0.1, checks each request, and answers it with a page.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::form::Fields;
use crate::guard::{Access, protect};
use crate::layout::{self, Page};
use crate::state::{Console, Settings};
use crate::{bulk, calls, figures, history, inbox, journal, live, permissions, proposal};
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::LINK_PATH;

/// The largest form, in bytes.
const MAX_FORM_BYTES: usize = 4 << 20;

/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the head of a request may take, and how long a connection may have no request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of connections. A browser opens at most six to a server.
const MAX_CONNECTIONS: usize = 64;

/// The size of the buffer of a connection, in bytes, and so of the head of a request.
const BUFFER_BYTES: usize = 64 << 10;

/// How long to wait if the system has no file descriptor for a connection.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The header of the script's own requests, which only take a part of the page.
const PART: &str = "x-part";

/// The files of the pages: their names, types and contents.
const FILES: [(&str, &str, &str); 3] = [
    ("console.css", "text/css; charset=utf-8", include_str!("console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("console.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

type Shared = State<Arc<Console>>;

/// Serves until the future is dropped. `ready` gets the address to open.
///
/// # Errors
/// The port is in use; the system has no random numbers.
pub fn serve(
    settings: Settings,
    ready: Box<dyn FnOnce(String) + Send>,
) -> BoxFuture<'static, io::Result<()>> {
    async move {
        let listener = listen(settings.port)?;
        let port = listener.local_addr()?.port();
        let access = Access::new(port)?;
        let address = access.address().unwrap_or_default();
        let console = Arc::new(Console::new(settings, access));
        // Calls wait for an answer from now on, before a page is open.
        let listening = Arc::clone(&console);
        let _open = blocking(move || {
            listening.listener()?;
            listening.workspace().open_console(port)
        })
        .await?;
        let router = router(console);
        ready(address);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(stream, router.clone(), place))),
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }
    .boxed()
}

#[expect(clippy::disallowed_methods, reason = "the browser of the same machine connects to it")]
fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.listen(MAX_CONNECTIONS as u32)
}

async fn connection(stream: TcpStream, router: Router, place: OwnedSemaphorePermit) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection ended: {error}");
    }
    drop(place);
}

fn router(console: Arc<Console>) -> Router {
    let pages = Router::new()
        .route("/inbox", get(show_inbox))
        .route("/answer", post(answer_question))
        .route("/proposal", get(show_proposal))
        .route("/edit", get(show_edit))
        .route("/decide", post(decide))
        .route("/mark", post(mark))
        .route("/decide-all", post(decide_all))
        .route("/calls", get(show_calls))
        .route("/cancel", post(cancel))
        .route("/history", get(show_history))
        .route("/commit", get(show_commit))
        .route("/range", get(show_range))
        .route("/undo", post(undo))
        .route("/journal", get(show_journal))
        .route("/call", get(show_call))
        .route("/permissions", get(show_permissions))
        .route("/figures", get(show_figures))
        .route("/events", get(|State(console): Shared| live::events(console)));
    let pages = FILES.into_iter().fold(pages, |pages, (name, kind, text)| {
        pages.route(&format!("/{name}"), get(move || async move { file(kind, text) }))
    });
    let pages = pages
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page\n") })
        .layer(middleware::from_fn_with_state(Arc::clone(&console), authenticate));
    let base = console.access.base().to_owned();
    Router::new()
        .route(&base, get(enter))
        .route(LINK_PATH, get(|| async { layout::html(StatusCode::OK, layout::link()) }))
        .route(
            "/open.js",
            get(|| async { file("text/javascript; charset=utf-8", include_str!("open.js")) }),
        )
        .nest(base.trim_end_matches('/'), pages)
        .layer(middleware::from_fn_with_state(Arc::clone(&console), check))
        .with_state(console)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Checks where each request comes from, and adds the headers of each response.
async fn check(State(console): Shared, request: Request, next: Next) -> Response {
    let checked = console.access.check_source(request.method(), request.uri(), request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into(),
    };
    protect(&mut response);
    response
}

/// Takes only requests of the browser that has opened the address.
async fn authenticate(State(console): Shared, request: Request, next: Next) -> Response {
    match console.access.check_cookie(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into(),
    }
}

/// Exchanges the token for the cookie. The page leads on by itself: after a redirect, a browser that was
/// sent here by another page would not bring the cookie.
async fn enter(
    State(console): Shared,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
) -> Response {
    if method != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    // The same browser, at the address in its history.
    if console.access.check_cookie(&headers).is_ok() {
        return layout::html(StatusCode::OK, layout::entered());
    }
    match console.access.enter(Fields::of_query(query.as_deref()).get("token")) {
        Err(refused) => refused.into(),
        Ok(cookie) => {
            let mut response = layout::html(StatusCode::OK, layout::entered());
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
    }
}

/// Reads a form that was sent from a page of this console.
async fn form(console: &Console, request: Request) -> Result<Fields, Response> {
    let failed = |status: StatusCode, why: &'static str| Err((status, why).into_response());
    match timeout(BODY_TIMEOUT, to_bytes(request.into_body(), MAX_FORM_BYTES)).await {
        Err(_) => failed(StatusCode::REQUEST_TIMEOUT, "the form comes too slowly\n"),
        Ok(Err(_)) => failed(StatusCode::PAYLOAD_TOO_LARGE, "the form has more than 4 MiB\n"),
        Ok(Ok(body)) => {
            let fields = Fields::parse(&body);
            console.access.check_form(fields.get("csrf"))?;
            Ok(fields)
        }
    }
}

macro_rules! pages {
    ($($name:ident: $of:path;)*) => {$(
        async fn $name(
            State(console): Shared,
            RawQuery(query): RawQuery,
            headers: HeaderMap,
        ) -> Response {
            let page: Page = $of(&console, Fields::of_query(query.as_deref())).await;
            match headers.contains_key(PART) {
                true => page.respond_part(&console),
                false => page.respond(&console),
            }
        }
    )*};
}

pages! {
    show_inbox: inbox::show;
    show_proposal: proposal::show;
    show_edit: proposal::edit;
    show_calls: calls::show;
    show_history: history::show;
    show_commit: history::commit;
    show_range: history::range;
    show_journal: journal::show;
    show_call: journal::call;
    show_permissions: permissions::show;
    show_figures: figures::show;
}

macro_rules! actions {
    ($($name:ident: $of:path;)*) => {$(
        async fn $name(State(console): Shared, request: Request) -> Response {
            match form(&console, request).await {
                Ok(fields) => $of(&console, fields).await,
                Err(refused) => refused,
            }
        }
    )*};
}

actions! {
    answer_question: inbox::answer;
    decide: proposal::decide;
    mark: proposal::mark;
    decide_all: bulk::decide;
    cancel: calls::cancel;
    undo: history::undo;
}
