//! Who is next, where several clients wait for the same thing.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

/// Whom something is done for. Addresses take turns, and so do the clients of an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// Where it is; `None`: this process, or the one that started it.
    pub address: Option<IpAddr>,
    /// Tells the clients of an address apart.
    pub id: u64,
}

/// What waits, each for its client.
#[derive(Debug)]
pub struct Line<T> {
    /// The clients for which something waits, in the order in which they came.
    waiting: Vec<Waiting<T>>,
    length: usize,
    /// When an address and a client had their last turns, counted in turns. Empty as soon as nothing
    /// waits.
    addresses: HashMap<Option<IpAddr>, u64>,
    clients: HashMap<Client, u64>,
    turns: u64,
}

/// What waits for a client.
#[derive(Debug)]
struct Waiting<T> {
    client: Client,
    items: VecDeque<T>,
    /// Since when, counted in turns.
    since: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let (addresses, clients) = (HashMap::new(), HashMap::new());
        Self { waiting: Vec::new(), length: 0, addresses, clients, turns: 0 }
    }
}

impl<T> Line<T> {
    /// Adds something at the end.
    pub fn add(&mut self, client: Client, item: T) {
        self.length += 1;
        match self.waiting.iter_mut().find(|waiting| waiting.client == client) {
            Some(waiting) => waiting.items.push_back(item),
            None => {
                self.waiting.push(Waiting { client, items: [item].into(), since: self.turns });
            }
        }
    }

    /// The number of items that wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What is next of those clients that `may` have a turn: of the address, and then of the client,
    /// whose last turn is the longest ago. Where clients have had none, every other turn is that of
    /// the one that came last: a crowd delays it by one turn, and not by all of theirs.
    pub fn take(&mut self, may: impl Fn(&Client) -> bool) -> Option<(Client, T)> {
        let all = self.waiting.iter().enumerate().filter(|(_, waiting)| may(&waiting.client));
        let (place, _) = all.min_by_key(|(place, waiting)| self.rank(*place, waiting))?;
        let waiting = self.waiting.get_mut(place)?;
        let (client, item) = (waiting.client, waiting.items.pop_front()?);
        if waiting.items.is_empty() {
            self.waiting.remove(place);
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

    fn rank(&self, place: usize, waiting: &Waiting<T>) -> (u64, u64, usize) {
        let address = self.addresses.get(&waiting.client.address).copied().unwrap_or_default();
        match self.clients.get(&waiting.client) {
            None if self.turns % 2 == 1 => (address, 0, self.waiting.len() - place),
            None => (address, waiting.since, place),
            Some(turn) => (address, *turn, place),
        }
    }
}

/// A number of turns that are given at a time.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    /// How often a turn has passed from one to another.
    passed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    free: usize,
    line: Line<oneshot::Sender<Turn>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn(Option<Arc<Turns>>);

impl Turns {
    /// So many at a time.
    pub fn new(free: usize) -> Self {
        let state = State { free, line: Line::default() };
        Self { state: Mutex::new(state), passed: watch::Sender::default() }
    }

    /// The next turn of a client: at once, or what to wait for.
    pub fn next(self: &Arc<Self>, client: Client) -> Result<Turn, oneshot::Receiver<Turn>> {
        let mut state = self.state();
        match state.free.checked_sub(1) {
            Some(free) => {
                state.free = free;
                Ok(Turn(Some(Arc::clone(self))))
            }
            None => {
                let (turn, waits) = oneshot::channel();
                state.line.add(client, turn);
                Err(waits)
            }
        }
    }

    /// Tells each time that a turn passes from one to another.
    pub fn passed(&self) -> watch::Receiver<u64> {
        self.passed.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut turn = Self(Some(Arc::clone(&turns)));
        let mut state = turns.state();
        while let Some((_, next)) = state.line.take(|_| true) {
            match next.send(turn) {
                Ok(()) => {
                    drop(state);
                    turns.passed.send_modify(|passed| *passed += 1);
                    return;
                }
                // It does not wait any more.
                Err(back) => turn = back,
            }
        }
        state.free += 1;
        turn.0 = None;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn client(address: u8, id: u64) -> Client {
        Client { address: Some([127, 0, 0, address].into()), id }
    }

    /// The turns of clients with so many items each, which all wait at the beginning.
    fn turns(waiting: &[(Client, usize)]) -> Vec<Client> {
        let mut line = Line::default();
        for (client, number) in waiting {
            (0..*number).for_each(|item| line.add(*client, item));
        }
        let mut last: HashMap<Client, usize> = HashMap::new();
        let turns = std::iter::from_fn(|| line.take(|_| true)).map(|(client, item)| {
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
    async fn turns_pass_to_those_who_still_wait() {
        let turns = Arc::new(Turns::new(1));
        let [one, other] = [client(1, 1), client(1, 2)];
        let first = turns.next(one).unwrap();
        let gone = turns.next(other).unwrap_err();
        let waits = turns.next(one).unwrap_err();
        drop(gone);
        drop(first);
        let second = waits.await.unwrap();
        let third = turns.next(other).unwrap_err();
        drop(second);
        // A turn that has come is not lost with who it was for.
        drop(third);
        assert!(turns.next(one).is_ok());
        assert_eq!(*turns.passed().borrow(), 2);
    }

    #[test]
    fn a_client_without_a_turn_delays_no_other() {
        let mut line = Line::default();
        let [one, other] = [client(1, 1), client(1, 2)];
        line.add(one, 1);
        line.add(other, 2);
        assert_eq!(line.take(|client| *client == other), Some((other, 2)));
        assert_eq!(line.take(|client| *client == other), None);
        assert_eq!(line.len(), 1);
        assert_eq!(line.take(|_| true), Some((one, 1)));
        assert!(line.is_empty());
    }
}
