//! Requests for workspaces of a fleet, queued by a NATS server with JetStream: who submits a request need
//! not know which host works it off, and requests of one workspace mostly meet on one host, in order.
//!
//! The queue is a help, not the truth. It delivers each request at least once; a request may be delivered
//! twice, late, or to two hosts at the same time. What a call commits is decided by the store alone.
//!
//! | name in the server | content |
//! |---|---|
//! | stream `cofferdam-calls`, subject `cofferdam.calls.WORKSPACE` | the requests that wait |
//! | stream `cofferdam-results`, subject `cofferdam.results.WORKSPACE.KEY` | the results of one day |
//! | bucket `cofferdam-leases`, key `WORKSPACE` | the host that works a workspace's requests off |
//! | subject `cofferdam.work`, in no stream | the workspace that has a new request: a hint |
//!
//! `WORKSPACE` and `KEY` are SHA-256 digests of the names. Nothing that is read from the server is trusted:
//! [`sealed`] authenticates it.
//!
//! | module | is for |
//! |---|---|
//! | [`serve`] | a host that works requests off |
//! | [`lease`] | which host works off the requests of a workspace |
//! | [`connection`] | addresses, credentials, TLS |
//! | [`sealed`] | authentic messages |
//!
//! Leaves out: what a request means, the store, and reading secrets and credentials.

mod connection;
mod error;
mod lease;
mod sealed;
mod serve;

#[cfg(test)]
mod tests;

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{
    ContextBuilder, CreateKeyValueErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::kv;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    self, DeleteStatus, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy,
};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, HeaderMap, header};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use connection::REQUEST_TIMEOUT;
use sealed::{Kind, Place};

pub use connection::{QueueCredentials, QueueOptions};
pub use error::QueueError;
pub use sealed::{FleetSecret, Request};
pub use serve::{TryLater, Worker};

/// The largest message: what servers take by default, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The largest request, encoded and with its tag, in bytes. The rest is for headers.
pub const MAX_REQUEST_BYTES: usize = MAX_MESSAGE_BYTES - (4 << 10);
/// The largest result, in bytes.
pub const MAX_RESULT_BYTES: usize = MAX_REQUEST_BYTES;

/// How many requests wait for one workspace at most.
pub const MAX_WAITING_REQUESTS: i64 = 1000;
const MAX_ALL_REQUESTS: i64 = 100_000;

/// For how long a request waits in the queue at most.
pub const REQUEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// For how long a result stays readable.
pub const RESULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long the server stores a request with the same key only once.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(10 * 60);

/// After how long the entry of a lease is removed that no host renews. It is free long before that.
const LEASE_ENTRY_TTL: Duration = Duration::from_secs(60);

/// How often the result is looked for while it is waited for: a notification can be lost.
const RESULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

const CALLS: &str = "cofferdam-calls";
const RESULTS: &str = "cofferdam-results";
const LEASES: &str = "cofferdam-leases";
const WORK_SUBJECT: &str = "cofferdam.work";

/// The first byte of a result: it follows, or it was too large.
const RESULT_FOLLOWS: u8 = 0;
const RESULT_TOO_LARGE: u8 = 1;

/// A queue. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Queue {
    client: Client,
    context: Context,
    calls: stream::Stream<()>,
    results: stream::Stream<()>,
    leases: kv::Store,
    secret: FleetSecret,
}

impl Queue {
    /// Connects to a server (`nats://HOST:PORT` or `tls://HOST:PORT`, or several with commas between them),
    /// and creates the streams and the bucket if they are missing. Reconnects by itself afterwards.
    ///
    /// # Errors
    /// [`QueueError::Address`] and [`QueueError::Credentials`] if they are not valid,
    /// [`QueueError::Unreachable`] if no server responds, [`QueueError::NoJetStream`] if JetStream does not,
    /// [`QueueError::Refused`] if the server refuses the credentials, JetStream for the account, or the
    /// streams.
    pub async fn connect(
        address: &str,
        secret: FleetSecret,
        options: QueueOptions,
    ) -> Result<Self, QueueError> {
        let client = connection::connect(address, options).await?;
        let context = ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .ack_timeout(REQUEST_TIMEOUT)
            .build(client.clone());
        create_missing(&context).await?;
        let calls = context.get_stream_no_info(CALLS).await.map_err(QueueError::refused)?;
        let results = context.get_stream_no_info(RESULTS).await.map_err(QueueError::refused)?;
        let leases = context.get_key_value(LEASES).await.map_err(QueueError::refused)?;
        Ok(Self { client, context, calls, results, leases, secret })
    }

