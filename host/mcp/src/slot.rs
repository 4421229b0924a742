//! Admission control: permits for calls and for questions to the user. Addresses share the permits,
//! and the clients of an address share those of the address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use cofferdam_workspace::fair_queue::{Client, ClientCounts};

/// The number of permits for calls of all clients together, besides one for each client. Clients are
/// sessions and connections, whose number is bounded.
const MAX_CALLS: usize = 1024;

/// The number of questions of one client that may be open.
pub(super) const MAX_QUESTIONS: usize = 64;

/// The number of clients that may have [`MAX_QUESTIONS`] open.
const MAX_ASKING_CLIENTS: usize = 4;

/// The permits of all calls and questions.
pub(super) struct Slots {
    calls: Arc<Permits>,
    questions: Arc<Permits>,
}

/// The permit of one call.
pub(super) struct Slot {
    calls: Arc<Permits>,
    questions: Arc<Permits>,
    client: Client,
    revoked: CancellationToken,
    held: Mutex<Option<Permit>>,
}

impl Slots {
    /// Permits for this many calls of one client, and for [`MAX_QUESTIONS`] of its questions.
    pub fn new(each: usize) -> Self {
        let calls = Permits::new(each, MAX_CALLS.max(each));
        let questions = Permits::new(MAX_QUESTIONS, MAX_QUESTIONS * MAX_ASKING_CLIENTS);
        Self { calls: Arc::new(calls), questions: Arc::new(questions) }
    }

    /// Takes a permit for a client's call. Returns `None` if the client has as many as it may, or if
    /// all are taken and no other call gives way. A client without a permit always gets one.
    pub fn take(&self, client: Client) -> Option<Slot> {
        let [calls, questions] = [&self.calls, &self.questions].map(Arc::clone);
        let permit = calls.take(client)?;
        let revoked = permit.revoked.clone();
        Some(Slot { calls, questions, client, revoked, held: Mutex::new(Some(permit)) })
    }

    /// Waits until no call is left: neither one that runs, nor one that waits for the user.
    pub async fn all(&self) {
        loop {
            self.calls.empty().await;
            if self.questions.is_empty() {
                return;
            }
            self.questions.empty().await;
        }
    }
}

impl Slot {
    /// The call has begun to run: it does not give way to other calls any more.
    pub fn runs(&self) {
        if let Some(permit) = &*self.held.lock().unwrap_or_else(PoisonError::into_inner) {
            permit.permits.runs(permit.number);
        }
    }

    /// Waits until the call has to give way to one of another client.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    /// Whether the call has given way to one of another client.
    pub fn is_revoked(&self) -> bool {
        self.revoked.is_cancelled()
    }

    /// Waits for the user's answer; other calls may use the permit meanwhile. Returns `None` if too
    /// many calls wait for an answer already.
    pub async fn aside<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let question = self.questions.take(self.client)?;
        // The user may be reading it.
        self.questions.runs(question.number);
        self.hold(None);
        let _aside = Aside { slot: self, _question: question };
        Some(answer.await)
    }

    fn hold(&self, permit: Option<Permit>) {
        // The old one is dropped after the lock is released.
        let _old = std::mem::replace(
            &mut *self.held.lock().unwrap_or_else(PoisonError::into_inner),
            permit,
        );
    }
}

/// A call that waits for the user's answer. Its permit is taken again when this is dropped, also if the wait is
/// cancelled, and before the permit of the question is returned: the call has still to end.
struct Aside<'a> {
    slot: &'a Slot,
    _question: Permit,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        let Slot { calls, client, .. } = self.slot;
        // There are never more of these than there were questions.
        let permit = calls.add(&mut calls.taken(), *client);
        calls.runs(permit.number);
        self.slot.hold(Some(permit));
    }
}

/// A number of permits, of which each client and each address gets some.
struct Permits {
    each: usize,
    all: usize,
    taken: Mutex<Taken>,
    emptied: Notify,
}

#[derive(Default)]
struct Taken {
    /// By number, so the oldest first.
    holders: BTreeMap<u64, Holder>,
    next: u64,
    /// The number of permits that are not dropped, revoked ones included.
    alive: usize,
    counts: ClientCounts,
}

struct Holder {
    client: Client,
    /// Whether its call has not begun to run.
    waits: bool,
    revoked: CancellationToken,
}

impl Taken {
    /// How many the address of a client holds, and how many the client itself.
    fn held(&self, client: Client) -> (usize, usize) {
        (self.counts.of_address(client.address), self.counts.of_client(client))
    }

    /// Revokes the permit of a call that has not begun to run, for a call of `client`: of the address,
    /// and then of the client, that hold most, the one that was taken last. An address gives way to
    /// one that still holds fewer afterwards, if it `may`; a client to one of the same address. No
    /// client loses its only permit.
    fn revoke_for(&mut self, client: Client, may: impl Fn(Option<IpAddr>) -> bool) -> Option<()> {
        let (of_address, own) = self.held(client);
        let gives_way = |other: Client| {
            let (of_other_address, of_other) = self.held(other);
            let has_more = if other.address == client.address {
                of_other > own + 1
            } else {
                of_other_address > of_address + 1
            };
            of_other > 1 && has_more && may(other.address)
        };
        let candidates = self.counts.clients().filter(|other| gives_way(*other));
        let mut candidates: Vec<Client> = candidates.collect();
        candidates.sort_unstable_by_key(|other| std::cmp::Reverse(self.held(*other)));
        let number = candidates.iter().find_map(|other| {
            let mut holders = self.holders.iter().rev();
            holders.find(|(_, holder)| holder.client == *other && holder.waits).map(|(n, _)| *n)
        })?;
        self.remove(number)?.revoked.cancel();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Holder> {
        let holder = self.holders.remove(&number)?;
        self.counts.remove(holder.client);
        Some(holder)
    }
}

impl Permits {
    fn new(each: usize, all: usize) -> Self {
        Self { each, all, taken: Mutex::default(), emptied: Notify::new() }
    }

