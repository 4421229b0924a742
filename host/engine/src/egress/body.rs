//! Bodies on their way through the proxy: counted, searched for values that must not be sent, or with
//! secrets redacted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::account::Used;
use super::guard::Scanner;
use cofferdam_sandbox::Redactor;

/// A body of either direction.
pub(super) type Content = UnsyncBoxBody<Bytes, io::Error>;

/// A short text as a body.
pub(super) fn text(text: String) -> Content {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is passed on. Trailers are left out.
pub(super) struct Passed {
    inner: Incoming,
    used: Arc<Used>,
    filter: Filter,
    is_done: bool,
}

/// What happens to the bytes of a body.
pub(super) enum Filter {
    /// They stay as they are.
    Plain,
    /// The body fails before any part of a value passes.
    Guarded(Scanner),
    /// Secrets are redacted, so the length may change.
    Redacted(Redactor),
}

impl Passed {
    pub(super) fn new(inner: Incoming, used: Arc<Used>, filter: Filter) -> Self {
        Self { inner, used, filter, is_done: false }
    }

    fn filtered(&mut self, data: Bytes) -> io::Result<Bytes> {
        if !self.used.add_bytes(data.len()) {
            return Err(io::Error::other("the bytes of the grant are used up"));
        }
        match &mut self.filter {
            Filter::Plain => Ok(data),
            Filter::Guarded(scanner) => match scanner.push(&data) {
                None => Err(io::Error::other("the body holds a value that is not to be sent")),
                Some(passed) => Ok(passed.into()),
            },
            Filter::Redacted(redactor) => Ok(redactor.push(&data).into()),
        }
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while !self.is_done {
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    match self.filtered(data) {
                        Ok(data) if data.is_empty() => {}
                        data => return Poll::Ready(Some(data.map(Frame::data))),
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                None => {
                    self.is_done = true;
                    let rest = match &mut self.filter {
                        Filter::Plain => Vec::new(),
                        Filter::Guarded(scanner) => scanner.finish(),
                        Filter::Redacted(redactor) => redactor.finish(),
                    };
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        let is_empty = match &self.filter {
            Filter::Plain => true,
            Filter::Guarded(scanner) => scanner.is_empty(),
            Filter::Redacted(_) => false,
        };
        is_empty && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.filter {
            Filter::Redacted(_) => SizeHint::default(),
            Filter::Plain | Filter::Guarded(_) => self.inner.size_hint(),
        }
    }
}
