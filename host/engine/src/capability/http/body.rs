//! Bodies of requests and responses, limited in size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::cache::Collected;
use crate::call::SecretGuard;
use cofferdam_core::policy::Origin;

/// The limits of a response's body.
pub(super) struct Bounds {
    /// How many bytes the call has received so far.
    pub received: Arc<AtomicU64>,
    /// The maximum number of bytes that the call may receive.
    pub most: u64,
    /// The deadline of the whole body.
    pub ended_by: Instant,
    /// How long it may pause between parts.
    pub between: Option<Duration>,
    /// The permit of the request, held until the body is dropped.
    #[expect(dead_code, reason = "only held")]
    pub place: OwnedSemaphorePermit,
}

/// The body of a response.
pub(super) struct Bounded {
    body: Incoming,
    bounds: Bounds,
    kept: Option<Collected>,
    over: Pin<Box<Sleep>>,
}

impl Bounded {
    pub fn new(body: Incoming, bounds: Bounds, kept: Option<Collected>) -> Self {
        let over = Box::pin(sleep_until(bounds.next_end().into()));
        Self { body, bounds, kept, over }
    }
}

impl Bounds {
    /// The earlier one of the deadlines of the next part and the whole body.
    fn next_end(&self) -> Instant {
        let pause = self.between.and_then(|between| Instant::now().checked_add(between));
        pause.map_or(self.ended_by, |pause| pause.min(self.ended_by))
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        // Before the body: a body that never pauses has a deadline as well.
        if Instant::now() >= self.bounds.ended_by || self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None => {
                if let Some(whole) = self.kept.take() {
                    whole.keep();
                }
                return Poll::Ready(None);
            }
            Some(Ok(frame)) => frame,
            Some(Err(error)) if error.is_incomplete_message() => {
                return Poll::Ready(Some(Err(Error::HttpResponseIncomplete)));
            }
            Some(Err(_)) => return Poll::Ready(Some(Err(Error::HttpProtocolError))),
        };
        if let Some(data) = frame.data_ref()
            && exceeds(&self.bounds.received, data.len(), self.bounds.most)
        {
            return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(self.bounds.most)))));
        }
        if let (Some(data), Some(kept)) = (frame.data_ref(), &mut self.kept)
            && !kept.add(data)
        {
            self.kept = None;
        }
        if self.bounds.between.is_some() {
            let end = self.bounds.next_end();
            self.over.as_mut().reset(end.into());
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// Wraps the body of a request so that a call sends `most` bytes in total, and nothing more to `to`
/// once it has read a secret that may not be sent there.
pub(super) fn request(
    body: WasiBody,
    sent: &Arc<AtomicU64>,
    most: u64,
    to: (Arc<SecretGuard>, Origin),
) -> WasiBody {
    Counted { body, sent: Arc::clone(sent), most, to }.boxed_unsync()
}

struct Counted {
    body: WasiBody,
    sent: Arc<AtomicU64>,
    most: u64,
    to: (Arc<SecretGuard>, Origin),
}

impl Body for Counted {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let (secrets, origin) = &self.to;
        if frame.is_some() && secrets.send([origin], None).is_err() {
            return Poll::Ready(Some(Err(Error::HttpRequestDenied)));
        }
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && exceeds(&self.sent, data.len(), self.most)
        {
            return Poll::Ready(Some(Err(Error::HttpRequestBodySize(Some(self.most)))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// Adds `more` to the counter. Returns whether the total is larger than `most`.
fn exceeds(counter: &AtomicU64, more: usize, most: u64) -> bool {
    let more = more as u64;
    counter.fetch_add(more, Ordering::Relaxed).saturating_add(more) > most
}