    /// The number of permits that one address may hold: others get the rest at once.
    fn share(&self) -> usize {
        self.all - self.all / 4
    }

    fn take(self: &Arc<Self>, client: Client) -> Option<Permit> {
        let mut taken = self.taken();
        let (of_address, own) = taken.held(client);
        if own >= self.each {
            return None;
        }
        let is_crowded = of_address >= self.share();
        if is_crowded || taken.holders.len() >= self.all {
            let may = |address| !is_crowded || address == client.address;
            if taken.revoke_for(client, may).is_none() && own > 0 {
                return None;
            }
        }
        Some(self.add(&mut taken, client))
    }

    /// Returns a permit, even if all are taken.
    fn add(self: &Arc<Self>, taken: &mut Taken, client: Client) -> Permit {
        let (number, revoked) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.alive += 1;
        taken.holders.insert(number, Holder { client, waits: true, revoked: revoked.clone() });
        taken.counts.add(client);
        Permit { permits: Arc::clone(self), number, revoked }
    }

    fn runs(&self, number: u64) {
        if let Some(holder) = self.taken().holders.get_mut(&number) {
            holder.waits = false;
        }
    }

    fn is_empty(&self) -> bool {
        self.taken().alive == 0
    }

    async fn empty(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One permit, which is returned when it is dropped.
struct Permit {
    permits: Arc<Permits>,
    number: u64,
    revoked: CancellationToken,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken();
        taken.remove(self.number);
        taken.alive -= 1;
        if taken.alive == 0 {
            self.permits.emptied.notify_waiters();
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
    async fn a_call_whose_question_is_cancelled_has_still_to_end() {
        let slots = Slots::new(1);
        let asking = slots.take(client(1)).unwrap();
        let mut asked = Box::pin(asking.aside(pending::<()>()));
        assert!(asked.as_mut().now_or_never().is_none());
        assert!(slots.all().now_or_never().is_none());
        drop(asked);
        assert!(slots.all().now_or_never().is_none());
        drop(asking);
        slots.all().await;
    }

    #[tokio::test]
    async fn questions_have_an_end() {
        let slots = Slots::new(1);
        let mut asking = Vec::new();
        for _ in 0..MAX_QUESTIONS {
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
    fn a_client_has_its_permits_and_no_more() {
        let slots = Slots::new(10);
        let taken: Vec<Slot> = std::iter::from_fn(|| slots.take(client(1))).collect();
        assert_eq!(taken.len(), 10);
        assert!(slots.take(client(2)).is_some());
    }

    #[test]
    fn sessions_of_an_address_share_its_permits() {
        let slots = Slots::new(66);
        let mut taken: Vec<Slot> = Vec::new();
        for id in 0..17 {
            taken.extend(std::iter::from_fn(|| slots.take(client(id))).take(66));
        }
        let share = MAX_CALLS / 4 * 3;
        let held = |taken: &[Slot]| taken.iter().filter(|slot| !slot.is_revoked()).count();
        assert_eq!(held(&taken), share);
        // Another client gets as many as each of the crowd still has, and none of its own is revoked.
        let own: Vec<Slot> = std::iter::from_fn(|| slots.take(client(100))).collect();
        assert!((40..=66).contains(&own.len()), "{}", own.len());
        assert_eq!((held(&own), held(&taken)), (own.len(), share - own.len()));
        // Another address has room, and takes none of it away.
        let elsewhere = Client { address: Some([192, 0, 2, 1].into()), id: 1 };
        let others: Vec<Slot> = std::iter::from_fn(|| slots.take(elsewhere)).collect();
        assert_eq!((others.len(), held(&others)), (66, 66));
        assert_eq!(held(&taken), share - own.len());
        // Calls that run do not give way, and a client still gets its first one.
        taken.iter().chain(&own).for_each(Slot::runs);
        let first = slots.take(client(1000));
        assert!(first.is_some() && slots.take(client(1000)).is_none());
        assert_eq!(held(&taken), share - own.len());
    }

    #[test]
    fn where_all_permits_are_taken_the_address_with_most_gives_way() {
        let permits = Arc::new(Permits::new(10, 12));
        let at = |last: u8, id| Client { address: Some([127, 0, 0, last].into()), id };
        let take = |last, id| permits.take(at(last, id)).unwrap();
        let revoked = |permits: &[Permit]| {
            permits.iter().filter(|permit| permit.revoked.is_cancelled()).count()
        };
        let here: Vec<_> = (0..9).map(|number| take(1, number / 3)).collect();
        let there: Vec<_> = (0..3).map(|_| take(2, 1)).collect();
        let new: Vec<_> = (0..3).map(|_| take(3, 1)).collect();
        assert_eq!([&here, &there, &new].map(|held| revoked(held)), [3, 0, 0]);
        assert_eq!(permits.taken().holders.len(), 12);
        // As many as others have, and no more; but none of the first of its client.
        let more: Vec<_> = (0..9).map_while(|_| permits.take(at(3, 1))).collect();
        assert!(more.len() <= 1, "{}", more.len());
        let crowd: Vec<_> = (0..20).map(|id| take(4, id)).collect();
        assert_eq!(revoked(&crowd), 0);
        let kept = [(&here, 3), (&there, 1), (&new, 1)];
        assert!(kept.iter().all(|(held, clients)| held.len() - revoked(held) >= *clients));
        drop((here, there, new, more, crowd));
        let taken = permits.taken();
        assert!(taken.counts == ClientCounts::default() && taken.alive == 0);
    }
}
