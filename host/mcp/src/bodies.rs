//! How much of the messages of clients is held at a time, as text and as parsed values: each address
//! has a share. A large message counts as far as it has been received, and waits if it does not fit.
//! Small ones have a budget of their own, so that they never wait for large ones. Large ones are parsed
//! on threads of their own, once: their arguments go past the library, which would copy them several
//! times on the serving thread.
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
use tokio::time::Instant;

use super::byte_budget::{ByteBudget, Held};
use super::message::{self, Malformed};
use super::pace::{MinRate, Pace};
use cofferdam_core::envelope::MAX_VALUES;
use cofferdam_engine::runtime::blocking;

/// The maximum size of a small message, in bytes.
const MAX_SMALL_BYTES: usize = 32 << 10;

/// The budget for the text of large messages, in bytes. One address gets half of it.
const TEXT_BYTES: usize = 64 << 20;

/// The budget for small messages, in bytes. One address gets three quarters of it.
const SMALL_MESSAGES_BYTES: usize = 64 << 20;

/// What a small message counts besides its text and its values, in bytes.
const OVERHEAD_BYTES: usize = 4 << 10;

/// What a value, or a field's name, of a small message counts, in bytes.
const VALUE_BYTES: usize = 128;

/// A message that counts no more than this, in bytes, is never refused: the number of these is bounded
/// by those of connections and calls.
const MAX_UNREFUSED_BYTES: usize = 8 << 10;

/// How long a large message waits for its part of a budget.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(10);

/// How fast a body has to be sent.
const SEND_RATE: MinRate = MinRate { bytes_per_second: 16 << 10, grace: Duration::from_secs(5) };

/// The budgets for the messages of all clients. Clones share them.
#[derive(Clone)]
pub(super) struct Bodies(Arc<Shared>);

struct Shared {
    /// The text of large messages, in bytes.
    text: Arc<ByteBudget>,
    /// The number of their values, which take more memory than their text.
    values: Budget,
    /// Small messages, in bytes.
    small: Arc<ByteBudget>,
    /// How long a message waits for those before it.
    patience: Duration,
    rate: MinRate,
}

/// The text of a message, and its part of the budget.
pub(super) struct Raw {
    pub text: Bytes,
    held: Option<Held>,
}

/// A message that was parsed.
pub(super) struct Taken {
    /// The message, without the arguments of a large one.
    pub document: Value,
    /// The text of `document`.
    pub text: Bytes,
    /// Its part of the budgets, and the arguments of a large one.
    pub load: Load,
}

/// Why a body can't be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It exceeds the maximum size of a message.
    TooLong,
    /// The budget is used up.
    Full,
    /// The client sends it too slowly.
    Slow,
    /// The connection was lost before its end.
    Broken(String),
}

/// Why a message is refused.
#[derive(Debug)]
pub(super) enum Refused {
    Malformed(Malformed),
    /// The budget is used up.
    Full,
}

/// A message's part of the budgets, until its call has ended, and the arguments of a large one.
#[derive(Clone)]
pub(super) struct Load(Arc<Loaded>);

struct Loaded {
    arguments: Mutex<Option<JsonObject>>,
    room: Room,
}

#[expect(dead_code, reason = "it is held until it is dropped")]
enum Room {
    Small(Held),
    Large(Held, Part),
}

impl Bodies {
    /// Creates the budgets. A message has at most `most` bytes.
    pub fn new(most: usize) -> Self {
        let total = TEXT_BYTES.max(most.saturating_mul(2));
        Self(Arc::new(Shared {
            text: ByteBudget::new(total, total / 2, most),
            values: Budget::new(2 * MAX_VALUES),
            small: ByteBudget::new(SMALL_MESSAGES_BYTES, SMALL_MESSAGES_BYTES / 4 * 3, 0),
            patience: BUDGET_TIMEOUT,
            rate: SEND_RATE,
        }))
    }

