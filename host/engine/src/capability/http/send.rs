//! The requests of one call: checking them, sending them, and limiting the responses.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::header::HeaderName;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use tracing::Level;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::runtime::spawn;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView,
    WasiHttpHooks,
};

use super::body::{self, Bounded};
use super::cache;
use super::request::{self, Outgoing};
use super::service::Refused;
use crate::call::CallUsage;
use crate::capability::context::{CallContext, Services};
use crate::capability::messages::Messages;
use cofferdam_core::policy::Origin;
use cofferdam_plugin::http::{CONNECT_TIMEOUT, MAX_RESPONSE_HEAD_BYTES, Reach, http1};

/// How many requests of a call may be open, including unread responses.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// The maximum size of all responses of a call together, in bytes.
const MAX_RECEIVED_BYTES: u64 = 64 << 20;

/// The maximum size of the bodies of all requests of a call together, in bytes.
const MAX_SENT_BYTES: u64 = 16 << 20;

/// The maximum size of the headers of a request in memory, as counted by wasmtime, in bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// The requests of one call.
pub(crate) struct HttpState {
    wasi: WasiHttpCtx,
    requests: Requests,
}

struct Requests {
    context: Arc<CallContext>,
    messages: Messages,
    places: Arc<Semaphore>,
    received: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
}

impl HttpState {
    pub(crate) fn new(context: &Arc<CallContext>, messages: &Messages) -> Self {
        let mut wasi = WasiHttpCtx::new();
        wasi.set_field_size_limit(MAX_HEADER_BYTES);
        let requests = Requests {
            context: Arc::clone(context),
            messages: messages.clone(),
            places: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            received: Arc::default(),
            sent: Arc::default(),
        };
        Self { wasi, requests }
    }

    /// The implementation of `wasi:http` for this call.
    pub(super) fn view<'a>(&'a mut self, table: &'a mut ResourceTable) -> WasiHttpCtxView<'a> {
        WasiHttpCtxView { hooks: &mut self.requests, table, ctx: &mut self.wasi }
    }
}

/// The response to a request, and the future that drives its connection.
type Sent = (hyper::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Requests {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name: &HeaderName| request::is_transport(name))
    }

    fn send_request(
        &mut self,
        request: hyper::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let sending = self.begin(request, options.unwrap_or_default());
        let messages = self.messages.clone();
        Box::new(async move {
            let sent = match sending {
                Ok(sending) => sending.send().await,
                Err(refused) => Err(refused),
            };
            sent.map_err(|Refused { error, why, .. }| {
                messages.say(Level::INFO, &format!("HTTP request: {why}"));
                error
            })
        })
    }

    fn p2_error_from_hyper(
        &mut self,
        _: &hyper::Error,
    ) -> wasmtime_wasi_http::p2::bindings::http::types::ErrorCode {
        wasmtime_wasi_http::p2::bindings::http::types::ErrorCode::HttpProtocolError
    }
}

/// A request that was checked and is ready to be sent.
struct Sending {
    services: Arc<Services>,
    usage: Arc<CallUsage>,
    outgoing: Outgoing,
    body: WasiBody,
    place: tokio::sync::OwnedSemaphorePermit,
    received: Arc<AtomicU64>,
    connected_by: Instant,
    answered_by: Instant,
    ended_by: Instant,
    between: Option<Duration>,
    kept: Option<cache::Place>,
}

impl Requests {
    /// Checks a request, before anything is sent or resolved.
    fn begin(
        &self,
        request: hyper::Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<Sending, Refused> {
        let (head, body) = request.into_parts();
        let CallContext { permissions, services, control, usage, .. } = &*self.context;
        let outgoing = Outgoing::new(head, permissions, &services.http.environment);
        if let Err(Refused { origin: Some(origin), .. }) = &outgoing {
            let text = self.context.redacted(&origin.to_string());
            usage.add_refused(permissions.plugin(), text);
        }
        let outgoing = outgoing?;
        let secrets = Arc::clone(&self.context.secrets);
        let origin = outgoing.settings.origin.clone();
        secrets
            .send([&origin], None)
            .map_err(|flow| Refused::new(Error::HttpRequestDenied, format!("not sent: {flow}")))?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why =
                format!("more than {MAX_CONCURRENT_REQUESTS} at a time, unread answers included");
            Refused::new(Error::ConnectionLimitReached, why)
        })?;
        let kept = outgoing.kept(&services.workspace, permissions.plugin());
        let now = Instant::now();
        let latest = control.deadline();
        let ended_by = match outgoing.timeout {
            Some(timeout) => latest.min(now + timeout),
            None => latest,
        };
        // The timeouts of a plugin can only be shorter.
        let by = |wish: Option<Duration>| match wish.and_then(|wish| now.checked_add(wish)) {
            Some(wish) => ended_by.min(wish),
            None => ended_by,
        };
        let connected_by =
            by(Some(options.connect_timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT)));
        let answered_by = by(options.first_byte_timeout);
        let between = options.between_bytes_timeout;
        Ok(Sending {
            services: Arc::clone(services),
            usage: Arc::clone(usage),
            outgoing,
            body: body::request(body, &self.sent, MAX_SENT_BYTES, (secrets, origin)),
            place,
            received: Arc::clone(&self.received),
            connected_by,
            answered_by,
            ended_by,
            between,
            kept,
        })
    }
}

impl Sending {
    async fn send(self) -> Result<Sent, Refused> {
        let settings = &self.outgoing.settings;
        let origin = &settings.origin;
        if let Some(answer) = self.kept.as_ref().and_then(cache::Place::find) {
            let place = self.place;
            let driver = async move {
                // Held until the response is dropped.
                let _place = place;
                std::future::pending().await
            };
            let body = |bytes| Full::new(bytes).map_err(Error::from).boxed_unsync();
            return Ok((answer.map(body), Box::new(driver)));
        }
        self.usage.add_origin(origin);
        let slow = |error, by: Instant, what| {
            move |_| {
                let over = by.elapsed().as_millis();
                Refused::new(error, format!("{origin} {what} in time ({over} ms over)"))
            }
        };
        let stream = self.services.http.connector.connect(settings, Reach::Named);
        let stream = timeout_at(self.connected_by.into(), stream).await.map_err(slow(
            Error::ConnectionTimeout,
            self.connected_by,
            "was not reached",
        ))??;
        let broken = |error| broken(origin, &error);
        let handshake = http1().handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        // The task ends with the response.
        let connection = spawn(connection);
        let request = self.outgoing.request(self.body)?;
        let answer = timeout_at(self.answered_by.into(), sender.send_request(request)).await;
        let answer = answer
            .map_err(slow(Error::ConnectionReadTimeout, self.answered_by, "has not answered"))?
            .map_err(broken)?;
        let bounds = body::Bounds {
            received: self.received,
            most: MAX_RECEIVED_BYTES,
            ended_by: self.ended_by,
            between: self.between,
            place: self.place,
        };
        let kept = self.kept.and_then(|kept| kept.collect(&answer));
        let answer = answer.map(|body| Bounded::new(body, bounds, kept).boxed_unsync());
        let driver = async move {
            // The body of the response reports how the connection ended.
            let _ = connection.await;
            Ok(())
        };
        Ok((answer, Box::new(driver)))
    }
}

/// The error of a connection to `origin`. The plugin gets the error that its own body caused.
fn broken(origin: &Origin, error: &hyper::Error) -> Refused {
    let kind = if error.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(u32::try_from(MAX_RESPONSE_HEAD_BYTES).ok())
    } else {
        Error::HttpProtocolError
    };
    Refused::new(kind, format!("{origin}: {error}"))
}
