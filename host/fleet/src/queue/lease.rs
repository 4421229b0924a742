//! Leases of workspaces: which host works requests off. An entry in a key-value bucket, which its holder
//! writes again and again, each time on the condition that it has not changed.
//!
//! A lease that has not changed for [`LEASE_TTL`] is free. Each host measures that with its own clock, from
//! when it has seen the entry, so clocks that differ or jump do no harm. Two hosts may both think that they
//! hold a lease for a moment; commits are safe without leases.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::{Entry, Operation, Store, UpdateErrorKind};
use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::error::QueueError;
use super::sealed::{FleetSecret, Kind};

/// For how long a lease is valid that its holder does not renew.
pub(super) const LEASE_TTL: Duration = Duration::from_millis(1200);

/// How often a holder renews a lease.
pub(super) const RENEW_INTERVAL: Duration = Duration::from_millis(300);

/// The longest value of a lease that is read, in bytes.
const MAX_LEASE_BYTES: usize = 4096;

/// How often the lease of another host is read.
pub(super) const READ_INTERVAL: Duration = Duration::from_millis(150);

/// The leases of other hosts.
#[derive(Default)]
pub(super) struct SeenLeases(HashMap<String, SeenLease>);

struct SeenLease {
    revision: u64,
    /// Since when it has this revision.
    since: Instant,
    /// When it was last read.
    read: Instant,
}

impl SeenLeases {
    /// Forgets all leases but those of these workspaces.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|token, _| is_kept(token));
    }

    /// Whether a lease has not changed for so long that it is free.
    fn is_free(&mut self, token: &str, revision: u64) -> bool {
        let now = Instant::now();
        let new = || SeenLease { revision, since: now, read: now };
        let seen = self.0.entry(token.to_owned()).or_insert_with(new);
        seen.read = now;
        if seen.revision != revision {
            *seen = new();
        }
        now - seen.since >= LEASE_TTL
    }

    /// Whether a lease was read so recently that it is not read again.
    pub(super) fn is_recent(&self, token: &str) -> bool {
        self.0.get(token).is_some_and(|seen| seen.read.elapsed() < READ_INTERVAL)
    }
}

/// A lease that this host holds, until it is lost or given back.
pub(super) struct Lease {
    store: Store,
    token: String,
    value: Bytes,
    held: Mutex<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    revision: u64,
    /// When the last request was sent that renewed it.
    renewed: Instant,
    is_lost: bool,
}

impl Lease {
    /// Takes the lease of a workspace, if no other host holds it.
    pub(super) async fn take(
        store: &Store,
        (secret, host): (&FleetSecret, &str),
        token: &str,
        seen: &mut SeenLeases,
    ) -> Result<Option<Self>, QueueError> {
        let entry = store.entry(token).await.map_err(QueueError::unreachable)?;
        let revision = match &entry {
            None => 0,
            Some(entry) if entry.operation != Operation::Put => entry.revision,
            Some(entry) => {
                if is_authentic(secret, token, entry) {
                    if !seen.is_free(token, entry.revision) {
                        return Ok(None);
                    }
                } else {
                    tracing::warn!("a lease is ignored, because it is not authentic");
                }
                entry.revision
            }
        };
        // The id distinguishes it from other leases of the same host.
        let value = json!({ "host": host, "id": uuid::Uuid::new_v4().to_string() }).to_string();
        let value = secret.seal(Kind::Lease, token, value.into_bytes());
        let renewed = Instant::now();
        let revision = match store.update(token, value.clone(), revision).await {
            Ok(revision) => revision,
            // Another host was faster.
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => return Ok(None),
            Err(error) => return Err(QueueError::unreachable(error)),
        };
        let held = Mutex::new(Held { revision, renewed, is_lost: false });
        Ok(Some(Self { store: store.clone(), token: token.to_owned(), value, held }))
    }

    fn held(&self) -> Held {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, held: Held) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Whether another host holds it now.
    pub(super) fn is_lost(&self) -> bool {
        self.held().is_lost
    }

    /// Whether it was renewed in time.
    pub(super) fn is_valid(&self) -> bool {
        let held = self.held();
        !held.is_lost && held.renewed.elapsed() < LEASE_TTL
    }

    /// Renews it again and again. Returns when it is lost.
    pub(super) async fn keep(&self) {
        while !self.is_lost() {
            sleep(RENEW_INTERVAL).await;
            self.renew().await;
        }
    }

    async fn renew(&self) {
        let (held, renewed) = (self.held(), Instant::now());
        match self.store.update(&self.token, self.value.clone(), held.revision).await {
            Ok(revision) => self.set(Held { revision, renewed, ..held }),
            // An earlier request may have renewed it, whose answer was lost.
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                match self.own_revision().await {
                    Ok(Some(revision)) => self.set(Held { revision, ..held }),
                    Ok(None) => self.set(Held { is_lost: true, ..held }),
                    Err(_) => {}
                }
            }
            // The server can't be reached. The lease may still be this host's when it is back.
            Err(_) => {}
        }
    }

    /// The revision of the entry, if it is this lease.
    async fn own_revision(&self) -> Result<Option<u64>, QueueError> {
        let entry = self.store.entry(&self.token).await.map_err(QueueError::unreachable)?;
        let is_own = |entry: &Entry| entry.value == self.value;
        Ok(entry.filter(is_own).map(|entry| entry.revision))
    }

    /// Gives it back, so that other hosts need not wait. Without a server, it ends by itself.
    pub(super) async fn give_back(&self) {
        let held = self.held();
        if held.is_lost {
            return;
        }
        let given = self.store.delete_expect_revision(&self.token, Some(held.revision)).await;
        if given.is_err()
            && let Ok(Some(revision)) = self.own_revision().await
        {
            drop(self.store.delete_expect_revision(&self.token, Some(revision)).await);
        }
    }
}

fn is_authentic(secret: &FleetSecret, token: &str, entry: &Entry) -> bool {
    entry.value.len() <= MAX_LEASE_BYTES && secret.open(Kind::Lease, token, &entry.value).is_some()
}
