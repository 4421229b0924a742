//! How much of the messages of clients is held at a time, as text and as parsed values: each client
//! has a share, and what does not fit waits. Small messages take no part in this, so that they are
//! never kept waiting by large ones. Large ones are parsed on threads of their own, once: their
//! arguments go past the library, which would copy them several times on the serving thread.
//!
//! How many connections and calls there are, is not decided here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use rmcp::model::{Extensions, JsonObject};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{self, Malformed};
use cofferdam_core::envelope::MAX_VALUES;
use cofferdam_engine::runtime::blocking;

/// Up to here a message is small, in bytes.
const SMALL: usize = 32 << 10;

/// How much text of large messages is held at a time, in bytes; of one client, half of it.
const TEXT: usize = 64 << 20;

/// How long a large message waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the large messages of all clients of a server hold. Clones are the same.
#[derive(Clone)]
pub(super) struct Bodies(Arc<Shared>);

struct Shared {
    /// Counts bytes of text.
    text: Budget,
    /// Counts values, which take more memory than their text.
    values: Budget,
    /// How long a message waits for those before it.
    patience: Duration,
}

/// A body, or a line, with what it holds of the budget.
pub(super) struct Raw {
    pub text: Bytes,
    held: Option<Part>,
}

/// A message that was looked at.
pub(super) struct Taken {
    /// What it is, but for large arguments.
    pub document: Value,
    /// The text of `document`.
    pub text: Bytes,
    /// What was left out of a large one.
    pub load: Option<Load>,
}

/// The body of a request that can't be had.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is longer than a message may be.
    TooLong,
    /// Too much is held by others.
    Full,
    /// The connection was lost before its end.
    Broken(String),
}

/// A message that is not taken.
#[derive(Debug)]
pub(super) enum Refused {
    Malformed(Malformed),
    /// Too much is held by others.
    Full,
}

/// The arguments of a large message, and what it holds of the budgets until its call has ended.
#[derive(Clone)]
pub(super) struct Load(Arc<Loaded>);

struct Loaded {
    arguments: Mutex<Option<JsonObject>>,
    _held: (Option<Part>, Part),
}

impl Bodies {
    /// For messages of `most` bytes at most.
    pub fn new(most: usize) -> Self {
        let text = TEXT.max(most.saturating_mul(2));
        let (text, values) = (Budget::new(text), Budget::new(2 * MAX_VALUES));
        Self(Arc::new(Shared { text, values, patience: PATIENCE }))
    }

    /// Waits for a part of a budget; none, where that takes too long.
    async fn part(&self, budget: &Budget, from: Option<IpAddr>, size: usize) -> Option<Part> {
        tokio::time::timeout(self.0.patience, budget.wait(from, size)).await.ok()?
    }

    /// Reads the body of a request, of `most` bytes at most.
    pub async fn collect(&self, from: IpAddr, body: Body, most: usize) -> Result<Raw, Unread> {
        let hint = body.size_hint();
        if hint.lower() > most as u64 {
            return Err(Unread::TooLong);
        }
        let longest = hint.upper().and_then(|upper| usize::try_from(upper).ok());
        let longest = longest.map_or(most, |longest| longest.min(most));
        let (mut text, mut held) = (Vec::new(), None);
        let mut body = Limited::new(body, most);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
                Some(_) => Unread::TooLong,
                None => Unread::Broken(error.to_string()),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if held.is_none() && text.len() + data.len() > SMALL {
                // All of it at once: nothing waits while it holds a part.
                let part = self.part(&self.0.text, Some(from), longest).await;
                held = Some(part.ok_or(Unread::Full)?);
                text.reserve_exact(longest.saturating_sub(text.len()));
            }
            text.extend_from_slice(&data);
        }
        if let Some(part) = &mut held {
            part.shrink(text.len());
        }
        Ok(Raw { text: text.into(), held })
    }

    /// Whether a message is parsed where it is, since it takes part in no budget.
    pub fn is_small(text: &[u8]) -> bool {
        text.len() <= SMALL
    }

    /// A line that was read.
    pub fn line(text: Bytes) -> Raw {
        Raw { text, held: None }
    }

    /// Looks at a message: at a large one on another thread, once there is room for its values.
    pub async fn take(&self, from: Option<IpAddr>, raw: Raw) -> Result<Taken, Refused> {
        let Raw { text, mut held } = raw;
        if Self::is_small(&text) {
            let document = message::parse(&text).map_err(Refused::Malformed)?;
            return Ok(Taken { document, text, load: None });
        }
        if held.is_none() {
            let part = self.part(&self.0.text, from, text.len()).await;
            held = Some(part.ok_or(Refused::Full)?);
        }
        // No value takes less than two bytes of text.
        let most = (text.len() / 2 + 1).min(MAX_VALUES);
        let values = self.part(&self.0.values, from, most).await;
        let mut values = values.ok_or(Refused::Full)?;
        // Its parts of the budgets go along: the client may go away meanwhile.
        let split = blocking(move || {
            let split = message::split(&text)?;
            values.shrink(split.values);
            Ok((split, (held, values)))
        });
        let (split, held) = split.await.map_err(Refused::Malformed)?;
        let loaded = Loaded { arguments: Mutex::new(split.arguments), _held: held };
        let load = Some(Load(Arc::new(loaded)));
        Ok(Taken { document: split.rest, text: split.text.into(), load })
    }
}

