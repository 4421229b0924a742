//! Calls with a key are made once, however often they are delivered.
//!
//! A commit with the result of a call names its key. An *intent* is written before: an object that says
//! that the commit of a number may have the key. So a host that lists the intents of a key, after it has
//! read the latest commits, finds the result if there is one among them. It reads all commits that follow
//! before it creates one itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cofferdam_plugin::digest::Digest;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::PARALLEL;
use crate::commit::KeyedCall;
use crate::error::{FleetError, KeyError, MAX_KEY_BYTES};
use crate::store::Store;

/// How many intents of a key are read: one for each time that a host tried to publish its result.
const MAX_INTENTS: usize = 10_000;

/// Checks that a caller may use a text as a key.
///
/// # Errors
/// [`KeyError`].
pub(crate) fn check(key: &str) -> Result<(), KeyError> {
    let is_visible = |b: u8| b.is_ascii_graphic();
    match !key.is_empty() && key.len() <= MAX_KEY_BYTES && key.bytes().all(is_visible) {
        true => Ok(()),
        false => Err(KeyError),
    }
}

/// The digest by which the intents of a key are named.
pub(crate) fn digest(key: &str) -> Digest {
    Digest::of(key.as_bytes())
}

/// Returns the call with this key among the commits up to `head`.
///
/// # Errors
/// [`FleetError::Invalid`], [`FleetError::Store`].
pub(crate) async fn find(
    store: &Store,
    key: &str,
    head: u64,
) -> Result<Option<KeyedCall>, FleetError> {
    let intents = store.intents(digest(key)).await?;
    if intents.len() > MAX_INTENTS {
        let why = format!("there are more than {MAX_INTENTS}");
        return Err(FleetError::invalid("the list of attempts to publish this key", why));
    }
    let reads = intents.into_iter().filter(|number| *number <= head).map(|number| async move {
        let commit = store.commit(number).await?;
        let call = commit.and_then(|(commit, _)| commit.call);
        Ok::<_, FleetError>(call.filter(|call| call.key == key))
    });
    let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
    while let Some(call) = reads.try_next().await? {
        if call.is_some() {
            return Ok(call);
        }
    }
    Ok(None)
}

/// The calls with keys that this host makes at present, each with what a commit says of it.
#[derive(Debug, Default)]
pub(crate) struct Active(Mutex<HashMap<String, Option<Ended>>>);

/// A call that has ended: here, or on another host.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    Here(Bytes),
    Elsewhere(KeyedCall),
}

impl Active {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Ended>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key. Returns false if it is there already.
    pub(crate) fn add(&self, key: &str) -> bool {
        let mut active = self.lock();
        let is_new = !active.contains_key(key);
        active.entry(key.to_owned()).or_default();
        is_new
    }

    pub(crate) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Notes that a call has ended, if this host makes it.
    pub(crate) fn end(&self, key: &str, ended: impl FnOnce() -> Ended) {
        if let Some(found) = self.lock().get_mut(key) {
            found.get_or_insert_with(ended);
        }
    }

    /// How a call has ended, if it has.
    pub(crate) fn ended(&self, key: &str) -> Option<Ended> {
        self.lock().get(key).cloned().flatten()
    }
}