    /// Waits until a message may hold `size` bytes of text. Returns false if that takes too long.
    async fn grow(&self, held: &mut Held, size: usize) -> bool {
        tokio::time::timeout(self.0.patience, held.grow(size)).await.is_ok()
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// `TooLong` if it has more than `most` bytes; `Full` if the budget is used up; `Slow` if the client
    /// is slower than the minimum rate; `Broken` if the connection is lost.
    pub async fn collect(&self, from: IpAddr, body: Body, most: usize) -> Result<Raw, Unread> {
        let hint = body.size_hint();
        if hint.lower() > most as u64 {
            return Err(Unread::TooLong);
        }
        let longest = hint.upper().and_then(|upper| usize::try_from(upper).ok());
        let longest = longest.map_or(most, |longest| longest.min(most));
        let (mut text, mut held): (Vec<u8>, Option<Held>) = (Vec::new(), None);
        let mut body = Limited::new(body, most);
        let mut pace = Pace::new(self.0.rate);
        loop {
            let frame = tokio::time::timeout_at(pace.deadline(), body.frame()).await;
            let Some(frame) = frame.map_err(|_| Unread::Slow)? else { break };
            let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
                Some(_) => Unread::TooLong,
                None => Unread::Broken(error.to_string()),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let size = text.len() + data.len();
            if size > MAX_SMALL_BYTES {
                let held = held.get_or_insert_with(|| self.0.text.holder(Some(from)));
                if size > held.size() {
                    let block = size.max(held.size() * 2).min(longest).max(size);
                    let begun = Instant::now();
                    if !self.grow(held, block).await {
                        return Err(Unread::Full);
                    }
                    pace.pause(begun.elapsed());
                    text.reserve_exact(block - text.len());
                }
            }
            text.extend_from_slice(&data);
            pace.progress(data.len());
        }
        if let Some(held) = &mut held {
            text.shrink_to_fit();
            held.complete(text.len());
        }
        Ok(Raw { text: text.into(), held })
    }

    /// Whether a message is parsed where it is, on the serving thread.
    fn is_small(text: &[u8]) -> bool {
        text.len() <= MAX_SMALL_BYTES
    }

    /// The text of a message that has been read.
    pub fn line(text: Bytes) -> Raw {
        Raw { text, held: None }
    }

    /// Parses a message: a large one on another thread, once it has its part of the budget of values.
    ///
    /// # Errors
    /// `Malformed` if it is not valid; `Full` if a budget is used up.
    pub async fn take(&self, from: Option<IpAddr>, raw: Raw) -> Result<Taken, Refused> {
        let Raw { text, mut held } = raw;
        if Self::is_small(&text) {
            let (mut document, values) = message::counted(&text).map_err(Refused::Malformed)?;
            let load = self.small(from, text.len(), values).ok_or(Refused::Full)?;
            let is_hidden = message::hide(&mut document);
            let text = if is_hidden { document.to_string().into() } else { text };
            return Ok(Taken { document, text, load });
        }
        let held = match held.take() {
            Some(held) => held,
            None => {
                let mut held = self.0.text.holder(from);
                let is_held = self.grow(&mut held, text.len()).await;
                held.complete(text.len());
                is_held.then_some(held).ok_or(Refused::Full)?
            }
        };
        // No value takes less than two bytes of text.
        let most = (text.len() / 2 + 1).min(MAX_VALUES);
        let values = tokio::time::timeout(self.0.patience, self.0.values.wait(from, most));
        let mut values = values.await.ok().flatten().ok_or(Refused::Full)?;
        // Its parts of the budgets are moved along: this future may be dropped meanwhile.
        let split = blocking(move || {
            let split = message::split(&text)?;
            values.shrink(split.values);
            Ok((split, Room::Large(held, values)))
        });
        let (split, room) = split.await.map_err(Refused::Malformed)?;
        let loaded = Loaded { arguments: Mutex::new(split.arguments), room };
        let load = Load(Arc::new(loaded));
        Ok(Taken { document: split.rest, text: split.text.into(), load })
    }

    /// Counts a small message. Returns `None` if the budget is used up.
    fn small(&self, from: Option<IpAddr>, bytes: usize, values: usize) -> Option<Load> {
        // The text counts twice: the library copies it.
        let size = OVERHEAD_BYTES + 2 * bytes + VALUE_BYTES * values;
        let held = self.0.small.hold(from, size, size <= MAX_UNREFUSED_BYTES)?;
        Some(Load(Arc::new(Loaded { arguments: Mutex::default(), room: Room::Small(held) })))
    }
}

impl Load {
    /// Returns that of a large request.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let of_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        let load = extensions.get::<Self>().or_else(of_http);
        load.filter(|load| matches!(load.0.room, Room::Large(..))).cloned()
    }

    /// Takes the arguments of the request. A second call returns `None`.
    pub fn arguments(&self) -> Option<JsonObject> {
        self.0.arguments.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A number of values, of which one address gets at most half. Waiting messages get them in order.
struct Budget {
    all: Arc<Semaphore>,
    /// The maximum for one address.
    share: usize,
    clients: Mutex<HashMap<Option<IpAddr>, Arc<Semaphore>>>,
}

/// A part of a budget, which is released when it is dropped.
struct Part {
    // In the order in which they are released.
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
        // One that holds nothing and waits for nothing has only this reference.
        clients.retain(|_, client| Arc::strong_count(client) > 1);
        let share = || Arc::new(Semaphore::new(self.share));
        Arc::clone(clients.entry(from).or_insert_with(share))
    }
}

impl Part {
    /// Releases what exceeds `size`.
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
    use futures_util::{FutureExt as _, StreamExt as _};

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

    /// Returns budgets with other bounds of time.
    fn bodies(patience: Duration, rate: MinRate) -> Bodies {
        let Bodies(shared) = Bodies::new(MOST);
        let mut shared = Arc::into_inner(shared).unwrap();
        (shared.patience, shared.rate) = (patience, rate);
        Bodies(Arc::new(shared))
    }

    const MOST: usize = 16 << 20;

    fn large() -> Raw {
        Bodies::line(vec![b' '; MAX_SMALL_BYTES + 1].into())
    }