impl Load {
    /// That of a request, if it is a large one.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let of_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        extensions.get::<Self>().or_else(of_http).cloned()
    }

    /// The arguments that were left out of the request. They are had once.
    pub fn arguments(&self) -> Option<JsonObject> {
        self.0.arguments.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A number of things that clients hold, each of them half of it at most. What comes first is served
/// first.
struct Budget {
    all: Arc<Semaphore>,
    /// What one client may hold.
    share: usize,
    clients: Mutex<HashMap<Option<IpAddr>, Arc<Semaphore>>>,
}

/// A part of a budget. It goes back when it is dropped.
struct Part {
    // In the order in which they are given back.
    all: OwnedSemaphorePermit,
    client: OwnedSemaphorePermit,
}

impl Budget {
    fn new(all: usize) -> Self {
        let clients = Mutex::default();
        Self { all: Arc::new(Semaphore::new(all)), share: all / 2, clients }
    }

    /// Waits for a part. The semaphores are never closed.
    async fn wait(&self, from: Option<IpAddr>, size: usize) -> Option<Part> {
        let size = u32::try_from(size.min(self.share)).unwrap_or(u32::MAX);
        let client = self.client(from);
        let client = client.acquire_many_owned(size).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(size).await.ok()?;
        Some(Part { all, client })
    }

    fn client(&self, from: Option<IpAddr>) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that hold nothing and wait for nothing have this one reference only.
        clients.retain(|_, client| Arc::strong_count(client) > 1);
        let share = || Arc::new(Semaphore::new(self.share));
        Arc::clone(clients.entry(from).or_insert_with(share))
    }
}

impl Part {
    /// Gives back what is beyond `size`.
    fn shrink(&mut self, size: usize) {
        for permit in [&mut self.all, &mut self.client] {
            let surplus = permit.num_permits().saturating_sub(size);
            drop(permit.split(surplus));
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use futures_util::FutureExt as _;

    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[tokio::test]
    async fn a_client_holds_its_share_at_most() {
        let budget = Budget::new(100);
        let mut first = budget.wait(from(1), 40).await.unwrap();
        assert!(budget.wait(from(1), 20).now_or_never().is_none());
        let _other = budget.wait(from(2), 50).await.unwrap();
        first.shrink(10);
        let second = budget.wait(from(1), 40).await.unwrap();
        assert!(budget.wait(from(3), 1).now_or_never().is_none());
        drop(second);
        // One that is larger than any share takes all of it.
        assert!(budget.wait(from(3), 1000).now_or_never().is_none());
        drop(first);
        assert!(budget.wait(from(3), 1000).now_or_never().is_some());
        assert!(budget.wait(from(4), 1).now_or_never().is_some());
        assert!(budget.clients.lock().unwrap().len() <= 2, "a client that holds nothing is kept");
    }

    #[tokio::test]
    async fn what_waits_too_long_is_told_so() {
        let Bodies(shared) = Bodies::new(1 << 20);
        let mut shared = Arc::into_inner(shared).unwrap();
        shared.patience = Duration::from_millis(20);
        let bodies = Bodies(Arc::new(shared));
        let line = || Bodies::line(vec![b' '; SMALL + 1].into());
        let _held = bodies.0.values.wait(None, MAX_VALUES).await.unwrap();
        assert!(matches!(bodies.take(None, line()).await, Err(Refused::Full)));
        let small = Bodies::line(Bytes::from_static(b"{}"));
        assert!(bodies.take(None, small).await.is_ok());
    }

    #[tokio::test]
    async fn a_large_body_waits_and_a_small_one_does_not() {
        let bodies = Bodies::new(8 << 20);
        let body = |size: usize| Body::from(vec![b'x'; size]);
        let address = from(1).unwrap();
        let whole = TEXT / 2;
        let held = bodies.0.text.wait(Some(address), whole).await.unwrap();
        let small = bodies.collect(address, body(SMALL), 8 << 20).now_or_never();
        assert_eq!(small.unwrap().unwrap().text.len(), SMALL);
        let mut large = Box::pin(bodies.collect(address, body(SMALL + 1), 8 << 20));
        assert!(large.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(large.await.unwrap().text.len(), SMALL + 1);
        let long = bodies.collect(address, body((8 << 20) + 1), 8 << 20).await;
        assert!(matches!(long, Err(Unread::TooLong)));
    }
}