    /// Whether a server is connected at this moment.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Stores a request; returns when the server has stored it. The same key in the same workspace is
    /// stored once within [`DUPLICATE_WINDOW`]; later, it leads to the same result.
    ///
    /// # Errors
    /// [`QueueError::Name`], [`QueueError::TooLarge`], [`QueueError::Full`], [`QueueError::Refused`].
    /// [`QueueError::Unreachable`]: the request may have been stored; submit it again with the same key.
    pub async fn submit(&self, request: &Request) -> Result<(), QueueError> {
        let place = Place::new(&request.workspace, &request.key)?;
        let message = request.encode(&self.secret)?;
        if message.len() > MAX_REQUEST_BYTES {
            let (bytes, most) = (message.len(), MAX_REQUEST_BYTES);
            return Err(QueueError::TooLarge { what: "a request", bytes, most });
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_MESSAGE_ID, place.to_string());
        self.publish(calls_subject(&place.workspace), headers, message).await?;
        // A hint only: hosts look for requests from time to time, too.
        drop(self.client.publish(WORK_SUBJECT, place.workspace.into()).await);
        Ok(())
    }

    /// Waits for the result of a request at most for `wait`. Returns `None` if there is none by then:
    /// the request waits, is worked off, or was never submitted. A result can be read as often as wanted
    /// for [`RESULT_TTL`].
    ///
    /// # Errors
    /// [`QueueError::Name`]; [`QueueError::TooLarge`] if the result was too large to be stored;
    /// [`QueueError::Unreachable`] or [`QueueError::Refused`] if there is still no server when the time is
    /// over.
    pub async fn result(
        &self,
        workspace: &str,
        key: &str,
        wait: Duration,
    ) -> Result<Option<Bytes>, QueueError> {
        let place = Place::new(workspace, key)?;
        let deadline = Instant::now() + wait;
        // What is stored is published as well, so that it arrives at once.
        let mut arrivals = self
            .client
            .subscribe(results_subject(&place))
            .await
            .map_err(QueueError::unreachable)?;
        loop {
            let stored = self.stored_result(&place).await;
            if let Ok(Some(result)) = stored {
                return result.map(Some);
            }
            if Instant::now() >= deadline {
                return stored.map(|_| None);
            }
            let next_poll = deadline.min(Instant::now() + RESULT_POLL_INTERVAL);
            match timeout_at(next_poll, arrivals.next()).await {
                Ok(Some(message)) => {
                    if let Some(result) = self.open_result(&place, &message.payload) {
                        return result.map(Some);
                    }
                }
                Ok(None) => sleep_until(next_poll).await,
                Err(_) => {}
            }
        }
    }

    /// Reads the result of a request, if an authentic one is stored.
    async fn stored_result(&self, place: &Place) -> Result<Option<StoredResult>, QueueError> {
        let found = self.results.get_last_raw_message_by_subject(&results_subject(place)).await;
        Ok(found_message(found)?.and_then(|message| self.open_result(place, &message.payload)))
    }

    fn open_result(&self, place: &Place, sealed: &Bytes) -> Option<StoredResult> {
        let content = self.secret.open(Kind::Result, &place.to_string(), sealed);
        match content.and_then(<[u8]>::split_first) {
            Some((&RESULT_FOLLOWS, result)) => Some(Ok(sealed.slice_ref(result))),
            Some((&RESULT_TOO_LARGE, bytes)) => {
                let bytes = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let (what, most) = ("the result", MAX_RESULT_BYTES);
                Some(Err(QueueError::TooLarge { what, bytes, most }))
            }
            _ => {
                tracing::warn!("a result in the queue is ignored, because it is not authentic");
                None
            }
        }
    }

    /// Stores the result of a request, or that it was too large.
    async fn store_result(&self, place: &Place, result: &[u8]) -> Result<(), QueueError> {
        let content = if result.len() <= MAX_RESULT_BYTES {
            [&[RESULT_FOLLOWS], result].concat()
        } else {
            [&[RESULT_TOO_LARGE][..], &(result.len() as u64).to_le_bytes()].concat()
        };
        let message = self.secret.seal(Kind::Result, &place.to_string(), content);
        self.publish(results_subject(place), HeaderMap::new(), message).await
    }