    #[tokio::test]
    async fn what_waits_too_long_is_told_so() {
        let bodies = bodies(Duration::from_millis(20), SEND_RATE);
        let _held = bodies.0.values.wait(None, MAX_VALUES).await.unwrap();
        assert!(matches!(bodies.take(None, large()).await, Err(Refused::Full)));
        let small = Bodies::line(Bytes::from_static(b"{}"));
        assert!(bodies.take(None, small).await.is_ok());
    }

    #[tokio::test]
    async fn a_large_body_waits_and_a_small_one_does_not() {
        let bodies = Bodies::new(8 << 20);
        let body = |size: usize| Body::from(vec![b'x'; size]);
        let address = from(1).unwrap();
        let mut first = bodies.0.text.holder(Some(address));
        assert!(first.try_grow(TEXT_BYTES / 2));
        let small = bodies.collect(address, body(MAX_SMALL_BYTES), 8 << 20).now_or_never();
        assert_eq!(small.unwrap().unwrap().text.len(), MAX_SMALL_BYTES);
        let mut large = Box::pin(bodies.collect(address, body(MAX_SMALL_BYTES + 1), 8 << 20));
        assert!(large.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(large.await.unwrap().text.len(), MAX_SMALL_BYTES + 1);
        let long = bodies.collect(address, body((8 << 20) + 1), 8 << 20).await;
        assert!(matches!(long, Err(Unread::TooLong)));
    }

    /// A body of which `at_once` bytes come first, and then one byte after each pause.
    fn drips(at_once: usize, pause: Duration) -> Body {
        let first = std::iter::once(vec![b'x'; at_once]);
        let all = first.chain(std::iter::repeat_with(|| b"x".to_vec()));
        Body::from_stream(futures_util::stream::iter(all).then(move |data| async move {
            if data.len() == 1 {
                tokio::time::sleep(pause).await;
            }
            Ok::<_, std::io::Error>(data)
        }))
    }

    #[tokio::test]
    async fn bodies_that_drip_are_ended_and_hold_what_has_come() {
        let rate = MinRate { bytes_per_second: 16 << 10, grace: Duration::from_millis(300) };
        let bodies = bodies(Duration::from_millis(100), rate);
        let address = from(1).unwrap();
        let dripping: Vec<_> = (0..64)
            .map(|_| {
                let bodies = bodies.clone();
                let body = drips(MAX_SMALL_BYTES * 2, Duration::from_millis(10));
                tokio::spawn(async move { bodies.collect(address, body, MOST).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        // If the maximum size of each were reserved, they would use up the share of the address.
        let legitimate = bodies.collect(address, Body::from(vec![b'x'; MOST]), MOST).await;
        assert_eq!(legitimate.unwrap().text.len(), MOST);
        for body in dripping {
            assert!(matches!(body.await.unwrap(), Err(Unread::Slow)));
        }
        let mut all = bodies.0.text.holder(Some(address));
        assert!(all.try_grow(TEXT_BYTES / 2), "what was ended still holds something");
    }

    #[tokio::test]
    async fn bodies_that_grow_do_not_block_each_other() {
        let bodies = bodies(Duration::from_secs(5), SEND_RATE);
        let address = from(1).unwrap();
        // Together they exceed the share of the address, and all are received side by side.
        let sent: Vec<_> = (0..6)
            .map(|_| {
                let bodies = bodies.clone();
                let blocks = futures_util::stream::iter(vec![vec![b'x'; MOST / 16]; 16]);
                let body = Body::from_stream(blocks.then(|block| async {
                    tokio::task::yield_now().await;
                    Ok::<_, std::io::Error>(block)
                }));
                tokio::spawn(async move {
                    let body = bodies.collect(address, body, MOST).await;
                    body.map(|body| body.text.len())
                })
            })
            .collect();
        for sent in sent {
            assert_eq!(sent.await.unwrap().unwrap(), MOST);
        }
    }

    #[tokio::test]
    async fn waiting_small_messages_have_a_bound() {
        let bodies = Bodies::new(MOST);
        let message = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size));
        let take = |last, text: String| bodies.take(from(last), Bodies::line(text.into()));
        let mut waiting = Vec::new();
        let refused = loop {
            match take(1, message(MAX_SMALL_BYTES - 100)).await {
                Ok(taken) => waiting.push(taken),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Refused::Full));
        let most = SMALL_MESSAGES_BYTES / 4 * 3 / (2 * (MAX_SMALL_BYTES - 100));
        assert!(waiting.len() > most / 2 && waiting.len() <= most, "{}", waiting.len());
        // Many values take more than their text.
        let values = format!("[{}0]", "0,".repeat(10_000));
        assert!(take(1, values.clone()).await.is_err());
        // Short ones are counted, but never refused, nor are those of other addresses.
        assert!(take(1, message(100)).await.is_ok());
        assert!(take(2, values).await.is_ok());
        drop(waiting);
        assert!(take(1, message(MAX_SMALL_BYTES - 100)).await.is_ok());
    }
}
