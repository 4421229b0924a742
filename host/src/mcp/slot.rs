//! How much a server takes at a time: of one client, and of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::approval::ASKED;
use crate::line::Client;

/// How many places there are for calls of all clients together, besides one for each client. Clients
/// are sessions and connections, whose number is bounded.
const CALLS: usize = 1024;

/// How many clients' questions to a person may be open.
const ASKING: usize = 4;

/// A place for each call that runs or waits for a worker, and one for each that waits for a person.
pub(super) struct Slots {
    calls: Arc<Places>,
    questions: Arc<Places>,
}

/// The place of one call.
pub(super) struct Slot {
    calls: Arc<Places>,
    questions: Arc<Places>,
    client: Client,
    held: Mutex<Option<Place>>,
}

impl Slots {
    /// Places for this many calls of one client, and for [`ASKED`] of its questions.
    pub fn new(each: usize) -> Self {
        let calls = Arc::new(Places::new(each, CALLS.max(each)));
        Self { calls, questions: Arc::new(Places::new(ASKED, ASKED * ASKING)) }
    }

    /// A place for a client's call; none, where the client has one and all are taken, or too many by
    /// this client.
    pub fn take(&self, client: Client) -> Option<Slot> {
        let [calls, questions] = [&self.calls, &self.questions].map(Arc::clone);
        let held = Mutex::new(Some(calls.take(client)?));
        Some(Slot { calls, questions, client, held })
    }

    /// Waits until all places are free.
    pub async fn all(&self) {
        self.calls.empty().await;
    }
}

impl Slot {
    /// Waits for a person's answer, with the place left to other calls meanwhile; none, where too
    /// many wait for a person already.
    pub async fn aside<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let question = self.questions.take(self.client)?;
        self.hold(None);
        let answer = answer.await;
        drop(question);
        // There are never more of these than there were questions.
        self.hold(Some(self.calls.place(self.client)));
        Some(answer)
    }

    fn hold(&self, place: Option<Place>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// A number of places, of which a client gets some.
struct Places {
    each: usize,
    all: usize,
    taken: Mutex<Taken>,
    emptied: Notify,
}

#[derive(Default)]
struct Taken {
    by: HashMap<Client, usize>,
    all: usize,
}

impl Places {
    fn new(each: usize, all: usize) -> Self {
        Self { each, all, taken: Mutex::default(), emptied: Notify::new() }
    }

    fn take(self: &Arc<Self>, client: Client) -> Option<Place> {
        {
            let taken = self.taken();
            let own = taken.by.get(&client).copied().unwrap_or_default();
            // A client without a place gets one, however many others have taken.
            if own >= self.each || own > 0 && taken.all >= self.all {
                return None;
            }
        }
        Some(self.place(client))
    }

    /// A place, even if there is none.
    fn place(self: &Arc<Self>, client: Client) -> Place {
        let mut taken = self.taken();
        taken.all += 1;
        *taken.by.entry(client).or_default() += 1;
        Place { places: Arc::clone(self), client }
    }

    async fn empty(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.taken().all == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place, until it is dropped.
struct Place {
    places: Arc<Places>,
    client: Client,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.client);
            }
        }
        if taken.all == 0 {
            self.places.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use futures_util::FutureExt as _;
    use futures_util::future::pending;

    use super::*;

    fn client(id: u64) -> Client {
        Client { id, ..Client::default() }
    }

    #[tokio::test]
    async fn a_question_takes_no_place_of_a_call() {
        let slots = Slots::new(1);
        let asking = slots.take(client(1)).unwrap();
        assert!(slots.take(client(1)).is_none());
        let (answer, answered) = tokio::sync::oneshot::channel();
        let mut asked = Box::pin(asking.aside(answered));
        assert!(asked.as_mut().now_or_never().is_none());
        let other = slots.take(client(1)).unwrap();
        answer.send("yes").unwrap();
        assert_eq!(asked.as_mut().await, Some(Ok("yes")));
        drop(other);
        // It has taken its place again.
        assert!(slots.take(client(1)).is_none());
        assert!(slots.all().now_or_never().is_none());
        drop(asked);
        drop(asking);
        slots.all().await;
    }

    #[tokio::test]
    async fn questions_have_an_end() {
        let slots = Slots::new(1);
        let mut asking = Vec::new();
        for _ in 0..ASKED {
            let slot = slots.take(client(1)).unwrap();
            let mut asked = Box::pin(async move { slot.aside(pending::<()>()).await });
            assert!(asked.as_mut().now_or_never().is_none());
            asking.push(asked);
        }
        let slot = slots.take(client(1)).unwrap();
        assert_eq!(slot.aside(pending::<()>()).await, None);
        // Those of others are theirs.
        let other = slots.take(client(2)).unwrap();
        assert!(other.aside(pending::<()>()).now_or_never().is_none());
        asking.pop();
        assert!(slot.aside(pending::<()>()).now_or_never().is_none());
    }

    #[test]
    fn a_client_leaves_places_to_others() {
        let slots = Slots::new(10);
        let mut taken: Vec<Slot> = std::iter::from_fn(|| slots.take(client(1))).collect();
        assert_eq!(taken.len(), 10);
        for id in 2..=CALLS as u64 {
            taken.extend(std::iter::from_fn(|| slots.take(client(id))));
        }
        // Where all are taken, each of the others has one.
        assert!(taken.len() > CALLS && slots.take(client(2)).is_none());
        let late = slots.take(client(CALLS as u64 + 1));
        assert!(late.is_some() && slots.take(client(CALLS as u64 + 1)).is_none());
    }
}
