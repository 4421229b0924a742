//! A queue and a semaphore that are fair among clients.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

/// The client on whose behalf something is done. Addresses take turns, and so do the clients of an
/// address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// The client's address; `None`: this process, or the one that started it.
    pub address: Option<IpAddr>,
    /// Distinguishes the clients of an address.
    pub id: u64,
}

/// How many things clients have, counted by client and by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    clients: HashMap<Client, usize>,
    addresses: HashMap<Option<IpAddr>, usize>,
}

impl ClientCounts {
    /// Counts one more for a client.
    pub fn add(&mut self, client: Client) {
        *self.clients.entry(client).or_default() += 1;
        *self.addresses.entry(client.address).or_default() += 1;
    }

    /// Counts one less for a client.
    pub fn remove(&mut self, client: Client) {
        decrement(&mut self.clients, client);
        decrement(&mut self.addresses, client.address);
    }

    /// The number for a client.
    pub fn of_client(&self, client: Client) -> usize {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// The number for all clients of an address.
    pub fn of_address(&self, address: Option<IpAddr>) -> usize {
        self.addresses.get(&address).copied().unwrap_or_default()
    }

    /// The clients whose number is not zero.
    pub fn clients(&self) -> impl Iterator<Item = Client> {
        self.clients.keys().copied()
    }
}

fn decrement<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// A queue from which clients take turns.
#[derive(Debug)]
pub struct FairQueue<T> {
    /// The clients with items, in the order in which they came.
    waiting: Vec<Waiting<T>>,
    length: usize,
    /// The number of the last turn of each address and each client. Cleared when the queue is
    /// empty.
    addresses: HashMap<Option<IpAddr>, u64>,
    clients: HashMap<Client, u64>,
    turns: u64,
}

/// The items of a client.
#[derive(Debug)]
struct Waiting<T> {
    client: Client,
    items: VecDeque<T>,
    /// The number of the turn in which the client came.
    since: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        let (addresses, clients) = (HashMap::new(), HashMap::new());
        Self { waiting: Vec::new(), length: 0, addresses, clients, turns: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds an item behind the others of its client.
    pub fn push(&mut self, client: Client, item: T) {
        self.length += 1;
        match self.waiting.iter_mut().find(|waiting| waiting.client == client) {
            Some(waiting) => waiting.items.push_back(item),
            None => {
                self.waiting.push(Waiting { client, items: [item].into(), since: self.turns });
            }
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the queue has no items.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes and returns the next item of the clients for which `may` returns true: of the
    /// address, and then of the client, whose last turn was the longest ago. Among clients that had
    /// no turn yet, every other turn goes to the one that came last, so that a crowd delays it by
    /// one turn, not by all of theirs.
    pub fn pop(&mut self, may: impl Fn(&Client) -> bool) -> Option<(Client, T)> {
        let all = self.waiting.iter().enumerate().filter(|(_, waiting)| may(&waiting.client));
        let (index, _) = all.min_by_key(|(index, waiting)| self.rank(*index, waiting))?;
        let waiting = self.waiting.get_mut(index)?;
        let (client, item) = (waiting.client, waiting.items.pop_front()?);
        if waiting.items.is_empty() {
            self.waiting.remove(index);
        }
        self.length -= 1;
        if self.is_empty() {
            self.addresses.clear();
            self.clients.clear();
            self.turns = 0;
        } else {
            self.turns += 1;
            self.addresses.insert(client.address, self.turns);
            self.clients.insert(client, self.turns);
        }
        Some((client, item))
    }

    fn rank(&self, index: usize, waiting: &Waiting<T>) -> (u64, u64, usize) {
        let address = self.addresses.get(&waiting.client.address).copied().unwrap_or_default();
        match self.clients.get(&waiting.client) {
            None if self.turns % 2 == 1 => (address, 0, self.waiting.len() - index),
            None => (address, waiting.since, index),
            Some(turn) => (address, *turn, index),
        }
    }
}

/// A semaphore whose permits go to clients in turn.
#[derive(Debug)]
pub struct FairSemaphore {
    state: Mutex<SemaphoreState>,
    /// How often a permit was handed from one holder to the next.
    handovers: watch::Sender<u64>,
}

#[derive(Debug)]
struct SemaphoreState {
    free: usize,
    queue: FairQueue<oneshot::Sender<Permit>>,
}

/// A permit of a [`FairSemaphore`], which is released when it is dropped.
#[derive(Debug)]
pub struct Permit(Option<Arc<FairSemaphore>>);

impl FairSemaphore {
    /// Creates a semaphore with a number of permits.
    pub fn new(permits: usize) -> Self {
        let state = SemaphoreState { free: permits, queue: FairQueue::default() };
        Self { state: Mutex::new(state), handovers: watch::Sender::default() }
    }

    /// Returns a permit, or the receiver of one if none is free.
    pub fn acquire(self: &Arc<Self>, client: Client) -> Result<Permit, oneshot::Receiver<Permit>> {
        let mut state = self.state();
        match state.free.checked_sub(1) {
            Some(free) => {
                state.free = free;
                Ok(Permit(Some(Arc::clone(self))))
            }
            None => {
                let (sender, receiver) = oneshot::channel();
                state.queue.push(client, sender);
                Err(receiver)
            }
        }
    }

    /// Returns a receiver that is notified whenever a permit is handed to the next holder.
    pub fn handovers(&self) -> watch::Receiver<u64> {
        self.handovers.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(semaphore) = self.0.take() else { return };
        let mut permit = Self(Some(Arc::clone(&semaphore)));
        let mut state = semaphore.state();
        while let Some((_, next)) = state.queue.pop(|_| true) {
            match next.send(permit) {
                Ok(()) => {
                    drop(state);
                    semaphore.handovers.send_modify(|handovers| *handovers += 1);
                    return;
                }
                // The receiver was dropped.
                Err(back) => permit = back,
            }
        }
        state.free += 1;
        permit.0 = None;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn client(address: u8, id: u64) -> Client {
        Client { address: Some([127, 0, 0, address].into()), id }
    }

    /// Returns the order in which clients get their turns, if each has a number of items from the
    /// beginning.
    fn turns(waiting: &[(Client, usize)]) -> Vec<Client> {
        let mut queue = FairQueue::default();
        for (client, number) in waiting {
            (0..*number).for_each(|item| queue.push(*client, item));
        }
        let mut last: HashMap<Client, usize> = HashMap::new();
        let turns = std::iter::from_fn(|| queue.pop(|_| true)).map(|(client, item)| {
            assert!(last.insert(client, item).is_none_or(|last| last < item), "{client:?}");
            client
        });
        turns.collect()
    }

    #[test]
    fn clients_take_turns() {
        let [one, other] = [client(1, 1), client(1, 2)];
        let turns = turns(&[(one, 100), (other, 3)]);
        assert_eq!(turns.len(), 103);
        let last = turns.iter().rposition(|client| *client == other).unwrap();
        assert!(last <= 6, "{last}");
    }

    #[test]
    fn addresses_take_turns_however_many_clients_they_have() {
        let mut waiting: Vec<(Client, usize)> = (0..100).map(|id| (client(1, id), 1)).collect();
        waiting.push((client(2, 0), 3));
        let turns = turns(&waiting);
        let last = turns.iter().rposition(|turn| *turn == client(2, 0)).unwrap();
        assert!(last <= 6, "{last}");
    }

    #[test]
    fn a_crowd_delays_the_last_client_by_a_turn_or_two() {
        let mut waiting: Vec<(Client, usize)> = (0..100).map(|id| (client(1, id), 1)).collect();
        waiting.push((client(1, 1000), 1));
        let turns = turns(&waiting);
        assert!(turns[..2].contains(&client(1, 1000)), "{:?}", &turns[..2]);
        assert_eq!(turns[0], client(1, 0));
    }

    #[tokio::test]
    async fn permits_are_handed_to_receivers_that_still_wait() {
        let semaphore = Arc::new(FairSemaphore::new(1));
        let [one, other] = [client(1, 1), client(1, 2)];
        let first = semaphore.acquire(one).unwrap();
        let gone = semaphore.acquire(other).unwrap_err();
        let waits = semaphore.acquire(one).unwrap_err();
        drop(gone);
        drop(first);
        let second = waits.await.unwrap();
        let third = semaphore.acquire(other).unwrap_err();
        drop(second);
        // A permit that was sent is not lost with its receiver.
        drop(third);
        assert!(semaphore.acquire(one).is_ok());
        assert_eq!(*semaphore.handovers().borrow(), 2);
    }

    #[test]
    fn a_client_without_a_turn_delays_no_other() {
        let mut queue = FairQueue::default();
        let [one, other] = [client(1, 1), client(1, 2)];
        queue.push(one, 1);
        queue.push(other, 2);
        assert_eq!(queue.pop(|client| *client == other), Some((other, 2)));
        assert_eq!(queue.pop(|client| *client == other), None);
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.pop(|_| true), Some((one, 1)));
        assert!(queue.is_empty());
    }
}