    /// Stores a message in the stream of its subject.
    async fn publish(
        &self,
        subject: String,
        headers: HeaderMap,
        message: Bytes,
    ) -> Result<(), QueueError> {
        let sent = self.context.publish_with_headers(subject, headers, message);
        let stored = sent.await.map_err(publish_error)?;
        stored.await.map(drop).map_err(publish_error)
    }

    /// The first request of a workspace that waits.
    async fn first_request(&self, token: &str) -> Result<Option<StreamMessage>, QueueError> {
        let subject = calls_subject(token);
        found_message(self.calls.get_first_raw_message_by_subject(subject, 1).await)
    }

    /// Removes a request from the queue. Another host may have done that.
    async fn remove_request(&self, sequence: u64) -> Result<(), QueueError> {
        // Without `no_erase`, the server writes over the message on its disk, which takes milliseconds.
        let request = json!({ "seq": sequence, "no_erase": true });
        let removed = self.context.request(format!("STREAM.MSG.DELETE.{CALLS}"), &request).await;
        match removed.map_err(QueueError::unreachable)? {
            Response::<DeleteStatus>::Ok(_) => Ok(()),
            Response::Err { error } if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => Ok(()),
            Response::Err { error } => Err(QueueError::refused(error)),
        }
    }
}

/// A result, or the error that it was too large.
type StoredResult = Result<Bytes, QueueError>;

/// Creates the streams and the bucket if they are missing. Those that exist stay as they are: an
/// administrator may have changed their limits.
async fn create_missing(context: &Context) -> Result<(), QueueError> {
    let calls = stream::Config {
        name: CALLS.to_owned(),
        description: Some("Requests that wait, by workspace".to_owned()),
        subjects: vec![calls_subject("*")],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: MAX_WAITING_REQUESTS,
        max_messages: MAX_ALL_REQUESTS,
        max_message_size: MAX_MESSAGE_BYTES as i32,
        max_age: REQUEST_TTL,
        duplicate_window: DUPLICATE_WINDOW,
        ..stream::Config::default()
    };
    let results = stream::Config {
        name: RESULTS.to_owned(),
        description: Some("Results, by workspace and key".to_owned()),
        subjects: vec!["cofferdam.results.*.*".to_owned()],
        max_messages_per_subject: 1,
        max_message_size: MAX_MESSAGE_BYTES as i32,
        max_age: RESULT_TTL,
        ..stream::Config::default()
    };
    for stream in [calls, results] {
        let created = context.get_or_create_stream(stream).await;
        created.map_err(|error| QueueError::of_stream(&error))?;
    }
    if context.get_key_value(LEASES).await.is_ok() {
        return Ok(());
    }
    let leases = kv::Config {
        bucket: LEASES.to_owned(),
        description: "Which host works off the requests of a workspace".to_owned(),
        history: 1,
        max_age: LEASE_ENTRY_TTL,
        ..kv::Config::default()
    };
    context.create_key_value(leases).await.map(drop).map_err(|error| match error.kind() {
        CreateKeyValueErrorKind::TimedOut => QueueError::unreachable(error),
        _ => QueueError::refused(error),
    })
}

fn calls_subject(token: &str) -> String {
    format!("cofferdam.calls.{token}")
}

fn results_subject(place: &Place) -> String {
    format!("cofferdam.results.{place}")
}

/// The message that was found, if there is one.
fn found_message(
    found: Result<StreamMessage, async_nats::error::Error<LastRawMessageErrorKind>>,
) -> Result<Option<StreamMessage>, QueueError> {
    match found {
        Ok(message) => Ok(Some(message)),
        Err(error) => match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok(None),
            LastRawMessageErrorKind::JetStream(_) => Err(QueueError::refused(error)),
            _ => Err(QueueError::unreachable(error)),
        },
    }
}

fn publish_error(error: PublishError) -> QueueError {
    let text = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    match error.kind() {
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => QueueError::unreachable(error),
        PublishErrorKind::Other if text.contains("maximum messages per subject exceeded") => {
            QueueError::Full(MAX_WAITING_REQUESTS)
        }
        _ => QueueError::refused(error),
    }
}
