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

/// Up to here a message is small, in bytes.
const SMALL: usize = 32 << 10;

/// How much text of large messages is held at a time, in bytes; of one address, half of it.
const TEXT: usize = 64 << 20;

/// What small messages take at a time, in bytes; of one address, three quarters of it.
const SMALL_MESSAGES: usize = 64 << 20;

/// What a small message takes besides its text and its values, in bytes.
const OVERHEAD: usize = 4 << 10;

/// What one value takes, names of fields included, in bytes.
const VALUE: usize = 128;

/// What a message may take, in bytes, to be never refused: the connections and the calls that wait
/// bound the number of these.
const ALWAYS: usize = 8 << 10;

/// How long a large message waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// How fast a body has to be sent.
const SEND_RATE: MinRate = MinRate { bytes_per_second: 16 << 10, grace: Duration::from_secs(5) };

/// What the messages of all clients of a server hold. Clones are the same.
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

/// A body, or a line, with what it holds of the budget.
pub(super) struct Raw {
    pub text: Bytes,
    held: Option<Held>,
}

/// A message that was looked at.
pub(super) struct Taken {
    /// What it is, but for large arguments.
    pub document: Value,
    /// The text of `document`.
    pub text: Bytes,
    /// What it holds, and what was left out of a large one.
    pub load: Load,
}

/// The body of a request that can't be had.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is longer than a message may be.
    TooLong,
    /// Too much is held by others.
    Full,
    /// It comes too slowly.
    Slow,
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

/// What a message holds of the budgets until its call has ended, and the arguments of a large one.
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
    /// For messages of `most` bytes at most.
    pub fn new(most: usize) -> Self {
        let total = TEXT.max(most.saturating_mul(2));
        Self(Arc::new(Shared {
            text: ByteBudget::new(total, total / 2, most),
            values: Budget::new(2 * MAX_VALUES),
            small: ByteBudget::new(SMALL_MESSAGES, SMALL_MESSAGES / 4 * 3, 0),
            patience: PATIENCE,
            rate: SEND_RATE,
        }))
    }

    /// Waits until a message may hold `size` bytes of text. Returns false if that takes too long.
    async fn grow(&self, held: &mut Held, size: usize) -> bool {
        tokio::time::timeout(self.0.patience, held.grow(size)).await.is_ok()
    }

    /// Reads the body of a request, of `most` bytes at most. Whoever sends it too slowly is not waited
    /// for.
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
            if size > SMALL {
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
            let (document, values) = message::counted(&text).map_err(Refused::Malformed)?;
            let load = self.small(from, text.len(), values).ok_or(Refused::Full)?;
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
        // Its parts of the budgets go along: the client may go away meanwhile.
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

    /// What a small message holds; none, if others hold too much.
    fn small(&self, from: Option<IpAddr>, bytes: usize, values: usize) -> Option<Load> {
        // As text twice: the library has a copy while it is read.
        let size = OVERHEAD + 2 * bytes + VALUE * values;
        let mut held = self.0.small.holder(from);
        if size <= ALWAYS {
            held.force(size);
        } else if !held.try_grow(size) {
            return None;
        }
        held.complete(size);
        Some(Load(Arc::new(Loaded { arguments: Mutex::default(), room: Room::Small(held) })))
    }
}

impl Load {
    /// That of a request, if it is a large one.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let of_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        let load = extensions.get::<Self>().or_else(of_http);
        load.filter(|load| matches!(load.0.room, Room::Large(..))).cloned()
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

    /// Bodies with other bounds of time.
    fn bodies(patience: Duration, rate: MinRate) -> Bodies {
        let Bodies(shared) = Bodies::new(MOST);
        let mut shared = Arc::into_inner(shared).unwrap();
        (shared.patience, shared.rate) = (patience, rate);
        Bodies(Arc::new(shared))
    }

    const MOST: usize = 16 << 20;

    fn large() -> Raw {
        Bodies::line(vec![b' '; SMALL + 1].into())
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
        assert!(first.try_grow(TEXT / 2));
        let small = bodies.collect(address, body(SMALL), 8 << 20).now_or_never();
        assert_eq!(small.unwrap().unwrap().text.len(), SMALL);
        let mut large = Box::pin(bodies.collect(address, body(SMALL + 1), 8 << 20));
        assert!(large.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(large.await.unwrap().text.len(), SMALL + 1);
        let long = bodies.collect(address, body((8 << 20) + 1), 8 << 20).await;
        assert!(matches!(long, Err(Unread::TooLong)));
    }

    /// A body of which a part is there at once, and then a byte from time to time.
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
                let body = drips(SMALL * 2, Duration::from_millis(10));
                tokio::spawn(async move { bodies.collect(address, body, MOST).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Each could have announced the longest there is; 64 of them would not fit.
        let legitimate = bodies.collect(address, Body::from(vec![b'x'; MOST]), MOST).await;
        assert_eq!(legitimate.unwrap().text.len(), MOST);
        for body in dripping {
            assert!(matches!(body.await.unwrap(), Err(Unread::Slow)));
        }
        let mut all = bodies.0.text.holder(Some(address));
        assert!(all.try_grow(TEXT / 2), "what was ended still holds something");
    }

    #[tokio::test]
    async fn bodies_that_grow_do_not_block_each_other() {
        let bodies = bodies(Duration::from_secs(5), SEND_RATE);
        let address = from(1).unwrap();
        // More than the share of the address, of senders that are all halfway.
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
            match take(1, message(SMALL - 100)).await {
                Ok(taken) => waiting.push(taken),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Refused::Full));
        let most = SMALL_MESSAGES / 4 * 3 / (2 * (SMALL - 100));
        assert!(waiting.len() > most / 2 && waiting.len() <= most, "{}", waiting.len());
        // Many values take more than their text.
        let values = format!("[{}0]", "0,".repeat(10_000));
        assert!(take(1, values.clone()).await.is_err());
        // Short ones are counted, but never refused, nor are those of other addresses.
        assert!(take(1, message(100)).await.is_ok());
        assert!(take(2, values).await.is_ok());
        drop(waiting);
        assert!(take(1, message(SMALL - 100)).await.is_ok());
    }
}
